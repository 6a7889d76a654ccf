"""A model that predicts in microseconds: its arrays, their layout, and its file."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import (
    FARTHEST_LOCAL,
    LANES,
    LEAF,
    NOWHERE,
    ROUNDING,
    LocalKernels,
    filled,
    loops,
)
from streamk.declared import NON_NEGATIVE, POSITIVE, Declared, Domain, listed, number, taken, within
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.packing import canonical, pack, unpack
from streamk.prediction.tree import EXPONENTIAL, LocalModel, Tree
from streamk.state import JSON, State

Numbers = NDArray[Any]
Label = str | int | bool

_OWNER = "a compiled model"
_PLACES = Domain(least=0)
_SINGLE = Domain(-3.4e38, 3.4e38)
LEAST_ABSENT = -100.0
"""Score of a class that a leaf does not have, at least."""
DECLARED = (
    Declared("shift", "float64", ("columns",)),
    Declared("factor", "float64", ("columns",)),
    Declared("fill", "float64", ("columns",)),
    Declared("normals", "float32", ("nodes", "columns")),
    Declared("offsets", "float32", ("nodes",)),
    Declared("children", "int64", ("nodes", 2)),
    Declared("roots", "int64", ("trees",)),
    Declared("absent", "float32", ("leaves",), Domain(LEAST_ABSENT, 0.0)),
    Declared("leaves", "int64", ("leaves", LEAF), _PLACES),
    Declared("numbers", "float32", ("numbers",), _SINGLE),
    Declared("pairs", "int64", ("pairs", 2), _PLACES),
    Declared("outputs", "int64", ("outputs",), _PLACES),
    Declared("visits", "float64", ("leaves",), Domain(0.0, 1.0)),
    Declared("weights", "float64", ("classes",), POSITIVE),
)
"""The arrays of `LocalKernels`, the share of training events in each leaf of its tree, and the
weights of the classes in decisions."""
_HEADER = "header"
"""The array that holds the state's header, JSON as bytes."""
_LEAST_POWER = -963
"""Exponent of 2 of the greatest number of a column that is not constant: 1e-290."""
_TAIL = 1e-3
"""Share of a column's values on each side that its scale does not follow."""


