"""The rule that promotes a challenger after so many events."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from streamk.learners.contest.entries import Entry
from streamk.learners.contest.evidence import evidence, needed

__all__ = ["Rule"]


class Rule:
    """Tests challengers against the champion, each after every so many events compared.

    Parameters
    ----------
    events : int
        Of a test; 0 where there is none.

    Attributes
    ----------
    tests : int
        Those that have begun. Each has its part of the error rate of a job from its beginning, so
        that it does not depend on what comes out.
    """

    def __init__(self, events: int) -> None:
        self.events, self.tests = events, 0

    def begin(self, entry: Entry) -> None:
        """Begin a test of a challenger, and forget the one that it was in."""
        self.tests += self.events > 0
        entry.restart(self.tests if self.events else 0)

    def until_test(self, known: NDArray[np.bool_], challengers: Mapping[str, Entry]) -> int:
        """Return after how many of the next events a test may be due; all if none is.

        Parameters
        ----------
        known : bool array of shape (n,)
            Which events have labels.
        challengers : mapping of str to Entry
        """
        if not self.events:
            return len(known)
        left = min(self.events - entry.compared for entry in challengers.values())
        rows = np.flatnonzero(known)
        return len(known) if len(rows) < left else int(rows[left - 1]) + 1

    def best(self, challengers: Mapping[str, Entry]) -> str | None:
        """Return the challenger to be promoted by the tests that are due.

        None if there is none; those that were tested are in their next tests then.
        """
        if not self.events:
            return None
        due = {name: each for name, each in challengers.items() if each.compared >= self.events}
        found = {name: evidence(each.wins, each.losses) for name, each in due.items()}
        passed = [
            name
            for name, each in due.items()
            if found[name] >= needed(each.test) and each.gain > 0.0
        ]
        if passed:
            return max(passed, key=lambda name: found[name])
        for each in due.values():
            self.begin(each)
        return None
