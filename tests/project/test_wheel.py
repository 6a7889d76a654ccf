"""What users install: the wheel, in an environment that has never seen this checkout.

This needs the package index, and a minute; `.ci/run` chooses it by its mark.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from wheel_kit import ROOT, Environment, build

pytestmark = [pytest.mark.nightly, pytest.mark.wheel]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def test_the_wheel_ships_both_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"streamk", "connectors"}
    assert {"streamk/py.typed", "connectors/py.typed"} <= set(names)
    in_c = {str(path.relative_to(ROOT)) for path in (ROOT / "streamk").rglob("*.h")}
    assert len(in_c) > 10
    assert in_c <= set(names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert not [name for name in names if "__pycache__" in name]


@pytest.mark.timeout(900)
def test_the_demo_runs_from_the_wheel_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    clean = Environment(tmp_path / "venv", wheel, "plot")
    where = clean.python("import streamk; print(streamk.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(clean.home)

    clean.streamk("demo", cwd=tmp_path)
    pictures = [path for path in tmp_path.rglob("*.png") if not path.is_relative_to(clean.home)]
    assert pictures
