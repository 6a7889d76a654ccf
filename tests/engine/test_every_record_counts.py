"""Every record is learned, has no label, is a deletion, counts under a kind, or is told of."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import attached, events, learner
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.files.records import TextForm
from connectors.memory import MemorySink, MemorySource
from connectors.records import framed
from connectors.registry import open_source
from connectors.stdio import StdinSource
from streamk.cli.report import as_json, as_text
from streamk.engine import Report
from streamk.engine.training.trainer import Trainer
from streamk.errors import EngineError
from streamk.late import LateLabels
from streamk.late.join import Join

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


# --- records that are not counted -----------------------------------------------------------------

WORDS = "were counted, which is a bug in streamk"


def test_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = Trainer._decode

    def losing(self: Trainer, batch: Any) -> Any:
        decoded, tombstones = decode(self, batch)
        return replace(decoded, bad=[]), tombstones

    some = [*events(20), {"y": [1]}, {"y": [2]}]
    assert attached(MemorySource(some), learner(), label="y").run().counts.n_bad == 2
    monkeypatch.setattr(Trainer, "_decode", losing)
    with pytest.raises(EngineError, match=rf"20 of 22 records from .* offset 21 {WORDS}"):
        attached(MemorySource(some), learner(), label="y").run()


@pytest.mark.parametrize("side", ["event", "label"])
def test_of_late_labels(monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    some = [{"id": str(n), **event} for n, event in enumerate(events(20))]
    labels = [{"id": event["id"], "y": event.pop("y")} for event in some]

    def run() -> Any:
        late = LateLabels(MemorySource(labels), key="id")
        return attached(MemorySource(some), learner(), label="y", labels=late).run()

    assert run().counts.learned == 20
    real = getattr(Join, side)

    def losing(self: Join, key: str, *arguments: Any) -> Any:
        return [] if key == "7" else real(self, key, *arguments)

    monkeypatch.setattr(Join, side, losing)
    with pytest.raises(EngineError, match=f"39 of 40 records of events and labels {WORDS}"):
        run()


# --- deletions ------------------------------------------------------------------------------------

N = 60


def numbers(n: int) -> list[bytes]:
    return [np.array([i % 5, i % 2], "<f4").tobytes() for i in range(n)]


def as_lines(n: int) -> list[bytes]:
    return [b"%d,%d" % (i % 5, i % 2) for i in range(n)]


def as_objects(n: int) -> list[bytes]:
    return [json.dumps({"x": i % 5, "y": i % 2}).encode() for i in range(n)]


def in_frames(n: int) -> list[bytes]:
    return [framed(1, value) for value in as_objects(n)]


MAKERS = {"json": as_objects, "csv": as_lines, "float32": numbers, "json-schema": in_frames}


def source(encoding: str, values: list[Any]) -> MemorySource:
    columns = ("x", "y") if encoding in ("csv", "float32") else None
    return MemorySource(values, encoding=encoding, columns=columns)


def tombstones_run(of: Any, **options: Any) -> Report:
    return attached(of, learner(), **{"label": "y", **options}).run()


def with_tombstones(values: list[Any], every: int = 6) -> list[Any]:
    found: list[Any] = []
    for i, value in enumerate(values):
        found += [value, None] if i % every == 5 else [value]
    return found


@pytest.mark.parametrize("on_error", ["raise", "skip", "dead-letter"])
@pytest.mark.parametrize("encoding", MAKERS)
def test_they_change_nothing_of_what_is_learned(encoding: str, on_error: str) -> None:
    values = MAKERS[encoding](N)
    sinks = MemorySink(), MemorySink()
    dead = MemorySink()
    options: dict[str, Any] = {"on_error": on_error}
    if on_error == "dead-letter":
        options["dead_letters"] = dead
    found = tombstones_run(source(encoding, with_tombstones(values)), sink=sinks[0], **options)
    expected = tombstones_run(source(encoding, values), sink=sinks[1])
    assert (found.counts.learned, found.counts.bad) == (N, {})
    assert (found.counts.tombstones, expected.counts.tombstones) == (N // 6, 0)
    assert not dead.outputs
    assert found.whole == expected.whole
    first, second = ([one.value for one in sink.outputs] for sink in sinks)
    assert first == second


def test_those_at_the_beginning_are_none_either() -> None:
    values = [b"{}", *[None] * 3, *as_objects(N)]
    report = tombstones_run(source("json", values))
    assert report.counts.tombstones == 3


@pytest.mark.parametrize(("share", "ends"), [(0.09, True), (0.11, False)])
def test_the_share_of_bad_events_is_of_events(share: float, ends: bool) -> None:
    values: list[Any] = as_objects(1800)
    for at in range(0, len(values), 10):
        values.insert(at, b"{")
    values = with_tombstones(values, 6)
    if ends:
        with pytest.raises(EngineError, match="cannot be used"):
            tombstones_run(source("json", values), max_bad_share=share)
    else:
        tombstones_run(source("json", values), max_bad_share=share)


def test_an_event_that_ends_the_run_is_told_by_its_own_place() -> None:
    values = [*with_tombstones(as_objects(12)), b"{", None, b"{"]
    with pytest.raises(EngineError, match=r"offset 14 cannot be used"):
        tombstones_run(source("json", values), on_error="raise")


def test_reports_and_progress_count_them() -> None:
    snapshots: list[Any] = []
    report = tombstones_run(
        source("json", with_tombstones(as_objects(N))), on_progress=snapshots.append
    )
    assert as_json(report)["tombstones"] == N // 6
    assert f"{N // 6} tombstones" in as_text(report)
    assert snapshots[-1].tombstones == N // 6
    assert "tombstones" not in as_text(tombstones_run(source("json", as_objects(N))))


def test_metrics_count_them() -> None:
    pytest.importorskip("prometheus_client", reason="pip install 'streamk[serve]'")
    from streamk.serving.monitoring import JobMonitoring

    snapshots: list[Any] = []
    tombstones_run(source("json", with_tombstones(as_objects(N))), on_progress=snapshots.append)
    point = {**vars(snapshots[-1]), "experts": {}}
    text = JobMonitoring(lambda: point).text().decode()
    assert f"streamk_job_tombstones {N / 6:.1f}" in text


def test_a_checkpoint_counts_them(tmp_path: Any) -> None:
    values = with_tombstones(as_objects(N))
    for _ in range(2):
        report = tombstones_run(source("json", values), checkpoint=tmp_path, max_events=len(values))
        assert report.counts.tombstones == N // 6


@pytest.mark.parametrize("labels_too", [False, True])
def test_with_late_labels(labels_too: bool) -> None:
    clicks = events(N)
    plain: list[Any] = [json.dumps({k: c[k] for k in ("a", "id")}).encode() for c in clicks]
    labels: list[Any] = [json.dumps({k: c[k] for k in ("y", "id")}).encode() for c in clicks]
    if labels_too:
        labels = with_tombstones(labels)
    late = LateLabels(source("json", labels), key="id")
    report = tombstones_run(source("json", with_tombstones(plain)), labels=late, max_bad_share=0.0)
    assert report.fates.joined == N
    assert report.counts.tombstones == N // 6 * (1 + labels_too)
    assert not report.counts.bad
