"""Plain words: short sentences, and none of the phrases that readers stumbled over.

CONTRIBUTING.md has the rules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from wheel_kit import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]
LONGEST = {"page": 40, "docstring": 28}
"""Words of a sentence of a page, and of a docstring's first one."""
STUMBLED = re.compile(
    r"of no use|no JSON|predicted as what|for sure \(95%\)|carries the weight|taken as they are"
    r"|what is promised where|in the place of a|whom the|as it would be|not know whose",
    re.IGNORECASE,
)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page, without code, tables and headings; a list's item ends one."""
    text = re.sub(r"```.*?```|^\|.*?$|^#+ .*?$|<!--.*?-->", "\n\n", text, flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for block in re.split(r"\n\s*\n|^\s*(?:[-*]|\d+\.) ", text, flags=re.M):
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(block.split()))


def docstrings(path: Path) -> Iterator[tuple[str, str]]:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", "module"), text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_short_sentences_and_plain_words(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [one for one in sentences(text) if len(one.split()) > LONGEST["page"]] == []
    assert STUMBLED.findall(re.sub(r"```.*?```", "", text, flags=re.S)) == []


def test_the_first_sentence_of_a_docstring_is_short() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("streamk", "connectors")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, text in docstrings(path)
        if len(next(sentences(text.partition("\n\n")[0])).split()) > LONGEST["docstring"]
    ]
    assert long == []
