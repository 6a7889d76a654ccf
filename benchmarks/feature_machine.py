"""The recursive feature machine of streams, after Radhakrishnan et al. 2024.

stream   the learner of streams, by itself and among the experts of the default model
latency  what one event waits while a new function is being made, and otherwise

How each figure is taken stands above its part.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import Dataset, Directory, load
from streamk.learners import FeatureMachine, MultiKernel

# --- latency --------------------------------------------------------------------------------------
#
# Events that come one at a time: what one waits while a new function is being made, and otherwise.
#
# The default model, and the same without its feature machine ("no metric"), predict and learn each
# event by itself, as fast as they can or at a steady rate. A time is that of one event, from when
# the model takes it to when it is predicted and learned; at a rate, it is not that from when it was
# due. "preparing" are the events between that at which a new function is begun, whose metric is
# searched for and which is solved for in the background, and that at which it takes over. These
# two, which copy what is kept and wait for a function that is late, are "at its ends". Blocks of
# the function in use are solved for all the time. What is compiled is compiled before.

LATENCY_SETS = ("elec2", "covtype_subset93k")
EVENTS = 20_000
RATES = (0, 2_000)
"""Events a second, 0 for as fast as they can be taken."""
QUANTILES = (0.5, 0.99, 0.999)
LATENCY_MODELS: dict[str, dict[str, Any]] = {"no metric": {"external_experts": ()}, "default": {}}
OTHERWISE, PREPARING, ENDS = KINDS = "otherwise", "preparing", "at its ends"
_WARM = 1_300


class Watched(MultiKernel):
    """A learner that tells which new function of a metric is being made."""

    @property
    def prepared(self) -> tuple[int, ...]:
        """The events after which those of its feature machines were begun that are being made."""
        machines = [one for one in self._external._learners if isinstance(one, FeatureMachine)]
        return tuple(one.last_beginning for one in machines if one.is_solving)


def measure_latency(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Times of events by set, rate and model."""
    found: dict[str, Any] = {}
    for name in LATENCY_SETS:
        stream = load(name, data, quick=quick).first(EVENTS)
        found[name] = {"events": len(stream), "rates": {}}
        for rate in RATES:
            of_rate = found[name]["rates"][str(rate)] = {}
            for model, options in LATENCY_MODELS.items():
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


def render_latency(found: Mapping[str, Any]) -> str:
    """A line for each set, rate, model and kind of events."""
    rows = []
    for name, one in found.items():
        for rate, models in one["rates"].items():
            pace = f"{int(rate):,}/s" if int(rate) else "full speed"
            for model, kinds in models.items():
                for kind, figures in kinds.items():
                    if figures["events"]:
                        about = f", {kind}" if kinds[PREPARING]["events"] else ""
                        cells = [
                            f"{value:,.2f}" if figures["events"] * (1.0 - q) >= 1.0 else "-"
                            for q, value in zip(QUANTILES, figures["quantiles"], strict=True)
                        ]
                        cells += [f"{figures['most']:,.0f}"]
                        title = f"{name.split('_')[0]}, {pace}: {model}{about}"
                        rows.append([title, f"{figures['events']:,}", *cells])
    header = ["one event at a time", "events", "p50 ms", "p99", "p99.9", "most"]
    return common.table(header, rows)


# --- retrained ------------------------------------------------------------------------------------
#
# LightGBM with its defaults on a stream: fitted anew to all events so far, every 1,000.

Numbers = NDArray[Any]

EVERY = 1_000


class Said(NamedTuple):
    """Predictions of events before they were learned."""

    predictions: Numbers


class Retrained:
    """Trees of all events so far; before the first ones the most frequent label, or the median.

    Parameters
    ----------
    task : {"classification", "regression"}
    """

    def __init__(self, task: str) -> None:
        self._is_classifier = task == "classification"
        self._X: list[Numbers] = []
        self._y: list[Any] = []
        self._trees: Any = None
        self._fitted = 0

    def predict_then_learn_many(self, X: Numbers, y: Any) -> Said:
        """Predict events X (n, d), then take in their labels y (n,)."""
        said = np.full(len(X), self._common()) if self._trees is None else self._trees.predict(X)
        self._X.append(X)
        self._y.extend(y)
        if len(self._y) // EVERY > self._fitted:
            self._fitted = len(self._y) // EVERY
            self._fit()
        return Said(said)

    def _common(self) -> Any:
        if not self._y:
            return 0
        if not self._is_classifier:
            return np.median(self._y)
        labels, counts = np.unique(self._y, return_counts=True)
        return labels[counts.argmax()]

    def _fit(self) -> None:
        import lightgbm

        kind = lightgbm.LGBMClassifier if self._is_classifier else lightgbm.LGBMRegressor
        y = np.array(self._y)
        if not self._is_classifier or len(np.unique(y)) > 1:
            self._trees = kind(n_jobs=1, verbose=-1).fit(np.concatenate(self._X), y)


