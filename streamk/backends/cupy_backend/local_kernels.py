"""Prediction by trees of small kernel models on a device; see `streamk.backends.LocalKernels`."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import LocalKernels, filled
from streamk.backends.cupy_backend.device import CudaDevice, Device, Variant
from streamk.backends.cupy_backend.launching import SCRATCH, Launcher, blocks, pieces

__all__ = ["Evaluator"]

_ROWS = 1 << 12
"""Events that go together at least, whatever the memory that they work with."""
_SINGLE = Variant(double=False, wide=False, hadamard=False)


class Evaluator(Launcher):
    """Evaluates a model, whose arrays are brought to the device once.

    Parameters
    ----------
    model : LocalKernels
        On the host.
    device : Device, optional
        By default CuPy's current one.
    """

    def __init__(self, model: LocalKernels, device: Device | None = None) -> None:
        super().__init__(CudaDevice() if device is None else device)
        self._width = filled(len(model.shift))
        self._size = self._width + model.workspace
        laid_out = model._replace(normals=model.filled_normals)
        self._model = LocalKernels(*map(self.put, laid_out))

    def scores(self, X: Any, out: Any) -> int:
        """Write the scores of raw events X, float64 (n, d), to out, float32 (n, outputs).

        Both are on the device.

        Returns
        -------
        int
            The first row with an infinite value, or n. Scores of rows behind it may be written.
        """
        n, d = X.shape
        model = self._model
        finite = self.xp.empty(n, np.int32)
        for rows in pieces(n, max(_ROWS, SCRATCH // self._size)):
            x = X[rows]
            self._launch(
                "local_kernels",
                "local_scores",
                _SINGLE,
                (blocks(len(x)),),
                x,
                len(x),
                d,
                self._width,
                model.shift,
                model.factor,
                model.fill,
                model.normals,
                model.offsets,
                model.children,
                model.roots,
                len(model.roots),
                model.absent,
                model.leaves,
                model.numbers,
                model.pairs,
                model.outputs,
                self.xp.empty((self._size, len(x)), np.float32),
                out.shape[1],
                out[rows],
                finite[rows],
            )
        (infinite,) = np.nonzero(self.get(finite) == 0)
        return int(infinite[0]) if len(infinite) else n
