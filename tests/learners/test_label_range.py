"""Labels past the documented range are refused, wherever they come in, and nothing of them stays.

Numbers reach to 1.8e19, whole numbers as classes to 64 bits (docs/streams.md).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import attached

from connectors.memory import MemorySource
from streamk.encoding.labels import LARGEST_LABEL
from streamk.errors import InvalidInput
from streamk.learners import MODELS, create, from_state
from streamk.learners.common.classes import LARGEST_NUMBER
from streamk.packing import fingerprint

X = np.random.default_rng(0).normal(size=(120, 3)).astype("f")
Y = X[:, 0] * X[:, 1]
NAMES = [["b", "a"][int(y > 0)] for y in Y]

PAST = [
    np.nextafter(LARGEST_NUMBER, np.inf),
    -1e20,
    1e38,
    1e154,
    -1e300,
    math.inf,
    -math.inf,
    math.nan,
    10**30,
    10**400,
    10**5000,
]
WIDE = [1 << 64, -(1 << 63) - 1, 10**30, -(10**400), 10**5000, 1e30, -1e300]
"""Class labels of more than 64 bits."""


def shown(value: Any) -> str:
    return f"{value:.4g}" if abs(value) < 1e300 or isinstance(value, float) else "a long one"


def test_the_range_is_one() -> None:
    assert LARGEST_NUMBER == LARGEST_LABEL
    assert 1.8e19 < LARGEST_LABEL < 1.9e19


@pytest.mark.parametrize("label", PAST, ids=shown)
@pytest.mark.parametrize("name", MODELS)
def test_numbers_past_the_range_are_refused_by_every_learner(name: str, label: Any) -> None:
    model = create(name, task="regression", seed=0)
    model.learn_many(X[:50], Y[:50])
    before = fingerprint(model.state())
    with pytest.raises(InvalidInput):
        model.learn_one(X[50], label)
    with pytest.raises(InvalidInput):
        model.learn_many(X[50:52], [1.0, label])
    with pytest.raises(InvalidInput):
        model.predict_then_learn_many(X[50:51], [label])
    assert fingerprint(model.state()) == before


@pytest.mark.parametrize("name", MODELS)
def test_a_text_among_numbers_is_named_with_what_every_learner_has(name: str) -> None:
    model = create(name, task="regression", seed=0)
    said = "must be numbers; 'high' of row 1 is none; to learn classes choose classification$"
    with pytest.raises(InvalidInput, match=said):
        model.learn_many(X[:3], [1.0, "high", 10**400])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", MODELS)
def test_the_largest_numbers_do_no_harm(name: str, sign: int) -> None:
    model = create(name, task="regression", seed=0)
    model.learn_many(X[:50], Y[:50])
    model.learn_one(X[50], sign * LARGEST_NUMBER)
    model.learn_many(X[51:70], [sign * LARGEST_NUMBER, -sign * LARGEST_NUMBER, *Y[53:70]])
    assert np.isfinite(model.predict_many(X[70:])).all()
    for array in model.state().arrays.values():
        assert not np.isinf(array).any()


@pytest.mark.parametrize("label", WIDE, ids=shown)
@pytest.mark.parametrize("name", MODELS)
def test_classes_of_more_than_64_bits_are_refused_by_every_learner(name: str, label: Any) -> None:
    model = create(name, task="classification", seed=0)
    model.learn_many(X[:50], NAMES[:50])
    before = fingerprint(model.state())
    with pytest.raises(InvalidInput, match=r"label of row 0, .*64 bits"):
        model.learn_one(X[50], label)
    with pytest.raises(InvalidInput, match=r"label of row 1, .*64 bits"):
        model.learn_many(X[50:52], ["a", label])
    with pytest.raises(InvalidInput):
        model.predict_then_learn_many(X[50:51], [label])
    assert fingerprint(model.state()) == before


@pytest.mark.parametrize("name", MODELS)
def test_the_widest_classes_come_back_from_a_state(name: str) -> None:
    model = create(name, task="classification", seed=0)
    labels = [(1 << 64) - 1, -(1 << 63), 2**53 + 1, np.uint64((1 << 64) - 1)]
    model.learn_many(X[:4], labels)
    assert model.classes == from_state(model.state()).classes == tuple(labels[:3])


@pytest.mark.parametrize("label", [1e20, 1e300, math.inf, math.nan, 10**400], ids=shown)
def test_adapters_refuse_numbers_past_the_range(label: Any) -> None:
    from streamk.adapters import river, sklearn

    model = river.KernelRegressor()
    event = {"a": 1.0, "b": 2.0}
    model.learn_one(event, 1.0)
    with pytest.raises(InvalidInput):
        model.learn_one(event, label)
    assert math.isfinite(model.predict_one(event))
    fitted = sklearn.KernelRegressor().fit(X[:50], Y[:50])
    if isinstance(label, float):  # scikit-learn itself takes no longer numbers
        with pytest.raises(ValueError, match=r"label|inf|NaN"):
            fitted.partial_fit(X[:2], np.array([0.0, label]))
    assert np.isfinite(fitted.predict(X)).all()


@pytest.mark.parametrize("label", [1 << 64, 10**400], ids=shown)
def test_adapters_refuse_classes_of_more_than_64_bits(label: int) -> None:
    from streamk.adapters import river

    model = river.KernelClassifier()
    event = {"a": 1.0, "b": 2.0}
    model.learn_one(event, 1)
    with pytest.raises(InvalidInput, match="64 bits"):
        model.learn_one(event, label)
    assert model.predict_one(event) == 1


@pytest.mark.parametrize(
    ("task", "first", "labels", "kinds"),
    [
        ("regression", 1.0, PAST, {"label out of domain": 8, "inf": 2}),
        ("classification", 1, WIDE, {"label out of domain": 3}),
    ],
)
def test_a_run_counts_labels_past_the_range(
    task: str, first: Any, labels: list[Any], kinds: dict[str, int], tmp_path: Path
) -> None:
    """NaN is no label, and a class of more than 64 bits is the text of its digits."""
    events = [{"a": float(i), "y": first} for i in range(40)]
    events[20:20] = [{"a": 1.0, "y": label} for label in labels]
    model = create("doubly-stochastic", task=task, seed=0, max_features=64)
    report = attached(MemorySource(events), model, label="y", checkpoint=tmp_path / "state").run()
    assert report.counts.bad == kinds
    assert report.counts.learned == 40 + (4 if task == "classification" else 0)
    assert report.counts.unlabelled == (task == "regression")


def test_a_batch_of_whole_numbers_is_checked_too(tmp_path: Path) -> None:
    y = np.array([1, 2, (1 << 64) - 1], dtype=np.uint64)
    model = create("doubly-stochastic", task="classification", seed=0, max_features=64)
    report = attached(MemorySource((X[:3], y)), model, label="y", checkpoint=tmp_path).run()
    assert report.model.classes == (1, 2, (1 << 64) - 1)
    assert not report.counts.bad
