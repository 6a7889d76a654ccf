"""Compiled models in other forms, for programs without Python: C and ONNX."""

from streamk.export.c_code import to_c
from streamk.export.onnx import to_onnx

__all__ = ["to_c", "to_onnx"]
