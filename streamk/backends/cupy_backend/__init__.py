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


@cache
def connect() -> Backend:
    """Return the backend on CuPy's current device.

    Raises
    ------
    BackendUnavailable
        If there is no CuPy, driver or device, saying which and what to do.
    """
    return DeviceBackend(CudaDevice())
