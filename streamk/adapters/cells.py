"""From the values of an event to the numbers in its columns."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from streamk.errors import InvalidInput
from streamk.features.columns import Column, column_key

OWN = 256
"""Texts of a column, at most, that have a column each."""
SHARED = 64
"""Columns that its other texts share."""

Texts = dict[Hashable, set[str]]


def column_name(name: Any) -> Column:
    """Return the learner's name of a column, the same in every process."""
    if isinstance(name, tuple):
        return repr(name)  # River's n-grams are tuples of words
    column_key(name)  # refuses what cannot be a name
    return int(name) if isinstance(name, np.integer) else name


def frame_events(frame: Any) -> list[dict[Hashable, Any]]:
    """Return the rows of a narwhals frame as dicts, what is null as None."""
    columns = [
        [None if null else value for value, null in zip(series, series.is_null(), strict=True)]
        for series in frame.iter_columns()
    ]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]


class OneHot:
    """Which texts of a column have a column each, and which share one.

    The first 256 texts learned have one each: ``s`` in ``c`` is the column "c=s". Any further one
    goes to one of 64 columns "c=#0" to "c=#63" by its hash, so that a stream of ever new texts
    needs no more than 320.

    Parameters
    ----------
    texts : mapping of column to texts, optional
        Those that have a column each.

    Examples
    --------
    >>> hot = OneHot()
    >>> hot.cells({"price": 3, "colour": "red", "size": None}, {})
    {'price': 3.0, 'colour=red': 1.0, 'size': nan}
    """

    def __init__(self, texts: Mapping[Hashable, Iterable[str]] | None = None) -> None:
        self._own: Texts = {name: set(own) for name, own in (texts or {}).items()}

    def state(self) -> dict[Hashable, list[str]]:
        """Return what makes an equal one."""
        return {name: sorted(own) for name, own in self._own.items()}

    def cells(self, x: Mapping[Hashable, Any], new: Texts | None) -> dict[Hashable, float]:
        """Return the columns of an event that are not 0 for lack of a value, NaN where missing.

        Parameters
        ----------
        x : mapping
        new : dict, optional
            Where texts go that get a column now, for `keep`. Without it none gets one.

        Raises
        ------
        InvalidInput
            If a value is of no use, naming it.
        """
        cells: dict[Hashable, float] = {}
        for name, value in x.items():
            if isinstance(value, str):
                name, value = self._column(name, value, new), 1.0
                if name in x:
                    raise InvalidInput(
                        f"column {name!r} comes as a name and as a value; rename one"
                    )
            try:
                cells[name] = math.nan if value is None else float(value)
            except (TypeError, ValueError):
                raise InvalidInput(
                    f"column {name!r} is {value!r}; a value is a number, a boolean, a string or"
                    " None"
                ) from None
            except OverflowError:
                raise InvalidInput(f"column {name!r} is past the range of numbers") from None
        return cells

    def keep(self, new: Texts) -> None:
        """Remember texts that have got a column."""
        for name, texts in new.items():
            self._own.setdefault(name, set()).update(texts)

    def _column(self, name: Hashable, text: str, new: Texts | None) -> str:
        own = self._own.get(name, set())
        fresh = set() if new is None else new.setdefault(name, set())
        if text not in own and text not in fresh:
            if len(own) + len(fresh) >= OWN:
                return f"{name}=#{column_key(text) % SHARED}"
            fresh.add(text)
        return f"{name}={text}"
