"""The compiled loops of a pool of experts, by the names of their modules.

numba alone has them; a module is imported, and with it numba, when its name is first used:
``expert_loops.event.forecast_one``.
"""

from __future__ import annotations

from typing import Any

from streamk import backends

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
    found = backends.of_numba(f"experts.{_MODULES[name]}", "a pool of experts")
    globals()[name] = found
    return found
