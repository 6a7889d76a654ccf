"""The compiled loops that only the host has, by the names of their modules.

A module is imported, and with it numba, when its name is first used: ``loops.event.forecast_one``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamk.backends.numba_backend import (
        blocks,
        centers,
        cholesky,
        coordinates,
        event_points,
        incremental,
        local_kernels,
        margins,
        tangent,
        two_sample,
    )
    from streamk.backends.numba_backend.experts import ahead, event, reviews, slot
    from streamk.backends.numba_backend.experts.banks import grids
    from streamk.backends.numba_backend.experts.mixing import mixture, spread

__all__ = [
    "ahead",
    "blocks",
    "centers",
    "cholesky",
    "coordinates",
    "event",
    "event_points",
    "grids",
    "incremental",
    "local_kernels",
    "margins",
    "mixture",
    "reviews",
    "slot",
    "spread",
    "tangent",
    "two_sample",
]

_OF_EXPERTS = {
    "ahead": "experts.ahead",
    "event": "experts.event",
    "grids": "experts.banks.grids",
    "mixture": "experts.mixing.mixture",
    "reviews": "experts.reviews",
    "slot": "experts.slot",
    "spread": "experts.mixing.spread",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a module of loops."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        place = _OF_EXPERTS.get(name, name)
        found = globals()[name] = importlib.import_module(f"streamk.backends.numba_backend.{place}")
        return found
