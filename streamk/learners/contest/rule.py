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
        Those so far: each takes its part of the error rate of a job.
    """

    def __init__(self, events: int) -> None:
        self.events, self.tests = events, 0

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
        """Return the challenger to be promoted by the tests that are due, None if there is none.

        The tests of those that were compared often enough end here.
        """
        if not self.events:
            return None
        passed: dict[str, float] = {}
        for name, entry in challengers.items():
            if entry.compared < self.events:
                continue
            self.tests += 1
            found = evidence(entry.wins, entry.losses)
            if found >= needed(self.tests) and entry.gain > 0.0:
                passed[name] = found
            else:
                entry.restart()
        return max(passed, key=lambda name: passed[name]) if passed else None
