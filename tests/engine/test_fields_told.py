"""A run tells of names of fields that never come, and of labels that are no classes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamk.cli import main
from streamk.engine.training.fields import LabelCheck

EVENTS: list[dict[str, Any]] = [
    {"size": i % 7, "colour": "red", "user": {"id": i}, "y": i % 2} for i in range(1500)
]
PLAIN = [{name: event[name] for name in ("size", "colour", "y")} for event in EVENTS]
MODEL = ("--model", "doubly-stochastic", "--set", "max_features=64")
LABEL = ("--label", "y")
Run = Callable[..., tuple[int, list[str], dict[str, Any]]]
Events = list[dict[str, Any]]
FORMS = pytest.mark.parametrize("form", ["json", "csv", "parquet"])


def written(folder: Path, events: Events, form: str = "json") -> str:
    path = folder / f"events.{form}"
    if form == "json":
        path.write_text("\n".join(map(json.dumps, events)))
        return f"file:{path}"
    flat = [
        {k: v for k, v in event.items() if k != "user"}
        | ({"user.id": event["user"]["id"]} if "user" in event else {})
        for event in events
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


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The exit status, the warnings but those of single events, and the report."""

    def ran(url: str, *options: str) -> tuple[int, list[str], dict[str, Any]]:
        status = main(["run", url, *MODEL, *options, "--json"])
        said = capsys.readouterr()
        lines = [json.loads(line) for line in said.err.splitlines() if line.startswith("{")]
        warnings = [line["message"] for line in lines if line["level"] == "warning"]
        told = [warning for warning in warnings if "cannot be used" not in warning]
        return status, told, json.loads(said.out) if said.out else {}

    return ran


# --- names that never come ------------------------------------------------------------------------


@FORMS
def test_an_ignored_name_that_never_comes(tmp_path: Path, run: Run, form: str) -> None:
    ignored = ("--ignore", "color", "--ignore", "user.id", "--ignore", "size")
    status, (first, last), report = run(written(tmp_path, EVENTS, form), *LABEL, *ignored)
    assert status == 0
    assert first.endswith(
        "events has the ignored field 'color'; nearest of those that came: 'colour'"
    )
    assert 1000 <= int(first.split()[2].replace(",", "")) < 1500
    assert last.startswith("none of 1,500 events has the ignored field 'color'")
    assert report["notes"] == [last]
    assert report["columns"] == 1  # colour=red


def test_names_that_come_are_not_told(tmp_path: Path, run: Run) -> None:
    url = written(tmp_path, EVENTS)
    assert run(url, *LABEL, "--ignore", "user", "--ignore", "colour")[1] == []


def test_a_name_that_comes_late_is_told_once(tmp_path: Path, run: Run) -> None:
    late = [event | ({"note": "x"} if i == 1400 else {}) for i, event in enumerate(PLAIN)]
    # Read in pieces, so that what is told after the first thousand does not hang on their size.
    saved = ("--checkpoint", str(tmp_path / "s"), "--checkpoint-every", "100")
    _, warnings, report = run(written(tmp_path, late), *LABEL, "--ignore", "note", *saved)
    assert [warning.partition(";")[0] for warning in warnings] == [
        "none of 1,000 events has the ignored field 'note'"
    ]
    assert report["notes"] == []


def test_a_label_that_never_comes(tmp_path: Path, run: Run) -> None:
    status, warnings, _ = run(written(tmp_path, EVENTS), "--label", "colr")
    assert status == 2
    assert len(warnings) == 1, "the end is an error"
    assert "has the label 'colr'; nearest of those that came: 'colour'" in warnings[0]
    # A header tells at once.
    assert run(written(tmp_path, EVENTS, "csv"), "--label", "colr")[0] == 2


@pytest.mark.parametrize("missing", [{}, {"y": None}])
def test_a_label_that_some_events_have_is_not_told(
    tmp_path: Path, run: Run, missing: dict[str, Any]
) -> None:
    for events in (EVENTS, PLAIN):
        some = [event if i % 3 else {"size": 1, **missing} for i, event in enumerate(events)]
        _, warnings, report = run(written(tmp_path, some), *LABEL)
        assert warnings == report["notes"] == []
        assert report["unlabelled"] == 500
    # Nor is one that is null in all of them.
    null = [{"size": i % 5, "y": None} for i in range(1500)]
    assert run(written(tmp_path, null), *LABEL)[1] == []


