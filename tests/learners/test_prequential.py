"""Events predicted, then learned: the same however a sequence of them is divided into calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from multi_kernel_kit import pool_alone
from numpy.typing import NDArray
from state_kit import assert_same

from streamk import kernels, losses
from streamk.adapters.river import KernelClassifier, KernelRegressor
from streamk.errors import InvalidInput
from streamk.learners import (
    DoublyStochastic,
    EigenPro,
    FeatureMachine,
    MultiKernel,
    OnlineKernelRidge,
    OnlineNystrom,
    Scaled,
    StreamingMeka,
    from_state,
)

GAUSSIAN = kernels.Gaussian(bandwidth=0.8)


class Maker(NamedTuple):
    """A kind of learner, and the stream that it is tested on."""

    make: Callable[..., Any]
    labels: str = "two"
    missing: bool = True
    """Whether values may be missing."""


def many(labels: str = "two", **options: Any) -> Maker:
    task = "regression" if labels == "numbers" else "classification"

    def make(threads: int) -> MultiKernel:
        return pool_alone(task=task, seed=1, threads=threads, **options)

    return Maker(make, labels)


MAKERS = {
    "two classes": many(),
    "classes that come late": many("five"),
    "booleans": many("booleans"),
    "classes known beforehand": many("five", classes=["d", "b", "x"]),
    "balanced": many("five", class_weight="balanced"),
    "balanced, two": many("booleans", class_weight="balanced"),
    "weights": many(class_weight={"other": 3.0}),
    "columns known beforehand": many(columns=["p", "q", "r"]),
    "numbers": many("numbers"),
    "squared": many("numbers", loss="squared"),
    "huber": many("numbers", loss=losses.loss("huber", delta=0.5)),
    "quantile": many("numbers", loss=losses.loss("quantile", q=0.9)),
    "numbers of known columns": many("numbers", columns=["p", "q", "r"]),
    "external_experts": many(
        "five",
        external_experts=[
            OnlineNystrom(GAUSSIAN, max_landmarks=8),
            OnlineNystrom(GAUSSIAN, max_landmarks=8, optimizer="newton", forgetting=0.999),
            DoublyStochastic(GAUSSIAN, loss="logistic", max_features=128, block_size=128),
        ],
    ),
    "external_experts, numbers": many(
        "numbers", external_experts=[OnlineNystrom(GAUSSIAN, loss="squared", max_landmarks=8)]
    ),
    "little memory": many(pending_bytes=20_000),
    "no memory": many("numbers", pending_bytes=0),
}
PARTS = ((0, 150), (150, 300), (300, 450), (450, 600))
"""Events between the moments at which labels come late, or a column comes."""


class Stream(NamedTuple):
    """Events, their labels, and those that are known at once."""

    X: NDArray[np.float64]
    y: list[Any]
    shown: list[Any]


def stream(maker: Maker, seed: int = 0, n: int = 600) -> Stream:
    """A stream with missing values and labels, drift, and events that come again."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * (1.0, 50.0, 0.01)
    g = X[:, 0] * np.sign(X[:, 1]) + 0.1 * rng.normal(size=n)
    g[n // 2 :] *= -1.0
    if maker.missing:
        X[rng.random(X.shape) < 0.05] = np.nan
    again = np.flatnonzero(rng.random(n - 9) < 0.1)
    X[again + 9] = X[again]
    if maker.labels == "numbers":
        y = (100.0 + (10.0 + 0.1 * np.arange(n)) * g).tolist()
    elif maker.labels == "two":
        y = np.where(g > 0, "same", "other").tolist()
    elif maker.labels == "booleans":
        y = (g > 0.3).tolist()
    else:
        late = np.arange(n) > 0.55 * n
        y = np.array([*"abcde"])[np.where(late & (g > 1), 4, 2 * (g > 0) + (X[:, 0] > 0))].tolist()
    hidden = rng.random(n) < np.where(np.arange(n) // 50 % 3 == 0, 0.5, 0.05)
    return Stream(X, y, [None if h else label for label, h in zip(y, hidden, strict=True)])


Answers = tuple[list[Any], list[list[float]]]


def answers(model: Any, found: Any) -> Answers:
    """Predictions, and the probabilities of the classes known at each of them."""
    if not model.is_classifier:
        assert found.probabilities is None
        assert found.predictions.dtype == np.float64
        return found.predictions.tolist(), []
    assert found.probabilities.shape == (len(found.predictions), len(model.classes))
    known = ~np.isnan(found.probabilities)
    return found.predictions.tolist(), [
        row[some].tolist() for row, some in zip(found.probabilities, known, strict=True)
    ]


def one_by_one(model: Any, X: NDArray[np.float64], y: list[Any]) -> Answers:
    """Predict each event, then learn it, by the verbs for one."""
    predictions: list[Any] = []
    probabilities: list[list[float]] = []
    for x, label in zip(X, y, strict=True):
        if model.is_classifier and not model.classes:
            model.decision_one(x)
            predictions.append(None)
            probabilities.append([])
        else:
            predictions.append(model.predict_one(x))
            if model.is_classifier:
                probabilities.append([*model.predict_proba_one(x).values()])
        if label is not None:
            model.learn_one(x, label)
    return predictions, probabilities


def in_calls(
    cuts: np.random.Generator, model: Any, X: NDArray[np.float64], y: list[Any]
) -> Answers:
    """Predict and learn in calls of random lengths."""
    predictions: list[Any] = []
    probabilities: list[list[float]] = []
    for some in pieces(cuts, len(X)):
        more = answers(model, model.predict_then_learn_many(X[some], y[some]))
        predictions += more[0]
        probabilities += more[1]
    return predictions, probabilities


def pieces(cuts: np.random.Generator, n: int) -> Iterator[slice]:
    first, longest = 0, int(cuts.choice([1, 3, 20, n]))
    while first < n:
        size = int(cuts.integers(0, longest + 1))  # none at all is a call too
        yield slice(first, first + size)
        first += size


def life(model: Any, events: Stream, go: Callable[..., Answers]) -> Answers:
    """All that a model says of a stream on which labels, and a column, come late."""
    X, y, shown = events
    predictions: list[Any] = []
    probabilities: list[list[float]] = []
    for first, stop in PARTS:
        late = [n for n in range(max(0, first - 150), first) if shown[n] is None]
        for n in late[:3]:
            model.learn_one(X[n], y[n])
        if late:
            model.learn_many(X[late[3:]], [y[n] for n in late[3:]])
        if first == 300:
            model.add_columns(["late"])
            X = np.column_stack([X, np.where(np.arange(len(X)) < 300, 0.0, X[:, 0] ** 2)])
        more = go(model, X[first:stop], shown[first:stop])
        predictions += more[0]
        probabilities += more[1]
    left = [n for n in range(450, len(X)) if shown[n] is None]
    model.learn_many(X[left], [y[n] for n in left])
    return predictions, probabilities


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cuts", [10, pytest.param(30, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", MAKERS)
def test_how_a_stream_is_divided_changes_nothing(name: str, cuts: int) -> None:
    maker = MAKERS[name]
    events = stream(maker)
    model = maker.make(threads=1)
    expected = life(model, events, one_by_one)
    assert any(prediction is not None for prediction in expected[0])
    rng = np.random.default_rng(cuts)
    for trial in range(cuts):
        other = maker.make(threads=1 + trial % 2)
        found = life(other, events, lambda *args: in_calls(rng, *args))
        assert found == expected, trial
        assert_same(other, model)


@pytest.mark.parametrize("name", MAKERS)
def test_learning_is_the_same_whether_or_not_it_was_predicted(name: str) -> None:
    maker = MAKERS[name]
    X, y, _ = stream(maker, n=300)
    predicted, at_once, one = (maker.make(threads=1) for _ in range(3))
    predicted.predict_then_learn_many(X, y)
    at_once.learn_many(X, y)
    for x, label in zip(X, y, strict=True):
        one.learn_one(x, label)
    assert_same(at_once, predicted)
    assert_same(one, predicted)


@pytest.mark.parametrize("name", ["two classes", "numbers"])
def test_calls_and_single_events_take_turns(name: str) -> None:
    maker = MAKERS[name]
    events = stream(maker, seed=1)
    model = maker.make(threads=1)
    expected = life(model, events, one_by_one)
    rng = np.random.default_rng(0)

    def go(*args: Any) -> Answers:
        return one_by_one(*args) if rng.random() < 0.5 else in_calls(rng, *args)

    def either(model: Any, X: NDArray[np.float64], y: list[Any]) -> Answers:
        both = [go(model, X[some], y[some]) for some in pieces(rng, len(X))]
        return [p for one in both for p in one[0]], [p for one in both for p in one[1]]

    for _ in range(10):
        other = maker.make(threads=1)
        assert life(other, events, either) == expected
        assert_same(other, model)


@pytest.mark.parametrize("name", MAKERS)
def test_a_model_goes_on_from_its_state(name: str) -> None:
    maker = MAKERS[name]
    X, y, _ = stream(maker, n=200)
    model, other = maker.make(threads=1), maker.make(threads=1)
    model.predict_then_learn_many(X, y)
    other.predict_then_learn_many(X[:70], y[:70])
    other = from_state(other.state())
    other.predict_then_learn_many(X[70:], y[70:])
    assert_same(other, model)


@pytest.mark.parametrize("name", ["two classes", "booleans", "classes that come late", "numbers"])
def test_a_river_estimator_says_the_same(name: str) -> None:
    maker = MAKERS[name]
    X, _, shown = stream(maker, n=300)
    model = maker.make(threads=1)
    found = model.predict_then_learn_many(X, shown)
    numbers = maker.labels == "numbers"
    made: Any = KernelRegressor if numbers else KernelClassifier
    estimator = made(seed=1, external_experts=())
    for n, x in enumerate(X):
        event = dict(enumerate(x.tolist()))
        assert estimator.predict_one(event) == found.predictions[n]
        if not numbers:
            p = found.probabilities[n]
            assert [*estimator.predict_proba_one(event).values()] == p[~np.isnan(p)].tolist()
        if shown[n] is not None:
            estimator.learn_one(event, shown[n])
    assert estimator._model.learner.n_events == model.n_events == sum(s is not None for s in shown)


def test_classes_not_known_yet_have_no_probability() -> None:
    model = pool_alone(seed=1)
    found = model.predict_then_learn_many([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "c", "a"])
    assert found.predictions[0] is None
    known = [[False] * 3, [True, False, False], [True, True, False], [True] * 3]
    assert found.probabilities is not None
    assert (~np.isnan(found.probabilities)).tolist() == known
    np.testing.assert_allclose(np.nansum(found.probabilities[1:], axis=1), 1.0)


def test_an_event_without_a_label_is_not_learned() -> None:
    X, y, _ = stream(MAKERS["two classes"], n=100)
    model = pool_alone(seed=1)
    model.learn_many(X[:50], y[:50])
    before = model.state()
    found = model.predict_then_learn_many(X[50:], [None] * 50)
    assert found.predictions.tolist() == model.predict_many(X[50:]).tolist()
    np.testing.assert_array_equal(found.probabilities, model.predict_proba_many(X[50:]))
    assert model.state().header == before.header
    for name, array in model.state().arrays.items():
        np.testing.assert_array_equal(array, before.arrays[name])


@pytest.mark.parametrize("name", ["two classes", "numbers"])
def test_what_is_refused_leaves_nothing(name: str) -> None:
    maker = MAKERS[name]
    X, y, _ = stream(maker, n=60)
    model, bad = maker.make(threads=1), X.copy()
    model.learn_many(X[:20], y[:20])
    before = model.state()
    bad[50, 1] = np.inf
    wrong = "1/2" if maker.labels == "numbers" else 0.5
    cases: list[tuple[Any, Any, str]] = [
        (bad, y, "row 50"),
        (X, [None, *y[1:]][:-1], "60"),
        (X[:, :2], y, "2 columns and the model has 3"),
        (X, [None, None, *y[2:40], wrong, *y[41:]], "row 40|must be numbers"),
    ]
    if maker.labels == "numbers":
        cases.append((X, [None, *y[1:40], np.nan, *y[41:]], "row 40 is nan"))
    for events, labels, message in cases:
        with pytest.raises(InvalidInput, match=message):
            model.predict_then_learn_many(events, labels)
    assert model.state().header == before.header
    for key, array in model.state().arrays.items():
        np.testing.assert_array_equal(array, before.arrays[key])


# --- booleans -------------------------------------------------------------------------------------

CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "many kernels": MultiKernel,
    "doubly stochastic": lambda **options: DoublyStochastic(
        GAUSSIAN, max_features=64, block_size=64, **options
    ),
    "logistic": lambda **options: DoublyStochastic(
        GAUSSIAN, loss="logistic", max_features=64, block_size=64, **options
    ),
    "landmarks": lambda **options: OnlineNystrom(GAUSSIAN, **options),
    "clusters": lambda **options: StreamingMeka(
        GAUSSIAN, rank=2, n_clusters=2, first=8, swap_delay=1, **options
    ),
    "events": lambda **options: OnlineKernelRidge(GAUSSIAN, **options),
    "centers": lambda **options: EigenPro(GAUSSIAN, n_centers=8, batch_size=4, **options),
    "metric": lambda **options: FeatureMachine(GAUSSIAN, **options),
    "scaled": lambda **options: Scaled(OnlineNystrom(GAUSSIAN, **options)),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("first", [True, False, np.bool_(True)])
@pytest.mark.parametrize("one", [True, False])
def test_of_booleans_both_are_classes(name: str, first: Any, one: bool) -> None:
    """As if they had been known beforehand."""
    X = np.random.default_rng(0).normal(size=(20, 2))
    labels = [first, *(X[1:, 0] > 0).tolist()]
    model, told = CLASSIFIERS[name](), CLASSIFIERS[name](classes=(False, True))
    for learner in (model, told):
        if one:
            learner.learn_one(X[0], first)
        else:
            learner.learn_many(X[:1], [first])
    assert model.classes == (False, True)
    assert [type(label) for label in model.classes] == [bool, bool]
    for learner in (model, told):
        assert learner.predict_proba_many(X).shape == (20, 2)
        learner.learn_many(X[1:], labels[1:])
    np.testing.assert_array_equal(model.decision_many(X), told.decision_many(X))
    assert from_state(model.state()).classes == (False, True)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_an_order_that_was_given_stays(name: str) -> None:
    model = CLASSIFIERS[name](classes=[True, False])
    model.learn_one([0.5, 1.0], False)
    assert model.classes == (True, False)
    assert from_state(model.state()).classes == (True, False)
    model = CLASSIFIERS[name]()
    model.learn_many([[0.5, 1.0], [1.0, 0.0]], ["a", True])
    assert model.classes == ("a", True)


def test_of_booleans_only_two_have_a_weight() -> None:
    model: Any = pool_alone(class_weight={True: 5.0, "never": 2.0})
    calls: list[Callable[[], Any]] = [
        lambda: model.learn_one([1.0], True),
        lambda: model.learn_many([[1.0]], [np.bool_(False)]),
        lambda: model.predict_then_learn_many([[0.0], [1.0]], [None, True]),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match="'never', which is not among classes"):
            call()
    assert model.classes == ()
    assert model.columns is None
    model.learn_one([1.0], "never")
    model.learn_one([1.0], True)
    assert model.classes == ("never", True)
