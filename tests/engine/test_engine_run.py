"""One run of the engine: order, honesty of the figures, no waiting, bad events, bounds."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import (
    BATCH,
    HoldingSource,
    WhimsicalSource,
    attached,
    events,
    learner,
    run,
    same_model,
    split,
)
from multi_kernel_kit import pool_alone
from river import base

import streamk
from connectors.base import Chunk
from connectors.errors import OffsetOutOfRange
from connectors.files.sinks import NDJSONSink
from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_sink, open_source
from streamk.adapters import river
from streamk.encoding import Schema
from streamk.encoding.labels import LARGEST_LABEL
from streamk.engine import Fixed
from streamk.engine.evaluation import confusion
from streamk.engine.order.feed import Feed
from streamk.engine.training.trainer import Trainer
from streamk.errors import EngineError, InvalidInput
from streamk.kernels import Gaussian, Kernel, Linear
from streamk.learners import Constant, DoublyStochastic, Scaled, create
from streamk.losses import loss

# --- figures and predictions ------------------------------------------------------------------


def arrays(n: int, d: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d)).astype("f")
    return X, np.where(X[:, 0] * X[:, 1] > 0, "up", "down")


def test_figures_are_progressive_validation() -> None:
    X, y = arrays(100)
    sink = MemorySink()
    report = run(MemorySource((X, y)), sink=sink, window=32)

    model, right, loss = learner(), [], []
    for x, label in zip(X.astype(float), y, strict=True):
        if model.classes:
            shares = model.predict_proba_one(x)
            right.append(model.predict_one(x) == label)
            loss.append(-math.log(max(1e-15, shares.get(label, 0.0))))
        model.learn_one(x, label)
    assert report.whole["accuracy"] == sum(right) / len(right)
    assert report.whole["log_loss"] == pytest.approx(sum(loss) / len(loss))
    assert report.window["accuracy"] == sum(right[-32:]) / 32
    assert same_model(report.model, model)
    assert report.counts.learned == report.events == report.events_now == 100
    assert report.counts.predicted == 99
    assert report.stopped == "end"
    last = {name: column[-1] for name, column in report.history.items()}
    assert last == {"events": 100, **report.window, **report.baselines["window"]}
    assert report.learned == {"0": [[0, 100]]}

    assert [output.offset for output in sink.outputs] == list(range(100))
    assert sink.outputs[0].value == {"prediction": None, "probabilities": {}}
    assert sink.outputs[1].value["probabilities"] == {y[0]: 1.0}
    shown = [output.value["probabilities"] for output in sink.outputs[1:]]
    assert all(math.isclose(sum(p.values()), 1) for p in shown)
    best = [output.value["prediction"] for output in sink.outputs[1:]]
    assert [max(p, key=p.get) for p in shown] == best


def test_regression() -> None:
    X, _ = arrays(64)
    y = X[:, 0] - 2 * X[:, 1]
    sink = MemorySink()
    report = run(MemorySource((X, y)), learner(loss="squared"), sink=sink)
    predicted = np.array([output.value["prediction"] for output in sink.outputs])
    assert predicted[0] == 0.0
    errors = predicted - y.astype(float)
    assert report.whole["mae"] == pytest.approx(np.abs(errors).mean())
    assert report.whole["rmse"] == pytest.approx(np.sqrt((errors**2).mean()))


@pytest.mark.parametrize("model", [learner(loss=loss("quantile", q=0.8)), "multi-kernel"])
def test_predicted_quantiles_are_compared_by_their_own_loss(model: Any, tmp_path: Path) -> None:
    """A constant that is no quantile may have the smaller absolute error."""
    X, _ = arrays(200)
    y = X[:, 0] - 2 * X[:, 1]
    if model == "multi-kernel":
        model = pool_alone(task="regression", loss=loss("quantile", q=0.8))
    sink, source = MemorySink(), MemorySource((X, y))
    report = run(source, model, sink=sink, checkpoint=tmp_path, metrics=("MAE",))
    predicted = np.array([output.value["prediction"] for output in sink.outputs])

    def pinball(predicted: Any) -> Any:
        over = y.astype(float) - predicted
        return pytest.approx(np.maximum(0.8 * over, -0.2 * over).mean())

    assert report.whole["pinball"] == pinball(predicted)
    assert "mae" not in report.whole
    assert report.whole["MAE"] == pytest.approx(np.abs(predicted - y).mean())
    assert report.baselines["whole"]["last_value"] == pinball(np.concatenate([[0.0], y[:-1]]))
    assert streamk.load(tmp_path).figures["whole"]["pinball"] == report.whole["pinball"]


def test_the_task_must_fit() -> None:
    for n in (40, 4000):
        with pytest.raises(InvalidInput, match=rf"none of the {n} events .* label out of domain"):
            run(MemorySource(events(n)), learner(loss="squared"))
    some = [{**event, "y": None} if i % 5 == 0 else event for i, event in enumerate(events(40))]
    with pytest.raises(InvalidInput, match=r"none of the 40 events can be learned from"):
        run(MemorySource(some), learner(loss="squared"))
    schema = Schema(("a",), label="y", label_type="str")
    with pytest.raises(InvalidInput, match="model does regression but the label 'y' is of type"):
        run(MemorySource(events(40)), learner(loss="squared"), schema=schema)


# --- order ------------------------------------------------------------------------------------


@pytest.mark.parametrize("whim", range(2))
def test_the_model_depends_on_the_log_alone(whim: int) -> None:
    data, times = split(300, 4)
    expected = MemorySink()
    plain = run(MemorySource(data, timestamps=times), until_end=True, sink=expected)
    sink = MemorySink()
    source = HoldingSource(data, timestamps=times, whim=whim)
    other = run(source, until_end=True, sink=sink, buffer_events=BATCH)
    assert same_model(plain.model, other.model)
    assert sink.outputs == expected.outputs
    assert (plain.whole, plain.window, plain.history) == (other.whole, other.window, other.history)
    assert plain.counts == other.counts


@pytest.mark.parametrize(
    ("kind", "options", "bound"),
    [
        # Two shares, and at most one poll (60 events of 120 bytes) of each partition beyond.
        (WhimsicalSource, {"buffer_events": 4 * BATCH}, 4 * BATCH + 2 * 60),
        (HoldingSource, {"buffer_events": 4 * BATCH}, 4 * BATCH + 2 * 60),
        (HoldingSource, {"buffer_bytes": 2000}, 2000 + 2 * 60 * 120),
    ],
)
def test_what_is_read_ahead_is_bounded(
    kind: type, options: dict[str, int], bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = [json.dumps(event).encode() for event in events(400)]
    most, plain = 0, Feed.poll

    def watched(feed: Feed, timeout: float) -> None:
        nonlocal most
        plain(feed, timeout)
        sequencer = feed.sequencer
        in_bytes = "buffer_bytes" in options
        most = max(most, sequencer.buffered_bytes if in_bytes else sequencer.buffered)

    monkeypatch.setattr(Feed, "poll", watched)
    times = {"a": range(400), "b": range(1000, 1400)}
    source = kind({"a": stream, "b": stream}, timestamps=times, whim=1)
    assert run(source, until_end=True, **options).events == 800
    assert 0 < most <= bound


# --- no event waits ---------------------------------------------------------------------------


@contextlib.contextmanager
def trickle(stream: list[Any], every: int) -> Iterator[MemorySource]:
    """A live source that a thread feeds, a few events at a time."""
    source = MemorySource({"0": stream[:1]}, live=True)

    def feed() -> None:
        for start in range(1, len(stream), every):
            source.extend("0", stream[start : start + every])
            time.sleep(0.004)
        source.finish()

    thread = threading.Thread(target=feed)
    thread.start()
    yield source
    thread.join()


def test_an_event_is_predicted_and_learned_as_soon_as_it_is_there() -> None:
    source, sink = MemorySource({"0": []}, live=True), MemorySink()
    engine = attached(source, learner(), label="y", sink=sink)
    thread = threading.Thread(target=engine.run)
    thread.start()
    for n, event in enumerate(events(5), start=1):
        source.extend("0", [event])
        while len(sink.outputs) < n:
            time.sleep(0.002)
    engine.stop()
    thread.join()
    assert [output.value["prediction"] is None for output in sink.outputs] == [True, *[False] * 4]


# --- bad events -------------------------------------------------------------------------------


def bad_stream() -> list[bytes]:
    stream = [json.dumps(event).encode() for event in events(60)]
    stream[20] = b"\xff\xfe"
    stream[21] = b"[1]"
    stream[30] = b'{"a": [[1]], "b": 1, "c": "x", "y": "up"}'
    stream[31] = b'{"a": Infinity, "b": 1, "c": "x", "y": "up"}'
    stream[58] = b'{"a": 1, "b": 1, "c": "x"}'
    stream[59] = b'{"a": 1, "b": 1, "c": "x", "y": ["up"]}'
    return stream


def test_bad_events_are_skipped_and_counted() -> None:
    sink = MemorySink()
    report = run(MemorySource(bad_stream()), sink=sink)
    kinds = ("undecodable", "not an object", "wrong type", "inf", "label out of domain")
    assert report.counts.bad == dict.fromkeys(kinds, 1)
    assert report.events == 60
    assert len(sink.outputs) == 55
    assert (report.counts.learned, report.counts.unlabelled) == (54, 1)
    assert sink.outputs[-1].offset == 58, "an event without the label's field is predicted"
    assert {20, 21, 30, 31, 59}.isdisjoint(output.offset for output in sink.outputs)


def test_dead_letters_say_what_and_where() -> None:
    letters, stream = MemorySink(), bad_stream()
    assert run(MemorySource(stream), dead_letters=letters).counts.n_bad == 5
    assert [letter.offset for letter in letters.outputs] == [20, 21, 30, 31, 59]
    first, *_, last = (letter.value for letter in letters.outputs)
    assert first["encoding"] == "base64"
    assert base64.b64decode(first["value"]) == stream[20]
    assert last == {
        "partition": "0",
        "offset": 59,
        "kind": "label out of domain",
        "reason": last["reason"],
        "column": "y",
        "value": stream[59].decode(),
        "encoding": "utf-8",
    }
    assert letters.outputs[2].value["column"] == "a"
    json.dumps([letter.value for letter in letters.outputs])


def test_dead_letters_of_arrays_and_dicts() -> None:
    letters = MemorySink()
    X, y = arrays(40)
    X[17, 1] = np.inf
    run(MemorySource((X, y)), dead_letters=letters)
    assert json.loads(letters.outputs[0].value["value"])[1] == math.inf
    letters = MemorySink()
    stream: list[Any] = events(40)
    stream[18] = {"a": object(), "y": "up"}
    run(MemorySource(stream), dead_letters=letters)
    assert "object at" in letters.outputs[0].value["value"]


def test_every_dead_letter_can_be_written(tmp_path: Path) -> None:
    letters = NDJSONSink(tmp_path / "letters.ndjson")
    stream = [json.dumps(event).encode() for event in events(40)]
    # Python's own parser, which reads what has a NaN in it, lets half of a surrogate pair through.
    stream[20] = b'{"\\ud800": 1, "a": NaN, "b": 2, "c": "x", "y": "up"}'
    stream[21] = "€".encode() * (1 << 20)
    assert run(MemorySource(stream), dead_letters=letters).counts.bad == {
        "undecodable": 1,
        "oversized": 1,
    }
    lines = (tmp_path / "letters.ndjson").read_bytes().splitlines()
    first, second = map(json.loads, lines)
    assert first["column"] == r"\ud800"
    assert (second["encoding"], second["size"]) == ("utf-8", len(stream[21]))
    assert set(second["value"]) == {"€"}

    sink = MemorySink()
    named = [*events(40), {frozenset("a"): 1.0, "y": "up"}]
    assert run(MemorySource(named), dead_letters=sink).counts.bad == {"wrong type": 1}
    assert sink.outputs[0].value["encoding"] == "python"


@pytest.mark.parametrize("kernel", [Gaussian(bandwidth=1.0), Linear()])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_number_that_is_decoded_ends_a_run(kernel: Kernel, sign: int, tmp_path: Path) -> None:
    stream = [{"a": e["a"] / 1000, "b": e["b"], "y": e["a"]} for e in events(100)]
    stream[70]["a"] = sign * 1e150
    stream[75]["y"] = sign * LARGEST_LABEL
    stream[80]["y"] = sign * 1e25
    model = Scaled(DoublyStochastic(kernel, loss="squared", seed=3, batch_size=8))
    report = run(MemorySource(stream), model, checkpoint=tmp_path / "state")
    assert report.counts.bad == {"label out of domain": 1}
    assert report.counts.learned == 99
    assert all(map(math.isfinite, report.whole.values()))


@pytest.mark.parametrize("cut", [1, 100])
def test_no_beginning_ends_a_run(cut: int, caplog: pytest.LogCaptureFixture) -> None:
    odd: list[bytes] = [
        b"[1, 2]",
        b"?",
        json.dumps({f"c{i}": 1 for i in range(17_000)} | {"y": "up"}).encode(),
        b'{"y": [1]}',
        b'{"a": [{}], "y": "up"}',
    ]
    good = [json.dumps(event).encode() for event in events(30)]
    with trickle([*odd * 4, *good], cut) as live:
        report = run(live)
    assert report.counts.learned == 30
    assert report.counts.n_bad == 20
    told = [record.getMessage() for record in caplog.records if "cannot be used" in record.msg]
    assert len(told) == len(report.counts.bad) == 5
    assert "at 0 offset 0 cannot be used: not an object" in told[0]


def test_too_many_bad_events_end_a_run_that_wants_it() -> None:
    good = [json.dumps(event).encode() for event in events(900)]
    stream = [*good, *[b"?"] * 300]
    assert run(MemorySource(stream), max_bad_share=0.25).counts.bad == {"undecodable": 300}
    with pytest.raises(EngineError, match=r"285 of 1185 events .*undecodable 300\), .* 0.24;"):
        run(MemorySource(stream), max_bad_share=0.24)
    with pytest.raises(EngineError, match=r"101 of 201 events"):  # fewer are looked at in the end
        run(MemorySource([*good[:100], *[b"?"] * 101]), max_bad_share=0.5)
    with pytest.raises(InvalidInput, match=r"max_bad_share=1.5 must be a number"):
        run(MemorySource(stream), max_bad_share=1.5)


def test_events_before_the_first_label_say_nothing_however_they_come() -> None:
    stream = [{"a": 1.0, "y": None}, {"a": 2.0, "y": "up"}, {"a": 3.0, "y": "down"}]
    for every in (1, 2, 3):
        sink = MemorySink()
        with trickle(stream, every) as live:
            run(live, sink=sink)
        assert [output.value["prediction"] for output in sink.outputs] == [None, None, "up"]
        assert sink.outputs[1].value == {"prediction": None, "probabilities": {}}


@pytest.mark.parametrize("cut", [7, 3000])
def test_the_share_of_bad_events_is_judged_however_they_come(cut: int) -> None:
    good = [json.dumps(event).encode() for event in events(900)]
    stream = [*good[:495], *[b"?"] * 505, *good[495:]]
    with trickle(stream, cut) as live, pytest.raises(EngineError, match=r"505 of 1000 events"):
        run(live, max_bad_share=0.5)
    with trickle(stream, cut) as live:
        assert run(live, max_bad_share=0.505).counts.learned == 900


def test_a_run_that_was_told_where_to_stop_says_that_all_was_bad() -> None:
    with pytest.raises(InvalidInput, match="none of the 20 events can be learned from"):
        run(MemorySource([b"?"] * 50), max_events=20)


def test_predictions_are_tables_whose_classes_come_late(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    labels = ["a", "a", "b", "c", "b", "a"] * 3
    stream = [{"x": float(i % 6), "y": label} for i, label in enumerate(labels)]
    memory = MemorySink()
    run(MemorySource(stream), sink=memory)
    expected = [output.value for output in memory.outputs]
    assert [len(value["probabilities"]) for value in expected[:5]] == [0, 1, 1, 2, 3]

    run(MemorySource(stream), sink=open_sink(f"csv:{tmp_path}/out.csv"))
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["prediction"] or None, json.loads(r["probabilities"])) for r in rows] == [
        (value["prediction"], value["probabilities"]) for value in expected
    ]

    run(MemorySource(stream), sink=open_sink(f"parquet:{tmp_path}/out"))
    table = parquet.read_table(tmp_path / "out").to_pylist()
    assert [row["prediction"] for row in table] == [value["prediction"] for value in expected]
    known = [
        {k: p for k, p in (row["probabilities"] or {}).items() if p is not None} for row in table
    ]
    assert known == [value["probabilities"] for value in expected]


def test_events_before_one_that_ends_the_run_are_written() -> None:
    sink = MemorySink()
    with pytest.raises(EngineError, match=r"event at 0 offset 20 .* undecodable.*on_error"):
        run(MemorySource(bad_stream()), on_error="raise", sink=sink)
    assert [output.offset for output in sink.outputs] == list(range(20))


def test_the_model_refuses() -> None:
    stream = [{**event, "y": 1e9 * event["a"]} for event in events(2 * BATCH)]
    model = learner(loss="squared", step=Constant(1e30))
    with pytest.raises(
        EngineError, match=r"model refuses an event from 0 offset 0 to 0 offset 31: .*overflowed"
    ):
        run(MemorySource(stream), model)


def test_missing_values_are_zero_to_a_model_that_takes_none() -> None:
    stream = events(2 * BATCH)
    zeros = [{**event, "a": 0.0} if i % 3 else event for i, event in enumerate(stream)]
    nulls = [{**event, "a": None} if i % 3 else event for i, event in enumerate(stream)]
    assert same_model(run(MemorySource(zeros)).model, run(MemorySource(nulls)).model)
    with pytest.raises(InvalidInput, match="absent='missing' is for models that take missing"):
        run(MemorySource(stream), absent="missing")


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


HALF = 400


def turning() -> list[dict[str, Any]]:
    """Events whose field "a" is a number, and from the middle on a text."""
    stream = events(2 * HALF)
    for event in stream[HALF:]:
        event["a"] = "high" if event["a"] > 0 else "low"
    return stream


def test_a_number_that_turns_into_text() -> None:
    """No event is lost, the texts have columns of their own."""
    report = run(turning())
    assert report.counts.learned == 2 * HALF
    assert not report.counts.bad
    assert {"a", "a=high", "a=low"} <= set(report.model.columns or ())


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


def test_labels_past_the_most_classes_make_none(tmp_path: Path) -> None:
    """And past as many others, that a job that only predicts meets, they are one."""
    events = [{"a": n % 7, "y": f"class {n}"} for n in range(3000)]
    model = learner(max_classes=10)
    options: dict[str, Any] = {"label": "y", "checkpoint": tmp_path / "learned"}
    report = attached(MemorySource(events), model, **options).run()
    assert report.counts.learned == 10
    assert report.counts.bad == {"label out of domain": 2990}
    served = streamk.load(tmp_path / "learned")
    counts = []
    for stop in (1500, 3000):
        engine = attached(
            MemorySource(events),
            served.learner,
            label="y",
            schema=served.schema,
            fixed=Fixed(),
            checkpoint=tmp_path / "predicted",
            max_events=stop,
        )
        assert engine.run().counts.predicted == stop
        found = engine._trainer.metrics.confusion
        assert len(found.labels) == 10 + confusion.MOST_OTHERS + 1
        assert found.labels[-1] == "(others)"
        counts.append(int(found.counts.events[-1]))
    assert counts == [1500 - 1010, 3000 - 1010]


def test_classes_have_numbers_of_their_own_however_late_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confusion, "MOST_OTHERS", 2)
    found = confusion.Confusion()
    truth, answers = found.codes(list("uvwxa"), list("aaaab"), "ab")
    assert found.labels == ["u", "a", "v", "w", "(others)", "b"]
    assert truth.tolist() == [0, 2, 3, 4, 1]
    assert answers.tolist() == [1, 1, 1, 1, 5]


# --- partitions that are given anew ------------------------------------------------------------


def test_events_wanted_at_once_may_be_given_away_while_more_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rebalance empties the sequence when the loop reads on for a model that learns in rounds."""
    poll, given = Feed.poll, []

    def given_anew(self: Feed, timeout: float) -> None:
        poll(self, timeout)
        if timeout == 0.0 and self.sequencer.ready > 2000 and not given:
            given.append(self.sequencer.ready)
            for name, place in self.release().items():
                self.assign(name, place["offset"])

    monkeypatch.setattr(Feed, "poll", given_anew)
    monkeypatch.setattr(Trainer, "events_left", 6000)
    report = attached(MemorySource({"a": events(7000)}), learner(), label="y").run()
    assert given
    assert (report.events, report.counts.learned) == (7000, 7000)


