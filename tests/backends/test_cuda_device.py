"""Connecting to a GPU, and the copies to it, with a stand-in for CuPy.

The stand-in runs what is sent to streams as late as it may, or as early, in whatever order the
events allow: a copy that misses a wait then sees wrong bytes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamk import backends
from streamk.backends import cupy_backend
from streamk.backends.cupy_backend import connect, device
from streamk.backends.cupy_backend.device import CudaDevice
from streamk.errors import BackendUnavailable


class Stream:
    """Work in a queue; `current` is the one of kernels."""

    current: Stream

    def __init__(self, **_: Any) -> None:
        self.queue: list[tuple[Callable[[], object], Event | None]] = []
        self.done = 0
        self.eager = False

    def send(self, work: Callable[[], object], after: Event | None = None) -> None:
        self.queue.append((work, after))
        if self.eager:
            self.run(len(self.queue))

    def run(self, stop: int) -> None:
        """Do the work up to there, and what that waits for on other streams."""
        while self.done < stop:
            work, after = self.queue[self.done]
            if after is not None:
                after.synchronize()
            work()
            self.done += 1

    def wait_event(self, event: Event) -> None:
        # It waits for what has been recorded by now, not for what will be.
        self.send(lambda: None, event.now())

    def synchronize(self) -> None:
        self.run(len(self.queue))


class Event:
    def __init__(self, **_: Any) -> None:
        self.place: tuple[Stream, int] | None = None

    def now(self) -> Event:
        copy = Event()
        copy.place = self.place
        return copy

    def record(self, stream: Stream) -> None:
        self.place = stream, len(stream.queue)

    def synchronize(self) -> None:
        if self.place is not None:
            self.place[0].run(self.place[1])


class Memory:
    """Memory of the device, or a place in it."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def __add__(self, offset: int) -> Memory:
        return Memory(self.numbers[offset:])

    def copy_from_host_async(self, address: int, size: int, stream: Stream) -> None:
        stream.send(lambda: self._take(np.frombuffer(ctypes.string_at(address, size), np.uint8)))

    def copy_from_device_async(self, source: Memory, size: int, stream: Stream) -> None:
        stream.send(lambda: self._take(source.numbers[:size]))

    def copy_to_host_async(self, address: int, size: int, stream: Stream) -> None:
        stream.send(lambda: ctypes.memmove(address, self.numbers.tobytes(), size))

    def _take(self, numbers: Any) -> None:
        self.numbers[: len(numbers)] = numbers


class Pinned(bytearray):
    @property
    def ptr(self) -> int:
        return ctypes.addressof((ctypes.c_char * len(self)).from_buffer(self))


class CUDARuntimeError(RuntimeError):
    pass


class Device:
    """A context in which the device is the current one."""

    current: list[int]

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        self.current.append(self.number)

    def __exit__(self, *_: Any) -> None:
        self.current.pop()


