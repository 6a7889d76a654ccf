"""The columns of the first events of a stream: their kinds, and the values that they have."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from streamk.encoding.values import (
    SAFE,
    Name,
    as_datetime,
    milliseconds_of,
    parse_number,
    plain,
    show,
    text_of,
    without_zeros,
)
from streamk.encoding.words import has_several
from streamk.features.columns import BOOLEANS

_NEW = 0.95
"""Of the values of an identifier, so many are new."""
_FEW = 20
"""Events from which on something is called an identifier."""
_MILLISECONDS = 3e11, 4.2e12
"""From 1979 to 2103."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def words_in(name: Name) -> list[str]:
    """Return the words of a name, in small letters.

    >>> words_in("user.createdAt"), words_in("is_fraud"), words_in("URLHost")
    (['user', 'created', 'at'], ['is', 'fraud'], ['url', 'host'])
    """
    return [word.lower() for word in _WORD.findall(str(name))]


def kind_of(value: Any) -> str:
    """Return the kind of one value that is not missing.

    >>> [kind_of(x) for x in (2, "2.5", "TRUE", "2026-01-01", "red", [1], 2**60)]
    ['number', 'number', 'boolean', 'time', 'text', 'list', 'text']
    """
    if isinstance(value, bool) or (isinstance(value, str) and value in BOOLEANS):
        return "boolean"
    if isinstance(value, int) and abs(value) >= SAFE:
        return "text"
    if isinstance(value, float | int):
        return "number"
    if isinstance(value, str) and parse_number(value) is not None:
        return "number"
    if as_datetime(value) is not None:
        return "time"
    return "text" if isinstance(value, str) else "list"


TIME = frozenset(words_in("time timestamp datetime date ts at when created updated"))
"""Words of the names of times."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column of so many events.

    Attributes
    ----------
    name : str or int
    found : list
        Plain values, one for each event; None where it is missing.
    """

    name: Name
    found: list[Any]

    @cached_property
    def texts(self) -> list[str | None]:
        """Return values as texts, of which equal values have one; None where one is missing."""
        return [
            None if x is None else without_zeros(text_of(x) or show(x)).strip() for x in self.found
        ]

    @cached_property
    def values(self) -> Counter[str]:
        """Return how often each value was there."""
        return Counter(text for text in self.texts if text is not None)

    @cached_property
    def kinds(self) -> Counter[str]:
        """Return the kinds of values, and how many values are of each."""
        return Counter(kind_of(x) for x in self.found if x is not None)

    @cached_property
    def numbers(self) -> list[float]:
        """Return the values that are numbers."""
        read = (parse_number(x) if isinstance(x, str) else x for x in self.found)
        return [float(x) for x in read if x is not None and kind_of(x) == "number"]

    @cached_property
    def filled(self) -> int:
        """Return the number of events that have a value."""
        return self.values.total()

    @property
    def missing(self) -> float:
        """Return the share of events without a value."""
        return 1.0 - self.filled / len(self.found)

    @property
    def main(self) -> str:
        """Return the kind that most values have."""
        return max(self.kinds, key=lambda kind: self.kinds[kind], default="empty")

    @property
    def is_whole(self) -> bool:
        """Return whether no number is a fraction."""
        return all(map(float.is_integer, self.numbers))

    @property
    def is_new(self) -> bool:
        """Return whether nearly every value is new."""
        return self.filled >= _FEW and len(self.values) >= _NEW * self.filled

    @cached_property
    def kind(self) -> str:
        """Return the kind of the column."""
        if len(self.values) == 1 and self.filled == len(self.found) > 1:
            return "constant"
        if self.main == "number":
            return self._kind_of_numbers()
        if self.main != "text":
            return self.main
        if 2 * sum(map(has_several, self.values)) > len(self.values) and self.is_new:
            return "text"
        return "identifier" if self.is_new else "category"

    def _kind_of_numbers(self) -> str:
        if self.has_times(1.0):
            return "time"
        steps = {b - a for a, b in zip(self.numbers, self.numbers[1:], strict=False)}
        named = "id" in (words := words_in(self.name)) or "uuid" in words
        counted = steps == {1.0} and not self.has_times(0.001)
        return "identifier" if self.is_whole and self.is_new and (named or counted) else "number"

    def has_times(self, unit: float) -> bool:
        """Return whether numbers are likely to be times, in so many parts of a millisecond."""
        least, most = (unit * bound for bound in _MILLISECONDS)
        is_named = self.main == "number" and not TIME.isdisjoint(words_in(self.name))
        return is_named and all(least <= x <= most for x in self.numbers)

    def milliseconds(self) -> list[int | None]:
        """Return the values as times in milliseconds since 1970, None where one is not a time."""
        return [None if x is None else milliseconds_of(x) for x in self.found]

    def shown(self) -> str:
        """Return the range of numbers and times, or the most frequent values."""
        if self.main == "number":
            digits = 15 if self.is_whole else 6
            return f"{min(self.numbers):.{digits}g} to {max(self.numbers):.{digits}g}"
        if self.main == "time":
            times = [text for text in self.values if as_datetime(text) is not None]
            return f"{min(times)} to {max(times)}"
        return ", ".join(value for value, _ in self.values.most_common(3))


def look(events: Sequence[Mapping[Name, Any]]) -> dict[Name, Column]:
    """Return the columns of events by their names, in the order in which they came."""
    names = dict.fromkeys(name for event in events for name in event)
    return {name: Column(name, [plain(event.get(name)) for event in events]) for name in names}
