"""Learners of one kernel take events one by one, however a stream is cut into calls."""

from itertools import pairwise

import numpy as np
import pytest
from reference import naive
from state_kit import assert_same, through_json

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.learners import (
    AdaGrad,
    Constant,
    DoublyStochastic,
    EigenPro,
    FeatureMachine,
    InverseTime,
    OnlineKernelRidge,
    OnlineNystrom,
    Scaled,
    StreamingMeka,
)
from streamk.scaling.running import RunningScale

N, CUTS = 400, 15
GAUSSIAN = kernels.Gaussian(bandwidth=0.8)


def stochastic(**options):
    return lambda **more: DoublyStochastic(
        options.get("kernel", GAUSSIAN),
        **{
            "seed": 3,
            "block_size": 128,
            "max_features": 128,
            **{name: value for name, value in options.items() if name != "kernel"},
            **more,
        },
    )


def nystrom(**options):
    return lambda **more: OnlineNystrom(GAUSSIAN, max_landmarks=12, **options, **more)


def kernel_ridge(**options):
    def make(**more):
        more.pop("loss", None)  # the squared one
        return OnlineKernelRidge(GAUSSIAN, **options, **more)

    return make


def eigenpro(**options):
    def make(**more):
        more.pop("loss", None)  # the squared one
        return EigenPro(GAUSSIAN, n_centers=40, batch_size=32, **options, **more)

    return make


def feature_machine(**options):
    def make(**more):
        more.pop("loss", None)  # the squared one
        sizes = {"buffer_size": 70, "reservoir_size": 40, "first": 64, "swap_delay": 30}
        return FeatureMachine(every=100, **sizes, **options, **more)

    return make


def meka(**options):
    parts = {"rank": 4, "n_clusters": 2, "first": 60, "swap_delay": 25, "every": 90, "growth": 6}
    return lambda **more: StreamingMeka(
        GAUSSIAN, buffer_size=64, max_error=None, tol=0.05, **parts, **options, **more
    )


def scaled(make):
    return lambda **more: Scaled(make(**more))


CLASSES = ["softmax", "logistic", "hinge", "squared_hinge", "squared"]
NUMBERS = ["squared", "huber", "epsilon_insensitive", "quantile"]
LEARNERS = {
    "a step an event": stochastic(batch_size=1, step=Constant(0.5)),
    "mini-batches": stochastic(batch_size=7, step=Constant(0.5)),
    "nystrom": nystrom(),
    "meka": meka(),
}
TASKS = [(loss, "classification") for loss in CLASSES] + [(loss, "regression") for loss in NUMBERS]
MORE = {
    "events as centers": kernel_ridge(max_centers=150),
    "events as centers, one ridge": kernel_ridge(regularization=0.3),
    "centers, normal equations": eigenpro(solver="direct", forgetting=0.999),
    "a metric": feature_machine(),
    "centers, gradient steps": eigenpro(solver="eigenpro"),
    "adagrad": stochastic(batch_size=1, step=AdaGrad(0.2), regularization=0.01),
    "inverse time, blocks in turn": stochastic(
        batch_size=1,
        step=InverseTime(5.0, offset=0),
        regularization=0.5,
        block_size=50,
        max_features=130,
    ),
    "a scale that is renewed": stochastic(batch_size=1, step=Constant(1.0), regularization=0.9),
    "growing": stochastic(batch_size=3, block_size=16, max_features=1 << 12),
    "growing by events": stochastic(batch_size=1, block_size=16, max_features=1 << 12),
    "hadamard": stochastic(batch_size=1, sampler="hadamard"),
    "matern": stochastic(batch_size=1, kernel=kernels.Matern(nu=1.5)),
    "linear": stochastic(batch_size=1, kernel=kernels.Linear(), step=Constant(0.1)),
    "double": stochastic(batch_size=1, dtype="float64"),
    "nothing kept": stochastic(batch_size=1, cache_bytes=0),
    "newton": nystrom(optimizer="newton", forgetting=0.99),
    "meka by newton": meka(optimizer="newton"),
}


