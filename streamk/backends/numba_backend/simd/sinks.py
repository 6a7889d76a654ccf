"""Destinations of a tile's features: they are kept, or added up with coefficients, or both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamk.backends import CHUNK, LANES
from streamk.backends.numba_backend.simd.vectors import Emitter


class Sink:
    """Writes into an intrinsic what becomes of the features of some rows and one chunk.

    Parameters
    ----------
    e : Emitter
        Of the type of features.
    A, acc, phi : pointers
        Coefficients (chunks, outputs, CHUNK) and sums (n, outputs, LANES); features that are kept.
        None where they are not wanted.
    outputs, c : values
        How many outputs there are, and the chunk.
    rows : sequence of values
        Numbers of the rows.
    at, row : values
        Where to begin in phi, and how far on its next row is.
    """

    def __init__(
        self,
        e: Emitter,
        A: Any,
        acc: Any,
        phi: Any,
        *,
        outputs: Any,
        c: Any,
        rows: Sequence[Any],
        at: Any,
        row: Any,
    ) -> None:
        self._e, self._outputs, chunk = e, outputs, e.size(CHUNK)
        self._A = self._acc = self._phi = None
        if acc is not None:
            self._A = e.at(A, e.offset((e.offset((c, outputs)), chunk)))
            sums = [e.offset((e.offset((i, outputs)), e.size(LANES))) for i in rows]
            self._acc = [e.at(acc, place) for place in sums]
        if phi is not None:
            places = range(len(rows))
            self._phi = [e.at(phi, e.offset((at, e.size(1)), (e.size(i), row))) for i in places]

    def take(self, features: list[list[Any]], offsets: list[int]) -> None:
        """Take each row's vectors, those at the offsets into the chunk."""
        e = self._e
        if self._phi is not None:
            for place, row in zip(self._phi, features, strict=True):
                for x, offset in zip(row, offsets, strict=True):
                    e.store(x, place, offset)
        if self._acc is None:
            return
        sums = self._acc

        def add(k: Any, _: list[Any]) -> list[Any]:
            """Add an output's coefficients times features to the rows' sums."""
            A = e.at(self._A, e.offset((k, e.size(CHUNK))))
            a = [e.load(A, offset) for offset in offsets]
            for acc, row in zip(sums, features, strict=True):
                place = e.at(acc, e.offset((k, e.size(LANES))))
                total = e.load(place)
                for coefficient, x in zip(a, row, strict=True):
                    total = e.fma(coefficient, x, total)
                e.store(total, place)
            return []

        e.loop(self._outputs, [], add)
