"""A device that kernels run on: its memory, and how they are launched."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamk.errors import BackendUnavailable

THREADS = 256
"""Threads of every block, as in the kernels' text."""

LANDING = 1 << 23
"""Bytes that go to the device at once, each of two such pieces in its own page-locked memory."""

_NOTHING = np.uint64(0)
"""No array, as a kernel's argument."""

MODULES = {
    "generator": ("frequencies", "rotations"),
    "features": ("sums", "features", "gradient", "gradient_of_few", "bend"),
    "learning": (
        "add_sums",
        "finish",
        "loss_gradient",
        "settle",
        "add_segments",
        "descend",
    ),
    "pairwise": ("pairwise", "products", "add_products"),
    "local_kernels": ("local_scores",),
}
"""The kernels of each file of `kernels`."""
_BEFORE = {"local_kernels": ("local_core",)}
"""Files whose text stands before that of a module."""


class Variant(NamedTuple):
    """The types and sizes that a module is compiled for."""

    double: bool
    """True if numbers in memory are double."""
    wide: bool
    """True if phases are double."""
    hadamard: bool

    @property
    def macros(self) -> tuple[str, ...]:
        """Options for the compiler."""
        names = ("REAL_IS_DOUBLE", "PHASE_IS_DOUBLE", "HADAMARD")
        return tuple(f"-D{name}={int(on)}" for name, on in zip(names, self, strict=True))


