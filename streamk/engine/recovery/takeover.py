"""The models of dead members, merged into the one of the member that has their partitions now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connectors.base import Source
from connectors.errors import BadRecord
from streamk.encoding import Schema
from streamk.engine.checkpoints.places import Location
from streamk.engine.checkpoints.reading import Checkpoint
from streamk.engine.checkpoints.store import Store
from streamk.engine.order.feed import Feed
from streamk.engine.recovery.group import Group, Owner, Peers, dead_member, offsets_of
from streamk.engine.training.trainer import Trainer
from streamk.errors import InvalidInput, StateError
from streamk.learners.common.base import Learner

_log = logging.getLogger("streamk.engine")


@dataclass(frozen=True)
class Takeover:
    """Takes over what dead members have learned, or reports it as lost."""

    store: Store
    group: Group
    trainer: Trainer
    feed: Feed
    fits: Callable[[Checkpoint], bool]
    """Tells of a checkpoint whether it is of the same job."""
    opened: Callable[[Checkpoint], Learner]
    """Returns the model of a checkpoint."""
    save: Callable[[], None]
    """Writes a checkpoint of this member and commits it."""

    def run(self, before: Mapping[str, Mapping[str, tuple[int, int]]]) -> bool:
        """Take over what can be; True if checkpoints hold all there is to know.

        Parameters
        ----------
        before : mapping of str to mapping of str to (int, int)
            Where lineages began and stopped in the partitions of this member.

        Raises
        ------
        Revoked
            If the group has moved on.
        """
        saved, peers = True, Peers.of(self.store)
        elsewhere = []
        for lineage, runs in before.items():
            if self._has(lineage):
                continue
            member = f"{self.group.slots.get(lineage, 'another member')}, lineage {lineage[:8]}"
            try:
                if peers.absorbed(lineage):
                    elsewhere.append(lineage)
                else:
                    self._merge_slot(peers.slot_of(lineage), lineage, runs, f"learned by {member}")
            except (StateError, InvalidInput, BadRecord) as error:
                saved = False
                for partition, (start, stop) in runs.items():
                    self.feed.miss(partition, start, stop, f"learned by {member}: {error}")
        # One that has absorbed another may have died before the group heard of it, so that none
        # but the absorbed one's partitions lead to it.
        for lineage in elsewhere:
            successor = peers.successor_of(lineage)
            if successor is None or self._has(str(successor.body["lineage"])):
                continue
            try:
                self._merge_slot(successor.path.parent, str(successor.body["lineage"]), {}, "")
            except (StateError, InvalidInput, BadRecord) as error:
                _log.warning("%s is not taken over: %s", successor.path.parent.name, error)
        return saved

    def _has(self, lineage: str) -> bool:
        """Return whether this member's model holds what a lineage has learned."""
        return lineage in (self.group.lineage, *self.group.absorbed)

    def _merge_slot(
        self, path: Location, lineage: str, runs: Mapping[str, tuple[int, int]], reason: str
    ) -> None:
        """Merge the model in the slot of a lineage, unless it is running, and save.

        Raises `StateError` if there is nothing in it that can be used.
        """
        with dead_member(self.store, path, lineage, self.group.agrees) as found:
            # Another one may have been faster while this one waited for the lock.
            if found is not None and not Peers.of(self.store).absorbed(lineage):
                self._absorb(found, runs, f"{reason}: not in {found.path}")
                self.save()  # before its slot is free again
                _log.info("took over what %s had learned", found.path)

    def _absorb(self, found: Checkpoint, runs: Mapping[str, tuple[int, int]], reason: str) -> None:
        """Merge the model of a checkpoint, and report what was committed and is not in it."""
        offsets = offsets_of(found.body)
        if self.trainer.learns:
            self._merge(found)
        lost = self.feed.lost
        lost += [dict(one) for one in found.body["feed"]["lost"] if one not in lost]
        for partition, (start, stop) in runs.items():
            self.feed.miss(partition, offsets.get(partition, start), stop, reason)

    def _merge(self, found: Checkpoint) -> None:
        if not self.fits(found):
            raise StateError("it started from another model")
        n_events, body = self.trainer.model.n_events, found.body
        other, schema = self.opened(found), body["training"]["schema"]
        if schema is not None:
            common = self.group.in_common(n_events, body, other.n_events)
            self.trainer.absorb(other, Schema.from_json(schema), common)
        self.group.absorb(body, other.n_events)


@dataclass
class RevisionMarker:
    """Tells the trainer of each partition up to which offset its predictions are revisions."""

    source: Source
    group: Group
    trainer: Trainer
    written_until: dict[str, int] = field(default_factory=dict)
    """The offset up to which predictions may be there from before, by partition."""

    def expect(self, partition: str, owner: Owner) -> None:
        """Take note of the predictions that may be there of events still to come."""
        written = owner.until
        if not owner.released:
            written = max(written, self.source.end(partition) or 0)
        self.written_until[partition] = written

    def mark(self, owners: Mapping[str, Owner | None], epoch: int | None, *, same: bool) -> None:
        """Mark predictions that others may have written before with other values as revisions.

        The run goes on from the checkpoint of an epoch; if it does so with the same partitions and
        models, and the last commit of each is of that checkpoint, of these `owners`, what was
        written after it is written again with the same values.
        """
        if not self.group.shared:
            return
        again = same and all(
            owner is not None and self.group.is_mine(owner) and owner.epoch == epoch
            for owner in owners.values()
        )
        self.trainer.revised = {
            partition: owner.until if again else self.written_until[partition]
            for partition, owner in owners.items()
            if owner is not None
        }
