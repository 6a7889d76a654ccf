"""How fast, against what else could be done on the same machine in the same run.

The parts, each a module with `measure(...)` and `rows(...)`:

memory   the engine from memory
river    the River adapter one event at a time, against ARF
state    bytes of a model's state; seconds of an import
"""
