"""Models in the checkpoints of a job that is stopped, changed where they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from streamk.engine.checkpoints.files import MEMBER, Key, holder, lock
from streamk.engine.checkpoints.opening import open_store
from streamk.engine.checkpoints.places import Location
from streamk.engine.checkpoints.reading import Checkpoint
from streamk.engine.checkpoints.store import Store
from streamk.errors import EngineError, InvalidInput
from streamk.state import State

KEEP = 3
"""Checkpoints that stay: the two of before, and the one that is written."""


def change_models(
    directory: Location,
    change: Callable[[Sequence[Checkpoint]], Sequence[State]],
    key: Key | None = None,
    *,
    keep: int = KEEP,
) -> list[Location]:
    """Change the model of a job; the next start goes on with it at the same event.

    Of each member of a consumer group one more checkpoint is written, which is the newest one but
    for the model: `change` returns those of all. So many of each stay. In an object store a job
    that is running is ended by that. Returns where the checkpoints lie.

    Raises
    ------
    InvalidInput
        If there is no checkpoint, or `change` raises it. Nothing is written then.
    EngineError
        If the job is running, was killed and has to be started once more first, or a checkpoint
        cannot be written.
    StateError
        If a checkpoint is damaged, or not signed with the key.
    OSError
        If an object store is away.
    """
    with ExitStack() as stack:
        is_file = isinstance(directory, Path) and directory.is_file()
        stores = [] if is_file else _stores(directory, key, stack)
        found = [(store, one) for store in stores if (one := _found(store)) is not None]
        if not found:
            raise InvalidInput(
                f"{directory} holds no checkpoint; give the directory of `streamk run --checkpoint`"
            )
        models, written = change([one for _, one in found]), []
        for (store, one), model in zip(found, models, strict=True):
            store.keep = keep
            epoch = store.save(one.body, model, one.held)
            written.append(store.path / f"{epoch:08d}")
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
        stack.callback(store.close)
        stores.append(store)
    return stores


def _found(store: Store) -> Checkpoint | None:
    """Return the newest checkpoint, which nobody else goes on from now."""
    found = store.find()
    while found is not None and not store.own():
        found = store.find()
    if found is not None and store.read_passes():
        raise EngineError(
            f"{store.path}: the job was killed after it wrote {found.path.name}; start and stop "
            "it once more, then change its model"
        )
    return found
