"""The benchmark of EigenPro on generated data: its parts run, its tables say what they found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eigenpro import __main__ as eigenpro
from benchmarks.eigenpro import streams, table2
from benchmarks.intervals import cell, mean


def quick(part: str, path: Path) -> dict[str, Any]:
    out = path / "found.json"
    eigenpro.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    assert eigenpro.render(document)
    found: dict[str, Any] = document["results"][part]
    return found


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)


def test_a_mean_has_the_interval_of_students_t() -> None:
    figure = mean([1.0, 2.0, 3.0])
    assert figure["mean"] == 2.0
    assert figure["half"] == pytest.approx(4.302653 / 3**0.5)
    assert cell(figure, 2) == "2.00 ± 2.48"
    assert cell(mean([0.5])) == "0.5000"


def test_the_table_has_both_solvers_beside_the_paper(tmp_path: Path) -> None:
    rows = quick("table2", tmp_path)["rows"]
    assert len(rows) == 2 * 3 * 2
    assert {row["solver"] for row in rows} == set(table2.SOLVERS)
    assert all(0.0 <= row["accuracy"]["mean"] <= 1.0 for row in rows)
    assert all(row["megabytes"]["mean"] > 0.0 for row in rows)


def test_streams_have_every_learner_and_a_line_on_equal_time(tmp_path: Path) -> None:
    found = quick("streams", tmp_path)
    assert set(found) == set(streams.SETS)
    for one in found.values():
        assert set(one["learners"]) == set(streams.LEARNERS)
    assert streams.render(found).count("within the time of") == 4 * len(streams.RIVALS)


def test_memory_is_told_at_each_stop(tmp_path: Path) -> None:
    (row,) = quick("memory", tmp_path)["rows"]
    assert [stop["events"] for stop in row["stops"]][-1] == 280
    assert all(stop["model"] > 0 for stop in row["stops"])


@pytest.mark.nightly
def test_experts_by_the_command(tmp_path: Path) -> None:
    found = quick("experts", tmp_path)
    experts = {"none", "default", "kernel-ridge", "kernel-ridge, all events", "eigenpro"}
    for one in found.values():
        assert set(one["experts"]) == experts
        assert all(of["whole"] <= 1.0 for of in one["experts"].values())


@pytest.mark.nightly
def test_admission_is_paired(tmp_path: Path) -> None:
    for row in quick("admission", tmp_path)["rows"]:
        low, high = row["interval"]
        assert low <= row["difference"] <= high
        assert row["difference"] == pytest.approx(row["with"]["mean"] - row["without"]["mean"])


def test_errors_as_augmented_events_pass_by(tmp_path: Path) -> None:
    (row,) = quick("augmented", tmp_path)["rows"]
    assert [stop["events"] for stop in row["stops"]] == [20, 40, 60]
    assert row["peak"] > 0
