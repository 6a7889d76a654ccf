"""Reading of events that look like the usual one: values in a fixed order, and which to pack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from streamk.encoding.meaning import AS_NUMBERS
from streamk.encoding.times import Moment
from streamk.encoding.values import Name

Read = Callable[[Any], Sequence[Any]]
ReadAll = Callable[[Sequence[Any]], list[Sequence[Any]] | None]


def opens(value: Any) -> bool:
    """Return whether a value is bytes that begin with a brace."""
    return type(value) is bytes and value[:1] == b"{"


def read_none(_values: Sequence[Any]) -> None:
    """Read no events at once."""


@dataclass(slots=True)
class Fast:
    """The way to read the events that look like the usual one.

    `read` gives the values of an event in a fixed order, `numbers` picks those to pack, `filled`
    does so with NaN in the place of nulls. `read_all` gives the values of many events at once, or
    None where it cannot tell.
    """

    read: Read
    read_all: ReadAll
    numbers: Callable[[Sequence[Any]], Sequence[Any]]
    filled: Callable[[Sequence[Any]], Sequence[Any]]
    number_fields: list[Name]
    texts: list[tuple[int, Name]]
    label_at: int | None


@dataclass(slots=True)
class Rowset:
    """The events that went the fast way, by columns; `packed` are the numbers of one or more."""

    index: list[int] = field(default_factory=list)
    packed: list[bytes] = field(default_factory=list)
    codes: list[list[int]] = field(default_factory=list)
    times: list[Moment] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)


Pick = Callable[[Sequence[Any]], Sequence[Any]]


def picker(places: list[int]) -> Pick:
    """The function that picks these places, which ascend, out of a sequence."""
    if not places:
        return lambda _cells: ()
    if places[-1] - places[0] == len(places) - 1:
        return itemgetter(slice(places[0], places[-1] + 1))
    return itemgetter(*places)


def filling(pick: Pick) -> Pick:
    """`pick` with NaN in the place of None."""
    return lambda cells: [np.nan if cell is None else cell for cell in pick(cells)]


def parsing(pick: Pick, *, filled: bool) -> Pick:
    """`pick` with CSV cells parsed; `filled` also those that are missing or booleans."""

    def parse(cells: Sequence[Any]) -> list[float]:
        chosen = pick(cells)
        if "_" in "".join(chosen):
            # Python reads 1_000 as a number, which no other reader of CSV does.
            raise ValueError
        if filled:
            chosen = [AS_NUMBERS.get(cell, cell) for cell in chosen]
        return list(map(float, chosen))

    return parse
