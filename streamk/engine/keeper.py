"""Model and offsets, saved together and opened together, through restarts and rebalances."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from connectors.base import Sink, Source, beginning_of
from connectors.errors import BadRecord, ConnectorError, Revoked
from streamk.encoding import Schema
from streamk.engine.checkpoint import Checkpoint, Store, fingerprint, newest_of_all
from streamk.engine.clocks import Clock
from streamk.engine.feed import Feed
from streamk.engine.group import Owner, dead_member, lineages, new_lineage, was_absorbed
from streamk.engine.marks import Marks
from streamk.engine.sequence import Pass
from streamk.engine.training import Trainer
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.learners.base import Learner

__all__ = ["Keeper"]

_log = logging.getLogger("streamk.engine")


@runtime_checkable
class Recognizable(Protocol):
    """A source of a single file that is known by its beginning, whatever its name."""

    def fingerprint(self, length: int = ...) -> tuple[int, str]:
        """The number of the first bytes, up to `length`, and their digest."""
        ...

    def partitions(self) -> tuple[str, ...]:
        """The file's name."""
        ...


class Keeper:
    """Saves and restores a run; without a `store` it only hands out the partitions.

    Parameters
    ----------
    store : Store or None
    source : Source
    feed : Feed
    trainer : Trainer
    sinks : mapping of name to Sink
        Those to be flushed into a checkpoint, and rewound to it.
    config : dict
        Options that a checkpoint and the run that goes on from it must agree in.
    until_end : bool
        Partitions end where they end when the run starts.
    start_from : Path, optional
        Directory of another job's checkpoints, whose model this one begins with.
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
        start_from: Path | None = None,
    ) -> None:
        self.saved_events = 0
        """Events of the sequence that the last checkpoint covers."""
        self._store = store
        self._source = source
        self._feed = feed
        self._trainer = trainer
        self._sinks = sinks
        self._until_end = until_end
        self._start_from = start_from
        self._origin: list[str | int] = []
        self._lineage = new_lineage()
        self._absorbed: list[str] = []
        self._committed: int | None = None
        self._places: dict[str, Any] = {}
        self._resumed: int | None = None
        self._restarts = Marks()
        """Where a run went on from a checkpoint; where it learned nothing more there is none."""
        self._finished = False
        self._common_events = trainer.model.n_events
        self._initial, self._config = "", dict(config)
        # What only checkpoints are compared by takes a copy of the model.
        if store is not None or start_from is not None:
            initial = trainer.model.state()
            self._initial = fingerprint(initial)
            self._config["model"] = initial.header

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
        """
        found = None
        if self._store is not None:
            found = self._store.open(self._committed_epoch())
        if found is not None:
            self._check(found)
            found = self._renamed(found)
            if was_absorbed(self._store, lineages(found.body)[0]):  # type: ignore[arg-type]
                _log.warning(
                    "%s was taken over by another member while it was away; it starts anew",
                    found.path.parent.name,
                )
                self._begin()
                self._rewind(found)
            else:
                self._restore(found)
        else:
            self._begin()
        self._source.set_rebalance(self.revoked, self.assigned)
        partitions = self._source.partitions()
        gone = sorted(set(self._places) - set(partitions))
        if gone and partitions:
            raise EngineError(
                f"the checkpoint in {found and found.path} has read partition {gone[0]!r}, which"
                f" the source does not have (it has {', '.join(partitions)}); run with the same"
                " source, or with another checkpoint directory"
            )
        self.assigned(partitions, opened=found is None)

    def _renamed(self, found: Checkpoint) -> Checkpoint:
        """Return a checkpoint of a single file with the name that this file has now."""
        sequence, ranges = found.body["feed"]["sequence"], found.body["feed"]["learned"]
        known = found.body.get("fingerprint")
        if not known or not isinstance(self._source, Recognizable):
            return found
        (before,), (now,) = sequence["partitions"], self._source.partitions()
        if before == now or list(self._source.fingerprint(known[0])) != known:
            return found
        _log.info("%s is the file that was called %s", now, before)
        feed = {
            **found.body["feed"],
            "sequence": {**sequence, "partitions": {now: sequence["partitions"][before]}},
            "learned": {now: ranges[before]},
        }
        return replace(found, body={**found.body, "feed": feed})

    def _fingerprint(self) -> list[Any] | None:
        """Return what the source's only file is known by, if it is one and not empty."""
        if not isinstance(self._source, Recognizable) or len(self._feed.sequencer.offsets) != 1:
            return None
        try:
            length, digest = self._source.fingerprint()
        except (ConnectorError, OSError):  # it is gone, or being replaced
            return None
        return [length, digest] if length else None

    def _begin(self) -> None:
        """Take the model of the job to start from, if there is one to begin with."""
        if self._start_from is None:
            return
        found = newest_of_all(self._start_from)
        self._check(found, but=("encoding", "delimiter", "max_skew"))
        self._trainer.start_from(found.body["training"], self._opened(found))
        self._common_events = self._trainer.model.n_events
        self._origin = [found.body["lineage"], found.epoch]
        _log.info("starting from %s, %d events learned", found.path, self._common_events)

    def _opened(self, found: Checkpoint) -> Learner:
        """Return the model of a checkpoint."""
        return type(self._trainer.model).from_state(found.model)

    def _committed_epoch(self) -> int | None:
        """The epoch that the group has committed last for this member, if any."""
        assert self._store is not None
        newest = self._store.peek()
        if newest is None:
            return None
        epochs = []
        for partition in newest.body["feed"]["sequence"]["partitions"]:
            committed = self._source.committed(partition)
            owner = Owner.parse(committed[1]) if committed else None
            if owner and (owner.member, owner.lineage) == (
                self._store.name,
                newest.body["lineage"],
            ):
                epochs.append(owner.epoch)
        return min(epochs, default=None)

    def _check(self, found: Checkpoint, but: Collection[str] = ()) -> None:
        """Raise `StateError` unless a checkpoint is of this stream and this model.

        Of the options of the stream those named in `but` may differ.
        """
        # Those that older checkpoints lack could not be otherwise then. The bound of clocks is the
        # exception: the order so far is fixed without it, and goes on with it.
        skew = self._config.get("max_skew")
        theirs = {"delimiter": ",", "learn": True, "max_skew": skew, **found.body["config"]}
        if "batch_size" in theirs:
            raise StateError(
                f"the checkpoint {found.path} is of a streamk that predicted batches of events"
                " before it learned them, and would go on otherwise; begin in another checkpoint"
                " directory, from the start of the stream or with the offsets that `streamk"
                " inspect` shows"
            )
        for name, mine in self._config.items():
            if name not in ("model", *but) and mine != theirs.get(name):
                raise StateError(_mismatch(found, name, theirs.get(name), mine))
        if found.body["initial"] != self._initial and self._trainer.learns:
            mine, other = self._config["model"], theirs["model"]
            if mine != other:
                name, other, mine = _difference(other, mine)
                raise StateError(_mismatch(found, f"model {name}", other, mine))
            raise StateError(_mismatch(found, "the model's arrays", "others", "these"))

    def _restore(self, found: Checkpoint) -> None:
        body = found.body
        self._trainer.restore(body["training"], self._opened(found))
        self._origin = list(body.get("origin", []))
        self._common_events = body.get("common_events", self._common_events)
        self._places = self._feed.restore(body["feed"])
        self._lineage = body["lineage"]
        self._absorbed = list(body["absorbed"])
        self._finished = body["finished"]
        self._committed = found.epoch
        self.saved_events = self._resumed = self._feed.sequencer.events
        self._restarts = Marks.from_json(body.get("restarts"))
        self._rewind(found)
        _log.info("going on from %s, %d events", found.path, self.saved_events)

    def _rewind(self, found: Checkpoint) -> None:
        addresses = found.body.get("sinks", {})
        for name, sink in self._sinks.items():
            before, now = addresses.get(name), _address(sink)
            if before in (None, now):
                sink.rewind(found.body["marks"].get(name))
            else:
                _log.info("%s is a new sink, the one before was %s", now, before)

    # --- partitions -------------------------------------------------------------------------

    def assigned(self, partitions: Sequence[str], *, opened: bool = False) -> None:
        """Read `partitions` from here on: from their place in the sequence, or the committed one.

        What dead members have learned on them is taken over. `opened` marks the start of a run
        without a checkpoint, which gets its first one here.
        """
        feed, changed = self._feed, opened
        passes = self._store.noted() if self._store else []
        heirs: dict[Owner, dict[str, int]] = {}
        for partition in partitions:
            place = self._places.pop(partition, None)
            committed = self._source.committed(partition)
            owner = Owner.parse(committed[1]) if committed else None
            if place is not None and (committed is None or self._is_me(owner)):
                end = None if self._finished else place["end"]
                passes += [Pass(partition, *record) for record in place["passes"]]
                offset, clock = place["offset"], Clock.from_json(place)
            else:
                end, clock = None, Clock.at(feed.sequencer.clock)
                offset = committed[0] if committed else beginning_of(self._source, partition)
                if owner and self._store and owner.member != self._store.name:
                    heirs.setdefault(owner, {})[partition] = offset
            if end is None and self._until_end:
                end = self._source.end(partition)
                changed = True
            changed |= place is None
            feed.assign(partition, offset, clock=clock, end=end if self._until_end else None)
        feed.sequencer.replay(passes)
        self._finished = False
        try:
            for owner, offsets in heirs.items():
                changed |= not self._take_over(owner, offsets)
            if changed:
                self.save()
        except Revoked:
            pass  # the group has moved on meanwhile; its next assignment is under way

    def revoked(self, partitions: Sequence[str]) -> None:
        """Save up to the last event taken, then give up all partitions.

        Those that stay come back in `assigned`; events read and not taken are read again, since
        without some partitions they have another order.
        """
        if not self._feed.sequencer.partitions:
            return  # given up already, when a commit was refused
        try:
            self._trainer.settle()
            self.save()
        except Revoked:
            return
        except ConnectorError as error:
            if self._store is None:
                raise
            self._go_back(error)
        else:
            self._places = self._feed.release()

    def _go_back(self, error: ConnectorError) -> None:
        """Give up all partitions and what was learned since the last committed checkpoint.

        The group has given the partitions away: their next owner starts at the last commit and
        learns what came after, so here it must not have been learned.
        """
        assert self._store is not None
        _log.warning("going back to the last committed checkpoint: %s", error)
        self._feed.release()
        found = self._store.open(self._committed)
        if found is not None:
            self._restore(found)

    def _is_me(self, owner: Owner | None) -> bool:
        return bool(
            owner
            and self._store
            and owner.member == self._store.name
            and owner.lineage == self._lineage
        )

    def _take_over(self, owner: Owner, offsets: Mapping[str, int]) -> bool:
        """Merge a dead member's model into this one; True if a checkpoint was written with it."""
        assert self._store is not None
        try:
            with dead_member(self._store, owner) as found:
                if found is None:
                    return False
                lineage, *_ = lineages(found.body)
                if lineage in self._absorbed or was_absorbed(self._store, lineage):
                    return False
                self._absorb(found)
                places = found.body["feed"]["sequence"]["partitions"]
                for partition, offset in offsets.items():
                    start = places.get(partition, {"offset": offset})["offset"]
                    self._lose(partition, start, offset, f"not in {found.path}")
                self.save()  # before its slot is free again
                _log.info("took over what %s had learned", found.path)
        except (StateError, InvalidInput, BadRecord) as error:
            for partition, offset in offsets.items():
                start = self._source.start(partition)
                self._lose(partition, start, offset, f"learned by {owner.member}: {error}")
            return False
        return True

    def _lose(self, partition: str, start: int, stop: int, reason: str) -> None:
        """Report as lost what lies in a range and was not learned here at an earlier time."""
        for known_start, known_stop in sorted(self._feed.learned.get(partition, ())):
            self._feed.lose(partition, start, min(known_start, stop), reason)
            start = max(start, known_stop)
        self._feed.lose(partition, start, stop, reason)

    def _absorb(self, found: Checkpoint) -> None:
        if not self._trainer.learns:
            return  # there is nothing but the place
        same = found.body["initial"] == self._initial
        if not same or list(found.body.get("origin", [])) != self._origin:
            raise StateError("it started from another model")
        schema = found.body["training"]["schema"]
        if schema is not None:
            self._trainer.absorb(self._opened(found), Schema.from_json(schema), self._common_events)
        self._absorbed += lineages(found.body)

    # --- saving -----------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint after the last event taken, then commit its offsets.

        Raises
        ------
        NotSaved
            If it cannot be written; the one before is intact.
        ConnectorError
            If a sink has lost something, or the offsets cannot be committed. If that is because
            the group has moved on (`Revoked`), everything is as in the last committed checkpoint
            and the partitions are given up.
        """
        if self._store is None:
            return
        self._trainer.settle()
        # Outputs first: a checkpoint says that everything before it has been written.
        marks = {name: sink.mark() for name, sink in self._sinks.items()}
        feed, trainer = self._feed, self._trainer
        if self._resumed is not None and feed.sequencer.events > self._resumed:
            self._restarts.add([self._resumed])
            self._resumed = None
        body = {
            "config": self._config,
            "initial": self._initial,
            "lineage": self._lineage,
            "absorbed": self._absorbed,
            "origin": self._origin,
            "common_events": self._common_events,
            "fingerprint": self._fingerprint(),
            "finished": feed.sequencer.exhausted,
            "feed": feed.to_json(),
            "training": trainer.to_json(),
            "restarts": self._restarts.to_json(),
            "marks": marks,
            "sinks": {name: _address(sink) for name, sink in self._sinks.items()},
        }
        epoch = self._store.save(body, trainer.model.state())
        self.saved_events = feed.sequencer.events
        offsets = feed.sequencer.offsets
        if offsets:
            owner = Owner(self._store.name, epoch, self._lineage)
            try:
                self._source.commit(offsets, owner.to_metadata())
            except Revoked as error:
                self._go_back(error)
                raise
        self._committed = epoch


def _address(sink: Sink) -> str | None:
    """Return where a sink writes, if it tells."""
    return getattr(sink, "address", None)


def _difference(theirs: Any, mine: Any, name: str = "") -> tuple[str, Any, Any]:
    """Return the name and both values of what is most telling where two headers differ."""
    if not (isinstance(theirs, dict) and isinstance(mine, dict)):
        return name, theirs, mine
    differing = [key for key in {**theirs, **mine} if theirs.get(key) != mine.get(key)]
    # Models of two types differ in much; the type says why. An option says more than a part that
    # follows from it.
    key = min(
        differing,
        key=lambda key: (key != "type", isinstance(mine.get(key, theirs.get(key)), dict), key),
    )
    return _difference(theirs.get(key), mine.get(key), f"{name}.{key}" if name else key)


def _mismatch(found: Checkpoint, name: str, theirs: object, mine: object) -> str:
    return (
        f"the checkpoint {found.path} was made with {name}={theirs!r}, this run has {mine!r}; use"
        " the same, or another checkpoint directory"
    )
