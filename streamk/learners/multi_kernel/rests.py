"""Rests of external experts, where the mixture is as good without them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.declared import Declared, Domain, taken
from streamk.errors import StateError

MOST_EARLY = 512
"""Events that are learned anew when the scale changes among them."""

REST_REVIEW_EVERY = 1_024
"""Events between two reviews of external experts."""
_TRIAL = 3
"""Reviews that an expert is active for at least."""
_RISES = 0.9
"""Part of what it lacked before, up to which an expert that was not worth its time yet lacks less:
functions of few events may be of no use, and those of some thousand a good one."""
_SHORTEST, _LONGEST = 8.0, 2.0**32
"""Reviews for which it rests, at least; and a bound, since what is kept is bounded."""
_MEMORY = 0.5
"""Factor of what was known of its worth at each review."""
_AFTER = 2
"""Whole reviews after an alarm, from which on there are enough events since it to begin anew."""
_UNHEARD = 0.5
"""Part of a rest in which alarms count for nothing, so that false ones do not undo the doubling."""
_BLAMED = 4
"""Whole reviews after an alarm, up to which it may be why an expert is of use no more."""
_NONE = -1.0
"""Reviews since an alarm where there was none, or it does not count."""
_NOT_YET, _PAID_OFF, _WOKEN = range(3)
"""Worth of an expert's time since it last changed: not shown yet, or shown, or not yet since
it was woken."""
_FREE, _ACTIVE, _RESTS = range(3)
"""An expert that cannot rest, one that is active, and one that rests."""
_KIND, _AGE, _REST, _WORTH, _PAID, _SINCE = range(6)
"""Kind, reviews since it last changed, next rest, worth, whether it was worth its time since then,
and whole reviews since an alarm."""

_EVENTS = Domain(-LARGEST, LARGEST, missing=True)
_ARRAYS = ("events", "targets")


class EarlyEvents:
    """Raw events (n, d) and their targets (n,), kept up to the first 512."""

    def __init__(self) -> None:
        self.are_kept = True
        self.events: NDArray[np.float64] = np.zeros((0, 0))
        self.targets: NDArray[np.float64] = np.zeros(0)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.events.nbytes + self.targets.nbytes

    def keep(self, events: NDArray[np.float64], targets: NDArray[np.float64]) -> None:
        """Keep events while they are among the first."""
        if self.are_kept:
            room = MOST_EARLY - len(self)
            self.events = np.vstack([self.events, events[:room]])
            self.targets = np.append(self.targets, targets[:room])
            if len(self) == MOST_EARLY:
                self.end()

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        self.events = np.pad(self.events, ((0, 0), (0, count)))

    def shift_labels(self, factor: float, shift: float) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were."""
        self.targets = self.targets * factor + shift

    def clear(self) -> None:
        """Forget those so far."""
        self.events, self.targets = self.events[:0].copy(), self.targets[:0].copy()

    def end(self) -> None:
        """Keep none, from now on."""
        self.are_kept = False
        self.clear()

    # State

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the arrays of a state, copies."""
        return {name: getattr(self, name).copy() for name in _ARRAYS}

    def restore(
        self,
        arrays: Mapping[str, NDArray[Any]],
        columns: int,
        targets: Domain,
        owner: str,
        *,
        are_kept: bool,
    ) -> None:
        """Take events of so many columns with labels of a domain, or raise StateError."""
        declared = (
            Declared("events", "float64", ("early", "columns"), _EVENTS),
            Declared("targets", "float64", ("early",), targets),
        )
        found, sizes = taken(declared, arrays, {"columns": columns}, owner)
        if sizes["early"] >= (MOST_EARLY if are_kept else 1):
            raise StateError(f"arrays 'events' and 'targets' of {owner} have too many events")
        self.are_kept = are_kept
        self.events, self.targets = (found[name].copy() for name in _ARRAYS)


@dataclass(frozen=True)
class Change:
    """A change of an expert, which a review calls for.

    It is to "rest"; to "wake", being active again; or to "begin" anew, having rested or not, with
    the events of so many whole reviews since an alarm alone.
    """

    place: int
    action: str
    reviews: int = 0


class Rests:
    """Decides at each review which of several experts rest until another one.

    An expert that was active for three reviews goes on if it was worth its time, the last reviews
    counting most, or as long as it comes closer to that since it began. Else it rests, for 8
    reviews at first and twice as many each time, without an end, and is then active for three
    again. Once it was worth its time the next rest is a short one.

    An alarm in the second half of a rest, that the stream has changed, ends it: after two whole
    reviews the expert begins anew, with the events since the alarm alone. One that was worth its
    time, and is not after an alarm, begins anew with these instead of resting.

    Examples
    --------
    >>> rests = Rests([True, False])
    >>> found = [rests.review(np.array([-1.0, -1.0])) for _ in range(11)]
    >>> found[2], found[10]
    ([Change(place=0, action='rest', reviews=0)], [Change(place=0, action='wake', reviews=0)])
    >>> rests.active
    [True, True]
    """

    def __init__(self, can_rest: list[bool]) -> None:
        self._known = np.zeros((len(can_rest), 6))
        self._known[:, _KIND] = np.where(can_rest, _ACTIVE, _FREE)
        self.begin()

    def _note(self) -> None:
        """Note which are active."""
        self.active = [bool(found != _RESTS) for found in self._known[:, _KIND]]
        """True for each expert that does not rest."""

    def review(self, worth: NDArray[np.float64], *, alarm: bool = False) -> list[Change]:
        """Take in what each was worth (n,) since the last review, and whether there was an alarm.

        Returned are the changes.
        """
        changed = []
        for place, known in enumerate(self._known):
            if known[_KIND] == _FREE:
                continue
            known[_AGE] += 1.0
            if known[_KIND] == _ACTIVE:
                found = _review_active(place, known, float(worth[place]), alarm)
            else:
                found = _review_resting(place, known, alarm)
            if found is not None:
                changed.append(found)
        self._note()
        return changed

    def begin(self) -> None:
        """Have all be active, as at the beginning."""
        self._known[:] = _begun(self._known)
        self._note()

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return everything needed to go on exactly from here, by name."""
        return {"rests": self._known.copy()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], owner: str) -> None:
        """Take what `arrays` gave; raise StateError if it does not fit."""
        one = Declared("rests", "float64", self._known.shape, Domain(-1e12, 1e12))
        found = taken((one,), arrays, {}, owner)[0]["rests"]
        kinds, mine = found[:, _KIND], self._known[:, _KIND]
        fits = np.isin(kinds, (_FREE, _ACTIVE, _RESTS)) & ((kinds == _FREE) == (mine == _FREE))
        counts = found[:, [_AGE, _REST, _PAID, _SINCE]]
        if not fits.all() or (counts < _NONE).any() or (counts[:, :2] < 0.0).any():
            raise StateError(f"array 'rests' of {owner} does not fit its learners")
        self._known[:] = found
        self._note()


