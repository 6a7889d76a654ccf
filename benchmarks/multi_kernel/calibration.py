"""Whether probabilities are frequencies, and intervals hold the part of the numbers they should.

Expected calibration error: the events are sorted into 15 bins of equal width by the probability of
the class that was predicted; in each, this is how far the part of right answers lies from their
mean probability, and the error is the mean over the events (Guo et al. 2017). Widths are in
standard deviations of the stream's labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.multi_kernel import direct
from benchmarks.multi_kernel.direct import LATE, Direct
from benchmarks.river_battery import scores
from benchmarks.river_battery.streams import Event, Stream

BINS = 15
LEVELS = (0.5, 0.9, 0.95)
DELAYS = (0, LATE)
_QUANTILES = [q for level in LEVELS for q in ((1 - level) / 2, (1 + level) / 2)]


class _Recorded(Direct):
    """Keeps how sure it was, or its intervals; NaN where nothing was said."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.said: list[Any] = []

    def predict_proba_one(self, x: Event) -> Mapping[Any, float] | None:
        answer = super().predict_proba_one(x)
        self.said.append(max(answer.values()) if answer else np.nan)
        return answer

    def predict_one(self, x: Event) -> float | None:
        row = np.array([list(x.values())], dtype=np.float64)
        self.said.append(self.model.predict_quantile_many(row, _QUANTILES)[0])
        return super().predict_one(x)


def measure(streams: Sequence[Stream]) -> dict[str, Any]:
    """Figures of each stream by delay."""
    return {
        kind: {
            stream.name: {str(delay): _measured(stream, delay) for delay in DELAYS}
            for stream in streams
            if (stream.task == "regression") == (kind == "numbers")
        }
        for kind in ("classes", "numbers")
    }


def _measured(stream: Stream, delay: int) -> dict[str, Any]:
    model = _Recorded(stream)
    outcome = direct.run(model, stream, delay)
    some = scores.counted(outcome, delay)
    said, y = np.array(model.said)[some], stream.y[some]
    common.note(f"  {stream.name}, {delay} late: {outcome.seconds:.1f} s")
    if stream.task == "regression":
        return {"events": len(y), "intervals": _intervals(said, y, float(stream.y.std()))}
    right = outcome.guess[some] == y
    return {
        "events": len(y),
        "accuracy": _round(right.mean()),
        "confidence": _round(said.mean()),
        "error": _round(calibration_error(said, right)),
    }


def calibration_error(p: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """How far right answers are from their probabilities p, on average over the events."""
    bins = np.minimum((p * BINS).astype(np.intp), BINS - 1)
    apart = np.bincount(bins, p - right, BINS)
    return float(np.abs(apart).sum() / len(p))


def _intervals(
    ends: NDArray[np.float64], y: NDArray[np.float64], deviation: float
) -> dict[str, dict[str, float]]:
    found = {}
    for level, low, high in zip(LEVELS, ends.T[::2], ends.T[1::2], strict=True):
        found[f"{level:g}"] = {
            "coverage": _round(((low <= y) & (y <= high)).mean()),
            "width": _round((high - low).mean() / deviation),
        }
    return found


def _round(value: Any) -> float:
    return float(f"{value:.5g}")


# --- tables ---------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Classes, then numbers, at once and late side by side."""
    header = ["calibration error, %", "accuracy", "mean p", "error"]
    header += [f"{LATE} late: accuracy", "mean p", "error"]
    rows = []
    for name, one in found["classes"].items():
        cells = [one[str(d)][k] for d in DELAYS for k in ("accuracy", "confidence", "error")]
        rows.append([name, *(f"{100 * cell:.2f}" for cell in cells)])
    rows.append(["mean", "", "", _mean(found, "0"), "", "", _mean(found, str(LATE))])
    tables = [common.table(header, rows)]
    for delay in DELAYS:
        late = f"{delay} late" if delay else "at once"
        header = [f"intervals, {late}"]
        header += [word for level in LEVELS for word in (f"{100 * level:g}%: holds", "width")]
        rows = [
            [name, *_cells(one[str(delay)]["intervals"])] for name, one in found["numbers"].items()
        ]
        tables.append(common.table(header, rows))
    return "\n\n".join(tables)


def _mean(found: Mapping[str, Any], delay: str) -> str:
    errors = [one[delay]["error"] for one in found["classes"].values()]
    return f"{100 * sum(errors) / len(errors):.2f}"


def _cells(intervals: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        cell
        for one in intervals.values()
        for cell in (f"{100 * one['coverage']:.1f}%", f"{one['width']:.3g}")
    ]
