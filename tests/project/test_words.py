"""The glossary and the code use the same words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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
        for name in names(path)
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


def test_the_glossary_has_only_names_that_there_are() -> None:
    words = {word for path in SOURCES for word in re.findall(r"\w+", path.read_text())}
    assert sorted(NAMED - words) == []