def _begun(known: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what is known of experts that begin."""
    found = np.zeros_like(known)
    found[:, _KIND] = np.where(known[:, _KIND] == _FREE, _FREE, _ACTIVE)
    found[:, _REST], found[:, _SINCE] = _SHORTEST, _NONE
    return found


def _review_active(
    place: int, known: NDArray[np.float64], worth: float, alarm: bool
) -> Change | None:
    """Decide whether an active expert goes on, begins anew or rests."""
    before, known[_WORTH] = known[_WORTH], _MEMORY * known[_WORTH] + worth
    # While it is not usable the count goes on: alarms in every other review would else put off for
    # good that it begins anew.
    idle = before <= 0.0 and known[_WORTH] <= 0.0
    since = _since_alarm(known, alarm and not (idle and known[_SINCE] != _NONE))
    if since > _BLAMED:
        since = known[_SINCE] = _NONE
    if known[_AGE] < _TRIAL:
        return None
    if known[_WORTH] > 0.0:
        known[_REST], known[_PAID] = _SHORTEST, _PAID_OFF
        return None
    if known[_PAID] == _PAID_OFF and since != _NONE:
        return _begin_anew(place, known) if since >= _AFTER else None
    if known[_PAID] == _NOT_YET and worth > _RISES * _mean(before, known[_AGE] - 1.0):
        return None
    known[_KIND], known[_AGE], known[_SINCE] = _RESTS, 0.0, _NONE
    return Change(place, "rest")


def _mean(total: float, reviews: float) -> float:
    """Return the mean of what was known of so many reviews."""
    return float(total * (1.0 - _MEMORY) / (1.0 - _MEMORY**reviews))


def _review_resting(place: int, known: NDArray[np.float64], alarm: bool) -> Change | None:
    """Decide whether an expert that rests is woken."""
    changed = _since_alarm(known, alarm and known[_AGE] >= _UNHEARD * known[_REST]) >= _AFTER
    if known[_AGE] < known[_REST] and not changed:
        return None
    known[_REST] = min(2.0 * known[_REST], _LONGEST)
    if changed:
        return _begin_anew(place, known)
    known[_KIND], known[_AGE], known[_WORTH] = _ACTIVE, 0.0, 0.0
    known[_PAID], known[_SINCE] = _WOKEN, _NONE
    return Change(place, "wake")


def _since_alarm(known: NDArray[np.float64], alarm: bool) -> float:
    """Return how many whole reviews there are by now since an alarm."""
    if alarm:
        known[_SINCE] = 0.0
    elif known[_SINCE] != _NONE:
        known[_SINCE] += 1.0
    return float(known[_SINCE])


def _begin_anew(place: int, known: NDArray[np.float64]) -> Change:
    """Have an expert begin anew with the events since an alarm."""
    since = int(known[_SINCE])
    known[_KIND], known[_AGE], known[_WORTH] = _ACTIVE, 0.0, 0.0
    known[_PAID], known[_SINCE] = _NOT_YET, _NONE
    return Change(place, "begin", since)
