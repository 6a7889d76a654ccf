"""Features of Walsh-Hadamard transforms, over events and chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from streamk.backends import CHUNK, LANES, ROUNDS
from streamk.backends.numba_backend.compiling import compiled, overload, part
from streamk.backends.numba_backend.features.hadamard_tile import (
    PARTS,
    SIDE,
    chunks_tile,
    hand_tile,
    join_signs,
    lay_side_by_side,
    one_tile,
    phases_tile,
    rows_tile,
)

_PIECE = 256
"""Rows that are laid out side by side at a time."""
MASKS = ROUNDS * PARTS // SIDE
"""Masks of signs that a chunk asks for where transforms go side by side."""
STRIDES = {CHUNK << k: tuple(CHUNK << i for i in range(k)) for k in range(5)}
"""Of each width of a transform, how far apart the pairs of its stages between chunks are."""


@part
def _interleave(X: Any, first: Any, out: Any) -> None:
    """Lay rows from `first` on out side by side: `FEW` numbers of each in turn, 0 at the end."""
    d, size = X.shape[1], out.shape[1] * LANES
    for q in range(out.shape[0]):
        for j in range(0, size // SIDE, LANES):
            at = (first + q * SIDE) * d + j
            lay_side_by_side(X, at, d - j, d, out, q * size + j * SIDE)


@part
def _join(signs: Any, c: Any, step: Any, apart: Any, masks: Any) -> None:
    """Lay out the signs of `SIDE` transforms of `step` chunks that begin `apart` chunks apart."""
    for i in range(step):
        for round_ in range(ROUNDS):
            word, on = (c + i) * ROUNDS + round_, apart * ROUNDS
            at = (i * ROUNDS + round_) * PARTS
            join_signs(signs, word, word + on, word + 2 * on, word + 3 * on, masks, at)


@part
def _evaluate_rows(
    X: Any, strides: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, first: Any,
    stop: Any, outputs: Any, curve: Any,
) -> None:  # fmt: skip
    """Evaluate the rows that go side by side, as many at a time as the second cache holds."""
    n, d, step = X.shape[0], X.shape[1], 2 ** len(strides)
    whole, size = n - n % SIDE, step * CHUNK * SIDE
    quads = np.empty((min(whole, _PIECE) // SIDE, step * PARTS, LANES), X.dtype)
    masks = np.empty(step * ROUNDS * PARTS, np.uint16)
    for begin in range(0, whole, _PIECE):
        count = min(_PIECE, whole - begin) // SIDE
        _interleave(X, begin, quads[:count])
        for c in range(first, stop, step):
            _join(signs, c, step, 0, masks)
            for q in range(count):
                r = begin + q * SIDE
                rows_tile(
                    quads, masks, radii, b, A, acc, phi,
                    q * size, 0, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
                    r * outputs * LANES, ((c - first) * n + r) * CHUNK,
                    d, outputs, 1, n * CHUNK, 0, outputs * LANES, CHUNK, strides, curve,
                )  # fmt: skip


@compiled
def join_all(signs: Any, step: Any, masks: Any) -> None:
    """Lay out the signs of all transforms that go side by side with their neighbours."""
    size = SIDE * step
    for c in range(0, signs.shape[0] - size + 1, size):
        _join(signs, c, step, step, masks[c * MASKS :])


@part
def evaluate_row(
    X: Any, r: Any, strides: Any, signs: Any, masks: Any, radii: Any, b: Any, x: Any, A: Any,
    acc: Any, phi: Any, first: Any, stop: Any, outputs: Any, curve: Any,
) -> None:  # fmt: skip
    """Evaluate one row, transforms going side by side from `first` on.

    `masks` are the signs from there on as `join_all` lays them out; `x` is room for the numbers
    that are transformed.
    """
    n, d, step = X.shape[0], X.shape[1], 2 ** len(strides)
    for j in range(d):
        x[j] = X[r, j]
    for j in range(d, step * CHUNK):
        x[j] = 0.0
    c = first
    while c + SIDE * step <= stop:
        chunks_tile(
            x, masks, radii, b, A, acc, phi,
            0, (c - first) * MASKS, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
            r * outputs * LANES, ((c - first) * n + r) * CHUNK,
            d, outputs, 1, n * CHUNK, step, 0, step * n * CHUNK, strides, curve,
        )  # fmt: skip
        c += SIDE * step
    while c < stop:
        one_tile(
            x, signs, radii, b, A, acc, phi,
            0, c * ROUNDS, c * CHUNK, c * CHUNK, c * outputs * CHUNK,
            r * outputs * LANES, ((c - first) * n + r) * CHUNK,
            d, outputs, 1, n * CHUNK, 0, 0, 0, strides, curve,
        )  # fmt: skip
        c += step


@part
def evaluate_hadamard(
    X: Any, strides: Any, signs: Any, radii: Any, b: Any, A: Any, acc: Any, phi: Any, first: Any,
    stop: Any, outputs: Any, curve: Any,
) -> None:  # fmt: skip
    """Evaluate the chunks from `first` to `stop`, one group; see `projection.evaluate`."""
    n, step = X.shape[0], 2 ** len(strides)
    whole = n - n % SIDE
    if whole:
        _evaluate_rows(X, strides, signs, radii, b, A, acc, phi, first, stop, outputs, curve)
    if whole < n:
        x, masks = np.empty(step * CHUNK, X.dtype), np.empty((stop - first) * MASKS, np.uint16)
        join_all(signs[first:stop], step, masks)
        for r in range(whole, n):
            evaluate_row(
                X, r, strides, signs, masks, radii, b, x, A, acc, phi, first, stop, outputs, curve
            )


@part
def _hand_on(
    width: Any, X: Any, signs: Any, radii: Any, room: Any, x: Any, s: Any, at: Any, there: Any,
    groups: Any, curve: Any,
) -> None:  # fmt: skip
    """Add a transform of one group's columns to the phases in `room`."""
    one, two, four, eight = CHUNK, 2 * CHUNK, 4 * CHUNK, 8 * CHUNK
    places = (x, s * ROUNDS, s * CHUNK, at, 0, 0, at, there, 0, groups, CHUNK, 0, 0, 0)
    if width == CHUNK:
        hand_tile(X, signs, radii, room, None, None, room, *places, (), curve)
    elif width == two:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one,), curve)
    elif width == four:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one, two), curve)
    elif width == eight:
        hand_tile(X, signs, radii, room, None, None, room, *places, (one, two, four), curve)
    else:
        strides = (one, two, four, eight)
        hand_tile(X, signs, radii, room, None, None, room, *places, strides, curve)


