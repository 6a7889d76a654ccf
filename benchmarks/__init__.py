"""Frozen scenarios against peers: each prints a table and writes JSON; see README.md beside this.

``python -m benchmarks.NAME --data DIR`` runs one, from the repository's root.
"""
