"""The user guide builds, as CONTRIBUTING.md says, without a warning.

This needs the package index, and some minutes.
"""

from __future__ import annotations

import venv
from pathlib import Path

import pytest
from wheel_kit import ROOT, run


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_guide_builds_without_warnings(tmp_path: Path) -> None:
    home, pages = tmp_path / "venv", tmp_path / "docs"
    venv.create(home, with_pip=True)
    run(home / "bin" / "pip", "install", "--quiet", "-e", f"{ROOT}[docs]", cwd=tmp_path)
    run(home / "bin" / "sphinx-build", "-q", "-W", "docs", pages, cwd=ROOT)
    assert (pages / "factorization.html").is_file()
