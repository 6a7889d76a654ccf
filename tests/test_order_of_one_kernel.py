"""Learners of one kernel take events one by one, however a stream is cut into calls."""

import warnings

import naive
import numpy as np
import pytest

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.features.scaling import RunningScale
from streamk.learners import (
    AdaGrad,
    Constant,
    DoublyStochastic,
    InverseTime,
    OnlineNystrom,
    Scaled,
    StreamingMeka,
)
from streamk.losses import loss as make_loss
from streamk.state import State

N, CUTS = 400, 30
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


def meka(**options):
    parts = {"rank": 4, "n_clusters": 2, "first": 60, "lag": 25, "every": 90, "growth": 6}
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
    "adagrad": stochastic(batch_size=1, step=AdaGrad(0.2), regularization=0.01),
    "inverse time, blocks in turn": stochastic(
        batch_size=1, step=InverseTime(5.0), regularization=0.5, block_size=50, max_features=130
    ),
    "a scale that is renewed": stochastic(batch_size=1, step=Constant(1.0), regularization=0.9),
    "growing": stochastic(batch_size=3, block_size=16, max_features=1 << 12),
    "growing by events": stochastic(batch_size=1, block_size=16, max_features=1 << 12),
    "hadamard": stochastic(batch_size=1, sampler="hadamard"),
    "matern": stochastic(batch_size=1, kernel=kernels.Matern(nu=1.5)),
    "linear": stochastic(batch_size=1, kernel=kernels.Linear(), step=Constant(0.1)),
    "double": stochastic(batch_size=1, dtype="float64"),
    "nothing kept": stochastic(batch_size=1, cache_bytes=0),
    "numpy": stochastic(batch_size=1, backend="numpy"),
    "numpy, mini-batches": stochastic(batch_size=4, backend="numpy"),
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


def same_model(one, other):
    a, b = one.state(), other.state()
    assert a.header == b.header
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        np.testing.assert_array_equal(array, b.arrays[name], err_msg=name)


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
    for first, stop in zip(edges, edges[1:], strict=False):
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
        same_model(whole, single)


@pytest.mark.parametrize(("loss", "task"), TASKS)
@pytest.mark.parametrize("alone", [False, True], ids=["scaled", "alone"])
@pytest.mark.parametrize("name", LEARNERS)
def test_cuts_change_no_bit(name, alone, loss, task):
    make = LEARNERS[name] if alone else scaled(LEARNERS[name])
    check(lambda: make(loss=loss, task=task), task, range(5 if alone else CUTS))


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", MORE)
def test_cuts_change_no_bit_of_other_models(name, task):
    loss = "logistic" if task == "classification" else "squared"
    check(lambda: scaled(MORE[name])(loss=loss, task=task), task, range(6))
