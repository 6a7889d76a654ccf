"""The compiled backend for the host; see `streamk.backends` for its functions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as xp

from streamk.backends.numba_backend.generator import frequencies, orthogonal, rotations, sketches
from streamk.backends.numba_backend.landmarks import choose, extend
from streamk.backends.numba_backend.learning import decay, descend, finish, loss_gradient, score
from streamk.backends.numba_backend.pairwise import pairwise, pairwise_product
from streamk.backends.numba_backend.projection import (
    accumulate,
    features,
    gradient,
    predict,
    step,
)
from streamk.backends.numba_backend.scaling import measure, rescale, rescale_each, spread
from streamk.backends.numba_backend.single import single

__all__ = [
    "accumulate",
    "choose",
    "current",
    "decay",
    "descend",
    "extend",
    "features",
    "fetch",
    "finish",
    "frequencies",
    "get",
    "gradient",
    "loss_gradient",
    "measure",
    "orthogonal",
    "pairwise",
    "pairwise_product",
    "predict",
    "put",
    "rescale",
    "rescale_each",
    "rotations",
    "score",
    "single",
    "sketches",
    "spread",
    "step",
    "xp",
]


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
