"""EigenPro with its centers on shards, beside the one on the host, on the same streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from state_kit import assert_same

from streamk.kernels import Kernel, Matern
from streamk.learners import EigenPro

TASKS = ("classification", "regression")
TOLERANCE = 1e-4
"""Of outputs near 1: kernels and coefficients are float32, and some steps follow each other."""
Place = dict[str, Any]
"""Options that say where the centers are."""


def stream(task: str, n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n)
    return X, y if task == "regression" else np.where(y > 0, "same", "other")


def learner(task: str, place: Place, **options: Any) -> EigenPro:
    kernel: Kernel = options.pop("kernel", Matern(nu=0.5, bandwidth=2.0))
    options = {"n_centers": 150, "batch_size": 50, "solver": "eigenpro"} | options
    return EigenPro(kernel, task=task, **options, **place)


def life_of_a_model(task: str, place: Place, **options: Any) -> list[Any]:
    """Outputs at several points of a model's life, in which all that can happen to it happens.

    Centers are chosen, columns and a class come late, centers are added, the model is opened from
    its state, and learns on in two copies that are merged.
    """
    X, y = stream(task, 1730)
    X, rest = X[:1500], X[1500:]
    wide, late = np.c_[X, X[:, :1]], y[:1500].astype(object)
    if task == "classification":
        late[::7] = "third"
    model, found = learner(task, place, **options), []
    model.learn_many(X[:777], y[:777])
    found.append(model.decision_many(rest))
    model.add_columns(["late"])
    rest = np.c_[rest, rest[:, :1]]
    model.learn_many(wide[777:1000], late[777:1000])
    found.append(model.decision_many(rest))
    assert model.add_centers(wide[:70] + 0.25) == 70
    model.learn_many(wide[1000:1200], late[1000:1200])
    found.append(model.decision_many(rest))
    other = EigenPro.from_state(model.state(), **place)
    np.testing.assert_array_equal(other.decision_many(rest), found[-1])
    other.learn_many(wide[1200:1333], late[1200:1333])
    model.learn_many(wide[1333:], late[1333:])
    model.merge(other, common_events=1200)
    assert len(model.centers) == 220
    found.append(model.decision_many(rest))
    return found


def assert_alike(found: list[Any], expected: list[Any]) -> None:
    """Outputs agree within the rounding of single precision."""
    for one, other in zip(found, expected, strict=True):
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * scale)


def assert_it_goes_on_exactly(place: Callable[[], Place]) -> None:
    """A model that is opened from its state at any time learns on as the one that was not."""
    X, y = stream("classification", 1100)
    for stop in (0, 130, 700, 975):
        whole = learner("classification", place(), n_centers=120)
        whole.learn_many(X[:stop], y[:stop])
        part = EigenPro.from_state(whole.state(), **place())
        for model in (whole, part):
            model.learn_many(X[stop:], y[stop:])
        assert_same(part, whole)
