"""The store of a place: of a directory, or of an address in an object store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.files import MANIFEST, Key, key_of
from streamk.engine.checkpoints.places import Location, Remote, location
from streamk.engine.checkpoints.store import Store
from streamk.errors import InvalidInput
from streamk.options import Checked, Real, Whole

Place = str | os.PathLike[str] | Remote


def open_store(directory: Location, *, alone: bool, key: Key | None) -> Store:
    """Return the store of the job, which is `alone` if of a single process, or of one member.

    Raises
    ------
    InvalidInput
        If several members would share an object store.
    EngineError
        If the directory cannot be made or written, or is in use.
    """
    if isinstance(directory, Path):
        return DirectoryStore(directory, alone=alone, key=key)
    if not alone:
        raise InvalidInput(
            f"{directory} is an object store, which only one process can use: members of a "
            "consumer group could not see each other there. Leave out ?group=, or give a directory"
        )
    store: Store = directory.store(key)
    return store


def marker(directory: Location) -> object:
    """Return a value that changes once a job, or a place inside it, has a newer checkpoint.

    Of an object store one small object is read, of a directory the names in it. Raises `OSError` if
    an object store is away.
    """
    if not isinstance(directory, Path):
        return directory.marker()
    depth = (f"*/*/{MANIFEST}", f"*/{MANIFEST}", MANIFEST)
    return sorted(str(path) for names in depth for path in directory.glob(names))


@dataclass(frozen=True)
class Checkpoints(Checked):
    """Places and times at which model and position are saved, and the start of a run.

    Parameters
    ----------
    place : path or str, optional
        Directory of checkpoints, made if need be, or an address in an object store,
        ``s3://bucket/job``, for jobs of one process. Without one nothing is saved.
    every : int, default 100000
        Checkpoints are written after so many events of the sequence, twice as many and so on.
    grace : int, default 1000000
        Where a checkpoint cannot be written, it is tried again each second while the run goes on,
        until so many events have come since the last one; 0 ends the run at once.
    transactions : float, optional
        Predictions, dead letters, alarms and, of a consumer group, the offsets are written in one
        transaction for each checkpoint, which is then also written where one is so many seconds
        old, between 0.1 and 60. For sinks of Kafka.
    start_from : path or str, optional
        Directory or address of another job's checkpoints. A job that has no checkpoint of its own
        begins with the newest model there, its columns and its labels, and with nothing else of it;
        the model and the options of the stream must be those of that job, `encoding` apart.
    state_key : path, optional
        File with a key of 32 bytes or more. Checkpoints are signed with it (HMAC-SHA256), and what
        is not signed with it is refused: the checkpoint to go on from, that of `start_from`, and
        those of other members.
    """

    place: Place | None = None
    every: Annotated[int, Whole()] = 100_000
    grace: Annotated[int, Whole(least=0)] = 1_000_000
    transactions: Annotated[float | None, Real(least=0.1, most=60.0, optional=True)] = None
    start_from: Place | None = None
    state_key: str | os.PathLike[str] | Key | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInput` if an option is out of its domain, or there is no place for it."""
        super().__post_init__()
        if self.state_key is not None and self.location is None and self.start_location is None:
            raise InvalidInput("state_key= needs a place for checkpoints or start_from=")
        if self.transactions is not None and self.place is None:
            raise InvalidInput(
                "transactions= needs a place for checkpoints: one is committed with each checkpoint"
            )
        _ = self.key, self.location, self.start_location

    @cached_property
    def location(self) -> Location | None:
        """The place."""
        return None if self.place is None else location(self.place)

    @cached_property
    def start_location(self) -> Location | None:
        """The place of the other job."""
        return None if self.start_from is None else location(self.start_from)

    @cached_property
    def key(self) -> Key | None:
        """The key in the file."""
        return key_of(self.state_key)

    def open(self, *, alone: bool) -> Store | None:
        """Return the store of the job, see `open_store`; None without a place."""
        return (
            None if self.location is None else open_store(self.location, alone=alone, key=self.key)
        )
