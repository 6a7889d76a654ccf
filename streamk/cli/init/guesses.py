"""Guesses about a stream from its first events: label, task, time, entities, and doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamk.cli.init.columns import TIME, Column, look, words_in
from streamk.encoding import LabelReader, Name, Rejected, Schema
from streamk.encoding.values import text_of

_LABELS = frozenset(words_in("label labels target class y outcome response truth"))
_LIKELY = frozenset(
    words_in(
        "label target class clicked click converted conversion churn churned fraud spam bought"
        " purchased defaulted survived price sales demand rating quality"
    )
)
_QUANTITIES = frozenset(words_in("price sales demand count amount quantity total number load"))
_ENTITIES = frozenset(
    words_in(
        "user customer client account card device session merchant shop store seller driver vehicle"
        " sensor station machine host ip patient player id"
    )
)
_NEVER_LABELS = ("constant", "empty", "identifier", "list", "time", "text")
_MOST_CLASSES = 30
"""More different whole numbers are taken for quantities."""
_SURE_CLASSES = 10
"""More different whole numbers are taken for classes with a doubt."""
_FEW = 10
"""A class of fewer events has few."""
_LEAST = 20
"""Events from which on columns are compared with the label."""


class Placed(NamedTuple):
    """The fields of an event, and its place."""

    partition: str
    offset: int
    fields: Mapping[Name, Any]


@dataclass
class Seen:
    """The first events of a stream.

    Attributes
    ----------
    events : list of Placed
    duplicates : int
        Events that equal an earlier one.
    unreadable, refused : list of str
        Records that cannot be read, and events with a value that cannot be used: place and reason.
    last_column : str or None
        That of a header.
    """

    events: list[Placed] = field(default_factory=list)
    duplicates: int = 0
    unreadable: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    last_column: str | None = None


@dataclass
class Guess:
    """Columns, their guessed uses, and doubts.

    Attributes
    ----------
    columns : dict of name to Column
    label, time : a column, or None
    task : str
        "classification", "regression", or "" without a label.
    classes : Counter
        Events of each label.
    ignore, leaks : dict of name to str
        Columns to leave out, and those that may tell the label, with the reason.
    doubts : list of str
    time_is_sure : bool
        True if `streamk run` takes the time as it is.
    """

    columns: dict[Name, Column]
    label: Column | None = None
    time: Column | None = None
    task: str = ""
    classes: Counter[str | None] = field(default_factory=Counter)
    entities: list[str] = field(default_factory=list)
    ignore: dict[str, str] = field(default_factory=dict)
    leaks: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    time_is_sure: bool = False


def guess(seen: Seen, label: str | None) -> Guess:
    """Return what the first events tell; `label` is the one that was given, if one was."""
    found = Guess(look([event.fields for event in seen.events]))
    if label is not None:
        found.label = found.columns[label]
    else:
        _guess_label(found, seen.last_column)
    if found.label is not None:
        _guess_task(found, found.label)
    found.doubts += _doubts_of_events(seen, found)
    _guess_time(found, seen)
    for column in found.columns.values():
        found.doubts += _doubts_of(column)
        if column not in (found.label, found.time) and isinstance(column.name, str):
            _guess_use(found, column, column.name)
    return found


def _guess_label(found: Guess, last: str | None) -> None:
    columns = found.columns.values()
    possible = [one for one in columns if one.kind not in _NEVER_LABELS]
    tiers = (
        [one for one in columns if str(one.name).rpartition(".")[2].lower() in _LABELS],
        [one for one in possible if not _LIKELY.isdisjoint(words_in(one.name))],
        [one for one in possible if one.name == last],
    )
    candidates = next(filter(None, tiers), [])
    if not candidates:
        found.doubts.append("no column looks like a label; --label NAME tells which it is")
        return
    found.label = candidates[-1]
    among = ", ".join(str(one.name) for one in candidates)
    if len(candidates) > 1:
        found.doubts.append(f"the label {found.label.name} is a guess among {among}; see --label")
    elif candidates is tiers[2]:
        found.doubts.append(f"the label {among} is a guess, the last column; see --label")


def _guess_task(found: Guess, label: Column) -> None:
    many = len(label.values) > _MOST_CLASSES
    quantity = len(label.values) > 2 and not _QUANTITIES.isdisjoint(words_in(label.name))
    numbers = label.main == "number" and (many or quantity or not label.is_whole)
    found.task = "regression" if numbers else "classification"
    schema = Schema(label=label.name, label_type="float" if numbers else None)
    read, refused = LabelReader(schema).one, list[str]()
    for value in label.found:
        try:
            found.classes[text_of(read(value))] += 1
        except Rejected as rejected:
            refused.append(rejected.reason)
    found.classes.pop(None, None)
    if refused:
        found.doubts.append(f"{len(refused):,} labels cannot be learned, the first: {refused[0]}")
    if not numbers:
        found.doubts += _doubts_of_classes(found.classes, label)


def _doubts_of_classes(classes: Counter[str | None], label: Column) -> Iterator[str]:
    few = [f"{one} ({n})" for one, n in classes.most_common() if n < _FEW]
    if label.is_new:
        yield f"nearly every label {label.name} is new, so classes cannot be learned"
    elif few:
        more = ", …" if len(few) > _SURE_CLASSES else ""
        yield f"classes with few events: {', '.join(few[:_SURE_CLASSES])}{more}"
    if len(classes) < 2:
        yield f"the label {label.name} has fewer than two classes so far"
    if label.main == "number" and len(classes) > _SURE_CLASSES:
        yield (
            f"the {len(classes)} whole numbers of {label.name} are taken for classes;"
            ' set task = "regression" if they are quantities'
        )


def _doubts_of_events(seen: Seen, found: Guess) -> Iterator[str]:
    n = len(seen.events)
    bad = len(seen.unreadable)
    if bad:
        yield f"{bad:,} of {n + bad:,} records cannot be read, the first at {seen.unreadable[0]}"
    if seen.refused:
        bad = len(seen.refused)
        yield f"{bad:,} of {n:,} events cannot be used, the first at {seen.refused[0]}"
    # Where all fields have few values, equal events are no duplicates.
    if seen.duplicates and any(one.is_new for one in found.columns.values()):
        yield f"{seen.duplicates:,} of {n:,} events equal an earlier one"


def _guess_time(found: Guess, seen: Seen) -> None:
    times = [one for one in found.columns.values() if one.kind == "time" and one != found.label]
    times = [one for one in times if not TIME.isdisjoint(words_in(one.name))] or times
    if not times:
        return
    found.time = times[0]
    name = found.time.name
    if len(times) > 1:
        others = ", ".join(str(one.name) for one in times)
        found.doubts.append(f"the time {name} is a guess among {others}")
    latest: dict[str, int] = {}
    backwards: list[Placed] = []
    stamps = found.time.milliseconds()
    for event, stamp in zip(seen.events, stamps, strict=True):
        if stamp is not None:
            if stamp < latest.get(event.partition, stamp):
                backwards.append(event)
            latest[event.partition] = stamp
    if backwards:
        first = f"{backwards[0].partition} offset {backwards[0].offset}"
        found.doubts.append(f"{name} goes backwards {len(backwards):,} times, first at {first}")
    is_whole = not backwards and None not in stamps
    found.time_is_sure = found.task == "regression" and len(times) == 1 and is_whole


def _doubts_of(column: Column) -> Iterator[str]:
    if column.missing > 0.5:
        yield f"{column.name} is missing in {column.missing:.0%} of the events"
    if len(column.kinds) > 1:
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in column.kinds.most_common())
        yield f"{column.name} has mixed types: {kinds}"
    if column.has_times(0.001):
        yield f"{column.name} looks like seconds since 1970; --time reads milliseconds"


def _guess_use(found: Guess, column: Column, name: str) -> None:
    repeats = 2 < len(column.values) <= column.filled / 2
    leak = None if found.label is None else _leak(found.label, column)
    if leak:
        found.leaks[name] = leak
        known = "ignore it if it is known no sooner than the label (a leak)"
        found.doubts.append(f"{name} {leak}: {known}")
    elif column.kind == "constant":
        found.ignore[name] = f"constant: {next(iter(column.values))}"
    elif column.kind == "identifier":
        found.ignore[name] = "identifier: nearly every value is new"
    elif repeats and column.is_whole and not _ENTITIES.isdisjoint(words_in(name)):
        found.entities.append(name)


def _leak(label: Column, column: Column) -> str | None:
    """Return how a column tells the label; None if it does not."""
    pairs = [two for two in zip(label.texts, column.texts, strict=True) if two[0] is not None]
    if len(pairs) < _LEAST or len(label.values) < 2:
        return None
    if all(a == b for a, b in pairs):
        return "equals the label"
    ones = len({b for _, b in pairs})
    repeats = 2 * len(label.values) <= len(pairs)
    return "tells the label" if repeats and len(set(pairs)) == len(label.values) == ones else None
