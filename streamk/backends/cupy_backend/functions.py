"""The functions of the backend, as launches on a device."""

from __future__ import annotations

from typing import Any

from streamk.backends import Basis, Single, select
from streamk.backends.cupy_backend.device import Device
from streamk.backends.cupy_backend.generator import Generator
from streamk.backends.cupy_backend.pairwise import Pairwise
from streamk.backends.cupy_backend.projection import Projection
from streamk.backends.single import BatchOfOne


class DeviceBackend(Generator, Projection, Pairwise):
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
