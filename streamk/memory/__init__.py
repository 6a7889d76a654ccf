"""The past of a stream as columns of its next event: labels that are known, and entities."""

from streamk.memory.entities import ENTITY, EntityTable, entity_number

__all__ = ["ENTITY", "EntityTable", "entity_number"]
