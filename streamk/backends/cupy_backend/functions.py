"""The functions of the backend, as launches on a device."""

from __future__ import annotations

from streamk.backends import select
from streamk.backends.cupy_backend.device import Device
from streamk.backends.cupy_backend.generator import Generator
from streamk.backends.cupy_backend.pairwise import Pairwise
from streamk.backends.cupy_backend.projection import Projection


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
        self.measure, self.spread, self.rescale = host.measure, host.spread, host.rescale
