"""A model that predicts in microseconds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import LocalKernels, loops
from streamk.declared import NON_NEGATIVE, listed, number
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.prediction import files
from streamk.prediction.layout import checked, depths, linear_cost
from streamk.prediction.local_model import EXPONENTIAL
from streamk.state import JSON, State

__all__ = ["CompiledModel", "load"]

Label = str | int | bool
Numbers = NDArray[Any]

_OWNER = "a compiled model"


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
        """Return what is added to scores (outputs,) before the greatest is chosen."""
        found = np.log(self.weights)
        return found[1:] - found[:1] if len(found) == 2 else found

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return trees, leaves of a tree, and landmarks of a leaf, at most, as of `dc_pred`."""
        trees, leaves = len(self.kernels.roots), self.kernels.leaves
        return trees, len(leaves) // trees, max(1, int(leaves[:, 0].max()))

    @property
    def cost(self) -> float:
        """Multiply-adds for an event, on average, over those of a linear model.

        A linear model takes as many as there are columns, 16 at least, for each class if there are
        more than two. An exponential counts as 8.
        """
        d, leaves = self.width, self.kernels.leaves
        m, p, q = leaves[:, 0], leaves[:, 1], leaves[:, 2]
        above = depths(self.kernels.children, len(leaves))
        each = (m + 1 + above) * d + m * EXPONENTIAL + p + (m + p) * q
        return float(self.visits @ each) / linear_cost(d, self.n_outputs)

    def decision_many(self, X: ArrayLike) -> Numbers:
        """Return the scores of events.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN is missing.

        Returns
        -------
        float64 array of shape (n, outputs)
            Numbers; the logit of the second of two classes; or a score for each class, whose
            exponentials are in proportion to the probabilities.

        Raises
        ------
        InvalidInput
            If the shape does not fit, or a value is infinite.
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
            second: Numbers = labels[(weighted[:, 0] > 0.0).astype(np.intp)]
            return second
        found: Numbers = labels[weighted.argmax(axis=1)]
        return found

    def predict_proba_many(self, X: ArrayLike) -> Numbers:
        """Return probabilities (n, classes), float64, of events X (n, d)."""
        self._check_classifier()
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
        """Return the model whose state this is.

        Raises
        ------
        StateError
            If it is the state of another model, or arrays are missing or do not fit.
        """
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
        """Write the model to one file of safetensors, in place of any that is there."""
        files.write(self.state(), Path(path))

    def _check_classifier(self) -> None:
        if not self.classes:
            raise InvalidInput("this model predicts numbers, which have no probabilities")


def _writable(array: Numbers) -> Numbers:
    return array if array.flags.writeable else array.copy()


def load(path: str | os.PathLike[str]) -> CompiledModel:
    """Open a file that `CompiledModel.save` wrote.

    Raises
    ------
    InvalidInput
        If there is no such file.
    StateError
        If it is no compiled model.
    """
    return CompiledModel.from_state(files.read(Path(path)))
