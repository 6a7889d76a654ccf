"""Events with texts, lists, late fields and missing values, as `MMDDrift` takes them.

First streams of one law: how many ever have a p-value of at most a level; that is promised to be no
larger a share than the level itself. Then streams that change once, as in "delays".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from streamk.adapters.river import MMDDrift
from streamk.drift import EventMMD
from streamk.encoding import alone

STREAMS, EVENTS = 200, 2000
CHANGING, BEFORE, AFTER = 10, 2000, 3000
QUICK = (3, 300, 2, 300, 300)
LEVELS = (0.5, 0.2, 0.1, 0.05, 0.01)
_HUGE = 1e100

Draw = np.random.Generator
Event = dict[str, Any]


def _rest(rng: Draw) -> Event:
    return {"a": float(rng.normal())}


LAWS: dict[str, Callable[[Draw], Event]] = {
    "numbers alone": lambda rng: {"a": float(rng.normal()), "b": float(rng.normal())},
    "ids, each once": lambda rng: {"id": f"u{rng.integers(1 << 60)}", **_rest(rng)},
    "2,000 ids": lambda rng: {"id": f"u{rng.integers(2000)}", **_rest(rng)},
    "200 ids": lambda rng: {"id": f"u{rng.integers(200)}", **_rest(rng)},
    "rare texts": lambda rng: {"c": "odd" if rng.random() < 0.005 else "usual", **_rest(rng)},
    "lists of texts": lambda rng: {"t": [f"w{k}" for k in rng.zipf(1.5, size=6)]},
    "lists of numbers, some whole": lambda rng: {
        "v": [1, 2] if rng.random() < 0.9 else [1.5, 2.0],
        **_rest(rng),
    },
    "a late field": lambda rng: {
        **_rest(rng),
        **({"late": 3.0} if rng.random() < 0.002 else {}),
    },
    "words as fields": lambda rng: {f"w{k}": 1 for k in rng.zipf(1.5, size=6)},
    "missing values": lambda rng: {
        "a": None if rng.random() < 0.3 else float(rng.normal()),
        "b": "x" if rng.random() < 0.5 else None,
    },
    "numbers and texts in a field": lambda rng: {"w": 3.5 if rng.random() < 0.5 else "some"},
    "heavy tails": lambda rng: {
        "a": float(np.clip(rng.standard_cauchy() ** 3, -_HUGE, _HUGE)),
        "c": f"v{rng.integers(3)}",
    },
}


def _zipf(rng: Draw, *, later: bool) -> Event:
    rank = int(rng.zipf(1.3)) % 1000
    return {"id": f"u{rank * 7 % 1000 if later else rank}", **_rest(rng)}


CHANGES: dict[str, Callable[[Draw, bool], Event]] = {
    "mean +1, beside ids that come once": lambda rng, later: {
        "id": f"u{rng.integers(1 << 60)}",
        "a": float(rng.normal()) + later,
    },
    "mean +1, beside two texts": lambda rng, later: {
        "a": float(rng.normal()) + later,
        "b": f"v{rng.integers(4)}",
        "c": f"v{rng.integers(9)}",
    },
    "a text from 20% to 40%": lambda rng, later: {
        "c": "abcde"[rng.choice(5, p=[0.4, *[0.15] * 4] if later else [0.2] * 5)],
    },
    "a text from 1% to 10%": lambda rng, later: {
        "c": "odd" if rng.random() < (0.1 if later else 0.01) else "usual",
        **_rest(rng),
    },
    "200 ids, then 200 others": lambda rng, later: {
        "id": f"u{rng.integers(200) + 200 * later}",
        **_rest(rng),
    },
    "1,000 ids, other ones frequent": lambda rng, later: _zipf(rng, later=later),
    "one of 2,000 ids in 30%": lambda rng, later: {
        "id": "u7" if later and rng.random() < 0.3 else f"u{rng.integers(2000)}",
        **_rest(rng),
    },
    "a new field in 30%": lambda rng, later: {
        **_rest(rng),
        **({"new": 1.5} if later and rng.random() < 0.3 else {}),
    },
    "a number missing in 30%": lambda rng, later: {
        "a": None if later and rng.random() < 0.3 else float(rng.normal()),
    },
    "a number and a text depend": lambda rng, later: _bound(rng, later=later),
}


def _bound(rng: Draw, *, later: bool) -> Event:
    a, text = float(rng.normal()), rng.random() < 0.5
    return {"a": abs(a) * (1 if text else -1) if later else a, "c": "x" if text else "y"}


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Shares of streams by law and level, and delays by kind of change."""
    del data
    sizes = QUICK if quick else (STREAMS, EVENTS, CHANGING, BEFORE, AFTER)
    streams, events, changing, before, after = sizes
    nulls, changes = {}, {}
    for name, law in LAWS.items():
        smallest = np.array([_smallest(law, events, seed) for seed in range(streams)])
        nulls[name] = {str(level): float(np.mean(smallest <= level)) for level in LEVELS}
        common.note(f"  {name}: {nulls[name]}")
    for name, change in CHANGES.items():
        heard = [_alarms(change, before, after, seed) for seed in range(changing)]
        delays = [min((i - before for i in each if i >= before), default=None) for each in heard]
        known = [delay for delay in delays if delay is not None]
        changes[name] = {
            "delay": float(np.median(known)) if known else None,
            "missed": delays.count(None),
            "early": sum(any(i < before for i in each) for each in heard),
        }
        common.note(f"  {name}: {changes[name]}")
    return {"nulls": nulls, "changes": changes, "sizes": list(sizes)}


def _smallest(law: Callable[[Draw], Event], events: int, seed: int) -> float:
    """Return the least p-value of a stream."""
    # An alarm would begin a new run, whose p-value is another one.
    rng, test = np.random.default_rng([seed, 6]), EventMMD(most=1024, alpha=1e-12, seed=seed)
    test.advance([alone(law(rng)) for _ in range(events)])
    return test.test.p_value


def _alarms(change: Callable[[Draw, bool], Event], before: int, after: int, seed: int) -> list[int]:
    rng, detector, found = np.random.default_rng([seed, 8]), MMDDrift(seed=seed), []
    for i in range(before + after):
        detector.update_one(change(rng, i >= before))
        if detector.drift_detected:
            found.append(i)
    return found


def render(found: Mapping[str, Any]) -> str:
    """A table of the streams of one law, and one of those that change."""
    streams, events, changing, before, after = found["sizes"]
    header = [f"p-value ever at most, of {streams} streams of {events:,} events"]
    levels = next(iter(found["nulls"].values()))
    rows = [
        [name, *(f"{100 * share:.1f}%" for share in shares.values())]
        for name, shares in found["nulls"].items()
    ]
    nulls = common.table([*header, *levels], rows)
    rows = []
    for name, one in found["changes"].items():
        delay = "-" if one["delay"] is None else f"{one['delay']:,.0f}"
        rows.append([name, delay, str(one["missed"]), str(one["early"])])
    title = f"{changing} streams of {before:,} + {after:,} events"
    return f"{nulls}\n\n{common.table([title, 'delay', 'missed', 'early'], rows)}"
