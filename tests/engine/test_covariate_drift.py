"""The alarm about covariate drift: when it comes, and the same through batches and crashes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import Crash, CrashingSink, WhimsicalSource

from connectors.memory import MemorySink, MemorySource
from streamk.drift import StreamingMMD
from streamk.engine import Engine, LateLabels
from streamk.engine.alarms.covariates import Covariates, CovariateWatch
from streamk.errors import StateError
from streamk.learners import create

KIND = "covariate_drift"
NAMES = ("a", "b", "c", "d")


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


def watched(X: np.ndarray, width: np.ndarray, cuts: list[int], *, resume: bool) -> tuple[Any, str]:
    """The alarms of a stream in batches, and the state at its end."""
    watch, alarms = CovariateWatch(), []
    for start, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
        if resume:
            saved = json.dumps(watch.to_json(), allow_nan=False)
            watch = CovariateWatch()
            watch.restore(json.loads(saved))
        d = int(width[stop - 1])
        some = Covariates(X[start:stop, :d], width[start:stop], NAMES[:d])
        alarms += [(start + row, signal) for row, signal in watch.update(some)]
    return alarms, json.dumps(watch.to_json())


def test_it_is_told_which_column_has_changed() -> None:
    n, change = 9000, 5000
    sink = MemorySink()
    report = Engine(MemorySource({"p": stream(n, change)}), model(), label="y", alarms=sink).run()
    (one,) = found(sink)
    assert change < one["events"] < change + 2000
    assert one["column"] == "b"
    assert one["value"] >= one["threshold"] == pytest.approx(100.0)
    assert one["before"] < 0.7 < one["now"] < 1.8
    assert report.alarms[KIND] == 1
    json.dumps(one, allow_nan=False)


def test_a_long_name_of_a_column_is_cut() -> None:
    """A topic takes no record of a mebibyte."""
    name, sink = "b" * (1 << 20), MemorySink()
    X = columns(4000, 2000)
    events = [{"a": a, name: b, "y": a > 0} for a, b in X.tolist()]
    Engine(MemorySource({"p": events}), model(), label="y", alarms=sink).run()
    (one,) = found(sink)
    assert one["column"] == "b" * 4096


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
    Engine(MemorySource({"p": events}, timestamps=times), model(), labels=late, **options).run()
    (one,) = found(sink)
    assert change < one["events"] < change + 2000
    assert one["column"] == "b"


@pytest.mark.parametrize("columns_of", [1, 5])
def test_no_alarm_where_nothing_changes(columns_of: int) -> None:
    rng = np.random.default_rng(columns_of)
    X = rng.standard_cauchy(size=(60_000, columns_of))
    width = np.full(len(X), columns_of)
    assert CovariateWatch().update(Covariates(X, width, "abcde"[:columns_of])) == []  # type: ignore[arg-type]


def test_batches_and_resumes_leave_no_trace() -> None:
    rng, n = np.random.default_rng(0), 14_000
    X = rng.normal(size=(n, 4))
    width = np.full(n, 2)
    width[777:], width[3001:] = 3, 4
    X[:777, 2], X[:3001, 3] = 0.0, 0.0
    X[::50, 1] = np.nan
    X[11_000:, 0] += 2.0
    whole = watched(X, width, [], resume=False)
    assert whole[0]
    for pieces in (3, 60):
        cuts = sorted(rng.choice(np.arange(1, n), pieces, replace=False).tolist())
        assert watched(X, width, cuts, resume=False) == whole
        assert watched(X, width, cuts, resume=True) == whole


def test_crashes_leave_no_trace(tmp_path: Path) -> None:
    events, expected = stream(6000, 3000), MemorySink()
    times = {"p": list(range(len(events)))}
    Engine(MemorySource({"p": events}, timestamps=times), model(), label="y", alarms=expected).run()
    assert len(found(expected)) == 1
    rng, sink, alarms = random.Random(1), CrashingSink(), MemorySink()
    for crashes in range(5):
        sink.left = rng.randrange(3, 12) if crashes < 4 else 10**9
        source = WhimsicalSource({"p": events}, timestamps=times, whim=crashes)
        options = {"checkpoint": tmp_path, "checkpoint_every": rng.choice([300, 700])}
        again = Engine(source, model(), label="y", alarms=alarms, sink=sink, **options)
        if crashes < 4:
            with pytest.raises(Crash):
                again.run()
        else:
            again.run()
    assert alarms.outputs == expected.outputs


def test_other_columns_begin_a_new_test() -> None:
    """As where a job that only predicts goes on with a model that has others."""
    watch, X = CovariateWatch(), columns(4000, 4000)
    width = np.full(len(X), 2)
    assert watch.update(Covariates(X, width, ("a", "b"))) == []
    assert watch.update(Covariates(X + 100.0, width, ("b", "c"))) == []
    assert watch._test is not None
    assert watch._test.columns == ("b", "c")
    assert watch._test.n_drifts == 0


def test_events_without_columns_have_no_law() -> None:
    watch, X = CovariateWatch(), np.zeros((5000, 0))
    assert watch.update(Covariates(X, np.zeros(len(X), np.int64), ())) == []
    assert watch.to_json()["test"] is None


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
    ],
)
def test_a_damaged_state_is_refused(damage: dict[str, Any]) -> None:
    watch, X = CovariateWatch(), columns(900, 900)
    watch.update(Covariates(X, np.full(len(X), 2), ("a", "b")))
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
