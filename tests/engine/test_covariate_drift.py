"""The alarm about covariate drift: when it comes, and the same through batches and crashes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import attached

from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_sink
from streamk.drift import StreamingMMD
from streamk.drift.alarms import CovariateWatch
from streamk.errors import StateError
from streamk.late import LateLabels
from streamk.learners import create

KIND = "covariate_drift"


def columns(n: int, change: int, seed: int = 0) -> np.ndarray:
    """Events of two columns, the second of which is larger by 1.5 after a change."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    X[change:, 1] += 1.5
    return X


def stream(n: int, change: int) -> list[dict[str, Any]]:
    X = columns(n, change)
    return [{"a": a, "b": b, "y": a > 0} for a, b in X.tolist()]


def found(alarms: Any) -> list[dict[str, Any]]:
    return [output.value for output in alarms.outputs if output.value["kind"] == KIND]


def model() -> Any:
    return create("doubly-stochastic", task="classification", seed=1, max_features=64)


def watched(
    events: list[dict[str | int, float]],
    cuts: Sequence[int] = (),
    *,
    resume: bool = False,
) -> tuple[list[tuple[int, Any]], str]:
    """The alarms of a stream in batches, and the state at its end."""
    watch, alarms = CovariateWatch(), []
    for start, stop in zip([0, *cuts], [*cuts, len(events)], strict=True):
        if resume:
            saved = json.dumps(watch.to_json(), allow_nan=False)
            watch = CovariateWatch()
            watch.restore(json.loads(saved))
        found = watch.update(stop - start, lambda row, start=start: events[start + row])
        alarms += [(start + row, signal) for row, signal in found]
    return alarms, json.dumps(watch.to_json())


def cells(X: np.ndarray) -> list[dict[str | int, float]]:
    """Events of which each has every column."""
    return [dict(zip("abcde", row, strict=False)) for row in X.tolist()]


def test_it_is_told_which_column_has_changed() -> None:
    n, change = 9000, 5000
    sink = MemorySink()
    report = attached(MemorySource({"p": stream(n, change)}), model(), label="y", alarms=sink).run()
    (one,) = found(sink)
    assert change < one["events"] < change + 2000
    assert one["column"] == "b"
    assert one["value"] >= one["threshold"] == pytest.approx(100.0)
    assert one["before"] < 0.7 < one["now"] < 1.8
    assert report.alarms[KIND] == 1
    json.dumps(one, allow_nan=False)


def test_a_long_name_of_a_column_is_cut() -> None:
    """A topic takes no record of a mebibyte."""
    name, sink = "b" * 5000, MemorySink()
    X = columns(4000, 2000)
    events = [{"a": a, name: b, "y": a > 0} for a, b in X.tolist()]
    attached(MemorySource({"p": events}), model(), label="y", alarms=sink).run()
    (one,) = found(sink)
    assert one["column"].startswith("b" * 100)
    assert len(one["column"]) <= 256


def test_a_column_that_is_missing_from_then_on_is_told(tmp_path: Path) -> None:
    X = columns(8000, 4000)
    X[4000:, 1] = np.nan
    events = [{"a": a, "b": b, "y": a > 0} for a, b in X.tolist()]
    path = tmp_path / "alarms.ndjson"
    with contextlib.closing(open_sink(f"file:{path}")) as sink:
        attached(MemorySource({"p": events}), model(), label="y", alarms=sink).run()
    (one,) = map(json.loads, path.read_text().splitlines())
    assert (one["column"], one["now"]) == ("b", None)
    assert abs(one["before"]) < 0.2


