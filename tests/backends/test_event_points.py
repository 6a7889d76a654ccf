"""The map of events to points: bit for bit what NumPy makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.backends import OUTERMOST, ColumnMap
from streamk.backends.numba_backend import scaling
from streamk.kernels import Linear
from streamk.learners.rfm.splits import EventMap, Splits

Numbers = NDArray[Any]


def assert_same_bits(found: Numbers, expected: Numbers) -> None:
    np.testing.assert_array_equal(found, expected.astype(found.dtype), strict=True)
    assert (np.signbit(found) == np.signbit(expected)).all()


def scaled(X: Numbers, columns: ColumnMap, most: float) -> Numbers:
    """What a loop makes of events on a scale, which NumPy makes of them too."""
    found, P, first = X.copy(), np.where(np.isnan(X), columns.medians, X), 0
    scaling.scale(found, columns, most)
    for j, end in enumerate(columns.ends.tolist()):
        if end > first:
            P[:, j] = np.interp(P[:, j], columns.values[first:end], columns.ranks[first:end])
        first = end
    with np.errstate(over="ignore", invalid="ignore"):
        assert_same_bits(found, np.clip((P - columns.means) * columns.factors, -most, most))
    return found


def events(n: int, d: int, seed: int = 0) -> Numbers:
    """Events of which some are missing, huge, tiny or in place of a knot."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.1] = np.nan
    odd = rng.random(X.shape) < 0.1
    X[odd] = rng.choice([0.0, -0.0, 1e308, -1e308, 5e-324, 1e20, -1e-20], int(odd.sum()))
    return X


def column_map(d: int, knots: list[int], seed: int = 1) -> ColumnMap:
    rng = np.random.default_rng(seed)
    values = [np.unique(rng.normal(size=size).round(2)) for size in knots]
    sizes = [len(one) for one in values]
    return ColumnMap(
        medians=rng.normal(size=d),
        means=rng.normal(size=d),
        factors=rng.uniform(0.0, 3.0, d),
        values=np.concatenate([np.zeros(0), *values]),
        ranks=np.concatenate([np.zeros(0), *(np.sort(rng.random(size)) for size in sizes)]),
        ends=np.cumsum(sizes) if knots else np.zeros(d, np.int64),
    )


@pytest.mark.parametrize("knots", [[], [0, 1, 2, 50, 1_000], [3, 0, 0, 7, 1]])
@pytest.mark.parametrize("most", [1e150, 2.0])
def test_columns_are_scaled_as_numpy_interpolates(knots: list[int], most: float) -> None:
    columns, X = column_map(5, knots), events(400, 5)
    if knots:  # values that are knots themselves, and such as are beside them
        for j, (first, end) in enumerate(zip([0, *columns.ends], columns.ends, strict=False)):
            some = columns.values[first:end][:9]
            X[: len(some), j], X[10 : 10 + len(some), j] = some, np.nextafter(some, 9.0)
    assert np.nanmax(np.abs(scaled(X, columns, most))) <= most


def test_knots_whose_difference_overflows_are_as_of_numpy() -> None:
    ends, one = np.array([2], np.int64), np.ones(1)
    for ranks in (np.array([0.0, 1.0]), np.array([0.5, 0.5])):
        values = np.array([-1.7e308, 1.7e308])
        columns = ColumnMap(np.zeros(1), np.zeros(1), one, values, ranks, ends)
        X = np.array([[0.0], [1.0e308], [-1.7e308], [1.7e308], [1.75e308], [-1.75e308]])
        with np.errstate(all="ignore"):
            scaled(X, columns, 1e150)


def test_factors_are_bounded() -> None:
    P, factors = np.nan_to_num(events(300, 4)), np.array([1.0, 1e200, 0.0, -3.0])
    points = np.empty(P.shape, np.float32)
    scaling.bound(P, factors, 1e18, points)
    with np.errstate(over="ignore"):
        assert_same_bits(points, np.clip(P * factors, -1e18, 1e18).astype(np.float32))


def test_events_are_standardized() -> None:
    X, rng = events(300, 6), np.random.default_rng(2)
    center, inverse = rng.normal(size=6), rng.uniform(0.1, 1e3, 6)
    found = X.copy()
    scaling.standardize(found, center, inverse, 0.75)
    with np.errstate(over="ignore", invalid="ignore"):
        Z = np.clip((X - center) * inverse, -OUTERMOST, OUTERMOST)
    assert_same_bits(found, np.where(np.isnan(Z), 0.0, Z) * 0.75)
    assert np.abs(found).max() == 0.75 * OUTERMOST


@pytest.mark.parametrize("count", [1, 2, 11])
def test_leaves_are_those_of_the_half_spaces(count: int) -> None:
    rng = np.random.default_rng(count)
    splits = Splits.none(3)
    for _ in range(count):
        direction = rng.normal(size=3).astype(np.float32)
        splits.divide(int(rng.integers(len(splits) + 1)), direction, float(rng.normal()))
    points = rng.normal(size=(500, 3)).astype(np.float32)
    points[:3] = 0.0, 1e18, -1e18
    products = Linear().pairwise(points, splits.directions)
    leaves, tree = np.empty(500, np.int64), (splits.thresholds, splits.children)
    scaling.leaves(products, *tree, leaves)
    for point, leaf in zip(points.astype(np.float64), leaves, strict=True):
        at = 0
        while at >= 0:
            right = float(point @ splits.directions[at].astype(np.float64)) > splits.thresholds[at]
            at = int(splits.children[at, int(right)])
        assert leaf == -1 - at
    for row in (0, 7, 499):
        x = points[row : row + 1]
        found, point = EventMap.identity(3).place(x, splits)
        assert found == leaves[row]
        assert_same_bits(point, x)
