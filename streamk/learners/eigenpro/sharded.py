"""Centers that are divided among shards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from streamk import backends
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners.eigenpro.placement import Expansion, HostCenters, Placement
from streamk.learners.eigenpro.shards import Call, DeviceShards, Shards

Numbers = NDArray[Any]

BLOCK = 64
"""Consecutive centers of one shard."""
BYTES = 2**28
"""Memory for events that are sent, and for what comes back, at a time."""


def placement(backend: str, devices: int | None, shards: Shards | None) -> Placement:
    """Return the maker of centers on the host, on devices, or on the shards that are given.

    Raises
    ------
    InvalidInput
        If the options do not fit each other.
    BackendUnavailable
        If there are no devices, or fewer than that.
    """
    if backend == "auto" and devices is not None:
        raise InvalidInput(f"devices={devices} is for backend='cupy'; leave it out, or choose that")
    if backend != "auto" and shards is not None:
        raise InvalidInput(
            f"backend={backend!r} is of centers in this process, and shards= has them elsewhere; "
            "leave one of the two out"
        )
    if backend == "cupy":
        shards = DeviceShards(backends.select_devices(devices))
    return HostCenters if shards is None else partial(ShardedCenters, shards)


class ShardedCenters:
    """Centers that are divided among shards, each of which evaluates the kernels of its own.

    Blocks of 64 slots go to the shards in turn, however they were appended. Outputs are the sum of
    those of the shards in their order, in float64: for a number of shards they are always the same,
    bit for bit. Points and coefficients are kept on the host, too, so a shard that is lost can be
    made anew; coefficients that change go to the shards when outputs are asked for.

    Parameters
    ----------
    shards : Shards
    kernel : Kernel
    capacity : int
    n_columns, n_outputs : int

    Examples
    --------
    >>> from streamk.backends import select
    >>> from streamk.kernels import Gaussian
    >>> shards = DeviceShards([select()] * 2)
    >>> centers = ShardedCenters(shards, Gaussian(), 100, n_columns=1, n_outputs=1)
    >>> centers.append(np.arange(0, 500, 5, dtype=np.float32)[:, None], np.ones((100, 1)))
    >>> centers.set_coefficients(np.array([2, 70]), np.array([[3.0], [4.0]]))
    >>> centers.outputs(np.array([[10.0], [350.0]], np.float32)).round(4)
    array([[3.], [4.]])
    """

    def __init__(
        self, shards: Shards, kernel: Kernel, capacity: int, *, n_columns: int, n_outputs: int
    ) -> None:
        self._shards, self._kernel, self._capacity = shards, kernel, capacity
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
    def capacity(self) -> int:
        """The most centers."""
        return self._capacity

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

    def append(self, X: Numbers, A: Numbers) -> None:
        """Add centers X (n, d) with coefficients A (n, outputs), up to the capacity."""
        first, n = self._n, self._n + len(X)
        if n > len(self._X):
            more = min(max(n, 2 * first), self._capacity) - len(self._X)
            self._X, self._A = (np.pad(old, ((0, more), (0, 0))) for old in (self._X, self._A))
        self._X[first:n], self._A[first:n] = X, A
        self._n = n
        self._write(first)

    def set_coefficients(self, slots: Numbers, A: Numbers) -> None:
        """Replace the coefficients of some slots (n,) by A (n, outputs)."""
        self._A[slots] = A
        self._changed.append(slots)

    def with_coefficients(self, A: Numbers) -> Expansion:
        """Return another function on the same centers, with coefficients A (p, any outputs)."""
        other = ShardedCenters(
            self._shards, self._kernel, self._n, n_columns=0, n_outputs=A.shape[1]
        )
        other._n, other._X, other._A = self._n, self.points, np.array(A, np.float32, order="C")
        self._ask("share", lambda s: (other._number, self._number, other._A[self._slots(s)]))
        return other

    def outputs(self, X: Numbers) -> Numbers:
        """Return the function of the rows of X (n, d), as of `Expansion`."""
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
        """Return the values at the centers of another function, as of `PlacedCenters`."""
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

    def part(self, s: int) -> Call:
        """Return the arguments of `Shard.write` that make the part of shard s anew."""
        return self._part(s, 0)

    def _part(self, s: int, first: int) -> Call:
        """Return the arguments of `Shard.write` for the slots from `first` on."""
        slots = self._slots(s, first)
        rounds, rest = divmod(first, BLOCK * len(self._shards))
        before = rounds * BLOCK + min(max(0, rest - s * BLOCK), BLOCK)
        return self._number, self._kernel, before, self._X[slots], self._A[slots]

    def _write(self, first: int) -> None:
        """Tell the shards of points and coefficients from slot `first` on."""
        if self._n:
            self._ask("write", partial(self._part, first=first))
        if not first:
            self._changed.clear()

    def _slots(self, s: int, first: int = 0) -> Numbers:
        """Return the slots of shard s from `first` on, ascending, int64."""
        slots = np.arange(first, self._n)
        mine: Numbers = slots[slots // BLOCK % len(self._shards) == s]
        return mine

    def _within(self, slots: Numbers) -> Numbers:
        """Return the places of slots within their shard's part."""
        within: Numbers = slots // (BLOCK * len(self._shards)) * BLOCK + slots % BLOCK
        return within

    def _ask(self, method: str, call: Callable[[int], Call]) -> list[Any]:
        return self._shards.ask(method, [call(s) for s in range(len(self._shards))])
