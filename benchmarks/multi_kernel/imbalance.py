"""Decisions by the probabilities, and by `class_weight="balanced"`, where some classes are rare.

The learner learns the same with weights and without, so one run gives both decisions: the most
probable class of each event, and the one with the largest product of probability and weight.
Balanced accuracy is the mean of the classes' recalls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.multi_kernel import direct
from benchmarks.multi_kernel.direct import EVENTS, Direct
from benchmarks.river_battery import scores
from benchmarks.river_battery.streams import KDD99, Event, Stream, load
from streamk.learners import MultiKernel

_QUICK = 150
STREAMS = {
    "gmsc": EVENTS,
    "a9a": EVENTS,
    "covtype_subset93k": EVENTS,
    "rialto": EVENTS,
    "kdd99_10pct": KDD99,
    "Agrawal": EVENTS,
}
"""Their first events; those of kdd99 are the battery's, most of its classes come late."""
DECISIONS = ("default", "balanced")


class _Weighed(Direct):
    """Keeps what is decided by the weights; -1 where nothing was said."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream, partial(MultiKernel, class_weight="balanced"))
        self.decided: list[int] = []

    def predict_proba_one(self, x: Event) -> Mapping[Any, float] | None:
        answer = super().predict_proba_one(x)
        if answer:
            best = self.model.choices(np.array([list(answer.values())]))[0]
            self.decided.append(int(list(answer)[best]))
        else:
            self.decided.append(-1)
        return answer


def streams(directory: str | None, *, quick: bool) -> list[Stream]:
    """The first events of each stream."""
    sizes = dict.fromkeys(STREAMS, _QUICK) if quick else STREAMS
    return [load(name, directory, quick=quick, events=n) for name, n in sizes.items()]


def measure(streams: Sequence[Stream]) -> dict[str, Any]:
    """Scores of both decisions by stream."""
    return {"streams": {stream.name: _measured(stream) for stream in streams}}


def _measured(stream: Stream) -> dict[str, Any]:
    model = _Weighed(stream)
    outcome = direct.run(model, stream, 0)
    weighed = replace(outcome, guess=np.array(model.decided, dtype=outcome.guess.dtype))
    counts = np.unique(stream.y, return_counts=True)[1]
    found: dict[str, Any] = {
        "events": len(stream),
        "classes": len(counts),
        "rarest": int(counts.min()),
        "commonest": float(f"{counts.max() / len(stream):.5g}"),
    }
    for name, one in zip(DECISIONS, (outcome, weighed), strict=True):
        figures = scores.figures(one, stream, 0)
        found[name] = {key: figures[key] for key in ("accuracy", "balanced_accuracy")}
    common.note(f"  {stream.name}: {outcome.seconds:.1f} s")
    return found


def render(found: Mapping[str, Any]) -> str:
    """A line for each stream."""
    header = ["decisions, %", "events", "classes", "commonest", "rarest"]
    header += ["accuracy", "weighed", "balanced", "weighed"]
    rows = []
    for name, one in found["streams"].items():
        cells = [one[d][k] for k in ("accuracy", "balanced_accuracy") for d in DECISIONS]
        about = [f"{one['events']:,}", str(one["classes"]), f"{100 * one['commonest']:.1f}%"]
        about.append(f"{one['rarest']:,}")
        rows.append([name, *about, *(f"{100 * cell:.2f}" for cell in cells)])
    return common.table(header, rows)
