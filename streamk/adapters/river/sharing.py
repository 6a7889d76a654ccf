"""Objects of River that threads may share."""

from __future__ import annotations

import copy
from typing import Any, Self

from river import base

from streamk.learners.common.predictor import Turns

__all__ = ["InTurns"]


class InTurns(base.Base):
    """An object that is asked or taught by one thread at a time, which holds `_turns.lock`.

    Copies and pickles are of all that it has between two events.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns = Turns()

    def __getstate__(self) -> dict[str, Any]:
        with self._turns.lock:
            return copy.deepcopy(self.__dict__)

    def clone(self, *arguments: Any, **options: Any) -> Self:
        """Return a new one, of new models, see River's `clone`."""
        with self._turns.lock:
            return super().clone(*arguments, **options)
