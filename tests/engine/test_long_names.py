"""Names that come out of events, of any length and number: every checkpoint can be gone on from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, learner, same_model

import streamk
from connectors.memory import MemorySource
from streamk.contest import Contest
from streamk.engine import Engine, Fixed
from streamk.engine.evaluation import confusion
from streamk.late import LateLabels

EVENTS = 100
TEXTS = {
    "long": "x" * 5000,
    "control characters": "\x01" * 2000,
    "of four bytes": "\U0001d518" * 2000,
    "quotes and dots": '"=.\\' * 500,
}


def stream(text: str) -> list[dict[str, Any]]:
    """Events each of which has a new text, with names, labels, slices and keys as long."""
    return [
        {
            "new": f"{text}{n}",
            f"{text}{n % 30}": n % 7,
            "a": (n * 7) % 11,
            "slice": f"{text}{n % 30}",
            "key": f"{text}{n}",
            "y": f"{text}{n % 40}" if n % 2 else "other",
            "number": n % 5,
        }
        for n in range(EVENTS)
    ]


def classes(text: str, **more: Any) -> Engine:
    options: dict[str, Any] = {"label": "y", "slice": "slice", "prediction_set": 0.9, **more}
    return attached(MemorySource(stream(text)), learner(), metrics=("MacroF1",), **options)


def numbers(text: str, **more: Any) -> Engine:
    model = learner(loss="squared")
    options: dict[str, Any] = {"label": "number", "slice": "slice", "interval": 0.9, **more}
    return attached(MemorySource(stream(text)), model, **options)


def challengers(text: str, **more: Any) -> Engine:
    model = Contest({"one": learner(), "two": learner(max_features=64)})
    return attached(MemorySource(stream(text)), model, label="y", **more)


def late(text: str, **more: Any) -> Engine:
    whole = stream(text)
    events = [{name: event[name] for name in event if name != "y"} for event in whole]
    labels = [{"key": event["key"], "y": event["y"]} for event in whole]
    joined = LateLabels(MemorySource(labels[-1:] + labels[: EVENTS // 2]), "key")
    options: dict[str, Any] = {"label": "y", "slice": "slice", "labels": joined, **more}
    return attached(MemorySource(events), learner(), **options)


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("job", [classes, numbers, challengers, late])
def test_a_job_goes_on(job: Callable[..., Engine], text: str, tmp_path: Path) -> None:
    whole = job(text)
    expected = whole.run()
    for events in (40, 80, 2 * EVENTS):
        engine = job(text, checkpoint=tmp_path, checkpoint_every=30, max_events=events)
        report = engine.run()
    assert report.counts == expected.counts
    assert same_model(engine._trainer.model, whole._trainer.model)
    assert engine._trainer.to_json()["metrics"] == whole._trainer.to_json()["metrics"]


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
