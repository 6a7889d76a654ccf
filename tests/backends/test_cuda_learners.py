"""Whole learners on the CuPy backend, against those on the host; see `cuda_kit`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_kit import FORWARDS, backend_at

from streamk import backends
from streamk.kernels import Cauchy, Gaussian, Laplacian, Linear, Matern
from streamk.learners import AdaGrad, DoublyStochastic


@pytest.fixture(params=FORWARDS)
def cupy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which learners find the backend."""
    backend, select = backend_at(request.param), backends.select
    monkeypatch.setattr(
        backends, "select", lambda name="auto": backend if name == "cupy" else select(name)
    )
    return "cupy"


def stream(n: int = 150) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 5))
    return X, np.where(X[:, 0] * X[:, 1] > 0.0, "same", "other")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sampler": "hadamard"},
        {"cache_bytes": 0},
        {"cache_bytes": 0, "sampler": "hadamard"},
        {"dtype": "float64"},
        {"step": AdaGrad(0.5)},
        {"loss": "logistic", "regularization": 0.1},
        {"loss": "hinge", "batch_size": 64, "block_size": 100},
        {"kernel": Matern(nu=1.5)},
        {"kernel": Laplacian(bandwidth=3.0)},
        {"kernel": Cauchy()},
        {"kernel": Linear()},
    ],
    ids=str,
)
def test_a_learner_learns_the_same(cupy: str, options: dict[str, Any]) -> None:
    """Columns and classes come late, and it is saved, opened and merged in between."""
    X, y = stream()
    wider = np.c_[X, X[:, :1]]
    late = y.astype(object)
    late[::7] = "third"
    options = {"kernel": Gaussian(bandwidth=0.5), "block_size": 128, "max_features": 700} | options
    found = []
    for name in ("auto", cupy):
        learner = DoublyStochastic(seed=1, backend=name, **options)
        learner.learn_many(X[:60], y[:60])
        learner.learn_one(X[60], y[60])
        learner.add_columns(["late"])
        learner.learn_many(wider[60:100], late[60:100])
        opened = DoublyStochastic.from_state(learner.state(), backend=name)
        np.testing.assert_array_equal(opened.decision_many(wider), learner.decision_many(wider))
        opened.learn_many(wider[100:], y[100:])
        learner.merge(opened, common_events=learner.n_events)
        found.append((learner.decision_many(wider), learner.coefficients))
    for expected, ours in zip(*found, strict=True):
        assert type(ours) is np.ndarray
        atol = 1e-9 if options.get("dtype") == "float64" else 2e-4
        np.testing.assert_allclose(ours, expected, atol=atol * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("sampler", ["iid", "hadamard"])
def test_single_events_are_batches_of_one(cupy: str, sampler: str) -> None:
    X, y = stream(40)
    options: dict[str, Any] = {"sampler": sampler, "block_size": 128, "max_features": 128}
    one, many = (
        DoublyStochastic(Gaussian(), seed=1, backend=cupy, batch_size=1, **options)
        for _ in range(2)
    )
    for x, label in zip(X.astype(np.float32), y, strict=True):
        one.learn_one(x, label)
        np.testing.assert_array_equal(one.decision_one(x), one.decision_many([x, x])[1])
    many.learn_many(X, y)
    np.testing.assert_array_equal(one.coefficients, many.coefficients)


def test_a_model_goes_on_on_another_device(cupy: str) -> None:
    """Begun on the host and opened here, it predicts the same."""
    X, y = stream()
    learner = DoublyStochastic(Gaussian(bandwidth=0.5), seed=1, max_features=512)
    learner.learn_many(X[:100], y[:100])
    opened = DoublyStochastic.from_state(learner.state(), backend=cupy)
    np.testing.assert_allclose(opened.decision_many(X), learner.decision_many(X), atol=1e-4)
    np.testing.assert_array_equal(opened.predict_many(X[100:]), learner.predict_many(X[100:]))
