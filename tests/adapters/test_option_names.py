"""Options of estimators: names that are meant, docstrings, and the defaults of the models."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest

from streamk.adapters import river, sklearn
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
