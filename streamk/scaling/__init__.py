"""Scales of columns and labels: running ones, of all events before one, and fixed ones."""
