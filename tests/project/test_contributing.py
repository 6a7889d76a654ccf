"""What CONTRIBUTING shows is so: the way of an event, and additions that take one commit each."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADDITIONS = ROOT / "docs" / "additions"


# --- the way of an event --------------------------------------------------------------------------


def walked() -> list[tuple[str, str]]:
    """Modules and names in the walk, which stand as ``module.py``: ``Class.method``."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    part = re.search(r"^## One event.*?\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert part is not None
    return re.findall(r"`((?:streamk|connectors)/[\w/]+\.py)`:\s+`([\w.]+)`", part[1])


def test_the_walk_has_the_main_stations() -> None:
    assert len(walked()) >= 15


@pytest.mark.parametrize(("path", "name"), walked())
def test_the_way_of_an_event_goes_by_functions_that_there_are(path: str, name: str) -> None:
    found = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)


# --- additions ------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the packages, with what numba has compiled for them."""
    if shutil.which("git") is None:
        pytest.skip("git is missing, which applies the patches")
    for package in ("streamk", "connectors"):
        shutil.copytree(ROOT / package, tmp_path / package)
    events = ["a,b,y"]
    events += [f"{i % 7},{i % 5},{'high' if i % 7 > 3 else 'low'}" for i in range(300)]
    (tmp_path / "events.csv").write_text("\n".join(events) + "\n")
    return tmp_path


def apply(patch: str, copy: Path, *options: str) -> None:
    subprocess.run(["git", "apply", *options, ADDITIONS / patch], cwd=copy, check=True)


def digests(copy: Path) -> dict[str, str]:
    return {
        str(path.relative_to(copy)): hashlib.sha256(path.read_bytes()).hexdigest()
        for package in ("streamk", "connectors")
        for path in (copy / package).rglob("*.py")
    }


def python(copy: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={"PYTHONPATH": str(copy), "PATH": "/usr/bin:/bin", "HOME": str(copy)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(copy: Path, source: str, *options: str) -> str:
    return python(copy, "-m", "streamk", "run", source, "--label", "y", *options)


def test_a_learner_is_added_and_taken_away(copy: Path) -> None:
    before = digests(copy)
    apply("learner.patch", copy)
    job = ("--model", "kernel-means", "--set", "bandwidth=0.7", "--checkpoint", "state")
    run(copy, "csv:events.csv", *job, "--max-events", "200")
    run(copy, "csv:events.csv", *job)  # goes on from the checkpoint
    shown = json.loads(python(copy, "-m", "streamk", "inspect", "state", "--json"))
    (shown,) = shown["checkpoints"][:1]
    assert shown["events"] == 300
    assert shown["metrics"]["whole"]["accuracy"] > 0.6
    assert "kernel-means" in python(copy, "-m", "streamk", "models")
    apply("learner.patch", copy, "-R")
    assert digests(copy) == before


def test_a_kernel_is_added_and_taken_away(copy: Path) -> None:
    before = digests(copy)
    apply("kernel.patch", copy)
    options = (
        "--model",
        "doubly-stochastic",
        "--set",
        "max_features=64",
        "--set",
        "block_size=64",
    )
    run(copy, "csv:events.csv", *options, "--set", "kernel=exponential")
    same = (
        "from streamk.kernels import Exponential, Matern; X = [[0.0, 1.0], [2.0, 0.5]];"
        "print((Exponential().pairwise(X) == Matern(nu=0.5).pairwise(X)).all())"
    )
    assert python(copy, "-c", same) == "True\n"
    apply("kernel.patch", copy, "-R")
    assert digests(copy) == before


def test_an_expert_is_added_and_taken_away(copy: Path) -> None:
    before = digests(copy)
    code = (
        "from streamk.learners import MultiKernel;"
        "model = MultiKernel(); model.learn_many([[0.0], [1.0]] * 40, ['a', 'b'] * 40);"
        "print(model._mixture.pool.sizes['EXPERTS'], model.predict_one([1.0]))"
    )
    experts, label = python(copy, "-c", code).split()
    apply("expert.patch", copy)
    assert python(copy, "-c", code).split() == [str(int(experts) + 1), label]
    apply("expert.patch", copy, "-R")
    assert digests(copy) == before


def test_a_connector_is_added_and_taken_away(copy: Path) -> None:
    shutil.copy(ADDITIONS / "connector" / "streamk_sine.py", copy)
    # What `pip install` of the distribution writes, as far as Python looks at it.
    text = (ADDITIONS / "connector" / "pyproject.toml").read_text("utf-8")
    (entry,) = re.findall(r'^(sine = )"(.*)"$', text, re.MULTILINE)
    info = copy / "streamk_sine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: streamk-sine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[streamk.connectors]\n{entry[0]}{entry[1]}\n")
    options = ("--task", "regression", "--model", "doubly-stochastic", "--checkpoint", "state")
    few = ("--set", "max_features=64", "--set", "block_size=64")
    run(copy, "sine:500?noise=0.1", *options, *few)
    shown = json.loads(python(copy, "-m", "streamk", "inspect", "state", "--json"))
    assert shown["checkpoints"][0]["events"] == 500
    shutil.rmtree(info)
    with pytest.raises(AssertionError, match="sine"):
        run(copy, "sine:500")


def test_the_page_names_every_module_that_tells_losses_apart() -> None:
    page = (ROOT / "docs" / "additions.md").read_text()
    names = re.compile(r"(?<!<)\b(Loss)?Code\.(HINGE|EPSILON_INSENSITIVE|LOGISTIC|HUBER)")
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "streamk").rglob("*.py")
        if names.search(path.read_text())
    }
    told = {path for path in found if f"`{path}`" in page}
    assert found - told == set()
    assert len(told) >= 4
