"""Rounds of up to 1,024 workers, simulated with the constants that were fitted to 1 and 2.

Each worker has a shard of its own. A worker's seconds in a round are multiplied by a draw of a
log-normal law, as wide as measured rounds say. Machines have links of 10 Gbit/s with 0.2 ms of
latency. Beside the star, which is what streamk does, stands a tree, which is not built.

Nothing else is in it: no worker dies, and neither reading nor decoding events, nor writing their
predictions, takes the driver time. All rounds are whole, of 4,096 events a shard, unless a stream's
length is given; then its beginning without shards is counted too.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from benchmarks import common
from benchmarks.scale_out.cost_model import (
    DESIGNS,
    Costs,
    Link,
    first_events,
    lengths,
    mean_round,
)
from streamk.learners.sharded.learner import ROUND_EVENTS

WORKERS = tuple(1 << k for k in range(1, 11))
STREAMS = 1_000_000, 10_000_000, 100_000_000
"""Events of streams that are simulated from their beginning."""
NETWORK = Link(bandwidth=1.25e9, latency=2e-4)
RATES = 10_000, 20_000, 50_000, 100_000, 200_000, 500_000
"""Events a second."""
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
    workers = WORKERS[:2] if quick else WORKERS
    found: dict[str, Any] = {}
    for case, one in costs.items():
        case_costs = Costs(**one["costs"])
        for design in DESIGNS:
            speeds = {n: _events_per_second(case_costs, n, design) for n in workers}
            alone = 1.0 / case_costs.event
            found[f"{case}, {design}"] = {
                "alone": alone,
                "speed_ups": {str(n): speed / alone for n, speed in speeds.items()},
                "pays_to": pays_to({1: alone, **speeds}),
                "workers": {str(rate): workers_for(rate, {1: alone, **speeds}) for rate in RATES},
                "streams": {
                    str(events): _best(case_costs, events, workers, design)
                    for events in STREAMS[: 1 if quick else None]
                },
            }
        common.note(f"  {case}: {found[f'{case}, star']}")
    return found


def _events_per_second(costs: Costs, workers: int, design: str) -> float:
    seconds = mean_round(
        costs, NETWORK, each=ROUND_EVENTS, shards=workers, workers=workers, design=design
    )
    return workers * ROUND_EVENTS / seconds


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


def stream_seconds(costs: Costs, link: Link, events: int, workers: int, design: str) -> float:
    """Return the seconds of a stream from its beginning: before the rounds, in them, and after."""
    rounds = Counter(lengths(events, workers))
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


def _best(costs: Costs, events: int, workers: tuple[int, ...], design: str) -> dict[str, float]:
    """Return with how many workers a stream is learned fastest, and how many times as fast."""
    seconds = {1: events * costs.event}
    seconds |= {n: stream_seconds(costs, NETWORK, events, n, design) for n in workers}
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
