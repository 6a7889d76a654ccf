"""What events leave behind for later ones: statistics of their entities."""

from streamk.memory.entities import EntityTable, entity_number

__all__ = ["EntityTable", "entity_number"]