def _begun(b: Any, c: Any, i: Any, curve: Any) -> Any:
    """Return the phase at x = 0 of feature i from chunk c on: 0 where the curve is no wave."""
    raise NotImplementedError("only compiled")


@overload(_begun)
def _compiled_begun(b: Any, c: Any, i: Any, curve: Any) -> Any:
    def random(b: Any, c: Any, i: Any, curve: Any) -> Any:
        return b[c + i // CHUNK, i % CHUNK]

    def zero(b: Any, c: Any, i: Any, curve: Any) -> Any:
        return 0.0

    return random if isinstance(curve, types.Float) else zero


@part
def evaluate_groups(
    X: Any, widths: Any, signs: Any, radii: Any, b: Any, room: Any, A: Any, acc: Any, phi: Any,
    first: Any, stop: Any, outputs: Any, curve: Any,
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
                room[i] = _begun(b, c, i, curve)
            column = 0
            for g in range(groups):
                width = widths[g]
                for k in range(0, period, width // CHUNK):
                    _hand_on(
                        width, X, signs, radii, room, r * d + column, (c + k) * groups + g,
                        k * CHUNK, d - column, groups, curve,
                    )  # fmt: skip
                column += width
            for k in range(period):
                phases_tile(
                    X, signs, radii, room, A, acc, phi,
                    0, 0, 0, k * CHUNK, (c + k) * outputs * CHUNK, r * outputs * LANES,
                    ((c + k - first) * n + r) * CHUNK,
                    0, outputs, groups, n * CHUNK, 0, 0, 0, (), curve,
                )  # fmt: skip