# --- silence ----------------------------------------------------------------------------------


def test_a_silent_partition_does_not_stop_the_others() -> None:
    source = MemorySource({"a": [], "b": []}, live=True)
    source.extend("a", events(2 * BATCH), timestamps=list(range(2 * BATCH)))
    engine = attached(source, learner(), label="y", idle_timeout=0.05)
    out: list[Any] = []
    thread = threading.Thread(target=lambda: out.append(engine.run()))
    thread.start()
    while engine._feed.sequencer.events < 2 * BATCH:
        time.sleep(0.005)
    # It speaks up with older events: they go next, none is lost.
    source.extend("b", events(BATCH, seed=9), timestamps=list(range(BATCH)))
    source.finish()
    thread.join()
    assert out[0].events == 3 * BATCH
    assert out[0].learned == {"a": [[0, 2 * BATCH]], "b": [[0, BATCH]]}


# --- holes ------------------------------------------------------------------------------------


class LeakySource(MemorySource):
    """Retention has removed offsets below `kept` after the first poll."""

    kept = 50

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        at = self._next["0"]
        if 0 < at < self.kept:
            raise OffsetOutOfRange("gone", partition="0", offset=at)
        return super().poll(20 if at == 0 else max_events, timeout)

    def start(self, partition: str) -> int:
        return self.kept if self._next[partition] else 0


