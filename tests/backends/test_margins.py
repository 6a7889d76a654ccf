"""Margins to probabilities and errors: those of the reference, and rows by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import margins as plain

from streamk.backends.numba_backend import learning

Numbers = NDArray[Any]


def margins(outputs: int) -> tuple[Numbers, Numbers]:
    rng = np.random.default_rng(outputs)
    F = rng.normal(size=(60, outputs)) * 3.0
    F[:4] = np.array([1e300, -1e300, 0.0, 50.0])[:, None]
    return F, rng.integers(0, max(2, outputs), 60).astype(np.float64)


@pytest.mark.parametrize("outputs", [1, 2, 7, 40])
def test_they_are_those_of_the_reference(outputs: int) -> None:
    F, classes = margins(outputs)
    found = []
    for twin in (learning, plain):
        P, sums = np.empty((60, max(2, outputs))), np.array([0.5, 2.0])
        twin.probabilities(F, 1.7, 1e6, P)
        twin.slopes(F, classes, 1.7, 10.0, sums)
        totals = [
            twin.missed(F, classes, of_classes, 1e18, 1e300, 0.25) for of_classes in (True, False)
        ]
        found.append((P, sums, np.array(totals)))
        assert np.allclose(P.sum(axis=1), 1.0, atol=1e-12)
        assert np.isfinite(totals).all()
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("outputs", [1, 2, 7, 40])
def test_rows_are_the_same_by_themselves(outputs: int) -> None:
    F, classes = margins(outputs)
    P, sums = np.empty((60, max(2, outputs))), np.zeros(2)
    learning.probabilities(F, 0.3, 1e6, P)
    learning.slopes(F, classes, 0.3, 10.0, sums)
    total = learning.missed(F, classes, True, 1e18, 1e300, 0.0)
    one, alone, least = np.empty((1, max(2, outputs))), np.zeros(2), 0.0
    for row in range(60):
        some = slice(row, row + 1)
        learning.probabilities(F[some], 0.3, 1e6, one)
        assert one.tobytes() == P[some].tobytes()
        learning.slopes(F[some], classes[some], 0.3, 10.0, alone)
        least = learning.missed(F[some], classes[some], True, 1e18, 1e300, least)
    assert alone.tobytes() == sums.tobytes()
    assert least == total


def test_a_class_without_a_margin_is_an_error() -> None:
    with pytest.raises(IndexError):
        learning.slopes(np.zeros((1, 3)), np.array([7.0]), 1.0, 10.0, np.zeros(2))
