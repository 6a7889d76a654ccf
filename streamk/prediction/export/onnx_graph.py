"""A graph of ONNX that is put together node by node."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamk.errors import BackendUnavailable

__all__ = ["Graph"]

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_FORMAT = 8
"""Version of the file's format that goes with these, for runtimes that are some years old."""


class Graph:
    """Nodes, constants, inputs and outputs; each number is known by its name.

    Raises
    ------
    BackendUnavailable
        If the package onnx is not installed.
    """

    def __init__(self) -> None:
        try:
            self.onnx: Any = importlib.import_module("onnx")
        except ImportError as error:
            raise BackendUnavailable(
                f"a model is written as ONNX by a package that is missing here ({error}); install "
                "it with: pip install onnx"
            ) from error
        self._helper = self.onnx.helper
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._ends: dict[str, list[Any]] = {"inputs": [], "outputs": []}

    def constant(self, values: ArrayLike, dtype: Any = None) -> str:
        """Return the name of an array of numbers that is always the same."""
        name = self._name("constant")
        self._constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def constant_texts(self, texts: Sequence[bytes]) -> str:
        """Return the name of texts, in UTF-8, that are always the same."""
        name, kind = self._name("constant"), self.onnx.TensorProto.STRING
        self._constants.append(self._helper.make_tensor(name, kind, [len(texts)], texts))
        return name

    def node(
        self, operator: str, *inputs: str, domain: str = "", name: str | None = None, **options: Any
    ) -> str:
        """Return the name of what an operator makes of inputs; an output has the `name` given."""
        name = name or self._name(operator)
        made = self._helper.make_node(operator, inputs, [name], domain=domain, **options)
        self._nodes.append(made)
        return name

    def cast(self, value: str, dtype: str) -> str:
        """Return the name of a value as "FLOAT", "DOUBLE" or "INT64"."""
        return self.node("Cast", value, to=getattr(self.onnx.TensorProto, dtype))

    def numbers(self, name: str, columns: int, *, double: bool) -> str:
        """Add an input (n, columns), double or float32; return the name of its value as double."""
        self._add("inputs", name, "DOUBLE" if double else "FLOAT", ["n", columns])
        return name if double else self.cast(name, "DOUBLE")

    def texts(self, name: str) -> str:
        """Add an input (n, 1) of texts; return its name."""
        self._add("inputs", name, "STRING", ["n", 1])
        return name

    def output(self, name: str, dtype: str, *columns: int) -> None:
        """Say that what is called so, (n, *columns), is an output."""
        self._add("outputs", name, dtype, ["n", *columns])

    def _add(self, end: str, name: str, dtype: str, shape: list[str | int]) -> None:
        kind = getattr(self.onnx.TensorProto, dtype)
        self._ends[end].append(self._helper.make_tensor_value_info(name, kind, shape))

    def model(self, properties: dict[str, str], version: str) -> Any:
        """Return the model, checked by ONNX."""
        graph = self._helper.make_graph(
            self._nodes, "streamk", self._ends["inputs"], self._ends["outputs"], self._constants
        )
        model = self._helper.make_model(
            graph,
            opset_imports=[self._helper.make_opsetid(*opset) for opset in _OPSETS.items()],
            ir_version=_FORMAT,
            producer_name="streamk",
            producer_version=version,
        )
        self._helper.set_model_props(model, properties)
        self.onnx.checker.check_model(model)
        return model

    def _name(self, what: str) -> str:
        # Inputs have the names of fields, and none of them begins like this.
        return f"streamk/{len(self._nodes) + len(self._constants)}/{what}"
