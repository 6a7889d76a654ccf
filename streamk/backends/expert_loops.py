"""The compiled loops of a pool of experts, by the names of their modules.

numba alone has them; a module is imported, and with it numba, when its name is first used:
``expert_loops.event.forecast_one``.
"""

from __future__ import annotations

import importlib
from typing import Any

from streamk.errors import BackendUnavailable

_MODULES = {
    "ahead": "ahead",
    "event": "event",
    "grids": "banks.grids",
    "reviews": "reviews",
    "slot": "layout.slot",
    "spread": "mixing.spread",
}


def __getattr__(name: str) -> Any:
    """Return a module of loops.

    Raises
    ------
    BackendUnavailable
        If numba is not installed.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = importlib.import_module(f"streamk.backends.numba_backend.experts.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        raise BackendUnavailable(
            f"a pool of experts needs numba, which is missing here ({error}): pip install numba"
        ) from error
    globals()[name] = found
    return found
