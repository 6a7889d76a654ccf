"""The schedule of new functions: when one is begun, how it is compared, and what all may take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamk.declared import count, flag
from streamk.errors import StateError
from streamk.learners.common.error_watch import WINDOW, ErrorWatch

_COUNTS = ("began", "start", "origin", "changed", "looked")
"""Numbers of `RenewalSchedule` that are part of a state."""
_FACTORS = ((512, 2), (4_096, 3), (2**62, 2))
"""Below so many events, the ratio of those of two beginnings, while there is room for the later."""
_MOST_COMPARED, _LEAST_COMPARED = 4, 8
"""Parts of the events that a new function is made of by which it is compared with the one in use:
a fourth at most, and an eighth at least."""
_ANEW = 1_536
"""Events since errors began to rise, of which a function is begun anew."""
_FIXED = 9_216
"""Events from which on the family of functions is that of the one in use."""


class RenewalSchedule:
    """Decides when new functions are begun, with the options of `streamk.learners.FeatureMachine`.

    There is room for so many events.
    """

    def __init__(self, first: int, every: int, swap_delay: int, room: int) -> None:
        self._first, self._every, self._swap_delay, self._room = first, every, swap_delay, room
        self.watch = ErrorWatch()
        """The watch of errors, whose arrays are part of a state."""
        self.began = 0
        """Events after which the last one was begun, 0 before the first."""
        self.start = first
        """Those of the first."""
        self.origin = 0
        """Events before it do not count, since a function was begun anew with those after it."""
        self.changed = 0
        """Event from which on errors rise, where a function is to be begun anew, or 0."""
        self.looked = 0
        """Event up to which the watch has errors."""
        self.is_anew = False
        """The last one was begun anew, not at its number of events."""

    @property
    def due(self) -> int:
        """Events after which one is begun, if errors do not rise."""
        if not self.began:
            return self.start
        last = self.began - self.origin
        soon = last * next(factor for most, factor in _FACTORS if last < most)
        later = last + max(self._every, last // 2)
        return self.origin + (min(soon, later) if soon < self._room else later)

    def is_due(self, n_events: int) -> bool:
        """Return True if one begins after so many events: when it is due, or later."""
        due = self.changed + _ANEW if self.changed else self.due
        return n_events == due or (n_events > due and n_events % WINDOW == 0)

    def begin(self, n_events: int, *, anew: bool) -> None:
        """Note that one is begun, and that the errors of the one in use are summed up from 0 on."""
        self.began, self.looked, self.is_anew = n_events, n_events, anew
        self.watch.go_on_from(0.0)

    @property
    def is_late(self) -> bool:
        """True if the last one is the first, of events that were learned again."""
        return self._first < self.began == self.start

    @property
    def is_family_fixed(self) -> bool:
        """True if the last one is of the family of the function in use."""
        return not self.is_anew and self.began - self.origin >= _FIXED

    def delay(self, events: int) -> int:
        """Return how many events after it was begun a function of so many takes over."""
        if self.is_late:
            return 1
        least, most = events // _LEAST_COMPARED, events // _MOST_COMPARED
        return max(1, least, min(self._swap_delay, most))

    # Errors

    @staticmethod
    def window_end(n_events: int) -> int:
        """Return the event after which errors are looked at next."""
        return n_events + WINDOW - n_events % WINDOW

    def look(self, n_events: int, errors: float, *, is_known: bool) -> None:
        """Take in the sum of errors of the function in use; note where they rise.

        It is that since the last beginning. Known is a function that a beginning has made.
        """
        events = n_events - self.looked
        if n_events % WINDOW or events < WINDOW:  # of fewer the next ones are part of the window
            return
        self.looked = n_events
        if self.watch.add(errors, events) and is_known and not self.changed:
            self.changed = max(self.origin, n_events - self.watch.rising)

    def end(self, n_events: int, errors: float) -> None:
        """Note that the last one was compared, and the sum of errors of that which goes on."""
        self.looked = n_events
        if self.is_anew or not self.watch.rising:  # else a rise would be forgotten
            self.watch.restart()
        self.watch.go_on_from(errors)

    # State

    def header(self) -> dict[str, Any]:
        """Return the numbers to go on from, for JSON, by the names that they have in a state."""
        return {**{name: getattr(self, name) for name in _COUNTS}, "is_anew": self.is_anew}

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, Any], n_events: int, owner: str
    ) -> None:
        """Take back what a state had; raise StateError if it does not fit so many events."""
        for name in _COUNTS:
            setattr(self, name, count(header, name, owner))
        self.is_anew = flag(header, "is_anew", owner)
        self.watch.restore(arrays, owner)
        for name in ("began", "origin", "changed", "looked"):
            if header[name] > n_events:
                raise StateError(f"{name!r} of {owner} is above its 'n_events'; it is damaged")
        if self.origin > self.began:
            raise StateError(f"'origin' of {owner} is above its 'began'; it is damaged")
        latest = max(self._first, n_events + 1)  # after events were learned again
        if not self._first <= self.start <= latest:
            raise StateError(
                f"'start' of {owner} is {self.start}, not between {self._first} and {latest}; it "
                "is damaged"
            )


FEW_EVENTS, MOST_COMPARED = 512, 8_192
"""Events by which families are compared, and metrics, at most."""
_OPENING = 64_000_000_000
"""Multiplications that there are for the beginning of a stream, with an effort of 1: some two
seconds of one core."""
_POOL, _OF_A_CELL = 400_000, 2_000
"""Those that a pool of experts takes for an event: in any case, and for each output and column."""
_EVENT, _VALUE, _BLOCK = 300_000, 12, 300_000
"""Those that an event takes in any case, and a kernel's value beside its columns; and those by
which it is solved for in a block."""
_TRIALS, _IN_LEAVES, _GRADIENTS, _LEAF = 5, 2_500_000, 1_000, 2_304
"""Solutions of each family that are tried by few events; those operations of a search for each
event that is compared by, in leaves, and the kernel values beside which gradients are taken; and
events of a leaf that is solved for, about."""


class Budget:
    """Operations of a feature machine: `effort` times an opening and what a pool of experts takes.

    Operations are counted, not timed: what is learned depends on the events alone. They are
    multiplications in single precision, of which a core does some thirty in a nanosecond. Without
    an effort (None) there is no bound.

    Examples
    --------
    >>> budget = Budget(1.0)
    >>> budget.pays(10**10), Budget(None).pays(10**15)
    (True, True)
    >>> budget.spend(10**11)
    >>> budget.pays(0)
    False
    """

    def __init__(self, effort: float | None) -> None:
        self._effort, self.spent = effort, 0
        """Operations beyond those that the effort has paid for."""

    def pays(self, cost: int) -> bool:
        """Return whether so many operations can be spent."""
        return self._effort is None or self.spent + cost <= self._effort * _OPENING

    def spend(self, cost: int) -> None:
        """Take so many operations off."""
        self.spent += cost

    def learn(self, events: int, columns: int, outputs: int, *, centers: int, grows: bool) -> None:
        """Take in what a pool spends on events, and off what the feature machine does.

        It has so many centers for each, 0 if it rests, and solves for them if it grows.
        """
        earned = int((self._effort or 0.0) * (_POOL + _OF_A_CELL * outputs * (columns + 32)))
        cost = (_EVENT + centers * (columns + _VALUE)) * (centers > 0) + _BLOCK * grows
        self.spent = max(0, self.spent + events * (cost - earned))


def search_cost(events: int, compared: int, columns: int, outputs: int, families: int) -> int:
    """Return how many operations a new function of so many events takes, with its search.

    So many of them are compared by; if those are few, more are not solved for.
    """
    tried = _TRIALS * families * min(events, FEW_EVENTS) ** 3 // 6
    leaves = compared * (_IN_LEAVES + _GRADIENTS * (columns + _VALUE) * outputs)
    solved = events if compared == MOST_COMPARED else compared
    return tried + leaves + solved * min(solved, _LEAF) ** 2 // 6
