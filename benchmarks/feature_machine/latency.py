"""Events that come one at a time: what one waits while a new function is being made, and otherwise.

The default model, and the same without its feature machine ("no metric"), predict and learn each
event by itself, as fast as they can or at a steady rate. A time is that of one event, from when the
model takes it to when it is predicted and learned; at a rate, it is not that from when it was due.
"preparing" are the events between that at which a new function is begun, whose metric is searched
for and which is solved for in the background, and that at which it takes over. These two, which
copy what is kept and wait for a function that is late, are "at its ends". Blocks of the function in
use are solved for all the time. What is compiled is compiled before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from streamk.learners import FeatureMachine, MultiKernel

SETS = ("elec2", "covtype_subset93k")
EVENTS = 20_000
RATES = (0, 2_000)
"""Events a second, 0 for as fast as they can be taken."""
QUANTILES = (0.5, 0.99, 0.999)
MODELS: dict[str, dict[str, Any]] = {"no metric": {"external_experts": ()}, "default": {}}
OTHERWISE, PREPARING, ENDS = KINDS = "otherwise", "preparing", "at its ends"
_WARM = 1_300


class Watched(MultiKernel):
    """A learner that tells which new function of a metric is being made."""

    @property
    def prepared(self) -> tuple[int, ...]:
        """The events after which those of its feature machines were begun that are being made."""
        machines = [one for one in self._external._learners if isinstance(one, FeatureMachine)]
        return tuple(one.last_beginning for one in machines if one.is_solving)


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Times of events by set, rate and model."""
    found: dict[str, Any] = {}
    for name in SETS:
        stream = load(name, data, quick=quick).first(EVENTS)
        found[name] = {"events": len(stream), "rates": {}}
        for rate in RATES:
            of_rate = found[name]["rates"][str(rate)] = {}
            for model, options in MODELS.items():
                _times(stream.first(_WARM), _made(stream, options), 0)
                took, kinds = _times(stream, _made(stream, options), rate)
                of_rate[model] = {
                    kind: _figures(took[kinds == place]) for place, kind in enumerate(KINDS)
                }
                common.note(f"  {name}, {rate}: {model}: {of_rate[model]}")
    return found


def _made(stream: Dataset, options: Mapping[str, Any]) -> Watched:
    return Watched(task=stream.task, seed=1, columns=stream.columns, **options)


def _times(
    stream: Dataset, model: Watched, rate: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Milliseconds of each event (n,), and which of `KINDS` it is."""
    X, y = stream.X.astype(np.float64), stream.y.tolist()
    took, kinds = np.zeros(len(X)), np.zeros(len(X), np.int64)
    due = time.perf_counter()
    for i, label in enumerate(y):
        if rate:
            due = _wait(due + 1.0 / rate)
        before = model.prepared
        began = time.perf_counter()
        model.predict_then_learn_many(X[i : i + 1], [label])
        took[i] = 1e3 * (time.perf_counter() - began)
        kinds[i] = (len(before) > 0) if before == model.prepared else KINDS.index(ENDS)
    return took, kinds


def _wait(due: float) -> float:
    """Return when an event is due, then; at once if that has been."""
    while (left := due - time.perf_counter()) > 0.0:
        time.sleep(left)
    return due


def _figures(took: NDArray[np.float64]) -> dict[str, Any]:
    """Return the number of events, the quantiles of their times, and the longest."""
    if not len(took):
        return {"events": 0}
    quantiles = [float(f"{one:.4g}") for one in np.quantile(took, QUANTILES).tolist()]
    return {"events": len(took), "quantiles": quantiles, "most": float(f"{took.max():.4g}")}


def render(found: Mapping[str, Any]) -> str:
    """A line for each set, rate, model and kind of events."""
    rows = []
    for name, one in found.items():
        for rate, models in one["rates"].items():
            pace = f"{int(rate):,}/s" if int(rate) else "full speed"
            for model, kinds in models.items():
                for kind, figures in kinds.items():
                    if figures["events"]:
                        about = f", {kind}" if kinds[PREPARING]["events"] else ""
                        cells = [f"{value:,.2f}" for value in figures["quantiles"]]
                        cells += [f"{figures['most']:,.0f}"]
                        title = f"{name.split('_')[0]}, {pace}: {model}{about}"
                        rows.append([title, f"{figures['events']:,}", *cells])
    header = ["one event at a time", "events", "p50 ms", "p99", "p99.9", "most"]
    return common.table(header, rows)
