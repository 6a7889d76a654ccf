"""The streaming feature machine by itself, and the default model with it and without.

Progressive errors: each event is predicted, then learned, in batches of 500. Models have their
defaults. Options of the feature machine were chosen on covtype, cpusmall, elec2 and letter, and the
other sets were left for this. LightGBM is beside them, with its defaults and one thread, fitted
anew to all events so far after each 1,000.

Events a second are by processor time, with one thread of BLAS, so the time of other work on the
machine does not count. What is done in the background is included, also for a function that would
take over after the last event. What is compiled or loaded at first use is before that.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.feature_machine.retrained import Retrained

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


MODELS: dict[str, Callable[[str], Any]] = {
    "feature-machine": lambda task: _model("feature-machine", task),
    "kernel-ridge": lambda task: _model("kernel-ridge", task),
    "multi-kernel": lambda task: _model("multi-kernel", task),
    "multi-kernel, no metric": lambda task: _model("multi-kernel", task, external_experts=()),
    "LightGBM, anew every 1,000": lambda task: _model("trees", task),
}


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Errors and events a second by data set and model."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found: dict[str, Any] = {}
    for name, events in STREAMS.items():
        stream = load(name, data, quick=quick).first(events)
        found[name] = {"task": stream.task, "events": len(stream), "models": {}}
        for model, make in MODELS.items():
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
    _finish_background()
    seconds = time.process_time() - began
    every = np.concatenate(missed).astype(np.float64)
    return {
        "error": float(every.mean()),
        "late": float(every[len(every) // 2 :].mean()),
        "rate": len(X) / seconds,
    }


def _finish_background() -> None:
    """Wait for a function that is still being made: its time counts, and not for the next model."""
    from streamk.learners.renewal import REPLACEMENTS, begun

    begun(REPLACEMENTS, int).result()


def render(results: Mapping[str, Any]) -> str:
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
