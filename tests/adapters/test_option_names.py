"""Options that an estimator does not have: it says which one is meant."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from streamk.adapters import river, sklearn

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
