"""The past of a stream as columns of its next event: labels that are known, and entities."""

from streamk.memory.entities import EntityTable, entity_number

__all__ = ["EntityTable", "entity_number"]
