"""Features of Walsh-Hadamard transforms, over events and chunks."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import CHUNK, LANES, ROUNDS
from streamk.backends.numba_backend.compiling import compiled
from streamk.backends.numba_backend.hadamard_tile import (
    ITEMS,
    ROWS,
    hand_tile,
    items_tile,
    phases_tile,
    row_tile,
    rows_tile,
)

_FEW = LANES // ROWS
_PARTS = CHUNK // _FEW
"""Vectors of a chunk where `ROWS` rows share one, `_FEW` numbers of each."""


@compiled
def _interleave(X: Any, out: Any) -> None:
    """Lay rows out for `ROWS` to share a vector: `_FEW` numbers of each in turn, 0 at the end."""
    d = X.shape[1]
    full = d // _FEW
    for q in range(out.shape[0]):
        for part in range(full):
            for r in range(ROWS):
                for i in range(_FEW):
                    out[q, part, r * _FEW + i] = X[q * ROWS + r, part * _FEW + i]
        out[q, full:] = 0.0
        for r in range(ROWS):
            for j in range(full * _FEW, d):
                out[q, full, r * _FEW + j - full * _FEW] = X[q * ROWS + r, j]


@compiled
def _repeat_signs(signs: Any, out: Any) -> None:
    """Write a transform's signs so that each vector finds those of all rows that share it."""
    few, mask = np.uint64(_FEW), np.uint64((1 << _FEW) - 1)
    for c in range(out.shape[0]):
        for round_ in range(ROUNDS):
            for part in range(_PARTS):
                one = (signs[c, 0, round_] >> (few * np.uint64(part))) & mask
                bits = one
                for r in range(1, ROWS):
                    bits |= one << (few * np.uint64(r))
                out[c, round_, part] = bits


@compiled
def _exchange(acc: Any, sums: Any, back: Any) -> None:
    """Copy the rows' sums to where rows share a vector, or back."""
    for q in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            for r in range(ROWS):
                for i in range(LANES):
                    part, lane = i // _FEW, r * _FEW + i % _FEW
                    if back:
                        acc[q * ROWS + r, k, i] = sums[q, k, part, lane]
                    else:
                        sums[q, k, part, lane] = acc[q * ROWS + r, k, i]


@compiled
def _evaluate_quads(
    quads: Any, n: Any, d: Any, strides: Any, signs: Any, radii: Any, b: Any, A: Any, sums: Any,
    phi: Any, first: Any, stop: Any, outputs: Any, minus: Any,
) -> None:  # fmt: skip
    """Evaluate rows laid out by `_interleave`; `sums` is laid out like them."""
    step = 2 ** len(strides)
    masks = np.empty((step, ROUNDS, _PARTS), np.uint16)
    size = step * CHUNK * ROWS
    for c in range(first, stop, step):
        _repeat_signs(signs[c : c + step], masks)
        for q in range(quads.shape[0]):
            rows_tile(
                quads, masks, radii, b, A, sums, phi,
                q * size, 0, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
                q * outputs * ROWS * LANES, ((c - first) * n + q * ROWS) * CHUNK,
                d, outputs, 1, CHUNK, n * CHUNK, strides, minus,
            )  # fmt: skip


@compiled
def _evaluate_batch(
    X: Any, strides: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, first: Any,
    stop: Any, outputs: Any, minus: Any,
) -> None:  # fmt: skip
    """Evaluate the rows that share vectors."""
    n, d = X.shape
    quads = np.empty((n // ROWS, 2 ** len(strides) * _PARTS, LANES), X.dtype)
    _interleave(X, quads)
    if acc is None:
        _evaluate_quads(
            quads, n, d, strides, signs, radii, b, A, None, phi, first, stop, outputs, minus
        )
    else:
        sums = np.empty((n // ROWS, outputs, ROWS, LANES), radii.dtype)
        _exchange(acc, sums, False)
        _evaluate_quads(
            quads, n, d, strides, signs, radii, b, A, sums, phi, first, stop, outputs, minus
        )
        _exchange(acc, sums, True)


@compiled
def evaluate_hadamard(
    X: Any, strides: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, first: Any,
    stop: Any, outputs: Any, minus: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`, one group; see `projection.evaluate`."""
    n, d, step = X.shape[0], X.shape[1], 2 ** len(strides)
    whole = n - n % ROWS
    if whole:
        _evaluate_batch(X, strides, signs, radii, b, A, acc, phi, first, stop, outputs, minus)
    for r in range(whole, n):
        c = first
        if step == 1:
            while c + ITEMS <= stop:
                items_tile(
                    X, signs, radii, b, A, acc, phi,
                    r * d, c * ROUNDS, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
                    r * outputs * LANES, ((c - first) * n + r) * CHUNK,
                    d, outputs, 1, CHUNK, n * CHUNK, strides, minus,
                )  # fmt: skip
                c += ITEMS
        while c < stop:
            row_tile(
                X, signs, radii, b, A, acc, phi,
                r * d, c * ROUNDS, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
                r * outputs * LANES, ((c - first) * n + r) * CHUNK,
                d, outputs, 1, CHUNK, n * CHUNK, strides, minus,
            )  # fmt: skip
            c += step


@compiled
def _hand_on(
    width: Any, X: Any, signs: Any, radii: Any, room: Any, x: Any, s: Any, at: Any, there: Any,
    groups: Any, minus: Any,
) -> None:  # fmt: skip
    """Add a transform of one group's columns to the phases in `room`."""
    one, two, four, eight = CHUNK, 2 * CHUNK, 4 * CHUNK, 8 * CHUNK
    places = (x, s * ROUNDS, s * CHUNK, at, 0, 0, at, there, 0, groups, 0, CHUNK)
    if width == CHUNK:
        hand_tile(X, signs, radii, room, None, None, room, *places, (), minus)
    elif width == two:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one,), minus)
    elif width == four:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one, two), minus)
    elif width == eight:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one, two, four), minus)
    else:
        strides = (one, two, four, eight)
        hand_tile(X, signs, radii, room, None, None, room, *places, strides, minus)


@compiled
def evaluate_groups(
    X: Any, widths: Any, signs: Any, radii: Any, b: Any, room: Any, A: Any, acc: Any, phi: Any,
    first: Any, stop: Any, outputs: Any, minus: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`, several groups; see `projection.evaluate`.

    The phases of a row's chunks, as many as the widest group's transform gives, wait in `room` for
    all groups.
    """
    n, d, groups = X.shape[0], X.shape[1], widths.shape[0]
    period = widths.max() // CHUNK
    for c in range(first, stop, period):
        for r in range(n):
            for i in range(period * CHUNK):
                room[i] = 0.0 if minus is None else b[c + i // CHUNK, i % CHUNK]
            column = 0
            for g in range(groups):
                width = widths[g]
                for k in range(0, period, width // CHUNK):
                    _hand_on(
                        width, X, signs, radii, room, r * d + column, (c + k) * groups + g,
                        k * CHUNK, d - column, groups, minus,
                    )  # fmt: skip
                column += width
            for k in range(period):
                phases_tile(
                    X, signs, radii, room, A, acc, phi,
                    0, 0, 0, k * CHUNK, (c + k) * outputs * CHUNK, r * outputs * LANES,
                    ((c + k - first) * n + r) * CHUNK,
                    0, outputs, groups, CHUNK, n * CHUNK, (), minus,
                )  # fmt: skip
