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
from streamk.errors import InvalidInput
from streamk.learners import create
from streamk.learners.common.classes import LARGEST_NUMBER

X = np.random.default_rng(0).normal(size=(120, 3)).astype("f")
Y = X[:, 0] * X[:, 1]

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


def test_adapters_refuse_labels_past_the_range() -> None:
    from streamk.adapters import river, sklearn

    model = river.KernelRegressor(external_experts=())
    event = {"a": 1.0, "b": 2.0}
    model.learn_one(event, 1.0)
    fitted = sklearn.KernelRegressor(external_experts=()).fit(X[:50], Y[:50])
    for label in (1e20, 1e300, math.inf, math.nan, 10**400):
        with pytest.raises(InvalidInput):
            model.learn_one(event, label)
        if isinstance(label, float):  # scikit-learn itself takes no longer numbers
            with pytest.raises(ValueError, match=r"label|inf|NaN"):
                fitted.partial_fit(X[:2], np.array([0.0, label]))
    assert math.isfinite(model.predict_one(event))
    assert np.isfinite(fitted.predict(X)).all()
    classifier = river.KernelClassifier(external_experts=())
    classifier.learn_one(event, 1)
    for label in (1 << 64, 10**400):
        with pytest.raises(InvalidInput, match="64 bits"):
            classifier.learn_one(event, label)
    assert classifier.predict_one(event) == 1


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
