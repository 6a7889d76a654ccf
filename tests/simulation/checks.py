"""What must hold at the end of a run, whatever has happened in it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from streamk.engine import Checkpoint, newest_checkpoint
from streamk.engine.recovery.group import Group
from streamk.errors import StateError

from .broker import Broker, Log
from .client import is_bad
from .transactions import Coordinator


class Problem(NamedTuple):
    """Something that must not be: its kind, by which it can be left out, and what it is."""

    kind: str
    text: str


Position = tuple[str, int]


def positions(logs: Mapping[str, Log]) -> dict[int, Position]:
    """Partition and offset of every event by its identifier."""
    return {
        number: (name, offset)
        for name, log in logs.items()
        for number, offset in zip(log.ids, log.offsets, strict=True)
    }


def usable(logs: Mapping[str, Log]) -> dict[str, Log]:
    """Logs without the events that cannot be used."""
    found = {}
    for name, log in logs.items():
        rows = zip(log.offsets, log.times, log.ids, log.arrivals, strict=True)
        kept = [row for row in rows if not is_bad(row[2])]
        columns = [list(column) for column in zip(*kept, strict=True)] or [[], [], [], []]
        found[name] = Log(*columns, log.gap, log.first)  # type: ignore[arg-type]
    return found


def inside(position: Position, ranges: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a position lies in one of the ranges that were reported lost."""
    name, offset = position
    return any(r["partition"] == name and r["start"] <= offset < r["stop"] for r in ranges)


def own_events(logs: Mapping[str, Log], found: Checkpoint) -> list[int]:
    """What a checkpoint's lineage has learned itself, not with the model that it began with."""
    where, learned = positions(logs), found.body["feed"]["learned"]
    return [
        number
        for number in found.model.arrays["ids"].tolist()
        if any(a <= where[number][1] < b for a, b in learned.get(where[number][0], ()))
    ]


def merge_order(logs: Mapping[str, Log]) -> list[int]:
    """The one sequence of whole logs: by clock, partition and offset."""
    keyed = []
    for name, log in logs.items():
        clock = -(2**63)
        for time, offset, number in zip(log.times, log.offsets, log.ids, strict=True):
            clock = max(clock, time)
            keyed.append((clock, name, offset, number))
    return [number for *_, number in sorted(keyed)]


def counted_once(
    logs: Mapping[str, Log],
    learned: list[int],
    lost: list[Mapping[str, Any]],
    elsewhere: Mapping[str, list[int]],
) -> list[Problem]:
    """Every event is in the last model once, or reported lost.

    `learned`: the events of the last model.
    `lost`: ranges that any checkpoint or report lists.
    `elsewhere`: events of the models that nobody has taken over.
    """
    where, found = positions(logs), Counter(learned)
    problems = []
    twice = sorted(where[number] for number, n in found.items() if n > 1)
    if twice:
        problems.append(Problem("twice", f"{len(twice)} events twice, {spans(twice)}"))
    others = {number: name for name, numbers in elsewhere.items() for number in numbers}
    missing, orphans = [], defaultdict(list)
    for number, position in where.items():
        if number in found or inside(position, lost):
            continue
        if number in others:
            orphans[others[number]].append(position)
        else:
            missing.append(position)
    if missing:
        problems.append(
            Problem("missing", f"{len(missing)} events in no model, unreported: {spans(missing)}")
        )
    for name, orphaned in orphans.items():
        problems.append(
            Problem("orphaned", f"{len(orphaned)} events only in {name}: {spans(orphaned)}")
        )
    for name, numbers in elsewhere.items():
        both = sorted(where[number] for number in set(numbers) & set(found))
        if both:
            problems.append(
                Problem("twice elsewhere", f"{len(both)} also in {name}: {spans(both)}")
            )
    return problems


def in_order(logs: Mapping[str, Log], learned: list[int]) -> list[Problem]:
    """Inside a partition events are learned in the order of their offsets."""
    where = positions(logs)
    at: dict[str, int] = defaultdict(lambda: -1)
    for number in learned:
        name, offset = where[number]
        if offset <= at[name]:
            return [Problem("order", f"{name} offset {offset} learned after {at[name]}")]
        at[name] = offset
    return []


