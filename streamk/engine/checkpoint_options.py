"""The options of an engine about its checkpoints: where they are, and how often they come."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self

from streamk.engine.checkpoints.keys import Key, key_of
from streamk.engine.checkpoints.object_path import Location, ObjectPath, location
from streamk.engine.checkpoints.opening import open_store
from streamk.engine.checkpoints.store import Store
from streamk.errors import InvalidInput

__all__ = ["CheckpointOptions"]

Place = str | os.PathLike[str] | ObjectPath


@dataclass(frozen=True)
class CheckpointOptions:
    """See `streamk.engine.Engine`; `seconds` is its `transactions`."""

    place: Location | None
    start_from: Location | None
    key: Key | None
    every: int
    grace: int
    seconds: float | None

    @classmethod
    def of(
        cls,
        place: Place | None,
        start_from: Place | None,
        state_key: str | os.PathLike[str] | None,
        *,
        every: int,
        grace: int,
        seconds: float | None,
    ) -> Self:
        """Return the options for places as they are named and the file of a key.

        Raises
        ------
        InvalidInput
            If a place or the key cannot be one, or nothing is there for the key to sign.
        """
        own = None if place is None else location(place)
        others = None if start_from is None else location(start_from)
        found = cls(own, others, key_of(state_key), every, grace, seconds)
        if state_key is not None and place is None and start_from is None:
            raise InvalidInput("state_key= needs checkpoint= or start_from=")
        return found

    def open(self, *, alone: bool) -> Store | None:
        """Return the store of the job, see `open_store`; None without checkpoints."""
        if self.place is None:
            return None
        return open_store(self.place, alone=alone, key=self.key)
