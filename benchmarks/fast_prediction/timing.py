"""Time of a prediction: of one event at a time, and of an event among 10,000."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LANES, filled
from streamk.backends.numba_backend.compiling import compiling
from streamk.backends.numba_backend.simd import rows_16

MANY, ROUNDS, CALLS = 10_000, 7, 2_000
SLOW = 1.0
"""Seconds for the many rows from which on one round is enough."""
Predict = Callable[[NDArray[Any]], Any]

_compiled = compiling(fastmath={"contract"})


@_compiled
def _products(X: Any, W: Any, z: Any, out: Any) -> None:
    """Write the products of events (n, d) with a linear model, its bias in the last row of W."""
    wide = W.shape[1]
    for i in range(len(X)):
        for j in range(len(z)):
            z[j] = X[i, j]
        rows_16.affine(z, W, 0, len(z) * wide, out, i * wide, len(z), wide // LANES)


@_compiled
def _product(X: Any, w: Any, bias: Any, z: Any, out: Any) -> None:
    """The same of one output: w has one row, filled up as z is."""
    for i in range(len(X)):
        for j in range(X.shape[1]):
            z[j] = X[i, j]
        out[i, 0] = bias + rows_16.dot(z, w, 0, len(z) // LANES)


def linear(coefficients: NDArray[Any], bias: NDArray[Any]) -> Predict:
    """A linear model (outputs, d) in one fused loop, in single precision, as ours are."""
    outputs, d = coefficients.shape
    if outputs == 1:
        w = np.zeros((1, filled(d)), np.float32)
        w[0, :d] = coefficients[0]
        z, start = np.zeros(w.shape[1], np.float32), np.float32(bias[0])

        def predict(X: NDArray[Any]) -> NDArray[Any]:
            out = np.empty((len(X), 1), np.float32)
            _product(X, w, start, z, out)
            return out

        return predict
    W = np.zeros((d + 1, filled(outputs)), np.float32)
    W[:d, :outputs], W[d, :outputs] = coefficients.T, bias
    room = np.zeros(d, np.float32)

    def predict_all(X: NDArray[Any]) -> NDArray[Any]:
        out = np.empty((len(X), W.shape[1]), np.float32)
        _products(X, W, room, out)
        return out

    return predict_all


def times(models: Mapping[str, Predict], X: NDArray[Any]) -> dict[str, dict[str, float]]:
    """Microseconds for an event, of each model in turn.

    "many" is that among 10,000 rows, the least of some rounds; "one" and "p99" those of calls with
    one row, the median and the 99th percentile.
    """
    many = X[np.arange(MANY) % len(X)]
    rows = [X[i : i + 1].copy() for i in range(min(64, len(X)))]
    found = {name: {"many": np.inf, "one": 0.0, "p99": 0.0} for name in models}
    for predict in models.values():
        predict(many[:300])
        predict(rows[0])
    slow = 1e6 * SLOW / MANY
    for _ in range(ROUNDS):
        for name, predict in models.items():
            if slow < found[name]["many"] < np.inf:
                continue
            began = time.perf_counter()
            predict(many)
            each = 1e6 * (time.perf_counter() - began) / MANY
            found[name]["many"] = min(found[name]["many"], each)
    for name, predict in models.items():
        calls, budget = [], time.perf_counter() + 2.0
        while len(calls) < CALLS and (time.perf_counter() < budget or len(calls) < 50):
            row = rows[len(calls) % len(rows)]
            began = time.perf_counter_ns()
            predict(row)
            calls.append(time.perf_counter_ns() - began)
        found[name]["one"] = float(np.median(calls)) / 1e3
        found[name]["p99"] = float(np.quantile(calls, 0.99)) / 1e3
    return found
