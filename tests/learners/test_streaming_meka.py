"""The learner whose factorization is renewed on the stream: nothing in it depends on time."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_kit import same_model

from streamk.errors import InvalidInput, StateError
from streamk.factorization import meka
from streamk.kernels import Gaussian, Laplacian
from streamk.learners import Constant, StreamingMeka, from_state
from streamk.learners.common.optimizers import curvature, projected, resolved
from streamk.learners.meka.features import GrowingFeatures
from streamk.learners.meka.streaming import refactorized
from streamk.learners.renewal import EventBuffer
from streamk.losses import loss
from streamk.state import State

KERNEL = Gaussian(bandwidth=0.8)
OPTIONS: dict[str, Any] = {
    "rank": 4,
    "n_clusters": 3,
    "buffer_size": 60,
    "first": 40,
    "every": 70,
    "swap_delay": 15,
    "growth": 6,
    "max_error": None,
    "max_shift": None,
}


def learner(name: str = "softmax", optimizer: str = "sgd", **options: Any) -> StreamingMeka:
    if optimizer == "sgd" and "step" not in options:
        options["step"] = Constant(0.4)
    return StreamingMeka(KERNEL, loss=name, optimizer=optimizer, **{**OPTIONS, **options})


def stream(name: str, n: int, seed: int = 0) -> tuple[Any, Any]:
    """Events and labels for a loss; of classes, the third one comes late."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    if loss(name).classifies and name != "squared":
        return X, (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 0] > 1) * (np.arange(n) > n // 3)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


class Gate:
    """Lets factorizations through when it is told to, and knows how many came."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.began = threading.Event(), threading.Event()
        made = GrowingFeatures.of

        def features(*arguments: Any, **options: Any) -> Any:
            self.began.set()
            assert self.opened.wait(60.0)
            return made(*arguments, **options)

        monkeypatch.setattr(GrowingFeatures, "of", features)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    found = Gate(monkeypatch)
    yield found
    found.opened.set()


# --- the background -------------------------------------------------------------------------------


def test_it_takes_over_at_its_event_however_late_it_is(gate: Gate) -> None:
    X, y = stream("squared", 120)
    late, prompt = learner("squared"), learner("squared")
    for at in range(0, 54, 3):  # those that wait for it are learned together
        late.learn_many(X[at : at + 3], y[at : at + 3])
    assert gate.began.wait(60.0)
    assert (late.n_factorizations, late.n_waits) == (0, 0)
    # The event that it takes over after waits for it.
    waiting = threading.Thread(target=late.learn_many, args=(X[54:60], y[54:60]))
    waiting.start()
    while late.n_events < 55:
        waiting.join(0.001)
    assert (late.n_events, late.n_factorizations) == (55, 0)
    gate.opened.set()
    waiting.join()
    assert (late.n_events, late.n_factorizations, late.n_waits) == (60, 1, 1)
    for x, label in zip(X[:60], y[:60], strict=True):
        prompt.learn_one(x, label)
        next_ = prompt._next
        assert prompt.n_factorizations == (prompt.n_events >= 55)
        if next_ is not None:
            next_.wait()  # so it is never late
    assert prompt.n_waits == 0
    assert late.seconds_waited > 0.0
    assert same_model(late, prompt)


def test_when_factorizations_begin() -> None:
    X, y = stream("softmax", 500)
    model = learner()
    began, over = set(), set()
    for x, label in zip(X, y, strict=True):
        before = model.n_factorizations
        model.learn_one(x, label)
        began.add(model._began)
        over |= {model.n_events} if model.n_factorizations > before else set()
    assert sorted(began) == [0, 40, 80, 150, 220, 290, 360, 430, 500]
    assert sorted(over) == [55, 95, 165, 235, 305, 375, 445]


def test_nothing_is_made_anew_where_all_is_off() -> None:
    X, y = stream("softmax", 400)
    model = learner(every=None)
    model.learn_many(X, y)
    assert model.n_factorizations == 1


def shifted() -> tuple[Any, Any]:
    """A stream that moves elsewhere, to two new places."""
    X, y = stream("squared", 2400)
    X = X / 4
    X[1100:] += np.where(np.arange(1300) % 4, 1.0, 9.0)[:, None]
    return X, y


@pytest.mark.parametrize("options", [{"max_error": 1.5}, {"max_shift": 0.2}])
def test_it_begins_early_where_a_bound_is_crossed(options: dict[str, Any]) -> None:
    X, y = shifted()
    calm, lively = (learner("squared", every=None, growth=0, **o) for o in ({}, options))
    for model in (calm, lively):
        model.learn_many(X, y)
    assert calm._began == 40
    assert lively._began > 1100
    assert lively._began % 512 == 0
    assert calm.n_factorizations == 1
    assert lively.n_factorizations >= 2
    assert lively.error is not None
    assert calm.error is not None
    assert lively.error < 0.5 * calm.error


def test_a_function_that_overflows_is_told_and_not_carried_over() -> None:
    X, y = stream("squared", 60)
    with pytest.raises(InvalidInput, match="overflowed; scale the labels"):
        refactorized({}, X, y, X[:9], lambda X: np.full((len(X), 1), np.inf), None, 0)  # type: ignore[arg-type]


def test_a_failure_is_told_at_the_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise InvalidInput("no factorization today")

    monkeypatch.setattr(GrowingFeatures, "of", fail)
    X, y = stream("softmax", 100)
    model = learner()
    model.learn_many(X[:50], y[:50])
    twin = from_state(model.state())
    for one in (model, twin):
        with pytest.raises(InvalidInput, match="no factorization today"):
            one.learn_many(X[50:], y[50:])
        assert one.n_events == 55
    monkeypatch.undo()
    for one in (model, twin):
        one.learn_many(X[55:], y[55:])
        assert one.n_factorizations == 1  # type: ignore[attr-defined]
    assert same_model(model, twin)


# --- growth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [KERNEL, Laplacian(bandwidth=1.0)])
@pytest.mark.parametrize("optimizer", ["sgd", "newton"])
def test_an_admission_changes_no_prediction(kernel: Any, optimizer: str) -> None:
    X, y = stream("squared", 200)
    probe = np.random.default_rng(7).normal(size=(300, 2))
    model = StreamingMeka(kernel, loss="squared", optimizer=optimizer, **{**OPTIONS, "growth": 40})
    model.learn_many(X[:100], y[:100])
    grown = 0
    for x, label in zip(X[100:], y[100:], strict=True):
        function = model._function
        assert function is not None
        before = function.decide(probe)
        labels = function.features.nearest(x[None])
        grown += len(function.features.grow(x[None], labels, np.ones(1, bool)))
        function.learn(x[None][:0], np.zeros(0), np.zeros(0, bool))  # carries what was gained
        assert len(function.optimizer.W) == model.n_features
        assert np.abs(function.decide(probe) - before).max() < 1e-10
        model.learn_one(x, label)
    assert grown > 5


def test_growth_is_bounded_and_spared_what_is_held_back() -> None:
    X, y = stream("squared", 400)
    model = learner("squared", every=None, growth=9, tol=0.01)
    sizes = []
    for x, label in zip(3 * X, y, strict=True):
        model.learn_one(x, label)
        sizes.append(model.n_grown)
    assert max(sizes[:55]) == 12
    assert max(sizes[55:]) == 9
    function = model._function
    assert function is not None
    held_back = {tuple(x) for x in 3 * X[9::10]}
    for one in function.features._clusters:
        assert not held_back & {tuple(x) for x in one.points}
    assert learner("squared", growth=0).n_grown == 0


def test_features_are_the_approximate_kernel_and_what_was_gained() -> None:
    rng = np.random.default_rng(0)
    X, more = rng.normal(size=(300, 2)), 3.0 * rng.normal(size=(100, 2))
    found, sizes = GrowingFeatures.of(X, KERNEL, rank=8, n_clusters=4, seed=1, room=20, tol=0.05)
    assert sizes.sum() == 300
    plain = meka(X, KERNEL, rank=8, n_clusters=4, seed=1, dtype=np.float64)
    np.testing.assert_allclose(found.pairwise(more), plain.psd().pairwise(more), atol=1e-9)
    rows = found.grow(more, found.nearest(more), np.ones(100, bool))
    assert len(rows) == found.n_grown == 20
    # Of a landmark gained, the features have all that the landmarks of its cluster span.
    before, after = plain.psd().pairwise(more[rows]), found.pairwise(more[rows])
    assert (np.diag(after) - np.diag(before) > 0.04).all()
    W = rng.normal(size=(found.size, 2))
    labels = found.nearest(more)
    expected = found.transform(more, labels) @ W
    for s in range(len(found)):
        points, coefficients = found.expanded(s, W)
        inside = labels == s
        served = KERNEL.pairwise(more[inside], points) @ coefficients
        np.testing.assert_allclose(served, expected[inside], atol=1e-8)


def test_a_landmark_that_is_kept_is_one_of_its_cluster() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    found, _ = GrowingFeatures.of(X, KERNEL, rank=4, n_clusters=2, seed=1, room=9, tol=0.05)
    state = found.state()
    (name,) = (name for name in state.arrays if name.endswith("cluster0.kept"))
    state.arrays[name][-1] = len(state.arrays[name.replace("kept", "landmarks")])
    with pytest.raises(StateError, match="array 'kept' of a cluster"):
        GrowingFeatures.from_state(state)


def test_before_the_first_factorization_it_is_the_plain_kernel() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    found = GrowingFeatures.empty(KERNEL, 2, room=50, tol=1e-9)
    found.grow(X, found.nearest(X), np.ones(50, bool))
    np.testing.assert_allclose(found.pairwise(X), KERNEL.pairwise(X), atol=1e-6)


# --- coefficients at a takeover -------------------------------------------------------------------


def test_least_squares_are_solved_at_once() -> None:
    rng = np.random.default_rng(0)
    Phi, y = rng.normal(size=(80, 5)), rng.normal(size=80)
    weights, W0, prior = rng.uniform(size=80), rng.normal(size=(5, 1)), 0.3 * np.eye(5)
    W, A = resolved(loss("squared"), Phi, y, weights, W0, prior)
    expected = np.linalg.solve(
        (Phi.T * weights) @ Phi + prior, Phi.T @ (weights * y) + 0.3 * W0[:, 0]
    )
    np.testing.assert_allclose(W[:, 0], expected, atol=1e-12)
    np.testing.assert_allclose(A, (Phi.T * weights) @ Phi + prior, atol=1e-12)
    F = rng.normal(size=(80, 2))
    expected = np.linalg.solve(Phi.T @ Phi + 0.1 * np.eye(5), Phi.T @ F)
    np.testing.assert_allclose(projected(Phi, F, 0.1), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["squared", "squared_hinge", "logistic", "softmax", "huber"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_other_losses_come_near_their_least(name: str, n_classes: int) -> None:
    rng = np.random.default_rng(1)
    Phi = rng.normal(size=(200, 4)) / 2
    chosen = loss(name)
    classes = chosen.classifies and name != "squared"
    y = rng.integers(0, n_classes, 200) if classes else 3 * rng.normal(size=200)
    outputs = chosen.n_outputs(n_classes) if classes else 1
    W0, prior = np.zeros((4, outputs)), 0.5 * np.eye(4)

    def cost(W: Any) -> float:
        return float(chosen.value(Phi @ W, y).sum() + 0.25 * (W * W).sum())

    W, _ = resolved(chosen, Phi, y, np.ones(200), W0, prior)
    least, at = W0, 0.5 * (curvature(chosen, outputs) or 0.0) * np.linalg.norm(Phi, 2) ** 2
    for _ in range(4000):
        gradient = Phi.T @ chosen.gradient(Phi @ least, y) + 0.5 * least
        least = least - gradient / (2 * at + 0.5)
    assert cost(W) - cost(least) < 1e-2 * (cost(W0) - cost(least)) + 1e-9


def test_newton_knows_what_least_squares_know() -> None:
    """On a buffer of all events, what follows a takeover is recursive least squares."""
    X, y = stream("squared", 200)
    options = {"buffer_size": 500, "every": None, "growth": 0, "first": 100, "swap_delay": 1}
    model = learner("squared", "newton", regularization=0.3, **options)
    model.learn_many(X[:101], y[:101])
    function = model._function
    assert function is not None
    Phi = function.features.transform(X[:101], function.features.nearest(X[:101]))
    inside = np.arange(1, 102) % 10 != 0
    A = Phi[inside].T @ Phi[inside] + 0.3 * np.eye(Phi.shape[1])
    P = function.optimizer.inverse  # type: ignore[attr-defined]
    # Events that were held back count as what the buffer says of them: 10 of 100.
    scale = 1.0 / 0.9
    old = A + (scale - 1.0) * Phi[:100][inside[:100]].T @ Phi[:100][inside[:100]]
    np.testing.assert_allclose(P, np.linalg.inv(old), rtol=1e-6, atol=1e-9)
    T = function.optimizer.T  # type: ignore[attr-defined]
    assert np.array_equal(T, np.triu(T))


# --- the buffer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["recent", "reservoir"])
def test_a_buffer_does_not_see_how_events_are_cut(kind: str) -> None:
    X = np.arange(5000.0)[:, None]
    whole, pieces = EventBuffer(kind, 100, 3), EventBuffer(kind, 100, 3)
    whole.add(X, X[:, 0])
    for first, stop in ((0, 1), (1, 99), (99, 104), (104, 3000), (3000, 5000)):
        pieces.add(X[first:stop], X[first:stop, 0])
    again = EventBuffer(kind, 100, 3).restored(pieces.state(), 1, None)
    for one in (whole, pieces, again):
        assert len(one) == 100
        np.testing.assert_array_equal(one.events()[0], whole.events()[0])
    rows = whole.events()[1]
    assert (np.diff(rows) > 0).all()
    assert (rows.min() == 4900) == (kind == "recent")
    some = len(rows) // 2
    np.testing.assert_array_equal(whole.events(int(rows[some]))[1], rows[some:])
    damaged = State(whole.state().header, {**whole.state().arrays, "y": rows[:3]})
    with pytest.raises(StateError, match="must have the shape"):
        whole.restored(damaged, 1, None)


def test_a_reservoir_is_uniform() -> None:
    found = np.zeros(1000)
    for seed in range(200):
        buffer = EventBuffer("reservoir", 100, seed)
        buffer.add(np.arange(1000.0)[:, None], np.zeros(1000))
        found[buffer.events()[0][:, 0].astype(int)] += 1
    assert np.abs(found.reshape(10, 100).sum(axis=1) - 2000).max() < 6 * np.sqrt(2000 * 0.9)


# --- the protocol ---------------------------------------------------------------------------------


def test_a_copy_in_the_middle_goes_on_by_itself(gate: Gate) -> None:
    X, y = stream("squared", 100)
    model = learner("squared")
    model.learn_many(X[:50], y[:50])
    opener = threading.Timer(0.0, gate.opened.set)
    opener.start()
    twin = copy.deepcopy(model)
    assert model.n_waits <= 1
    for one in (model, twin):
        one.learn_many(X[50:], y[50:])
    assert same_model(model, twin)


def test_a_step_that_is_too_large_is_told() -> None:
    model = learner("squared", step=Constant(1e200))
    X, y = stream("squared", 50)
    with pytest.raises(InvalidInput, match="predictions overflowed at step"):
        model.learn_many(X, y)
    assert 0 < model.n_events < 50
    assert same_model(model, from_state(model.state()))


# --- merging --------------------------------------------------------------------------------------


def test_merging_is_learning_what_the_other_has_kept() -> None:
    X, y = stream("softmax", 300)
    labels = np.array(["a", "b", "c"])[y]
    base = learner(columns=["u", "v"], buffer_size=500)
    base.learn_many(X[:100], labels[:100])
    one, two, idle = (from_state(base.state()) for _ in range(3))
    one.learn_many(X[100:150], labels[100:150])
    two.learn_many(X[150:250], labels[150:250])
    idle.merge(two, common_events=100)
    assert same_model(idle, two)
    expected = from_state(one.state())
    kept = np.arange(151, 251) % 10 != 0
    expected.learn_many(X[150:250][kept], labels[150:250][kept])
    one.merge(two, common_events=100)
    assert one.n_events == 250
    assert np.array_equal(one.decision_many(X), expected.decision_many(X))
    swapped = learner(columns=["v", "w", "u"], classes=["c", "b"], buffer_size=500)
    swapped.merge(two)
    assert swapped.columns == ("v", "w", "u")
    assert swapped.classes == ("c", "b", "a")
    moved = np.column_stack([X[:, 1], np.zeros(300), X[:, 0]])
    assert (swapped.predict_many(moved) == two.predict_many(X)).mean() > 0.7
    before = two.state()
    two.merge(learner(columns=["u", "v"], buffer_size=500))
    assert same_model(two, from_state(before))
