"""A compiled model as ONNX, for the runtimes that read it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamk import __version__
from streamk.backends import FARTHEST_LOCAL, LocalKernels
from streamk.errors import InvalidInput
from streamk.prediction.compiled import CompiledModel
from streamk.prediction.export.fields import EventSchema, as_utf8, fields_of
from streamk.prediction.export.leaves import leaves_of, paths
from streamk.prediction.export.onnx_events import columns_of
from streamk.prediction.export.onnx_graph import Graph

__all__ = ["to_onnx"]

_ROUNDED = 1e-3
"""Deviations of a column by which float32 may round its values; beyond that an input is double."""


def to_onnx(
    model: CompiledModel,
    path: str | os.PathLike[str],
    *,
    schema: EventSchema | None = None,
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
    found: NDArray[np.bool_] = (rounding > _ROUNDED) | (values > single.max)
    return found


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
    squares, landmarks, exponents, weights, bias = map(
        graph.constant,
        (
            leaves.squares[:, :, None],
            leaves.landmarks,
            leaves.exponents,
            leaves.weights,
            leaves.bias,
        ),
    )
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
                f"the classes {first!r} and {other!r} are of two types, and labels of ONNX are of "
                "one; make all labels texts"
            )
    if isinstance(first, str):
        return graph.constant_texts([as_utf8(str(text)) for text in model.classes]), "STRING"
    if isinstance(first, bool):
        return graph.constant(model.classes, np.bool_), "BOOL"
    try:
        return graph.constant(model.classes, np.int64), "INT64"
    except OverflowError:
        raise InvalidInput(
            f"the class {max(map(int, model.classes), key=abs)} is past the whole numbers of ONNX, "
            "of 64 bits with a sign; make all labels texts"
        ) from None