def test_it_needs_no_labels() -> None:
    """They come long after the events, and most of them never."""
    n, change = 8000, 4000
    events = [{"id": i, "a": one["a"], "b": one["b"]} for i, one in enumerate(stream(n, change))]
    labels = [{"id": i, "y": i % 2 == 0} for i in range(200)]
    times = {"p": list(range(len(events)))}
    late = LateLabels(
        MemorySource({"p": labels}, timestamps={"p": [10_000 + i for i in range(len(labels))]}),
        key="id",
    )
    sink = MemorySink()
    options: dict[str, Any] = {"label": "y", "max_skew": float("inf"), "alarms": sink}
    attached(MemorySource({"p": events}, timestamps=times), model(), labels=late, **options).run()
    (one,) = found(sink)
    assert change < one["events"] < change + 2000
    assert one["column"] == "b"


@pytest.mark.parametrize("columns_of", [1, 5])
def test_no_alarm_where_nothing_changes(columns_of: int) -> None:
    rng = np.random.default_rng(columns_of)
    assert watched(cells(rng.standard_cauchy(size=(60_000, columns_of))))[0] == []


def test_batches_and_resumes_leave_no_trace() -> None:
    rng, n = np.random.default_rng(0), 14_000
    X = rng.normal(size=(n, 4))
    X[::50, 1] = np.nan
    X[11_000:, 0] += 2.0
    events = cells(X)
    for i, event in enumerate(events):
        event |= {f"id={i}": 1.0, f"t={i % 3}": 1.0}
        for column, first in (("c", 777), ("d", 3001)):
            if i < first:
                del event[column]
    whole = watched(events)
    assert whole[0]
    for pieces in (3, 60):
        cuts = sorted(rng.choice(np.arange(1, n), pieces, replace=False).tolist())
        assert watched(events, cuts) == whole
        assert watched(events, cuts, resume=True) == whole


def test_events_without_columns_are_of_one_law() -> None:
    assert watched([{}] * 9000)[0] == []
    assert watched([{}] * 5000 + [{"a": 1.0}] * 4000)[0]


@pytest.mark.parametrize(
    ("later", "column"),
    [
        (lambda i: {"c=a": 1.0, f"id=x{i}": 1.0}, "c="),
        (lambda i: {"late": 5.0, f"id=x{i}": 1.0}, "late"),
        (lambda i: {f"c={'ab'[i % 2]}": 1.0, "id=bot": 1.0}, "id=bot"),
    ],
)
def test_an_alarm_tells_a_share_that_has_changed(later: Any, column: str) -> None:
    rng = np.random.default_rng(4)
    usual = [
        {f"c={'ab'[k]}": 1.0, f"id={i}": 1.0} for i, k in enumerate(rng.integers(2, size=9000))
    ]
    ((row, signal),) = watched([*usual, *map(later, range(3000))])[0]
    assert row > 9000
    assert column in signal.column
    assert abs(signal.before - signal.now) > 0.1


@pytest.mark.parametrize(
    "damage",
    [
        {"seen": -1},
        {"seen": 10**6},
        {"next": "x"},
        {"next": 10**9},
        {"test": {}},
        {"test": {"header": {}, "arrays": "!"}},
        {"test": {"header": {"type": "x", "format": 1}, "arrays": ""}},
        {"held": [[["a", 1.0]]] * 32},
        {"held": [[["a", "x"]]]},
        {"last events": [[["a", 1.0]]] * 51},
        {"last events": [[1.0]]},
    ],
)
def test_a_damaged_state_is_refused(damage: dict[str, Any]) -> None:
    watch, events = CovariateWatch(), cells(columns(900, 900))
    watch.update(len(events), lambda row: events[row])
    watch.restore(json.loads(json.dumps(watch.to_json())))
    with pytest.raises(StateError):
        CovariateWatch().restore(watch.to_json() | damage)


def test_a_test_stops_at_its_alarm() -> None:
    X = columns(3000, 2000)
    test, whole = StreamingMMD(2), StreamingMMD(2)
    (row,) = whole.update(X)
    assert test.advance(X) == row + 1
    assert test.drift_detected
    assert len(test.sample) > 1000
    assert test.advance(X[row + 1 :]) == len(X) - row - 1
    assert test.n_drifts == whole.n_drifts == 1
    assert test.p_value == whole.p_value
