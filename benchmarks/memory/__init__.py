"""Random features kept or made again: time, memory, and where to switch.

The parts, each a module with `measure(...)` and `render(...)`:

regenerated  nothing kept against everything kept
budget       all shares between
state        bytes of a model's state
"""
