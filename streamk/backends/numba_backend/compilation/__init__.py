"""Compilation of functions, their cache, and calls by their addresses."""