# --- stream ---------------------------------------------------------------------------------------
#
# The streaming feature machine by itself, and the default model with it and without.
#
# Progressive errors: each event is predicted, then learned, in batches of 500. Models have their
# defaults. Options of the feature machine were chosen on covtype, cpusmall, elec2 and letter, and
# the other sets were left for this. LightGBM is beside them, with its defaults and one thread,
# fitted anew to all events so far after each 1,000.
#
# Events a second are by processor time, with one thread of BLAS, so the time of other work on the
# machine does not count. What is done in the background is included, also for a function that would
# take over after the last event. What is compiled or loaded at first use is before that.

STREAMS = {
    "covtype_subset93k": 20_000,
    "cpusmall": 0,
    "elec2": 0,
    "house_16H": 0,
    "letter": 0,
    "airlines_h2o_44k": 10_000,
    "cadata_california_housing": 0,
    "rialto": 20_000,
}
"""Sets, and how many of their events, 0 being all."""
_BATCH = 500
_FIRST = 1_300
"""Events that another model of the kind learns before, which begins with all that is compiled."""


def _model(name: str, task: str, **options: Any) -> Any:
    if name == "trees":
        return Retrained(task)
    from streamk.learners import create

    return create(name, task=task, **options)


STREAM_MODELS: dict[str, Callable[[str], Any]] = {
    "feature-machine": lambda task: _model("feature-machine", task),
    "kernel-ridge": lambda task: _model("kernel-ridge", task),
    "multi-kernel": lambda task: _model("multi-kernel", task),
    "multi-kernel, no metric": lambda task: _model("multi-kernel", task, external_experts=()),
    "LightGBM, anew every 1,000": lambda task: _model("trees", task),
}


def measure_stream(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors and events a second by data set and model."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found: dict[str, Any] = {}
    for name, events in STREAMS.items():
        stream = load(name, data, quick=quick).first(events)
        found[name] = {"task": stream.task, "events": len(stream), "models": {}}
        for model, make in STREAM_MODELS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # LightGBM's, that columns have no names
                progressive(stream.first(_FIRST), make(stream.task))
                one = progressive(stream, make(stream.task))
            found[name]["models"][model] = one
            common.note(f"  {name}: {model}: {one}")
    return found


def progressive(stream: Dataset, model: Any) -> dict[str, float]:
    """Error of predictions before each event was learned, of all and of the last half."""
    X, y = stream.X.astype(np.float64), stream.y
    missed: list[NDArray[Any]] = []
    began = time.process_time()
    for start in range(0, len(X), _BATCH):
        some = y[start : start + _BATCH]
        labels = some if stream.task == "regression" else some.tolist()
        said = model.predict_then_learn_many(X[start : start + _BATCH], labels).predictions
        if stream.task == "regression":
            missed.append(np.abs(said - some))
        else:
            missed.append(100.0 * (np.array(said, object) != np.array(labels, object)))
    finish_background()
    seconds = time.process_time() - began
    every = np.concatenate(missed).astype(np.float64)
    return {
        "error": float(every.mean()),
        "late": float(every[len(every) // 2 :].mean()),
        "rate": len(X) / seconds,
    }


def finish_background() -> None:
    """Wait for a function that is still being made: its time counts, and not for the next model."""
    from streamk.learners.renewal import REPLACEMENTS, begun

    begun(REPLACEMENTS, int).result()


def render_stream(results: Mapping[str, Any]) -> str:
    """The table of all sets."""
    rows = []
    for name, one in results.items():
        for model, found in one["models"].items():
            rows.append(
                [
                    f"{name.split('_')[0]}, {one['events']:,}: {model}",
                    _cell(found["error"], one["task"]),
                    _cell(found["late"], one["task"]),
                    f"{found['rate']:,.0f}",
                ]
            )
    return common.table(["set, events: model", "MAE or error", "last half", "events/s"], rows)


def _cell(error: float, task: str) -> str:
    if task == "classification":
        return f"{error:.2f} %"
    return f"{error:,.0f}" if error >= 1_000.0 else f"{error:.3f}"


# --- the parts ------------------------------------------------------------------------------------

NAME = "feature_machine"
PARTS = {
    "stream": Part(lambda o: measure_stream(o.data, quick=o.quick), render_stream),
    "latency": Part(lambda o: measure_latency(o.data, quick=o.quick), render_latency),
}


render, run = common.topic(NAME, __doc__, PARTS)


if __name__ == "__main__":
    sys.exit(common.main(run))
