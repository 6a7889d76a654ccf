"""MMDDrift beside River's drift detectors: how late they find changes, and false alarms.

delays  generated streams with one change of known place: delay, misses, alarms before it
nulls   generated streams without a change, up to a million events: alarms, p-values

How each figure is taken stands above its part.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import Directory
from streamk.drift import StreamingMMD

# --- detectors ------------------------------------------------------------------------------------
#
# The detectors that are compared, each as a function from a stream to its alarms.
#
# River's take one number. Of events with several columns there is one for each column, with the
# same options, and an alarm of any is one of all; the others go on.

Numbers = NDArray[np.float64]
Alarms = Callable[[Numbers, int], list[int]]
OURS = "MMDDrift"
SLOW = ("KSWIN",)


def ours(X: Numbers, seed: int) -> list[int]:
    """Return the alarms of `streamk.adapters.river.MMDDrift` with its defaults."""
    found: list[int] = StreamingMMD(X.shape[1], seed=seed).update(X).tolist()
    return found


def of_river(make: Callable[[int], Any]) -> Alarms:
    """Return the alarms of a detector of River's, made by a seed, on each column."""

    def alarms(X: Numbers, seed: int) -> list[int]:
        found: set[int] = set()
        for column in X.T.tolist():
            detector = make(seed)
            for i, number in enumerate(column):
                detector.update(number)
                if detector.drift_detected:
                    found.add(i)
        return sorted(found)

    return alarms


def detectors() -> dict[str, Alarms]:
    """Return all detectors by their names, with the defaults of their authors.

    Those that are slow, `SLOW`, are the last.
    """
    from river import drift

    return {
        OURS: ours,
        "ADWIN": of_river(lambda _: drift.ADWIN()),
        "PageHinkley": of_river(lambda _: drift.PageHinkley()),
        "KSWIN": of_river(lambda seed: drift.KSWIN(seed=seed)),
    }


# --- delays ---------------------------------------------------------------------------------------
#
# Delays: streams of one law, then of another, several of each kind.
#
# "delay" is the median number of events from the change to the first alarm after it, "missed" the
# streams without one among the events after the change, "early" those with an alarm before it: what
# a detector with many of these says later means little.

BEFORE, AFTER, STREAMS = 2000, 1500, 5
DELAYS_QUICK = (300, 300, 2)


def _normal(rng: np.random.Generator, n: int, d: int) -> Numbers:
    return rng.normal(size=(n, d))


def changed(kind: str, n: int, before: int, seed: int) -> Numbers:
    """Return n events whose law changes after some."""
    rng = np.random.default_rng([seed, 3])
    if kind == "errors, 10% to 25%":
        rate = np.where(np.arange(n) < before, 0.10, 0.25)
        return (rng.random(n) < rate).astype(np.float64)[:, None]
    X = _normal(rng, n, {"1": 1, "2": 2, "5": 5}[kind.split(" of ")[1][0]])
    after = X[before:]
    if kind.startswith("mean"):
        after[:, 0] += float(kind.split()[1])
    elif kind.startswith("spread"):
        after[:, 0] *= 2.0
    else:
        after[:, 1] = 0.8 * after[:, 0] + 0.6 * after[:, 1]
    return X


KINDS = (
    "errors, 10% to 25%",
    "mean +1 of 1 column",
    "mean +0.5 of 1 column",
    "spread x2 of 1 column",
    "spread x2 of 5 columns",
    "correlation 0.8 of 2 columns",
    "mean +1 of 5 columns",
)