class CompiledModel:
    """Trees of small kernel models, which predict an event in microseconds.

    `dc_pred` makes it from events and labels, `compile` from another model. An event is routed down
    each tree, compared with the landmarks of its leaf, and predicted by a linear function of these
    kernel values: the prediction of Algorithm 2 of Hsieh, Si and Dhillon 2014. Predictions of
    several trees, numbers or logarithmic probabilities, are averaged. It learns no more.

    Attributes
    ----------
    task : {"classification", "regression"}
    classes : tuple of str, int or bool
        In the order of the probabilities; () of regression.
    weights : float64 array of shape (classes,)
        The class with the largest product of weight and probability is the one predicted.
    columns : tuple of str or int, or None
        Names of the columns in their order, where they have some.
    kernels : LocalKernels
        The arrays that the loops read.
    """

    TYPE = "compiled"

    def __init__(
        self,
        kernels: LocalKernels,
        *,
        classes: Sequence[Label],
        columns: Sequence[Column] | None,
        visits: Numbers,
        mean: float = 0.0,
        deviation: float = 1.0,
        weights: Numbers | None = None,
    ) -> None:
        self.kernels = kernels
        self.classes = tuple(classes)
        self.columns = None if columns is None else tuple(columns)
        self.visits = visits
        """Share of the training events in each leaf of its tree."""
        self.mean, self.deviation = mean, deviation
        """Of the numbers: kernels predict how many deviations one is above the mean."""
        self.weights = np.ones(len(self.classes)) if weights is None else weights
        self._evaluator = loops.local_kernels.Evaluator(kernels)

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in vars(self).items() if name != "_evaluator"}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        vars(self).update(saved)
        # joblib hands out arrays that cannot be written, for which all loops would compile again.
        self.kernels = LocalKernels(*map(_writable, saved["kernels"]))
        self._evaluator = loops.local_kernels.Evaluator(self.kernels)

    @property
    def is_classifier(self) -> bool:
        """True if labels are classes, False if they are numbers."""
        return bool(self.classes)

    @property
    def task(self) -> str:
        """Return "classification" or "regression"."""
        return "classification" if self.classes else "regression"

    @property
    def width(self) -> int:
        """Return the number of columns."""
        return len(self.kernels.shift)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return sum(array.nbytes for array in self.kernels)

    @property
    def n_outputs(self) -> int:
        """Scores of an event: one for two classes and for numbers."""
        return len(self.classes) if len(self.classes) > 2 else 1

    @cached_property
    def log_weights(self) -> Numbers:
        """Return the offsets (outputs,) added to the scores before the greatest is chosen."""
        found = np.log(self.weights)
        return found[1:] - found[:1] if len(found) == 2 else found

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return trees, leaves of a tree, and landmarks of a leaf, at most, as of `dc_pred`."""
        trees, leaves = len(self.kernels.roots), self.kernels.leaves
        return trees, len(leaves) // trees, max(1, int(leaves[:, 0].max()))

    @property
    def cost(self) -> float:
        """Mean number of multiply-adds for an event, relative to a linear model.

        A linear model takes as many as there are columns, 16 at least, for each class if there are
        more than two. An exponential counts as 8.
        """
        d, leaves = self.width, self.kernels.leaves
        m, p, q = leaves[:, 0], leaves[:, 1], leaves[:, 2]
        above = depths(self.kernels.children, len(leaves))
        each = (m + 1 + above) * d + m * EXPONENTIAL + p + (m + p) * q
        return float(self.visits @ each) / linear_cost(d, self.n_outputs)

    def decision_many(self, X: ArrayLike) -> Numbers:
        """Return the scores of events X (n, d), float64 (n, outputs); NaN means missing.

        They are numbers; the logit of the second of two classes; or a score for each class, whose
        exponentials are in proportion to the probabilities. Raises `InvalidInput` if the shape does
        not fit, or a value is infinite.
        """
        rows = _writable(np.ascontiguousarray(X, np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise InvalidInput(f"events of shape {rows.shape} must have shape (n, {self.width})")
        out = np.empty((len(rows), self.n_outputs), np.float32)
        if (row := self._evaluator.scores(rows, out)) < len(rows):
            column = int(np.flatnonzero(np.isinf(rows[row]))[0])
            name = column if self.columns is None else self.columns[column]
            raise InvalidInput(
                f"column {name!r} of row {row} is {rows[row, column]}, which must be finite; "
                "NaN is missing"
            )
        return self.mean + self.deviation * out.astype(np.float64)

    def predict_many(self, X: ArrayLike) -> Numbers:
        """Return labels (object) or numbers (float64) of events X (n, d)."""
        scores = self.decision_many(X)
        if not self.classes:
            return scores[:, 0]
        labels: Numbers = np.empty(len(self.classes), object)
        labels[:] = self.classes
        weighted = scores + self.log_weights
        if len(self.classes) == 2:
            return np.asarray(labels[(weighted[:, 0] > 0.0).astype(np.intp)])
        return np.asarray(labels[weighted.argmax(axis=1)])

    def predict_proba_many(self, X: ArrayLike) -> Numbers:
        """Return probabilities (n, classes), float64, of events X (n, d)."""
        if not self.classes:
            raise InvalidInput("this model predicts numbers, which have no probabilities")
        scores = self.decision_many(X)
        if self.n_outputs == 1:
            second = 0.5 * (1.0 + np.tanh(0.5 * scores[:, 0]))
            return np.stack([1.0 - second, second], axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        found = np.exp(scores)
        found /= found.sum(axis=1, keepdims=True)
        return found

    def decision_one(self, x: ArrayLike) -> Numbers:
        """Return the scores (outputs,) of one event x (d,)."""
        row = np.asarray(x, np.float64)
        if row.ndim != 1:
            raise InvalidInput(f"an event of shape {row.shape} must have shape ({self.width},)")
        scores: Numbers = self.decision_many(row[None])[0]
        return scores

    def predict_one(self, x: ArrayLike) -> Any:
        """Return the label or number of one event x (d,), as `predict_many` would."""
        scores = self.decision_one(x)
        if not self.classes:
            return float(scores[0])
        weighted = scores + self.log_weights
        if len(self.classes) == 2:
            return self.classes[int(weighted[0] > 0.0)]
        return self.classes[weighted.argmax()]

    def predict_proba_one(self, x: ArrayLike) -> dict[Label, float]:
        """Return the probability of each class for one event x (d,)."""
        found = self.predict_proba_many(np.asarray(x, np.float64)[None])[0]
        return dict(zip(self.classes, found.tolist(), strict=True))

    def __repr__(self) -> str:
        trees, leaves, landmarks = self.shape
        return (
            f"<CompiledModel for {self.task}: {self.width} columns, {trees} x {leaves} leaves, "
            f"{landmarks} landmarks>"
        )

    def state(self) -> State:
        """Return all of the model, as `from_state` opens it."""
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "classes": list(self.classes),
            "columns": None if self.columns is None else list(self.columns),
            "mean": self.mean,
            "deviation": self.deviation,
        }
        arrays = self.kernels._asdict() | {"visits": self.visits, "weights": self.weights}
        return State(header, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the model of a state, or raise StateError if it does not fit."""
        header = state.expect(cls.TYPE).header
        classes = listed(header, "classes", _OWNER)
        named = header.get("columns") is not None
        columns = listed(header, "columns", _OWNER) if named else None
        if not all(isinstance(name, str | int) for name in [*classes, *(columns or ())]):
            raise StateError(f"names of columns and classes of {_OWNER} must be texts or ints")
        kernels, others = checked(state.arrays, len(classes))
        if columns is not None and len(columns) != len(kernels.shift):
            raise StateError(
                f"{_OWNER} has {len(columns)} names of columns, and arrays of {len(kernels.shift)}"
            )
        return cls(
            kernels,
            classes=classes,
            columns=columns,
            **others,
            mean=number(header, "mean", _OWNER),
            deviation=number(header, "deviation", _OWNER, NON_NEGATIVE),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file of safetensors, in place of any that is there.

        Raises
        ------
        InvalidInput
            If the file cannot be written.
        """
        state, path = self.state(), Path(path)
        header = np.frombuffer(canonical(state.header, indent=None), np.uint8)
        data = pack({**state.arrays, _HEADER: header})
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def _writable(array: Numbers) -> Numbers:
    return array if array.flags.writeable else array.copy()


def load(path: str | os.PathLike[str]) -> CompiledModel:
    """Open a file that `CompiledModel.save` wrote.

    Raises
    ------
    InvalidInput
        If the file cannot be read.
    StateError
        If it is damaged, or no compiled model.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    arrays = unpack(data, path)
    try:
        state = State(json.loads(arrays.pop(_HEADER).tobytes()), arrays)
    except (KeyError, ValueError, AttributeError, InvalidInput) as error:
        raise StateError(f"{path}: is not a readable model: {error}") from error
    return CompiledModel.from_state(state)


@dataclass(frozen=True)
class Scale:
    """Of a raw event x, ``(x - shift) * factor`` with `fill` where x is NaN; all are (d,)."""

    shift: Numbers
    factor: Numbers
    fill: Numbers

    @classmethod
    def of(cls, X: Numbers) -> Scale:
        """Return the scale of events (n, d): a constant column counts for nothing.

        The least and the greatest values of a column, a thousandth each and one at least, count as
        the next ones: a single number far out does not decide on the unit.
        """
        X = _without_tails(X)
        known = ~np.isnan(X)
        n = np.maximum(known.sum(axis=0), 1)
        zeroed = np.where(known, X, 0.0)
        # In units of a power of 2 near the greatest number, so that no sum or square overflows, or
        # vanishes; what is below 1e-290 counts as 0, so that no factor overflows.
        _, power = np.frexp(np.abs(zeroed).max(axis=0))
        zeroed = np.ldexp(zeroed, -power)
        mean = zeroed.sum(axis=0) / n
        deviation = np.sqrt(np.where(known, np.square(zeroed - mean), 0.0).sum(axis=0) / n)
        constant = (deviation <= ROUNDING * np.abs(mean)) | (power < _LEAST_POWER)
        factor = np.ldexp(1.0 / np.where(constant, 1.0, deviation), -np.where(constant, 0, power))
        shift = np.where(constant, 0.0, np.ldexp(mean, power))  # a factor of 0 needs none
        return cls(shift, np.where(constant, 0.0, factor), shift)

    def __call__(self, X: Numbers) -> Numbers:
        """Return scaled events (n, d)."""
        with np.errstate(over="ignore"):  # what is far away is bounded
            Z = (np.where(np.isnan(X), self.fill, X) - self.shift) * self.factor
        return np.asarray(np.clip(Z, -FARTHEST_LOCAL, FARTHEST_LOCAL))


def _without_tails(X: Numbers) -> Numbers:
    """Return events whose values are within quantiles of their columns, unless these are equal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column may have no value
        least = np.nanquantile(X, _TAIL, axis=0, method="higher")
        most = np.nanquantile(X, 1.0 - _TAIL, axis=0, method="lower")
    differ = most > least
    return np.asarray(np.clip(X, np.where(differ, least, -np.inf), np.where(differ, most, np.inf)))


def as_events(X: ArrayLike) -> Numbers:
    """Return events (n, d) as float64; raise InvalidInput unless they are, and two."""
    try:
        rows = np.ascontiguousarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"events must be numbers: {error}") from error
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InvalidInput(f"events of shape {rows.shape} must have shape (n, d) with columns")
    if len(rows) < 2:
        raise InvalidInput(f"there are {len(rows)} events, and at least 2 are needed")
    if np.isinf(rows).any():
        row, column = np.argwhere(np.isinf(rows))[0]
        raise InvalidInput(
            f"column {column} of row {row} is {rows[row, column]}, which must be finite; NaN is "
            "missing"
        )
    return rows


def laid_out(
    scale: Scale,
    trees: Sequence[Tree],
    models: Sequence[LocalModel],
    absent: Numbers,
) -> LocalKernels:
    """Return the arrays of trees with a model for each leaf, on scaled columns.

    `models` are those of the first tree's leaves, then of the second one's and so on, and `absent`
    how far the scores of outputs that they do not have are below the greatest.
    """
    children, roots = _joined(trees)
    numbers = [_numbers(model) for model in models]
    leaves = np.zeros((len(models), LEAF), np.int64)
    leaves[:, 0] = [len(model.landmarks) for model in models]
    leaves[:, 1] = [len(model.pairs) for model in models]
    leaves[:, 2] = [len(model.outputs) for model in models]
    leaves[:, 3] = _starts([len(some) for some in numbers])
    leaves[:, 4] = _starts(leaves[:, 1])
    leaves[:, 5] = _starts(leaves[:, 2])
    return LocalKernels(
        np.ascontiguousarray(scale.shift, np.float64),
        np.ascontiguousarray(scale.factor, np.float64),
        np.ascontiguousarray(scale.fill, np.float64),
        np.concatenate([tree.normals for tree in trees]).astype(np.float32),
        np.concatenate([tree.offsets for tree in trees]).astype(np.float32),
        children,
        roots,
        np.ascontiguousarray(absent, np.float32),
        leaves,
        np.concatenate(numbers).astype(np.float32),
        np.concatenate([model.pairs for model in models]).astype(np.int64).reshape(-1, 2),
        np.concatenate([model.outputs for model in models]).astype(np.int64),
    )


def _starts(counts: Any) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)


def _numbers(model: LocalModel) -> Numbers:
    """Return the numbers of a leaf."""
    m, d = model.landmarks.shape
    q = len(model.outputs)
    wide, outputs = filled(m), filled(q)
    exponents = np.full(wide, NOWHERE)
    exponents[:m] = -np.einsum("ij,ij->i", model.landmarks, model.landmarks)
    landmarks = np.zeros((d, wide))
    landmarks[:, :m] = 2.0 * (model.landmarks * model.scale).T
    weights = np.zeros((wide + len(model.pairs), q))
    weights[:m] = model.weights[:m]
    weights[wide:] = model.weights[m:]
    if q == 1:
        laid = np.zeros(filled(len(weights)))
        laid[: len(weights)] = weights[:, 0]
    else:
        laid = np.zeros((len(weights), outputs))
        laid[:, :q] = weights
    bias = np.full(outputs, NOWHERE)
    bias[:q] = model.bias
    squares = np.zeros(filled(d))
    squares[:d] = -np.square(model.scale)
    return np.concatenate([squares, exponents, landmarks.ravel(), bias, laid.ravel()])


def linear_cost(columns: int, outputs: int) -> int:
    """Return the multiply-adds of a linear model for one event.

    Fewer columns than LANES count as so many: that is what one instruction takes.
    """
    return max(columns, LANES) * outputs


def _joined(trees: Sequence[Tree]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the children and the roots of trees whose nodes and leaves are numbered on."""
    children, roots, nodes, leaves = [], [], 0, 0
    for tree in trees:
        below = tree.children
        children.append(np.where(below >= 0, below + nodes, below - leaves))
        roots.append(nodes if len(below) else -1 - leaves)
        nodes, leaves = nodes + len(below), leaves + tree.n_leaves
    return np.concatenate(children).astype(np.int64), np.array(roots, np.int64)


def depths(children: NDArray[np.int64], leaves: int) -> NDArray[np.int64]:
    """Return the number of hyperplanes above each of the leaves."""
    above = np.zeros(len(children), np.int64)
    found = np.zeros(leaves, np.int64)
    for node, below in enumerate(children.tolist()):
        for child in below:
            if child >= 0:
                above[child] = above[node] + 1
            else:
                found[-1 - child] = above[node] + 1
    return found


def checked(arrays: Mapping[str, Numbers], classes: int) -> tuple[LocalKernels, dict[str, Numbers]]:
    """Return the arrays of a state, and by name the arrays that the loops do not read."""
    found, _ = taken(DECLARED, arrays, {"classes": classes}, _OWNER)
    others = {name: found.pop(name) for name in ("visits", "weights")}
    outputs = classes if classes > 2 else 1
    model = LocalKernels(**{name: np.ascontiguousarray(each) for name, each in found.items()})
    _check_trees(model.children, model.roots, len(model.leaves))
    d = len(model.shift)
    m, p, q = (model.leaves[:, i] for i in range(3))
    within(q, Domain(1, outputs), "leaves", _OWNER)
    most = 2**40
    within(m, Domain(0, most // (d + outputs + 2 * LANES)), "leaves", _OWNER)
    within(p, Domain(0, most // outputs), "leaves", _OWNER)
    for name, i, lengths, end in (
        ("numbers", 3, _lengths(m, p, q, d), len(model.numbers)),
        ("pairs", 4, p, len(model.pairs)),
        ("outputs", 5, q, len(model.outputs)),
    ):
        if (model.leaves[:, i] != _starts(lengths)).any() or int(np.sum(lengths)) != end:
            raise StateError(f"array {name!r} of {_OWNER} does not fit with its leaves")
    if (model.pairs >= np.repeat(m, p)[:, None]).any():
        raise StateError(f"array 'pairs' of {_OWNER} names missing landmarks")
    within(model.outputs, Domain(0, outputs - 1), "outputs", _OWNER)
    return model, others


def _check_trees(children: NDArray[np.int64], roots: NDArray[np.int64], leaves: int) -> None:
    """Raise StateError unless each node and leaf is a root or the child of one node before it."""
    nodes = len(children)
    every = np.sort(np.concatenate([children.ravel(), roots]))
    if (
        not len(roots)
        or len(every) != nodes + leaves
        or (every != np.arange(-leaves, nodes)).any()
        or ((children >= 0) & (children <= np.arange(nodes)[:, None])).any()
    ):
        raise StateError(f"arrays 'children' and 'roots' of {_OWNER} are not trees")


def _lengths(m: Any, p: Any, q: Any, d: int) -> Any:
    """Return how many numbers leaves have, see `_numbers`."""
    wide, outputs = filled(m), filled(q)
    weights = np.where(q == 1, filled(wide + p), (wide + p) * outputs)
    return filled(d) + wide * (1 + d) + outputs + weights
