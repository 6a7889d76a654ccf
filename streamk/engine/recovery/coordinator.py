"""Model and offsets, saved together and opened together, through restarts and rebalances.

A start::

    open -> _found      the newest checkpoint that agrees: Store.find, Group.agrees
         -> _restore    trainer, feed and sinks as in it; without one `_begin`: another's model
         -> _assign     partitions are read

A rebalance, in `Source.poll`::

    revoked  -> save(released=True), Feed.release                     else _restore_committed
    assigned -> _assign -> _find_agreeing       if nobody knew whether the last commit had come
                        -> _begin_partition     of each: from its place, or the committed offset
                        -> Takeover.run         models of dead members are merged
                        -> save                 before the first event is learned

Where a commit is refused, `_restore_committed` goes back to the last committed checkpoint and
gives up all partitions. So it is where one cannot be written while partitions move: who gets them
learns again what was learned since.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from connectors.base import Sink, Source, Transactions
from connectors.errors import ConnectorError, Revoked
from streamk.backends.memory import give_back
from streamk.engine.checkpoints.opening import Checkpoints
from streamk.engine.checkpoints.reading import Checkpoint, newest_of_all
from streamk.engine.checkpoints.store import NotSaved, Store
from streamk.engine.evaluation.marks import Marks
from streamk.engine.order.feed import Feed
from streamk.engine.order.sequence import Pass
from streamk.engine.recovery.group import Group, Peers, offsets_of
from streamk.engine.recovery.job import JobIdentity, identities, renamed, replaced
from streamk.engine.recovery.takeover import RevisionMarker, Takeover
from streamk.engine.training.trainer import Trainer
from streamk.errors import EngineError
from streamk.learners.common.base import Learner
from streamk.learners.registry import initials, opening_of
from streamk.memory.clock import Clock
from streamk.state import State

__all__ = ["CheckpointCoordinator", "NotAssigned"]

_log = logging.getLogger("streamk.engine")
_FREE_AT_START = "encoding", "delimiter", "max_skew", "labels", "shards"
"""Options that a job may have otherwise than the one with whose model it begins."""


class NotAssigned(EngineError):
    """Partitions came, and no checkpoint could be written that has them; nothing is read."""


@dataclass
class ResumedFrom:
    """The checkpoint that a run goes on from."""

    epoch: int | None = None
    """Its number, or that of the one written last; None where there is none to go on from."""
    confirmed: bool = True
    """False where the group may yet take a commit, so that another one may be the newest to agree
    with it."""
    places: dict[str, Any] = field(default_factory=dict)
    """The places in the sequence of its partitions that are not read yet, as JSON."""
    finished: bool = False
    """All of them had been read to their ends."""


class CheckpointCoordinator:
    """Saves and restores a run; without a `store` it only hands out the partitions.

    Parameters
    ----------
    sinks : mapping of name to Sink
        Those to be flushed into a checkpoint, and rewound to it.
    config : dict
        Options that a checkpoint and the run that goes on from it must agree in.
    until_end : bool
        Partitions end where they end when the run starts.
    transactions : Transactions, optional
        Those in which sinks write and, where there is a group, offsets are committed.
    """

    def __init__(
        self,
        store: Store | None,
        source: Source,
        feed: Feed,
        trainer: Trainer,
        *,
        sinks: Mapping[str, Sink],
        config: dict[str, Any],
        until_end: bool,
        checkpoints: Checkpoints,
        transactions: Transactions | None,
    ) -> None:
        self.commits = 0
        """Checkpoints that were written and, where there is a group, committed."""
        self.saved_events = 0
        """Events of the sequence that the last checkpoint covers."""
        self._saved_at: Mapping[str, int] = {}
        """The offsets of the last checkpoint."""
        self._store, self._source, self._feed, self._trainer = store, source, feed, trainer
        self._sinks, self._until_end, self._checkpoints = sinks, until_end, checkpoints
        self._transactions = transactions
        self._origin: list[str | int] = []
        self._told = ""
        """The last reason for going back."""
        self._group = Group(source, store, trainer.model.n_events)
        self._revisions = RevisionMarker(source, self._group, trainer)
        self._resumed = ResumedFrom()
        self._restarts = Marks()
        """After how many events a run went on from a checkpoint and learned more."""
        self._restarted: int | None = None
        """That of this run, until it has learned more."""
        # What only checkpoints are compared by takes a copy of the model.
        compared = store is not None or checkpoints.start_from is not None
        self._opening = opening_of(trainer.model) if compared else None
        initial = None if self._opening is None else self._opening.initial
        self._job = JobIdentity(config, initial, learns=trainer.learns)

    @property
    def epoch(self) -> int | None:
        """The last checkpoint's; None without checkpoints."""
        return self._store.epoch if self._store else None

    # --- opening ----------------------------------------------------------------------------

    def open(self) -> None:
        """Go on from the checkpoint, or start.

        Raises
        ------
        StateError
            If the checkpoint is damaged, or was made with other options.
        InvalidInput
            If there is nothing to start from.
        EngineError
            If the source lacks a partition that the checkpoint has read.
        OSError
            If an object store is away.
        """
        found = self._found()
        if self._store is not None and found is not None:
            found = renamed(found, self._source)
            if Peers.of(self._store).absorbed(found.body["lineage"]):
                _log.warning(
                    "%s was taken over by another member while it was away; it starts anew",
                    found.path.parent.name,
                )
                self._begin()
                self._rewind(found)
                found = None  # a checkpoint of its own comes first: nobody goes back to that one
            else:
                self._restore(found)
                self._resumed.confirmed = not self._group.shared
        else:
            self._begin()
        self._source.set_rebalance(self.revoked, self.assigned)
        partitions = self._source.partitions()
        gone = sorted(set(self._resumed.places) - set(partitions))
        if gone and partitions:
            raise EngineError(
                f"the checkpoint in {found and found.path} has read partition {gone[0]!r}, which"
                f" the source does not have (it has {', '.join(partitions)}); run with the same"
                " source, or with another checkpoint directory"
            )
        self._assign(partitions, opened=found is None)

    def _found(self) -> Checkpoint | None:
        """Return the checkpoint to go on from, which this job's options fit."""
        if self._store is None:
            return None
        while True:
            find = self._store.find if self._group.shared else self._store.open
            found = find(self._agrees)
            if found is not None:
                self._job.check(found)
            if self._store.own():  # a job that does not fit must not stop one that runs
                if found is not None:
                    self._begin_transactions(str(found.body["lineage"]))
                return found

    def _agrees(self, found: Checkpoint) -> bool:
        """Return whether a checkpoint of this member agrees with the group.

        A transaction with offsets that is under way comes to its end before the group is asked.
        """
        if self._group.shared:
            self._begin_transactions(str(found.body["lineage"]))
        return self._group.agrees(found)

    def _begin_transactions(self, lineage: str) -> None:
        """Have an end of what this process, or another, has begun to write of a lineage."""
        if self._transactions is not None:
            self._transactions.begin_as(lineage)

    def _begin(self) -> None:
        """Begin with the model of another member, or else of the job to start from, if any."""
        found = self._best_peer()
        if found is not None:
            self._origin = list(found.body["origin"])
            self._trainer.has_others = True
        elif self._checkpoints.start_location is not None:
            found = newest_of_all(self._checkpoints.start_location, self._checkpoints.key)
            self._job.check(found, but=_FREE_AT_START)
            self._origin = [found.body["lineage"], found.epoch]
        else:
            return
        self._trainer.use_model(found.body["training"], self._opened(found))
        _tell_of_challengers(found.model, self._trainer.model)
        n_events = self._trainer.model.n_events
        self._group.begin_with(found.body, n_events)
        _log.info("starting from %s, %d events learned", found.path, n_events)

    def _best_peer(self) -> Checkpoint | None:
        """Return the checkpoint of the member of the group that has learned most."""
        if self._store is None or not (self._group.shared and self._trainer.learns):
            return None
        peers = Peers.of(self._store, self._group.agrees)
        for _ in range(4):
            if not peers.damaged:
                break
            # One that runs may have committed since the group was asked, and removed what agreed.
            self._group.ask_again()
            peers = Peers.of(self._store, self._group.agrees)
        best, most = None, 0
        for found in peers.newest:
            if self._job.difference(found) is None:
                n_events = self._opened(found).n_events
                if n_events > most:
                    best, most = found, n_events
        return best

    def _opened(self, found: Checkpoint) -> Learner:
        """Return the model of a checkpoint, on the device and threads of this run's."""
        assert self._opening is not None
        opened: Learner = self._opening.open(found.model, self._trainer.model)
        return opened

    def _restore(self, found: Checkpoint) -> None:
        body, trainer = found.body, self._trainer
        trainer.restore(body["training"], self._opened(found) if trainer.learns else trainer.model)
        _tell_of_challengers(found.model, trainer.model)
        trainer.restore_held(found.held)
        self._origin = list(body["origin"])
        places = self._feed.restore(body["feed"])
        self._feed.begin_anew(places, replaced(found, self._source))
        self._resumed = ResumedFrom(None, self._resumed.confirmed, places, body["finished"])
        self._group.restore(body)
        trainer.has_others = bool(self._group.absorbed)
        self.saved_events = self._restarted = self._feed.sequencer.events
        self._restarts = Marks.from_json(body["restarts"])
        self._rewind(found)
        self._resumed.epoch = found.epoch  # where a sink could not go back, all is restored again
        for partition, offset in offsets_of(body).items():
            stop = self._group.stop_of(self._group.lineage, partition)
            if offset < stop < math.inf:
                self._feed.miss(partition, offset, int(stop), f"committed, but not in {found.path}")
        _log.info("going on from %s, %d events", found.path, self.saved_events)

    def _rewind(self, found: Checkpoint) -> None:
        addresses = found.body["sinks"]
        for name, sink in self._sinks.items():
            before, now = addresses.get(name), _address(sink)
            if before in (None, now):
                sink.rewind(found.body["marks"].get(name))
            else:
                _log.info("%s is a new sink, the one before was %s", now, before)

    # --- partitions -------------------------------------------------------------------------

    def assigned(self, partitions: Sequence[str]) -> None:
        """Read `partitions` from here on: from their place in the sequence, or the committed one.

        What dead members have learned on them is taken over.

        Raises
        ------
        NotAssigned
            If the checkpoint that has them cannot be written. `restart_from_commit` tries again.
        """
        try:
            self._assign(partitions)
        except NotSaved as error:
            if not self._checkpoints.grace:
                raise
            # At once: a dead member whose model was merged may come back now that its slot is free.
            self._restore_committed(error)
            raise NotAssigned(str(error)) from error

    def _assign(self, partitions: Sequence[str], *, opened: bool = False) -> None:
        """Do what `assigned` says.

        `opened` at the start of a run without a checkpoint, which gets its first one here.
        """
        self._group.ask_again()
        if not self._resumed.confirmed:
            self._find_agreeing()
        self._begin_transactions(self._group.lineage)
        passes = self._store.read_passes() if self._store else []
        if not (opened or self._group.shared):
            partitions = self._read_before(partitions, passes)
        resumed = self._resumed
        same, epoch = set(partitions) == set(resumed.places), resumed.epoch
        # A checkpoint names the partitions that are merged after it. Where these are others than
        # in the last one, or end elsewhere, one is due before the first event.
        due = opened or (bool(partitions) and not same)
        self._group.note_first_partitions(partitions)
        before: dict[str, dict[str, tuple[int, int]]] = {}
        """Beginnings and ends of lineages, by lineage and partition."""
        for partition in partitions:
            runs, is_new = self._begin_partition(partition, passes, opened=opened)
            due |= is_new
            for lineage, run in runs.items():
                before.setdefault(lineage, {})[partition] = run
        owners = {name: self._group.committed(name)[1] for name in partitions}
        self._feed.sequencer.replay(passes)
        resumed.finished = False
        with suppress(Revoked):  # the group has moved on meanwhile; its next assignment comes
            absorbed = len(self._group.absorbed)
            due |= self._store is not None and not self._take_over(before)
            new = self._group.absorbed[absorbed:]
            for lineage in [*new, self._group.lineage]:
                self._begin_transactions(lineage)  # the dead ones' are ended before their time
            # With transactions nobody sees what is behind a commit, so that nothing is revised.
            visible = {} if self._transactions is not None else owners
            self._revisions.mark(visible, epoch, same=same and not new)
            if due:
                self.save()
                return
            self._saved_at = self._feed.sequencer.offsets
            # Before anything is learned the group knows whose the partitions are, and at work.
            if any(owner.released if owner else self._group.shared for owner in owners.values()):
                self._commit()

    def _read_before(self, partitions: Sequence[str], passes: Sequence[Pass]) -> list[str]:
        """Return the partitions that the run before knew; these are read first.

        That run may have learned events after the checkpoint, up to all that its partitions hold
        now. So they are read to there before the new ones are begun (`Feed.read_first`).
        """
        if self._resumed.finished and self._until_end:  # it has learned nothing more
            return [*partitions]
        known = {*self._resumed.places, *(record.partition for record in passes)}
        kept = [name for name in partitions if name in known]
        if len(kept) < len(partitions):
            ends = {name: self._source.end(name) for name in kept}
            self._feed.read_first({name: end for name, end in ends.items() if end is not None})
        return kept

    def _begin_partition(
        self, partition: str, passes: list[Pass], *, opened: bool
    ) -> tuple[dict[str, tuple[int, int]], bool]:
        """Begin to read a partition.

        From its place in the sequence, if it has one, with the passes there; else, or if the group
        knows better, from where it is to begin. Returns where the lineages before began and
        stopped, and whether a checkpoint is needed before its first event.
        """
        offset, owner = self._group.committed(partition)
        begin = self._group.initial(partition, opened=opened) if offset is None else offset
        runs = self._group.note_predecessors(partition, offset, owner, begin)
        if owner is not None:
            self._revisions.expect(partition, owner)
        place = self._resumed.places.pop(partition, None)
        if place is None or (offset is not None and not self._group.is_mine(owner)):
            noted = [one.offset for one in passes if one.partition == partition and offset is None]
            at, end, clock = min([begin, *noted]), None, Clock.at(self._feed.sequencer.clock)
            is_new = True
        else:
            at, clock = place["offset"] if offset is None else begin, Clock.from_json(place)
            end, is_new = None if self._resumed.finished else place["end"], False
            passes += [Pass(partition, *record) for record in place["passes"]]
        if end is None and self._until_end:
            end, is_new = self._source.end(partition), True
        self._feed.assign(partition, at, clock=clock, end=end if self._until_end else None)
        return runs, is_new

    def _take_over(self, before: Mapping[str, Mapping[str, tuple[int, int]]]) -> bool:
        """Take over the models of dead members; True if checkpoints hold all of them."""
        assert self._store is not None
        return Takeover(
            self._store,
            self._group,
            self._trainer,
            self._feed,
            self._is_of_this_job,
            self._opened,
            self.save,
        ).run(before)

    def _is_of_this_job(self, found: Checkpoint) -> bool:
        """Return whether a checkpoint began with the model that this job began with."""
        same = list(found.body["origin"]) == self._origin
        return same and found.body["initial"] == self._job.initial

    def revoked(self, partitions: Sequence[str]) -> None:
        """Save up to the last event taken, then give up all partitions.

        Those that stay come back in `assigned`; events read and not taken are read again, since
        without some partitions they have another order. Where it cannot be saved, the run goes back
        to its last committed checkpoint: whoever gets the partitions learns the rest again.
        """
        if not self._feed.sequencer.partitions:
            return  # given up already, when a commit was refused
        try:
            self._trainer.drain()
            self.save(released=True)
        except Revoked:
            return
        except (ConnectorError, NotSaved) as error:
            if self._store is None or (isinstance(error, NotSaved) and not self._checkpoints.grace):
                raise
            self._restore_committed(error)
        else:
            self._resumed.places = self._feed.release()

    def _restore_committed(self, error: Exception) -> None:
        """Give up all partitions and what was learned since the last committed checkpoint.

        The group has given the partitions away: their next owner starts at the last commit and
        learns what came after, so here it must not have been learned.
        """
        assert self._store is not None
        if str(error) != self._told:
            _log.warning("going back to the last committed checkpoint: %s", error)
            self._told = str(error)
        self._feed.release()
        self._group.ask_again()
        self._resumed.confirmed, self._resumed.epoch = False, None
        with suppress(ConnectorError):  # the group is asked again when it gives partitions
            self._begin_transactions(self._group.lineage)  # before what stands there is read
            found = self._store.find(self._agrees)
            if found is not None:
                self._restore(found)

    def restart_from_commit(self, error: Exception) -> None:
        """Read and learn again what came after the last committed checkpoint.

        Raises as `assigned` and `open` do.
        """
        self._restore_committed(error)
        self.assigned(self._source.partitions())

    def _find_agreeing(self) -> None:
        """Go on from the checkpoint that agrees with the group, now that no commit is under way."""
        assert self._store is not None
        self._begin_transactions(self._group.lineage)
        found = self._store.open(self._agrees)
        if found is not None and found.epoch != self._resumed.epoch:
            self._feed.release()
            self._restore(renamed(found, self._source))
        self._resumed.confirmed = True

    # --- saving -----------------------------------------------------------------------------

    def save(self, *, released: bool = False) -> None:
        """Write a checkpoint after the last event taken, then commit its offsets.

        Parameters
        ----------
        released : bool, default False
            Nothing more will be written until partitions are assigned again.

        Raises
        ------
        NotSaved
            If it cannot be written; the one before is intact.
        ConnectorError
            If a sink has lost something, or the offsets cannot be committed. If that is because
            the group has moved on (`Revoked`), everything is as in the last committed checkpoint
            and the partitions are given up.
        """
        resumed = self._resumed
        has_nothing = resumed.epoch is None and not resumed.confirmed
        if self._store is None or self._feed.provisional or has_nothing:
            return
        self._trainer.drain()
        # Outputs first: a checkpoint says that everything before it has been written.
        marks = {name: sink.mark() for name, sink in self._sinks.items()}
        sequencer, trainer = self._feed.sequencer, self._trainer
        if self._restarted is not None and sequencer.events > self._restarted:
            self._restarts.add([self._restarted])
            self._restarted = None
        body = self._body() | {"marks": marks}
        give_back()  # before the state takes what it does
        resumed.epoch = self._store.save(body, trainer.model.lent_state(), trainer.held_state())
        self.saved_events, self._saved_at = sequencer.events, sequencer.offsets
        self._commit(released=released)
        self.commits += 1
        self._told = ""

    def _body(self) -> dict[str, Any]:
        """Return what a checkpoint says of the run, but for the model."""
        return {
            **self._job.to_json(),
            **self._group.to_json(),
            "origin": self._origin,
            "identities": identities(self._source, self._feed.sequencer.offsets),
            "finished": self._feed.exhausted,
            "feed": self._feed.to_json(),
            "training": self._trainer.to_json(),
            "restarts": self._restarts.to_json(),
            "sinks": {name: _address(sink) for name, sink in self._sinks.items()},
        }

    @property
    def is_current(self) -> bool:
        """True if the last checkpoint has all there is, offsets that were passed over included."""
        sequencer = self._feed.sequencer
        return sequencer.events == self.saved_events and sequencer.offsets == self._saved_at

    def commit_released(self) -> None:
        """Tell the group, if there is one, that nothing was written beyond what was committed."""
        if self._group.shared and self.is_current:
            with suppress(Revoked):
                self._commit(released=True)

    def _commit(self, *, released: bool = False) -> None:
        """Commit the offsets of the last checkpoint."""
        offsets = self._feed.sequencer.offsets
        if self._store is not None and offsets:
            try:
                written = self._revisions.written_until
                self._group.commit(offsets, self._store.epoch, written, released=released)
            except Revoked as error:
                self._restore_committed(error)
                raise


def _address(sink: Sink) -> str | None:
    """Return where a sink writes, if it tells."""
    return getattr(sink, "address", None)


def _tell_of_challengers(state: State, model: Learner) -> None:
    """Log which challengers begin or are dropped where a run goes on from a checkpoint."""
    before, now = set(initials(state)), set[str]()
    if model.models:
        before, now = before or {model.champion}, set(model.models)
    elif before:
        now = {str(state.header.get("champion"))}
    for name in sorted(now - before):
        _log.info("the challenger %s begins here", name)
    for name in sorted(before - now):
        _log.warning("the model %s is dropped: this run does not name it", name)
