"""What CONTRIBUTING shows is so: the way of an event, additions of one commit, and deletions."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamk import extensions

ROOT = Path(__file__).parents[2]
ADDITIONS = ROOT / "docs" / "additions"


# --- the way of an event --------------------------------------------------------------------------


def walked() -> list[tuple[str, str]]:
    """Modules and names in the walk, which stand as ``module.py``: ``Class.method``."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    part = re.search(r"^## One event.*?\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
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


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages, with what numba has compiled for them."""
    if shutil.which("git") is None:
        pytest.skip("git is missing, which applies the patches")
    copy = tmp_path_factory.mktemp("copy")
    for package in ("streamk", "connectors"):
        shutil.copytree(ROOT / package, copy / package)
    events = ["a,b,y"]
    events += [f"{i % 7},{i % 5},{'high' if i % 7 > 3 else 'low'}" for i in range(300)]
    (copy / "events.csv").write_text("\n".join(events) + "\n")
    rows = [{"a": n % 7, "b": n % 5, "y": n % 7 > n % 5} for n in range(300)]
    (copy / "events.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (copy / "left.py").write_text(LEFT)
    return copy


@contextlib.contextmanager
def patched(patch: str, copy: Path) -> Iterator[None]:
    """Have an addition be there, which is taken away without a trace."""
    before = digests(copy)
    apply = ["git", "apply", ADDITIONS / patch]
    subprocess.run(apply, cwd=copy, check=True)
    yield
    subprocess.run([*apply, "-R"], cwd=copy, check=True)
    assert digests(copy) == before


def digests(copy: Path) -> dict[str, str]:
    return {
        str(path.relative_to(copy)): hashlib.sha256(path.read_bytes()).hexdigest()
        for package in ("streamk", "connectors")
        for path in (copy / package).rglob("*.py")
    }


def python(copy: Path, code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=copy,
        env={"PYTHONPATH": str(copy), "PATH": "/usr/bin:/bin", "HOME": str(copy)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def streamk(copy: Path, *commands: str) -> list[str]:
    """Run commands one after the other; return what they print."""
    mark = "-- the next command --"
    code = (
        "import sys; from streamk.cli import main\n"
        f"for command in {commands!r}:\n"
        f"    main(command.split()) and sys.exit(1); print({mark!r})"
    )
    return python(copy, code).split(mark)


SMALL = "--set max_features=64 --set block_size=64"


def test_a_learner_is_added_and_taken_away(copy: Path) -> None:
    job = "run csv:events.csv --label y --model kernel-means --set bandwidth=0.7 --checkpoint means"
    with patched("learner.patch", copy):
        _, _, shown, models, _ = streamk(
            copy, f"{job} --max-events 200", job, "inspect means --json", "models"
        )
    checkpoint = json.loads(shown)["checkpoints"][0]
    assert checkpoint["events"] == 300
    assert checkpoint["metrics"]["whole"]["accuracy"] > 0.6
    assert "kernel-means" in models


def test_a_kernel_is_added_and_taken_away(copy: Path) -> None:
    run = f"run csv:events.csv --label y --model doubly-stochastic {SMALL} --set kernel=exponential"
    same = (
        "from streamk.kernels import Exponential, Matern; X = [[0.0, 1.0], [2.0, 0.5]];"
        "assert (Exponential().pairwise(X) == Matern(nu=0.5).pairwise(X)).all();"
        f"from streamk.cli import main; assert main({run.split()}) == 0"
    )
    with patched("kernel.patch", copy):
        python(copy, same)


@pytest.mark.nightly
def test_an_expert_and_a_kind_of_experts_are_added_and_taken_away(copy: Path) -> None:
    code = (
        "from streamk.learners import MultiKernel;"
        "model = MultiKernel(); model.learn_many([[0.0], [1.0]] * 40, ['a', 'b'] * 40);"
        "print(model._mixture.pool.sizes['EXPERTS'], model.predict_one([1.0]))"
    )
    experts, label = python(copy, code).split()
    with patched("expert.patch", copy), patched("bank.patch", copy):
        assert python(copy, code).split() == [str(int(experts) + 2), label]


def test_a_connector_is_added_and_taken_away(copy: Path) -> None:
    shutil.copy(ADDITIONS / "connector" / "streamk_sine.py", copy)
    # What `pip install` of the distribution writes, as far as Python looks at it.
    text = (ADDITIONS / "connector" / "pyproject.toml").read_text("utf-8")
    (entry,) = re.findall(r'^(sine = )"(.*)"$', text, re.MULTILINE)
    info = copy / "streamk_sine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: streamk-sine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[streamk.connectors]\n{entry[0]}{entry[1]}\n")
    job = f"--label y --task regression --model doubly-stochastic --checkpoint sine {SMALL}"
    _, shown, _ = streamk(copy, f"run sine:500?noise=0.1 {job}", "inspect sine --json")
    assert json.loads(shown)["checkpoints"][0]["events"] == 500
    shutil.rmtree(info)
    with pytest.raises(AssertionError, match="sine"):
        streamk(copy, "run sine:500 --label y")


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
    assert len(told) >= 3


# --- deletions ------------------------------------------------------------------------------------

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
without = ("__main__", "capymoa", "python_client", "confluent", "streamk.mlflow", "cuda", "cupy")
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


@pytest.mark.parametrize(
    "folders",
    [
        pytest.param(DELETED, id="all"),
        *(pytest.param([one], id=one, marks=pytest.mark.nightly) for one in DELETED),
    ],
)
def test_an_extension_can_be_deleted(folders: list[str], copy: Path) -> None:
    aside = copy / "aside"
    for folder in folders:
        shutil.move(copy / folder, aside / folder)
    try:
        done = subprocess.run(
            [sys.executable, "left.py"], cwd=copy, capture_output=True, text=True, check=False
        )
    finally:
        for folder in folders:
            shutil.move(aside / folder, copy / folder)
        for name in ("state", "whole"):
            shutil.rmtree(copy / name, ignore_errors=True)
        for name in ("whole.ndjson", "parts.ndjson"):
            (copy / name).unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
