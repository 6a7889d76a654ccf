"""Crashes, outputs taken back, stops, batches and watching leave no trace in any kind of job.

Its model, outputs, alarms, dead letters and figures are those of a run that nothing disturbs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import (
    Always,
    Crash,
    CrashingSink,
    CrashingSource,
    WhimsicalSource,
    attached,
    learner,
    split,
)
from late_kit import streams
from multi_kernel_kit import pool_alone

from connectors.errors import Aborted
from connectors.memory import MemorySink
from streamk.contest import Contest
from streamk.distributed import Sharded
from streamk.engine import Engine, Report, loop
from streamk.engine.evaluation.slices import OTHERS
from streamk.late import LateLabels
from streamk.learners import FeatureMachine, create
from streamk.packing import fingerprint

Others = dict[str, MemorySink]


def others() -> Others:
    """The sinks beside that of predictions."""
    return {"alarms": MemorySink(), "dead_letters": MemorySink()}


@dataclass
class Kind:
    """A kind of job: its model, its events with their times, and its options."""

    model: Callable[[], Any]
    data: Callable[[], tuple[dict[str, Any], dict[str, Any]]]
    labels: Callable[[], tuple[dict[str, Any], dict[str, Any]]] | None = None
    late: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def engine(self, sink: Any, others: Others, whim: int = 0, **more: Any) -> Engine:
        """The job, with a source that polls at whim and may crash."""
        data, times = self.data()
        source = CrashingSource(data, timestamps=times, whim=whim)
        source.left = more.pop("left", source.left)
        options = {"label": "y", "max_skew": float("inf"), **self.options, **more}
        if self.labels is not None:
            data, times = self.labels()
            of_labels = WhimsicalSource(data, timestamps=times, whim=whim + 1)
            options["labels"] = LateLabels(of_labels, key="id", **self.late)
        return attached(source, self.model(), sink=sink, **others, **options)


def of_three() -> tuple[dict[str, Any], dict[str, Any]]:
    """Partitions of which later events have new texts, some no label, and one is a bad one.

    One field turns from a number into a text.
    """
    data, times = split(400, 3)
    for one in (event for some in data.values() for event in some):
        one["part"] = f"p{one['id'] % 41}"
        one["turns"] = one["id"] if one["id"] < 200 else f"t{one['id'] % 3}"
        if one["id"] % 3 and one["id"] > 150:
            one["later"] = f"t{one['id'] % 7}"
        if one["id"] % 11 == 5:
            del one["y"]
        if one["id"] == 207:
            one["a"] = float("inf")
    return data, times


def numbers() -> tuple[dict[str, Any], dict[str, Any]]:
    """The same with a number as the label."""
    data, times = of_three()
    parts = {p: [{**e, "y": e["a"] * e["b"]} for e in some] for p, some in data.items()}
    return parts, times


def skewed() -> tuple[dict[str, Any], dict[str, Any]]:
    """The same where of one partition every third record is 50 minutes ahead."""
    data, times = of_three()
    times["t:1"] = [at + 3_000_000 * (n % 3 == 2) for n, at in enumerate(times["t:1"])]
    return data, times


LONG = ("x" * 5000, "\x01" * 2000, "\U0001d518" * 2000, '"=.\\' * 500)
"""Beginnings of names that come out of events: long, of control characters, of four bytes each."""


def long_names() -> tuple[dict[str, Any], dict[str, Any]]:
    """Events each of which has a new text, with names, labels, slices and keys as long."""
    made = []
    for n in range(240):
        text = LONG[n % 4]
        event = {"new": f"{text}{n}", f"{text}{n % 30}": n % 7, "a": (n * 7) % 11}
        event |= {"slice": f"{text}{n % 30}", "id": f"{text}{n}", "number": n % 5}
        made.append({**event, "y": f"{text}{n % 40}" if n % 2 else "other"})
    return {"p": made}, {"p": range(0, 2400, 10)}


def long_events() -> tuple[dict[str, Any], dict[str, Any]]:
    data, times = long_names()
    return {"p": [{k: v for k, v in one.items() if k != "y"} for one in data["p"]]}, times


def long_labels() -> tuple[dict[str, Any], dict[str, Any]]:
    """Labels of half of the events, and that of the last one early."""
    labels = [{"id": one["id"], "y": one["y"]} for one in long_names()[0]["p"]]
    return {"p": [*labels[:3], labels[-1], *labels[3:120]]}, {"p": range(5, 2400, 10)[:121]}


def changing() -> tuple[dict[str, Any], dict[str, Any]]:
    """One column shifts, and for events of one side the classes change places."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    X[2000:, 1] += 1.5
    y = X[:, 0] + 0.3 * rng.normal(size=len(X)) > 0
    y[3000:] ^= X[3000:, 1] > 1.5
    rows = zip(X.tolist(), y.tolist(), strict=True)
    return {"p": [{"a": a, "b": b, "y": label} for (a, b), label in rows]}, {"p": range(4000)}


