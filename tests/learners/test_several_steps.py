"""step=Ladder(): the functions of all sizes are those of learners with one, the best predicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.kernels import Gaussian
from streamk.learners import Constant, DoublyStochastic, Ladder, OnlineNystrom, from_state
from streamk.learners.doubly_stochastic.several_steps import SeveralSteps
from streamk.losses import loss

GAMMAS = (1.0, 0.25, 0.05)
FADING = 1.0 - 1.0 / 1000


def learner(step: Any, **options: Any) -> DoublyStochastic:
    chosen: dict[str, Any] = {
        "loss": "squared",
        "seed": 3,
        "batch_size": 8,
        "block_size": 96,
        "max_features": 400,
        "dtype": "float64",
        **options,
    }
    return DoublyStochastic(Gaussian(bandwidth=1.5), step=step, **chosen)


def events(n: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * random.normal(size=n)


def classes_of(y: NDArray[Any]) -> list[str]:
    """Two classes for a while, then three."""
    found = np.where(y > 0.0, "b", "a")
    found[len(y) // 3 :][y[len(y) // 3 :] > 0.8] = "c"
    return [str(label) for label in found]


@pytest.mark.parametrize(
    ("batch_size", "name", "regularization"),
    [
        *((1, "squared", 0.1), (8, "squared", 0.0), (1, "huber", 0.0), (8, "logistic", 0.1)),
        *((1, "logistic", 0.0), (8, "softmax", 0.0), (1, "softmax", 0.1), (8, "hinge", 0.1)),
    ],
)
def test_its_functions_are_those_of_learners_with_one_size(
    batch_size: int, name: str, regularization: float
) -> None:
    options: dict[str, Any] = {
        "loss": name, "batch_size": batch_size, "regularization": regularization,
    }  # fmt: skip
    ours = learner(Ladder(GAMMAS), **options)
    alone = [learner(Constant(gamma), **options) for gamma in GAMMAS]
    X, numbers = events(200)
    y: Any = numbers if loss(name).regresses else classes_of(numbers)
    sums = np.zeros(len(GAMMAS))
    for at in range(0, len(X), batch_size):
        some = slice(at, at + batch_size)
        numbered = y[some] if loss(name).regresses else None
        if at:
            leader = alone[int(sums.argmin())]
            np.testing.assert_allclose(
                ours.decision_many(X[:20]), leader.decision_many(X[:20]), rtol=1e-9, atol=1e-12
            )
        if numbered is None:
            for one in (ours, *alone):  # the classes of the batch have outputs before it is scored
                one.learn_many(X[:0], [])
            known = [*ours.classes, *(c for c in dict.fromkeys(y[some]) if c not in ours.classes)]
            numbered = np.array([known.index(label) for label in y[some]])
        outputs = alone[0].loss.n_outputs(len(known)) if not loss(name).regresses else 1
        before = [_outputs(one, X[some], outputs) for one in alone]
        for one in (ours, *alone):
            one.learn_many(X[some], y[some])
        found = np.array([loss(name).value(F, numbered).sum() for F in before])
        sums = FADING ** len(numbered) * sums + found
    function: Any = ours._function
    np.testing.assert_allclose(function.losses, sums, rtol=1e-9)
    assert ours.coefficients.shape == alone[0].coefficients.shape
    for k, one in enumerate(alone):
        function.losses = np.where(np.arange(len(GAMMAS)) == k, 0.0, 1.0)
        np.testing.assert_allclose(ours.coefficients, one.coefficients, rtol=1e-8, atol=1e-11)


def _outputs(one: DoublyStochastic, X: NDArray[Any], outputs: int) -> NDArray[np.float64]:
    """Return its outputs with those of classes that come now."""
    if one.columns is None:
        return np.zeros((len(X), outputs))
    F = one.decision_many(X)
    if F.shape[1] == 1 < outputs and one.loss.name != "softmax":
        F = one.loss.split_binary(F[:, 0])
    return np.pad(F, ((0, 0), (0, outputs - F.shape[1])))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("squared", {}), ("softmax", {"regularization": 0.01})),
        *(("hinge", {}), ("quantile", {"regularization": 0.01})),
    ],
)
def test_the_short_way_has_the_bits_of_the_long_one(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events are in turn learned in calls of several, one by one, and predicted without labels."""
    X, numbers = events(300)
    X = X.astype(options.get("dtype", "float32"))
    y: Any = numbers if loss(name).regresses else classes_of(numbers)
    labels = list(y)
    labels[150::7] = [None] * len(labels[150::7])
    chosen: dict[str, Any] = {"loss": name, "batch_size": 1, "dtype": "float32", **options}
    found = []
    for _ in range(2):
        one = learner(Ladder(), **chosen)
        parts = [one.predict_then_learn_many(X[:140], labels[:140]).predictions]
        for x, label in zip(X[140:170], y[140:170], strict=True):
            parts.append(np.array([one.predict_one(x)]))
            one.learn_one(x, label)
        parts.append(one.predict_then_learn_many(X[170:], labels[170:]).predictions)
        found.append((np.concatenate(parts), one.state()))
        monkeypatch.setattr(SeveralSteps, "_learning_alone", lambda _: None)
    (predicted, state), (expected, long) = found
    np.testing.assert_array_equal(predicted, expected)
    assert state.header == long.header
    for key, array in state.arrays.items():
        np.testing.assert_array_equal(array, long.arrays[key])


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = events(60)
    one = learner(Ladder(), batch_size=1, dtype="float32", max_features=192)
    one.learn_many(X[:10], y[:10])
    monkeypatch.setattr(SeveralSteps, "learn", None)
    one.learn_many(X[10:40], y[10:40])
    for x, label in zip(X[40:].astype(np.float32), y[40:], strict=True):
        one.learn_one(x, label)
    assert one.n_steps == 60


