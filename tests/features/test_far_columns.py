"""Columns far from zero, whose values are close together, are learned as if they were near it."""

import numpy as np
import pytest
from multi_kernel_kit import pool_alone

from streamk import kernels
from streamk.learners import DoublyStochastic, Scaled

N = 4000


def stream(seed=0, n=N):
    """Events of four columns of spread 1, and numbers that depend on three of them."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 5, size=n)])
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * np.sign(X[:, 2]) + 0.2 * X[:, 3]
    return X, y + 0.1 * rng.normal(size=n)


def labels(y):
    return np.where(y > np.median(y), "high", "low").astype(object)


def learned(X, y, **options):
    """What a model said of each event from 500 on before it learned it."""
    model = pool_alone(seed=3, threads=1, **options)
    model.learn_many(X[:500], y[:500])
    said = []
    for first in range(500, len(X), 50):
        some = slice(first, first + 50)
        said.append(model.predict_many(X[some]))
        model.learn_many(X[some], y[some])
    return np.concatenate(said)


def test_numbers():
    X, y = stream()
    far = 1e8
    missed = [
        np.abs(learned(V, w, task="regression") - w[500:]).mean()
        for V, w in ((X, y), (X + far, y), (X, y + far))
    ]
    assert missed[0] < 0.6 * np.abs(y - np.median(y)).mean()
    assert missed[1:] == pytest.approx([missed[0]] * 2, rel=0.03)


def test_a_column_that_is_far_only_after_it_was_missing_and_zero():
    X, y = stream()
    late = X + 1e10
    late[:100, 0] = np.nan
    late[:3, 1] = 0.0
    right = [(learned(V, labels(y)) == labels(y)[500:]).mean() for V in (X, late)]
    assert right[1] == pytest.approx(right[0], abs=0.02)


@pytest.mark.parametrize(("task", "far"), [("classes", -1e12), ("numbers", 1e8)])
def test_a_scaled_learner_of_one_kernel(task, far):
    X, y = stream()
    loss = {} if task == "classes" else {"loss": "squared"}
    y = labels(y) if task == "classes" else y
    said = []
    for V in (X, X + far):
        options = {"seed": 5, "max_features": 512, "batch_size": 8, "block_size": 32, **loss}
        model = Scaled(DoublyStochastic(kernels.Gaussian(bandwidth=0.8), **options))
        for first in range(0, N, 50):
            model.learn_many(V[first : first + 50], y[first : first + 50])
        said.append(model.predict_many(V))
    if task == "classes":
        assert (said[0] == y).mean() > 0.75
        assert (said[0] == said[1]).mean() > 0.99
    else:
        np.testing.assert_allclose(said[1], said[0], atol=0.01 * np.std(y))