def of_late(task: str, which: int) -> Callable[[], tuple[dict[str, Any], dict[str, Any]]]:
    """Return what gives the events (0) or the labels (1) of a stream whose labels come late."""

    def given() -> tuple[dict[str, Any], dict[str, Any]]:
        some = streams(task)[which]
        return {"p": [value for _, value in some]}, {"p": [at for at, _ in some]}

    return given


def late(task: str, model: Callable[[], Any], late: dict[str, Any], **options: Any) -> Kind:
    region = {"prediction_set" if task == "classification" else "interval": 0.8}
    options = {"slice": "part", **region, **options}
    return Kind(model, of_late(task, 0), of_late(task, 1), late, options)


def small(task: str = "classification", **options: Any) -> Any:
    options = {"block_size": 64, "max_features": 64, **options}
    return create("doubly-stochastic", task=task, **options)


def several() -> Contest:
    """The champion learns next to nothing, so that another one is promoted."""
    worse = small(kernel="linear", step=1e-6)
    near = create("online-nystrom", task="classification", max_landmarks=16)
    return Contest({"first": worse, "small": small(), "near": near}, promote_after=60)


NO_ID = {"ignore": ("id",)}
KINDS: dict[str, Kind] = {
    "plain": Kind(learner, of_three, options={"metrics": ("F1=up",), "until_end": True, **NO_ID}),
    "machine": Kind(
        lambda: FeatureMachine(buffer_size=100, first=64, every=100, swap_delay=32),
        lambda: split(400, 3),
        options=NO_ID,
    ),
    "pool": Kind(
        lambda: pool_alone(seed=1, external_experts=[learner()]),
        of_three,
        options={"slice": "part", "prediction_set": 0.8, "explain": True, **NO_ID},
    ),
    "numbers": Kind(
        lambda: pool_alone(seed=1, task="regression"),
        numbers,
        options={"slice": "part", "interval": 0.8, **NO_ID},
    ),
    "contest": Kind(several, of_three, options={"ignore": ("id", "part", "later", "turns")}),
    "shards": Kind(lambda: Sharded(learner(), shards=2, round_events=16), of_three, options=NO_ID),
    "alarms": Kind(small, changing, options={"prediction_set": 0.9}),
    "skewed": Kind(learner, skewed, options={"max_skew": 60.0, **NO_ID}),
    "long names": Kind(
        learner,
        long_names,
        options={"slice": "slice", "prediction_set": 0.9, "metrics": ("MacroF1",)},
    ),
    "long numbers": Kind(
        lambda: learner(loss="squared"),
        long_names,
        options={"label": "number", "slice": "slice", "interval": 0.9},
    ),
    "long contest": Kind(
        lambda: Contest({"one": learner(), "two": learner(max_features=64)}), long_names
    ),
    "long late": Kind(learner, long_events, long_labels, options={"slice": "slice"}),
    "late pool": late(
        "classification",
        lambda: pool_alone(seed=1),
        {"timeout": 0.1, "default": "low", "revisions": "learn"},
    ),
    "late numbers": late("regression", lambda: pool_alone(seed=1, task="regression"), {}),
    "late sets": late("classification", small, {"held_events": 9}),
    "late shards": late(
        "regression", lambda: Sharded(small("regression"), shards=2, round_events=8), {}
    ),
}
every_kind = pytest.mark.parametrize("name", KINDS)


def traces(report: Report, sink: MemorySink, beside: Others) -> dict[str, Any]:
    """All that a job leaves."""
    left_out = ("model", "seconds", "events_now", "epoch", "stopped", "notes", "confusion")
    return {
        **{f"report {name}": one for name, one in vars(report).items() if name not in left_out},
        "confusion": report.confusion.to_json(),
        "model": fingerprint(report.model.state()),
        "outputs": sink.outputs,
        **{name: one.outputs for name, one in beside.items()},
    }


@cache
def undisturbed(name: str) -> dict[str, Any]:
    sink, beside = MemorySink(), others()
    return traces(KINDS[name].engine(sink, beside).run(), sink, beside)


