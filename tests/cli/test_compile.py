"""`streamk compile`, as a command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import forked_kit
import numpy as np
import pytest

import streamk
from streamk.prediction import load

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")


def command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked_kit.run(
        [sys.executable, "-m", "streamk", *arguments],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a job that has learned a number, a text and a missing value."""
    home = tmp_path_factory.mktemp("job")
    random = np.random.default_rng(0)
    with (home / "events.ndjson").open("w") as file:
        for n in range(1500):
            event = {"x": random.uniform(-1, 1), "kind": str(random.choice(["a", "b"]))}
            event["y"] = bool((event["x"] > 0) == (event["kind"] == "a"))
            if n % 50 == 7:
                event["x"] = None
            file.write(json.dumps(event) + "\n")
    done = command(
        home, "run", "file:events.ndjson", "--label", "y", "--checkpoint", "state", "--quiet"
    )
    assert done.returncode == 0, done.stderr
    return home


def test_a_job_is_compiled(home: Path) -> None:
    done = command(
        home, "compile", "state", "file:events.ndjson", "--to", "fast.safetensors", "--c", "fast.h"
    )
    assert done.returncode == 0, done.stderr
    assert "1,500 of 3 columns" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    fast, model = load(home / "fast.safetensors"), streamk.load(home / "state")
    assert fast.columns == model.learner.columns
    assert set(fast.classes) == {False, True}
    points = [
        {"x": x, "kind=a": kind, "kind=b": 1 - kind}
        for x in (-0.8, -0.3, 0.3, 0.8)
        for kind in (0, 1)
    ]
    X = np.array([[float(point[name]) for name in fast.columns] for point in points])
    assert (fast.predict_many(X) == np.asarray(model.learner.predict_many(X))).mean() >= 0.75
    assert "static inline" in (home / "fast.h").read_text()


def test_only_the_first_events_are_read(home: Path) -> None:
    options = ("--max-events", "400", "--budget", "5", "--seed", "1")
    done = command(home, "compile", "state", "file:events.ndjson", "--to", "few", *options)
    assert done.returncode == 0, done.stderr
    assert "400 of 3 columns" in done.stdout


def test_events_that_cannot_be_used_are_counted(home: Path) -> None:
    lines = (home / "events.ndjson").read_text().splitlines()[:200]
    (home / "some.ndjson").write_text("\n".join([*lines, "{", "[1, 2]"]) + "\n")
    done = command(home, "compile", "state", "file:some.ndjson", "--to", "some", "--budget", "5")
    assert done.returncode == 0, done.stderr
    assert "200 of 3 columns, 2 that cannot be used left out" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("state",), "CHECKPOINT, SOURCE and --to FILE are needed"),
        (("nothing", "file:events.ndjson", "--to", "m"), "nothing"),
        (("state", "file:none.ndjson", "--to", "m"), "none.ndjson"),
        (("state", "file:empty.ndjson", "--to", "m"), "no event that can be used"),
        (("state", "file:events.ndjson", "--to", "m", "--budget", "0.1"), "budget=0.1"),
        (("state", "file:events.ndjson", "--to", "m", "--budget", "x"), "--budget"),
        (("state", "file:events.ndjson", "--to", "no/where"), "--to no/where cannot be written"),
        (("state", "file:none.ndjson", "--to", "m", "--c", "state"), "it is a directory"),
        (("state", "file:none.ndjson", "--to", "m", "--c", "./m"), "--to and --c are both m"),
        (("state", "csv:other.csv", "--to", "m"), "the same to the model"),
    ],
)
def test_mistakes_are_named(home: Path, arguments: tuple[str, ...], message: str) -> None:
    (home / "empty.ndjson").touch()
    (home / "other.csv").write_text("a,b\n1,2\n3,4\n")
    done = command(home, "compile", *arguments)
    assert done.returncode in (1, 2)  # 1 where a file cannot be read
    assert message in done.stderr
    assert "Traceback" not in done.stderr
