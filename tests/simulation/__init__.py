"""A seeded simulator of everything around the engine: log, group, disk, sinks, clock, crashes.

The engine that runs in it is the real one. A run is a function of its seed alone:
``python -m tests.simulation --seed N --trace`` repeats one step by step.
"""
