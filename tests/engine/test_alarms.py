"""Alarms of a job: when they come, once each, and the same through crashes."""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import forked_kit
import numpy as np
import pytest
from cli_kit import ndjson, streamk
from engine_kit import attached, job

import streamk as package
from connectors.memory import MemorySink, MemorySource
from streamk.drift import RankTest, ShareTest
from streamk.drift.alarms import Bounds, Rise
from streamk.engine import Fixed
from streamk.errors import StateError
from streamk.learners import create

CHANGE = 2000


def flipped(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Two classes which change places for events of one side after the change."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=n) > 0
    y[CHANGE:] ^= X[CHANGE:, 1] > 0
    rows = zip(range(n), X.tolist(), y.tolist(), strict=True)
    return [{"id": i, "a": a, "b": b, "y": label} for i, (a, b), label in rows]


def model() -> Any:
    return create("doubly-stochastic", task="classification", seed=1)


def test_errors_that_rise_are_told_and_nothing_before() -> None:
    sink = MemorySink()
    report = job(flipped(3500), model(), alarms=sink).run()
    values = [output.value for output in sink.outputs]
    first = next(value for value in values if value["kind"] == "error")
    assert CHANGE < first["events"] < CHANGE + 150
    assert first["time"] == 10 * (first["events"] - 1)
    assert first["value"] >= first["threshold"]
    assert first["before"] < 0.12 < first["now"]
    assert all(value["events"] > CHANGE for value in values)
    kinds = [value["kind"] for value in values]
    assert report.alarms == {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    json.dumps(values, allow_nan=False)


def test_labels_that_come_later_are_told() -> None:
    sink, n = MemorySink(), 1500
    late = [5 + t % 3 for t in range(n)]
    late[1000:] = [40 + t % 3 for t in range(n - 1000)]
    job(flipped(n), model(), late=late, alarms=sink).run()
    values = [output.value for output in sink.outputs]
    assert [value["kind"] for value in values] == ["label_delay"]
    assert values[0]["events"] > 2 * 1000
    assert values[0]["before"] == pytest.approx(6, abs=1)
    assert values[0]["now"] > values[0]["before"]


def test_sets_of_a_model_that_does_not_follow_lose_their_coverage(tmp_path: Path) -> None:
    """The job has ended; what it has learned predicts a stream that changes."""
    stream = flipped(5000)
    job(stream[:1500], model(), checkpoint=tmp_path, prediction_set=0.9).run()
    served, sink = package.load(tmp_path), MemorySink()
    attached(
        MemorySource(stream[1500:]),
        served.learner,
        schema=served.schema,
        fixed=Fixed(kept=served.kept),
        prediction_set=0.9,
        alarms=sink,
    ).run()
    (found,) = (one.value for one in sink.outputs if one.value["kind"] == "coverage")
    assert found["events"] > CHANGE - 1500
    assert found["now"] < 0.9 - found["threshold"]
    assert found["before"] == pytest.approx(0.9)
    (found,) = (one.value for one in sink.outputs if one.value["kind"] == "calibration")
    assert found["value"] == pytest.approx(found["before"] - found["now"])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """A real process, real files, SIGKILL."""
    (tmp_path / "events.ndjson").write_bytes(ndjson(flipped(3500)))
    rng, told = random.Random(7), {}
    for name in ("whole", "killed"):
        command = [
            *(sys.executable, "-m", "streamk", "run", "file:events.ndjson", "--label", "y"),
            *("--model", "doubly-stochastic", "--set", "max_features=64"),
            *("--ignore", "id", "--quiet", "--prediction-set", "0.9"),
            *("--to", f"file:{name}.ndjson", "--alarms", f"file:{name}.alarms"),
            *("--checkpoint", name, "--checkpoint-every", "300", "--max-events", "3000"),
        ]
        written = tmp_path / f"{name}.ndjson"
        if name == "killed":
            for share in sorted(rng.uniform(0.05, 0.8) for _ in range(3)):
                enough = share * len(told["whole"][0])
                with forked_kit.popen(command, cwd=tmp_path) as process:
                    while not written.exists() or written.stat().st_size < enough:
                        assert process.poll() is None, "it ended before it was killed"
                        time.sleep(0.01)
                    process.send_signal(signal.SIGKILL)
                assert process.returncode == -signal.SIGKILL
        assert forked_kit.run(command, cwd=tmp_path).returncode == 0
        told[name] = [(tmp_path / f"{name}.{end}").read_bytes() for end in ("ndjson", "alarms")]
    assert told["killed"] == told["whole"]
    assert b'"kind":"error"' in told["whole"][1].replace(b": ", b":")


def test_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(flipped(3000)))
    command = ("run", "file:events.ndjson", "--label", "y", "--ignore", "id")
    model = ("--model", "doubly-stochastic")
    out, _ = streamk(*command, *model, "--alarms", "csv:alarms.csv", cwd=tmp_path)
    assert "1 error" in out
    header, first, *_ = (tmp_path / "alarms.csv").read_text().splitlines()
    assert {"kind", "events", "time", "value", "threshold", "before", "now"} <= {*header.split(",")}
    assert "error" in first
    _, err = streamk(*command, "--alarms", "file:events.ndjson", cwd=tmp_path, status=2)
    assert "SOURCE and --alarms are both" in err


@pytest.mark.parametrize("share", [1e-5, 5e-5, 1e-2])
def test_errors_as_rare_as_expected_are_within_the_bounds(share: float) -> None:
    right = np.random.default_rng(3).random(120_000) >= share
    watch = Bounds()
    found = [watch.update(float(one), 1 - share, share * (1 - share)) for one in right.tolist()]
    assert not any(found)
    later = [watch.update(float(n % 50 > 0), 1 - share, share * (1 - share)) for n in range(1000)]
    assert any(later) == (share < 1e-2)


@pytest.mark.parametrize("watch", [Rise(RankTest()), Rise(ShareTest()), Bounds()])
def test_damaged_watches_are_refused(watch: Any) -> None:
    for number in range(100):
        watch.update(float(number % 2), 0.5, 0.25)
    data = watch.to_json()
    watch.restore(json.loads(json.dumps(data)))
    for name in data:
        with pytest.raises(StateError):
            watch.restore({other: one for other, one in data.items() if other != name})
        with pytest.raises(StateError):
            watch.restore({**data, name: [["x"]] if name in ("last", "rows") else "x"})
