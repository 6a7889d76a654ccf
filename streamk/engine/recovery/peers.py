"""The other members of a group, by their checkpoints."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamk.engine.checkpoints.keys import Untrusted
from streamk.engine.checkpoints.locks import lock
from streamk.engine.checkpoints.object_path import Location
from streamk.engine.checkpoints.reading import Checkpoint, newest_checkpoint
from streamk.engine.checkpoints.store import Store
from streamk.errors import StateError

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
                _log.warning("passing over %s: %s", path.name, error)
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


def lineages(body: Mapping[str, Any]) -> list[str]:
    """Return the lineages that are in the model of a checkpoint: its own and those it absorbed."""
    return [str(body["lineage"]), *map(str, body["absorbed"])]
