"""Arrays of the backends that work on the host: NumPy's, where they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as xp

__all__ = ["current", "fetch", "get", "put", "xp"]


def put(array: Any) -> Any:
    """Return a host array on the backend's device."""
    return array


def get(array: Any) -> Any:
    """Return an array of the backend's device on the host."""
    return array


def fetch(array: Any) -> Callable[[], Any]:
    """Return a function that gives an array of the backend's device on the host."""
    return lambda: array


def current() -> AbstractContextManager[Any]:
    """Return the context in which `xp` makes arrays on the backend's device."""
    return nullcontext()
