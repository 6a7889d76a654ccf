"""Names of fields that never come are told, with those that did."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from streamk.cli import main

EVENTS: list[dict[str, Any]] = [
    {"size": i % 7, "colour": "red", "user": {"id": i}, "y": i % 2} for i in range(1500)
]


def written(folder: Path, form: str, events: list[dict[str, Any]]) -> str:
    path = folder / f"events.{form}"
    if form == "json":
        path.write_text("\n".join(map(json.dumps, events)))
        return f"file:{path}"
    flat = [
        {k: v for k, v in event.items() if k != "user"} | {"user.id": i}
        for i, event in enumerate(events)
    ]
    if form == "parquet":
        arrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
        parquet.write_table(arrow.Table.from_pylist(flat), path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, flat[0].keys())
            writer.writeheader()
            writer.writerows(flat)
    return f"{form}:{path}"


def run(
    capsys: pytest.CaptureFixture[str], url: str, *options: str
) -> tuple[int, list[str], dict[str, Any]]:
    """The exit status, the warnings, and the report."""
    model = ["--model", "doubly-stochastic", "--set", "max_features=256"]
    status = main(["run", url, *model, *options, "--json"])
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.err.splitlines() if line.startswith("{")]
    warnings = [line["message"] for line in lines if line["level"] == "warning"]
    return status, warnings, json.loads(said.out) if said.out else {}


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_an_ignored_name_that_never_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    url = written(tmp_path, form, EVENTS)
    ignored = ["--ignore", "color", "--ignore", "user.id", "--ignore", "size"]
    status, warnings, report = run(capsys, url, "--label", "y", *ignored)
    assert status == 0
    first, last = warnings
    assert first.endswith(
        "events has the ignored field 'color'; nearest of those that came: 'colour'"
    )
    assert 1000 <= int(first.split()[2].replace(",", "")) < 1500
    assert last.startswith("none of 1,500 events has the ignored field 'color'")
    assert report["notes"] == [last]
    assert report["columns"] == 1  # colour=red


def test_names_that_come_are_not_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = written(tmp_path, "json", EVENTS)
    ignored = ["--ignore", "user", "--ignore", "colour"]
    assert run(capsys, url, "--label", "y", *ignored)[1:][0] == []


def test_a_name_that_comes_late_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = [event | ({"note": "x"} if i == 1400 else {}) for i, event in enumerate(EVENTS)]
    url = written(tmp_path, "json", [{k: v for k, v in e.items() if k != "user"} for e in late])
    # Read in pieces, so that what is told after the first thousand does not hang on their size.
    _, warnings, report = run(
        capsys,
        url,
        "--label",
        "y",
        "--ignore",
        "note",
        "--checkpoint",
        str(tmp_path / "s"),
        "--checkpoint-every",
        "100",
    )
    assert [warning.partition(";")[0] for warning in warnings] == [
        "none of 1,000 events has the ignored field 'note'"
    ]
    assert report["notes"] == []


def test_a_label_that_never_comes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = written(tmp_path, "json", EVENTS)
    status, warnings, _ = run(capsys, url, "--label", "colr")
    told = "has the label 'colr'; nearest of those that came: 'colour'"
    assert status == 2
    assert len(warnings) == 1, "the end is an error"
    assert all(told in warning for warning in warnings)
    # A header tells at once.
    status, _, _ = run(capsys, written(tmp_path, "csv", EVENTS), "--label", "colr")
    assert status == 2


@pytest.mark.parametrize("missing", [{}, {"y": None}])
def test_a_label_that_some_events_have_is_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: dict[str, Any]
) -> None:
    some = [event if i % 3 else {"size": 1, **missing} for i, event in enumerate(EVENTS)]
    flat = [{name: value for name, value in event.items() if name != "user"} for event in some]
    for events in (some, flat):
        _, warnings, report = run(capsys, written(tmp_path, "json", events), "--label", "y")
        assert warnings == report["notes"] == []
        assert report["unlabelled"] == 500
    # Nor is one that is null in all of them.
    null = [{"size": i % 5, "y": None} for i in range(1500)]
    _, warnings, _ = run(capsys, written(tmp_path, "json", null), "--label", "y")
    assert warnings == []


def test_a_model_that_only_predicts_needs_no_label(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = written(tmp_path, "json", EVENTS)
    state = str(tmp_path / "state")
    run(capsys, url, "--label", "y", "--ignore", "user", "--checkpoint", state)
    new = written(tmp_path, "json", [{"size": i % 7} for i in range(1500)])
    assert main(["predict", state, new, "--to", f"file:{tmp_path}/out"]) == 0
    assert "none of" not in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
@pytest.mark.parametrize("slice_by", ["color", "colour", "user.id"])
def test_a_slice_that_never_comes(
    slice_by: str, form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, state = written(tmp_path, form, EVENTS), str(tmp_path / "state")
    told = ["none of 1,500 events has the slice 'color'; nearest of those that came: 'colour'"]
    expected = told if slice_by == "color" else []
    by = ("--label", "y", "--slice", slice_by)
    assert run(capsys, url, *by, "--checkpoint", state)[2]["notes"] == expected
    to = ("--to", f"file:{tmp_path}/out", "--json", "--slice", slice_by)
    assert main(["predict", state, url, *to]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == expected


def test_the_report_for_people_has_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = written(tmp_path, "json", EVENTS[:20])
    arguments = ["run", url, "--label", "y", "--ignore", "color", "--model", "doubly-stochastic"]
    assert main(arguments) == 0
    assert "note    none of 20 events has the ignored field 'color'" in " ".join(
        capsys.readouterr().out.split(" ")
    )


def test_a_job_that_knows_its_label_reads_a_few_events_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are requests; a thousand of them are told, for the label may be gone."""
    path, job = tmp_path / "events.ndjson", ("--label", "y", "--checkpoint", str(tmp_path / "job"))
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS[:100]))
    assert run(capsys, f"file:{path}", *job)[:2] == (0, [])
    for more, told in ((3, []), (1000, ["none of 1,000 events has the label 'y'"])):
        with path.open("a") as file:
            file.write('{"size": 1, "colour": "red"}\n' * more)
        status, warnings, _ = run(capsys, f"file:{path}", *job)
        assert status == 0
        assert [warning.partition(";")[0] for warning in warnings[:1]] == told
