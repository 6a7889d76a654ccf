"""Kernels between points, and their product with vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import sum_factor
from streamk.backends.cupy_backend.launching import SCRATCH, Launcher, blocks, pieces, plain

SIDE = 64
"""Points of each set in a tile, as in the kernels."""
CENTERS = 1024
"""Centers whose products one block adds up."""
OUTPUTS = 16
"""Outputs of a product that one block takes on."""


class Pairwise(Launcher):
    """Evaluates kernels."""

    def pairwise(self, code: int, parameter: float, scale: float, X: Any, Y: Any, out: Any) -> None:
        """Write the kernel between the rows of `X` and of `Y` into `out`."""
        n, m = out.shape
        factor = float(sum_factor(code, parameter, scale, X.dtype))
        self._launch(
            "pairwise",
            "pairwise",
            plain(X),
            (blocks(n, SIDE), blocks(m, SIDE)),
            int(code),
            float(parameter),
            factor,
            X,
            n,
            Y,
            m,
            X.shape[1],
            out,
        )

    def pairwise_product(
        self, code: int, parameter: float, scale: float, X: Any, Y: Any, V: Any, out: Any
    ) -> None:
        """Write the kernel between the rows of `X` and of `Y`, times `V`, into `out`."""
        m, outputs = V.shape
        if not m:
            out[...] = 0.0
            return
        factor = float(sum_factor(code, parameter, scale, X.dtype))
        count, tiles = blocks(m, CENTERS), blocks(outputs, OUTPUTS)
        room = max(SIDE, SCRATCH // max(1, count * outputs) // SIDE * SIDE)
        for rows in pieces(len(X), room):
            x, some = X[rows], out[rows]
            parts = self.xp.empty((count, *some.shape), np.float64)
            self._launch(
                "pairwise",
                "products",
                plain(X),
                (blocks(len(x), SIDE), count, tiles),
                int(code),
                float(parameter),
                factor,
                x,
                len(x),
                Y,
                m,
                X.shape[1],
                V,
                outputs,
                parts,
            )
            self._launch(
                "pairwise",
                "add_products",
                plain(X),
                (blocks(some.size),),
                parts,
                count,
                some.size,
                some,
            )