def stream(task, seed=0, n=N):
    """Events of a drifting stream, the second column coming late, and labels, some missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * [1.0, 100.0, 1e-3, 1.0, 1.0] + [0.0, 5.0, 0.0, 1.0, 0.0]
    X[:, 3] = rng.integers(0, 2, n)
    X[n // 2 :] += 0.3
    g = np.sin(2.0 * X[:, 0]) + X[:, 4] ** 2 - 0.8
    if task == "regression":
        y = (1000.0 + 50.0 * g).tolist()
    else:
        y = ["yes" if v > 0 else "no" for v in g]
        y = ["late" if i > n // 3 and X[i, 0] > 1.2 else v for i, v in enumerate(y)]
    return X, [None if u < 0.1 else v for u, v in zip(rng.uniform(size=n), y, strict=True)]


def cuts(seed, n=N):
    """Edges of calls: random ones, of which some are empty or of one event."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, n + 1, rng.integers(0, 30)))
    return [0, *edges.tolist(), n]


def one_by_one(model, X, y):
    """What single events are predicted to be before they are learned."""
    found = []
    for x, label in zip(X, y, strict=True):
        if model.is_classifier and not model.classes:
            found.append((None, {}))
        else:
            said = model.predict_proba_one(x) if model.is_classifier else {}
            found.append((model.predict_one(x), said))
        if label is not None:
            model.learn_one(x, label)
    return found


def in_calls(model, X, y, edges):
    found = []
    for first, stop in pairwise(edges):
        labels, P = model.predict_then_learn_many(X[first:stop], y[first:stop])
        if P is None:
            found += [(label, {}) for label in labels]
        else:
            said = [
                {c: v for c, v in zip(model.classes, row, strict=True) if not np.isnan(v)}
                for row in P.tolist()
            ]
            found += list(zip(labels.tolist(), said, strict=True))
    return found


def check(make, task, seeds):
    X, y = stream(task)
    single = make()
    expected = one_by_one(single, X, y)
    for seed in seeds:
        whole = make()
        assert in_calls(whole, X, y, cuts(seed)) == expected
        assert_same(whole, single)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("loss", "task"), TASKS)
@pytest.mark.parametrize("alone", [False, True], ids=["scaled", "alone"])
@pytest.mark.parametrize("name", LEARNERS)
def test_cuts_change_no_bit(name, alone, loss, task):
    make = LEARNERS[name] if alone else scaled(LEARNERS[name])
    check(lambda: make(loss=loss, task=task), task, range(3 if alone else CUTS))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", MORE)
def test_cuts_change_no_bit_of_other_models(name, task):
    loss = "logistic" if task == "classification" else "squared"
    check(lambda: scaled(MORE[name])(loss=loss, task=task), task, range(6))


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", LEARNERS)
def test_columns_that_come_between_calls_change_no_bit(name, task):
    """Three columns at first and two more in the middle of a mini-batch, whatever the calls."""
    loss, (X, y) = "squared", stream(task)
    single = scaled(LEARNERS[name])(loss=loss, task=task)
    first = one_by_one(single, np.ascontiguousarray(X[:200, :3]), y[:200])
    single.add_columns(["late", "later"])
    expected = first + one_by_one(single, X[200:], y[200:])
    for seed in range(5):
        whole = scaled(LEARNERS[name])(loss=loss, task=task)
        found = in_calls(whole, X[:200, :3], y[:200], cuts(seed, 200))
        whole.add_columns(["late", "later"])
        assert found + in_calls(whole, X[200:], y[200:], cuts(seed + 50, 200)) == expected
        assert_same(whole, single)


@pytest.mark.parametrize("name", [*LEARNERS, *MORE])
def test_learning_alone_is_the_same(name):
    """`learn_many`, and a copy that goes on from a state in the middle of a mini-batch."""
    X, y = stream("classification")
    make = {**LEARNERS, **MORE}[name]
    X, y = X[[v is not None for v in y]], [v for v in y if v is not None]
    asked, told = (scaled(make)() for _ in range(2))
    asked.predict_then_learn_many(X, y)
    for first, stop in pairwise(cuts(1, len(X))):
        told.learn_many(X[first:stop], y[first:stop])
        told = Scaled.from_state(through_json(told.state()))
    assert_same(asked, told)


