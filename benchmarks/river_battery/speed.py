"""Events/s of ours against those of ARF with ten trees, on every stream.

Ours are with their defaults, and without a feature machine among the experts ("no metric"). All
take the same events in turn, round after round, and go on learning from one round to the next: ours
and ARF through River's `progressive_val_score`, and the model that `streamk run` makes through the
engine from memory. A round follows some events that are not timed. A stream of more columns than
the engine looks for by itself is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.river_battery import ours, rivers
from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.streams import Stream
from streamk.encoding.schema import MAX_COLUMNS

NAME = "river_battery_speed"
ROUNDS = 3
ROUND = 2_000
WARM = 1_000
_COMPILES = 1_300
"""Events after which the engine has compiled all that it needs, with a model of their own."""
RIVER_GOAL = 20
ENGINE_GOALS = {"binary": 60, "classes": 30}
"""Times ARF's rate, of ours without a metric."""
LOOP, ENGINE, FOREST = "streamk, River's loop", "streamk, engine", "River ARF, 10"
PLAIN_LOOP, PLAIN_ENGINE = f"{LOOP}, no metric", f"{ENGINE}, no metric"
_PAIRS = {"": (LOOP, ENGINE), ", no metric": (PLAIN_LOOP, PLAIN_ENGINE)}
_FOREST = next(c for c in rivers.CONTESTANTS if c.name == FOREST)


def measure(streams: Sequence[Stream]) -> dict[str, Any]:
    """Rates and ratios on each stream, and the goals."""
    found = {}
    for stream in streams:
        if len(stream.columns) > MAX_COLUMNS:
            common.note(f"{stream.name} is left out: {len(stream.columns):,} columns")
            continue
        common.note(stream.name)
        found[stream.name] = _measured(stream)
    return {
        "streams": found,
        "goals": [goal for one in found.values() for goal in one.pop("goals")],
    }


def _measured(stream: Stream) -> dict[str, Any]:
    warm = min(WARM, len(stream) // 5)
    size = min(ROUND, (len(stream) - warm) // ROUNDS)
    contestants: dict[str, Callable[[Stream], Any]] = {
        LOOP: _by_river(ours.OURS, stream),
        ENGINE: _by_engine(stream),
        PLAIN_LOOP: _by_river(ours.PLAIN, stream),
        PLAIN_ENGINE: _by_engine(stream, external_experts=()),
        FOREST: _by_river(_FOREST, stream),
    }
    for take in contestants.values():
        take(stream.first(warm))
    rounds = [stream.part(warm + size * k, warm + size * (k + 1)) for k in range(ROUNDS)]
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for part in rounds:
        for name, take in contestants.items():
            rates[name].append(size / take(part))
    common.note("  " + "; ".join(f"{name} {rate[-1]:,.0f}/s" for name, rate in rates.items()))
    ratios = {
        name: [a / b for a, b in zip(rates[name], rates[FOREST], strict=True)]
        for names in _PAIRS.values()
        for name in names
    }
    goals = [hot.goal(f"{stream.name}, River's loop", ratios[PLAIN_LOOP], "x", least=RIVER_GOAL)]
    if stream.task in ENGINE_GOALS:
        least = ENGINE_GOALS[stream.task]
        goals.append(hot.goal(f"{stream.name}, engine", ratios[PLAIN_ENGINE], "x", least=least))
    return {
        "events_a_round": size,
        "events_per_s": {name: common.spread(values) for name, values in rates.items()},
        "times_arf": {name: common.spread(values) for name, values in ratios.items()},
        "goals": goals,
    }


def _by_river(contestant: Contestant, stream: Stream) -> Callable[[Stream], float]:
    """Seconds in which River's loop takes a part of the stream."""
    from river import evaluate, metrics

    model = contestant.make(stream)
    metric = metrics.MAE() if stream.task == "regression" else metrics.Accuracy()

    def take(part: Stream) -> float:
        events = part.events(none=contestant.none)
        return common.timed(lambda: evaluate.progressive_val_score(events, model, metric))

    return take


def _by_engine(stream: Stream, **options: Any) -> Callable[[Stream], float]:
    """Seconds in which the engine takes a part of the stream."""
    from connectors.memory import MemorySource
    from streamk.cli.run import MODEL
    from streamk.engine import Engine
    from streamk.learners import create

    task = "regression" if stream.task == "regression" else "classification"
    columns = tuple(str(column) for column in stream.columns)

    def seconds(model: Any, part: Stream) -> float:
        source = MemorySource((part.table().astype(np.float32), part.y), columns=columns)
        engine = Engine(source, model, label="label")
        return common.timed(engine.run)

    seconds(create(MODEL, task=task, seed=SEED, **options), stream.first(_COMPILES))
    model = create(MODEL, task=task, seed=SEED, **options)
    return lambda part: seconds(model, part)


def render(document: Mapping[str, Any]) -> str:
    """The tables: rates, and how many times ARF's they are."""
    results = document["results"]
    tables = [_rates(results["streams"], about, *pair) for about, pair in _PAIRS.items()]
    missed = [goal for goal in results["goals"] if not goal["reached"]]
    text = f"Goals reached: {len(results['goals']) - len(missed)} of {len(results['goals'])}."
    tables = [*filter(None, tables), text]
    if missed:
        tables.append(hot.goals_table(missed, "goals missed"))
    return "\n\n".join([*tables, common.origin(document)])


def _rates(streams: Mapping[str, Any], about: str, loop: str, engine: str) -> str:
    """The table of ours with one setting, if that was measured."""
    rows = []
    for name, one in streams.items():
        rates, times = one["events_per_s"], one["times_arf"]
        if loop in rates:
            rows.append(
                [
                    name,
                    *(f"{rates[who]['median']:,.0f}" for who in (FOREST, loop)),
                    _times(times[loop]),
                    f"{rates[engine]['median']:,.0f}",
                    _times(times[engine]),
                ]
            )
    header = [f"events/s{about}", "ARF, 10", "River's loop", "times ARF", "engine", "times ARF"]
    return common.table(header, rows) if rows else ""


def _times(figure: Mapping[str, Any]) -> str:
    return (
        f"{hot.short(figure['median'])} ({hot.short(figure['low'])} to {hot.short(figure['high'])})"
    )
