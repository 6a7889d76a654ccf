"""The learner on landmarks that follow the stream, against plain loops in the kernel's space."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from reference import coordinates as plain

from streamk.errors import InvalidInput, StateError
from streamk.kernels import Gaussian, Laplacian, Linear
from streamk.landmarks import IncrementalOasis, Removal
from streamk.learners import (
    AdaGrad,
    Constant,
    InverseTime,
    OnlineNystrom,
    Scaled,
    create,
)
from streamk.losses import LOSSES, loss
from streamk.state import State

KERNEL = Gaussian(bandwidth=0.8)
OPTIONS: dict[str, Any] = {"max_landmarks": 12, "tol": 1e-3}
NEWTON = ("squared", "squared_hinge", "logistic", "softmax", "huber")


def learner(name: str = "softmax", optimizer: str = "sgd", **options: Any) -> OnlineNystrom:
    if optimizer == "sgd" and "step" not in options:
        options["step"] = Constant(0.4)
    return OnlineNystrom(KERNEL, loss=name, optimizer=optimizer, **{**OPTIONS, **options})


def stream(name: str, n: int, classes: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """Events and labels for a loss; of classes, the third one comes late."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    if loss(name).classifies and name != "squared":
        y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 0] > 1) * (np.arange(n) > n // 3)
        return X, np.minimum(y, classes - 1)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


# --- the oracle -----------------------------------------------------------------------------------


class Plain:
    """A function as kernels' coefficients, and the covariance of its values, on a list of points.

    `least` is the squares' inverse in the basis of the kernels themselves, so nothing is rotated:
    when point j goes, what it stood for is projected by solving for it.
    """

    def __init__(self, name: str, optimizer: str, **options: Any) -> None:
        self.loss, self.newton = loss(name), optimizer == "newton"
        self.step = options.get("step", Constant(0.4))
        self.ridge = options.get("regularization", 0.1 if self.newton else 0.0)
        self.forgetting = options.get("forgetting", 1.0)
        self.points = np.zeros((0, 2))
        self.coefficients = np.zeros((0, 1))
        self.covariance = np.zeros((0, 0))  # of coefficients
        self.t = 0

    def admit(self, x: np.ndarray) -> None:
        # The part of the new kernel that the others do not span has the ridge's variance.
        k = KERNEL.pairwise(self.points, x[None])[:, 0]
        q = np.linalg.solve(KERNEL.pairwise(self.points), k) if len(k) else k
        own = np.append(-q, 1.0)
        schur = 1.0 - k @ q
        self.points = np.vstack([self.points, x])
        self.coefficients = np.pad(self.coefficients, ((0, 1), (0, 0)))
        self.covariance = np.pad(self.covariance, (0, 1))
        if self.newton:
            self.covariance += np.outer(own, own) / (schur * self.ridge)

    def remove(self, j: int) -> None:
        rest = np.delete(self.points, j, axis=0)
        projection = np.linalg.solve(KERNEL.pairwise(rest), KERNEL.pairwise(rest, self.points))
        self.points, self.coefficients = rest, projection @ self.coefficients
        self.covariance = projection @ self.covariance @ projection.T

    def decide(self, X: Any) -> np.ndarray:
        return np.asarray(KERNEL.pairwise(X, self.points) @ self.coefficients)

    def fit_outputs(self, classes: int) -> None:
        outputs = self.loss.n_outputs(classes)
        c = self.coefficients
        if c.shape[1] == 1 < outputs and self.loss.name != "softmax":
            c = self.loss.split_binary(c[:, 0])
        self.coefficients = np.pad(c, ((0, 0), (0, outputs - c.shape[1])))

    def learn(self, x: np.ndarray, y: Any, classes: bool) -> None:
        self.t += 1
        k = KERNEL.pairwise(self.points, x[None])[:, 0]
        f = self.decide(x[None])
        g = plain.slopes(self.loss, f[0], int(y) if classes else float(y))
        if not self.newton:
            gamma = self.step.size(self.t)
            self.coefficients *= 1.0 - gamma * self.ridge
            self.coefficients -= gamma * np.outer(self.projected(k), g)
            return
        h = plain.curvature(self.loss, f[0], int(y) if classes else float(y))
        C = self.covariance / self.forgetting
        C = C - np.outer(C @ k, C @ k) * h / (1.0 + h * k @ C @ k)
        self.covariance = C
        self.coefficients = self.coefficients - np.outer(C @ k, g)

    def projected(self, k: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.solve(KERNEL.pairwise(self.points), k))


@pytest.mark.parametrize(
    ("name", "optimizer", "options"),
    [
        *((name, "sgd", {}) for name in LOSSES),
        *((name, "newton", {}) for name in NEWTON),
        *(
            ("huber", "sgd", {"step": step, "regularization": 0.05})
            for step in (InverseTime(3.0), Constant(0.7))
        ),
    ],
)
def test_it_is_the_plain_loop_over_admissions_and_removals(
    name: str, optimizer: str, options: dict[str, Any]
) -> None:
    X, y = stream(name, 150)
    classes = loss(name).classifies and name != "squared"
    mine, plain = learner(name, optimizer, **options), Plain(name, optimizer, **options)
    landmarks, seen = IncrementalOasis(KERNEL, **OPTIONS), []
    for x, label in zip(X, y.tolist(), strict=True):
        changes = landmarks.learn_one(x)
        if changes:
            plain.admit(x)
        for change in changes:
            if isinstance(change, Removal):
                plain.remove(change.position)
        seen += [label] if label not in seen else []
        if classes:
            plain.fit_outputs(len(seen))
        plain.learn(x, seen.index(label) if classes else label, classes)
        mine.learn_one(x, label)
    assert landmarks.n_removed > 10
    np.testing.assert_allclose(mine.decision_many(X), plain.decide(X), rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(mine.landmarks, plain.points)


def fixed(n: int = 400) -> tuple[Any, Any]:
    """Events whose first nine are all the landmarks there will be."""
    rng = np.random.default_rng(3)
    grid = np.array([[a, b] for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)])
    X = np.vstack([grid, rng.uniform(-1, 1, (n, 2))])
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=len(X))


