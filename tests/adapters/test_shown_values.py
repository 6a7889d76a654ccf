"""Messages show values as Python has them, whatever NumPy made of them on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamk.errors import InvalidInput
from streamk.kernels import Gaussian
from streamk.learners import MultiKernel, OnlineNystrom

X = np.arange(8.0).reshape(4, 2)
TEXTS = np.array(["a", "b", "a", "b"])


def learn(labels: Any, **options: Any) -> None:
    OnlineNystrom(Gaussian(), **options).learn_many(X, labels)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Gaussian(bandwidth=np.float64(-1)), "bandwidth=-1.0 of Gaussian must"),
        (lambda: OnlineNystrom(Gaussian(), tol=np.float32(-1)), "tol=-1.0 must"),
        (lambda: MultiKernel(seed=np.int64(-1)), "seed=-1 must"),
        (
            lambda: MultiKernel(class_weight={np.str_("a"): np.float64(-1)}),
            "gives 'a' the weight -",
        ),
        (lambda: learn(TEXTS, loss="squared"), "'a' of row 0 is none"),
        (lambda: learn(np.array([0.5, 1.0, 2.0, 3.0])), "row 0, 0.5, must be"),
    ],
)
def test_an_option_or_a_label_of_numpy_is_shown_plainly(made: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        made()
    assert said in str(raised.value)
    assert "np." not in str(raised.value)


def refused(model: Any, y: Any, classes: Any) -> str:
    with pytest.raises(InvalidInput) as raised:
        model.partial_fit(X, y, classes=classes)
    return str(raised.value)


def test_a_class_that_scikit_learns_estimators_do_not_know_is_shown_plainly() -> None:
    adapters = pytest.importorskip("streamk.adapters.sklearn")
    fix = "; the first call of partial_fit needs all labels there will be, as classes="
    model = adapters.DoublyStochasticClassifier(block_size=8, max_features=8)
    assert (
        refused(model, TEXTS, ["b", "c"]) == f"label 'a' is not one of the classes ['b', 'c']{fix}"
    )
    assert refused(model, [0, 1, 0, 1], [0, 2]).startswith(
        "label 1 is not one of the classes [0, 2]"
    )
    model.partial_fit(X, TEXTS, classes=np.unique(TEXTS))
    said = "classes=['a', 'c'] differ from those of before, ['a', 'b']"
    assert refused(model, TEXTS, np.array(["a", "c"])) == said
    assert refused(model, ["a", "b", "a", "c"], None).startswith("label 'c' is not one of")


def test_a_weight_of_no_class_is_shown_plainly() -> None:
    adapters = pytest.importorskip("streamk.adapters.sklearn")
    model = adapters.KernelClassifier(class_weight={np.str_("z"): 1.0})
    with pytest.raises(
        InvalidInput, match=r"for 'z', which is not one of the classes \['a', 'b'\]"
    ):
        model.fit(X, TEXTS)


def test_rivers_estimators_show_labels_and_values_plainly() -> None:
    adapters = pytest.importorskip("streamk.adapters.river")
    with pytest.raises(InvalidInput, match="'x' of row 0 is none"):
        adapters.KernelRegressor().learn_one({"a": 1.0}, np.str_("x"))
    with pytest.raises(Exception, match="column 'a' is inf, past"):
        adapters.KernelRegressor().learn_one({"a": np.float64("inf")}, 1.0)