def at_least_once(broker: Broker, lost: list[Mapping[str, Any]], *, grouped: bool) -> list[Problem]:
    """Each position is written, and with one value, or the others say that they are revisions."""
    values: dict[Position, list[dict[str, Any]]] = defaultdict(list)
    for _, output in broker.written:
        values[output.partition, output.offset].append(output.value)
    where = positions(broker.logs).values()
    missing = [place for place in where if place not in values and not inside(place, lost)]
    problems = []
    if missing:
        problems.append(Problem("unwritten", f"{len(missing)} not written: {spans(missing)}"))
    differing = [place for place, found in values.items() if _differ(found)]
    if differing:
        kind = "revision" if grouped else "values"
        problems.append(
            Problem(kind, f"{len(differing)} written with two values: {spans(differing)}")
        )
    return problems


def committed_once(
    coordinator: Coordinator,
    lost: list[Mapping[str, Any]],
    expected: Mapping[Position, Mapping[str, Any]],
) -> list[Problem]:
    """A reader of what was committed sees each position once, as a prediction or a dead letter.

    `expected`: the predictions of an undisturbed run; empty where they are not known.
    """
    coordinator.settle()
    logs, seen = coordinator.broker.logs, _committed(coordinator)
    where, good = positions(logs), positions(usable(logs))
    problems = []
    for topic, wanted in (
        ("scores", set(good.values())),
        ("dead", set(where.values()) - set(good.values())),
    ):
        found = seen[topic]
        if missing := [one for one in wanted if one not in found and not inside(one, lost)]:
            problems.append(
                Problem("unwritten", f"{len(missing)} not in {topic}: {spans(missing)}")
            )
        if twice := [place for place, values in found.items() if len(values) > 1]:
            problems.append(
                Problem("written twice", f"{len(twice)} twice in {topic}: {spans(twice)}")
            )
        if strange := set(found) - wanted:
            problems.append(Problem("strange", f"{len(strange)} in {topic}: {spans(strange)}"))
    scores = seen["scores"].items()
    if revised := [one for one, values in scores if any(v.get("revision") for v in values)]:
        problems.append(Problem("revision", f"{len(revised)} revised: {spans(revised)}"))
    if wrong := [one for one, values in scores if any(v != expected.get(one, v) for v in values)]:
        problems.append(Problem("values", f"{len(wrong)} other than wanted: {spans(wrong)}"))
    return problems


def _committed(coordinator: Coordinator) -> dict[str, dict[Position, list[dict[str, Any]]]]:
    """What a reader of committed records sees of each topic, by the position of the input."""
    seen: dict[str, dict[Position, list[dict[str, Any]]]] = {}
    for name, topic in coordinator.topics.items():
        found = seen[name] = defaultdict(list)
        for number in range(len(topic.partitions)):
            end = topic.end(number, committed=True)
            for _, record in topic.read(number, 0, end):
                headers = {key: value.decode() for key, value in record.headers}
                partition = f"{headers['streamk-topic']}:{headers['streamk-partition']}"
                place = partition, int(headers["streamk-offset"])
                found[place].append(json.loads(record.value))
    return seen


def _differ(found: list[dict[str, Any]]) -> bool:
    """Whether two values that do not call themselves revisions differ."""
    plain = [one for one in found if one.get("revision") is not True]
    return any(one != plain[0] for one in plain[1:])


def agreed(broker: Broker, directories: Iterable[Path]) -> tuple[dict[str, Checkpoint], list[Any]]:
    """The newest checkpoint of each slot that agrees with the group.

    Returns them by name, and the ranges that any checkpoint lists as lost.
    """
    found, lost = {}, []
    asked: Any = SimpleNamespace(committed=broker.committed.get)
    agrees = Group(asked, None, 0).agrees
    for slot in [path for directory in directories for path in sorted(directory.glob("member-*"))]:
        try:
            newest = newest_checkpoint(slot, agrees)
        except StateError:
            continue
        if newest is not None:
            found[f"{slot.parent.name}/{slot.name}"] = newest
            lost += newest.body["feed"]["lost"]
    return found, lost


def never_there(broker: Broker) -> list[dict[str, Any]]:
    """Ranges that were deleted before the group began with a partition."""
    begun: dict[str, int] = {}
    for name, offset, _ in broker.accepted:
        begun.setdefault(name, offset)
    return [{"partition": name, "start": 0, "stop": stop} for name, stop in begun.items()]


def spans(found: Iterable[Position]) -> str:
    """Positions in short: the first and last offset of each partition."""
    offsets = defaultdict(list)
    for name, offset in found:
        offsets[name].append(offset)
    return ", ".join(f"{name}[{min(some)}..{max(some)}]" for name, some in sorted(offsets.items()))
