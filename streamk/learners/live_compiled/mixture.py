"""Predictions of a compiled copy, mixed with cheap experts that learn each label."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.backends import live_loops, live_mixture
from streamk.backends.live_mixture import LiveMixture
from streamk.declared import FINITE, NON_NEGATIVE, SHARES, Declared, taken
from streamk.errors import StateError
from streamk.scaling.robust import RobustScale
from streamk.state import JSON, State

__all__ = ["Mixture"]

Numbers = NDArray[Any]

_FLOAT64 = np.dtype(np.float64)
_OWNER = "a live mixture"


class Mixture:
    """A live mixture (`streamk.backends.live_mixture`) with the scale of its columns.

    Parameters
    ----------
    is_classifier : bool
    seed : int
        Of the sample that the scale is taken of.
    """

    TYPE = "live-mixture"

    def __init__(self, *, is_classifier: bool, seed: int = 0) -> None:
        self._is_classifier = is_classifier
        self._scale = RobustScale(0, seed=seed)
        self._parts = live_mixture.begin(0, 0 if is_classifier else 1, classes=is_classifier)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._scale.nbytes + sum(array.nbytes for array in self._parts)

    def add_columns(self, n: int) -> None:
        """Append columns that were zero in all events so far."""
        self._scale.add_columns(n)
        linear = self._parts.linear
        room = np.zeros((*linear.shape[:2], n))
        grown = np.concatenate([linear[:, :, :-1], room, linear[:, :, -1:]], axis=2)
        self._parts = self._parts._replace(linear=grown)

    def add_classes(self, classes: int) -> None:
        """Know so many classes, those new without a label yet."""
        linear, means = self._parts.linear, self._parts.means
        known = means.shape[1]
        if known == 0:
            self._parts = live_mixture.begin(linear.shape[2] - 1, classes, classes=True)
            return
        new = classes - known
        self._parts = self._parts._replace(
            linear=np.pad(linear, ((0, 0), (0, new), (0, 0))),
            means=np.pad(means, ((0, 0), (0, new))),
        )

    def follow(self, X: Numbers, given: Numbers, labels: Numbers) -> Numbers:
        """Predict each event in turn, then learn its label where there is one.

        Parameters
        ----------
        X : float64 array of shape (n, d)
            NaN is missing.
        given : float64 array of shape (n, outputs)
            What the copy says: scores of all classes, as logarithmic probabilities but for a
            constant, or numbers.
        labels : array of shape (n,)
            Numbers of classes (int64), -1 for none; or numbers (float64), NaN for none.

        Returns
        -------
        float64 array of shape (n, outputs)
        """
        known = labels >= 0 if self._is_classifier else ~np.isnan(labels)
        _, Z, _ = self._scale.transform_each(X, known, _FLOAT64, before=True)
        assert Z is not None
        return self._run(Z, given, labels)

    def predict(self, X: Numbers, given: Numbers) -> Numbers:
        """Return predictions (n, outputs) of events X (n, d)."""
        none = np.full(len(X), -1 if self._is_classifier else np.nan)
        return self._run(self._scale.transform(X, _FLOAT64), given, none)

    def _run(self, Z: Numbers, given: Numbers, labels: Numbers) -> Numbers:
        out = np.empty((len(Z), self._parts.means.shape[1]))
        loops = live_loops.loops()
        follow = loops.follow_classes if self._is_classifier else loops.follow_numbers
        follow(self._parts, np.ascontiguousarray(Z), np.ascontiguousarray(given), labels, out)
        return out

    def state(self) -> State:
        """Return everything needed to go on exactly from here."""
        header: dict[str, JSON] = {"type": self.TYPE}
        nested = State.nest({"scale": self._scale.state()}, header)
        own = {name: array.copy() for name, array in self._parts._asdict().items()}
        return State(nested.header, {**nested.arrays, **own})

    @classmethod
    def from_state(cls, state: State, *, is_classifier: bool, columns: int, outputs: int) -> Self:
        """Return the mixture whose state this is, of so many columns and outputs.

        Raises
        ------
        StateError
            If the state is something else's or its arrays do not fit.
        """
        state.expect(cls.TYPE)
        mixture = cls(is_classifier=is_classifier)
        mixture._scale = RobustScale.from_state(state.child("scale"))
        fresh = live_mixture.begin(columns, outputs, classes=mixture._is_classifier)
        declared = [
            Declared(name, "float64", array.shape, _DOMAINS.get(name, FINITE))
            for name, array in fresh._asdict().items()
        ]
        found, _ = taken(declared, state.arrays, {}, _OWNER)
        mixture._parts = LiveMixture(**{name: array.copy() for name, array in found.items()})
        if len(mixture._scale) != columns:
            raise StateError(f"{_OWNER} scales {len(mixture._scale)} columns, not {columns}")
        return mixture


_DOMAINS = {"shares": SHARES, "mixers": SHARES, "seen": NON_NEGATIVE}