def test_gone_offsets_stop_the_run_by_default() -> None:
    with pytest.raises(
        EngineError, match=r"partition 0 .* offset 20, but holds 50 to 100: .*data_loss=.earliest"
    ):
        run(LeakySource(events(100)))


def test_gone_offsets_can_be_accepted() -> None:
    report = run(LeakySource(events(100)), data_loss="earliest")
    assert report.events == 70
    lost = {"partition": "0", "start": 20, "stop": 50, "reason": "gone from the source"}
    assert report.lost == [lost]
    report = run(LeakySource(events(100)), data_loss="latest")
    assert report.events == 20
    assert report.lost == [{**lost, "stop": 100}]


class RepeatingSource(LeakySource):
    """Says a second time, after the next seek, that an offset is gone."""

    late = 1

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        if self._next["0"] >= self.kept and self.late:
            self.late = 0
            raise OffsetOutOfRange("gone", partition="0", offset=self.kept - 5)
        return super().poll(max_events, timeout)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_an_offset_that_is_gone_is_lost_once(policy: str) -> None:
    report = run(RepeatingSource(events(100)), data_loss=policy)
    stop = 50 if policy == "earliest" else 100
    assert [(lost["start"], lost["stop"]) for lost in report.lost] == [(20, stop)]
    assert report.events == 20 + 100 - stop


