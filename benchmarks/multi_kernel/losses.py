"""Numbers learned by squared errors, by Huber's loss and by the pinball loss, against the default.

Changes of the mean absolute error and of the root of the mean squared one are in percent. Quantiles
are those of `predict_quantile_many` of the default, which are its number and a quantile of past
errors, and what a learner predicts that learns the quantile itself. Each figure is of all events
after the first one, predicted before their label was learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.multi_kernel import direct
from benchmarks.multi_kernel.direct import Direct
from benchmarks.river_battery import scores
from benchmarks.river_battery.loop import Outcome
from benchmarks.river_battery.streams import STREAMS, Event, Stream
from streamk.learners import MultiKernel
from streamk.losses import loss

LEVELS = (0.1, 0.5, 0.9)
OTHERS = ("squared", "huber")


class _Recorded(Direct):
    """Keeps its quantiles; NaN where nothing was said."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.said: list[Any] = []

    def predict_one(self, x: Event) -> float | None:
        row = np.array([list(x.values())], dtype=np.float64)
        self.said.append(self.model.predict_quantile_many(row, LEVELS)[0])
        return super().predict_one(x)


def measure(streams: Sequence[Stream]) -> dict[str, Any]:
    """Figures of each stream of numbers."""
    return {"streams": {s.name: _measured(s) for s in streams if s.task == "regression"}}


def _measured(stream: Stream) -> dict[str, Any]:
    model = _Recorded(stream)
    outcome = direct.run(model, stream, 0)
    some = scores.counted(outcome, 0)
    errors = {"default": _errors(outcome, stream)}
    for name in OTHERS:
        errors[name] = _errors(_run(stream, name), stream)
    quantiles = {}
    for q, of_errors in zip(LEVELS, np.array(model.said).T, strict=True):
        learned = _run(stream, loss("quantile", q=q)).guess
        quantiles[f"{q:g}"] = {
            name: _figures(said[some], stream.y[some], q)
            for name, said in (("of_errors", of_errors), ("learned", learned))
        }
    common.note(f"  {stream.name}")
    return {"events": len(stream), "errors": errors, "quantiles": quantiles}


def _run(stream: Stream, by: Any) -> Outcome:
    return direct.run(Direct(stream, partial(MultiKernel, loss=by)), stream, 0)


def _errors(outcome: Outcome, stream: Stream) -> dict[str, float]:
    figures = scores.figures(outcome, stream, 0)
    return {name: figures[name] for name in ("mae", "rmse")}


def _figures(said: NDArray[np.float64], y: NDArray[np.float64], q: float) -> dict[str, float]:
    """The pinball loss of a quantile, and the part of the numbers up to it."""
    beyond = y - said
    pinball = np.maximum(q * beyond, (q - 1) * beyond).mean()
    return {"pinball": float(f"{pinball:.5g}"), "holds": float(f"{(beyond <= 0).mean():.5g}")}


# --- tables ---------------------------------------------------------------------------------------


def render(found: Mapping[str, Any]) -> str:
    """Means, then quantiles; each stream a row."""
    found = found["streams"]
    names = [name for name in OTHERS for _ in range(2)]
    header = ["% of the default's", *map("{}: {}".format, names, ("MAE", "RMSE") * len(OTHERS))]
    means = [
        [_change(one["errors"], "default", name, m) for name in OTHERS for m in ("mae", "rmse")]
        for one in found.values()
    ]
    short = [STREAMS[name][0] for name in found]
    rows = [[name, *map("{:+.2f}".format, row)] for name, row in zip(short, means, strict=True)]
    rows.append(["mean", *(f"{np.mean(column):+.2f}" for column in zip(*means, strict=True))])
    tables = [common.table(header, rows)]
    header = ["quantiles"]
    header += [word for q in LEVELS for word in (f"{100 * q:g}%: errors", "learned", "loss")]
    rows = [
        [name, *(cell for one in about["quantiles"].values() for cell in _cells(one))]
        for name, about in zip(short, found.values(), strict=True)
    ]
    rows.append(["mean"])
    for q in LEVELS:
        ones = [about["quantiles"][f"{q:g}"] for about in found.values()]
        change = np.mean([_change(one, "of_errors", "learned", "pinball") for one in ones])
        rows[-1] += ["", "", f"{change:+.2f}"]
    return "\n\n".join([*tables, common.table(header, rows)])


def _cells(one: Mapping[str, Mapping[str, float]]) -> list[str]:
    holds = [f"{100 * one[name]['holds']:.1f}%" for name in ("of_errors", "learned")]
    return [*holds, f"{_change(one, 'of_errors', 'learned', 'pinball'):+.2f}"]


def _change(one: Mapping[str, Mapping[str, float]], old: str, new: str, figure: str) -> float:
    return 100 * (one[new][figure] / one[old][figure] - 1)