@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_size_that_diverges_neither_predicts_nor_ends_learning(batch_size: int) -> None:
    X, y = events(3000)
    one, alone = (learner(s, batch_size=batch_size) for s in (Ladder((50.0, 0.1)), Constant(0.1)))
    for at in range(0, 3000, 100):
        one.learn_many(X[at : at + 100], y[at : at + 100])
        alone.learn_many(X[at : at + 100], y[at : at + 100])
    np.testing.assert_allclose(one.decision_many(X), alone.decision_many(X), rtol=1e-8, atol=1e-10)
    from_state(one.state())


def test_where_all_sizes_diverge_that_is_said() -> None:
    X, y = events(4000)
    with pytest.raises(InvalidInput, match="overflowed"):
        learner(Ladder((90.0,)), dtype="float32").learn_many(X, y)


def test_the_sizes_follow_from_the_loss_and_the_mini_batch() -> None:
    assert learner(Ladder(), batch_size=1).step == Ladder((1.0, 0.25, 1 / 16, 1 / 64))
    assert learner(Ladder()).step == Ladder((1.0, 0.25, 1 / 16, 1 / 64, 4.0))
    logistic = learner(Ladder(), loss="logistic", batch_size=16).step
    assert logistic == Ladder((4.0, 1.0, 0.25, 1 / 16, 16.0, 64.0))


def test_merging_takes_the_mean_of_the_losses_that_choose() -> None:
    X, y = events(480)
    one, other, fresh = learner(Ladder()), learner(Ladder()), learner(Ladder())
    one.learn_many(X[:120], y[:120])
    other.learn_many(X[120:], 5.0 * y[120:])
    mine, theirs = one._function, other._function
    expected = 0.25 * _losses(mine) + 0.75 * _losses(theirs)
    fresh.merge(other)
    np.testing.assert_array_equal(_losses(fresh._function), _losses(theirs))
    np.testing.assert_array_equal(fresh.decision_many(X), other.decision_many(X))
    one.merge(other)
    np.testing.assert_allclose(_losses(mine), expected, rtol=1e-12)


def _losses(function: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = function.losses
    return found


def test_a_mini_batch_that_is_not_whole_moves_no_further_for_an_event_than_a_whole_one() -> None:
    X, y = events(64)
    short, whole = learner(Ladder((16.0,)), batch_size=64), learner(Ladder((0.25,)), batch_size=1)
    for one in (short, whole):
        one.learn_many(X[:1], y[:1])
        one.finish()
    np.testing.assert_allclose(short.decision_many(X), whole.decision_many(X), rtol=1e-12)


def test_its_memory_is_that_of_all_coefficients_and_of_those_that_predict() -> None:
    X, y = events(160)
    one = learner(Ladder(GAMMAS), cache_bytes=0)
    one.learn_many(X, y)
    before = one.nbytes
    one.decision_many(X)
    assert one.nbytes - before == one._function.coefficients.nbytes / len(GAMMAS)


@pytest.mark.parametrize(
    ("gammas", "message"),
    [
        ((0.5, -1.0), "gammas=-1.0 of Ladder must be a positive number"),
        ([0.5], "must be a tuple"),
        ((0.5,) * 17, "up to 16"),
    ],
)
def test_wrong_sizes_are_refused(gammas: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Ladder(gammas)


def test_learners_that_have_no_ladder_say_so() -> None:
    with pytest.raises(InvalidInput, match="step='ladder' has its own sizes"):
        learner(Ladder(), preconditioner="block")
    with pytest.raises(InvalidInput, match="cannot be a Ladder"):
        OnlineNystrom(Gaussian(bandwidth=1.0), step=Ladder())
