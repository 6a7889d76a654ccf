"""Several members that share a stream: the protocol by which every event counts once.

Each member of a consumer group has its own model, learned from its own partitions, and its own slot
in a checkpoint directory. A model has a *lineage*, a random identifier that it gets when it begins
and keeps through restarts; two machines whose slots have the same name are two by their lineages.

A checkpoint goes through two states:

*saved*      it is on the disk, whole.
*committed*  the group has its offsets. Each commit names the lineage, and for the lineages that had
             the partition before the offset where each stopped (`Owner.before`).

A member may die, be frozen or be cut off between the two, and an acknowledgement may be lost, so
which of its checkpoints are committed is read from the group and never remembered. **A checkpoint
agrees with the group if in no partition it has learned beyond the offset where its lineage
stopped.** A member goes on from its newest checkpoint that agrees, after a restart and after the
group has refused a commit, and only such a one is taken over.

A lineage goes through two states:

*living*     its slot continues it, or will.
*absorbed*   another member has merged its newest checkpoint that agrees, while it held the lock of
             its slot, and has listed it in a checkpoint saved before it let go. A member that finds
             its lineage in another's list begins anew with a new one. One that has absorbed others
             and died before it committed is found by the partitions of those.

A member that begins anew starts with a copy of the model of another that has learned most. What a
model holds of each lineage is counted (`Contents`), so that a later merge of the two counts what
they have in common once.

Invariants, whatever dies, freezes or is delayed (`tests/simulation` checks them):

1. What lineages have committed of a partition does not overlap: one begins at the offset where the
   one before has stopped, and only the owner of a partition, fenced by the group, moves its stop.
2. A checkpoint that agrees holds of its lineage only what is committed. An absorbing checkpoint
   agrees if the one before it did, since nothing is learned between the two.
3. A lineage is absorbed at most once, and an absorbed one never learns again.

So each offset is in exactly one living lineage, or in a range that is reported as lost: where a
checkpoint that was committed is gone or cannot be read, and where it lies in another directory.
"""

from __future__ import annotations

import json
import logging
import math
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from connectors.base import InGroup, Source, group_of
from streamk.engine.checkpoints.files import Untrusted, lock
from streamk.engine.checkpoints.places import Location
from streamk.engine.checkpoints.reading import Checkpoint, newest_checkpoint
from streamk.engine.checkpoints.store import Store
from streamk.errors import StateError
from streamk.state import FORMAT

_log = logging.getLogger("streamk.engine")


@dataclass(frozen=True)
class Peers:
    """The other members of a checkpoint directory, as their newest good checkpoints tell."""

    directory: Location
    newest: tuple[Checkpoint, ...]
    damaged: tuple[StateError, ...]
    """The errors of those that have none."""

    @classmethod
    def of(cls, store: Store, accept: Callable[[Checkpoint], bool] | None = None) -> Peers:
        """Look at all; of each only what is accepted counts."""
        newest: list[Checkpoint] = []
        damaged: list[StateError] = []
        for path in store.peers():
            try:
                found = newest_checkpoint(path, accept, key=store.key)
            except StateError as error:
                _log.warning("skipping %s: %s", path.name, error)
                damaged.append(error)
            else:
                newest += [] if found is None else [found]
        return cls(store.directory, tuple(newest), tuple(damaged))

    def absorbed(self, lineage: str) -> bool:
        """Return whether one of them has absorbed a lineage.

        Raises
        ------
        Untrusted
            If one says nothing that can be believed.
        """
        for error in self.damaged:
            if isinstance(error, Untrusted):
                raise error
        return any(lineage in found.body["absorbed"] for found in self.newest)

    def successor_of(self, lineage: str) -> Checkpoint | None:
        """Return the checkpoint of the one that has absorbed a lineage and is not absorbed."""
        for found in self.newest:
            mine = lineage in found.body["absorbed"]
            if mine and not self.absorbed(str(found.body["lineage"])):
                return found
        return None

    def slot_of(self, lineage: str) -> Location:
        """Return the slot that continues a lineage. Raises `StateError` if there is none."""
        for found in self.newest:
            if found.body["lineage"] == lineage:
                return found.path.parent
        missing = f"there is no checkpoint of it in {self.directory}"
        raise StateError("; ".join([missing, *map(str, self.damaged)]))


@contextmanager
def dead_member(
    store: Store, path: Location, lineage: str, accept: Callable[[Checkpoint], bool]
) -> Iterator[Checkpoint | None]:
    """Give the last checkpoint of a member that is not running and cannot start meanwhile.

    None if it is running: what it knows stays with it.

    Raises
    ------
    StateError
        If its checkpoint cannot be used, or is of another lineage, saying why.
    Untrusted
        If it is not signed with the key.
    """
    assert isinstance(path, Path), "members share directories only"
    held = lock(path)
    if held is None:
        yield None
        return
    try:
        found = newest_checkpoint(path, accept, key=store.key)
        if found is None or found.body["lineage"] != lineage:
            raise StateError(f"{path} holds no checkpoint of it")
        yield found
    finally:
        os.close(held)