FIXED: dict[str, Any] = {"max_landmarks": 9, "tol": 0.4, "optimizer": "newton"}


def on_landmarks(model: OnlineNystrom, X: Any) -> Any:
    assert model._landmarks.n_removed == 0
    assert model.n_features == 9
    return KERNEL.pairwise(X, model.landmarks), KERNEL.pairwise(model.landmarks)


def test_recursive_least_squares_is_the_batch_solution() -> None:
    X, y = fixed()
    model = learner("squared", regularization=0.3, **FIXED)
    model.learn_many(X[:9], np.zeros(9))  # makes the landmarks, and what their zeros weigh
    weights = np.zeros(9)
    model.learn_many(X[9:], y[9:])
    K, W = on_landmarks(model, X)
    # An early landmark's event was seen in the span of those before it.
    first = [KERNEL.pairwise(X[i : i + 1], X[: i + 1]) for i in range(9)]
    coordinates = np.zeros((9, 9))
    L = np.linalg.cholesky(W)
    for i, k in enumerate(first):
        coordinates[i, : i + 1] = np.linalg.solve(L[: i + 1, : i + 1], k[0])
    Phi = np.vstack([coordinates, np.linalg.solve(L, K[9:].T).T])
    target = np.append(weights, y[9:])
    solution = np.linalg.solve(Phi.T @ Phi + 0.3 * np.eye(9), Phi.T @ target)
    expected = np.linalg.solve(L.T, solution)
    np.testing.assert_allclose(model.coefficients[:, 0], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("keep", "pulls"), [(0.9, 1), (0.3, 2)])
