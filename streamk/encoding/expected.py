"""Names that a user gives and that no event has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from streamk.encoding.values import Name

__all__ = ["Expected"]

_MOST_NAMES = 1000
"""Names of other fields that are kept for hints."""
_DEPTH = 4
"""Of nested objects, down to where names are kept."""


class Expected:
    """The fields that were named and have not come yet.

    Parameters
    ----------
    names : iterable of str or int
        Nested fields with dots.

    Attributes
    ----------
    absent : list of str or int
        Those of the names that no event has had.

    Examples
    --------
    >>> expected = Expected(["color", "user.id"])
    >>> expected.note({"colour": "red", "user": {"id": 7}})
    >>> expected.absent, expected.hint("color")
    (['color'], "; nearest of those that came: 'colour'")
    """

    def __init__(self, names: Iterable[Name]) -> None:
        self.absent = list(dict.fromkeys(names))
        self._others: dict[str, None] = {}

    def note(self, event: Mapping[Any, Any]) -> None:
        """Look at the names of an event, or of a header."""
        self.absent = [name for name in self.absent if not _holds(event, name)]
        if self.absent:
            for name in _names(event, "", _DEPTH):
                if len(self._others) == _MOST_NAMES:
                    break
                self._others[name] = None

    def note_seen(self, name: Name | None) -> None:
        """Take note that a field has come."""
        if name in self.absent:
            self.absent.remove(name)

    def hint(self, name: Name) -> str:
        """Return which fields have come that may have been meant."""
        near = difflib.get_close_matches(str(name), self._others, 3)
        words = "nearest of those that came" if near else "there are"
        shown = near or list(self._others)[:5]
        return f"; {words}: {', '.join(map(repr, shown))}" if shown else ""


def _holds(event: Mapping[Any, Any], name: Name) -> bool:
    if name in event:
        return True
    parts = str(name).split(".")
    for at in range(1, len(parts)):
        inner = event.get(".".join(parts[:at]))
        if isinstance(inner, Mapping) and _holds(inner, ".".join(parts[at:])):
            return True
    return False


def _names(event: Mapping[Any, Any], prefix: str, depth: int) -> Iterator[str]:
    for key, value in event.items():
        if isinstance(value, Mapping) and depth:
            yield from _names(value, f"{prefix}{key}.", depth - 1)
        yield f"{prefix}{key}"