def test_the_jobs_have_all_that_there_is() -> None:
    assert {one.value["kind"] for one in undisturbed("alarms")["alarms"]} >= {
        *("error", "covariate_drift")
    }
    assert OTHERS in undisturbed("pool")["report slices"]
    assert undisturbed("plain")["report counts"].bad == {"inf": 1}
    assert len(undisturbed("plain")["dead_letters"]) == 1
    assert undisturbed("skewed")["report skewed"]
    fates = undisturbed("late pool")["report fates"]
    assert min(fates.joined, fates.early, fates.defaulted, fates.revised) > 0
    assert min(undisturbed("late sets")["report fates"].overflow, fates.duplicate_events) > 0
    model = KINDS["contest"].engine(MemorySink(), others()).run().model
    assert model.promotions


@every_kind
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, 12))]
)
def test_crashes(name: str, seed: int, tmp_path: Path) -> None:
    """In writes, polls and commits."""
    rng, n = random.Random(f"{name} {seed}"), undisturbed(name)["report events"]
    sink, beside = CrashingSink(), others()
    commits: dict[str, tuple[int, str]] = {}
    crashes = 0
    while True:
        sink.left, left = 10**9, 10**9
        if crashes < 6:  # the first ones early, where there surely are so many writes and polls
            writes, polls = (4, 6) if crashes < 2 else (n // 40, n // 20)
            if rng.random() < 0.5:
                sink.left = rng.randrange(writes)
            else:
                left = rng.randrange(2, polls)
        whim, every = rng.randrange(100), n // rng.choice((3, 9))
        options = {"checkpoint": tmp_path, "checkpoint_every": every, "left": left}
        engine = KINDS[name].engine(sink, beside, whim, **options)
        engine._source.commits = commits  # the group's own memory
        try:
            report = engine.run()
            break
        except Crash:
            crashes += 1
    assert crashes >= 2
    assert traces(report, sink, beside) == undisturbed(name)


class AbortingSink(MemorySink):
    """Its writes and marks fail now and then, as those of a transaction that is aborted."""

    aborted = 0
    _calls = 0
    _next = 2

    def _abort(self) -> None:
        self._calls += 1
        if self._calls == self._next:
            self.aborted += 1
            # Later each time, so that something is committed between any two in the end.
            self._next += 3 * 2 ** (self.aborted - 1)
            raise Aborted("as the test wants")

    def write(self, outputs: Any) -> None:
        super().write(outputs)
        self._abort()

    def mark(self) -> int:
        self._abort()
        return super().mark()


@every_kind
def test_outputs_that_are_taken_back(name: str, tmp_path: Path) -> None:
    """The run goes back and does them again."""
    sink, beside = AbortingSink(), others()
    every = undisturbed(name)["report events"] // 9
    options = {"checkpoint": tmp_path, "checkpoint_every": every}
    report = KINDS[name].engine(sink, beside, **options).run()
    assert sink.aborted > 2
    assert traces(report, sink, beside) == undisturbed(name)


@every_kind
def test_stops(name: str, tmp_path: Path) -> None:
    """At the first events of all, and amid a batch."""
    sink, beside = MemorySink(), others()
    for most in (1, 2, 57, 207, None):
        engine = KINDS[name].engine(sink, beside, 3, checkpoint=tmp_path, max_events=most)
        report = engine.run()
    assert traces(report, sink, beside) == undisturbed(name)


@every_kind
@pytest.mark.parametrize("most", [7, pytest.param(1, marks=pytest.mark.nightly)])
def test_batches(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_MOST", most)
    sink, beside = MemorySink(), others()
    report = KINDS[name].engine(sink, beside, most).run()
    assert traces(report, sink, beside) == undisturbed(name)


@pytest.mark.parametrize("name", ["plain", "contest", "late pool"])
def test_a_clock_of_the_machine_that_jumps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is set anew between any two looks, by up to forty years."""
    rng, expected = random.Random(1), undisturbed(name)
    monkeypatch.setattr(time, "time", lambda: rng.uniform(0.0, 2.5e9))
    monkeypatch.setattr(time, "time_ns", lambda: int(rng.uniform(0.0, 2.5e18)))
    sink, beside = MemorySink(), others()
    report = KINDS[name].engine(sink, beside, 4).run()
    assert traces(report, sink, beside) == expected


@every_kind
def test_watching(name: str) -> None:
    sink, beside, observer = MemorySink(), others(), Always()
    report = KINDS[name].engine(sink, beside, 5, observer=observer).run()
    assert traces(report, sink, beside) == undisturbed(name)
    assert observer.version > 1 or name.startswith("long")  # which has few batches


@pytest.mark.parametrize("name", ["numbers", "late pool", "late sets", "late shards"])
def test_reasons(name: str) -> None:
    sink, beside = MemorySink(), others()
    report = KINDS[name].engine(sink, beside, explain=True).run()
    for output in sink.outputs:
        output.value.pop("reasons")
    assert traces(report, sink, beside) == undisturbed(name)
