"""Alarms of a job: when they come, and once each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import ndjson, streamk
from crash_kit import read_all
from engine_kit import Crash, CrashingSink, attached, job

import streamk as package
from connectors.kafka.sink import KafkaSink
from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_sink
from streamk.drift import RankTest, ShareTest, StreamingMMD
from streamk.drift.alarms import Bounds, CovariateWatch, Rise
from streamk.engine import Fixed
from streamk.errors import StateError
from streamk.late import LateLabels
from streamk.learners import create

CHANGE = 2000


def flipped(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Two classes which change places for events of one side after the change."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=n) > 0
    y[CHANGE:] ^= X[CHANGE:, 1] > 0
    rows = zip(range(n), X.tolist(), y.tolist(), strict=True)
    return [{"id": i, "a": a, "b": b, "y": label} for i, (a, b), label in rows]


def model(**options: Any) -> Any:
    return create("doubly-stochastic", task="classification", seed=1, **options)


def test_errors_that_rise_are_told_and_nothing_before() -> None:
    sink = MemorySink()
    report = job(flipped(3500), model(), alarms=sink).run()
    values = [output.value for output in sink.outputs]
    first = next(value for value in values if value["kind"] == "error")
    assert CHANGE < first["events"] < CHANGE + 150
    assert first["time"] == 10 * (first["events"] - 1)
    assert first["value"] >= first["threshold"]
    assert first["before"] < 0.12 < first["now"]
    assert all(value["events"] > CHANGE for value in values)
    kinds = [value["kind"] for value in values]
    assert report.alarms == {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    json.dumps(values, allow_nan=False)


def test_labels_that_come_later_are_told() -> None:
    sink, n = MemorySink(), 1500
    late = [5 + t % 3 for t in range(n)]
    late[1000:] = [40 + t % 3 for t in range(n - 1000)]
    job(flipped(n), model(), late=late, alarms=sink).run()
    values = [output.value for output in sink.outputs]
    assert [value["kind"] for value in values] == ["label_delay"]
    assert values[0]["events"] > 2 * 1000
    assert values[0]["before"] == pytest.approx(6, abs=1)
    assert values[0]["now"] > values[0]["before"]


def test_sets_of_a_model_that_does_not_follow_lose_their_coverage(tmp_path: Path) -> None:
    """The job has ended; what it has learned predicts a stream that changes."""
    stream = flipped(5000)
    job(stream[:1500], model(), checkpoint=tmp_path, prediction_set=0.9).run()
    served, sink = package.load(tmp_path), MemorySink()
    attached(
        MemorySource(stream[1500:]),
        served.learner,
        schema=served.schema,
        fixed=Fixed(kept=served.kept),
        prediction_set=0.9,
        alarms=sink,
    ).run()
    (found,) = (one.value for one in sink.outputs if one.value["kind"] == "coverage")
    assert found["events"] > CHANGE - 1500
    assert found["now"] < 0.9 - found["threshold"]
    assert found["before"] == pytest.approx(0.9)
    (found,) = (one.value for one in sink.outputs if one.value["kind"] == "calibration")
    assert found["value"] == pytest.approx(found["before"] - found["now"])


def test_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(flipped(3000)))
    command = ("run", "file:events.ndjson", "--label", "y", "--ignore", "id")
    model = ("--model", "doubly-stochastic")
    out, _ = streamk(*command, *model, "--alarms", "csv:alarms.csv", cwd=tmp_path)
    assert "1 error" in out
    header, first, *_ = (tmp_path / "alarms.csv").read_text().splitlines()
    assert {"kind", "events", "time", "value", "threshold", "before", "now"} <= {*header.split(",")}
    assert "error" in first
    _, err = streamk(*command, "--alarms", "file:events.ndjson", cwd=tmp_path, status=2)
    assert "SOURCE and --alarms are both" in err


@pytest.mark.parametrize("share", [1e-5, 5e-5, 1e-2])
def test_errors_as_rare_as_expected_are_within_the_bounds(share: float) -> None:
    right = np.random.default_rng(3).random(120_000) >= share
    watch = Bounds()
    found = [watch.update(float(one), 1 - share, share * (1 - share)) for one in right.tolist()]
    assert not any(found)
    later = [watch.update(float(n % 50 > 0), 1 - share, share * (1 - share)) for n in range(1000)]
    assert any(later) == (share < 1e-2)


@pytest.mark.parametrize("watch", [Rise(RankTest()), Rise(ShareTest()), Bounds()])
def test_damaged_watches_are_refused(watch: Any) -> None:
    for number in range(100):
        watch.update(float(number % 2), 0.5, 0.25)
    data = watch.to_json()
    watch.restore(json.loads(json.dumps(data)))
    for name in data:
        with pytest.raises(StateError):
            watch.restore({other: one for other, one in data.items() if other != name})
        with pytest.raises(StateError):
            watch.restore({**data, name: [["x"]] if name in ("last", "rows") else "x"})


KIND = "covariate_drift"


def columns(n: int, change: int, seed: int = 0) -> np.ndarray:
    """Events of two columns, the second of which is larger by 1.5 after a change."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    X[change:, 1] += 1.5
    return X


