"""The centers of a function: on the host, or in parts, each on a device or in another process."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streamk import backends
from streamk.backends import Backend
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners.centers import Centers

Numbers = NDArray[Any]
Call = tuple[Any, ...]
"""Arguments of a method of `Shard`."""


class HostCenters(Centers):
    """Centers on the host, by their slots: the places in the order in which they were added.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> centers = HostCenters(Gaussian(), 2, n_columns=1, n_outputs=1)
    >>> centers.add(np.array([[0.0], [9.0]], np.float32), np.array([[1.0], [2.0]]))
    >>> centers.outputs(np.array([[9.0]], np.float32)).round(4)
    array([[2.]])
    >>> centers.values(np.array([[0.0]], np.float32), np.array([[5.0]])).round(4)
    array([[5.],
           [0.]])
    """

    def add(self, X: Numbers, A: Numbers) -> None:
        """Add centers X (n, d) with coefficients A (n, outputs), up to the capacity."""
        self.append(X, np.zeros(len(X)), A)

    def with_coefficients(self, A: Numbers) -> HostExpansion:
        """Return another function on the same centers, with coefficients A (p, any outputs)."""
        return HostExpansion(self._of, self.points, A)

    def values(self, Y: Numbers, W: Numbers, *, dtype: DTypeLike = np.float32) -> Numbers:
        """Return the values ``K(Z, Y) W`` at the centers of another function, float64 (p, outputs).

        Its centers are Y (n, d), float32, with coefficients W (n, outputs). The dtype is that of
        `streamk.kernels.Kernel.product`.
        """
        return self._of.product(self.points, Y, W, dtype=dtype)


class HostExpansion:
    """A function on points X (n, d) of the host, float32, which are left where they are."""

    def __init__(self, kernel: Kernel, X: Numbers, A: Numbers) -> None:
        self._kernel, self._X = kernel, X
        self._A = np.array(A, np.float32, order="C")

    def set_coefficients(self, slots: Numbers, A: Numbers) -> None:
        """Replace the coefficients of some slots (n,) by A (n, outputs)."""
        self._A[slots] = A

    def outputs(self, X: Numbers) -> Numbers:
        """Return the function of the rows of X (n, d), float64 (n, outputs).

        Each row's are the same, bit for bit, in whatever batch the row comes.
        """
        return self._kernel.product(X, self._X, self._A, dtype=np.float32)


class Shards(Protocol):
    """Several `Shard`, each on its device or in its process, that work at the same time."""

    def __len__(self) -> int: ...

    def enter(self, function: ShardedCenters) -> int:
        """Return a number for a function. Its parts are dropped when it is garbage."""

    def ask(self, method: str, each: Sequence[Call]) -> list[Any]:
        """Call a method of `Shard` on all shards, each with its arguments.

        It comes back when all are done. A call may be repeated, if a shard is lost and made anew.
        """


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

    A call that is repeated leaves all as it is. Slots are those within the part. The centers are on
    the backend's device; where that is the host, threads are all cores by default.
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
        """Replace coefficients of slots (m,) by A (m, outputs), then begin to evaluate the part.

        Returns what waits, and returns the outputs of the part for X (n, d), float64 (n, outputs).
        """
        part, put = self._parts[number], self._put
        with self._backend.current():
            if len(slots):
                part.A[put(slots, np.int64)] = put(A)
            return self._product(part.kernel, put(part.kernel.mapped(X)), part.X, part.A)

    def values(
        self, number: int, Y: Numbers, W: Numbers, dtype: DTypeLike
    ) -> Callable[[], Numbers]:
        """Begin to evaluate ``K(Z, Y) W`` in a dtype at the centers Z of the part.

        Returns what waits, and returns the values, float64 (centers, outputs).
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
    """Shards on devices of this process, of which each has a backend."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._shards = [Shard(backend) for backend in backends]
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._shards)

    def enter(self, function: ShardedCenters) -> int:
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


BLOCK = 64
"""Consecutive centers of one shard."""
BYTES = 2**28
"""Memory for events that are sent, and for what comes back, at a time."""


class ShardedCenters:
    """Centers that are divided among shards, each of which evaluates the kernels of its own.

    Blocks of 64 slots go to the shards in turn, however they were added. Outputs are the sum of
    those of the shards in their order, in float64: for a number of shards they are always the same,
    bit for bit. Points and coefficients are kept on the host, too, so a shard that is lost can be
    made anew; coefficients that change go to the shards when outputs are asked for.

    Examples
    --------
    >>> from streamk.backends import select
    >>> from streamk.kernels import Gaussian
    >>> shards = DeviceShards([select()] * 2)
    >>> centers = ShardedCenters(shards, Gaussian(), 100, n_columns=1, n_outputs=1)
    >>> centers.add(np.arange(0, 500, 5, dtype=np.float32)[:, None], np.ones((100, 1)))
    >>> centers.set_coefficients(np.array([2, 70]), np.array([[3.0], [4.0]]))
    >>> centers.outputs(np.array([[10.0], [350.0]], np.float32)).round(4)
    array([[3.], [4.]])
    """

    def __init__(
        self, shards: Shards, kernel: Kernel, capacity: int, *, n_columns: int, n_outputs: int
    ) -> None:
        self._shards, self._kernel, self.capacity = shards, kernel, capacity
        self._n = 0
        self._X = np.zeros((0, n_columns), np.float32)
        self._A = np.zeros((0, n_outputs), np.float32)
        self._changed: list[Numbers] = []
        """Slots whose coefficients the shards do not know yet."""
        self._number = shards.enter(self)

    def __len__(self) -> int:
        return self._n

    @property
    def n_outputs(self) -> int:
        """Outputs of the function."""
        return self._A.shape[1]

    @property
    def nbytes(self) -> int:
        """Memory on the host and on the shards, in bytes."""
        return self._X.nbytes + self._A.nbytes + self.points.nbytes + self._A[: self._n].nbytes

    @property
    def points(self) -> Numbers:
        """The centers by their slots, float32 (p, d)."""
        return self._X[: self._n]

    def coefficients(self, slots: Numbers) -> Numbers:
        """Return a copy of the coefficients of some slots, float32 (n, outputs)."""
        return self._A[slots]

    def add(self, X: Numbers, A: Numbers) -> None:
        """Add centers X (n, d) with coefficients A (n, outputs), up to the capacity."""
        first, n = self._n, self._n + len(X)
        if n > len(self._X):
            more = min(max(n, 2 * first), self.capacity) - len(self._X)
            self._X, self._A = (np.pad(old, ((0, more), (0, 0))) for old in (self._X, self._A))
        self._X[first:n], self._A[first:n] = X, A
        self._n = n
        self._write(first)

    def set_coefficients(self, slots: Numbers, A: Numbers) -> None:
        """Replace the coefficients of some slots (n,) by A (n, outputs)."""
        self._A[slots] = A
        self._changed.append(slots)

    def with_coefficients(self, A: Numbers) -> ShardedCenters:
        """Return another function on the same centers, with coefficients A (p, any outputs)."""
        other = ShardedCenters(
            self._shards, self._kernel, self._n, n_columns=0, n_outputs=A.shape[1]
        )
        other._n, other._X, other._A = self._n, self.points, np.array(A, np.float32, order="C")
        self._ask("share", lambda s: (other._number, self._number, other._A[self._slots(s)]))
        return other

    def outputs(self, X: Numbers) -> Numbers:
        """Return the function of the rows of X (n, d), as of `HostExpansion`."""
        F = np.zeros((len(X), self.n_outputs))
        if self._n and self.n_outputs:
            many = BYTES // (4 * X.shape[1] + 8 * len(self._shards) * self.n_outputs)
            for at in range(0, len(X), max(1, many)):
                rows = slice(at, at + max(1, many))
                for part in self._outputs_of_parts(X[rows]):
                    F[rows] += part
        return F

    def _outputs_of_parts(self, X: Numbers) -> list[Numbers]:
        """Return the outputs of each shard for events X (n, d), by the newest coefficients."""
        changed = np.unique(np.concatenate([np.zeros(0, np.int64), *self._changed]))
        owners = changed // BLOCK % len(self._shards)

        def call(s: int) -> Call:
            slots = changed[owners == s]
            return self._number, self._within(slots), self._A[slots], X

        found = self._ask("outputs", call)
        self._changed.clear()
        return found

    def values(self, Y: Numbers, W: Numbers, *, dtype: DTypeLike = np.float32) -> Numbers:
        """Return the values at the centers of another function, as of `HostCenters`."""
        out = np.zeros((self._n, W.shape[1]))
        if out.size and len(Y):
            parts = self._ask("values", lambda _: (self._number, Y, W, dtype))
            for s, part in enumerate(parts):
                out[self._slots(s)] = part
        return out

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        self._X = np.pad(self._X, ((0, 0), (0, count)))
        self._write(0)

    def set_outputs(self, A: Numbers) -> None:
        """Have other outputs, with the coefficients A (p, outputs) of all centers."""
        self._A = np.zeros((len(self._X), A.shape[1]), np.float32)
        self._A[: self._n] = A
        self._write(0)

    # Shards

    def part(self, s: int, first: int = 0) -> Call:
        """Return the arguments of `Shard.write` for the slots of shard s from `first` on."""
        slots = self._slots(s, first)
        rounds, rest = divmod(first, BLOCK * len(self._shards))
        before = rounds * BLOCK + min(max(0, rest - s * BLOCK), BLOCK)
        return self._number, self._kernel, before, self._X[slots], self._A[slots]

    def _write(self, first: int) -> None:
        """Tell the shards of points and coefficients from slot `first` on."""
        if self._n:
            self._ask("write", partial(self.part, first=first))
        if not first:
            self._changed.clear()

    def _slots(self, s: int, first: int = 0) -> Numbers:
        """Return the slots of shard s from `first` on, ascending, int64."""
        slots = np.arange(first, self._n)
        return np.asarray(slots[slots // BLOCK % len(self._shards) == s])

    def _within(self, slots: Numbers) -> Numbers:
        """Return the places of slots within their shard's part."""
        return np.asarray(slots // (BLOCK * len(self._shards)) * BLOCK + slots % BLOCK)

    def _ask(self, method: str, call: Callable[[int], Call]) -> list[Any]:
        return self._shards.ask(method, [call(s) for s in range(len(self._shards))])


PlacedCenters: TypeAlias = HostCenters | ShardedCenters
Expansion: TypeAlias = HostExpansion | ShardedCenters
"""A function ``f(x) = sum of a_j k(x, z_j)`` whose coefficients change."""


Placement: TypeAlias = Callable[..., PlacedCenters]
"""A maker of centers of a kernel, with the arguments of `Centers`, which decides on their place."""


def placement(backend: str, devices: int | None, shards: Shards | None) -> Placement:
    """Return the maker of centers on the host, on devices, or on the shards that are given.

    Raises `InvalidInput` if the options do not fit each other, and `BackendUnavailable` if there
    are no devices, or fewer than that.
    """
    if backend == "auto" and devices is not None:
        raise InvalidInput(
            f"devices={devices} is for backend='cupy'; leave it out, or choose that backend"
        )
    if backend != "auto" and shards is not None:
        raise InvalidInput(
            f"backend={backend!r} is for centers in this process, but shards= puts them "
            "elsewhere; leave one of the two out"
        )
    if backend == "cupy":
        shards = DeviceShards(backends.select_devices(devices))
    return HostCenters if shards is None else partial(ShardedCenters, shards)
