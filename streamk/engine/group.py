"""Several members that share a stream: who goes on where another one stopped.

Each member of a consumer group has its own model, learned from its own partitions, and its own
slot in the checkpoint directory. Its commits name the slot, the epoch of the checkpoint, and its
*lineage*: an identifier that a model gets when it starts from nothing and keeps through restarts.

A partition that comes from another member is read from the group's committed offset on. If that
member is alive, what it learned stays with it. If it is dead (nobody holds its slot's lock), its
model is merged into this one, each counting by its events, and the checkpoint written at once
says so by listing the dead one's lineage as absorbed. **A lineage is absorbed at most once, and
an absorbed lineage never learns again**: a member that comes back to find its lineage in
another's list starts from nothing with a new one, in the same slot, at the committed offsets.
So every event counts once in exactly one living model.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from streamk.engine.checkpoint import Store
from streamk.engine.keys import Untrusted
from streamk.engine.locks import lock
from streamk.engine.reading import Checkpoint, newest_checkpoint
from streamk.errors import StateError

__all__ = ["Owner", "dead_member", "new_lineage", "was_absorbed"]

_log = logging.getLogger("streamk.engine")


@dataclass(frozen=True)
class Owner:
    """Who committed an offset: written into the commit's metadata."""

    member: str
    epoch: int
    lineage: str

    def to_metadata(self) -> str:
        """Text for a commit.

        >>> Owner.parse(Owner("member-0", 3, "f00").to_metadata()).epoch
        3
        """
        return json.dumps({"streamk": 1, **asdict(self)})

    @classmethod
    def parse(cls, metadata: str) -> Owner | None:
        """The owner, None if a commit was not made by this engine (a tool reset the offset)."""
        try:
            data = json.loads(metadata)
            owner = cls(str(data["member"]), int(data["epoch"]), str(data["lineage"]))
        except (ValueError, TypeError, KeyError):
            return None
        return owner if data.get("streamk") == 1 else None


def new_lineage() -> str:
    """An identifier for a model that starts from nothing."""
    return uuid.uuid4().hex


def was_absorbed(store: Store, lineage: str) -> bool:
    """Whether another member of the directory has taken in this lineage."""
    for peer in store.peers():
        try:
            found = newest_checkpoint(peer, key=store.key)
        except Untrusted:
            raise
        except StateError as error:
            _log.warning("cannot tell what %s has taken over: %s", peer.name, error)
            continue
        if found is not None and lineage in found.body.get("absorbed", ()):
            return True
    return False


@contextmanager
def dead_member(store: Store, owner: Owner) -> Iterator[Checkpoint | None]:
    """The last checkpoint of a member that is not running, which cannot start meanwhile.

    None if it is alive: what it knows stays with it.

    Raises
    ------
    StateError
        If it is dead and its checkpoint cannot be used, saying why.
    """
    path = Path(store.directory) / owner.member
    if path not in store.peers():
        raise StateError(f"there is no {owner.member} in {store.directory}")
    held = lock(path)
    if held is None:
        yield None
        return
    try:
        found = newest_checkpoint(path, owner.epoch, key=store.key)
        if found is None:
            raise StateError(f"{path} holds no checkpoint")
        yield found
    finally:
        os.close(held)


def lineages(body: dict[str, Any]) -> list[str]:
    """The lineages that are in the model of a checkpoint: its own and those it absorbed."""
    return [str(body["lineage"]), *map(str, body["absorbed"])]
