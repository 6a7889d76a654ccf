"""Newer models in the place of older ones, whatever becomes of the place that they come from."""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamk.errors import StreamkError

__all__ = ["Following"]

_log = logging.getLogger("streamk.serving")


class Following:
    """Looks for newer models; where that fails the model stays as it is, and a warning says so.

    Parameters
    ----------
    refresh : function
        Goes on with the newest model, and returns whether it is another one than before.
    failed : function, optional
        Is called each time that fails.
    """

    def __init__(
        self, refresh: Callable[[], bool], failed: Callable[[], None] = lambda: None
    ) -> None:
        self._refresh, self._failed = refresh, failed
        self._told = ""

    def look(self) -> bool:
        """Go on with the newest model; return whether it is another one than before."""
        try:
            found = self._refresh()
        except (StreamkError, OSError) as error:
            self._failed()
            if str(error) != self._told:
                self._told = str(error)
                _log.warning("no newer model, the one before stays: %s", error)
            return False
        if self._told:
            self._told = ""
            _log.warning("newer models can be read again")
        return found
