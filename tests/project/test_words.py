"""The glossary and the code use the same words."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from pathlib import Path

import pytest

from streamk.deprecation import former_options
from streamk.kernels import Gaussian
from streamk.learners import (
    DoublyStochastic,
    EigenPro,
    FeatureMachine,
    MultiKernel,
    OnlineKernelRidge,
    OnlineNystrom,
    StreamingMeka,
)

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "words.md").read_text()
TERMS = [row.split("|")[2] for row in GLOSSARY.splitlines() if row.startswith("| ")]
"""The middle column."""
NAMED = set(re.findall(r"`([A-Za-z_]\w*)", " ".join(TERMS)))

FORMER = re.compile(
    r"(_|^)(guests?|keeper|rouse|doze|opinions?|opine|hand_out|take_back|recollection|loudness"
    r"|believe|steady_?scale|crew|of_coordinates|lookout|heirs?|strangers|verdict)(_|$)",
    re.IGNORECASE,
)
"""Words that are not the field's, as parts of names."""
ALIASES = {"guests"}
"""Former names of public attributes, which still work and warn."""


def names(path: Path) -> set[str]:
    """Names of functions, classes, parameters and attributes that a module defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.arg():
                found.add(node.arg)
            case ast.Attribute(ctx=ast.Store()):
                found.add(node.attr)
    return found


SOURCES = sorted([*ROOT.glob("streamk/**/*.py"), *ROOT.glob("connectors/**/*.py")])


def test_no_name_has_a_former_word() -> None:
    faults = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in names(path) - ALIASES
        if FORMER.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name))
    ]
    assert not faults, "\n".join(faults)


def test_a_text_begins_with_a_noun_or_a_verb_for_its_thing() -> None:
    asks = "Whether|How|Where|When|Why|What|Who|Whoever|Whose|Which|Whatever|By which"
    clause = re.compile(rf'^ *r?"""({asks}|Let) ', re.MULTILINE)
    faults = [
        f"{path.relative_to(ROOT)}: {found.group().strip()}"
        for path in SOURCES
        for found in clause.finditer(path.read_text())
    ]
    assert not faults, "\n".join(faults)


def test_the_glossary_has_every_option_of_the_learners() -> None:
    of_one = (DoublyStochastic, OnlineNystrom, StreamingMeka, OnlineKernelRidge, EigenPro)
    learners = (MultiKernel, *of_one, FeatureMachine)
    options = {name for each in learners for name in inspect.signature(each).parameters}
    assert options <= NAMED | {"self"}, sorted(options - NAMED)


def test_the_glossary_has_only_names_that_there_are() -> None:
    text = "\n".join(path.read_text() for path in SOURCES)
    assert [name for name in sorted(NAMED) if not re.search(rf"\b{name}\b", text)] == []


# --- former names ---------------------------------------------------------------------------------


def test_a_former_option_works_and_warns() -> None:
    nystrom = OnlineNystrom(Gaussian())
    with pytest.warns(DeprecationWarning, match="guests= is now called external_experts="):
        model = MultiKernel(guests=[nystrom])  # type: ignore[call-arg]
    assert len(model.external_experts) == 1
    with pytest.warns(DeprecationWarning, match=r"\.guests is now called \.external_experts"):
        assert model.guests == model.external_experts
    with pytest.warns(DeprecationWarning, match="lag= is now called swap_delay="):
        meka = StreamingMeka(Gaussian(), lag=64)  # type: ignore[call-arg]
    assert meka.swap_delay == 64


@pytest.mark.parametrize("library", ["river", "sklearn"])
def test_former_options_of_estimators_work_and_are_not_listed(library: str) -> None:
    adapters = pytest.importorskip(f"streamk.adapters.{library}")
    with pytest.warns(DeprecationWarning, match="guests= is now called external_experts="):
        model = adapters.KernelRegressor(guests=[])
    assert model.external_experts == []
    assert "guests" not in inspect.signature(type(model)).parameters


def test_an_option_is_given_by_one_of_its_names() -> None:
    @former_options(lag="delay")
    def begin(*, delay: int = 1) -> int:
        return delay

    with pytest.raises(TypeError, match="former name of delay="):
        begin(lag=1, delay=2)  # type: ignore[call-arg]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert begin(delay=2) == 2
