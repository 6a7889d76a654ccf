"""`streamk compile`, as a command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_kit import streamk

from streamk import load as load_model
from streamk.prediction import load

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")


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
    run = ("run", "file:events.ndjson", "--label", "y", "--checkpoint", "state", "--quiet")
    streamk(*run, cwd=home)
    return home


def test_a_job_is_compiled(home: Path) -> None:
    to = ("--to", "fast.safetensors", "--c", "fast.h")
    out, _ = streamk("compile", "state", "file:events.ndjson", *to, cwd=home)
    assert "1,500 of 3 columns" in out
    assert max(map(len, out.splitlines())) <= 80
    fast, model = load(home / "fast.safetensors"), load_model(home / "state")
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


def test_the_first_events_are_read_and_those_that_cannot_be_used_are_counted(home: Path) -> None:
    options = ("--max-events", "400", "--budget", "5", "--seed", "1")
    out, _ = streamk("compile", "state", "file:events.ndjson", "--to", "few", *options, cwd=home)
    assert "400 of 3 columns" in out
    lines = (home / "events.ndjson").read_text().splitlines()[:200]
    (home / "some.ndjson").write_text("\n".join([*lines, "{", "[1, 2]"]) + "\n")
    to = ("--to", "some", "--budget", "5")
    out, _ = streamk("compile", "state", "file:some.ndjson", *to, cwd=home)
    assert "200 of 3 columns, 2 that cannot be used left out" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("state",), "CHECKPOINT, SOURCE and --to FILE are needed"),
        (("nothing", "file:events.ndjson", "--to", "m"), "nothing"),
        (("state", "file:none.ndjson", "--to", "m"), "none.ndjson"),
        (("state", "file:empty.ndjson", "--to", "m"), "no usable event"),
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
    _, err = streamk("compile", *arguments, cwd=home, status=2)
    assert message in err
    assert "Traceback" not in err
