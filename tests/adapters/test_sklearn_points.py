"""EigenPro 2.0 as an estimator: what it promises beyond checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import eigenpro as naive
from sklearn.datasets import make_friedman1

from streamk.adapters.sklearn import KernelRegression
from streamk.errors import InvalidInput
from streamk.kernels import NTK, Matern

KERNEL = Matern(nu=0.5, bandwidth=2.0)


def single(n: int = 300) -> tuple[Any, Any]:
    X, y = make_friedman1(n, random_state=0)
    return X.astype(np.float32), y


def test_an_epoch_is_algorithm_3() -> None:
    X, y = single()
    Y = np.column_stack([y, -(y**2)])
    model = KernelRegression(KERNEL, n_epochs=2, batch_size=64, random_state=1).fit(X, Y)
    seed = int(np.random.RandomState(1).randint(2**31))
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    orders = [random.permutation(300) for _ in range(2)]
    from streamk.learners.eigenpro.projection import Preconditioner

    level = Preconditioner(KERNEL, X, batch_size=64).level
    centered = Y - Y.mean(axis=0)
    expected = naive.eigenpro2(KERNEL.pairwise, X, centered, np.arange(300), level, orders, 64)
    found = KERNEL.pairwise(X) @ model.dual_coef_
    assert np.allclose(found, KERNEL.pairwise(X) @ expected, rtol=1e-4, atol=1e-3)
    assert np.allclose(model.predict(X), found + Y.mean(axis=0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", [KERNEL, "ntk", NTK(depth=1)])
def test_many_epochs_interpolate(kernel: Any) -> None:
    X, y = single()
    errors = [
        np.abs(KernelRegression(kernel, n_epochs=n, random_state=0).fit(X, y).predict(X) - y).max()
        for n in (1, 10, 200)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3 * np.std(y)


def test_repeated_points_are_no_trouble() -> None:
    X, y = single(100)
    model = KernelRegression(KERNEL, n_epochs=100, random_state=0)
    model.fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))
    assert np.abs(model.predict(X) - y).max() < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_epochs": 0}, "n_epochs=0 must be a whole number of at least 1"),
        ({"n_epochs": "a"}, "n_epochs='a' must be a whole number of at least 1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.5}, "batch_size=2.5 must be a whole number of at least 1"),
        ({"kernel": "linear"}, "linear"),
        ({"bandwidth": -1.0}, "bandwidth"),
    ],
)
def test_options_of_the_regression(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        KernelRegression(**options).fit(*single(20))
