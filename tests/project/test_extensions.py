"""Each extension can be deleted: all else is imported, runs, and goes on after a crash."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streamk import extensions

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent.name for path in ROOT.glob("streamk/*/extension.toml"))
DELETED = [*(f"streamk/{name}" for name in FOLDERS), "connectors/schemas"]

POINTS = {
    *("learners", "openings", "run", "commands", "about", "regions", "alarms"),
    *("exports", "places", "river"),
}

LEFT = """
import importlib, json, pathlib, pkgutil, sys

root = pathlib.Path.cwd()
sys.path.insert(0, str(root))
import connectors, streamk

assert pathlib.Path(streamk.__file__).parent == root / "streamk", streamk.__file__
without = ("__main__", "python_client", "confluent", "streamk.mlflow", "cuda", "cupy")
for package in (streamk, connectors):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not any(part in found.name for part in without):
            importlib.import_module(found.name)

from connectors.base import Sink
from connectors.registry import open_sink, open_source
from streamk.adapters.river import KernelClassifier
from streamk.cli import main
from streamk.engine import Checkpoints, Engine, Stream
from streamk.learners import create
from river import datasets, metrics, evaluate

command = ["run", "file:events.ndjson", "--label", "y", "--model", "kernel-ridge", "--quiet"]
command += ["--set", "max_centers=64", "--checkpoint-every", "100"]


class Dies(Exception):
    pass


def dying(sink):
    write = sink.write

    def once(outputs):
        write(outputs)
        raise Dies

    sink.write = once
    return sink


def engine(sink):
    model = create("kernel-ridge", task="classification", max_centers=64)
    saved, stream = Checkpoints("state", every=100), Stream(label="y")
    source = open_source("file:events.ndjson")
    return Engine(source, model, sink=sink, stream=stream, checkpoints=saved)


assert main([*command, "--checkpoint", "whole", "--to", "file:whole.ndjson"]) == 0
try:
    engine(dying(open_sink("file:parts.ndjson"))).run()
except Dies:
    pass
else:
    raise AssertionError("it was to die")
assert engine(open_sink("file:parts.ndjson")).run().events == 300
assert pathlib.Path("parts.ndjson").read_bytes() == pathlib.Path("whole.ndjson").read_bytes()

model = KernelClassifier(external_experts=())
found = evaluate.progressive_val_score(datasets.Phishing().take(100), model, metrics.Accuracy())
assert found.get() > 0.5
"""


def test_what_is_registered_is_there() -> None:
    found = {point for path in ROOT.glob("streamk/*/extension.toml") for point in _points(path)}
    assert found <= POINTS
    for point in POINTS - {"about"}:
        for name, one in extensions.all_of(point):
            assert one is not None, name


def _points(path: Path) -> set[str]:
    return {line.strip("[]") for line in path.read_text().splitlines() if line.startswith("[")}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, with what is compiled of them."""
    house = tmp_path_factory.mktemp("house")
    for package in ("streamk", "connectors"):
        shutil.copytree(ROOT / package, house / package)
    rows = [{"a": n % 7, "b": n % 5, "y": n % 7 > n % 5} for n in range(300)]
    (house / "events.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (house / "left.py").write_text(LEFT)
    return house


@pytest.mark.parametrize(
    "folders",
    [
        pytest.param(DELETED, id="all"),
        *(pytest.param([one], id=one, marks=pytest.mark.nightly) for one in DELETED),
    ],
)
def test_an_extension_can_be_deleted(folders: list[str], copied: Path) -> None:
    aside = copied / "aside"
    for folder in folders:
        shutil.move(copied / folder, aside / folder)
    try:
        done = subprocess.run(
            [sys.executable, "left.py"], cwd=copied, capture_output=True, text=True, check=False
        )
    finally:
        for folder in folders:
            shutil.move(aside / folder, copied / folder)
        for name in ("state", "whole"):
            shutil.rmtree(copied / name, ignore_errors=True)
        for name in ("whole.ndjson", "parts.ndjson"):
            (copied / name).unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
