"""Steps that are preconditioned by blocks: against the oracle, any cut, states, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference.preconditioner import Preconditioned, direction, left_out

from streamk.errors import InvalidInput, StateError
from streamk.features import RandomFeatures
from streamk.kernels import (
    Gaussian,
    Polynomial,
)
from streamk.learners import DoublyStochastic, Step, create
from streamk.learners.common.steps import AdaGrad, Constant, InverseTime
from streamk.learners.doubly_stochastic.preconditioned import Block, Search
from streamk.losses import loss
from streamk.state import State

Numbers = np.ndarray[Any, Any]
KERNEL = Gaussian(bandwidth=0.8)
BLOCK = 64
N = 700


def stream(task: str = "classification", n: int = N, seed: int = 0) -> tuple[Numbers, list[Any]]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    product = X[:, 0] * X[:, 1]
    if task == "regression":
        return X, (product + 0.1 * rng.normal(size=n)).tolist()
    return X, np.select([product > 0.2, product > -0.2], ["high", "middle"], "low").tolist()


def made(task: str = "classification", **options: Any) -> DoublyStochastic:
    given: dict[str, Any] = {
        "loss": "softmax" if task == "classification" else "squared",
        "block_size": BLOCK,
        "max_features": 3 * BLOCK,
        "seed": 3,
        "dtype": "float64",
        "preconditioner": "block",
    }
    return DoublyStochastic(KERNEL, **given | options)


# --- against the oracle ---------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("nu", [0.0, 0.01])
def test_leave_one_out_changes_are_those_without_the_event(damping: float, nu: float) -> None:
    rng = np.random.default_rng(0)
    Phi, G, W = (rng.normal(size=shape) for shape in ((30, 8), (30, 2), (8, 2)))
    block = Block(np, Phi, G, W, curvature=0.5, regularization=nu)
    seen: list[Numbers] = []

    def squares(changes: Numbers) -> Numbers:
        seen.append(changes)
        return np.square(changes).sum(axis=1)

    found = block.searched(damping, squares)
    np.testing.assert_allclose(found.D, direction(Phi, G, W, 0.5, nu, damping), rtol=1e-9)
    np.testing.assert_allclose(block.direction(damping), found.D, rtol=1e-9)
    np.testing.assert_allclose(seen[1], left_out(Phi, G, W, 0.5, nu, damping), rtol=1e-7)
    assert (found.size, found.rise) == (0.0, 0.0)


CASES: list[tuple[str, dict[str, Any], float, dict[str, Any]]] = [
    ("regression", {"batch_size": 20}, 1.0, {}),
    ("regression", {"batch_size": 40}, 1.0, {}),
    ("classification", {}, 0.5, {}),
    ("regression", {}, 1.0, {}),
    ("regression", {"regularization": 0.01}, 1.0, {"nu": 0.01}),
    ("classification", {"step": Constant(0.5)}, 0.5, {"size": 0.5}),
    ("regression", {"step": Constant(0.25), "averaging": True}, 1.0, {"size": 0.25, "eta": 3}),
    ("regression", {"averaging": True}, 1.0, {"eta": 3}),
]


@pytest.mark.parametrize(("task", "options", "h", "theirs"), CASES, ids=str)
def test_a_stream_as_the_oracle_learns_it(
    task: str, options: dict[str, Any], h: float, theirs: dict[str, Any]
) -> None:
    X, y = stream(task)
    model = made(task, **options)
    features = RandomFeatures(KERNEL, seed=3, dtype="float64")
    outputs = 3 if task == "classification" else 1
    if task == "classification":
        model = made(task, classes=("high", "middle", "low"), **options)

    def evaluated(X: Numbers, start: int, stop: int) -> Numbers:
        return np.asarray(features.transform(X, start, stop))

    oracle = Preconditioned(
        model.loss, evaluated, n_outputs=outputs, h=h, block=BLOCK, n_features=3 * BLOCK, **theirs
    )
    labels = [("high", "middle", "low").index(c) for c in y] if task == "classification" else y
    size = model.batch_size
    for start in range(0, 3 * size, size):
        part = slice(start, start + size)
        model.learn_many(X[part], y[part])
        oracle.learn(X[part], labels[part])
    np.testing.assert_allclose(model.coefficients, oracle.W, rtol=1e-6, atol=1e-9)
    W = oracle.mean if "eta" in theirs else oracle.W
    expected = oracle.outputs(X[640:], W)
    np.testing.assert_allclose(model.decision_many(X[640:]), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.decision_one(X[640]), expected[0], rtol=1e-6, atol=1e-8)


def test_a_step_of_few_events_is_damped() -> None:
    X, y = stream("regression", 40)
    model = made("regression", step=Constant(1.0))
    model.learn_many(X, y)
    assert model.n_steps == 0
    model.finish()
    Phi = np.asarray(RandomFeatures(KERNEL, seed=3, dtype="float64").transform(X, 0, BLOCK))
    G = -np.array(y)[:, None]
    expected = direction(Phi, G, np.zeros((BLOCK, 1)), 1.0, 0.0, BLOCK / 40)
    np.testing.assert_allclose(model.coefficients, expected, rtol=1e-7)


def test_one_event_alone_tells_nothing_of_others() -> None:
    """Without the event there is none: its leave-one-out change is 0, not what rounding leaves."""
    X = np.random.default_rng(0).normal(size=(1, 2))
    model = made("regression")
    model.learn_many(X, [3.0])
    model.finish()
    assert (model.n_steps, model.predict_one(X[0])) == (1, 0.0)


@pytest.mark.parametrize("name", ["logistic", "softmax", "squared_hinge"])
def test_the_offset_of_a_preconditioned_step_is_that_of_a_curvature_of_1(name: str) -> None:
    """The direction is divided by the curvature already, and the first step is none but it."""
    model = made(loss=name, step=InverseTime(20.0))
    assert model.step == InverseTime(20.0, offset=20.0)


@pytest.mark.parametrize("factor", [2.0**10, 2.0**20])
def test_features_of_any_scale_are_damped_alike(factor: float) -> None:
    """Of few directions, as of columns that depend on one another; single precision adds more."""
    rng = np.random.default_rng(0)
    Phi = (rng.normal(size=(128, 8)) @ rng.normal(size=(8, BLOCK))).astype(np.float32)
    others = rng.normal(size=(500, BLOCK))
    y = rng.normal(size=128)
    found = []
    for scale in (2.0, 2.0 * factor):
        features = (np.float32(scale) * Phi, -y[:, None], np.zeros((BLOCK, 1)))
        block = Block(np, *features, curvature=1.0, regularization=0.0)
        changes = [scale * others @ block.direction(damping) for damping in (0.0, 0.5)]
        changes.append(scale * others @ Search(loss("squared")).step(block, np.zeros((128, 1)), y))
        found.append(changes)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_polynomial_of_columns_of_any_unit() -> None:
    """Its covariance is of fewer directions than features, and squares are some 10^14."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    y = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] ** 2
    options: dict[str, Any] = {"block_size": 128, "dtype": "float32", "loss": "squared"}
    model = DoublyStochastic(
        Polynomial(degree=3), preconditioner="block", step=Constant(0.5), averaging=True, **options
    )
    model.learn_many(300.0 * X[:4000], y[:4000])
    assert np.abs(model.predict_many(300.0 * X[4000:]) - y[4000:]).mean() < 0.15


