"""The GPU: what it copies and computes in a second, and what plain libraries do on it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import common, hot
from benchmarks.data import DataError
from benchmarks.hot import Clock, Count, Work
from streamk import backends

SLICE = 1 << 28
"""Numbers that a rival keeps at a time: it takes larger batches in slices of rows."""
_LOOP = r"""
extern "C" __global__ void loop(float *out, int count)
{
    float a[16], b = out[0], c = out[1], sum = 0.0f;
    for (int i = 0; i < 16; i++)
        a[i] = threadIdx.x + i;
    for (int k = 0; k < count; k++) {
        _Pragma("unroll") for (int i = 0; i < 16; i++) a[i] = fmaf(a[i], b, c);
    }
    for (int i = 0; i < 16; i++)
        sum += a[i];
    out[2 + blockIdx.x * 256 + threadIdx.x] = sum;
}
"""


def cupy() -> Any:
    """CuPy, where there is a GPU for it.

    Raises
    ------
    DataError
        If there is none.
    """
    found = hot.gpu()
    if "none" in found:
        raise DataError(found["none"])
    return importlib.import_module("cupy")


def torch() -> Any:
    """PyTorch, where it has the GPU; else None."""
    if importlib.util.find_spec("torch") is None:
        return None
    module = importlib.import_module("torch")
    return module if module.cuda.is_available() else None


def waited(work: Work) -> Work:
    """The call and the wait until the device is done."""
    wait = cupy().cuda.Device().synchronize

    def both() -> None:
        work()
        wait()

    return both


def ceilings(clock: Clock, quick: bool) -> dict[str, Any]:
    """GB/s of a large copy, bytes read and written; GFlop/s of a product, and of a bare loop."""
    cp = cupy()
    size, side = (1 << 16, 64) if quick else (1 << 28, 8192)
    one = cp.random.standard_normal(size, dtype=cp.float32)
    other = cp.empty_like(one)
    A, B = (cp.random.standard_normal((side, side), dtype=cp.float32) for _ in range(2))
    C = cp.empty_like(A)
    blocks, count = 16 * cp.cuda.Device().attributes["MultiProcessorCount"], 4096
    out, loop = cp.zeros(2 + blocks * 256, cp.float32), cp.RawKernel(_LOOP, "loop")
    times = clock.race(
        {
            "copy": waited(lambda: cp.copyto(other, one)),
            "product": waited(lambda: cp.matmul(A, B, out=C)),
            "loop": waited(lambda: loop((blocks,), (256,), (out, np.int32(count)))),
        }
    )
    work = {"copy": 2 * one.nbytes, "product": 2 * side**3, "loop": 2 * blocks * 256 * 16 * count}
    return {
        name: common.spread(1e-9 * work[name] / s for s in seconds)
        for name, seconds in times.items()
    }


def bound(work: Count, found: Mapping[str, Any]) -> float:
    """Microseconds that the operations take at the rate of the loop, or the bytes at a copy's."""
    operations = work.operations / (found["loop"]["median"] / 2)
    return float(f"{1e-3 * max(operations, work.bytes / found['copy']['median']):.4g}")


def rivals() -> dict[str, Any]:
    """The libraries there are, with functions of the same names on arrays of the GPU."""
    found: dict[str, Any] = {"CuPy": _CuPy()}
    module = torch()
    if module is not None:
        found["PyTorch"] = _Torch(module)
    return found


class _CuPy:
    """What one writes by hand, in place."""

    def __init__(self) -> None:
        self._cp = cupy()

    def put(self, array: Any) -> Any:
        return self._cp.asarray(array)

    def get(self, array: Any) -> Any:
        return self._cp.asnumpy(array)

    def joined(self, parts: list[Any]) -> Any:
        return self._cp.concatenate(parts)

    def cosines(self, X: Any, W: Any, b: Any, a: Any) -> Any:
        P = X @ W
        P += b
        self._cp.cos(P, out=P)
        return P @ a

    def kernel(self, name: str, width: float, X: Any, Y: Any, V: Any) -> Any:
        """The kernel by a matrix product, times V."""
        cp = self._cp
        D = X @ Y.T
        D *= -2.0
        D += (X * X).sum(axis=1)[:, None]
        D += (Y * Y).sum(axis=1)
        cp.maximum(D, 0.0, out=D)
        if name == "matern":
            cp.sqrt(D, out=D)
            D *= -1.0 / width
        else:
            D *= -0.5 / width**2
        cp.exp(D, out=D)
        return D @ V


class _Torch:
    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def put(self, array: Any) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(array)).cuda()

    def get(self, array: Any) -> Any:
        return array.cpu().numpy()

    def joined(self, parts: list[Any]) -> Any:
        return self._torch.cat(parts)

    def cosines(self, X: Any, W: Any, b: Any, a: Any) -> Any:
        return self._torch.addmm(b, X, W).cos_() @ a

    def kernel(self, name: str, width: float, X: Any, Y: Any, V: Any) -> Any:
        D = self._torch.cdist(X, Y)
        if name == "matern":
            D.mul_(-1.0 / width)
        else:
            D.square_().mul_(-0.5 / width**2)
        return D.exp_() @ V


def sliced(rival: Any, X: Any, width: int, work: Callable[[Any], Any]) -> Any:
    """The work on slices of rows whose products with so many columns fit, put together."""
    rows = max(1, SLICE // width)
    return rival.joined([work(X[i : i + rows]) for i in range(0, len(X), rows)])


def relative(found: Any, exact: Any) -> float:
    """The norm of the error over that of what is exact."""
    return float(f"{np.linalg.norm(found - exact) / np.linalg.norm(exact):.2g}")


def described() -> dict[str, Any]:
    """The device and what drives it."""
    cp = cupy()
    runtime = cp.cuda.runtime
    properties = runtime.getDeviceProperties(0)

    def named(version: int) -> str:
        return f"{version // 1000}.{version % 1000 // 10}"

    return {
        "device": properties["name"].decode(),
        "multiprocessors": properties["multiProcessorCount"],
        "memory_gib": round(properties["totalGlobalMem"] / 2**30, 1),
        "second_cache_mb": round(properties["l2CacheSize"] / 1e6),
        "driver_for_cuda": named(runtime.driverGetVersion()),
        "cuda": named(runtime.runtimeGetVersion()),
        "nvrtc": ".".join(map(str, cp.cuda.nvrtc.getVersion())),
        "cupy": cp.__version__,
    }


def backend() -> Any:
    """The backend on the GPU."""
    return backends.select("cupy")