_MOST = 48
"""Lineages that a commit names, the last ones: brokers take 4,096 bytes with a commit."""

Contents = dict[str, int]
"""Events by the lineage that learned them; "" has those of a model that was given at the start."""


@dataclass(frozen=True)
class Owner:
    """The member whose commit is the last one of a partition, as its metadata says.

    Attributes
    ----------
    member : str
        The name of the slot, for messages.
    epoch : int
        Of the checkpoint.
    lineage : str
    start : int
        The offset where it began with the partition, the first time.
    before : dict of str to (int, int)
        Of the lineages that had the partition before, the offsets where each began the first time
        and stopped the last time, in the order in which they stopped.
    complete : bool
        Whether all of them are there.
    released : bool
        This owner has written nothing beyond the offset.
    until : int
        Those before may have written predictions up to that offset.
    known : int
        Partitions that there were when the group began.
    """

    member: str
    epoch: int
    lineage: str
    start: int = 0
    before: dict[str, tuple[int, int]] = field(default_factory=dict)
    complete: bool = True
    released: bool = False
    until: int = 0
    known: int = 0

    def to_metadata(self) -> str:
        """Return the text for a commit.

        >>> Owner.parse(Owner("member-0", 3, "f00").to_metadata()).epoch
        3
        """
        return json.dumps({"streamk": FORMAT, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def parse(cls, metadata: str) -> Owner | None:
        """Return the owner, None where a tool has set the offset."""
        try:
            data = json.loads(metadata)
            if data["streamk"] != FORMAT:
                return None
            before = data["before"].items()
            return cls(
                str(data["member"]),
                int(data["epoch"]),
                str(data["lineage"]),
                int(data["start"]),
                {str(lineage): (int(first), int(stop)) for lineage, (first, stop) in before},
                bool(data["complete"]),
                bool(data["released"]),
                int(data["until"]),
                int(data["known"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None

    def stop_of(self, lineage: str, offset: int) -> int | None:
        """Return where a lineage stopped, None if it has never had the partition.

        This owner has stopped at the committed `offset`.
        """
        if lineage == self.lineage:
            return offset
        return self.before[lineage][1] if lineage in self.before else None


class Group:
    """The membership of one model in the group that shares its stream, of one member or more.

    Parameters
    ----------
    given : int
        Events in the model that it begins with.
    """

    def __init__(self, source: Source, store: Store | None, given: int) -> None:
        self.lineage = uuid.uuid4().hex
        self.absorbed: list[str] = []
        self._source, self._store = source, store
        self._others: Contents = {"": given}
        self.slots: dict[str, str] = {}
        """The names of the slots of lineages, for messages, as far as they are known."""
        self._commits: dict[str, tuple[int | None, Owner | None]] = {}
        self._first_partitions = (
            len(source.every()) if isinstance(source, InGroup) and self.shared else 0
        )
        """Partitions that there were when the group began; those beyond came later."""
        self._next_owner: dict[str, Owner] = {}
        """Of each partition what its next commit says of the lineages before this one."""

    @property
    def shared(self) -> bool:
        """True if other processes may have partitions of the stream."""
        return group_of(self._source) is not None

    # --- what a model holds -----------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint says of it."""
        return {"lineage": self.lineage, "absorbed": self.absorbed, "contents": self._others}

    def restore(self, body: Mapping[str, Any]) -> None:
        """Go on where `to_json` was called."""
        self.lineage, self.absorbed = str(body["lineage"]), [*map(str, body["absorbed"])]
        self._others = _others(body)

    def begin_with(self, body: Mapping[str, Any], n_events: int) -> None:
        """Begin with a copy of the model of a checkpoint, which has learned so many events."""
        self._others = contents(body, n_events)

    def in_common(self, mine: int, body: Mapping[str, Any], theirs: int) -> int:
        """Return how many events this model, of `mine`, and that of a checkpoint have in common."""
        here, there = contents(self.to_json(), mine), contents(body, theirs)
        return sum(min(events, there.get(name, 0)) for name, events in here.items())

    def absorb(self, body: Mapping[str, Any], theirs: int) -> None:
        """Note that the lineages in the model of a checkpoint, of so many events, are absorbed."""
        there = contents(body, theirs)
        there.pop(self.lineage, None)
        for name, events in there.items():
            self._others[name] = max(events, self._others.get(name, 0))
        in_it = [str(body["lineage"]), *map(str, body["absorbed"])]
        self.absorbed += [name for name in in_it if name not in self.absorbed]

    # --- what the group says ----------------------------------------------------------------------

    def committed(self, partition: str) -> tuple[int | None, Owner | None]:
        """Return the committed offset of a partition, and whose it is, as far as that is known.

        As it was when it was first asked for after `ask_again`.
        """
        if partition not in self._commits:
            found = self._source.committed(partition)
            commit = (None, None) if found is None else (found[0], Owner.parse(found[1]))
            self._commits[partition] = commit
        return self._commits[partition]

    def note_first_partitions(self, partitions: Sequence[str]) -> None:
        """Learn from the commits of these how many partitions there were when the group began."""
        owners = [owner for name in partitions if (owner := self.committed(name)[1]) is not None]
        self._first_partitions = min([self._first_partitions, *(owner.known for owner in owners)])

    def initial(self, partition: str, *, opened: bool) -> int:
        """Return the offset at which the job begins to read a partition for the first time.

        One that has come since the job began is read from its start, wherever others are begun.
        """
        source, start = self._source, self._source.start(partition)
        if isinstance(source, InGroup) and self.shared:
            begin = source.beginning(partition)
            if begin == start:
                return start
            every = source.every()
            self.note_first_partitions(every)
            return begin if partition in every[: self._first_partitions] else start
        return source.beginning(partition) if opened else start

    def ask_again(self) -> None:
        """Forget what the group has said: it may have moved on."""
        self._commits.clear()

    def stop_of(self, lineage: str, partition: str) -> float:
        """Return where a lineage stopped in a partition, as the group has it.

        -inf if it has never had it, inf if the group cannot tell.
        """
        offset, owner = self.committed(partition)
        if offset is None or owner is None:
            return math.inf
        stop = owner.stop_of(lineage, offset)
        if stop is None:
            return -math.inf if owner.complete else math.inf
        return stop

    def agrees(self, found: Checkpoint) -> bool:
        """Return whether all that a checkpoint has learned was committed by its lineage."""
        lineage = str(found.body["lineage"])
        return all(
            last <= self.stop_of(lineage, partition) or self._has(found, partition)
            for partition, last in _ends(found.body).items()
        )

    def _has(self, found: Checkpoint, partition: str) -> bool:
        """Return whether the last commit of a partition is of that checkpoint, or of a later one.

        After a tool has set the offset back, what was learned before may lie beyond it.
        """
        _, owner = self.committed(partition)
        if owner is None or owner.lineage != found.body["lineage"]:
            return False
        return owner.epoch >= found.epoch

    def is_mine(self, owner: Owner | None) -> bool:
        """Return whether a commit is of this lineage."""
        return owner is not None and owner.lineage == self.lineage

    def commit(
        self, offsets: Mapping[str, int], epoch: int, written: Mapping[str, int], *, released: bool
    ) -> None:
        """Commit the next offset of each partition, as those of a checkpoint.

        `written` has `Owner.until`, `released` is as there.

        Raises
        ------
        Revoked
            If the group has given them away.
        """
        assert self._store is not None
        metadata = {}
        for partition in offsets:
            # One that is not there has come since, to a source that is read by this run alone.
            owner = replace(
                self._next_owner.get(partition, Owner("", 0, self.lineage)),
                member=self._store.name,
                epoch=epoch,
                lineage=self.lineage,
                released=released,
                until=written.get(partition, 0),
                known=self._first_partitions,
            )
            metadata[partition] = owner.to_metadata()
        self._source.commit(offsets, metadata)

    def note_predecessors(
        self, partition: str, offset: int | None, owner: Owner | None, begin: int
    ) -> dict[str, tuple[int, int]]:
        """Note who had a partition before this lineage; its next commit names them.

        `offset` and `owner` are those of its last commit, if there is one; `begin` is where this
        lineage begins with it.

        Returns
        -------
        dict of str to (int, int)
            As of `Owner.before`, the owner included, if it is another lineage.
        """
        before: dict[str, tuple[int, int]] = {}
        complete = offset is None  # where a tool has set the offset, nobody knows of those before
        if owner is not None and offset is not None:
            before, complete = dict(owner.before), owner.complete
            before.pop(owner.lineage, None)
            self.slots[owner.lineage] = owner.member
            before[owner.lineage] = owner.start, offset
        start = begin if offset is None else offset
        start, _ = before.pop(self.lineage, (start, 0))
        kept = dict(list(before.items())[-_MOST:])
        complete = complete and len(kept) == len(before)
        self._next_owner[partition] = Owner("", 0, self.lineage, start, kept, complete)
        return before


def contents(body: Mapping[str, Any], n_events: int) -> Contents:
    """Return what the model of a checkpoint, of so many events, holds of each lineage."""
    others = _others(body)
    return {**others, str(body["lineage"]): max(0, n_events - sum(others.values()))}


def _others(body: Mapping[str, Any]) -> Contents:
    """Return what a model holds of other lineages than its own."""
    found = body["contents"].items()
    return {str(name): int(events) for name, events in found if name != body["lineage"]}


def offsets_of(body: Mapping[str, Any]) -> dict[str, int]:
    """Return the next offset of each partition that a checkpoint has ever had."""
    learned = body["feed"]["learned"].items()
    return {partition: ranges[-1][1] for partition, ranges in learned if ranges}


def _ends(body: Mapping[str, Any]) -> dict[str, int]:
    """Return the ends of what a checkpoint has learned of partitions, of which it has learned."""
    found: dict[str, int] = {}
    for partition, ranges in body["feed"]["learned"].items():
        for start, stop in ranges:
            # A range that begins before the end of the last one follows an offset set back.
            if stop > start or start < found.get(partition, start):
                found[partition] = stop
    return found
