"""Rounds of up to 1,024 workers, simulated with the constants that were fitted to 1 and 2.

Each worker has a shard of its own. A worker's seconds in a round are multiplied by a draw of a
log-normal law that is 5% wide, as measured rounds are on a machine without other programs.
Machines have links of 10 Gbit/s with 0.2 ms of latency. All rounds are whole, of 4,096 events a
shard, unless a stream's length is given; then its beginning without shards is counted too.

star   what streamk does
noisy  the law is 30% wide
long   rounds of 16,384 events a shard
tree   workers hand on the common model and merge theirs; that is not built

Nothing else is in it: no worker dies, and neither reading nor decoding events, nor writing their
predictions, takes the driver time.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import common
from benchmarks.scale_out.cost_model import (
    Costs,
    Link,
    first_events,
    lengths,
    mean_round,
)
from streamk.learners.sharded.sharded import ROUND_EVENTS

WORKERS = tuple(1 << k for k in range(1, 11))
STREAMS = 1_000_000, 10_000_000, 100_000_000
"""Events of streams that are simulated from their beginning."""
NETWORK = Link(bandwidth=1.25e9, latency=2e-4)
RATES = 10_000, 20_000, 50_000, 100_000, 200_000, 500_000
"""Events a second."""
EVEN, NOISY, LONG = 0.05, 0.3, 16_384
_PAYS = 1.25
"""Twice the workers pay where they learn at least so many times as fast."""


def measure(costs: Mapping[str, Any], *, quick: bool) -> dict[str, Any]:
    """Simulated figures by case and design.

    Parameters
    ----------
    costs : mapping
        What `benchmarks.scale_out.fitting.measure` found.
    quick : bool
    """
    found: dict[str, Any] = {}
    for case, one in costs.items():
        even, noisy = (Costs(**{**one["costs"], "spread": spread}) for spread in (EVEN, NOISY))
        designs = {
            "star": _simulated(even, "star", ROUND_EVENTS, quick=quick),
            "star, noisy": _simulated(noisy, "star", ROUND_EVENTS, quick=quick),
            "star, long": _simulated(even, "star", LONG, quick=quick),
            "tree": _simulated(even, "tree", ROUND_EVENTS, quick=quick),
        }
        found |= {f"{case}, {design}": figures for design, figures in designs.items()}
        common.note(f"  {case}: {designs['star']}")
    return found


def _simulated(costs: Costs, design: str, each: int, *, quick: bool) -> dict[str, Any]:
    """Return the figures of rounds with so many events of a shard."""
    workers = WORKERS[:2] if quick else WORKERS
    alone = 1.0 / costs.event
    speeds = {1: alone} | {n: _events_per_second(costs, n, design, each) for n in workers}
    return {
        "alone": alone,
        "speed_ups": {str(n): speeds[n] / alone for n in workers},
        "pays_to": pays_to(speeds),
        "workers": {str(rate): workers_for(rate, speeds) for rate in RATES},
        "streams": {
            str(events): _best(costs, events, workers, design, each)
            for events in STREAMS[: 1 if quick else None]
        },
    }


def _events_per_second(costs: Costs, workers: int, design: str, each: int) -> float:
    seconds = mean_round(costs, NETWORK, each=each, shards=workers, workers=workers, design=design)
    return workers * each / seconds


def pays_to(speeds: Mapping[int, float]) -> int:
    """Return up to how many workers each doubling of them makes learning faster by a quarter.

    Parameters
    ----------
    speeds : mapping of int to float
        Events a second by the number of workers, in its order.

    Examples
    --------
    >>> pays_to({1: 10.0, 2: 19.0, 4: 30.0, 8: 35.0, 16: 60.0})
    4
    """
    counts = list(speeds)
    for fewer, more in itertools.pairwise(counts):
        if speeds[more] < _PAYS * speeds[fewer]:
            return fewer
    return counts[-1]


def workers_for(rate: float, speeds: Mapping[int, float]) -> int | None:
    """Return the fewest of some numbers of workers that keep up with a rate, None if none does.

    Examples
    --------
    >>> workers_for(25.0, {1: 10.0, 2: 19.0, 4: 30.0}), workers_for(40.0, {1: 10.0})
    (4, None)
    """
    return min((count for count, speed in speeds.items() if speed >= rate), default=None)


def stream_seconds(
    costs: Costs, link: Link, events: int, workers: int, design: str, most: int = ROUND_EVENTS
) -> float:
    """Return the seconds of a stream: before the rounds, in them, and after the last whole one."""
    rounds = Counter(lengths(events, workers, most))
    learned = first_events(workers) + workers * sum(n * each for each, n in rounds.items())
    if learned > events:
        return events * costs.event
    seconds = first_events(workers) * costs.event
    left = events - learned  # of a round that is not whole
    if left:
        rounds[left // workers] += 1
    for each, n in rounds.items():
        taken = mean_round(
            costs, link, each=each, shards=workers, workers=workers, design=design, rounds=20
        )
        seconds += n * taken
    return seconds


def _best(
    costs: Costs, events: int, workers: Sequence[int], design: str, most: int
) -> dict[str, float]:
    """Return with how many workers a stream is learned fastest, and how many times as fast."""
    seconds = {1: events * costs.event}
    seconds |= {n: stream_seconds(costs, NETWORK, events, n, design, most) for n in workers}
    best = min(seconds, key=seconds.__getitem__)
    return {"workers": best, "speed_up": events * costs.event / seconds[best]}


def render(found: Mapping[str, Any]) -> str:
    """The speed-ups, the workers for a rate, and those for whole streams."""
    counts = list(next(iter(found.values()))["speed_ups"])
    rows, rates, streams = [], [], []
    for name, one in found.items():
        ups = [f"{one['speed_ups'][n]:.{1 if int(n) > 4 else 2}f}" for n in counts]
        rows.append([name, *ups, f"{one['pays_to']:,}"])
        wanted = [one["workers"][rate] for rate in one["workers"]]
        rates.append(
            [name, f"{one['alone']:,.0f}", *("-" if n is None else f"{n:,}" for n in wanted)]
        )
        cells = [
            f"{best['speed_up']:.1f} ({best['workers']:,})" for best in one["streams"].values()
        ]
        streams.append([name, *cells])
    head = ["times as fast as one, W =", *(f"{int(n):,}" for n in counts), "pays to"]
    some = next(iter(found.values()))
    of_rates = ["workers for events/s", "one has", *(f"{int(rate):,}" for rate in some["workers"])]
    of_streams = ["best of whole streams (W)", *(f"{int(n):,} events" for n in some["streams"])]
    tables = (head, rows), (of_rates, rates), (of_streams, streams)
    return "\n\n".join(common.table(*one) for one in tables)
