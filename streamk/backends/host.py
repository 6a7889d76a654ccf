"""Arrays of the backends that work on the host: NumPy's, where they are."""

from __future__ import annotations

from typing import Any

import numpy as xp

__all__ = ["get", "put", "xp"]


def put(array: Any) -> Any:
    """Return a host array on the backend's device."""
    return array


def get(array: Any) -> Any:
    """Return an array of the backend's device on the host."""
    return array
