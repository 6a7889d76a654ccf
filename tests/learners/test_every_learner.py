"""What holds of every learner, however a stream is cut into calls and wherever it is stopped."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from learners_kit import VARIANTS, Variant
from numpy.typing import NDArray
from state_kit import assert_same, reopened, through_json

PARTS = ((0, 60), (60, 120), (120, 180), (180, 240))
"""Events between the moments at which labels come late, or a column comes."""
every = pytest.mark.parametrize(
    "variant",
    [
        pytest.param(variant, marks=pytest.mark.nightly if variant.nightly else (), id=name)
        for name, variant in VARIANTS.items()
    ],
)
Answers = tuple[list[Any], list[list[float]]]


# --- however a stream is cut ----------------------------------------------------------------------


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


def pieces(cuts: np.random.Generator, n: int) -> Iterator[slice]:
    first, longest = 0, int(cuts.choice([3, 20, n]))
    while first < n:
        size = int(cuts.integers(0, longest + 1))  # none at all is a call too
        yield slice(first, first + size)
        first += size


def in_calls(
    cuts: np.random.Generator, model: Any, X: NDArray[np.float64], y: list[Any]
) -> Answers:
    """Predict and learn in calls of random lengths, between some of which events are single."""
    predictions: list[Any] = []
    probabilities: list[list[float]] = []
    for some in pieces(cuts, len(X)):
        if cuts.random() < 0.2:
            more = one_by_one(model, X[some], y[some])
        else:
            found = model.predict_then_learn_many(X[some], y[some])
            more = found.predictions.tolist(), []
            if model.is_classifier:
                P = found.probabilities
                assert P.shape == (len(found.predictions), len(model.classes))
                more = more[0], [row[~np.isnan(row)].tolist() for row in P]
            else:
                assert found.probabilities is None
                assert found.predictions.dtype == np.float64
        predictions += more[0]
        probabilities += more[1]
    return predictions, probabilities


def life(model: Any, variant: Variant, go: Callable[..., Answers]) -> Answers:
    """All that a model says of a stream on which labels, and a column, come late."""
    X, y, shown = (events := variant.stream()).X, events.y, events.shown
    predictions: list[Any] = []
    probabilities: list[list[float]] = []
    for first, stop in PARTS:
        late = [n for n in range(max(0, first - 60), first) if shown[n] is None]
        for n in late[:3]:
            model.learn_one(X[n], y[n])
        if late:
            model.learn_many(X[late[3:]], [y[n] for n in late[3:]])
        if first == 120 and variant.widens:
            model.add_columns(["late"])
            X = np.column_stack([X, np.where(np.arange(len(X)) < 120, 0.0, X[:, 0] ** 2)])
        more = go(model, X[first:stop], shown[first:stop])
        predictions += more[0]
        probabilities += more[1]
    return predictions, probabilities


@every
@pytest.mark.parametrize("cuts", [1, pytest.param(20, marks=pytest.mark.nightly)])
def test_how_a_stream_is_divided_changes_nothing(variant: Variant, cuts: int) -> None:
    model = variant()
    expected = life(model, variant, one_by_one)
    assert any(prediction is not None for prediction in expected[0])
    rng = np.random.default_rng(cuts)
    for trial in range(cuts):
        other = variant()
        found = life(other, variant, lambda *given: in_calls(rng, *given))
        assert found == expected, trial
        assert_same(other, model)


@every
def test_it_goes_on_from_its_state_and_as_a_copy(variant: Variant) -> None:
    """Whether or not it was asked, wherever it is stopped."""
    events, rng = variant.stream(), np.random.default_rng(0)
    X, y = events.X, events.y
    asked, told, once = variant(), reopened(variant()), variant()
    asked.predict_then_learn_many(X, y)
    once.learn_many(X, y)
    copies: list[Callable[[Any], Any]] = [
        *(reopened, reopened, copy.copy, copy.deepcopy),
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: type(model).from_state(model.state()),
        lambda model: type(model).from_state(through_json(model.lent_state())),
    ]
    for some in pieces_of(rng, len(X), 7):
        told.learn_many(X[some], y[some])
        before, told = told, copies[rng.integers(len(copies))](told)
        assert type(told) is type(before)
        assert_same(told, before)
        before.learn_many(X[:5], y[:5])  # of which the copy knows nothing
    assert_same(once, asked)
    assert_same(told, asked)
    np.testing.assert_array_equal(told.decision_many(X), asked.decision_many(X))
    assert told.n_events == len(X)


def pieces_of(cuts: np.random.Generator, n: int, count: int) -> Iterator[slice]:
    edges = [0, *np.sort(cuts.integers(0, n, count)).tolist(), n]
    yield from (slice(first, stop) for first, stop in itertools.pairwise(edges))


@every
def test_an_event_is_predicted_alike_in_every_company(variant: Variant) -> None:
    events = variant.stream(150)
    model = variant()
    model.learn_many(events.X[:130], events.y[:130])
    X = events.X
    before = model.state()
    expected = model.decision_many(X)
    for order in (slice(None, None, -1), slice(17, 53), slice(5, 6), slice(0, 0)):
        np.testing.assert_array_equal(model.decision_many(X[order]), expected[order])
    np.testing.assert_array_equal(model.decision_many(np.asfortranarray(X)), expected)
    np.testing.assert_array_equal([model.decision_one(x) for x in X[:20]], expected[:20])
    assert [model.predict_one(x) for x in X[:20]] == model.predict_many(X[:20]).tolist()
    if model.is_classifier:
        P = model.predict_proba_many(X)
        assert P.dtype == np.float64
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-9)
        assert [list(model.predict_proba_one(x).values()) for x in X[:20]] == P[:20].tolist()
        labels = [model.classes[number] for number in model.choices(P)]
        assert labels == model.predict_many(X).tolist()
    else:
        assert model.predict_many(X).dtype == np.float64
    assert_same(model, type(model).from_state(before))


@pytest.mark.parametrize(
    "name",
    [
        *("many kernels, two", "many kernels, five", "many kernels, numbers"),
        *(
            "experts that take steps",
            "mini-batches, softmax of five",
            "mini-batches, huber of numbers",
        ),
        *("hadamard", "nothing kept", "several steps", "several steps, mini-batches"),
    ],
)
@pytest.mark.usefixtures("many_threads")
def test_threads_change_nothing(name: str) -> None:
    events = VARIANTS[name].stream()
    X = np.vstack([events.X] * 3)
    one, *others = (VARIANTS[name](threads=threads) for threads in (1, 2, 5))
    one.learn_many(events.X, events.y)
    expected = one.decision_many(X)
    for other in others:
        other.learn_many(events.X, events.y)
        assert_same(other, one)
        np.testing.assert_array_equal(other.decision_many(X), expected)
