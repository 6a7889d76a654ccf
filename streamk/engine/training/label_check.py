"""Telling of labels that are learned as classes and look like none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamk.encoding.meaning import parse_number
from streamk.encoding.values import Name

__all__ = ["LabelCheck"]

_LEAST, _MOST = 50, 1000
"""Labels of a run that are looked at: with fewer nothing is told, and later ones do not count."""


class LabelCheck:
    """Counts how many of the first labels differ: where most do, they are no classes.

    Parameters
    ----------
    label : str, int or None
        The label's field.

    Examples
    --------
    >>> check = LabelCheck("price")
    >>> check.take([f"{n},000.50" for n in range(1, 101)], 0)
    >>> check.sentences()[0].partition(";")[0]
    "the label 'price' has 100 values in 100 events, too many to learn them as classes"
    """

    def __init__(self, label: Name | None) -> None:
        self._label = label
        self._values: set[Any] = set()
        self._seen = self._refused = 0

    def take(self, labels: Iterable[Any], refused: int) -> bool:
        """Look at labels, None where one is not known, and so many that are no class.

        Returns whether all that are looked at have come now.
        """
        if self._seen >= _MOST:
            return False
        there = [label for label in labels if label is not None]
        self._values.update(there)
        self._refused += refused
        self._seen += len(there) + refused
        return self._seen >= _MOST

    def sentences(self) -> tuple[str, ...]:
        """Return what is to be told, if there is something."""
        n = len(self._values) + self._refused
        if self._seen < _LEAST or 2 * n <= self._seen:
            return ()
        texts = [value for value in self._values if isinstance(value, str)]
        numbers = n - sum(parse_number(text) is None for text in texts)
        fix = "is another field to be predicted?"
        if 2 * numbers > n:
            fix = "numbers are learned with --task regression"
        found = f"the label {self._label!r} has {n:,} values in {self._seen:,} events"
        return (f"{found}, too many to learn them as classes; {fix}",)
