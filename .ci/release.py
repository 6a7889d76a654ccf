"""Print the part of the changelog for a tag, or say why that tag cannot be released.

A tag ``v1.2.3`` needs ``__version__ = "1.2.3"`` in ``streamk/__init__.py``, the same version in
``CITATION.cff``, and a heading ``## 1.2.3`` in ``CHANGELOG.md`` with text below it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def notes(tag: str, root: Path = ROOT) -> str:
    """Return the changelog's text for a tag.

    Raises
    ------
    SystemExit
        If tag, version, citation and changelog do not agree, naming the file.
    """
    version = tag.removeprefix("v")
    for name, pattern in (
        ("streamk/__init__.py", r'^__version__ = "(.*)"$'),
        ("CITATION.cff", r"^version: (.*)$"),
    ):
        found = re.search(pattern, (root / name).read_text("utf-8"), re.MULTILINE)
        if found is None or found[1] != version:
            says = "no version" if found is None else f"version {found[1]}"
            raise SystemExit(f"{name} has {says}, but the tag is {tag}")
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    part = re.search(
        rf"^## {re.escape(version)}\b.*?\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL
    )
    if part is None or not part[1].strip():
        raise SystemExit(f"CHANGELOG.md has nothing under a heading '## {version}'")
    return part[1].strip() + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].startswith("v"):
        raise SystemExit("usage: release.py vVERSION")
    sys.stdout.write(notes(sys.argv[1]))