def stand_in(*, devices: int | None = 1, driver: int = 12040, compiler: bool = True) -> ModuleType:
    """A module like cupy, with so many devices (None: the runtime fails)."""

    def count() -> int:
        if devices is None:
            raise CUDARuntimeError("cudaErrorInsufficientDriver")
        return devices

    def version() -> tuple[int, int]:
        if not compiler:
            raise RuntimeError("libnvrtc.so.12 not found")
        return 12, 9

    def empty(shape: Any, dtype: Any) -> Any:
        array = np.full(shape, 77).astype(dtype)
        data = Memory(array.reshape(-1).view(np.uint8))
        known = {"dtype": array.dtype, "size": array.size, "nbytes": array.nbytes}
        return SimpleNamespace(data=data, array=array, shape=array.shape, **known)

    def asnumpy(array: Any) -> Any:
        Stream.current.synchronize()
        return array.array

    cupy: Any = ModuleType("cupy")
    cupy.empty, cupy.asnumpy = empty, asnumpy
    cupy.cuda = SimpleNamespace(
        Stream=Stream,
        Event=Event,
        Device=Device,
        alloc=lambda size: Memory(np.zeros(size, np.uint8)),
        alloc_pinned_memory=Pinned,
        get_current_stream=lambda: Stream.current,
        nvrtc=SimpleNamespace(getVersion=version),
        runtime=SimpleNamespace(
            getDeviceCount=count,
            driverGetVersion=lambda: driver,
            CUDARuntimeError=CUDARuntimeError,
        ),
    )
    return cupy


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Put a stand-in, or nothing, in the place of CuPy."""

    def put_in_place(module: ModuleType | None) -> None:
        Stream.current, Device.current = Stream(), [0]
        monkeypatch.setitem(sys.modules, "cupy", module)

    def forget() -> None:
        connect.cache_clear()
        cupy_backend._connected.cache_clear()

    forget()
    yield put_in_place
    forget()


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (None, ["CuPy", "pip install 'streamk[cuda12]'"]),
        (stand_in(devices=None, driver=0), ["driver", "nvidia-smi"]),
        (stand_in(devices=None, driver=11020), ["GPU", "CUDA 11.2", "nvidia-smi"]),
        (stand_in(devices=0), ["GPU", "nvidia-smi"]),
        (stand_in(compiler=False), ["libnvrtc", "pip install 'streamk[cuda12]'"]),
    ],
    ids=["no CuPy", "no driver", "old driver", "no GPU", "no NVRTC"],
)
def test_what_is_missing_is_named(
    use: Callable[..., None], module: ModuleType | None, words: list[str]
) -> None:
    use(module)
    with pytest.raises(BackendUnavailable, match="cupy") as raised:
        backends.select("cupy")
    for word in [*words, "backend='auto'"]:
        assert word in str(raised.value)


def test_a_gpu_is_never_chosen_by_itself(use: Callable[..., None]) -> None:
    use(stand_in())
    assert backends.select("auto").xp is np
    assert backends.select("cupy") is backends.select("cupy")


@pytest.mark.parametrize("copies_first", [False, True])
def test_copies_wait_for_what_they_must(
    use: Callable[..., None], monkeypatch: pytest.MonkeyPatch, copies_first: bool
) -> None:
    """However far one stream is ahead of the other, what comes back is what was put."""
    use(stand_in())
    monkeypatch.setattr(device, "LANDING", 100)
    there = CudaDevice()
    there._copying.eager = copies_first
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, n).astype(np.uint8) for n in (7, 350, 0, 100, 99, 201, 1)]
    arrays += [rng.random((5, 6)), rng.random((6, 8))[:, ::2], np.arange(9, dtype=np.uint64)]
    kept = [array.copy() for array in arrays]
    put = []
    for array in arrays:
        put.append(there.put(array))
        # It is the caller's again as soon as `put` is back.
        array[...] = 0
    for array, copy in zip(put, kept, strict=True):
        np.testing.assert_array_equal(there.get(array), copy)


def test_a_copy_runs_beside_the_kernels_launched_before(use: Callable[..., None]) -> None:
    use(stand_in())
    there = CudaDevice()
    ran = []
    Stream.current.send(lambda: ran.append("kernel"))
    there.put(np.ones(3))
    there._copying.synchronize()
    assert not ran, "the copy has waited for a kernel"


def test_what_is_fetched_is_as_it_was_then_and_nothing_later_is_waited_for(
    use: Callable[..., None],
) -> None:
    use(stand_in())
    there = CudaDevice()
    array = there.put(np.arange(6.0).reshape(2, 3))
    Stream.current.send(lambda: array.array.__iadd__(1.0))
    fetched, ran = there.fetch(array), []
    Stream.current.send(lambda: array.array.__iadd__(10.0))
    Stream.current.send(lambda: ran.append("kernel"))
    np.testing.assert_array_equal(fetched(), np.arange(6.0).reshape(2, 3) + 1.0)
    assert not ran


# --- several devices ------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "numbers"), [(None, [0, 1, 2]), (2, [0, 1])])
def test_each_backend_makes_its_device_the_current_one(
    use: Callable[..., None], count: int | None, numbers: list[int]
) -> None:
    use(stand_in(devices=3))
    found = backends.select_devices(count)
    assert Device.current == [0]
    for backend, number in zip(found, numbers, strict=True):
        with backend.current():
            assert Device.current == [0, number]
    assert backends.select_devices(1)[0] is found[0]


def test_a_single_device_is_the_current_one_as_it_is(use: Callable[..., None]) -> None:
    use(stand_in(devices=3))
    with backends.select("cupy").current():
        assert Device.current == [0]


def test_more_devices_than_there_are_and_none_are_named(use: Callable[..., None]) -> None:
    use(stand_in(devices=2))
    with pytest.raises(BackendUnavailable, match=r"devices=3 .* more than the 2 that CuPy sees"):
        backends.select_devices(3)
    use(None)
    cupy_backend._connected.cache_clear()
    with pytest.raises(BackendUnavailable, match="CuPy"):
        backends.select_devices(1)
