"""The multi-kernel learner against itself under everything that must change nothing: pieces,
threads, stops and restarts; and what it remembers of its predictions until their labels come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import attached
from multi_kernel_kit import KINDS, learned, make, pool_alone, stream
from state_kit import assert_same

from connectors.memory import MemorySink, MemorySource
from streamk.engine.checkpoints.reading import read_checkpoint
from streamk.learners import create, from_state

# --- what is said and learned later ---------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_of_other_events_change_nothing(kind: str) -> None:
    X, y = stream(kind, 300)
    others, _ = stream(kind, 300, seed=7)
    silent, asked = make(kind), make(kind)
    for i in range(300):
        if i % 5 == 4:
            asked.decision_one(X[i])
        if i > 0:
            asked.decision_one(others[i])
            asked.decision_many(others[i : i + 3])
        silent.learn_one(X[i], y[i])
        asked.learn_one(X[i], y[i])
    assert_same(silent, asked)


def test_memory_of_what_was_said_is_bounded() -> None:
    model = learned("four", 50, pending_bytes=50_000)
    before = model.nbytes
    X, _ = stream("four", 5000, seed=3)
    model.decision_many(X[:2500])
    for x in X[2500:]:
        model.decision_one(x)
    assert 40_000 < model._mixture.pending.nbytes <= 50_000
    assert model.nbytes <= before + 50_000


def test_what_is_kept_is_not_a_view_of_more() -> None:
    """A row of a large answer would keep the whole answer in memory."""
    model = learned("two", 50, pending_bytes=10_000)
    X, _ = stream("two", 5000, seed=3)
    model.decision_many(X)
    held = {id(a if a.base is None else a.base): (a if a.base is None else a.base).nbytes
            for kept in model._mixture.pending._kept.values()
            for a in (kept.scores, kept.known)}  # fmt: skip
    assert sum(held.values()) <= 10_000


@pytest.mark.parametrize("kind", KINDS)
def test_a_forgotten_opinion_still_learns(kind: str) -> None:
    X, y = stream(kind, 300)
    model = make(kind, pending_bytes=0)
    for i in range(300):
        model.decision_one(X[i])
        if i >= 48:
            model.learn_one(X[i - 48], y[i - 48])
    # Only the last opinion is kept, so all others were made anew.
    silent = make(kind, pending_bytes=0)
    silent.learn_many(X[: 300 - 48], y[: 300 - 48])
    assert_same(silent, model)


# --- stops and restarts ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_learner_of_few_columns_takes_new_ones_exactly(kind: str) -> None:
    """Its tables have all the cells that two columns can have, though not yet the most."""
    X, y = stream(kind, 120, d=4)
    model = make(kind, threads=1)
    model.learn_many(X[:100, :2], y[:100])
    again, one_by_one = from_state(model.state()), from_state(model.state())
    for one in (model, again, one_by_one):
        one.add_columns(["c", "d"])
    model.learn_many(X[100:], y[100:])
    again.learn_many(X[100:], y[100:])
    for x, label in zip(X[100:], y[100:], strict=True):
        one_by_one.learn_one(x, label)
    assert_same(model, again)
    assert_same(model, one_by_one)


# --- in the engine --------------------------------------------------------------------------------


def engine_events(kind: str, n: int) -> list[dict[str, Any]]:
    X, y = stream(kind, n)
    events = []
    for i in range(n):
        event = {"a": X[i, 0], "b": X[i, 1], "c": "xyz"[i % 3], "y": y[i]}
        if i > n // 2:
            event["late"] = X[i, 2]
        if i % 10 == 7:
            del event["y"]  # predicted, never learned
        events.append(event)
    return events


class Crash(Exception):
    pass


class CrashingSink(MemorySink):
    left = 10**9

    def write(self, outputs: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash
        super().write(outputs)


MEKA = {"rank": 4, "n_clusters": 3, "first": 40, "swap_delay": 15}


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        *(("multi-kernel", kind, {"external_experts": (), "seed": 2}) for kind in KINDS),
        ("streaming-meka", "four", MEKA),
    ],
)
def test_the_engine_goes_on_exactly_after_crashes(
    name: str, kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    task = "regression" if kind == "numbers" else "classification"
    events = engine_events(kind, 400)

    def run(directory: Path | None, sink: MemorySink) -> Any:
        return attached(
            MemorySource(events),
            create(name, task=task, **options),
            label="y",
            until_end=True,
            checkpoint=directory,
            checkpoint_every=48,
            sink=sink,
        ).run()

    whole, sink = MemorySink(), CrashingSink()
    expected = run(None, whole).model
    crashes = 0
    for left in (3, 2, 1, 2, 10**9):
        sink.left = left
        try:
            found = run(tmp_path, sink).model
        except Crash:
            crashes += 1
    assert crashes == 4
    assert_same(found, expected)
    assert sink.outputs == whole.outputs
    (newest, *_) = sorted((tmp_path / "member-0").glob("0*[0-9]"), reverse=True)
    read = from_state(read_checkpoint(newest).model)
    assert_same(read, expected)


# --- options --------------------------------------------------------------------------------------


def test_intervals_learn_from_the_predictions_that_were_made() -> None:
    # Labels that wander: 20 events later the error is larger than at once.
    y = np.cumsum(np.random.default_rng(0).normal(size=1_500))
    X = np.random.default_rng(1).normal(size=(len(y), 2))
    widths = []
    for delay in (1, 20):
        model = pool_alone(task="regression", seed=1)
        for first in range(0, len(y), delay):
            some = slice(first, first + delay)
            interval = model.predict_interval_many(X[some])
            model.learn_many(X[some], y[some])
        widths.append(float((interval[:, 1] - interval[:, 0]).mean()))
    assert widths[1] > 1.5 * widths[0]
