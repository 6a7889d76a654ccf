"""The counter-based generator on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import select
from streamk.backends.cupy_backend.launching import Launcher, blocks, plain
from streamk.errors import BackendUnavailable

COLUMNS = 64
"""Columns whose frequencies one block draws, as in the kernels."""


def not_on_devices(features: str) -> BackendUnavailable:
    """Return the error that no device evaluates such features."""
    return BackendUnavailable(
        f"backend 'cupy' has no {features} features, those of kernels 'polynomial' and 'zonal'; "
        "choose backend='auto', or a kernel such as 'gaussian' or 'arc_cosine'"
    )


class Generator(Launcher):
    """Draws the constants of features."""

    def frequencies(
        self,
        seed: int,
        law: int,
        dof: int,
        scale: float,
        keys: Any,
        first_chunk: int,
        W: Any,
        b: Any,
    ) -> None:
        """Fill chunks of frequencies and phases, both in turns."""
        chunks, d, _ = W.shape
        self._launch(
            "generator",
            "frequencies",
            plain(W),
            (chunks, max(1, blocks(d, COLUMNS))),
            np.uint64(seed),
            int(law),
            dof,
            scale / (2.0 * np.pi),
            keys,
            d,
            first_chunk,
            W,
            b,
        )

    def rotations(
        self,
        seed: int,
        law: int,
        dof: int,
        scale: float,
        widths: tuple[int, ...],
        first_chunk: int,
        signs: Any,
        radii: Any,
        b: Any,
    ) -> None:
        """Fill chunks of signs, lengths and phases, the lengths and phases in turns."""
        self._launch(
            "generator",
            "rotations",
            plain(b),
            (len(b),),
            np.uint64(seed),
            int(law),
            dof,
            scale / (2.0 * np.pi),
            self._on_device(widths),
            len(widths),
            first_chunk,
            signs,
            radii,
            b,
        )

    def orthogonal(
        self,
        seed: int,
        law: int,
        dof: int,
        scale: float,
        widths: tuple[int, ...],
        first_chunk: int,
        W: Any,
        b: Any,
    ) -> None:
        """Fill chunks of frequencies of orthogonal directions, made on the host, and phases."""
        there, phases = np.empty(W.shape, W.dtype), np.empty(b.shape, b.dtype)
        select().orthogonal(seed, law, dof, scale, widths, first_chunk, there, phases)
        W[...], b[...] = self._device.put(there), self._device.put(phases)

    def sketches(self, seed: int, keys: Any, first_chunk: int, buckets: Any) -> None:
        """Raise BackendUnavailable."""
        raise not_on_devices("sketch")
