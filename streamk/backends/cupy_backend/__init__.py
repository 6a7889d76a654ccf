"""The backend for NVIDIA GPUs: CUDA kernels compiled by CuPy when they are first used.

`device` is the seam: memory and launches, CuPy's or, in the tests, the host's own. `functions` has
the backend's functions over such a device, and the kernels' text lies in `kernels`, one plain C
text for the GPU and for the host compiler of the tests.

It is never chosen by ``backend="auto"``: a GPU is shared, and for one event at a time the way there
and back is longer than the work.
"""

from __future__ import annotations

from functools import cache

from streamk.backends import Backend
from streamk.backends.cupy_backend.device import CudaDevice
from streamk.backends.cupy_backend.functions import DeviceBackend
from streamk.errors import BackendUnavailable


@cache
def connect() -> Backend:
    """Return the backend on CuPy's current device.

    Raises
    ------
    BackendUnavailable
        If there is no CuPy, driver or device, saying which and what to do.
    """
    return DeviceBackend(CudaDevice())


def connect_each(count: int | None = None) -> list[Backend]:
    """Return the backends on the first so many of CuPy's devices, by default on all of them.

    What is done by one of them is done in its context `current`.

    Raises
    ------
    BackendUnavailable
        If there is no CuPy, driver or device, or there are fewer devices.
    """
    first, there = _connected(0)
    if count is not None and count > there:
        raise BackendUnavailable(
            f"devices={count} of backend 'cupy' are more than the {there} that CuPy sees; take "
            "fewer, or see what CUDA_VISIBLE_DEVICES hides"
        )
    return [first, *(_connected(number)[0] for number in range(1, count or there))]


@cache
def _connected(number: int) -> tuple[Backend, int]:
    """Return the backend on the device of that number, and how many devices there are."""
    device = CudaDevice(number)
    return DeviceBackend(device), device.count