def shifted(n: int, change: int) -> list[dict[str, Any]]:
    X = columns(n, change)
    return [{"a": a, "b": b, "y": a > 0} for a, b in X.tolist()]


def small() -> Any:
    return model(max_features=64)


def drifts(alarms: Any) -> list[dict[str, Any]]:
    return [output.value for output in alarms.outputs if output.value["kind"] == KIND]


def watched(
    events: list[dict[str | int, float]], cuts: Sequence[int] = (), *, resume: bool = False
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
    report = attached(
        MemorySource({"p": shifted(n, change)}), small(), label="y", alarms=sink
    ).run()
    (one,) = drifts(sink)
    assert change < one["events"] < change + 2000
    assert one["column"] == "b"
    assert one["value"] >= one["threshold"] == pytest.approx(100.0)
    assert one["before"] < 0.7 < one["now"] < 1.8
    assert report.alarms[KIND] == 1
    json.dumps(one, allow_nan=False)


def test_a_long_name_of_a_column_is_cut() -> None:
    """A topic takes no record of a mebibyte."""
    name, sink = "b" * 600, MemorySink()
    X = columns(4000, 2000)
    events = [{"a": a, name: b, "y": a > 0} for a, b in X.tolist()]
    attached(MemorySource({"p": events}), small(), label="y", alarms=sink).run()
    (one,) = drifts(sink)
    assert one["column"].startswith("b" * 100)
    assert len(one["column"]) <= 256


def test_a_column_that_is_missing_from_then_on_is_told(tmp_path: Path) -> None:
    X = columns(8000, 4000)
    X[4000:, 1] = np.nan
    events = [{"a": a, "b": b, "y": a > 0} for a, b in X.tolist()]
    path = tmp_path / "alarms.ndjson"
    with contextlib.closing(open_sink(f"file:{path}")) as sink:
        attached(MemorySource({"p": events}), small(), label="y", alarms=sink).run()
    (one,) = map(json.loads, path.read_text().splitlines())
    assert (one["column"], one["now"]) == ("b", None)
    assert abs(one["before"]) < 0.2


def test_covariate_drift_needs_no_labels() -> None:
    """They come long after the events, and most of them never."""
    n, change = 8000, 4000
    events = [{"id": i, "a": one["a"], "b": one["b"]} for i, one in enumerate(shifted(n, change))]
    labels = [{"id": i, "y": i % 2 == 0} for i in range(200)]
    times = {"p": list(range(len(events)))}
    late = LateLabels(
        MemorySource({"p": labels}, timestamps={"p": [10_000 + i for i in range(len(labels))]}),
        key="id",
    )
    sink = MemorySink()
    options: dict[str, Any] = {"label": "y", "max_skew": float("inf"), "alarms": sink}
    attached(MemorySource({"p": events}, timestamps=times), small(), labels=late, **options).run()
    (one,) = drifts(sink)
    assert change < one["events"] < change + 2000
    assert one["column"] == "b"


@pytest.mark.parametrize("columns_of", [1, 5])
def test_no_covariate_drift_where_nothing_changes(columns_of: int) -> None:
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


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("kafka_client")
def test_each_alarm_is_there_once_in_a_topic(
    kafka_address: str, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Though the job breaks off."""
    stream, expected = [*flipped(3000), *flipped(3000, 1)], MemorySink()
    job(stream, model(), alarms=expected, prediction_set=0.9).run()
    topic, sink, crashes = kafka_topic(1), CrashingSink(), 0
    for left in (22, 6, 10**9):
        sink.left = left
        alarms = KafkaSink((kafka_address,), topic)
        options: dict[str, Any] = {"checkpoint": tmp_path, "checkpoint_every": 1000}
        again = job(
            stream, model(), alarms=alarms, sink=sink, prediction_set=0.9, whim=1, **options
        )
        try:
            again.run()
        except Crash:
            crashes += 1
    assert crashes == 2
    values = [output.value for output in expected.outputs]
    assert len(values) >= 2
    assert [json.loads(one.value) for one in read_all(kafka_address, topic)] == values
