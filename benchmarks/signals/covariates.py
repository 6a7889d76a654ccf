"""Alarms about covariate drift: how late they come, and how many are false.

`CovariateWatch`, which gives the alarm "covariate_drift" of a job. Columns that are independent and
normal until one of them changes: "delay" is the median number of events from the change to the
first alarm, "missed" the streams without one, "early" the alarms before the change, in all
together. Then streams of the river battery: in their own order, where alarms tell of changes that
nobody has labelled, and shuffled, where each is false.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.river_battery.streams import load
from streamk.engine.alarms.covariates import CovariateWatch

EVENTS, STREAMS, SHUFFLES = 15_000, 10, 5
QUICK = (600, 2, 1)
"""Events before a change, and after it; streams; shuffles of each data set."""
COLUMNS = (2, 6, 20)
KINDS = ("mean +0.5", "mean +1", "spread x2", "correlation 0.9")
BATTERY = (
    *("elec2", "airlines_h2o_44k", "gmsc", "covtype_subset93k", "letter", "rialto"),
    *("RandomRBFDrift", "Hyperplane", "Agrawal", "SEA", "LEDDrift", "Waveform"),
)

Floats = NDArray[np.float64]


def changed(kind: str, columns: int, n: int, seed: int) -> Floats:
    """Return 2n events whose second column changes after n."""
    X = np.random.default_rng([seed, columns]).normal(size=(2 * n, columns))
    if kind.startswith("mean"):
        X[n:, 1] += float(kind.split("+")[1])
    elif kind == "spread x2":
        X[n:, 1] *= 2.0
    else:
        X[n:, 1] = 0.9 * X[n:, 0] + np.sqrt(1.0 - 0.9**2) * X[n:, 1]
    return X


def alarms(X: Floats) -> list[int]:
    """Return the events at which there is an alarm."""
    found = CovariateWatch().update(len(X), lambda row: dict(enumerate(X[row].tolist())))
    return [row for row, _ in found]


def measure(data: Any, *, quick: bool) -> dict[str, Any]:
    """Figures by kind of change and columns, and by stream."""
    n, streams, shuffles = QUICK if quick else (EVENTS, STREAMS, SHUFFLES)
    found: dict[str, Any] = {"events": [n, streams, shuffles], "changes": {}, "streams": {}}
    for kind in KINDS:
        for columns in COLUMNS:
            common.note(f"  {kind}, {columns} columns")
            found["changes"][f"{kind}: {columns} columns"] = _delays(kind, columns, n, streams)
    for name in BATTERY[-2:] if quick else BATTERY:
        common.note(f"  {name}")
        found["streams"][name] = _of_stream(
            np.asarray(load(name, data, quick=quick, events=0).X, np.float64), shuffles
        )
    return found


def _delays(kind: str, columns: int, n: int, streams: int) -> dict[str, Any]:
    heard = [alarms(changed(kind, columns, n, seed)) for seed in range(streams)]
    delays = [min((i - n for i in each if i >= n), default=None) for each in heard]
    known = [delay for delay in delays if delay is not None]
    return {
        "delay": float(np.median(known)) if known else None,
        "missed": delays.count(None),
        "early": sum(i < n for each in heard for i in each),
    }


def _of_stream(X: Floats, shuffles: int) -> dict[str, Any]:
    began = time.process_time()
    heard = len(alarms(X))
    us = 1e6 * (time.process_time() - began) / len(X)
    orders = (np.random.default_rng(seed).permutation(len(X)) for seed in range(shuffles))
    false = sum(len(alarms(X[order])) for order in orders)
    return {"size": list(X.shape), "alarms": heard, "false": false, "us": us}


def render(found: Mapping[str, Any]) -> str:
    """Two tables: changes, and streams."""
    n, streams, shuffles = found["events"]
    rows = [
        [kind, number(one["delay"]), str(one["missed"]), str(one["early"])]
        for kind, one in found["changes"].items()
    ]
    header = [f"{streams} streams of {n:,} + {n:,} events", "delay", "missed", "early"]
    changes = common.table(header, rows)
    rows = [
        [name, f"{one['size'][0]:,}", str(one["alarms"]), str(one["false"]), f"{one['us']:.2f}"]
        for name, one in found["streams"].items()
    ]
    header = ["covariate drift", "events", "alarms", f"in {shuffles} shuffles", "us"]
    return f"{changes}\n\n{common.table(header, rows)}"


def number(value: float | None) -> str:
    """Return a number of events for a table."""
    return "-" if value is None else f"{value:,.0f}"
