"""Checkpoints in an object store, through fsspec."""
