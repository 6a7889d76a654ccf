"""`--entity` on the command line: run, predict, serve what was saved, look at one, forget it."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_kit import kill, ndjson, results, streamk

from streamk.cli.arguments import durations
from streamk.engine import newest_checkpoint
from streamk.memory import entity_number
from streamk.trained import load

JOB = ("run", "file:payments.ndjson", "--label", "fraud", "--entity", "user", "--time", "ts")
SMALL = ("--expert", "none")


def payments(n: int = 600) -> list[dict[str, Any]]:
    rng, time, found = random.Random(3), datetime(2026, 1, 1), list[dict[str, Any]]()
    usual = [10 ** rng.uniform(0.5, 2.5) for _ in range(9)]
    for _ in range(n):
        time += timedelta(seconds=round(rng.expovariate(1 / 900)))
        user, fraud = rng.randrange(9), rng.random() < 0.2
        amount = round(usual[user] * rng.lognormvariate(0.0, 0.2) * (5 if fraud else 1), 2)
        found.append({"ts": str(time), "user": user, "amount": amount, "fraud": fraud})
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "payments.ndjson").write_bytes(ndjson(payments()))
    return tmp_path


def test_from_first_event_to_forgetting(folder: Path) -> None:
    """One job: run, look at a user, predict, forget, and go on."""
    streamk(*JOB, *SMALL, "--spans", "1h,7d", "--checkpoint", "state", cwd=folder)
    out, _ = streamk("inspect", "state", "--entity", "user=7", cwd=folder)
    mine = [one for one in payments() if one["user"] == 7]
    head, _, *lines = out.splitlines()
    assert head.endswith(f"00000002: user '7', {len(mine)} events, the last at {mine[-1]['ts']}")
    assert [line.split()[0] for line in lines] == [
        *("label", "label_1h", "label_7d", "amount", "amount_1h", "amount_7d")
    ]
    assert lines[3].split()[-1] == f"{mine[-1]['amount']:.6g}"
    out, _ = streamk("inspect", "state", "--entity", "user=7", "--json", cwd=folder)
    (row,) = json.loads(out)["rows"]
    assert row["count"] == len(mine)
    out, _ = streamk("inspect", "state", "--schema", cwd=folder)
    assert ["user", "entity"] in json.loads(out)["kinds"]
    said, _ = streamk("predict", "state", "file:payments.ndjson", "--quiet", cwd=folder)
    model = load(folder / "state")
    expected = model.predict_many(payments())
    assert [json.loads(line)["prediction"] for line in said.splitlines()] == expected
    out, _ = streamk("forget", "state", "user=7", cwd=folder)
    assert out == "state/member-0/00000003: user '7' is forgotten\n"
    assert sorted(path.name for path in (folder / "state/member-0").iterdir()) == [
        "00000003",
        "lock",
    ]
    _, err = streamk("inspect", "state", "--entity", "user=7", cwd=folder, status=2)
    assert "no user '7' among the 8" in err
    with (folder / "payments.ndjson").open("ab") as file:
        file.write(ndjson([{**mine[-1], "ts": "2026-03-01", "amount": 5.0}]))
    streamk(*JOB, *SMALL, "--spans", "1h,7d", "--checkpoint", "state", cwd=folder)
    again = newest_checkpoint(folder / "state")
    assert again.body["feed"]["sequence"]["events"] == 601
    row = load(folder / "state").learner.tables[0].row(entity_number("7"))
    assert (row["count"], row["amount.mean"]) == (1.0, 5.0)


def test_a_job_that_is_killed_goes_on_bit_for_bit(folder: Path) -> None:
    def job(name: str) -> tuple[str, ...]:
        out = ("--to", f"file:{name}.out", "--checkpoint", name, "--checkpoint-every", "50")
        return (*JOB, *SMALL, *out, "--quiet")

    streamk(*job("whole"), cwd=folder)
    kill(folder, "killed", job("killed"), (1, 3, 7))
    streamk(*job("killed"), cwd=folder)
    assert results(folder, "killed") == results(folder, "whole")


def test_late_labels_have_the_same_times(folder: Path) -> None:
    events = [one | {"id": n} for n, one in enumerate(payments())]
    labels = [{name: one[name] for name in ("id", "ts", "fraud")} for one in events]
    for one in events:
        del one["fraud"]
    (folder / "payments.ndjson").write_bytes(ndjson(events))
    (folder / "labels.ndjson").write_bytes(ndjson(labels))
    late = ("--labels", "file:labels.ndjson", "--key", "id", "--max-skew", "inf")
    streamk(*JOB, *SMALL, *late, "--checkpoint", "state", cwd=folder)
    table = load(folder / "state").learner.tables[0]
    rows = [table.row(entity_number(str(user))) for user in range(9)]
    assert sum(row["count"] for row in rows) == 600
    assert table.spans == (3600.0, 86_400.0, 2_592_000.0)
    out, _ = streamk("forget", "state", "user=7", cwd=folder)
    assert "its events that wait for their labels are held until these come" in out


def test_options_that_make_no_sense(folder: Path) -> None:
    assert durations("1h,1d, 30d") == (3600.0, 86_400.0, 2_592_000.0)
    run = ("run", "file:payments.ndjson", "--label", "fraud")
    for options, said in (
        (("--spans", "1h", "--entity", "user"), "they need --time NAME"),
        (("--spans", "1h"), "--spans is for entities; it needs --entity NAME"),
        (("--max-entities", "3"), "it needs --entity NAME"),
        (("--time", "ts"), "time='ts' is for entities; it needs entities= too"),
        (("--entity", "user", "--time", "ts", "--spans", "1w"), "is not a time span"),
        (("--entity", "user", "--shards", "2"), "entities and shards cannot be combined"),
        (("--entity", "fraud"), "entities='fraud' is also the label"),
        (("--entity", "user", "--entity", "user"), "entities=('user', 'user') names one twice"),
    ):
        _, err = streamk(*run, *options, cwd=folder, status=2)
        assert said in err
    streamk(*JOB, *SMALL, "--checkpoint", "state", "--max-events", "50", cwd=folder)
    job = (*run, *SMALL, "--checkpoint", "state")
    for options, said in (
        ((), "--entity: "),
        (("--entity", "user"), "--time: "),
        (("--entity", "user", "--time", "ts", "--spans", "1h"), "--spans: "),
        (("--entity", "user", "--time", "ts", "--max-entities", "9"), "--max-entities: "),
    ):
        _, err = streamk(*job, *options, cwd=folder, status=1)
        assert said in err
    for command, said in (
        (("inspect", "state", "--entity", "user"), "write FIELD=ENTITY"),
        (("inspect", "state", "--entity", "usr=1"), "did you mean 'user'?; there are user"),
        (("forget", "state", "user=nobody"), "no user 'nobody' is known in state"),
        (("forget", "nowhere", "user=1"), "nowhere"),
        (("forget", "payments.ndjson", "user=1"), "payments.ndjson holds no checkpoint"),
    ):
        _, err = streamk(*command, cwd=folder, status=2)
        assert said in err
    streamk(*run, *SMALL, "--checkpoint", "plain", "--max-events", "50", cwd=folder)
    _, err = streamk("forget", "plain", "user=1", cwd=folder, status=2)
    assert "the model has no entities of 'user'; it has none" in err
    fast = ("compile", "state", "file:payments.ndjson", "--to", "fast.safetensors")
    _, err = streamk(*fast, cwd=folder, status=2)
    assert "cannot be compiled" in err


def test_challengers_know_the_entities_too(folder: Path) -> None:
    contest = ("--challenger", "other=doubly-stochastic", "--checkpoint", "state")
    streamk(*JOB, *SMALL, *contest, cwd=folder)
    out, _ = streamk("inspect", "state", "--entity", "user=7", cwd=folder)
    assert "user '7'" in out
    streamk("forget", "state", "user=7", cwd=folder)
    _, err = streamk("forget", "state", "user=7", cwd=folder, status=2)
    assert "no user '7' is known" in err
    streamk("promote", "state", "other", cwd=folder)
    assert load(folder / "state").learner.tables[0].row(entity_number("7")) is None
