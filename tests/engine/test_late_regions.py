"""Late labels and regions beside a model that keeps nothing of its predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import attached
from reference.conformal import NaiveQuantile
from reference.late import NaiveJoin, in_order

from connectors.memory import MemorySink, MemorySource
from streamk.distributed import Sharded
from streamk.engine import loop
from streamk.late import LateLabels
from streamk.learners import create
from streamk.packing import fingerprint

N = 400


def streams(task: str) -> tuple[list[Any], list[Any]]:
    """Events and labels as (time, value); the labels in an order of their own.

    A field and a class come late, some labels before their events, some events twice, and some
    labels never.
    """
    rng = np.random.default_rng(3)
    events, labels = [], []
    for n in range(N):
        x: dict[str, Any] = {"id": str(n), "a": float(rng.normal()), "b": float(rng.normal())}
        if n >= N // 2:
            x["c"] = float(rng.normal())
        x["part"] = "uv"[n % 2]
        events.append((10 * n, x))
        if n % 37 == 5:
            events.append((10 * n + 1, x))
        y: Any = np.sin(2.0 * x["a"]) + 0.3 * rng.normal()
        if task == "classification":
            y = "high" if y > 0.5 else "low" if y < -0.3 or n < 120 else "between"
        if n % 29:
            late = int(rng.integers(0, 300)) if n % 11 else -5
            labels.append((10 * n + late, {"id": str(n), "y": y}))
    return events, sorted(labels, key=lambda one: one[0])


def model(task: str, shards: bool) -> Any:
    made = create("doubly-stochastic", task=task, max_features=64, block_size=64)
    return Sharded(made, shards=2, round_events=8) if shards else made


def outcome(
    task: str,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    shards: bool = False,
    sink: MemorySink | None = None,
    engine: dict[str, Any] | None = None,
    **late: Any,
) -> tuple[Any, ...]:
    monkeypatch.setattr(loop, "_MOST", most)
    sink = sink or MemorySink()
    sources = [
        MemorySource({"p": [value for _, value in some]}, timestamps={"p": [at for at, _ in some]})
        for some in streams(task)
    ]
    option: dict[str, Any] = {"prediction_set" if task == "classification" else "interval": 0.8}
    late = {"key": "id", **late}
    report = attached(
        sources[0],
        model(task, shards),
        label="y",
        labels=LateLabels(sources[1], **late),
        sink=sink,
        max_skew=float("inf"),
        slice="part",
        **option,
        **(engine or {}),
    ).run()
    said = [output.value for output in sink.outputs]
    scores = report.whole, report.window, report.history, report.slices
    return said, fingerprint(report.model.state()), scores


@pytest.mark.one_in(2)
@pytest.mark.parametrize("late", [{}, {"held_events": 9}, {"timeout": 0.1}])
@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_batches_change_nothing(
    task: str, shards: bool, late: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outcome(task, 1, monkeypatch, shards=shards, **late)
    assert outcome(task, 7, monkeypatch, shards=shards, **late) == expected
    assert outcome(task, 1000, monkeypatch, shards=shards, **late) == expected


@pytest.mark.parametrize("shards", [False, True])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_stops_and_reasons_change_nothing(
    task: str, shards: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said, state, scores = outcome(task, 1000, monkeypatch, shards=shards)
    sink, engine = MemorySink(), {"checkpoint": tmp_path}
    for stop in (207, 155):
        one = {**engine, "max_events": stop}
        outcome(task, 50, monkeypatch, shards=shards, sink=sink, engine=one)
    found = outcome(task, 50, monkeypatch, shards=shards, sink=sink, engine=engine)
    assert found == (said, state, scores)
    explained, *same = outcome(task, 1000, monkeypatch, shards=shards, engine={"explain": True})
    for one in explained:
        del one["reasons"]
    assert (explained, *same) == (said, state, scores)


@pytest.mark.parametrize("shards", [False, True])
def test_intervals_are_those_of_the_plain_join(
    shards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label comes with the threshold of its event and the events that were held since."""
    said, *_ = outcome("regression", 1000, monkeypatch, shards=shards)
    events, labels = streams("regression")
    naive = NaiveJoin(None, 10**6, None)
    merged = in_order({"labels/p": labels, "stream/p": events})
    for place, one in enumerate(merged):
        key = one.value["id"]
        if one.partition.startswith("labels/"):
            naive.label(key, one.value["y"], one.clock)
        else:
            naive.event(key, place, one.clock)
    quantile, answers = NaiveQuantile(0.8), iter(said)
    held: dict[int, tuple[int, float, Any]] = {}
    keys = set[str]()
    for what, place, label in naive.steps:
        if what == "predict":
            answer, threshold = next(answers), quantile.threshold()
            if np.isinf(threshold):
                assert answer["interval"] is None
            else:
                low, high = answer["interval"]
                assert (low, high) == pytest.approx(
                    (answer["prediction"] - threshold, answer["prediction"] + threshold)
                )
            if merged[place].value["id"] not in keys:
                keys.add(merged[place].value["id"])
                held[place] = len(held), threshold, answer["prediction"]
        else:
            number, threshold, prediction = held[place]
            if prediction is not None and not np.isnan(prediction):
                delay = len(held) - 1 - number
                quantile.learn(abs(prediction - label), threshold, delay)
    assert next(answers, None) is None
