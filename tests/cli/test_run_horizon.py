"""`streamk run --horizon`: what it says, what inspect finds, and what predict does with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_kit import kill, streamk

from streamk.engine import newest_checkpoint


def write(path: Path, n: int = 120) -> None:
    """Hours of a label that repeats after 12, as JSON and as CSV."""
    rows = [(f"2026-01-{1 + k // 24:02d}T{k % 24:02d}:00:00", k % 12, k % 5) for k in range(n)]
    lines = [json.dumps({"hour": hour, "y": y, "x": x}) + "\n" for hour, y, x in rows]
    (path / "events.ndjson").write_text("".join(lines))
    text = "".join(f"{hour},{y},{x}\n" for hour, y, x in rows)
    (path / "events.csv").write_text(f"hour,y,x\n{text}")


JOB = ("--label", "y", "--task", "regression", "--expert", "none", "--quiet", "--json")


@pytest.mark.parametrize("source", ["file:events.ndjson", "csv:events.csv"])
def test_a_job_of_a_file(source: str, tmp_path: Path) -> None:
    """Two horizons and intervals; it goes on, is inspected, and predicts by the present label."""
    write(tmp_path)

    def run(*more: str) -> dict[str, Any]:
        output, _ = streamk(
            *("run", source, *JOB, "--horizon", "6h,24h", "--time", "hour"),
            *("--interval", "0.8", "--to", "file:said.ndjson", "--checkpoint", "state", *more),
            cwd=tmp_path,
        )
        found: dict[str, Any] = json.loads(output)
        return found

    first, found = run("--max-events", "70"), run()
    assert (first["learned"], found["learned"]) == (64, 114)
    assert found["fates"]["held"] == 30
    assert {name: one["events"] for name, one in found["slices"].items()} == {"6h": 114, "1d": 96}
    said = [json.loads(line) for line in (tmp_path / "said.ndjson").read_text().splitlines()]
    assert len(said) == 120
    assert [one["horizon"] for one in said[-1]["ahead"]] == ["6h", "1d"]
    assert said[-1]["interval"] == said[-1]["ahead"][0]["interval"] is not None
    output, _ = streamk("inspect", "state", cwd=tmp_path)
    assert "y, 6h and 1d ahead" in output
    (tmp_path / "now.ndjson").write_text('{"hour": "2026-01-06T00:00:00", "y": 3, "x": 1}\n')
    asked = ("predict", "state", "file:now.ndjson", "--quiet", "--interval", "0.8")
    ahead = json.loads(streamk(*asked, cwd=tmp_path)[0])["ahead"]
    assert [one["horizon"] for one in ahead] == ["6h", "1d"]
    assert ahead[0]["interval"] != ahead[1]["interval"]
    for given, name, other in (((), "6h", "1d"), (("--horizon", "24h"), "1d", "6h")):
        job = ("compile", "state", source, "--to", f"{name}.safetensors", *given)
        output, _ = streamk(*job, cwd=tmp_path)
        assert f"{name} alone (--horizon takes another one: {other})" in output
    _, told = streamk(*job[:5], "--horizon", "2h", cwd=tmp_path, status=2)
    assert "no such horizon; this job has 6h, 1d" in told
    _, told = streamk(*job[:5], "--horizon", "2x", cwd=tmp_path, status=2)
    assert "argument --horizon: '2x' is not a time span" in told


@pytest.mark.parametrize(("given", "names"), [('["1h", 3]', ["1h", "3"]), ("[3]", ["3"])])
def test_a_configuration_has_a_list(given: str, names: list[str], tmp_path: Path) -> None:
    write(tmp_path, 30)
    (tmp_path / "job.toml").write_text(f"horizon = {given}\n")
    job = ("run", "file:events.ndjson", *JOB, "--config", "job.toml", "--checkpoint", "state")
    streamk(*job, *(("--time", "hour") if len(names) > 1 else ()), cwd=tmp_path)
    output, _ = streamk("inspect", "state", "--json", cwd=tmp_path)
    assert json.loads(output)["checkpoints"][0]["horizon"] == ",".join(names)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--horizon", "24x"], "not a horizon"),
        (["--horizon=-3"], "not a horizon"),
        (["--horizon", "0"], "not a horizon"),
        (["--horizon", "1.5"], "not a horizon"),
        (["--horizon", "3,3"], "each once"),
        (["--horizon", "24h"], "the events have no time"),
        (["--horizon", "24", "--time", "hour"], "leave it out"),
        (["--horizon", "24", "--labels", "file:x.ndjson", "--key", "x"], "--labels"),
        (["--horizon", "24", "--label-timeout", "3h"], "needs --labels SOURCE\n"),
        (["--horizon", "24", "--key", "y"], "is the label"),
        (["--horizon", "2,3", "--slice", "x"], "its own figures"),
        (
            ["--horizon", "2", "--workers", "2"],
            "cannot be combined with challengers, shards or workers",
        ),
        (["--key", "x"], "needs --labels SOURCE or --horizon SPAN"),
    ],
)
def test_what_cannot_be_says_so(given: list[str], message: str, tmp_path: Path) -> None:
    write(tmp_path, 5)
    _, told = streamk("run", "file:events.ndjson", *JOB, *given, cwd=tmp_path, status=2)
    assert message in told


def test_another_horizon_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 30)
    job = ("run", "file:events.ndjson", *JOB, "--checkpoint", "state")
    streamk(*job, "--horizon", "3", cwd=tmp_path)
    for other in (["--horizon", "4"], ["--horizon", "3,4"], []):
        _, told = streamk(*job, *other, cwd=tmp_path, status=1)
        assert "--horizon: the checkpoint" in told
        begins = ("run", "file:events.ndjson", *JOB, "--start-from", "state")
        _, told = streamk(*begins, *other, cwd=tmp_path, status=1)
        assert "--horizon: the checkpoint" in told
    found, _ = streamk(*begins, "--horizon", "3", cwd=tmp_path)
    assert json.loads(found)["learned"] == 27


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """A real process, real files, SIGKILL."""
    job = ["run", "file:events.ndjson", *JOB, "--horizon", "3h,12", "--time", "hour"]
    job += ["--interval", "0.8", "--to", "file:said.ndjson", "--checkpoint", "state"]
    job += ["--checkpoint-every", "50"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for path in (whole, killed):
        path.mkdir()
        write(path, 400)
    streamk(*job, cwd=whole)
    kill(killed, "state", job, (2, 4))
    streamk(*job, cwd=killed)
    assert (whole / "said.ndjson").read_bytes() == (killed / "said.ndjson").read_bytes()
    a, b = (newest_checkpoint(path / "state" / "member-0") for path in (whole, killed))
    assert a is not None
    assert b is not None
    for name in ("model.safetensors", "held.safetensors"):
        assert (a.path / name).read_bytes() == (b.path / name).read_bytes()
    assert a.body["training"] == b.body["training"]