def test_forgetting_is_least_squares_of_faded_events_and_a_ridge_that_stays(
    keep: float, pulls: int
) -> None:
    X, y = fixed(60)
    ridge = 0.2
    model = learner("squared", regularization=ridge, forgetting=keep, **FIXED)
    model.learn_many(X[:9], y[:9])
    A = np.linalg.inv(model._optimizer.inverse)  # type: ignore[attr-defined]
    start = model._optimizer.W.copy()
    model.learn_many(X[9:], y[9:])
    K, W = on_landmarks(model, X)
    Phi = np.linalg.solve(np.linalg.cholesky(W), K.T).T
    options = {"forgetting": keep, "ridge": ridge, "turn": 9, "pulls": pulls}
    W, _ = plain.newton(Phi[9:], y[9:], start, A, loss("squared"), **options)
    np.testing.assert_allclose(model._optimizer.W, W, rtol=1e-7, atol=1e-9)


# --- what is kept when the landmarks change -------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["sgd", "newton"])
@pytest.mark.parametrize("kernel", [KERNEL, Laplacian(bandwidth=1.0)])
def test_what_an_admission_and_a_removal_change(optimizer: str, kernel: Any) -> None:
    X, y = stream("squared", 400)
    probe = np.random.default_rng(7).normal(size=(300, 2))
    model = OnlineNystrom(kernel, loss="squared", optimizer=optimizer, max_landmarks=20)
    kinds = set()
    for at in range(len(X)):
        row = X[at : at + 1]
        before, coefficients = model.decision_many(probe)[:, 0], model.coefficients[:, 0]
        points = model.landmarks
        for some, changes, *_ in model._landmarks.follow(row) if at else ():
            for change in changes:
                model._optimizer.carry(change)
                kinds.add(type(change).__name__)
            model._served = None
            after = model.decision_many(probe)[:, 0]
            removed = [change for change in changes if isinstance(change, Removal)]
            if removed:
                j = removed[0].position
                joint = np.vstack([points, row])
                coefficient = np.append(coefficients, 0.0)[j]
                rest = np.delete(joint, j, axis=0)
                k = kernel.pairwise(rest, joint[j : j + 1])[:, 0]
                schur = 1.0 - k @ np.linalg.solve(kernel.pairwise(rest), k)
                assert np.abs(after - before).max() <= abs(coefficient) * math.sqrt(schur) + 1e-9
            else:
                assert np.abs(after - before).max() < 1e-9
            model._optimizer.learn(model._landmarks.transform(row[some]), y[at : at + 1])
            model._served = None
        if not at:
            model.learn_many(row, y[:1])
    assert kinds == {"Admission", "Removal"}


def test_least_squares_stays_sound_over_many_swaps() -> None:
    rng = np.random.default_rng(0)
    model = learner("squared", "newton", forgetting=0.98, half_life=10.0)
    for shift in range(40):
        X = rng.normal(size=(100, 2)) + 2.0 * shift  # the landmarks have to move on
        model.learn_many(X, np.sin(X[:, 0]))
    assert model._landmarks.n_removed > 400
    P = model._optimizer.inverse  # type: ignore[attr-defined]
    assert np.array_equal(P, P.T)
    assert np.linalg.eigvalsh(P).min() > 0
    assert np.isfinite(model.coefficients).all()


def test_no_windup_where_nothing_new_comes() -> None:
    X, y = fixed(50)
    model = learner("squared", forgetting=0.9, regularization=0.5, **FIXED)
    model.learn_many(X, y)
    model.learn_many(np.tile(X[20], (5000, 1)), np.tile(y[20], 5000))
    values = np.linalg.eigvalsh(model._optimizer.inverse)  # type: ignore[attr-defined]
    assert values.min() > 0
    # The ridge is given back in turns of nine, so it fades for as long in between.
    assert values.max() <= 1 / (0.5 * 0.9**9)
    assert model.predict_one(X[20]) == pytest.approx(y[20], abs=0.05)


def test_no_windup_where_events_fade_faster_than_landmarks_take_turns() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    model = OnlineNystrom(
        KERNEL, loss="squared", optimizer="newton", forgetting=0.7, max_landmarks=128
    )
    model.learn_many(X, y)
    model.learn_many(X[:1] + 1e-3 * rng.normal(size=(300, 3)), np.tile(y[0], 300))
    assert np.linalg.eigvalsh(model._optimizer.inverse).max() < 1e5  # type: ignore[attr-defined]
    assert np.abs(model.predict_many(X)).max() < 10


