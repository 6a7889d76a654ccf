"""Options of estimators: names that are meant, docstrings, defaults, and how they are shown."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamk.adapters import river, sklearn
from streamk.errors import InvalidInput
from streamk.kernels import Gaussian
from streamk.learners import MultiKernel, OnlineNystrom
from streamk.learners.registry import MODELS, options_of
from streamk.options import sections

ESTIMATORS = [
    pytest.param(getattr(home, name), id=f"{home.__name__.rpartition('.')[2]} {name}")
    for home in (river, sklearn)
    for name in home.__all__
]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_name_that_is_meant_is_told(kind: Any) -> None:
    known = list(inspect.signature(kind).parameters)
    given = {known[0]: None} if kind.__name__.startswith("Conformal") else {}
    seeds = {"seed": "random_state", "random_state": "seed"}
    for name, other in seeds.items():
        if name in known:
            assert getattr(kind(**{name: 3}), name) == 3
            continue
        said = f"did you mean {other}" if other in known else "nothing in it is random"
        with pytest.raises(TypeError, match=rf"{kind.__name__} has no option {name}=3: .*{said}"):
            kind(**given, **{name: 3})
    for name in known:
        if len(name) < 4:
            continue
        for near in (name[:-1], name + "s", name[0] + name[2:], name[1] + name[0] + name[2:]):
            if near not in known:
                with pytest.raises(TypeError, match=rf"no option {near}=1: did you mean {name}\?"):
                    kind(**given, **{near: 1})
    with pytest.raises(TypeError, match=rf"no option qqqqqq='x': there are {known[0]}, "):
        kind(**given, qqqqqq="x")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_docstring_and_signature_have_the_same_options(kind: Any) -> None:
    known = inspect.signature(kind).parameters
    parts = sections(kind.__doc__)
    told = dict(re.findall(r"^(\w+) : .*?(?:, default (.*))?$", parts["Parameters"], re.MULTILINE))
    assert list(told) == list(known)
    assert {"Parameters", "Examples"} <= parts.keys()
    for name, parameter in known.items():
        if parameter.default not in (None, parameter.empty):
            shown = json.loads(told[name]) if told[name] not in ("True", "False") else None
            assert shown in (None, parameter.default), name


@pytest.mark.parametrize("home", [river, sklearn], ids=["river", "sklearn"])
@pytest.mark.parametrize("model", [name for name in MODELS if name != "streaming-meka"])
def test_an_estimator_has_the_options_of_its_model(home: Any, model: str) -> None:
    """With the model's defaults, but those for passes over data that are there all at once."""
    known = options_of(model)
    for kind in (getattr(home, name) for name in home.__all__):
        if getattr(kind, "_model_name", "") != model:
            continue
        ours = inspect.signature(kind).parameters
        both = ours.keys() & known.keys() - {"seed"}
        others = {name for name in both if ours[name].default != known[name].default}
        assert both
        assert others <= ({"bandwidth", "optimizer"} if home is sklearn else set())
        assert ("backend" in ours) == ("backend" in known)


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
        (lambda: learn(TEXTS, loss="squared"), "'a' of row 0 is not a number"),
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
    fix = "; pass all labels as classes= in the first call of partial_fit"
    model = sklearn.DoublyStochasticClassifier(block_size=8, max_features=8)
    assert (
        refused(model, TEXTS, ["b", "c"]) == f"label 'a' is not one of the classes ['b', 'c']{fix}"
    )
    assert refused(model, [0, 1, 0, 1], [0, 2]).startswith(
        "label 1 is not one of the classes [0, 2]"
    )
    model.partial_fit(X, TEXTS, classes=np.unique(TEXTS))
    said = "classes=['a', 'c'] differ from those of the first call, ['a', 'b']"
    assert refused(model, TEXTS, np.array(["a", "c"])) == said
    assert refused(model, ["a", "b", "a", "c"], None).startswith("label 'c' is not one of")


def test_a_weight_of_no_class_is_shown_plainly() -> None:
    model = sklearn.KernelClassifier(class_weight={np.str_("z"): 1.0})
    with pytest.raises(
        InvalidInput, match=r"for 'z', which is not one of the classes \['a', 'b'\]"
    ):
        model.fit(X, TEXTS)


def test_rivers_estimators_show_labels_and_values_plainly() -> None:
    with pytest.raises(InvalidInput, match="'x' of row 0 is not a number"):
        river.KernelRegressor().learn_one({"a": 1.0}, np.str_("x"))
    with pytest.raises(Exception, match="column 'a' is inf, past"):
        river.KernelRegressor().learn_one({"a": np.float64("inf")}, 1.0)