# --- how well -------------------------------------------------------------------------------------


def test_a_searched_step_does_not_explode_where_a_constant_one_does() -> None:
    """Noise alone, with many more features than events in a step."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 20)), rng.normal(size=20_000)
    options: dict[str, Any] = {"max_features": 40 * BLOCK, "dtype": "float32"}
    model = made("regression", **options)
    model.learn_many(X, y)
    assert np.square(model.predict_many(X[:2000])).mean() < 1.0
    constant = made("regression", step=Constant(1.0), **options)
    with pytest.raises(InvalidInput, match="predictions overflowed"):
        constant.learn_many(np.tile(X, (10, 1)), np.tile(y, 10))


def test_a_first_mini_batch_that_is_not_whole_is_a_whole_step() -> None:
    X, y = stream("regression", 50)
    models = [made("regression", batch_size=size) for size in (50, 500)]
    for model in models:
        model.learn_many(X, y)
        model.finish()
    assert np.abs(models[0].coefficients).max() > 0.0
    np.testing.assert_array_equal(models[0].coefficients, models[1].coefficients)


# --- any cut, states ------------------------------------------------------------------------------


def test_a_merge_is_the_mean_by_events() -> None:
    X, y = stream("regression", 1024)
    one, other = (made("regression", averaging=True) for _ in range(2))
    one.learn_many(X[:256], y[:256])
    other.learn_many(X[256:], y[256:])
    expected = 0.25 * one.decision_many(X) + 0.75 * other.decision_many(X)
    one.merge(other)
    np.testing.assert_allclose(one.decision_many(X), expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(InvalidInput, match="averaging"):
        one.merge(made("regression"))
    empty = made("regression", averaging=True)
    empty.merge(other)
    np.testing.assert_allclose(empty.decision_many(X), other.decision_many(X), rtol=1e-12)


@pytest.mark.parametrize(
    "header",
    [
        {"damping": 0.0},
        {"damping": "much"},
        {"averages_scale": None},
        {"averaging": 3},
        {"preconditioner": "hessian"},
        {"step": {"step": "adagrad", "gamma": 1.0}},
    ],
)
def test_a_damaged_header_is_refused(header: dict[str, Any]) -> None:
    model = made(averaging=True)
    model.learn_many(*stream())
    state = model.state()
    with pytest.raises(StateError):
        DoublyStochastic.from_state(State({**state.header, **header}, state.arrays))


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"preconditioner": "newton"}, "preconditioner='newton' must be one of block"),
        ({"preconditioner": None, "averaging": True}, "averaging=True is for preconditioner"),
        ({"averaging": 1}, "averaging=1 must be True or False"),
        ({"step": AdaGrad(0.1)}, "step='adagrad'"),
        ({"batch_size": 1}, "batch_size=1 must be at least 2"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        made(**options)


def test_hinge_has_no_curvature_and_takes_the_covariance() -> None:
    X, y = stream()
    model = made(loss=loss("hinge"))
    model.learn_many(X, y)
    assert np.mean(model.predict_many(X) == np.array(y)) > 0.7


def test_defaults() -> None:
    assert made().batch_size == 2 * BLOCK
    assert made().step is None
    assert DoublyStochastic(KERNEL).batch_size == 8
    assert DoublyStochastic(KERNEL).step == Constant(1.0)
    scaled: Any = create("doubly-stochastic", task="regression", preconditioner="block")
    assert (scaled.learner.step, scaled.learner.batch_size) == (None, 4096)
    scaled = create("doubly-stochastic", task="regression", preconditioner="block", step=0.25)
    step: Step = scaled.learner.step
    assert step == Constant(0.25)
