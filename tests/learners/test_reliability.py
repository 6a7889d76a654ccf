"""The mixture's probabilities are as often true as they say, also where labels are noisy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import learned, pool_alone, stream
from numpy.typing import NDArray

from streamk.backends import BINARY, CLASSES
from streamk.learners import MultiKernel
from streamk.learners.multi_kernel import pool_growth

N = 6_000
FLIPPED = 0.1


def noisy(classes: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Events that are easy to tell apart, a tenth of which have the label of another class."""
    random = np.random.default_rng(3)
    X = random.normal(size=(N, 3))
    y = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1, 1, classes + 1)[1:-1])
    other = (y + random.integers(1, classes, N)) % classes
    return X, np.where(random.random(N) < FLIPPED, other, y)


@pytest.mark.parametrize("classes", [2, 3])
def test_noise_of_labels_bounds_probabilities(classes: int) -> None:
    X, y = noisy(classes)
    model = pool_alone(classes=range(classes))
    P = model.predict_then_learn_many(X, y).probabilities
    assert P is not None
    top, right = P[N // 2 :].max(axis=1), P[N // 2 :].argmax(axis=1) == y[N // 2 :]
    sure = top > np.quantile(top, 0.5)
    assert right[sure].mean() == pytest.approx(1.0 - FLIPPED, abs=0.02)
    assert top[sure].mean() == pytest.approx(right[sure].mean(), abs=0.02)
    assert top.max() < 1.0 - FLIPPED / 4


def curve(model: MultiKernel) -> NDArray[np.float64]:
    return model._mixture.pool.arrays["RELIABILITY"]


def test_a_third_class_makes_one_curve_of_both_classes() -> None:
    model = learned("two", 300)
    seen, true = curve(model).copy()
    X, _ = stream("two", 301)
    model.learn_one(X[300], "a third")
    of_two = np.array([seen + seen[::-1], true + (seen - true)[::-1]])
    before = pool_growth.successor(
        learned("two", 300)._mixture.pool, model._mixture.pool.keys, CLASSES, 3
    )
    np.testing.assert_allclose(before.arrays["RELIABILITY"], of_two)
    assert curve(model)[0].sum() > of_two[0].sum()
    assert curve(model)[0].sum() == pytest.approx(of_two[0].sum() * 0.9998 + 3.0)


def test_classes_in_another_order_have_the_curve_of_the_other_class() -> None:
    pool = learned("two", 300)._mixture.pool
    other = pool_growth.successor(pool, pool.keys, BINARY, 2, order=[1, 0])
    seen, true = pool.arrays["RELIABILITY"]
    turned = np.array([seen[::-1], (seen - true)[::-1]])
    np.testing.assert_allclose(other.arrays["RELIABILITY"], turned)
    back = pool_growth.successor(other, pool.keys, BINARY, 2, order=[1, 0])
    np.testing.assert_allclose(back.arrays["RELIABILITY"], [seen, true])


def test_numbers_have_no_curve() -> None:
    assert "RELIABILITY" not in learned("numbers", 50)._mixture.pool.arrays
