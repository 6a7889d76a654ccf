"""Predictions that a member of a group writes again, with other values than those of before."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import Source
from streamk.engine.recovery.group import Group, Owner
from streamk.engine.training.trainer import Trainer

__all__ = ["Revisions"]


class Revisions:
    """Tells the trainer of each partition up to which offset its predictions are revisions.

    Parameters
    ----------
    source : Source
    group : Group
    trainer : Trainer

    Attributes
    ----------
    written : dict of partition to int
        The offset up to which predictions may be there from before.
    """

    def __init__(self, source: Source, group: Group, trainer: Trainer) -> None:
        self._source, self._group, self._trainer = source, group, trainer
        self.written: dict[str, int] = {}

    def expect(self, partition: str, owner: Owner) -> None:
        """Take note of the predictions that may be there of events still to come."""
        written = owner.until
        if not owner.released:
            written = max(written, self._source.end(partition) or 0)
        self.written[partition] = written

    def mark(self, owners: Mapping[str, Owner | None], epoch: int | None, *, same: bool) -> None:
        """Mark predictions that others may have written before with other values as revisions.

        Parameters
        ----------
        owners : mapping of partition to Owner or None
            Of the last commit of each partition that was assigned.
        epoch : int or None
            Of the checkpoint that the run goes on from.
        same : bool
            Whether it goes on with the same partitions and models. If each last commit is of that
            checkpoint too, what was written after it is written again with the same values.
        """
        if not self._group.shared:
            return
        again = same and all(
            owner is not None and self._group.is_mine(owner) and owner.epoch == epoch
            for owner in owners.values()
        )
        self._trainer.revised = {
            partition: owner.until if again else self.written[partition]
            for partition, owner in owners.items()
            if owner is not None
        }
