"""Hours that nobody wants: clocks that jump, nothing but bad records, a field of another type."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, learner, run, same_model, split

from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_sink, open_source
from streamk.engine import Report

# --- the clock of the machine ---------------------------------------------------------------------


def jumping(seed: int) -> Callable[[], float]:
    """A clock of the machine that is set anew between any two looks, by up to forty years."""
    rng = random.Random(seed)
    return lambda: rng.uniform(0.0, 2.5e9)


def merged(checkpoint: Path) -> tuple[Report, list[Any]]:
    """Four partitions, learned in two runs."""
    data, times = split(1000, 4)
    sink = MemorySink()
    for most in (400, None):
        report = attached(
            MemorySource(data, timestamps=times),
            learner(),
            label="y",
            ignore=("id",),
            until_end=True,
            sink=sink,
            checkpoint=checkpoint,
            checkpoint_every=100,
            max_events=most,
        ).run()
    return report, [(one.partition, one.offset, one.value) for one in sink.outputs]


def test_a_clock_that_jumps_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, outputs = merged(tmp_path / "plain")
    clock = jumping(1)
    monkeypatch.setattr(time, "time", clock)
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * clock()))
    report, others = merged(tmp_path / "jumping")
    assert same_model(report.model, plain.model)
    assert report.whole == plain.whole
    assert others == outputs


# --- bad records ----------------------------------------------------------------------------------

BAD = 60_000


@pytest.mark.slow
def test_bad_records_in_a_row_take_no_memory(tmp_path: Path) -> None:
    """Each is counted and a dead letter; of their 120 MB nothing is kept."""
    record = b'{"a": 1.5, "b": ' + b"?" * 2000 + b"}\n"
    good = b"".join(json.dumps(event).encode() + b"\n" for event in events(2000))
    path, letters = tmp_path / "events.ndjson", tmp_path / "dead.ndjson"
    with path.open("wb") as file:
        file.write(good)
        for _ in range(BAD):
            file.write(record)
        file.write(good)
    seen: list[tuple[int, int]] = []
    report = attached(
        open_source(f"file:{path}"),
        learner(),
        label="y",
        ignore=("id",),
        dead_letters=open_sink(f"file:{letters}"),
        buffer_events=2048,
        on_progress=lambda snapshot: seen.append((snapshot.events, snapshot.process_bytes)),
        progress_interval=0.05,
    ).run()
    assert report.counts.bad == {"undecodable": BAD}
    assert report.counts.learned == 4000
    with letters.open("rb") as file:
        assert [json.loads(line)["offset"] for line in file] == list(range(2000, 2000 + BAD))
    later = [used for taken, used in seen if taken > 10_000]
    assert len(later) > 5
    assert max(later) - min(later) < 25 << 20


# --- fields ---------------------------------------------------------------------------------------

HALF = 400


def turning() -> list[dict[str, Any]]:
    """Events whose field "a" is a number, and from the middle on a text."""
    stream = events(2 * HALF)
    for event in stream[HALF:]:
        event["a"] = "high" if event["a"] > 0 else "low"
    return stream


def test_a_number_that_turns_into_text(tmp_path: Path) -> None:
    """No event is lost, the texts have columns of their own; a restart there changes nothing."""
    report = run(turning())
    assert report.counts.learned == 2 * HALF
    assert not report.counts.bad
    assert {"a", "a=high", "a=low"} <= set(report.model.columns or ())
    for at in (HALF - 1, HALF, HALF + 1):
        state = tmp_path / str(at)
        run(turning(), checkpoint=state, max_events=at)
        assert same_model(run(turning(), checkpoint=state).model, report.model)


def test_a_number_that_turns_into_text_against_the_schema() -> None:
    """Each such event is a bad one, which names the field; the others are learned as before."""
    letters = MemorySink()
    stream, options = turning(), {"schema": "strict", "ignore": ("id", "c")}
    report = run(stream + events(100, seed=1), dead_letters=letters, **options)
    assert report.counts.bad == {"unknown column": HALF}
    assert report.counts.learned == HALF + 100
    assert "'a=" in letters.outputs[0].value["reason"]
    without = run(stream[:HALF] + events(100, seed=1), **options)
    assert same_model(report.model, without.model)
