"""Records that are read and not counted are an error of streamk, and end the run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from engine_kit import attached, events, learner

from connectors.memory import MemorySource
from streamk.engine.training.trainer import Trainer
from streamk.errors import EngineError
from streamk.late import LateLabels
from streamk.late.join import Join

WORDS = "are counted, which is an error of streamk"


def test_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = Trainer._decode

    def losing(self: Trainer, batch: Any) -> Any:
        decoded, tombstones = decode(self, batch)
        return replace(decoded, bad=[]), tombstones

    some = [*events(20), {"y": [1]}, {"y": [2]}]
    assert attached(MemorySource(some), learner(), label="y").run().counts.n_bad == 2
    monkeypatch.setattr(Trainer, "_decode", losing)
    with pytest.raises(EngineError, match=rf"of 22 records from .* offset 21 20 {WORDS}"):
        attached(MemorySource(some), learner(), label="y").run()


@pytest.mark.parametrize("side", ["event", "label"])
def test_of_late_labels(monkeypatch: pytest.MonkeyPatch, side: str) -> None:
    some = [{"id": str(n), **event} for n, event in enumerate(events(20))]
    labels = [{"id": event["id"], "y": event.pop("y")} for event in some]

    def run() -> Any:
        late = LateLabels(MemorySource(labels), key="id")
        return attached(MemorySource(some), learner(), label="y", labels=late).run()

    assert run().counts.learned == 20
    real = getattr(Join, side)

    def losing(self: Join, key: str, *arguments: Any) -> Any:
        return [] if key == "7" else real(self, key, *arguments)

    monkeypatch.setattr(Join, side, losing)
    with pytest.raises(EngineError, match=f"of 40 records of events and labels 39 {WORDS}"):
        run()
