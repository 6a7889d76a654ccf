"""Arrays and numbers by their places in the table of a pool."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.numpy_support import carray

from streamk.backends.numba_backend.addresses import pointer
from streamk.backends.numba_backend.experts import costs
from streamk.backends.numba_backend.experts import places as at
from streamk.backends.numba_backend.experts.compiled import fast


@fast
def single(table: Any, place: Any, shape: Any) -> Any:
    """Return an array of float32."""
    return carray(pointer(table[place], np.float32(0.0)), shape)


@fast
def double(table: Any, place: Any, shape: Any) -> Any:
    """Return an array of float64."""
    return carray(pointer(table[place], np.float64(0.0)), shape)


@fast
def whole(table: Any, place: Any, shape: Any) -> Any:
    """Return an array of int64."""
    return carray(pointer(table[place], np.int64(0)), shape)


@fast
def short(table: Any, place: Any, shape: Any) -> Any:
    """Return an array of int32."""
    return carray(pointer(table[place], np.int32(0)), shape)


@fast
def flags(table: Any, place: Any, shape: Any) -> Any:
    """Return an array of bool."""
    return carray(pointer(table[place], np.bool_(False)), shape)


@fast
def loss_of(table: Any) -> Any:
    """Return how errors of numbers count, see `costs`."""
    return table[at.LOSS], double(table, at.LOSS_PARAMETER, (1,))[0]


@fast
def tracked(table: Any) -> Any:
    """Return the offsets of quantiles and the mean errors."""
    return double(table, at.TRACKED, (2, table[at.EXPERTS] + 1))


@fast
def size(table: Any) -> Any:
    """Return the mean error of the mixture, by which steps on a quantile are measured."""
    if table[at.LOSS] == costs.QUANTILE:
        return tracked(table)[1, table[at.EXPERTS]]
    return 1.0
