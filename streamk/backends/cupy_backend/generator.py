"""The counter-based generator on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends.cupy_backend.launching import Launcher, blocks, plain

COLUMNS = 64
"""Columns whose frequencies one block draws, as in the kernels."""


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
