"""Events to points: columns on a scale, and then in a metric."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.backends import ColumnMap, loops
from streamk.declared import NON_NEGATIVE, Declared, Domain, taken
from streamk.errors import StateError
from streamk.kernels import Linear
from streamk.learners.metric_rounds.columns import Columns
from streamk.learners.metric_rounds.metric import Metric

Numbers = NDArray[Any]

FURTHEST = 1e18
"""Bound of numbers, a point's among them, whose squares are numbers of single precision, too."""
_WITHIN = Domain(-1e308, 1e308)
DOT = Linear()
"""Its products are the same bits in whatever batch a row comes, unlike those of BLAS."""
_LARGEST = 1e150
"""Bound of scaled numbers: with a metric of 0 in a column, infinity would be no number at all."""


@dataclass(frozen=True)
class EventMap:
    """Events to points: columns on a scale, and then in a metric.

    Attributes
    ----------
    columns : Columns
    metric : Metric
    """

    columns: Columns
    metric: Metric

    @classmethod
    def identity(cls, d: int) -> EventMap:
        """Return the map that leaves events of d columns as they are."""
        return cls(Columns.as_they_are(d), Metric(np.ones(d)))

    def points(self, X: Numbers) -> Numbers:
        """Return the points of finite events X (n, d), float32 (n, d), row by row the same bits.

        Raises
        ------
        ValueError
            If X has other columns than the map: loops would read beyond the ends of its arrays.
        """
        if X.shape[1] != len(self.columns.means):
            raise ValueError(f"{X.shape[1]} columns for a map of {len(self.columns.means)}")
        root = self.metric.root
        P, points = np.array(X, np.float64, order="C"), np.empty(X.shape, np.float32)
        loops.event_points.scale(P, self._column_map, _LARGEST)
        if self.metric.is_diagonal:
            loops.event_points.bound(P, root, FURTHEST, points)
        else:
            loops.event_points.bound(DOT.pairwise(P, root), self._ones, FURTHEST, points)
        return points

    @cached_property
    def _column_map(self) -> ColumnMap:
        """The scale of the columns, as loops take it."""
        known, empty = self.columns, np.zeros(0)
        return ColumnMap(
            medians=known.medians,
            means=known.means,
            factors=known.factors,
            values=np.concatenate([empty, *(values for values, _ in known.knots)]),
            ranks=np.concatenate([empty, *(ranks for _, ranks in known.knots)]),
            ends=self._knot_counts.cumsum()
            if known.knots
            else np.zeros(len(known.means), np.int64),
        )

    @property
    def _knot_counts(self) -> Numbers:
        """Knots of each column, int64 (d,); none where columns are not ranked."""
        return np.array([len(values) for values, _ in self.columns.knots], np.int64)

    @cached_property
    def _ones(self) -> Numbers:
        return np.ones(len(self.metric.root))

    def extended(self, count: int) -> EventMap:
        """Return the map of so many more columns, which count as they are."""
        root = self.metric.root
        if root.ndim == 1:
            root = np.append(root, np.ones(count))
        else:
            root = scipy.linalg.block_diag(root, np.eye(count)).reshape(2 * [len(root) + count])
        return EventMap(self.columns.extended(count), Metric(root))

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name."""
        known = self._column_map
        return {
            "means": known.means,
            "factors": known.factors,
            "root": self.metric.root,
            "knots": self._knot_counts,
            "knot_values": known.values,
            "knot_ranks": known.ranks,
        }

    @classmethod
    def of_arrays(cls, arrays: dict[str, Numbers], d: int, owner: str) -> EventMap:
        """Return the map of d columns whose arrays these are.

        Raises
        ------
        StateError
            If an array is missing, of another shape or out of its domain.
        """
        full = arrays.get("root", np.zeros(0)).ndim == 2
        ranked = len(arrays.get("knots", ())) > 0
        declared = (
            Declared("means", "float64", ("columns",), _WITHIN),
            Declared("factors", "float64", ("columns",), NON_NEGATIVE),
            Declared("root", "float64", ("columns", "columns") if full else ("columns",)),
            Declared("knots", "int64", ("columns" if ranked else 0,), Domain(least=0, most=2**20)),
            Declared("knot_values", "float64", ("values",)),
            Declared("knot_ranks", "float64", ("values",), Domain(0.0, 1.0)),
        )
        found, sizes = taken(declared, arrays, {"columns": d}, owner)
        found = {name: array.copy() for name, array in found.items()}
        if int(found["knots"].sum()) != sizes["values"]:
            raise StateError(f"array 'knots' of {owner} must sum to {sizes['values']}")
        ends = np.cumsum(found["knots"])[:-1]
        parts = (np.split(found[name], ends) for name in ("knot_values", "knot_ranks"))
        knots = tuple(zip(*parts, strict=True)) if ranked else ()
        if any((np.diff(values) <= 0.0).any() for values, _ in knots):
            raise StateError(f"array 'knot_values' of {owner} must ascend in each column")
        columns = Columns(np.zeros(d), found["means"], found["factors"], knots)
        return cls(columns, Metric(found["root"]))
