"""What a learner says of an event in words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import KINDS, learned, make, stream
from state_kit import assert_same

from streamk.adapters.river import (
    DoublyStochasticClassifier,
    DoublyStochasticRegressor,
    KernelClassifier,
    KernelRegressor,
)
from streamk.encoding import Schema
from streamk.learners import MultiKernel
from streamk.learners.explaining import Fields, attributions
from streamk.learners.explaining import report as report_of


def report(model: Any, x: np.ndarray[Any, Any]) -> str:
    """What is said of an array of numbers."""
    fields = Fields()
    fields.follow(Schema(model.columns or ()), model.columns or ())
    return report_of(model, fields, x, None)


def effects_of(model: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return attributions(model, x[None])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_lines(kind: str) -> None:
    X, _ = stream(kind, 1)
    model = learned(kind, 500)
    said = MultiKernel.from_state(model.state())
    lines = report(said, X[0]).splitlines()
    assert lines[0].startswith("predicted: ")
    if kind == "numbers":
        assert float(lines[0].partition(": ")[2]) == pytest.approx(
            model.predict_one(X[0]), rel=1e-4
        )
    else:
        probabilities = model.predict_proba_one(X[0])
        best = max(probabilities, key=lambda label: probabilities[label])
        assert lines[0].startswith(f"predicted: {best!r} {probabilities[best]:.1%}")
        assert lines[0].count("%") == len(model.classes)
    shares = [float(s) for s in re.findall(r"^ +([\d.]+)%  \w+$", "\n".join(lines), re.MULTILINE)]
    assert sum(shares) == pytest.approx(100.0, abs=0.5)
    assert shares == sorted(shares, reverse=True)
    effects = [line for line in lines if " = " in line]
    assert len(effects) == 3
    assert_same(said, model)


def test_what_was_missing_has_no_effect() -> None:
    model = learned("two", 300)
    assert effects_of(model, np.array([0.5, np.nan, np.nan])).tolist()[1:] == [0.0, 0.0]
    assert "is missing" in report(model, np.array([0.5, np.nan, np.nan]))


def test_what_class_weights_decide_is_what_is_reported() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    model = MultiKernel(seed=1, class_weight={"rare": 50.0})
    model.learn_many(X, np.where(X[:, 0] + rng.normal(size=600) > 2.5, "rare", "usual"))
    x = np.array([1.0, 0.0])
    probabilities = model.predict_proba_one(x)
    assert probabilities["rare"] < 0.5
    assert model.predict_one(x) == "rare"
    says = "predicted: 'rare' by the class weights; probabilities: 'usual'"
    assert report(model, x).startswith(says)
    without = model.predict_proba_one(np.array([np.nan, 0.0]))["rare"]
    assert effects_of(model, x)[0] == pytest.approx(probabilities["rare"] - without)


def test_no_more_than_ten_fields_are_listed() -> None:
    model = learned("two", 100, d=14)
    lines = report(model, np.zeros(14)).splitlines()
    assert len([line for line in lines if " = " in line]) == 10
    assert lines[-1] == "  and 4 fields with less"


def test_before_anything_is_learned() -> None:
    assert report(make("two"), np.zeros(0)) == "nothing is learned yet"


def test_one_class() -> None:
    model = MultiKernel(columns=["a"])
    model.learn_one([1.0], "only")
    assert report(model, np.array([1.0])).startswith("predicted: 'only' 100.0%")


@pytest.mark.parametrize(
    "made",
    [
        (KernelClassifier, KernelRegressor),
        (DoublyStochasticClassifier, DoublyStochasticRegressor),
    ],
)
def test_of_a_river_estimator(made: tuple[Any, Any]) -> None:
    rng = np.random.default_rng(0)
    classifier, regressor = (estimator(seed=1) for estimator in made)
    for model in (classifier, regressor):
        assert model.debug_one({"a": 1.0}) == "nothing is learned yet"
    for a, b in rng.normal(size=(200, 2)):
        x = {"a": a, "b": b, "c": "xy"[int(a > b)]}
        classifier.learn_one(x, a > 0)
        regressor.learn_one(x, 3 * a)
    x = {"a": 2.0, "b": None, "c": "x"}
    before = classifier.predict_proba_one(x)
    for model in (classifier, regressor):
        said = model.debug_one(x)
        assert isinstance(said, str)
        assert "predicted: " in said
        assert "c = 'x'" in said
        assert "b is missing" in said
        assert ("share of what the experts say:" in said) == (made[0] is KernelClassifier)
    assert classifier.predict_proba_one(x) == before


@pytest.mark.parametrize("kind", KINDS)
def test_attributions_of_groups_and_in_several_calls(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Oracle: a prediction without the columns of each group. Events may be few at a time."""
    X, _ = stream(kind, 7)
    X[2] = np.nan
    X[3, 1] = np.nan
    model = learned(kind, 300)
    groups = [[[0, 2], [1], [2]], [], [[0], [1, 2]], [[1], [0, 1]], [[2, 0]], [[0], [1], [2]], [[]]]

    def said(event: Any, number: int) -> float:
        if kind == "numbers":
            return float(model.predict_many(event[None])[0])
        return float(model.predict_proba_many(event[None])[0, number])

    expected = []
    for x, some in zip(X, groups, strict=True):
        number = 0 if kind == "numbers" else list(model.classes).index(model.predict_one(x))
        expected.append([])
        for group in some:
            without = x.copy()
            without[group] = np.nan
            expected[-1].append(said(x, number) - said(without, number))
    for at_once in (1 << 20, 2 * len(X[0]), 7 * len(X[0]), 1):
        monkeypatch.setattr("streamk.learners.explaining._NUMBERS", at_once)
        assert [found.tolist() for found in attributions(model, X, groups)] == expected