# --- against the oracle ---------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_predictions_are_the_oracle_s(task, batch_size):
    """Predict in the scale so far, take the event in, learn it as scaled by that."""
    X, y = stream(task, n=120)
    X[::7, 1] = np.nan
    classes = task == "classification"
    oracle = naive.Scaled(
        naive.DoublyStochastic(
            naive.Kernel("gaussian", 0.8), "logistic" if classes else "squared", 3,
            ("constant", 0.5), block_size=30, max_features=30, classification=classes,
            columns=range(5),
        ),
        batch_size,
    )  # fmt: skip
    model = Scaled(
        DoublyStochastic(
            GAUSSIAN, loss="logistic" if classes else "squared", seed=3, step=Constant(0.5),
            batch_size=batch_size, block_size=30, max_features=30, dtype="float64",
            task=task,
        )
    )  # fmt: skip
    numbers: dict = {}
    for first, stop in pairwise(cuts(2, 120)):
        for x, label in zip(X[first:stop], y[first:stop], strict=True):
            if oracle.scale is not None:
                expected = oracle.decision(x)
                np.testing.assert_allclose(model.decision_many(x[None])[0], expected, rtol=1e-6)
            if label is not None:
                number = numbers.setdefault(label, len(numbers)) if classes else label
                oracle.learn(x, number)
            model.predict_then_learn_many(x[None], [label])
    whole = Scaled.from_state(model.state())
    np.testing.assert_allclose(whole.learner.coefficients, oracle.learner.alpha, rtol=1e-5)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_scaling_row_by_row_is_that_of_single_events(missing):
    X, known = stream("regression")[0], np.arange(N) % 5 > 0
    X[np.random.default_rng(0).uniform(size=X.shape) < missing] = np.nan
    one, many = RunningScale(5), RunningScale(5)
    kind = np.dtype(np.float32)
    after, units = many.transform_each(X, known, kind)
    for r, x in enumerate(X[:, None]):
        np.testing.assert_allclose(one.invert(np.zeros((1, 5)))[0], units[r, 0])
        if known[r]:
            one.update(x)
        np.testing.assert_array_equal(after[r : r + 1], one.transform(x, kind))
    assert_same(one, many)


# --- mini-batches ---------------------------------------------------------------------------------


def test_a_mini_batch_is_gathered_until_it_is_whole():
    X, y = stream("regression", n=30)
    y = [0.001 * i for i in range(30)]
    model = DoublyStochastic(GAUSSIAN, loss="squared", batch_size=8, max_features=256)
    for i in range(7):
        model.learn_one(X[i], y[i])
        assert (model.n_steps, model.n_gathered, model.n_events) == (0, i + 1, i + 1)
    model.learn_many(X[7:18], y[7:18])
    assert (model.n_steps, model.n_gathered, model.n_events) == (2, 2, 18)
    model.finish()
    model.finish()
    assert (model.n_steps, model.n_gathered, model.n_events) == (3, 0, 18)


def test_merging_finishes_mini_batches_and_leaves_the_other_alone():
    X, y = stream("classification", n=60)
    y = [label or "none" for label in y]
    mine, other = (DoublyStochastic(GAUSSIAN, batch_size=8, max_features=256) for _ in range(2))
    mine.learn_many(X[:20], y[:20])
    other.learn_many(X[20:], y[20:])
    mine.add_columns(["late"])
    other.add_columns(["late"])
    before = DoublyStochastic.from_state(other.state())
    other_finished = DoublyStochastic.from_state(other.state())
    mine.merge(other)
    assert_same(other, before)
    other_finished.finish()
    assert (mine.n_gathered, mine.n_events) == (0, 60)
    assert mine.n_steps == max(3, other_finished.n_steps)


def test_an_event_that_cannot_be_learned_ends_the_call_there():
    """The scale has taken in that event and those before it, as after single events."""
    X, y = stream("regression", n=60)
    y = [0.0 if label is None else label for label in y]
    make = scaled(stochastic(batch_size=1, kernel=kernels.Linear(), step=Constant(1e6)))
    single, whole = (make(loss="squared") for _ in range(2))
    with pytest.raises(InvalidInput, match="overflowed") as one:
        one_by_one(single, X, y)
    with pytest.raises(InvalidInput, match="overflowed") as other:
        whole.predict_then_learn_many(X, y)
    assert str(one.value) == str(other.value)
    assert 1 < single.n_events < 60
    assert_same(whole, single)
