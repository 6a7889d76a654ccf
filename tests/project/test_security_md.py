"""SECURITY.md names tests, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def named() -> list[tuple[str, str]]:
    """Files, and tests in them; those that follow `::` alone are in the file before."""
    found, file = [], ""
    for path, name in re.findall(r"`(tests/[\w/]+\.py)?(?:::(\w+))?`", TEXT):
        file = path or file
        if path or name:
            found.append((file, name))
    return found


def test_many_are_named() -> None:
    assert len(named()) > 15


@pytest.mark.parametrize(("file", "name"), named())
def test_the_tests_that_are_named_are_there(file: str, name: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {name}(" in source if name else "def test_" in source


def test_rows_of_promises_name_a_test_or_say_where_it_is() -> None:
    rows = re.findall(r"^\| (?!promised|-)(.*?) \| ?(.*)\|$", TEXT, flags=re.MULTILINE)
    assert len(rows) > 10
    for promise, test in rows:
        assert "tests/" in test or "see above" in promise
