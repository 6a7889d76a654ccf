"""Alarms about errors that rise: how late they come, and how many are false.

The tests that give the alarm "error" of a job, `ShareTest` of errors that are 0 or 1 and `RankTest`
of distances, beside River's detectors and `MMDDrift`, all with their defaults. Streams of errors
whose law changes once: "delay" is the median number of events from the change to the first alarm,
"missed" the streams without one, "early" the alarms before the change, in all streams together.
Then streams in which nothing gets worse, where each alarm is false: of one law, and of a model that
becomes better. Last the errors of the default model on two of River's streams, whose concept
changes between events 9,500 and 10,500. Alarms about the columns are measured in
`benchmarks.signals.covariates`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.drift.detectors import Alarms, detectors
from benchmarks.river_battery.streams import GENERATED, load
from benchmarks.signals import covariates
from benchmarks.signals.covariates import number
from benchmarks.signals.coverage import predicted
from streamk.drift import RankTest, ShareTest

OURS = "streamk"
BEFORE, AFTER, STREAMS = 3000, 3000, 10
QUICK = (300, 300, 2)
NULL, SLOW_NULL = 200_000, 20_000
SLOW, FEW = "KSWIN", 3
"""The detector that takes some 150 us for a number, and the streams that it gets."""
CHANGING = ("SEA", "Agrawal")
_CHANGE = GENERATED // 2 - GENERATED // 40
"""Event at which a concept begins to change."""

Floats = NDArray[np.float64]


def changed(kind: str, n: int, before: int, seed: int) -> Floats:
    """Return n errors, whose law changes after some."""
    rng = np.random.default_rng([seed, 5])
    later = np.arange(n) >= before
    if kind == "distances x1.5":
        return np.abs(rng.normal(size=n)) * np.where(later, 1.5, 1.0)
    low, high = (float(part.rstrip("%")) / 100 for part in kind.split(" to "))
    return (rng.random(n) < np.where(later, high, low)).astype(np.float64)


KINDS = ("10% to 25%", "10% to 15%", "5% to 20%", "30% to 40%", "distances x1.5")


def unchanged(kind: str, n: int) -> Floats:
    """Return n errors which do not become larger."""
    rng = np.random.default_rng(7)
    if kind == "10%":
        return (rng.random(n) < 0.1).astype(np.float64)
    if kind == "Cauchy distances":
        return np.abs(rng.standard_cauchy(n))
    rate = 0.05 + 0.45 / np.sqrt(1 + np.arange(n) / 200)
    return (rng.random(n) < rate).astype(np.float64)


NULLS = ("10%", "Cauchy distances", "50% falling to 5%")


def ours(X: Floats, seed: int) -> list[int]:
    """Return the alarms of the test that a job has for errors of this kind."""
    test = ShareTest(seed=seed) if set(np.unique(X)) <= {0.0, 1.0} else RankTest(seed=seed)
    return [n for n, error in enumerate(X[:, 0].tolist()) if test.update(error)]


def _all() -> dict[str, Alarms]:
    return {OURS: ours, **detectors()}


def measure(data: Any, *, quick: bool) -> dict[str, Any]:
    """Figures by kind of stream and detector."""
    found: dict[str, Any] = {"changes": {}, "nulls": {}, "streams": {}}
    before, after, streams = QUICK if quick else (BEFORE, AFTER, STREAMS)
    found["events"] = [before, after, streams]
    for kind in KINDS:
        common.note(f"  {kind}")
        found["changes"][kind] = {
            name: _delays(
                alarms, kind, before, after, min(streams, FEW) if name == SLOW else streams
            )
            for name, alarms in _all().items()
        }
    for kind in NULLS:
        common.note(f"  {kind}")
        found["nulls"][kind] = {
            name: _false(alarms, kind, 500 if quick else SLOW_NULL if name == SLOW else NULL)
            for name, alarms in _all().items()
        }
    for name in CHANGING:
        common.note(f"  {name}")
        stream = load(name, data, quick=quick, events=0)
        answers = predicted(stream, 0).predictions
        wrong = [a != y for a, y in zip(answers, stream.y.tolist(), strict=True)]
        errors = np.array(wrong, np.float64)[:, None]
        found["streams"][name] = {
            detector: _of_stream(alarms(errors, 1)) for detector, alarms in _all().items()
        }
    found["covariates"] = covariates.measure(data, quick=quick)
    return found


def _delays(alarms: Alarms, kind: str, before: int, after: int, streams: int) -> dict[str, Any]:
    heard = [
        alarms(changed(kind, before + after, before, seed)[:, None], seed)
        for seed in range(streams)
    ]
    delays = [min((i - before for i in each if i >= before), default=None) for each in heard]
    known = [delay for delay in delays if delay is not None]
    return {
        "delay": float(np.median(known)) if known else None,
        "missed": delays.count(None),
        "early": sum(i < before for each in heard for i in each),
    }


def _false(alarms: Alarms, kind: str, n: int) -> dict[str, Any]:
    X = unchanged(kind, n)[:, None]
    began = time.process_time()
    found = alarms(X, 1)
    return {"events": n, "alarms": len(found), "us": 1e6 * (time.process_time() - began) / n}


def _of_stream(found: list[int]) -> dict[str, Any]:
    after = [i - _CHANGE for i in found if i >= _CHANGE]
    return {"before": len(found) - len(after), "first": after[0] if after else None}


def render(found: Mapping[str, Any]) -> str:
    """Tables: changes, streams without one, those of the model's errors, and of the columns."""
    before, after, streams = found["events"]
    rows = [
        [f"{kind}: {name}", number(one["delay"]), str(one["missed"]), str(one["early"])]
        for kind, names in found["changes"].items()
        for name, one in names.items()
    ]
    header = [f"{streams} streams of {before:,} + {after:,} errors", "delay", "missed", "early"]
    changes = common.table(header, rows)
    rows = [
        [f"{kind}: {name}", f"{one['events']:,}", f"{one['alarms']:,}", f"{one['us']:.1f}"]
        for kind, names in found["nulls"].items()
        for name, one in names.items()
    ]
    nulls = common.table(["nothing becomes worse", "events", "alarms", "us"], rows)
    rows = [
        [f"{kind}: {name}", f"{one['before']:,}", number(one["first"])]
        for kind, names in found["streams"].items()
        for name, one in names.items()
    ]
    header = ["errors of the default model", "alarms before", "first after"]
    errors = common.table(header, rows)
    return "\n\n".join([changes, nulls, errors, covariates.render(found["covariates"])])
