"""Losses' gradients and steps on coefficients."""

from __future__ import annotations

from typing import Any

from streamk.backends.cupy_backend.launching import Launcher, blocks, plain


class Learning(Launcher):
    """Learns, given predictions and gradients."""

    def finish(self, acc: Any, factor: float, F: Any) -> None:
        """Write the partial sums' sum, times the factor, into `F`."""
        self._launch(
            "learning", "finish", plain(acc), (blocks(F.size),), acc, float(factor), F.size, F
        )

    def loss_gradient(
        self,
        code: int,
        parameter: float,
        classes: bool,
        F: Any,
        y: Any,
        weight: float,
        G: Any,
    ) -> None:
        """Write the weighted (sub)gradient of each row's loss in its outputs into `G`."""
        n, outputs = F.shape
        self._launch(
            "learning",
            "loss_gradient",
            plain(G),
            (blocks(n),),
            int(code),
            float(parameter),
            int(classes),
            F,
            y,
            float(weight),
            n,
            outputs,
            G,
        )

    def descend(self, A: Any, squares: Any, g: Any, rate: float, start: int, stop: int) -> None:
        """Subtract ``rate * g`` from the features start...stop of these chunks.

        Where there are `squares`, they take in the squared gradient, and the gradient is divided by
        their root.
        """
        self._descend(A, squares, g, 1, rate, start, stop, None)

    def _descend(
        self,
        A: Any,
        squares: Any,
        parts: Any,
        segments: int,
        rate: float,
        start: int,
        stop: int,
        overflowed: Any,
    ) -> None:
        self._launch(
            "learning",
            "descend",
            plain(A),
            (blocks(A.size),),
            A,
            squares if len(squares) else None,
            parts,
            segments,
            A.size,
            A.shape[1],
            float(rate),
            start,
            stop,
            overflowed,
        )

    def decay(self, A: Any, factor: float) -> None:
        """Multiply all coefficients by the factor."""
        A *= A.dtype.type(factor)
