"""Parts of the centers of functions, each on a device or in a process of its own."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streamk.backends import Backend
from streamk.kernels import Kernel

Numbers = NDArray[Any]
Call = tuple[Any, ...]
"""Arguments of a method of `Shard`."""


class Divided(Protocol):
    """A function that knows its parts."""

    def part(self, s: int) -> Call:
        """Return the arguments of `Shard.write` that make the part of shard s anew."""
        ...


class Shards(Protocol):
    """Several `Shard`, each on its device or in its process, that work at the same time."""

    def __len__(self) -> int: ...

    def enter(self, function: Divided) -> int:
        """Return a number for a function. Its parts are dropped when it is garbage."""
        ...

    def ask(self, method: str, each: Sequence[Call]) -> list[Any]:
        """Call a method of `Shard` on all shards, each with its arguments.

        It comes back when all are done. A call may be repeated, if a shard is lost and made anew.
        """
        ...


class _Part:
    """Some points, as the kernel maps them, and coefficients, in arrays with room for more."""

    def __init__(self, kernel: Kernel, X: Any, A: Any) -> None:
        self.kernel, self._X, self._A = kernel, X, A
        self._n = len(X)

    @property
    def X(self) -> Any:  # noqa: N802
        """Points, float32 (n, d)."""
        return self._X[: self._n]

    @property
    def A(self) -> Any:  # noqa: N802
        """Coefficients, float32 (n, outputs)."""
        return self._A[: self._n]

    def write(self, xp: Any, first: int, X: Any, A: Any) -> None:
        """Have points and coefficients from slot `first` on."""
        n = first + len(X)
        if n > len(self._X):
            self._X, self._A = (
                _enlarged(xp, array, max(n, 2 * self._n)) for array in (self._X, self._A)
            )
        self._X[first:n], self._A[first:n] = X, A
        self._n = max(n, self._n)


def _enlarged(xp: Any, array: Any, rows: int) -> Any:
    more = xp.zeros((rows, *array.shape[1:]), array.dtype)
    more[: len(array)] = array
    return more


class Shard:
    """One part of the centers of some functions, which it knows by their numbers.

    A call that is repeated leaves all as it is. Slots are those within the part.

    Parameters
    ----------
    backend : Backend
        On whose device the centers are.
    threads : int, optional
        All cores by default, where that is the host.
    """

    def __init__(self, backend: Backend, *, threads: int | None = None) -> None:
        self._backend, self._threads = backend, threads
        self._parts: dict[int, _Part] = {}

    def write(self, number: int, kernel: Kernel, first: int, X: Numbers, A: Numbers) -> None:
        """Have centers X (n, d) with coefficients A (n, outputs) from slot `first` on.

        If that is 0, they are all that there are.
        """
        with self._backend.current():
            x, a = self._put(kernel.mapped(X)), self._put(A)
            if first:
                self._parts[number].write(self._backend.xp, first, x, a)
            else:
                self._parts[number] = _Part(kernel, x, a)

    def share(self, number: int, of: int, A: Numbers) -> None:
        """Have the centers of function `of` once more, with coefficients A (n, outputs)."""
        some = self._parts[of]
        with self._backend.current():
            self._parts[number] = _Part(some.kernel, some.X, self._put(A))

    def outputs(self, number: int, slots: Numbers, A: Numbers, X: Numbers) -> Callable[[], Numbers]:
        """Replace the coefficients of some slots, then begin to evaluate the part.

        Parameters
        ----------
        number : int
        slots : int64 array of shape (m,)
        A : float32 array of shape (m, outputs)
        X : float32 array of shape (n, d)

        Returns
        -------
        callable
            It waits, and returns the outputs of the part, float64 (n, outputs).
        """
        part, put = self._parts[number], self._put
        with self._backend.current():
            if len(slots):
                part.A[put(slots, np.int64)] = put(A)
            return self._product(part.kernel, put(part.kernel.mapped(X)), part.X, part.A)

    def values(
        self, number: int, Y: Numbers, W: Numbers, dtype: DTypeLike
    ) -> Callable[[], Numbers]:
        """Begin to evaluate ``K(Z, Y) W`` at the centers Z of the part.

        Parameters
        ----------
        number : int
        Y : float32 array of shape (n, d)
        W : array of shape (n, outputs)
        dtype : {float32, float64}
            Of the evaluation.

        Returns
        -------
        callable
            It waits, and returns the values, float64 (centers, outputs).
        """
        part = self._parts[number]
        with self._backend.current():
            Z = part.X if np.dtype(dtype) == np.float32 else part.X.astype(dtype)
            y = self._put(part.kernel.mapped(Y), dtype)
            return self._product(part.kernel, Z, y, self._put(W, dtype))

    def drop(self, number: int) -> None:
        """Forget a function."""
        self._parts.pop(number, None)

    def _put(self, array: Numbers, dtype: DTypeLike = np.float32) -> Any:
        """Return a copy on the device, which is no one else's."""
        return self._backend.put(np.array(array, dtype, order="C"))

    def _product(self, kernel: Kernel, X: Any, Y: Any, V: Any) -> Callable[[], Numbers]:
        if not len(X) or not V.shape[1]:
            empty = np.zeros((len(X), V.shape[1]))
            return lambda: empty
        out = kernel.product_on(self._backend, X, Y, V, threads=self._threads)
        return self._backend.fetch(out)


class DeviceShards:
    """Shards on devices of this process.

    Parameters
    ----------
    backends : sequence of Backend
        One for each device.
    """

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._shards = [Shard(backend) for backend in backends]
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._shards)

    def enter(self, function: Divided) -> int:
        """Return a number for a function, as of `Shards`."""
        number = next(self._numbers)
        weakref.finalize(function, self._drop, number).atexit = False
        return number

    def ask(self, method: str, each: Sequence[Call]) -> list[Any]:
        """Call a method on all shards, as of `Shards`: all begin before one is waited for."""
        begun = [
            getattr(shard, method)(*call) for shard, call in zip(self._shards, each, strict=True)
        ]
        return [wait if wait is None else wait() for wait in begun]

    def _drop(self, number: int) -> None:
        for shard in self._shards:
            shard.drop(number)
