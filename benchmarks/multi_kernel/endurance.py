"""Millions of events in batches, predicted, then learned, with stretches of trouble in turn.

The times are those of the learner alone. Memory is that of a process in which nothing else runs,
which is why `measure` starts one. At the start it has learned one batch; pages of tables that no
event has come to yet take none.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.multi_kernel.trouble import COLUMNS, FULL, NOISE, QUICK, TROUBLES, Moving, Plan
from benchmarks.river_battery.contestant import SEED
from streamk.engine.progress import process_bytes
from streamk.learners import MultiKernel

_TENTHS = 10


def measure(*, quick: bool) -> dict[str, Any]:
    """What a process of its own finds, after another one has compiled what it needs."""
    found = _process("--quick")
    return found if quick else _process()


def _process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", __spec__.name, *arguments]
    done = subprocess.run(command, cwd=common.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def endure(plan: Plan) -> dict[str, Any]:
    """All events of a plan through one learner."""
    model = MultiKernel(
        seed=SEED, columns=range(COLUMNS), classes=(False, True), external_experts=()
    )
    stream, right = Moving(plan, SEED), np.full(plan.events, False)  # all of its pages are there
    watch, clock = _Watch(), _Clock(model, plan)
    while stream.position < plan.events:
        first = stream.position
        X, y = stream.take(min(plan.batch, plan.events - first))
        began = time.perf_counter()
        P = model.predict_proba_many(X)
        model.learn_many(X, y)
        clock.passed(stream.position, time.perf_counter() - began)
        watch.see(P)
        right[first : stream.position] = (P[:, 1] > 0.5) == y
    return {
        "events": plan.events,
        "events_per_s": round(plan.events / clock.seconds, 1),
        "tenths": clock.tenths,
        "probabilities": watch.figures(),
        "accuracy": float(f"{right.mean():.5g}"),
        "stretches": [_stretch(right, plan, start, name) for start, name in plan.stretches()],
    }


class _Watch:
    """The extremes of all probabilities."""

    def __init__(self) -> None:
        self._least, self._most, self._apart, self._odd = 1.0, 0.0, 0.0, 0

    def see(self, P: NDArray[np.float64]) -> None:
        self._odd += int((~np.isfinite(P)).sum())
        self._least, self._most = min(self._least, float(P.min())), max(self._most, float(P.max()))
        self._apart = max(self._apart, float(np.abs(P.sum(axis=1) - 1.0).max()))

    def figures(self) -> dict[str, float]:
        return {
            "smallest": self._least,
            "largest": self._most,
            "sum_less_one": self._apart,
            "not_finite": self._odd,
        }


class _Clock:
    """Seconds of the learner, with a look at its memory after the first batch and each tenth."""

    def __init__(self, model: MultiKernel, plan: Plan) -> None:
        self._model, self._plan = model, plan
        self.seconds = self._before = 0.0
        self._events = 0
        self.tenths: list[dict[str, Any]] = []

    def passed(self, events: int, seconds: float) -> None:
        self.seconds += seconds
        if events < self._plan.events * len(self.tenths) / _TENTHS:
            return
        rate = (events - self._events) / (self.seconds - self._before)
        self._events, self._before = events, self.seconds
        look = {
            "events": events,
            "events_per_s": round(rate, 1),
            "resident_bytes": process_bytes(),
            "nbytes": self._model.nbytes,
        }
        self.tenths.append(look)
        common.note(f"  {events:,} events: {rate:,.0f}/s, {look['resident_bytes'] / 2**20:.1f} MiB")


def _stretch(right: NDArray[np.bool_], plan: Plan, start: int, name: str) -> dict[str, Any]:
    stop = start + plan.length
    parts = {
        "before": right[start - plan.around : start],
        "during": right[start:stop],
        "after": right[stop : stop + plan.around],
    }
    return {"first": start, "trouble": name} | {
        when: float(f"{part.mean():.5g}") for when, part in parts.items()
    }


# --- tables -------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Speed and memory, probabilities, and accuracy around each kind of trouble."""
    tenths = found["tenths"]
    rows = [
        [
            title,
            f"{look['events_per_s']:,.0f}" if look is not tenths[0] else "-",
            f"{look['resident_bytes'] / 2**20:,.1f}",
            f"{look['nbytes'] / 2**20:,.1f}",
        ]
        for title, look in (
            ("the first batch", tenths[0]),
            ("10%", tenths[1]),
            ("half", tenths[len(tenths) // 2]),
            (f"all {found['events']:,}", tenths[-1]),
        )
    ]
    header = ["endurance, after", "events/s since", "resident MiB", "nbytes, MiB"]
    p = found["probabilities"]
    text = (
        f"{found['events_per_s']:,.0f} events/s in all, accuracy {100 * found['accuracy']:.2f}% of "
        f"at most {100 * (1 - NOISE):g}%.\n"
        f"Probabilities from {p['smallest']:.3g} to 1 - {1 - p['largest']:.3g}; their sums differ "
        f"from 1 by at most {p['sum_less_one']:.1g};\n{p['not_finite']} of them are not finite."
    )
    return "\n\n".join([common.table(header, rows), text, _troubles(found["stretches"])])


def _troubles(stretches: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for name in TROUBLES:
        ones = [one for one in stretches if one["trouble"] == name]
        if ones:
            means = [sum(one[w] for one in ones) / len(ones) for w in ("before", "during", "after")]
            worst = min(one["after"] - one["before"] for one in ones)
            cells = [f"{100 * value:.2f}" for value in means]
            rows.append([name, str(len(ones)), *cells, f"{100 * worst:+.2f}"])
    header = ["accuracy, %, around trouble", "times", "before", "during", "after", "worst change"]
    return common.table(header, rows)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(endure(QUICK if "--quick" in sys.argv else FULL)))
