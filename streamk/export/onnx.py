"""A graph of ONNX that is put together node by node."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import __version__
from streamk.backends import FARTHEST_LOCAL, NOWHERE, LocalKernels, filled
from streamk.encoding import Schema
from streamk.errors import BackendUnavailable, InvalidInput
from streamk.export.fields import ExportField, as_utf8, fields_of
from streamk.features.columns import BOOLEANS, MISSING
from streamk.prediction.compiled import CompiledModel

_OPSETS = {"": 17, "ai.onnx.ml": 3}
_FORMAT = 8
"""Version of the file's format that goes with these, for runtimes that are some years old."""


class Graph:
    """Nodes, constants, inputs and outputs; each number is known by its name.

    Raises `BackendUnavailable` if the package onnx is not installed.
    """

    def __init__(self) -> None:
        try:
            self.onnx: Any = importlib.import_module("onnx")
        except ImportError as error:
            raise BackendUnavailable(
                f"writing ONNX needs the package onnx ({error}): pip install onnx"
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
        """Add an operator, and return the name of its result; an output has the given `name`."""
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
        """Declare a named value of shape (n, *columns) as an output."""
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


Numbers = NDArray[Any]


class Leaves(NamedTuple):
    """The models of all leaves, each padded with weights of 0.

    Of a scaled event z, ``c_j = exp(exponent_j + z . landmark_j + z^2 . squares)``. Scores are a
    linear function of these and of products of two. All is float32 where nothing is said.
    """

    squares: Numbers
    """(leaves, d)"""
    exponents: Numbers
    """(leaves, landmarks)"""
    landmarks: Numbers
    """(leaves, d, landmarks)"""
    pairs: Numbers
    """int64 (2, leaves, pairs)"""
    weights: Numbers
    """(leaves, landmarks + pairs, outputs)"""
    bias: Numbers
    """(leaves, outputs), `NOWHERE` where a leaf lacks the output"""
    lacks: Numbers
    """bool (leaves, outputs)"""


def leaves_of(model: LocalKernels, n_outputs: int) -> Leaves:
    """Return the leaves of a model, with one landmark at least."""
    count, d = len(model.leaves), len(model.shift)
    most, products, _ = model.leaves[:, :3].max(axis=0).tolist()
    most = max(1, most)
    found = Leaves(
        np.zeros((count, d), np.float32),
        np.full((count, most), NOWHERE, np.float32),
        np.zeros((count, d, most), np.float32),
        np.zeros((2, count, products), np.int64),
        np.zeros((count, most + products, n_outputs), np.float32),
        np.full((count, n_outputs), NOWHERE, np.float32),
        np.ones((count, n_outputs), bool),
    )
    for leaf, (m, p, q, at, pair, output) in enumerate(model.leaves.tolist()):
        wide, width, stride = filled(m), filled(q), 1 if q == 1 else filled(q)
        lengths = (filled(d), wide, d * wide, width, (wide + p) * stride)
        parts = np.split(model.numbers[at:], np.cumsum(lengths))
        outputs = model.outputs[output : output + q]
        weights = parts[4].reshape(wide + p, stride)[:, :q]
        found.squares[leaf] = parts[0][:d]
        found.exponents[leaf, :m] = parts[1][:m]
        found.landmarks[leaf, :, :m] = parts[2].reshape(d, wide)[:, :m]
        found.pairs[:, leaf, :p] = model.pairs[pair : pair + p].T
        found.weights[leaf, :m, outputs] = weights[:m].T
        found.weights[leaf, most : most + p, outputs] = weights[wide:].T
        found.bias[leaf, outputs] = parts[3][:q]
        found.lacks[leaf, outputs] = False
    return found


def paths(children: NDArray[np.int64], root: int) -> tuple[Numbers, NDArray[np.int64]]:
    """Return the sides on which the leaves of a tree are, and their numbers, int64 (leaves,).

    Sides are float32 (nodes, leaves): +1 and -1 where a leaf is on a node's second and first side,
    0 where it is not below it. Children (nodes, 2) are of all trees; the root is the tree's first
    node, or its only leaf.
    """
    columns, numbers = [], []
    left = [(root, np.zeros(len(children), np.float32))]
    while left:
        place, sides = left.pop()
        if place < 0:
            columns.append(sides)
            numbers.append(-1 - place)
            continue
        for child, side in zip(children[place].tolist(), (-1.0, 1.0), strict=True):
            below = sides.copy()
            below[place] = side
            left.append((child, below))
    return np.stack(columns, axis=1), np.array(numbers, np.int64)


OUTPUTS = ("label", "number", "probabilities")
"""Names that no input may have."""


def columns_of(graph: Graph, fields: Sequence[ExportField], doubles: NDArray[np.bool_]) -> str:
    """Return the columns, double (n, d), of fields that are an input (n, 1) each.

    Of numbers it is double where `doubles` (d,) says so, else float32. Raises `InvalidInput` if an
    input cannot be what a field holds.
    """
    _check(fields)
    blocks, places = [], []
    for field in fields:
        if field.number is not None:
            double = bool(doubles[field.number])
            blocks.append(graph.numbers(field.name, 1, double=double))
            places.append(field.number)
        else:
            blocks.append(_of_texts(graph, field))
            places += field.texts.values()
    together = graph.node("Concat", *blocks, axis=1)
    return graph.node("Gather", together, graph.constant(np.argsort(places)), axis=1)


def _of_texts(graph: Graph, field: ExportField) -> str:
    """Return 1 in the column of the text and 0 in the others; NaN if it is missing."""
    missing = -2
    texts = {text: place for place, text in enumerate(field.texts)}
    texts |= dict.fromkeys(MISSING, missing)
    texts |= {text: texts[text.lower()] for text in BOOLEANS if text.lower() in texts}
    number = graph.node(
        "LabelEncoder",
        graph.texts(field.name),
        domain="ai.onnx.ml",
        keys_strings=list(texts),
        values_int64s=list(texts.values()),
        default_int64=-1,
    )
    held = graph.node("Equal", number, graph.constant(np.arange(len(field.texts))[None]))
    lacking = graph.node("Equal", number, graph.constant([missing], np.int64))
    nothing = graph.constant([np.nan])
    return graph.node("Where", lacking, nothing, graph.cast(held, "DOUBLE"))


def _check(fields: Sequence[ExportField]) -> None:
    names = [field.name for field in fields]
    for text in (text for field in fields for text in (field.name, *field.texts)):
        as_utf8(text)
    for field in fields:
        taken = field.name in OUTPUTS or field.name.startswith("streamk/")
        if not field.name or taken or names.count(field.name) > 1:
            raise InvalidInput(
                f"a field is called {field.name!r}, which cannot name an ONNX input: names must "
                "be unique, not empty, not begin with streamk/ and not be one of "
                f"{', '.join(OUTPUTS)}; rename it"
            )
        if field.number is not None and field.texts:
            raise InvalidInput(
                f"field {field.name!r} holds numbers and texts, but an ONNX input holds only one "
                "of them; give each a field, or encode events before the model (leave out schema=)"
            )
        if field.shared:
            raise InvalidInput(
                f"column '{field.name}=#{min(field.shared)}' is shared by texts, by a hash that "
                "ONNX does not have; encode events before the model (leave out schema=)"
            )
        if not field.of_texts and field.texts:
            raise InvalidInput(
                f"field {field.name!r} has texts in lists that alone would be read as numbers; "
                "encode events before the model (leave out schema=)"
            )


_ROUNDED = 1e-3
"""Deviations of a column by which float32 may round its values; beyond that an input is double."""


def to_onnx(
    model: CompiledModel,
    path: str | os.PathLike[str],
    *,
    schema: Schema | None = None,
) -> None:
    """Write a model as ONNX (operators of version 17), in place of any file there.

    Its input is ``X`` (n, d), of which NaN is missing: float32, or double where float32 would
    round the values of a column to more than a thousandth of their deviation, as of times in
    seconds since 1970. Outputs are ``label`` (n,), texts, int64 or booleans, and ``probabilities``,
    float32 (n, classes); or ``number``, double (n,). They are what `CompiledModel.predict_many` and
    `predict_proba_many` give, up to the rounding of float32, but an infinite value counts as a
    large one. The properties ``columns`` and ``classes`` are their names, in JSON.

    All hyperplanes are evaluated at once, and what a leaf has is copied for each event of it, so
    batches should have some thousand events at most.

    Parameters
    ----------
    model : CompiledModel
    path : str or path
    schema : streamk.encoding.Schema, optional
        How events became the model's columns. Then each field is an input (n, 1) by its name,
        float32, double or texts: NaN, an empty text and one such as "NA" are missing. What is
        unknown counts as with ``mode="fixed"``.

    Raises
    ------
    InvalidInput
        If the file cannot be written, classes are of several types, past 64 bits or none in UTF-8,
        or the schema's columns are not the model's, or are made from times, from hashes of texts,
        or from numbers and texts of one field.
    BackendUnavailable
        If the package onnx is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from streamk.prediction import dc_pred
    >>> model = dc_pred([[0.0], [1.0]] * 20, ["no", "yes"] * 20, leaves=1, landmarks=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_onnx(model, Path(folder) / "model.onnx")
    ...     (Path(folder) / "model.onnx").stat().st_size > 1000
    True
    """
    graph = Graph()
    doubles = _doubles(model.kernels)
    if schema is None:
        X = graph.numbers("X", model.width, double=bool(doubles.any()))
    else:
        X = columns_of(graph, fields_of(schema, model.columns, model.width), doubles)
    scores = _scores(graph, model, _scaled(graph, model, X))
    if model.classes:
        _classes(graph, model, scores)
    else:
        score = graph.cast(graph.node("Squeeze", scores, graph.constant([1], np.int64)), "DOUBLE")
        above = graph.node("Mul", score, graph.constant(model.deviation))
        graph.node("Add", above, graph.constant(model.mean), name="number")
        graph.output("number", "DOUBLE")
    properties = {"classes": json.dumps(model.classes), "columns": json.dumps(model.columns)}
    try:
        graph.onnx.save_model(graph.model(properties, __version__), os.fspath(path))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def _doubles(kernels: LocalKernels) -> NDArray[np.bool_]:
    """Return which columns (d,) float32 would round by too much of their deviation."""
    single, factor = np.finfo(np.float32), kernels.factor
    # The factor of a constant column is 0: its values do not count.
    values = np.abs(kernels.shift) + 1.0 / np.where(factor > 0.0, factor, 1.0)
    rounding = 0.5 * single.eps * np.maximum(values, single.tiny) * factor
    return np.asarray((rounding > _ROUNDED) | (values > single.max))


def _scaled(graph: Graph, model: CompiledModel, X: str) -> str:
    """Return scaled events; in double precision, as large numbers may differ by little."""
    kernels = model.kernels
    known = graph.node("Where", graph.node("IsNaN", X), graph.constant(kernels.fill), X)
    scaled = graph.node(
        "Mul",
        graph.node("Sub", known, graph.constant(kernels.shift)),
        graph.constant(kernels.factor),
    )
    bounds = (graph.constant(bound, np.float64) for bound in (-FARTHEST_LOCAL, FARTHEST_LOCAL))
    return graph.cast(graph.node("Clip", scaled, *bounds), "FLOAT")


def _scores(graph: Graph, model: CompiledModel, Z: str) -> str:
    """Return the scores (n, outputs), means over the trees."""
    kernels = model.kernels
    evaluate = _leaf_evaluation(graph, model, Z)
    sides = ""
    if len(kernels.children):
        along = graph.node("MatMul", Z, graph.constant(kernels.normals.T))
        second = graph.node("GreaterOrEqual", along, graph.constant(kernels.offsets))
        sides = graph.cast(second, "FLOAT")
    found = [
        evaluate(_leaf(graph, kernels.children, root, sides, Z)) for root in kernels.roots.tolist()
    ]
    return graph.node("Mean", *found)


def _leaf(graph: Graph, children: NDArray[np.int64], root: int, sides: str, Z: str) -> str:
    """Return the numbers (n,) of leaves: of all leaves one has no step on the other side."""
    above, numbers = paths(children, root)
    if len(numbers) == 1:
        value = graph.onnx.numpy_helper.from_array(numbers)
        return graph.node("ConstantOfShape", graph.node("Shape", Z, start=0, end=1), value=value)
    steps = graph.node("MatMul", sides, graph.constant(above))
    wrong = graph.node("Sub", steps, graph.constant((above > 0.0).sum(axis=0), np.float32))
    place = graph.node("ArgMax", wrong, axis=1, keepdims=0)
    return graph.node("Gather", graph.constant(numbers), place, axis=0)


def _leaf_evaluation(graph: Graph, model: CompiledModel, Z: str) -> Callable[[str], str]:
    """Return the function from the numbers (n,) of leaves to their scores (n, outputs)."""
    leaves = leaves_of(model.kernels, model.n_outputs)
    squares = graph.constant(leaves.squares[:, :, None])
    landmarks, exponents = graph.constant(leaves.landmarks), graph.constant(leaves.exponents)
    weights, bias = graph.constant(leaves.weights), graph.constant(leaves.bias)
    pairs = [graph.constant(places) for places in leaves.pairs if places.size]
    if model.n_outputs > 1:
        lacks, absent = map(graph.constant, (leaves.lacks, model.kernels.absent[:, None]))
    second, zero = graph.constant([1], np.int64), graph.constant(0.0, np.float32)
    squared = graph.node("Mul", Z, Z)

    def product(rows: str, matrices: str, leaf: str) -> str:
        chosen = graph.node("Gather", matrices, leaf, axis=0)
        found = graph.node("MatMul", graph.node("Unsqueeze", rows, second), chosen)
        return graph.node("Squeeze", found, second)

    def evaluate(leaf: str) -> str:
        """Return the name of the scores by the model of a leaf."""

        def of_leaf(array: str) -> str:
            return graph.node("Gather", array, leaf, axis=0)

        powers = graph.node("Add", product(Z, landmarks, leaf), of_leaf(exponents))
        powers = graph.node("Add", powers, product(squared, squares, leaf))
        basis = graph.node("Exp", graph.node("Min", powers, zero))
        if pairs:
            both = [graph.node("GatherElements", basis, of_leaf(each), axis=1) for each in pairs]
            basis = graph.node("Concat", basis, graph.node("Mul", *both), axis=1)
        scores = graph.node("Add", product(basis, weights, leaf), of_leaf(bias))
        if model.n_outputs == 1:
            return scores
        greatest = graph.node("ReduceMax", scores, axes=[1], keepdims=1)
        below = graph.node("Sub", scores, greatest)
        return graph.node("Where", of_leaf(lacks), of_leaf(absent), below)

    return evaluate


def _classes(graph: Graph, model: CompiledModel, scores: str) -> None:
    """Add labels and probabilities."""
    weighted = graph.node("Add", scores, graph.constant(model.log_weights, np.float32))
    if model.n_outputs == 1:
        both = graph.node("Concat", graph.node("Neg", scores), scores, axis=1)
        graph.node("Sigmoid", both, name="probabilities")
        second = graph.node("Greater", weighted, graph.constant(0.0, np.float32))
        place = graph.node("Squeeze", graph.cast(second, "INT64"), graph.constant([1], np.int64))
    else:
        graph.node("Softmax", scores, axis=1, name="probabilities")
        place = graph.node("ArgMax", weighted, axis=1, keepdims=0)
    classes, kind = _labels(graph, model)
    graph.node("Gather", classes, place, axis=0, name="label")
    graph.output("label", kind)
    graph.output("probabilities", "FLOAT", len(model.classes))


def _labels(graph: Graph, model: CompiledModel) -> tuple[str, str]:
    """Return the name of the classes as a constant, and its type."""
    first = model.classes[0]
    for other in model.classes:
        if type(other) is not type(first):
            raise InvalidInput(
                f"the classes {first!r} and {other!r} have two types, but ONNX labels have one; "
                "make all labels texts"
            )
    if isinstance(first, str):
        return graph.constant_texts([as_utf8(str(text)) for text in model.classes]), "STRING"
    if isinstance(first, bool):
        return graph.constant(model.classes, np.bool_), "BOOL"
    try:
        return graph.constant(model.classes, np.int64), "INT64"
    except OverflowError:
        raise InvalidInput(
            f"the class {max(map(int, model.classes), key=abs)} is too large for ONNX, whose "
            "whole numbers have 64 bits; make all labels texts"
        ) from None
