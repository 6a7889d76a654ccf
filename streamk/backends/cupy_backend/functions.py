"""The functions of the backend, as launches on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import Basis, LocalKernels, Single, filled, select, sum_factor
from streamk.backends.cupy_backend.device import (
    SCRATCH,
    CudaDevice,
    Device,
    Launcher,
    Variant,
    blocks,
    not_on_devices,
    pieces,
    plain,
)
from streamk.backends.cupy_backend.projection import Projection
from streamk.backends.single import BatchOfOne

COLUMNS = 64
"""Columns whose frequencies one block draws, as in the kernels."""
SIDE = 64
"""Points of each set in a tile, as in the kernels."""
CENTERS = 1024
"""Centers whose products one block adds up."""
OUTPUTS = 16
"""Outputs of a product that one block takes on."""


class DeviceBackend(Projection):
    """The backend on a device; see `streamk.backends` for its functions.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        # Columns are scaled before they are brought to the device.
        host = select("auto")
        self.measure, self.spread = host.measure, host.spread
        self.rescale, self.rescale_each = host.rescale, host.rescale_each
        self.extend, self.choose, self.score = host.extend, host.choose, host.score

    def single(
        self,
        basis: Basis,
        A: Any,
        squares: Any,
        curve: int,
        wide: bool,
        loss: tuple[int, float, bool],
    ) -> Single:
        """Prepare for single events; for one, waiting for the device takes most of the time."""
        return BatchOfOne(
            self.predict, self.step, self.put, self.xp, basis, A, squares, curve, wide, loss
        )

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
