"""A change of the champion in the checkpoints of a job that is not running."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from streamk.contest import Contest
from streamk.engine.checkpoints.files import holder, lock
from streamk.engine.checkpoints.manifests import MEMBER, Key
from streamk.engine.checkpoints.opening import open_store
from streamk.engine.checkpoints.places import Location
from streamk.engine.checkpoints.reading import Checkpoint
from streamk.engine.checkpoints.store import Store
from streamk.errors import EngineError, InvalidInput

__all__ = ["change_champion"]

_KEEP = 3
"""Checkpoints that stay: the two of before, and the one that is written."""


def change_champion(
    directory: Location, change: Callable[[Contest], None], key: Key | None = None
) -> list[tuple[Location, Contest]]:
    """Change the champion of a job; the next start goes on with it at the same event.

    Of each member of a consumer group one more checkpoint is written, which is the newest one but
    for the champion. In an object store a job that is running is ended by that.

    Parameters
    ----------
    directory : Location
        The one given to the engine.
    change : function of a Contest
        Changes its champion.
    key : Key, optional
        What checkpoints are signed with.

    Returns
    -------
    list of (Location, Contest)
        Where the checkpoints lie, and what they hold.

    Raises
    ------
    InvalidInput
        If there is no checkpoint, one has no challengers, or `change` raises it. Nothing is written
        then.
    EngineError
        If the job is running, was killed and has to be started once more first, or a checkpoint
        cannot be written.
    StateError
        If a checkpoint is damaged, or not signed with the key.
    OSError
        If an object store is away.
    """
    with ExitStack() as stack:
        changed: list[tuple[Store, Checkpoint, Contest]] = []
        for store in _stores(directory, key, stack):
            found = _found(store)
            if found is not None:
                changed.append((store, found, _contest(found)))
        if not changed:
            raise InvalidInput(
                f"{directory} holds no checkpoint; give the directory of `streamk run --checkpoint`"
            )
        for _, _, contest in changed:
            change(contest)
        written = []
        for store, found, contest in changed:
            epoch = store.save(found.body, contest.state(), found.held)
            written.append((store.path / f"{epoch:08d}", contest))
        return written


def _stores(directory: Location, key: Key | None, stack: ExitStack) -> list[Store]:
    """Return the stores of all members, which are held. Raises `EngineError` if one is in use."""
    members: list[Path] = []
    if isinstance(directory, Path):
        members = [path for path in directory.iterdir() if MEMBER.fullmatch(path.name)]
        for path in members:
            held = lock(path)
            if held is None:
                raise EngineError(f"{path} is in use by {holder(path)}; stop the job first")
            os.close(held)
    stores = []
    for _ in range(max(1, len(members))):
        store = open_store(directory, alone=len(members) < 2, key=key)
        store.keep = _KEEP
        stack.callback(store.close)
        stores.append(store)
    return stores


def _found(store: Store) -> Checkpoint | None:
    """Return the newest checkpoint, which nobody else goes on from now."""
    found = store.find()
    while found is not None and not store.own():
        found = store.find()
    if found is not None and store.noted():
        raise EngineError(
            f"{store.path}: the job was ended after {found.path.name} was written, and has to be"
            " started and stopped once more before its champion can be changed"
        )
    return found


def _contest(found: Checkpoint) -> Contest:
    if found.model.type != Contest.TYPE:
        raise InvalidInput(
            f"{found.path} has no challengers; they begin with `streamk run --challenger`"
        )
    return Contest.from_state(found.model)