def measure_delays(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Figures by kind of change and detector."""
    del data
    before, after, streams = DELAYS_QUICK if quick else (BEFORE, AFTER, STREAMS)
    found: dict[str, Any] = {}
    for kind in KINDS:
        found[kind] = {}
        for name, alarms in detectors().items():
            heard = [
                alarms(changed(kind, before + after, before, seed), seed) for seed in range(streams)
            ]
            delays = [
                min((i - before for i in each if i >= before), default=None) for each in heard
            ]
            known = [delay for delay in delays if delay is not None]
            found[kind][name] = {
                "delay": float(np.median(known)) if known else None,
                "missed": delays.count(None),
                "early": sum(any(i < before for i in each) for each in heard),
            }
            common.note(f"  {kind}: {name}: {found[kind][name]}")
    return {"kinds": found, "events": [before, after], "streams": streams}


def render_delays(found: Mapping[str, Any]) -> str:
    """A line for each kind of change and detector."""
    rows = []
    for kind, names in found["kinds"].items():
        for name, one in names.items():
            delay = "-" if one["delay"] is None else f"{one['delay']:,.0f}"
            rows.append([f"{kind}: {name}", delay, str(one["missed"]), str(one["early"])])
    before, after = found["events"]
    title = f"{found['streams']} streams of {before:,} + {after:,} events"
    return common.table([title, "delay", "missed", "early"], rows)


# --- nulls ----------------------------------------------------------------------------------------
#
# Nulls: independent events of one law, generated. Every alarm is a false one.
#
# "alarms" are all of them, "streams" those with at least one. MMDDrift promises that of the latter
# there are at most alpha = 1%. A million events of each law; the slow ones, which take some 150 µs
# for one, have 50,000. "us" are microseconds of the processor for one event, in one batch
# for MMDDrift, by one call for each in the others; alibi-detect's are with its start.
#
# Then many short streams: how often the p-value of MMDDrift ever is at most a given level.

EVENTS, SLOW_EVENTS, NULLS_QUICK = 1_000_000, 50_000, 2_000
SHORT, SHORT_EVENTS = 400, 2_000
LEVELS = (0.5, 0.2, 0.1, 0.05, 0.01)
LAWS: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "normal": lambda rng, n: rng.normal(size=(n, 1)),
    "errors, 10%": lambda rng, n: (rng.random((n, 1)) < 0.1).astype(np.float64),
    "Cauchy": lambda rng, n: rng.standard_cauchy((n, 1)),
}


def measure_nulls(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Alarms by law and detector, and how often p-values are small."""
    del data
    found: dict[str, Any] = {}
    for law, draw in LAWS.items():
        found[law] = {}
        for name, alarms in detectors().items():
            n = NULLS_QUICK if quick else SLOW_EVENTS if name in SLOW else EVENTS
            X = draw(np.random.default_rng(4), n)
            began = sum(os.times()[:4])
            heard = len(alarms(X, 1))
            took = 1e6 * (sum(os.times()[:4]) - began) / n
            found[law][name] = {"events": n, "alarms": heard, "us": took}
            common.note(f"  {law}: {name}: {found[law][name]}")
    return {
        "long": found,
        "short": _short(10 if quick else SHORT, NULLS_QUICK if quick else SHORT_EVENTS),
    }


def _short(streams: int, events: int) -> dict[str, Any]:
    """Shares of streams whose p-value ever is at most a level."""
    smallest = []
    for seed in range(streams):
        # An alarm would begin a new run, whose p-value is another one.
        test = StreamingMMD(1, alpha=1e-12, seed=seed)
        test.update(np.random.default_rng([5, seed]).normal(size=(events, 1)))
        smallest.append(test.p_value)
    shares = {str(level): float(np.mean(np.array(smallest) <= level)) for level in LEVELS}
    return {"streams": streams, "events": events, "shares": shares}


def render_nulls(found: Mapping[str, Any]) -> str:
    """A line for each law and detector; then the levels."""
    rows = [
        [f"{law}: {name}", f"{one['events']:,}", f"{one['alarms']:,}", f"{one['us']:.1f}"]
        for law, names in found["long"].items()
        for name, one in names.items()
    ]
    short = found["short"]
    shares = [[level, f"{100 * share:.1f}%"] for level, share in short["shares"].items()]
    return "\n\n".join(
        [
            common.table(["independent events", "events", "alarms", "us"], rows),
            common.table(
                [
                    f"p-value of {OURS} ever at most",
                    f"of {short['streams']} streams of {short['events']:,} events",
                ],
                shares,
            ),
        ]
    )


# --- the parts ------------------------------------------------------------------------------------

NAME = "drift"
PARTS = {
    "delays": Part(lambda o: measure_delays(o.data, quick=o.quick), render_delays),
    "nulls": Part(lambda o: measure_nulls(o.data, quick=o.quick), render_nulls),
}

render, run = common.topic(NAME, __doc__, PARTS)


if __name__ == "__main__":
    sys.exit(common.main(run))
