"""All contestants on the battery's streams, labels at once or 48 events late, and who is best.

Streams are cut after `EVENTS` events, or have their whole length: those that have more. Of these,
too, are the streams in random order, where nothing changes and the labels before tell nothing.
Where ours and the best rival of a stream are within a point (1% of the error of numbers), ours is
run with five seeds: the interval there is that of the mean of their losses, event by event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.retrained import trees
from benchmarks.retrained.contestants import CONTESTANTS, RIVALS, ROWS, of_seed
from benchmarks.river_battery import compare, scores, standing, tables, units
from benchmarks.river_battery.contestant import SEED
from benchmarks.river_battery.measure import Battery
from benchmarks.river_battery.ours import OURS, PLAIN
from benchmarks.river_battery.streams import FILES, NUMBERS, RIVERS, STREAMS, Stream, load

EVENTS = 20_000
LIMIT = 600.0
WHOLE_LIMIT = 1_200.0
"""Seconds of the processor for a stream of whole length, of up to 150,000 events."""
LONGER = (
    *("elec2", "airlines_h2o_44k", "gmsc", "a9a", "covtype_subset93k", "rialto", "kdd99_10pct"),
    *("cadata_california_housing", "beijing_pm25", "house_16H"),
)
"""Streams of more than `EVENTS` events."""
ORDERED = tuple(name for name in LONGER if name != "cadata_california_housing")
"""Those of them that are not in random order anyway."""
SEEDS = 5
_CLOSE = 0.01


def measure(
    data: Directory,
    *,
    quick: bool,
    cached: bool,
    delay: int = 0,
    whole: bool = False,
    shuffled: bool = False,
    names: Sequence[str] = tuple(STREAMS),
) -> dict[str, Any]:
    """Measure all contestants; compare ours, with and without a metric, with the best rival.

    With `whole` it is the longer streams alone, none of which is cut; with `shuffled` events of
    these in random order.
    """
    taken = ORDERED if shuffled else LONGER if whole else tuple(STREAMS)
    cut = 0 if whole or shuffled else EVENTS
    streams = [load(name, data, quick=quick, events=cut) for name in names if name in taken]
    if shuffled:
        streams = [stream.shuffled().first(EVENTS) for stream in streams]
    limit, start = (WHOLE_LIMIT, EVENTS) if whole else (LIMIT, trees.EVERY)
    battery = Battery(
        streams,
        delay,
        units.directory(),
        limit,
        idle=cached,
        keep_ours=True,
        contestants=CONTESTANTS,
    )
    figures = battery.figures(list(CONTESTANTS))
    rivals = [one.name for one in RIVALS]
    against = {one.name: battery.against_best(figures, rivals, one.name) for one in (OURS, PLAIN)}
    close = {
        stream: one["rival"]
        for stream, one in against[OURS.name].items()
        if abs(one["difference"]) < _CLOSE
    }
    return {
        "delay": delay,
        "whole": whole,
        "shuffled": shuffled,
        "limit_s": limit,
        "streams": {stream.name: stream.describe() for stream in streams},
        "contestants": figures,
        **_later(battery, figures, start),
        "against": against,
        "seeds_of": OURS.name,
        "seeds": {
            stream.name: one
            for stream in streams
            if stream.name in close and (one := _seeds(battery, stream, close[stream.name]))
        },
    }


def _later(battery: Battery, figures: standing.Figures, start: int) -> dict[str, Any]:
    """Scores from that event on, of streams that go on for long enough; ours less the best."""
    found: dict[str, Any] = {}
    against: dict[str, dict[str, Any]] = {OURS.name: {}, PLAIN.name: {}}
    for stream in battery.streams:
        there = [name for name in figures if stream.name in figures[name]]
        if len(stream) < start + trees.EVERY:
            continue
        losses = dict(_losses(battery, there, stream, start))
        numbers = stream.task == "regression"
        for name, lost in losses.items():
            mean = float(lost.mean())
            found.setdefault(name, {})[stream.name] = (
                {"mae": mean} if numbers else {"accuracy": 1 - mean}
            )
        rivals = {one.name: losses[one.name] for one in RIVALS if one.name in losses}
        for ours in (name for name in against if name in losses and rivals):
            against[ours][stream.name] = compare.best(rivals, losses[ours], parts=numbers)
    return {"later_from": start, "later": found, "later_against": against}


def _losses(battery: Battery, names: Sequence[str], stream: Stream, start: int) -> Any:
    """Those from that event on, of all that came to the end of a stream."""
    for name in names:
        outcome = battery.run(CONTESTANTS[name], stream)
        if outcome is not None and not outcome.ended:
            yield name, scores.losses(outcome, stream)[start:]


def _seeds(battery: Battery, stream: Stream, rival: str) -> dict[str, Any]:
    """Ours less a rival: the mean over seeds with its interval, and each; if all were run."""
    contestants = [of_seed(OURS, seed) if seed != SEED else OURS for seed in range(1, SEEDS + 1)]
    outcomes = [one for each in contestants if (one := battery.run(each, stream)) is not None]
    if len(outcomes) < SEEDS:
        return {}
    pairs = [battery.losses(rival, stream, outcome) for outcome in outcomes]
    losses = [pair for pair in pairs if pair is not None]
    if len(losses) < SEEDS:
        return {}
    theirs, ours = (np.array(each) for each in zip(*losses, strict=True))
    differences = (theirs - ours).mean(axis=1).tolist()
    found = compare.paired(theirs.mean(axis=0), ours.mean(axis=0))
    return {"rival": rival, **found, "values": differences}


def render(found: Mapping[str, Any]) -> str:
    """The tables of one part."""
    figures = found["contestants"]
    late = f"{found['delay']} late" if found["delay"] else "at once"
    late = "whole length" if found["whole"] else late
    late = "random order" if found.get("shuffled") else late
    classes = standing.streams_of(figures, (*FILES, *RIVERS))
    narrow = standing.without(classes, standing.WIDE)
    accuracy = partial(tables.accuracy, f"accuracy, %, {late}", figures, rows=ROWS)
    over = partial(tables.over_streams, figures=figures, rows=ROWS)
    later = f"from {found['later_from']:,}"
    shown = [
        accuracy(FILES, gmsc=True),
        accuracy(RIVERS),
        over(f"{late}, all of these", streams=classes),
        over(f"{late}, without spam", streams=narrow),
        tables.where_both(f"{late}, where both finished", figures, classes, rows=ROWS),
        tables.accuracy(f"%, {late}, {later}", found["later"], FILES, rows=ROWS),
        tables.accuracy(f"%, {late}, {later}", found["later"], RIVERS, rows=ROWS),
        tables.errors("MAE", "mae", late, figures, rows=ROWS),
        tables.errors("MAE", "mae", later, found["later"], rows=ROWS),
        tables.errors("RMSE", "rmse", late, figures, rows=ROWS),
    ]
    when = {"whole length": "whole", "random order": "random"}.get(late, late)
    shown += _against(": {}, " + when, found["against"])
    shown += _against(f" {later}: {{}}", found["later_against"])
    title = f"{SEEDS} seeds of {found['seeds_of']}, {late}"
    shown += [_seeded(title, found["seeds"]), _rates(late, figures)]
    return "\n\n".join(table for table in shown if table)


def _against(form: str, found: Mapping[str, Any]) -> list[str]:
    """Ours with and without a metric less the best rival of each stream; titles are short."""
    shown = []
    for name, against in found.items():
        title = (name.removeprefix(f"{OURS.name}, ") if name != OURS.name else "ours") + form
        shown += [
            tables.against(title.format("points"), "best rival", against, 100),
            tables.against(title.format("% MAE"), "best rival", against, 100, NUMBERS),
        ]
    return shown


def missing(found: Mapping[str, Any]) -> str:
    """Contestants and the streams that they take and were not run on."""
    lacking = []
    for name in ROWS:
        there = found["contestants"].get(name, {})
        one = CONTESTANTS[name]
        takes = [
            stream
            for stream, about in found["streams"].items()
            if about["task"] in one.tasks and about["columns"] <= one.most_columns
        ]
        run = [stream for stream in takes if stream in there]
        few = [stream for stream in takes if stream not in there]
        if few and not run:
            lacking.append(name)
        elif few:
            some = _listed(few) if len(few) <= len(run) else f"all but {_listed(run)}"
            lacking.append(f"{name} ({some})")
    return "; ".join(lacking)


def slow(found: Mapping[str, Any]) -> str:
    """Contestants and the streams of which they did not come to the end in time."""
    ended = {
        name: [stream for stream, one in there.items() if one.get("ended") == "too slow"]
        for name, there in found["contestants"].items()
    }
    return "; ".join(f"{name} ({_listed(some)})" for name, some in ended.items() if some)


def _listed(streams: Sequence[str]) -> str:
    return ", ".join(stream.partition("_")[0] for stream in streams)


def _seeded(title: str, found: Mapping[str, Any]) -> str:
    """Ours less the best rival where they are close; points, or % of its MAE."""
    rows = []
    for name, one in found.items():
        low, mean, high = (f"{100 * one[key]:+.2f}" for key in ("low", "difference", "high"))
        least, most = (f"{100 * value:+.2f}" for value in (min(one["values"]), max(one["values"])))
        rows.append([name, one["rival"], mean, f"{low} to {high}", f"{least} to {most}"])
    header = [title, "best rival", "mean less it", "95%", "single seeds"]
    return common.table(header, rows) if rows else ""


def _rates(late: str, figures: standing.Figures) -> str:
    """Events a second of the processor, trainings among them, over the streams of each."""
    rows = []
    for name in ROWS:
        rates = [one["events_per_cpu_s"] for one in figures.get(name, {}).values()]
        if rates:
            seconds = sum(one["cpu_seconds"] for one in figures[name].values())
            cells = (np.median(rates), min(rates), max(rates), seconds)
            rows.append([name, str(len(rates)), *(f"{cell:,.0f}" for cell in cells)])
    header = [f"events/CPU s, {late}", "streams", "median", "least", "most", "CPU s in all"]
    return common.table(header, rows)
