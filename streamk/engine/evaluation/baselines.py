"""Baselines without a model: the label before, and the most frequent label.

Of classes these are no change (the class of the labelled event before) and majority (the class
that was the most frequent so far, of several the one that came first), as in River's
`NoChangeClassifier` and `PriorClassifier`; of numbers the last value and the mean so far. Before
the first label there is no class, which counts as wrong, or the number 0, as the learners predict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ClassBaselines", "NumberBaselines"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

_NO_CLASS = 2**31 - 1
_SHIFT = 2**31
"""A class's count times this, less its number: the greatest is the most frequent class's, and of
several the first one's."""


class ClassBaselines:
    """No change and majority.

    Examples
    --------
    >>> ClassBaselines().hits(np.array([0, 0, 1, 1, 1, 1]))
    array([[0., 0.],
           [1., 1.],
           [0., 0.],
           [1., 0.],
           [1., 0.],
           [1., 1.]])
    """

    NAMES = ("no_change", "majority")

    def __init__(self) -> None:
        self._last = _NO_CLASS
        self._counts: Codes = np.zeros(0, np.int64)

    def hits(self, codes: Codes) -> Floats:
        """Return whether each baseline knew the classes (n,) of further events, float64 (n, 2)."""
        n = len(codes)
        before = np.concatenate([[self._last], codes])
        least = int(codes.max(initial=-1)) + 1
        if least > len(self._counts):
            self._counts = np.pad(self._counts, (0, least - len(self._counts)))
        # How often the class of each event had come up by then, the event included.
        order = np.argsort(codes, kind="stable")
        ordered = codes[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        sizes = np.diff(first, append=n)
        counts = np.empty(n, np.int64)
        counts[order] = self._counts[ordered] + np.arange(1, n + 1) - np.repeat(first, sizes)
        leaders = np.maximum.accumulate(np.concatenate([[self._leader], counts * _SHIFT - codes]))
        self._counts[ordered[first]] += sizes
        self._last = int(before[-1])
        hits = np.empty((n, 2))
        hits[:, 0] = codes == before[:-1]
        hits[:, 1] = codes == -leaders[:-1] % _SHIFT
        return hits

    @property
    def _leader(self) -> int:
        if not self._counts.any():
            return -_NO_CLASS
        code = int(self._counts.argmax())  # of several the first
        return int(self._counts[code]) * _SHIFT - code

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"last": self._last, "counts": self._counts.tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ClassBaselines:
        """Go on where `to_json` was called."""
        baselines = cls()
        baselines._last = int(data["last"])
        baselines._counts = np.array(data["counts"], np.int64).reshape(-1)
        return baselines


class NumberBaselines:
    """Last value and mean.

    Examples
    --------
    >>> NumberBaselines().errors(np.array([2.0, 4.0, 3.0]))
    array([[2., 2.],
           [2., 2.],
           [1., 0.]])
    """

    NAMES = ("last_value", "mean")

    def __init__(self) -> None:
        self._last = 0.0
        self._sum = 0.0
        self._n = 0

    def errors(self, labels: Floats) -> Floats:
        """Return the absolute error of each baseline on further labels (n,), float64 (n, 2)."""
        before = np.concatenate([[self._last], labels])
        # One after the other, so that the sums do not depend on the division into calls.
        sums = np.cumsum(np.concatenate([[self._sum], labels]))
        n = np.arange(self._n, self._n + len(labels))
        means = sums[:-1] / np.maximum(n, 1)
        self._last, self._sum = float(before[-1]), float(sums[-1])
        self._n += len(labels)
        return np.asarray(np.abs(np.column_stack([labels - before[:-1], labels - means])))

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {"last": self._last, "sum": self._sum, "n": self._n}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NumberBaselines:
        """Go on where `to_json` was called."""
        baselines = cls()
        baselines._last, baselines._sum = float(data["last"]), float(data["sum"])
        baselines._n = int(data["n"])
        return baselines
