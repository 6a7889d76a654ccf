"""Margins to probabilities and errors: those of the formulas, and rows by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.backends.numba_backend import learning
from streamk.losses import softmax

each_width = pytest.mark.parametrize("outputs", [1, 2, 7, 40])


def margins(outputs: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(outputs)
    F = rng.normal(size=(60, outputs)) * 3.0
    F[:4] = np.array([1e300, -1e300, 0.0, 50.0])[:, None]
    return F, rng.integers(0, max(2, outputs), 60).astype(np.float64)


def clipped(F: NDArray[Any], most: float) -> NDArray[Any]:
    """Margins of each class, where one output f stands for (-f, f)."""
    return np.clip(np.hstack([-F, F]) if F.shape[1] == 1 else F, -most, most)


@each_width
def test_they_are_those_of_the_formulas(outputs: int) -> None:
    F, classes = margins(outputs)
    P, sums = np.empty((60, max(2, outputs))), np.array([0.5, 2.0])
    learning.probabilities(F, 1.7, 1e6, P)
    np.testing.assert_allclose(P, softmax(1.7 * clipped(F, 1e6)), rtol=1e-12, atol=1e-300)
    learning.slopes(F, classes, 1.7, 10.0, sums)
    every = clipped(F, 10.0)
    P = softmax(1.7 * every)
    mean = (P * every).sum(axis=1)
    slope = (mean - every[np.arange(60), classes.astype(int)]).sum()
    curvature = (P * (every - mean[:, None]) ** 2).sum()
    np.testing.assert_allclose(sums, [0.5 + slope, 2.0 + curvature], rtol=1e-12)
    again = np.array([0.5, 2.0])
    total = learning.missed(F, classes, False, 1e18, 1e300, 0.25, 1.7, 10.0, again)
    assert again.tolist() == [0.5, 2.0]
    errors = np.abs(F - classes[:, None]).sum(axis=1)
    assert total == pytest.approx(0.25 + np.minimum(errors, 1e300).sum(), rel=1e-12)
    true = classes[:, None] == (np.arange(outputs) if outputs > 1 else 1)
    errors = np.minimum(np.abs(F - np.where(true, 1.0, -1.0)), 1e18) ** 2
    total = learning.missed(F, classes, True, 1e18, 1e300, 0.25, 1.7, 10.0, again)
    assert again.tobytes() == sums.tobytes()
    assert total == pytest.approx(0.25 + np.minimum(errors.sum(axis=1), 1e300).sum(), rel=1e-12)


@each_width
def test_rows_are_the_same_by_themselves(outputs: int) -> None:
    F, classes = margins(outputs)
    P, sums = np.empty((60, max(2, outputs))), np.zeros(2)
    learning.probabilities(F, 0.3, 1e6, P)
    learning.slopes(F, classes, 0.3, 10.0, sums)
    total = learning.missed(F, classes, True, 1e18, 1e300, 0.0, 0.3, 10.0, np.zeros(2))
    one, alone, least = np.empty((1, max(2, outputs))), np.zeros(2), 0.0
    for row in range(60):
        some = slice(row, row + 1)
        learning.probabilities(F[some], 0.3, 1e6, one)
        assert one.tobytes() == P[some].tobytes()
        calibration = 0.3, 10.0, alone
        least = learning.missed(F[some], classes[some], True, 1e18, 1e300, least, *calibration)
    assert alone.tobytes() == sums.tobytes()
    assert least == total


def test_a_class_without_a_margin_is_an_error() -> None:
    with pytest.raises(IndexError):
        learning.slopes(np.zeros((1, 3)), np.array([7.0]), 1.0, 10.0, np.zeros(2))
