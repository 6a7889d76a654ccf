"""What it costs to miss a class: weights given or balanced, and what is decided by them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import learned, make, pool_alone, stream
from numpy.typing import NDArray
from reference import naive

from streamk.errors import InvalidInput, StateError
from streamk.learners import MultiKernel, from_state
from streamk.learners.common import classes as class_weights
from streamk.learners.common.classes import ClassWeights
from streamk.state import State

BALANCED = {"class_weight": "balanced"}


def imbalanced(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """One event in 15 is "rare", and none of its columns says so for sure, as in credit scoring."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    score = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.8 * rng.normal(size=n)
    return X, np.where(score > 2.1, "rare", "often")


def progressive(model: MultiKernel, X: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    said = []
    for x, label in zip(X, y, strict=True):
        said.append(model.predict_one(x) if model.classes else "")
        model.learn_one(x, label)
    return np.array(said)


# --- the weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 5])
def test_balanced_weights(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_weights, "HORIZON", 100)
    rng = np.random.default_rng(classes)
    labels = np.concatenate([rng.integers(0, 2, 150), rng.integers(0, classes, 150)])
    weights, names = ClassWeights("balanced"), [f"class {k}" for k in range(classes)]
    for n in range(0, 300, 7):
        weights.learn(labels[n : n + 7])
        expected = naive.balanced_weights(labels[: n + 7].tolist(), classes, 100)
        np.testing.assert_allclose(weights.of(names), expected, rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_cheapest_class_is_chosen(classes: int) -> None:
    rng = np.random.default_rng(0)
    names = [f"class {k}" for k in range(classes)]
    for _ in range(100):
        p, w = rng.dirichlet(np.ones(classes)), rng.exponential(size=classes) + 0.1
        weights = ClassWeights(dict(zip(names, w, strict=True)))
        assert weights.scores(p, names).argmax() == naive.cheapest(p, w)
        assert weights.scores(p[None], names).argmax(axis=1).tolist() == [naive.cheapest(p, w)]
        if classes == 2:
            assert weights.scores(p[1:], names).argmax() == naive.cheapest(p, w)


@pytest.mark.parametrize("kind", ["two", "four"])
@pytest.mark.parametrize("chosen", ["balanced", {"a": 5.0, "same": 0.2}], ids=str)
def test_all_ways_to_a_decision_are_one(kind: str, chosen: Any) -> None:
    weighted, plain = learned(kind, 600, class_weight=chosen), learned(kind, 600)
    X, _ = stream(kind, 300, seed=2)
    P = weighted.predict_proba_many(X)
    np.testing.assert_array_equal(P, plain.predict_proba_many(X))
    assert weighted._weights is not None
    w = weighted._weights.of(weighted.classes)
    expected = [weighted.classes[naive.cheapest(p, w)] for p in P]
    assert weighted.predict_many(X).tolist() == expected
    assert [weighted.predict_one(x) for x in X] == expected
    assert [weighted.classes[k] for k in weighted.choices(P)] == expected
    if chosen != "balanced":
        assert expected != plain.predict_many(X).tolist()


def test_balanced_weights_follow_the_stream() -> None:
    _, y = imbalanced(30_000)
    weights = ClassWeights("balanced")
    weights.learn((y == "rare").astype(float))
    before = weights.of(["often", "rare"])
    weights.learn((y == "often").astype(float))  # the other way round
    after = weights.of(["often", "rare"])
    assert before[1] > 10 * before[0]
    assert after[0] > 5 * after[1]


def test_a_single_class_or_none() -> None:
    model = pool_alone(columns=["a"], classes=["x", "y"], class_weight={"y": 3.0})
    assert model.predict_one([0.0]) == "y"
    only = pool_alone(seed=1, class_weight="balanced")
    only.learn_many(np.zeros((10, 2)), ["only"] * 10)
    assert only.predict_one(np.zeros(2)) == "only"
    assert only.predict_many(np.zeros((2, 2))).tolist() == ["only"] * 2
    # What was never met is not predicted for its weight alone.
    named = pool_alone(seed=1, classes=["x", "y"], class_weight="balanced")
    X, _ = stream("two", 500)
    named.learn_many(X, ["x"] * 500)
    assert set(named.predict_many(X)) == {"x"}


# --- state and merging ------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["balanced", {"often": 1, "rare": 7.5}, {True: 2.0, 3: 1.0}])
def test_a_restored_learner_has_its_choice(chosen: Any) -> None:
    model = pool_alone(seed=1, class_weight=chosen)
    again = MultiKernel.from_state(model.state())
    assert again.class_weight == model.class_weight == chosen


@pytest.mark.parametrize(
    "change", [{"choice": "even"}, {"choice": [["a", -1.0]]}, {"choice": 3}, {"choice": [1]},
               {"events": -1}, {"events": "many"}, {"type": "classes"}, {"format": 2}], ids=str,
)  # fmt: skip
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    state = ClassWeights("balanced").state()
    with pytest.raises(StateError):
        ClassWeights.from_state(State({**state.header, **change}, state.arrays))
    with pytest.raises(StateError, match="shares"):
        ClassWeights.from_state(State(state.header, {}))


@pytest.mark.parametrize("mine", [300, 700])
def test_shares_are_merged(mine: int) -> None:
    X, y = stream("four", 1_000)
    one, other = make("four", **BALANCED), make("four", **BALANCED, classes=tuple("dcba"))
    one.learn_many(X[:mine], y[:mine])
    other.learn_many(X[mine:], y[mine:])
    one.merge(other)
    assert one._weights is not None
    numbers = [one.classes.index(label) for label in y.tolist()]
    expected = naive.balanced_weights(numbers, 4, 10**9)
    np.testing.assert_allclose(one._weights.of(one.classes), expected, rtol=1e-9)
    with pytest.raises(InvalidInput, match="class_weight: 'balanced' and None"):
        one.merge(make("four"))


# --- where it is chosen -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"class_weight": "even"}, "class_weight='even'"),
        ({"class_weight": 2.0}, "class_weight=2.0"),
        ({"class_weight": {"a": 0.0}}, "'a' the weight 0.0"),
        ({"class_weight": {"a": -1}}, "'a' the weight -1"),
        ({"class_weight": {"a": np.inf}}, "'a' the weight inf"),
        ({"class_weight": {"a": np.nan}}, "'a' the weight nan"),
        ({"class_weight": {"a": "2"}}, "'a' the weight '2'"),
        ({"class_weight": {1.5: 2.0}}, "not a label"),
        ({"class_weight": {"c": 2.0}, "classes": ["a", "b"]}, "'c', which is not among classes"),
        ({"class_weight": "balanced", "task": "regression"}, "class_weight= is for classification"),
    ],
)
def test_a_bad_choice_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        pool_alone(**options)


def test_the_weight_of_a_label_that_never_comes_changes_nothing() -> None:
    X, y = imbalanced(300)
    told, plain = (
        pool_alone(seed=1, class_weight=w) for w in ({"rare": 8.0, "never": 99.0}, {"rare": 8.0})
    )
    assert progressive(told, X, y).tolist() == progressive(plain, X, y).tolist()
    assert from_state(told.state()).predict_many(X).tolist() == plain.predict_many(X).tolist()
    told.learn_one(X[0], "never")  # and counts from here on
    assert told._weights is not None
    assert told._weights.of(told.classes).tolist()[told.classes.index("never")] == 99.0


def test_labels_and_weights_of_numpy() -> None:
    model = pool_alone(class_weight={np.str_("a"): np.float32(2.0), np.int64(3): 1})
    assert model.class_weight == {"a": 2.0, 3: 1.0}
    assert [type(label) for label in model.class_weight] == [str, int]  # type: ignore[union-attr]