# --- the protocol ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"loss": "hinge", "optimizer": "newton"}, "has no curvature; choose optimizer='sgd'"),
        ({"optimizer": "newton", "step": Constant(1.0)}, "is for optimizer='sgd'"),
        ({"forgetting": 0.9}, "is for optimizer='newton'"),
        ({"optimizer": "newton", "regularization": 0.0}, "must be a number above 0"),
        ({"step": AdaGrad(1.0)}, "which rotate when a landmark is removed"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        OnlineNystrom(KERNEL, **options)
    with pytest.raises(InvalidInput, match="any but linear"):
        OnlineNystrom(Linear())


def test_a_step_that_is_too_large_is_told() -> None:
    model = learner("squared", step=Constant(1e200))
    X, y = stream("squared", 50)
    with pytest.raises(InvalidInput, match="predictions overflowed at step"):
        model.learn_many(X, y)
    assert 0 < model.n_events < 50


# --- merging --------------------------------------------------------------------------------------


def test_merged_least_squares_are_those_of_all_events() -> None:
    X, y = fixed()
    options = {**FIXED, "regularization": 0.3}
    whole, one, two = (learner("squared", **options) for _ in range(3))
    for model in (whole, one, two):
        model.learn_many(X[:9], np.zeros(9))
    A0 = np.linalg.inv(whole._optimizer.inverse)  # type: ignore[attr-defined]
    whole.learn_many(X[9:], y[9:])
    one.learn_many(X[9:200], y[9:200])
    two.learn_many(X[200:], y[200:])
    one.merge(two)
    assert one.n_events == whole.n_events + 9
    # The zeros of the first nine have been learned by both.
    W = whole._optimizer.W[:, 0]
    A = np.linalg.inv(whole._optimizer.inverse)  # type: ignore[attr-defined]
    expected = np.linalg.solve(A + A0 - 0.3 * np.eye(9), A @ W)
    np.testing.assert_allclose(one._optimizer.W[:, 0], expected, rtol=1e-8, atol=1e-9)
    P = one._optimizer.inverse  # type: ignore[attr-defined]
    np.testing.assert_allclose(P, np.linalg.inv(A + A0 - 0.3 * np.eye(9)), rtol=1e-7, atol=1e-9)
    assert np.array_equal(one._optimizer.T, np.triu(one._optimizer.T))  # type: ignore[attr-defined]


def test_merged_gradient_steps_are_the_mean_function() -> None:
    X, y = fixed(100)
    one, two = (learner("squared", max_landmarks=9, tol=0.4) for _ in range(2))
    one.learn_many(X, y)
    two.learn_many(X[:59], -y[:59])
    expected = (109 * one.decision_many(X) + 59 * two.decision_many(X)) / 168
    one.merge(two)
    np.testing.assert_allclose(one.decision_many(X), expected, atol=1e-9)


# --- scaled, in the engine, in twins --------------------------------------------------------------


def test_what_cannot_be_scaled_is_named() -> None:
    state = create("online-nystrom", task="regression").state()
    parts: Any = dict(state.header)
    parts["parts"] = {**parts["parts"], "learner": {"type": "x", "format": 1}}
    with pytest.raises(StateError, match="no 'x' can be scaled"):
        Scaled.from_state(State(parts, state.arrays))


def test_landmarks_of_another_width_are_refused() -> None:
    X, y = stream("squared", 40)
    narrow, wide = learner("squared"), learner("squared")
    narrow.learn_many(X[:, :1], y)
    wide.learn_many(X, y)
    state = wide.state()
    parts = {"landmarks": narrow.state().child("landmarks")}
    others = {name: value for name, value in state.arrays.items() if "." not in name}
    header = {name: value for name, value in state.header.items() if name != "parts"}
    nested = State.nest(parts, header)
    with pytest.raises(StateError, match=r"'landmarks\.points'.* must have 2 columns, not 1"):
        OnlineNystrom.from_state(State(nested.header, {**nested.arrays, **others}))
