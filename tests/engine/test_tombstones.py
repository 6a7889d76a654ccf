"""Records without a value tell of a deletion: they are counted, and are no events."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from engine_kit import attached, events, learner

from connectors.memory import MemorySink, MemorySource
from connectors.records import framed
from streamk.cli.report import as_json, as_text
from streamk.engine import Report
from streamk.errors import EngineError
from streamk.late import LateLabels

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


def run(of: Any, **options: Any) -> Report:
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
    found = run(source(encoding, with_tombstones(values)), sink=sinks[0], **options)
    expected = run(source(encoding, values), sink=sinks[1])
    assert (found.counts.learned, found.counts.bad) == (N, {})
    assert (found.counts.tombstones, expected.counts.tombstones) == (N // 6, 0)
    assert not dead.outputs
    assert found.whole == expected.whole
    first, second = ([one.value for one in sink.outputs] for sink in sinks)
    assert first == second


def test_those_at_the_beginning_are_none_either() -> None:
    values = [b"{}", *[None] * 3, *as_objects(N)]
    report = run(source("json", values))
    assert report.counts.tombstones == 3


@pytest.mark.parametrize(("share", "ends"), [(0.09, True), (0.11, False)])
def test_the_share_of_bad_events_is_of_events(share: float, ends: bool) -> None:
    values: list[Any] = as_objects(1800)
    for at in range(0, len(values), 10):
        values.insert(at, b"{")
    values = with_tombstones(values, 6)
    if ends:
        with pytest.raises(EngineError, match="cannot be used"):
            run(source("json", values), max_bad_share=share)
    else:
        run(source("json", values), max_bad_share=share)


def test_an_event_that_ends_the_run_is_told_by_its_own_place() -> None:
    values = [*with_tombstones(as_objects(12)), b"{", None, b"{"]
    with pytest.raises(EngineError, match=r"offset 14 cannot be used"):
        run(source("json", values), on_error="raise")


def test_reports_and_progress_count_them() -> None:
    snapshots: list[Any] = []
    report = run(source("json", with_tombstones(as_objects(N))), on_progress=snapshots.append)
    assert as_json(report)["tombstones"] == N // 6
    assert f"{N // 6} tombstones" in as_text(report)
    assert snapshots[-1].tombstones == N // 6
    assert "tombstones" not in as_text(run(source("json", as_objects(N))))


def test_metrics_count_them() -> None:
    pytest.importorskip("prometheus_client", reason="pip install 'streamk[serve]'")
    from streamk.serving.monitoring import JobMonitoring

    snapshots: list[Any] = []
    run(source("json", with_tombstones(as_objects(N))), on_progress=snapshots.append)
    point = {**vars(snapshots[-1]), "experts": {}}
    text = JobMonitoring(lambda: point).text().decode()
    assert f"streamk_job_tombstones {N / 6:.1f}" in text


def test_a_checkpoint_counts_them(tmp_path: Any) -> None:
    values = with_tombstones(as_objects(N))
    for _ in range(2):
        report = run(source("json", values), checkpoint=tmp_path, max_events=len(values))
        assert report.counts.tombstones == N // 6


@pytest.mark.parametrize("labels_too", [False, True])
def test_with_late_labels(labels_too: bool) -> None:
    clicks = events(N)
    plain: list[Any] = [json.dumps({k: c[k] for k in ("a", "id")}).encode() for c in clicks]
    labels: list[Any] = [json.dumps({k: c[k] for k in ("y", "id")}).encode() for c in clicks]
    if labels_too:
        labels = with_tombstones(labels)
    late = LateLabels(source("json", labels), key="id")
    report = run(source("json", with_tombstones(plain)), labels=late, max_bad_share=0.0)
    assert report.fates.joined == N
    assert report.counts.tombstones == N // 6 * (1 + labels_too)
    assert not report.counts.bad
