"""Compiled models in other forms, for programs without Python: C."""

from streamk.prediction.export.c_export import to_c

__all__ = ["to_c"]
