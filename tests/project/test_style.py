"""Plain words: short sentences, and none of the phrases that readers stumbled over.

CONTRIBUTING.md has the rules. Public functions, classes and methods have docstrings by ruff's D.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from wheel_kit import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]
CODE = [path for room in ("streamk", "connectors") for path in sorted((ROOT / room).rglob("*.py"))]
LONGEST = {"page": 40, "docstring": 28, "message": 75}
"""Words of a sentence of a page, of a docstring's first one, and of a message."""
STUMBLED = re.compile(
    r"of no use|no JSON|predicted as what|for sure \(95%\)|carr(?:y|ies) the weight"
    r"|taken as they are|what is promised where|in the places? of\b|\bwhom\b|as it would be"
    r"|not know whose|rests? for good|\bof which none|is another one\b|otherwise than"
    r"|whose state this is|exclude each other|stands? twice|had better|any more that"
    r"|(?<!here )\bis no (?!more|longer|one\b|such|matter|other|larger|better)[a-z]",
    re.IGNORECASE,
)
OFF = {
    "typography.symbols.curly_quotes": False,  # Markdown has straight ones
    "typography.diacritical_marks": False,  # a run can resume
    "misc.phrasal_adjectives.ly": False,  # multiply-adds
    "dates_times.dates.dash_and_from": False,  # from 3,584 on
}
"""Checks of proselint that make no sense here."""
LOGS = {"debug", "info", "warning", "error", "exception", "warn"}


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, without code, tables and headings; a list's item ends one."""
    text = re.sub(r"```.*?```|^\|.*?$|^#+ .*?$|<!--.*?-->", "\n\n", text, flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for block in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", text, flags=re.M):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(block.split()))


def literal(node: ast.AST) -> str:
    """The text of a string, with … for values; "" of anything else."""
    match node:
        case ast.JoinedStr(values=parts):
            return "".join(literal(part) or "…" for part in parts)
        case ast.Constant(value=str(text)):
            return text
    return ""


def messages(call: ast.Call) -> Iterator[str]:
    """The texts among the arguments of a call."""
    for argument in call.args:
        yield from filter(None, map(literal, ast.walk(argument)))


@cache
def texts(path: Path) -> list[tuple[str, str, str]]:
    """What a module tells: kind, name or line, and text of docstrings and messages."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Module() | ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                if text := ast.get_docstring(node):
                    found.append(("docstring", getattr(node, "name", "module"), text))
            case ast.Raise(exc=ast.Call() as call):
                found += [("message", str(node.lineno), text) for text in messages(call)]
            case ast.Call(func=ast.Attribute(attr=attr)) if attr in LOGS:
                found += [("message", str(node.lineno), text) for text in messages(node)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_short_sentences_and_plain_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [one for one in sentences(text) if len(one.split()) > LONGEST["page"]] == []
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    assert STUMBLED.findall(" ".join(prose.split())) == []


def test_proselint_finds_nothing_in_the_pages() -> None:
    checks = pytest.importorskip("proselint.checks", reason="pip install 'streamk[test]'")
    from proselint.config import DEFAULT
    from proselint.registry import CheckRegistry
    from proselint.tools import LintFile

    CheckRegistry().register_many(checks.__register__)
    config = {**DEFAULT, "checks": OFF | DEFAULT["checks"]}  # the first name that fits counts
    faults = [
        f"{page.relative_to(ROOT)}: {one.check_result.check_path}: {one.check_result.message}"
        for page in PAGES
        for text in ["\n".join(sentences(page.read_text("utf-8")))]
        # Code is not prose, nor are titles of papers.
        for prose in [re.sub(r"`[^`]*`|(?<!\*)\*[^*]+\*(?!\*)", "…", text)]
        for one in LintFile(page.name, prose).lint(config)
    ]
    assert not faults, "\n".join(faults)


def told(path: Path, place: str, text: str) -> str:
    return f"{path.relative_to(ROOT)}: {place}: {' '.join(text.split())[:90]}"


def test_the_first_sentence_of_a_docstring_is_short_and_so_is_a_message() -> None:
    long = [
        told(path, place, text)
        for path in CODE
        for kind, place, text in texts(path)
        for first in [next(sentences(text.partition("\n\n")[0])) if kind == "docstring" else text]
        if len(first.split()) > LONGEST[kind]
    ]
    assert not long, "\n".join(long)


def test_docstrings_and_messages_are_in_plain_words() -> None:
    # The compiled loops are apart: each change of them, of comments too, compiles them anew.
    faults = [
        f"{told(path, place, text)} … {found.group()!r}"
        for path in CODE
        if "backends" not in path.parts
        for _, place, text in texts(path)
        for found in STUMBLED.finditer(" ".join(text.split()))
    ]
    assert not faults, "\n".join(faults)