# --- ends -------------------------------------------------------------------------------------


def test_max_events() -> None:
    report = run(MemorySource(events(100)), max_events=40)
    assert report.events == report.counts.learned == 40
    assert report.stopped == "max_events"
    assert run(MemorySource(events(100)), max_events=0).events == 0


def test_until_end_leaves_what_comes_later() -> None:
    source = MemorySource({"0": []}, live=True)
    source.extend("0", events(40))

    class Growing(MemorySink):
        def write(self, outputs: Any) -> None:
            super().write(outputs)
            source.extend("0", events(10))

    report = run(source, until_end=True, sink=Growing())
    assert report.events == 40
    assert report.stopped == "end"


def test_an_empty_stream_ends() -> None:
    report = run(MemorySource([]), until_end=True)
    assert report.events == 0
    assert report.schema is None
    assert report.whole == report.window == {}
    assert run(MemorySource([])).events == 0


def test_signals_stop_the_run_and_are_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    source = MemorySource({"0": []}, live=True)
    source.extend("0", events(BATCH + 5))

    class Closing(MemorySink):
        closed = False

        def close(self) -> None:
            self.closed = True

    sink = Closing()
    killer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    killer.start()
    report = run(source, sink=sink)
    assert report.stopped == "request"
    assert report.events == BATCH + 5
    assert sink.closed
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_signal_ends_the_process_at_once() -> None:
    code = """
import time
from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_sink, open_source
from engine_kit import attached, events, learner

class Stuck(MemorySink):
    def write(self, outputs):
        print("stuck", flush=True)
        time.sleep(60)

attached(MemorySource(events(100)), learner(), label="y", sink=Stuck()).run()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None  # it finishes what is at work
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"window": 0}, "window=0 must be a whole number of at least 1"),
        ({"checkpoint_every": 2.5}, "every=2.5 must be a whole number"),
        ({"max_events": "9"}, "max_events='9' must be a whole number"),
        ({"idle_timeout": -1}, "idle_timeout=-1 must be a number of seconds, at least 0"),
        ({"progress_interval": math.nan}, "progress_interval=nan must be a number of seconds"),
        ({"schema": "closed"}, "schema='closed' must be one of open, strict"),
        ({"absent": "nan"}, "absent='nan' must be one of zero, missing"),
        ({"on_error": "ignore"}, "on_error='ignore' must be one of raise, skip, dead-letter"),
        ({"on_error": "dead-letter"}, "go together"),
        ({"on_error": "skip", "dead_letters": MemorySink()}, "go together"),
        ({"data_loss": "ignore"}, "data_loss='ignore' must be one of"),
        ({"schema": Schema(("a",), label="z", label_type="str")}, "label='y', but the schema's"),
    ],
)
def test_options_are_checked(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        run(MemorySource(events(10)), **options)


# --- river ----------------------------------------------------------------------------------------

N = 120


def river_events(task: str, seed: int = 0) -> list[dict[str, Any]]:
    """Numbers, seconds since 1970, texts, missing values, a text of many values, late fields."""
    rng = random.Random(seed)
    made: list[dict[str, Any]] = []
    for i in range(N):
        x: dict[str, Any] = {
            "time": 1.7e9 + 60.0 * i + rng.random(),
            "b": rng.gauss(0, 1) if rng.random() < 0.9 else None,
            "a": rng.randrange(5),
            "colour": rng.choice(["red", "green", "blue", None]),
            "who": f"user {rng.randrange(400)}",
            "late": rng.gauss(0, 1) if i > N // 2 else None,
        }
        signal = (x["b"] or 0.0) + (x["colour"] == "red") - 0.5 * (x["a"] > 2)
        if task == "regression":
            x["y"] = signal + rng.gauss(0, 0.1)
        elif task == "booleans":
            x["y"] = None if i % 7 == 3 or i < 2 else signal > 0.5
        else:
            x["y"] = "up" if signal > 0.5 else "down" if signal < -0.5 else "level"
        made.append(x)
    return made


def source(form: str, stream: list[dict[str, Any]], directory: Path) -> Any:
    if form == "dict":
        return MemorySource(stream)
    if form == "json":
        return MemorySource([json.dumps(event).encode() for event in stream])
    if form == "csv":
        path = directory / "events.csv"
        text = io.StringIO()
        writer = csv.DictWriter(text, stream[0])
        writer.writeheader()
        writer.writerows(stream)
        path.write_text(text.getvalue())
        return open_source(f"csv:{path}")
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    path = directory / "events.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(stream), path)
    return open_source(f"parquet:{path}")


def by_river(model: Any, stream: list[dict[str, Any]]) -> Iterator[tuple[Any, dict[Any, float]]]:
    """Predict, then learn, as `river.evaluate.progressive_val_score` does."""
    for event in stream:
        x = dict(event)
        y = x.pop("y")
        regression = isinstance(model, base.Regressor)
        yield model.predict_one(x), {} if regression else model.predict_proba_one(x)
        if y is not None:
            model.learn_one(x, y)


OPTIONS = {"max_features": 256, "block_size": 256}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "many": ("multi-kernel", "Kernel", {}),
    "one": ("doubly-stochastic", "DoublyStochastic", OPTIONS),
}


night = pytest.mark.nightly


@pytest.mark.parametrize(
    ("form", "task", "of"),
    [
        ("dict", "classification", "one"),
        ("json", "regression", "one"),
        ("csv", "classification", "one"),
        ("parquet", "regression", "one"),
        ("json", "classification", "many"),
        ("json", "booleans", "one"),
        pytest.param("csv", "regression", "many", marks=night),
        pytest.param("dict", "regression", "many", marks=night),
        pytest.param("parquet", "classification", "many", marks=night),
    ],
)
def test_predictions_and_model_are_those_of_rivers_loop(
    form: str, task: str, of: str, tmp_path: Path
) -> None:
    name, family, options = MODELS[of]
    stream, sink = river_events(task), MemorySink()
    kind = "regression" if task == "regression" else "classification"
    model = create(name, task=kind, seed=0, **options)
    report = attached(source(form, stream, tmp_path), model, label="y", sink=sink).run()
    kind = "Regressor" if task == "regression" else "Classifier"
    twin = getattr(river, family + kind)(seed=0, **options)
    for output, (predicted, shares) in zip(sink.outputs, by_river(twin, stream), strict=True):
        assert output.value["prediction"] == predicted
        if task == "booleans":
            shares = {str(label).lower(): p for label, p in shares.items()}
        assert output.value.get("probabilities", {}) == shares
    assert twin._model.learner.columns == report.schema.columns
    assert same_model(twin._model.learner, report.model)
    assert report.model.classes == (False, True) or task != "booleans"
