"""Frozen scenarios against peers: each prints a table and writes JSON; see README.md beside this.

Run from the repository's root::

    python -m benchmarks.first_light --data DIR
    python -m benchmarks.adult --data DIR
    python -m benchmarks.speed --data DIR
    python -m benchmarks.engine --data DIR
    python -m benchmarks.features
    python -m benchmarks.step --data DIR
    python -m benchmarks.memory
    python -m benchmarks.scaling
    python -m benchmarks --data DIR          # all of them and the page of results
"""