class Device(Protocol):
    """The device that holds a backend's arrays and runs its kernels."""

    xp: Any
    """NumPy or CuPy."""

    def launch(
        self, module: str, kernel: str, variant: Variant, grid: tuple[int, ...], *arguments: Any
    ) -> None:
        """Run blocks of `THREADS` threads, after all that was launched before.

        Arguments are arrays of the device, None, or numbers: 64-bit in the kernels.
        """

    def put(self, array: Any) -> Any:
        """Return a host array on the device."""

    def get(self, array: Any) -> Any:
        """Return an array of the device on the host, once all that was launched is done."""

    def fetch(self, array: Any) -> Callable[[], Any]:
        """Return what gives the array as it is between what was launched and what will be."""

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which `xp` makes arrays on this device."""


@cache
def source(module: str) -> str:
    """Return the text of a module, in C that CUDA's compiler and the host's take.

    >>> "KERNEL finish(" in source("learning")
    True
    """
    folder = resources.files("streamk.backends.cupy_backend") / "kernels"
    names = ("portable", *_BEFORE.get(module, ()), module)
    return "".join((folder / f"{name}.h").read_text("utf-8") for name in names)


CUDA_OPTIONS = ("-std=c++14", "--fmad=false")
"""Options of CUDA's compiler. Only what the text says is fused, so that the order of operations,
and with it each row's result, is the same in every kernel. CuPy adds ``-ftz=true``: in single
precision what is below 1e-38 is 0 on the GPU."""


class CudaDevice:
    """One of CuPy's devices.

    Copies to it go through two pieces of page-locked memory, in turn, and a stream of their own:
    `put` comes back while the copy is under way, beside the kernels launched before it. Kernels
    that are launched after it wait for it, and memory is used again when its copy is done.

    Parameters
    ----------
    number : int, optional
        Everything is to be done in the context `current` then. By default the device is the one
        that is current by itself.

    Raises
    ------
    BackendUnavailable
        If there is no CuPy, driver or device.
    """

    def __init__(self, number: int | None = None) -> None:
        self._number = number
        try:
            self.xp: Any = importlib.import_module("cupy")
        except ImportError as error:
            raise BackendUnavailable(
                f"backend 'cupy' needs CuPy, which is missing here ({error}); install it with: "
                "pip install 'streamk[cuda12]' (or cuda13), or choose backend='auto'"
            ) from error
        self._cuda = self.xp.cuda
        self._find_device()
        self._modules: dict[tuple[str, Variant], Any] = {}
        self._kernels: dict[tuple[str, Variant], Any] = {}
        with self.current():
            self._copying = self._cuda.Stream(non_blocking=True)
            self._landings = (_Landing(self._cuda), _Landing(self._cuda))
            # What others have left of this memory to kernels still at work is not to be written to.
            self._cuda.get_current_stream().synchronize()

    @property
    def count(self) -> int:
        """Devices that CuPy sees."""
        return int(self._cuda.runtime.getDeviceCount())

    def current(self) -> AbstractContextManager[Any]:
        """Return the context in which this device is CuPy's current one."""
        return nullcontext() if self._number is None else self._cuda.Device(self._number)

    def _find_device(self) -> None:
        """Raise BackendUnavailable unless there are a device and what compiles for it."""
        runtime = self._cuda.runtime
        try:
            if not self.count:
                raise _unavailable("an NVIDIA GPU, and there is none here")
        except runtime.CUDARuntimeError as error:
            version = runtime.driverGetVersion()  # 0 where there is no driver
            if not version:
                raise _unavailable("NVIDIA's driver, which is not running here") from error
            driver = f"{version // 1000}.{version % 1000 // 10}"
            raise _unavailable(
                f"a GPU that works with CuPy and this driver, which is for CUDA {driver} ({error})"
            ) from error
        try:
            self._cuda.nvrtc.getVersion()
        except (ImportError, RuntimeError) as error:
            raise BackendUnavailable(
                f"backend 'cupy' needs CUDA's libraries, and CuPy does not find them ({error}); "
                "install them with: pip install 'streamk[cuda12]' (or cuda13), or choose "
                "backend='auto'"
            ) from error

    def launch(
        self, module: str, kernel: str, variant: Variant, grid: tuple[int, ...], *arguments: Any
    ) -> None:
        """Run a kernel on the current stream."""
        compiled = self._kernels.get((kernel, variant))
        if compiled is None:
            compiled = self._module(module, variant).get_function(kernel)
            self._kernels[kernel, variant] = compiled
        # CuPy passes Python's numbers as 64-bit ones itself.
        given = tuple([_NOTHING if value is None else value for value in arguments])
        compiled(grid, (THREADS,), given)

    def _module(self, module: str, variant: Variant) -> Any:
        if (module, variant) not in self._modules:
            options = (*CUDA_OPTIONS, *variant.macros)
            self._modules[module, variant] = self.xp.RawModule(code=source(module), options=options)
        return self._modules[module, variant]

    def put(self, array: Any) -> Any:
        """Return a host array on the device; the copy runs beside what was launched before."""
        out = self.xp.empty(array.shape, array.dtype)
        numbers = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for start in range(0, len(numbers), LANDING):
            landing, self._landings = self._landings[0], self._landings[::-1]
            landing.copy(numbers[start : start + LANDING], out.data + start, self._copying)
        return out

    def get(self, array: Any) -> Any:
        """Return an array of the device on the host."""
        return self.xp.asnumpy(array)

    def fetch(self, array: Any) -> Callable[[], Any]:
        """Start a copy to the host, and return what waits for it and for nothing after it."""
        current, done = self._cuda.get_current_stream(), self._cuda.Event(disable_timing=True)
        pinned = self._cuda.alloc_pinned_memory(array.nbytes)
        array.data.copy_to_host_async(pinned.ptr, array.nbytes, current)
        done.record(current)

        def wait() -> Any:
            done.synchronize()
            return np.frombuffer(pinned, array.dtype, array.size).reshape(array.shape).copy()

        return wait


class _Landing:
    """Page-locked memory and device memory that copies pass through.

    What `put` returns is memory of the kernels' stream, which may still be at work with whatever
    was there before; so a copy lands beside it, and goes there in its turn. That last step is
    within the device's memory, dozens of times faster than the way to it.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._pinned = cuda.alloc_pinned_memory(LANDING)
        self._memory = cuda.alloc(LANDING)
        self._landed = cuda.Event(disable_timing=True)
        self._left = cuda.Event(disable_timing=True)

    def copy(self, numbers: Any, out: Any, stream: Any) -> None:
        """Copy bytes to a place on the device by way of this landing, on the stream."""
        current, size = self._cuda.get_current_stream(), len(numbers)
        # The copy before the last one must be out of the page-locked memory.
        self._landed.synchronize()
        np.frombuffer(self._pinned, np.uint8, size)[:] = numbers
        stream.wait_event(self._left)
        self._memory.copy_from_host_async(self._pinned.ptr, size, stream)
        self._landed.record(stream)
        current.wait_event(self._landed)
        out.copy_from_device_async(self._memory, size, current)
        self._left.record(current)


def _unavailable(missing: str) -> BackendUnavailable:
    return BackendUnavailable(
        f"backend 'cupy' needs {missing}; see what nvidia-smi says of the driver and its GPUs, or "
        "choose backend='auto'"
    )


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
