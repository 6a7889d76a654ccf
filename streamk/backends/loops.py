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
        entities,
        gradients,
        landmarks,
        learning,
        leaves,
        local_kernels,
        scaling,
        tangent,
        two_sample,
    )
    from streamk.backends.numba_backend.experts import (
        ahead,
        binning,
        event,
        mixture,
        reviews,
        slot,
        spread,
    )

__all__ = [
    "ahead",
    "binning",
    "blocks",
    "centers",
    "cholesky",
    "coordinates",
    "entities",
    "event",
    "gradients",
    "landmarks",
    "learning",
    "leaves",
    "local_kernels",
    "mixture",
    "reviews",
    "scaling",
    "slot",
    "spread",
    "tangent",
    "two_sample",
]

_OF_EXPERTS = ("ahead", "binning", "event", "mixture", "reviews", "slot", "spread")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Return a module of loops."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        place = f"experts.{name}" if name in _OF_EXPERTS else name
        found = globals()[name] = importlib.import_module(f"streamk.backends.numba_backend.{place}")
        return found
