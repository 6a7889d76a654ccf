"""Events to points, by a scale of the columns and a metric, and points to the leaves of a tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.backends import FARTHEST, LARGEST, ColumnMap, loops
from streamk.declared import NON_NEGATIVE, Declared, Domain, taken
from streamk.errors import StateError
from streamk.kernels import Linear
from streamk.learners.rfm.metric import Metric
from streamk.scaling.fixed import ColumnScale

Numbers = NDArray[Any]

_WITHIN = Domain(-1e308, 1e308)
DOT = Linear()
"""Its products are the same bits in whatever batch a row comes, unlike those of BLAS."""


@dataclass(frozen=True)
class EventMap:
    """Events to points: columns on a scale, and then in a metric."""

    columns: ColumnScale
    metric: Metric

    @classmethod
    def identity(cls, d: int) -> EventMap:
        """Return the map that leaves events of d columns as they are."""
        return cls(ColumnScale.as_they_are(d), Metric(np.ones(d)))

    def points(self, X: Numbers) -> Numbers:
        """Return the points of finite events X (n, d), float32 (n, d), row by row the same bits."""
        if X.shape[1] != len(self.columns.means):  # loops would read beyond the ends of arrays
            raise ValueError(f"{X.shape[1]} columns for a map of {len(self.columns.means)}")
        root = self.metric.root
        P, points = np.array(X, np.float64, order="C"), np.empty(X.shape, np.float32)
        # Bounded: with a metric of 0 in a column, infinity would be no number at all.
        loops.scaling.scale(P, self._column_map, LARGEST)
        if self.metric.is_diagonal:
            loops.scaling.bound(P, root, FARTHEST, points)
        else:
            loops.scaling.bound(DOT.pairwise(P, root), self._ones, FARTHEST, points)
        return points

    def place(self, x: Numbers, splits: Splits) -> tuple[int, Numbers]:
        """Return the leaf of a finite event (1, d), and its point: bits of `points`."""
        P, directions = np.array(x, np.float64, order="C"), splits.directions
        if not x.shape[1] == directions.shape[1] == len(self.columns.means):
            raise ValueError(f"{x.shape[1]} columns for a map of {len(self.columns.means)}")
        point, tree = np.empty(x.shape, np.float32), (splits.thresholds, splits.children)
        return loops.scaling.place(P, *self._known, directions, *tree, point), point

    @cached_property
    def _known(self) -> tuple[Any, ...]:
        """The map as the loop of a single event takes it; the root as rows, one of a diagonal."""
        root = np.ascontiguousarray(np.atleast_2d(self.metric.root))
        return *self._column_map, LARGEST, root, FARTHEST

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
            ends=self._knot_counts.cumsum() if known.knots else np.zeros(len(known.means), int),
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
        """Return the map of d columns of these arrays; raise StateError if they do not fit."""
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
        columns = ColumnScale(np.zeros(d), found["means"], found["factors"], knots)
        return cls(columns, Metric(found["root"]))


_TURNS, _SOME = 30, 1_024
"""Power iterations for a direction, and points that it is found of, twice as many at most."""
_LEAST, _SHARE = 64, 8
"""Events that each half must have, at least, and one in so many of all."""


def halves(points: Numbers) -> tuple[Numbers, float, Numbers] | None:
    """Return where points (n, d) are divided, and which of them are on the right, bool (n,).

    That is a direction and a threshold, see `Splits`; None if no place leaves enough on both sides.
    """
    direction = direction_of(points)
    values = DOT.pairwise(points, direction[None])[:, 0]
    threshold = threshold_of(values)
    if threshold is None:
        return None
    right = values > threshold
    least = max(_LEAST, len(points) // _SHARE)
    if not least <= int(right.sum()) <= len(points) - least:
        return None
    return direction, threshold, right


def direction_of(points: Numbers) -> Numbers:
    """Return the direction in which points (n, d) vary most, float32 (d,).

    It is found by power iterations, from the column of the largest variance on, of a thousand or
    two of the points.
    """
    some = points[:: max(1, len(points) // _SOME)]
    P = some - some.mean(axis=0, dtype=np.float64)
    v = np.zeros(P.shape[1])
    v[int((P * P).sum(axis=0).argmax())] = 1.0
    for _ in range(_TURNS):
        u = P.T @ (P @ v)
        norm = float(np.linalg.norm(u))
        if not 0.0 < norm < np.inf:
            break
        v = u / norm
    return v.astype(np.float32)


def threshold_of(values: Numbers) -> float | None:
    """Return the largest value that is on the left, where numbers (n,) are cut in halves.

    Equal ones stay together: None if all are.
    """
    ordered = np.sort(values)
    last = ordered[:-1][ordered[:-1] < ordered[1:]]
    if not len(last):
        return None
    middle = ordered[(len(ordered) - 1) // 2]
    at = int(np.searchsorted(last, middle))
    near = last[max(0, at - 1) : at + 1]
    counts = np.searchsorted(ordered, near, side="right")
    return float(near[int(np.abs(2 * counts - len(ordered)).argmin())])


@dataclass
class Splits:
    """A binary tree of half spaces, whose leaves are numbered in the order they came.

    The leaf that is divided keeps its number for the left half.

    Attributes
    ----------
    directions : float32 array of shape (splits, d)
    thresholds : float64 array of shape (splits,)
        A point is on the left where its product with the direction is not above.
    children : int64 array of shape (splits, 2)
        The split on the left and on the right, or ``-1 - leaf``.

    Examples
    --------
    >>> splits = Splits.none(1)
    >>> splits.divide(0, np.ones(1, np.float32), 0.5), splits.divide(1, np.ones(1, np.float32), 2.0)
    (1, 2)
    >>> splits.leaves_of(np.array([[0.0], [1.0], [3.0]], np.float32)).tolist()
    [0, 1, 2]
    """

    directions: Numbers
    thresholds: Numbers
    children: Numbers = field(repr=False)

    @classmethod
    def none(cls, d: int) -> Self:
        """Return the tree that is a single leaf, of d columns."""
        return cls(np.zeros((0, d), np.float32), np.zeros(0), np.zeros((0, 2), np.int64))

    def __len__(self) -> int:
        return len(self.thresholds)

    def leaves_of(self, points: Numbers) -> Numbers:
        """Return the leaves of points (n, d), float32: int64 (n,), row by row the same."""
        found = np.zeros(len(points), np.int64)
        if len(self):
            products = DOT.pairwise(points, self.directions)
            loops.scaling.leaves(products, self.thresholds, self.children, found)
        return found

    def divide(self, leaf: int, direction: Numbers, threshold: float) -> int:
        """Divide a leaf, and return the number of its right half."""
        new = len(self) + 1
        self.children[self.children == -1 - leaf] = len(self)
        self.directions = np.concatenate([self.directions, direction[None]])
        self.thresholds = np.append(self.thresholds, threshold)
        self.children = np.concatenate([self.children, [[-1 - leaf, -1 - new]]])
        return new

    def extend(self, count: int) -> None:
        """Take up so many columns, by which nothing is divided."""
        self.directions = np.pad(self.directions, ((0, 0), (0, count)))

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        return {
            "directions": self.directions.copy(),
            "thresholds": self.thresholds.copy(),
            "children": self.children.copy(),
        }

    @classmethod
    def of(cls, arrays: dict[str, Numbers], count: int, d: int, owner: str) -> Self:
        """Return the tree of so many splits of arrays; raise StateError if they do not fit."""
        declared = (
            Declared("directions", "float32", ("splits", "columns")),
            Declared("thresholds", "float64", ("splits",)),
            Declared("children", "int64", ("splits", 2), Domain(-1 - count, count - 1)),
        )
        found, _ = taken(declared, arrays, {"splits": count, "columns": d}, owner)
        children = found["children"]
        every = np.sort(children, axis=None)
        # Each split but the first is a later one's child of an earlier one, each leaf one's.
        expected = np.concatenate([np.arange(-1 - count, 0), np.arange(1, count)])
        if count and (
            not np.array_equal(every, expected)
            or (np.where(children >= 0, children, count) <= np.arange(count)[:, None]).any()
        ):
            raise StateError(f"array 'children' of {owner} is not a tree")
        return cls(*(found[each.name].copy() for each in declared))
