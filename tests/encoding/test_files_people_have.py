"""Files as people have them, through the command: no value of theirs costs an event."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import files_kit
import pytest
from files_kit import write

from streamk.cli import main
from streamk.encoding.values import Moment

ONE_KERNEL = ("--model", "doubly-stochastic", "--set", "max_features=256")
NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
FORMS = pytest.mark.parametrize("form", ["csv", "parquet"])


def written(folder: Path, form: str, events: list[dict[str, Any]]) -> str:
    """Return the address of a file of these events. Times are texts but in Parquet."""
    path = write(folder / f"events.{'ndjson' if form == 'json' else form}", events)
    return f"{'file' if form == 'json' else form}:{path}"


class Job:
    """Runs of the command on one source, with one checkpoint."""

    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder.mkdir(exist_ok=True)
        self._url, self._folder, self._capsys = url, folder, capsys

    def run(self, *options: str, status: int = 0) -> tuple[dict[str, Any], list[str]]:
        """Return the report, which is empty after an error, and the warnings."""
        to = ("--to", f"file:{self._folder}/out", "--checkpoint", f"{self._folder}/state")
        self._capsys.readouterr()
        found = main(["run", self._url, "--label", "y", *ONE_KERNEL, *to, *options, "--json"])
        said = self._capsys.readouterr()
        assert found == status, said.err
        lines = [json.loads(line) for line in said.err.splitlines() if line.startswith("{")]
        warnings = [line["message"] for line in lines if line["level"] == "warning"]
        return json.loads(said.out or "{}"), warnings

    def columns(self) -> set[str]:
        """Return the columns of the checkpoint."""
        self._capsys.readouterr()
        assert main(["inspect", f"{self._folder}/state", "--schema"]) == 0
        return set(json.loads(self._capsys.readouterr().out)["columns"])

    def answers(self) -> list[Any]:
        """Return what was predicted."""
        lines = (self._folder / "out").read_text().splitlines()
        return [json.loads(line)["prediction"] for line in lines]


def parts(field: str) -> set[str]:
    """Return the columns of a field of times."""
    return {f"{field}@{part}" for part in Moment._fields}


# --- times --------------------------------------------------------------------------------------


@FORMS
def test_what_hangs_on_the_time_of_day_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    times = [NEW_YEAR + timedelta(hours=7 * i) for i in range(1200)]
    events = [
        {"when": None if i % 50 == 9 else time, "y": "day" if 6 <= time.hour < 18 else "night"}
        for i, time in enumerate(times)
    ]
    job = Job(written(tmp_path, form, events), tmp_path / "job", capsys)
    report, warnings = job.run()
    assert (report["learned"], report["bad"], warnings) == (1200, {}, [])
    assert job.columns() == parts("when")
    assert report["window"]["accuracy"] > 0.85
    other = Job(written(tmp_path, "json", events), tmp_path / "other", capsys)
    other.run()
    assert other.answers() == job.answers()


def test_a_time_that_no_calendar_has_is_a_bad_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrow, parquet = files_kit.arrow()
    seconds = [10**12 if i in (0, 70) else 1_700_000_000 + i for i in range(100)]
    table = {"t": arrow.array(seconds, arrow.timestamp("s")), "y": [i % 2 for i in range(100)]}
    parquet.write_table(arrow.table(table), tmp_path / "events.parquet")
    job = Job(f"parquet:{tmp_path}/events.parquet", tmp_path / "job", capsys)
    report, warnings = job.run()
    assert (report["learned"], report["bad"]) == (98, {"wrong type": 2})
    assert "offset 0 cannot be used: wrong type: column 't'" in warnings[0]


# --- lists, objects, numbers and texts ----------------------------------------------------------


def test_a_field_may_become_anything_midway(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds: list[Any] = [
        *(3, "3", "three", None, True, ["x", 4], [0.5, 1], {"x": 1, "y": "z"}, {}, []),
        *("2024-02-29", "9999-12-31T23:59:59-05:00", "NA", 2.5),
    ]
    events = [{"f": kinds[i // 40], "g": i % 3, "y": i % 3 > 0} for i in range(40 * len(kinds))]
    job = Job(written(tmp_path, "json", events), tmp_path / "job", capsys)
    report, warnings = job.run()
    assert (report["learned"], report["bad"], warnings) == (len(events), {}, [])


# --- the first events ---------------------------------------------------------------------------

FIRST: list[Any] = [
    [1, 2],
    "?",
    {f"c{i}": 1 for i in range(17_000)} | {"y": 1},
    {"a=b": 2.0, "a": "b", "y": 1},
    {"a=b": "c", "y": 0},
    {"x": 1, "y": int("7" * 400)},
    {"x": 10**400, "y": 1},
    {"x": 1, "y": [1]},
    {"": 3, "y": 0},
]


def test_no_first_events_end_a_job_nor_its_restarts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [*FIRST * 30, *({"x": i % 7, "y": i % 2} for i in range(200))]
    path = tmp_path / "events.ndjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    whole = Job(f"file:{path}", tmp_path / "whole", capsys)
    report, warnings = whole.run()
    kinds = {
        "not an object": 60,
        "too many columns": 30,
        "duplicate column": 30,
        "label out of domain": 30,
    }
    assert report["bad"] == kinds
    assert report["learned"] == len(events) - sum(kinds.values())
    told = [warning for warning in warnings if "cannot be used" in warning]
    assert len(told) == len(kinds), "the first of each kind"
    pieces = Job(f"file:{path}", tmp_path / "pieces", capsys)
    for most in (5, 6, 7, 8, 100, 200):
        pieces.run("--max-events", str(most))
    report, _ = pieces.run()
    assert report["bad"] == kinds
    assert (tmp_path / "pieces" / "out").read_bytes() == (tmp_path / "whole" / "out").read_bytes()
