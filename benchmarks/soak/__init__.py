"""Minutes of `streamk run` at full load, and what its memory does meanwhile."""
