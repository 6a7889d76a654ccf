"""Every record of a file is learned, has no label, counts under a kind, or is told of."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, learner
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.files.records import TextForm
from connectors.registry import open_source
from connectors.stdio import StdinSource
from streamk.engine import Report

EVENTS = [{name: event[name] for name in ("a", "c", "y")} for event in events(12)]
GOOD_LINES = [json.dumps(event) for event in EVENTS] + ['{"a": 1, "c": "x"}']
BAD_LINES = ["{", "[1, 2]", "7", '{"a": 1}{"a": 2}', '{"a": Infinity, "y": "up"}', '{"y": 1.5}']
GOOD_ROWS = [[str(value) for value in event.values()] for event in EVENTS] + [["1", "x", ""]]
BAD_ROWS = [["1"], ["1", "x", "up", "z"], ["inf", "x", "up"], ["a", "c", "y"]]
LONG_ROWS = [["1", "x\n" * 70_000, "up"], ["1", "x" * 140_000, "up"], ["1", 'a "b"\n,', "up"]]
SIZES = {"max_examples": 25, "deadline": None}


def some(good: list[Any], others: list[Any]) -> st.SearchStrategy[list[Any]]:
    """Return records, the first of which can be learned: without one a run ends with an error."""
    kinds = st.sampled_from(good) | st.sampled_from(others)
    return st.lists(kinds, max_size=12).map(lambda rest: [good[0], *rest])


def run(source: Any) -> Report:
    report = attached(source, learner(), label="y").run()
    counts = report.counts
    assert report.events == counts.learned + counts.unlabelled + sum(counts.bad.values())
    assert report.events == sum(b - a for ranges in report.learned.values() for a, b in ranges)
    return report


def check(path: Path, scheme: str, records: int) -> None:
    """Check a file of so many records, and the same from a pipe, which has ended."""
    report = run(open_source(f"{scheme}:{path}"))
    assert report.events + len(report.unfinished) == records
    if not path.name.endswith(".gz"):
        with path.open("rb") as stream:
            piped = run(StdinSource(stream, TextForm("csv" if scheme == "csv" else "json")))
        assert (piped.events, piped.unfinished) == (records, ())


@pytest.mark.parametrize("name", ["events", "events.gz"])
@settings(**SIZES)
@given(
    parts=some(GOOD_LINES, [*BAD_LINES, "", "  ", "\r"]),
    end=st.sampled_from(["\n", "", '\n{"a', "\n \n"]),
)
def test_of_json_lines(
    tmp_path_factory: pytest.TempPathFactory, name: str, parts: list[str], end: str
) -> None:
    path = tmp_path_factory.mktemp("lines") / name
    data = ("\n".join(parts) + end).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    lines = [line for line in (*parts, end) if line.strip()]
    check(path, "file", len(lines))


@settings(**SIZES)
@given(
    parts=some(GOOD_LINES, ["{}", "7", "[1, 2]", '{"a": }', '{"a": 1} {"a": 2}']),
    end=st.sampled_from(["]", "]\n", "", ',{"a": "]', ","]),
)
def test_of_a_json_array(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], end: str
) -> None:
    path = tmp_path_factory.mktemp("array") / "events"
    path.write_text("[" + ",\n".join(parts) + end)
    report = run(open_source(f"file:{path}"))
    cut_off = "]" not in (end, end.strip())
    whole = len(parts) - (end == "" and not begins_with_a_value(parts[-1]))
    assert report.events == whole
    assert bool(report.unfinished) == cut_off


def begins_with_a_value(text: str) -> bool:
    try:
        json.JSONDecoder().raw_decode(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", ["events.csv", "events.csv.gz"])
@settings(**SIZES)
@given(
    rows=some(GOOD_ROWS, [*BAD_ROWS, *LONG_ROWS]),
    end=st.sampled_from(["", "1,x", '1,"x', "1,x,up", "1,x,up,z"]),
    newline=st.booleans(),
)
def test_of_csv(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    rows: list[list[str]],
    end: str,
    newline: bool,
) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["a", "c", "y"], *rows])
    path = tmp_path_factory.mktemp("csv") / name
    whole = text.getvalue() + end if newline or end else text.getvalue()[:-1]
    path.write_bytes(gzip.compress(whole.encode()) if name.endswith(".gz") else whole.encode())
    check(path, "csv", len(rows) + bool(end))


def test_of_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    rows = [*EVENTS, {"a": float("inf"), "c": "x", "y": "up"}, {"a": 1.0, "c": None, "y": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "events.parquet")
    report = run(open_source(f"parquet:{tmp_path}/events.parquet"))
    assert (report.events, report.counts.bad) == (len(rows), {"inf": 1})


@pytest.mark.parametrize("scheme", ["file", "csv"])
def test_of_many_files(tmp_path: Path, scheme: str) -> None:
    good = [",".join(row) for row in GOOD_ROWS] if scheme == "csv" else GOOD_LINES
    bad = [",".join(row) for row in BAD_ROWS] if scheme == "csv" else BAD_LINES
    header = ["a,c,y"] if scheme == "csv" else []
    for i in range(3):  # without a last newline
        (tmp_path / f"{i}.txt").write_text("\n".join([*header, *good, *bad, good[0]]))
    report = run(open_source(f"{scheme}:{tmp_path}/*.txt"))
    assert report.events == 3 * (len(good) + len(bad) + 1)
    assert sum(report.counts.bad.values()) == 3 * len(bad)
    assert not report.unfinished
