"""The common part of the backend's functions: a device, and how to divide the work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streamk.backends.cupy_backend.device import THREADS, Device, Variant
from streamk.errors import BackendUnavailable

SCRATCH = 1 << 23
"""Numbers in parts that are added up next: few enough to stay in a large GPU's second cache, 50 MB
in an H100. There half as many took twice the time for ten outputs, and more gained nothing."""


def blocks(size: int, each: int = THREADS) -> int:
    """Return how many blocks that take so many each are needed."""
    return -(-size // each)


def plain(array: Any) -> Variant:
    """Return the variant of kernels that know no phases."""
    double = array.dtype == np.float64
    return Variant(double, double, False)


def pieces(n: int, most: int) -> Iterator[slice]:
    """Yield slices of at most so many."""
    for start in range(0, n, most):
        yield slice(start, min(n, start + most))


def not_on_devices(features: str) -> BackendUnavailable:
    """Return the error that no device evaluates such features."""
    return BackendUnavailable(
        f"backend 'cupy' has no {features} features, those of kernels 'polynomial' and 'zonal'; "
        "choose backend='auto', or a kernel such as 'gaussian' or 'arc_cosine'"
    )


class Launcher:
    """Launches kernels on a device.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, device: Device) -> None:
        self.xp = device.xp
        self.put = device.put
        self.get = device.get
        self.fetch = device.fetch
        self.current = device.current
        self._device = device
        self._widths: dict[tuple[int, ...], Any] = {}

    def _launch(
        self, module: str, kernel: str, variant: Variant, grid: tuple[int, ...], *arguments: Any
    ) -> None:
        if min(grid) > 0:
            self._device.launch(module, kernel, variant, grid, *arguments)

    def _on_device(self, widths: tuple[int, ...]) -> Any:
        """Return the widths as an array of the device, which is kept."""
        if widths not in self._widths:
            self._widths[widths] = self.put(np.array(widths, dtype=np.int64))
        return self._widths[widths]
