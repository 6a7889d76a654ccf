"""Steps in coordinates of landmarks, and rotations of these."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference import coordinates as plain

from streamk.backends.numba_backend import coordinates as fast
from streamk.losses import LOSSES, loss

NEWTON = ("squared", "squared_hinge", "logistic", "softmax", "huber")


@pytest.mark.parametrize(
    ("name", "newton"), [*((one, False) for one in LOSSES), *((one, True) for one in NEWTON)]
)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_steps_are_the_oracle_s(name: str, newton: bool, n_classes: int) -> None:
    which, rng = loss(name), np.random.default_rng(1)
    Phi, W = rng.normal(size=(60, 17)) / math.sqrt(17.0), np.zeros((17, 1))
    y = rng.normal(size=60)
    if which.classifies:
        W, y = np.zeros((17, which.n_outputs(n_classes))), rng.integers(0, n_classes, 60)
    W += 0.1 * rng.normal(size=W.shape)
    told, V, labels = (
        (int(which.code), which.parameter, which.classifies),
        W.copy(),
        y.astype(float),
    )
    if newton:
        T = np.triu(rng.normal(size=(17, 17)), 1) / 4.0 + np.diag(rng.uniform(0.5, 2.0, 17))
        A = np.linalg.inv(T.T @ T)
        assert fast.newton(Phi, labels, V, T, told, 0.95, 0.2, 4, 3) == 60
        expected, A = plain.newton(Phi, y, W, A, which, forgetting=0.95, ridge=0.2, turn=4, pulls=3)
        np.testing.assert_allclose(T.T @ T, np.linalg.inv(A), rtol=1e-7, atol=1e-9)
        assert np.array_equal(T, np.triu(T))
    else:
        assert fast.descend(Phi, labels, V, told, np.full(60, 0.99), np.full(60, 0.3)) == 60
        expected = plain.descend(Phi, y, W, which, 0.99, 0.3)
    np.testing.assert_allclose(V, expected, rtol=1e-8, atol=1e-10)
    Phi[7, 3] = np.inf
    assert fast.descend(Phi, labels, W.copy(), told, np.ones(60), np.full(60, 0.3)) == 7


def test_rotations_keep_lengths() -> None:
    rng = np.random.default_rng(0)
    S = np.tril(rng.normal(size=(6, 7)), 1)
    T = fast.triangular(S.copy())
    np.testing.assert_allclose(T.T @ T, S @ S.T, atol=1e-12)
    assert np.array_equal(T, np.triu(T))
    angles, V = rng.uniform(0, 3, 3), np.eye(6)
    fast.rotate(V, 2, np.cos(angles), np.sin(angles))
    expected = np.eye(6)
    for i, angle in enumerate(angles, 2):
        turn = np.eye(6)
        turn[i : i + 2, i : i + 2] = [
            [np.cos(angle), np.sin(angle)],
            [-np.sin(angle), np.cos(angle)],
        ]
        expected = turn @ expected
    np.testing.assert_allclose(V, expected, atol=1e-15)
