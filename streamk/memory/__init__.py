"""Statistics that events leave behind, of their entities, for later ones."""

from streamk.memory.entities import EntityTable, entity_number

__all__ = ["EntityTable", "entity_number"]
