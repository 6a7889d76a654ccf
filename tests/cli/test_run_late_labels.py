"""`streamk run --labels`: its report, and what inspect finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from late_kit import small_segments

from streamk.cli.arguments import duration
from streamk.cli.inspect import main as inspect
from streamk.cli.run import main
from streamk.errors import StateError


def test_time_spans() -> None:
    assert [duration(text) for text in ("7d", "12h", "30m", "45s", "250ms", "90", "1.5h")] == [
        *(604_800, 43_200, 1800, 45, 0.25, 90, 5400)
    ]


def test_a_job_of_two_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON and CSV, a label by default, a dead letter, and the same from a checkpoint."""
    monkeypatch.chdir(tmp_path)
    events = [{"id": n, "at": 1000 * n, "a": n % 7, "b": n % 3} for n in range(60)]
    lines = [json.dumps(event) for event in events] + ['{"a": 1, "at": 60000}']
    (tmp_path / "events.ndjson").write_text("\n".join(lines) + "\n")
    labels = [f"{n},{1000 * n + 2500},true" for n in range(60) if n % 7 > 3]
    (tmp_path / "labels.csv").write_text("id,at,clicked\n" + "\n".join(labels) + "\n")
    job = ["file:events.ndjson", "--labels", "csv:labels.csv", "--key", "id", "--label", "clicked"]
    job += ["--time", "at", "--ignore", "at", "--label-timeout", "5s", "--label-default", "false"]
    job += ["--to", "file:said.ndjson", "--dead-letters", "file:dead.ndjson"]
    job += ["--checkpoint", "state", "--max-skew", "inf", "--quiet"]
    job += ["--model", "doubly-stochastic", "--json"]
    assert main(job) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fates"]["joined"] == len(labels)
    assert found["fates"]["defaulted"] + found["fates"]["held"] == 60 - len(labels)
    assert found["fates"]["defaulted"] > 20
    assert found["bad"] == {"key missing": 1}
    assert set(found["classes"]) == {False, True}
    said = (tmp_path / "said.ndjson").read_text()
    assert len(said.splitlines()) == 60
    (dead,) = map(json.loads, (tmp_path / "dead.ndjson").read_text().splitlines())
    assert (dead["partition"], dead["offset"]) == ("events.ndjson", 60)
    assert main(job) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["events_now"] == 0
    assert again["fates"] == found["fates"]
    assert (tmp_path / "said.ndjson").read_text() == said
    assert main([one for one in job if one not in ("--quiet", "--json")]) == 0
    text = capsys.readouterr().out
    assert f"{len(labels)} labels met their event" in text
    assert "with the default label" in text


def test_revised_labels_and_a_damaged_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A click after the window is learned where that is asked for; inspect reads every file."""
    monkeypatch.chdir(tmp_path)
    events = [{"id": n, "at": 1000 * n, "a": n % 7} for n in range(60)]
    (tmp_path / "events.ndjson").write_text("".join(json.dumps(one) + "\n" for one in events))
    labels = [{"id": n, "at": 1000 * n + 6500, "y": n % 7 > 3} for n in range(40)]
    (tmp_path / "labels.ndjson").write_text("".join(json.dumps(one) + "\n" for one in labels))
    job = ["file:events.ndjson", "--labels", "file:labels.ndjson", "--key", "id", "--label", "y"]
    job += ["--time", "at", "--ignore", "at", "--label-timeout", "5s", "--label-default", "false"]
    job += ["--model", "doubly-stochastic", "--quiet", "--json", "--max-skew", "inf"]
    found = {}
    with small_segments(2):
        for policy in ("ignore", "learn"):
            options = ["--label-revisions", policy, "--checkpoint", policy]
            assert main([*job, *options]) == 0
            found[policy] = json.loads(capsys.readouterr().out)
    late = sum(label["y"] is True for label in labels)
    fates = {policy: one["fates"] for policy, one in found.items()}
    assert (fates["ignore"]["too_late"], fates["ignore"]["revised"]) == (40, 0)
    assert (fates["learn"]["revised"], fates["learn"]["duplicates"]) == (late, 40 - late)
    assert found["learn"]["learned"] == found["ignore"]["learned"] + late
    assert found["learn"]["unlabelled"] == found["ignore"]["unlabelled"]
    with pytest.raises(StateError, match="made with labels="):
        main([*job, "--label-revisions", "ignore", "--checkpoint", "learn"])
    assert inspect(["learn"]) == 0
    for path in (tmp_path / "learn" / "member-0" / "held").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    assert inspect(["learn"]) == 1
    assert "is damaged, its SHA-256 does not match its name" in capsys.readouterr().err