@FORMS
@pytest.mark.parametrize("slice_by", ["color", "colour", "user.id"])
def test_a_slice_that_never_comes(
    slice_by: str, form: str, tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    url, state = written(tmp_path, EVENTS, form), str(tmp_path / "state")
    told = ["none of 1,500 events has the slice 'color'; nearest of those that came: 'colour'"]
    expected = told if slice_by == "color" else []
    assert run(url, *LABEL, "--slice", slice_by, "--checkpoint", state)[2]["notes"] == expected
    to = ("--to", f"file:{tmp_path}/out", "--json", "--slice", slice_by)
    assert main(["predict", state, url, *to]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == expected
    # A model that only predicts needs no label.
    asked = written(tmp_path, [{"size": i % 7, "colour": "red"} for i in range(1500)])
    assert main(["predict", state, asked, *to[:2]]) == 0
    assert "none of" not in capsys.readouterr().err


def test_the_report_for_people_has_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", written(tmp_path, EVENTS[:20]), *LABEL, "--ignore", "color", *MODEL]) == 0
    assert "note    none of 20 events has the ignored field 'color'" in capsys.readouterr().out


def test_a_job_that_knows_its_label_reads_a_few_events_without_it(tmp_path: Path, run: Run) -> None:
    """They are requests; a thousand of them are told, for the label may be gone."""
    path, job = tmp_path / "events.ndjson", (*LABEL, "--checkpoint", str(tmp_path / "job"))
    path.write_text("".join(json.dumps(event) + "\n" for event in EVENTS[:100]))
    assert run(f"file:{path}", *job)[:2] == (0, [])
    for more, told in ((3, []), (1000, ["none of 1,000 events has the label 'y'"])):
        with path.open("a") as file:
            file.write('{"size": 1, "colour": "red"}\n' * more)
        status, warnings, _ = run(f"file:{path}", *job)
        assert status == 0
        assert [warning.partition(";")[0] for warning in warnings[:1]] == told


# --- labels that are no classes -------------------------------------------------------------------

NUMBERS, TEXTS = "--task regression", "should another field"
LABELS: dict[str, tuple[list[Any], str]] = {
    "some fractions": ([n / 4 for n in range(1500)], NUMBERS),
    "whole numbers": ([*range(1500)], NUMBERS),
    "counts": ([n % 150 for n in range(1500)], NUMBERS),
    "thousands": ([f"{n + 1},000" for n in range(1500)], NUMBERS),
    "names": ([f"C{n:04}" for n in range(1500)], TEXTS),
    "few": ([f"C{n:04}" for n in range(60)], TEXTS),
    "most are names": ([f"C{n // 10 * 6 + max(0, n % 10 - 4):04}" for n in range(1500)], TEXTS),
    "half are names": ([f"C{n % 500}" for n in range(1500)], ""),
    "few fractions": ([n % 3 if n % 4 else 0.5 for n in range(1500)], ""),
    "most are unknown": ([n % 2 if n % 40 == 0 else None for n in range(1500)], ""),
    "very few": ([*range(40)], ""),
    "they differ later": ([n % 9 if n < 1024 else n for n in range(1400)], ""),
}
"""Labels, and what is said to mend it where most differ; of others nothing is said."""


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_which_most_differ_are_told(name: str) -> None:
    labels, fix = LABELS[name]
    check = LabelCheck("y")
    parts = [labels[first : first + 8] for first in range(0, len(labels), 8)]
    whole = sum(check.add(part, 0) for part in parts)
    if not fix:
        assert check.sentences() == ()
        return
    assert whole == (len(labels) > 1000), "how often it is said that all have come"
    (sentence,) = check.sentences()
    assert sentence.startswith("the label 'y' has ")
    assert fix in sentence


def labelled(labels: list[Any]) -> Events:
    return [{"x": n % 5, "y": y} for n, y in enumerate(labels)]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_run_tells_when_it_is_seen_and_at_the_end(form: str, tmp_path: Path, run: Run) -> None:
    """Of most of these no class is made: those count, too."""
    few = ("--set", "max_classes=20")
    many = written(tmp_path, labelled([*range(1500)]), form)
    status, warnings, report = run(many, *LABEL, *few)
    assert status == 0
    assert warnings == report["notes"] * 2
    assert NUMBERS in report["notes"][0]
    _, warnings, report = run(written(tmp_path, labelled([*range(60)]), form), *LABEL)
    assert (warnings, len(report["notes"])) == (report["notes"], 1)
    fractions = labelled([n + 0.5 for n in range(1500)])
    status, warnings, _ = run(written(tmp_path, fractions, form), *LABEL)
    assert (status, len(warnings)) == (2, 1), "none can be learned"
    assert NUMBERS in warnings[0]


def test_numbers_are_not_told(tmp_path: Path, run: Run) -> None:
    labels = [*range(500), *(n + 0.5 for n in range(1000))]
    status, told, report = run(
        written(tmp_path, labelled(labels), "csv"), *LABEL, "--task", "regression"
    )
    assert (status, told, report["notes"]) == (0, [], [])


def test_labels_that_come_late_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_text("id,x\n" + "".join(f"{i},{i % 5}\n" for i in range(100)))
    Path("labels.csv").write_text("id,y\n" + "".join(f"{i},{i}\n" for i in range(100)))
    late = ("--key", "id", "--labels", "csv:labels.csv")
    main(["run", "csv:events.csv", *LABEL, *MODEL, *late])
    assert NUMBERS in capsys.readouterr().err


@pytest.mark.parametrize("columns", [30, 400])
def test_an_expert_that_rests_for_good_is_told_once(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row, state = {f"x{n}": 1.0 for n in range(columns)}, str(tmp_path / "state")
    url = written(tmp_path, [{**row, "x": n, "y": n % 2} for n in range(40)])
    command = ["run", url, *LABEL, "--checkpoint", state]
    main([*command, "--max-events", "30"])
    said = capsys.readouterr().err
    assert said.count("feature-machine is off: ") == (columns > 256)
    assert said.count("columns and classes exceed max_width=256") == (columns > 256)
    main(command)
    main(["predict", state, url])
    assert "is off" not in capsys.readouterr().err
