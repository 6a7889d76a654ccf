"""What users install: the wheel, in an environment that has never seen this checkout.

This needs the package index, and a minute; `.ci/run` chooses it with ``-m nightly``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.nightly


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=540
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


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
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    run(home / "bin" / "pip", "install", "--quiet", f"{wheel}[plot]", cwd=tmp_path)
    where = run(
        home / "bin" / "python", "-c", "import streamk; print(streamk.__file__)", cwd=tmp_path
    )
    assert Path(where.strip()).is_relative_to(home)

    run(home / "bin" / "streamk", "demo", cwd=tmp_path)
    pictures = [path for path in tmp_path.rglob("*.png") if not path.is_relative_to(home)]
    assert pictures
