"""Labels that are no classes, and experts that rest for good, are told by the run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from streamk.cli import main
from streamk.engine.training.fields import LabelCheck

MODEL = ("--model", "doubly-stochastic", "--set", "max_features=64")
NUMBERS, TEXTS = "--task regression", "is another field"
NO_CLASSES: dict[str, tuple[list[Any], str]] = {
    "some fractions": ([n / 4 for n in range(1500)], NUMBERS),
    "whole numbers": ([*range(1500)], NUMBERS),
    "thousands": ([f"{n + 1},000" for n in range(1500)], NUMBERS),
    "names": ([f"C{n:04}" for n in range(1500)], TEXTS),
    "few": ([f"C{n:04}" for n in range(60)], TEXTS),
    "most are names": ([f"C{n // 10 * 6 + max(0, n % 10 - 4):04}" for n in range(1500)], TEXTS),
}
CLASSES: dict[str, list[Any]] = {
    "half are names": [f"C{n % 500}" for n in range(1500)],
    "some fractions": [n % 3 if n % 4 else 0.5 for n in range(1500)],
    "most are unknown": [n % 2 if n % 40 == 0 else None for n in range(1500)],
    "very few": [*range(40)],
    "they differ later": [n % 9 if n < 1024 else n for n in range(1400)],
}


def told(labels: list[Any], size: int = 8) -> tuple[int, tuple[str, ...]]:
    """How often it is said that all have come, and the sentences in the end."""
    check = LabelCheck("y")
    parts = [labels[first : first + size] for first in range(0, len(labels), size)]
    whole = sum(check.take(part, 0) for part in parts)
    return whole, check.sentences()


@pytest.mark.parametrize("name", NO_CLASSES)
def test_labels_of_which_most_differ_are_told(name: str) -> None:
    labels, fix = NO_CLASSES[name]
    whole, (sentence,) = told(labels)
    assert whole == (len(labels) > 1000)
    assert sentence.startswith("the label 'y' has ")
    assert fix in sentence


@pytest.mark.parametrize("name", CLASSES)
def test_labels_that_come_again_are_not_told(name: str) -> None:
    assert told(CLASSES[name])[1] == ()


def run(
    labels: list[Any], form: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, list[str], list[str]]:
    """Return the status, the warnings but those of bad events, and the notes of the report."""
    events = [{"x": n % 5, "y": y} for n, y in enumerate(labels)]
    path = folder / f"events.{form}"
    if form == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, ("x", "y"))
            writer.writeheader()
            writer.writerows(events)
    else:
        path.write_text("\n".join(map(json.dumps, events)))
    scheme = "csv" if form == "csv" else "file"
    status = main(["run", f"{scheme}:{path}", "--label", "y", *MODEL, "--json", *more])
    said = capsys.readouterr()
    lines = [json.loads(line) for line in said.err.splitlines() if line.startswith("{")]
    warnings = [line["message"] for line in lines if line["level"] == "warning"]
    found = [warning for warning in warnings if "cannot be used" not in warning]
    return status, found, json.loads(said.out)["notes"] if said.out else []


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_run_tells_when_it_is_seen_and_at_the_end(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of most of these no class is made: those count, too."""
    few = ("--set", "max_classes=20")
    status, warnings, notes = run([*range(1500)], form, tmp_path, capsys, *few)
    assert status == 0
    assert warnings == notes * 2
    assert NUMBERS in notes[0]
    status, warnings, notes = run([*range(60)], form, tmp_path, capsys)
    assert (warnings, len(notes)) == (notes, 1)
    status, warnings, _ = run([n + 0.5 for n in range(1500)], form, tmp_path, capsys)
    assert (status, len(warnings)) == (2, 1), "none can be learned"
    assert NUMBERS in warnings[0]


def test_numbers_are_not_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = [*range(500), *(n + 0.5 for n in range(1000))]
    assert run(labels, "csv", tmp_path, capsys, "--task", "regression") == (0, [], [])


def test_labels_that_come_late_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.csv").write_text("id,x\n" + "".join(f"{i},{i % 5}\n" for i in range(100)))
    Path("labels.csv").write_text("id,y\n" + "".join(f"{i},{i}\n" for i in range(100)))
    late = ("--key", "id", "--labels", "csv:labels.csv")
    main(["run", "csv:events.csv", "--label", "y", *MODEL, *late])
    assert NUMBERS in capsys.readouterr().err


@pytest.mark.parametrize("columns", [30, 400])
def test_an_expert_that_rests_for_good_is_told_once(
    columns: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "events.ndjson"
    row = {f"x{n}": 1.0 for n in range(columns)}
    events = [{**row, "x": n, "y": n % 2} for n in range(40)]
    path.write_text("\n".join(map(json.dumps, events)))
    command = ["run", f"file:{path}", "--label", "y", "--checkpoint", str(tmp_path / "state")]
    main([*command, "--max-events", "30"])
    said = capsys.readouterr().err
    assert said.count("the expert feature-machine rests for good: ") == (columns > 256)
    assert said.count("columns and classes, max_width=256") == (columns > 256)
    main(command)
    main(["predict", str(tmp_path / "state"), f"file:{path}"])
    assert "rests for good" not in capsys.readouterr().err
