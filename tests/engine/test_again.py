"""A run whose outputs are taken back goes back and does them again, as if nothing had happened."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, learner, same_model

from connectors.base import Output
from connectors.errors import Aborted
from connectors.memory import MemorySource
from connectors.registry import open_sink
from streamk.contest import Contest
from streamk.distributed import Sharded
from streamk.engine import Report
from streamk.late import LateLabels
from streamk.learners import MultiKernel, create

N = 400


class AbortingSink:
    """A file whose writes and marks fail at random, as those of a transaction that is aborted."""

    def __init__(self, path: Path, seed: int | None) -> None:
        self._inner = open_sink(f"file:{path}")
        self._random = None if seed is None else random.Random(seed)
        self.rewind, self.flush, self.close = (
            self._inner.rewind,
            self._inner.flush,
            self._inner.close,
        )
        self.aborted = 0

    def _abort(self) -> None:
        if self._random is not None and self._random.random() < 0.2:
            self.aborted += 1
            raise Aborted("as the test wants")

    def write(self, outputs: Sequence[Output]) -> None:
        self._inner.write(outputs)
        self._abort()

    def mark(self) -> Any:
        self._abort()
        return self._inner.mark()


def plain() -> tuple[Any, dict[str, Any]]:
    return MemorySource(events(N)), {}


def late() -> tuple[Any, dict[str, Any]]:
    clicks = events(N)
    source = MemorySource([{k: one[k] for k in ("a", "b", "id")} for one in clicks])
    labels = MemorySource([{k: one[k] for k in ("id", "y")} for one in clicks])
    return source, {"labels": LateLabels(labels, key="id"), "ignore": ()}


STREAMS = {"plain": plain, "late": late}
MODELS = {
    "kernel": learner,
    "pool": lambda: MultiKernel(seed=1),
    "shards": lambda: Sharded(learner(), shards=2, round_events=16),
    "contest": lambda: Contest(
        {"one": learner(), "two": create("online-nystrom", task="classification")}
    ),
}


def run(tmp_path: Path, stream: str, model: str, seed: int | None) -> tuple[Report, bytes, int]:
    source, options = STREAMS[stream]()
    path = tmp_path / f"{seed}.ndjson"
    sink: Any = AbortingSink(path, seed)
    options = {
        "label": "y",
        "ignore": ("id",),
        "sink": sink,
        "checkpoint": tmp_path / f"state-{seed}",
        "checkpoint_every": 48,
        "metrics": ("F1=up",),
        **options,
    }
    report = attached(source, MODELS[model](), **options).run()
    return report, path.read_bytes(), sink.aborted


@pytest.mark.parametrize(
    ("stream", "model"),
    [("plain", name) for name in MODELS] + [("late", name) for name in ("kernel", "pool")],
)
def test_nothing_shows_that_it_went_back(tmp_path: Path, stream: str, model: str) -> None:
    expected, right, _ = run(tmp_path, stream, model, None)
    found, written, aborted = run(tmp_path, stream, model, 5)
    assert aborted > 2
    assert written == right
    assert found.counts == expected.counts
    assert found.fates == expected.fates
    assert found.whole == expected.whole
    assert found.history == expected.history
    assert found.learned == expected.learned
    assert same_model(found.model, expected.model)
