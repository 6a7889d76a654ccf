"""A round of shards: the state that it begins with, and the replicas that are done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from streamk.state import State

_LEAST = 256
"""Events of a shard in a round at least, where `round_events` is not less."""
_BEFORE = 8
"""Events learned before a round, at least, as a multiple of those of the round."""


class Common(NamedTuple):
    """The learner after a round, as far as all shards go."""

    state: State
    n_events: int


def plan(n_events: int, shards: int, round_events: int) -> tuple[int, int]:
    """Return the events of a shard and the shards of a round that begins after some events.

    Examples
    --------
    >>> plan(0, 4, 4096), plan(8192, 4, 4096), plan(80_000, 4, 4096), plan(10**6, 4, 4096)
    ((8192, 1), (256, 4), (2500, 4), (4096, 4))
    >>> plan(10**6, 1, 4096)
    (4096, 1)
    """
    each = _BEFORE * shards
    first = each * min(_LEAST, round_events)
    if n_events < first:
        return first - n_events, 1
    if shards == 1:  # nothing is merged at its end
        return round_events, 1
    return min(round_events, n_events // each), shards


@dataclass
class Round:
    """A round, as far as it has come.

    Attributes
    ----------
    base : Common, optional
        What each shard begins with; None where a learner learns without shards.
    before : int
        Events that the learner had learned at its begin.
    length, count : int
        Events of a shard, and shards.
    done : list of State
        Of the replicas of the shards that ended.
    learned : list of int
        Events that each of them learned.
    position : int
        Events of the open shard so far, those without a label included.
    """

    base: Common | None
    before: int
    length: int
    count: int
    done: list[State] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    position: int = 0

    @property
    def events(self) -> int:
        """Events of the whole round."""
        return self.length * self.count

    @property
    def left(self) -> int:
        """Events until its end."""
        return self.length * (self.count - len(self.done)) - self.position

    @property
    def is_new(self) -> bool:
        """True if it has no event yet."""
        return not self.done and not self.position

    def ends(self, n: int) -> list[int]:
        """Return where its shards end among the next n events; the last one may go on.

        Examples
        --------
        >>> Round(None, 0, 4, 3, position=1).ends(9), Round(None, 0, 4, 3).ends(100)
        ([3, 7, 9], [4, 8, 12])
        """
        ends = [min(n, self.length - self.position)]
        for _ in range(self.count - len(self.done) - 1):
            if ends[-1] == n:
                break
            ends.append(min(n, ends[-1] + self.length))
        return ends

    def end_shard(self, state: State, n_events: int) -> None:
        """Take the replica of the open shard, which has learned so many events in all."""
        self.done.append(state)
        self.learned.append(n_events - self.before)
        self.position = 0
