"""Random features of a kernel, an unbounded seeded sequence (Dai et al. 2014, §2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import backends
from streamk.backends import CHUNK, LARGEST
from streamk.errors import InvalidInput, shown
from streamk.features.blocks import FeatureBlocks
from streamk.features.columns import Column, column_keys
from streamk.features.samplers import check_sampler
from streamk.kernels import Kernel
from streamk.kernels.base import check_dtype


def check_range(start: int, stop: int) -> None:
    """Raise InvalidInput unless 0 <= start <= stop <= 2^34: so many features have own numbers."""
    if not 0 <= start <= stop <= 2**34:
        raise InvalidInput(f"start={start}, stop={stop} must satisfy 0 <= start <= stop <= 2^34")


def check_seed(seed: int) -> int:
    """Return the seed as an int, which must be in 0 ... 2^64 - 1, else raise InvalidInput."""
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < 2**64:
        raise InvalidInput(f"seed={shown(seed)} must be a whole number from 0 to 2^64 - 1")
    return int(seed)


def check_events(
    X: ArrayLike,
    dtype: np.dtype[Any],
    columns: Sequence[Column] | None,
    *,
    missing: bool = False,
) -> NDArray[Any]:
    """Return a batch as a finite C-contiguous array of shape (n, d) of the dtype.

    `columns` are its columns' names, where they are known. With `missing` a NaN is let through, but
    nothing above 1e150.

    Raises
    ------
    InvalidInput
        Naming the shape, or the row and column of the first NaN or infinity.
    """
    try:
        if isinstance(X, np.ndarray) and X.dtype == dtype:
            events = np.ascontiguousarray(X)
        else:
            with np.errstate(over="ignore"):  # an infinity is named below
                events = np.ascontiguousarray(X, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"a batch must be an array of numbers: {error}") from None
    if not events.flags.carray:
        events = events.copy()  # the compiled functions know no others
    if events.ndim != 2:
        raise InvalidInput(
            f"a batch must have shape (events, columns), not {events.shape}; "
            "a single event x is passed as [x]"
        )
    if columns is not None and events.shape[1] != len(columns):
        raise InvalidInput(
            f"a batch has {events.shape[1]} columns and the model has {len(columns)}; "
            "call add_columns before sending more"
        )
    # The fast way to see that all is well; vdot, unlike dot, does not warn of an overflow.
    squares = np.vdot(events, events)
    if squares <= LARGEST**2 if missing else math.isfinite(squares):
        return events
    bad = np.abs(events) > LARGEST if missing else ~np.isfinite(events)
    if bad.any():
        row, column = np.argwhere(bad)[0].tolist()
        name = column if columns is None else columns[column]
        raise InvalidInput(
            f"row {row}, column {name!r} is {events[row, column]}; drop the event or "
            + (
                "give NaN, which counts as missing"
                if missing
                else "scale the columns with Scaled, which takes a NaN as missing"
            )
        )
    return events


class RandomFeatures:
    """An endless sequence of random features whose products average to the kernel.

    Feature i of a point x is ``sqrt(2) cos(w_i.x + b_i)``, or what `streamk.kernels` says of a
    kernel without a Fourier law. Its frequency and phase are a function of the seed, of i and of
    the columns alone (Philox4x32-10), so it is the same in every process, and never has to be
    stored.

    Parameters
    ----------
    kernel : Kernel
    seed : int
        0 to 2^64 - 1.
    sampler : {"iid", "hadamard", "orthogonal"}, default "iid"
        ``iid``: independent frequencies, tied to the columns' names. ``hadamard``: the rows of
        random rotations, tied to the columns' places; for kernels of the Euclidean distance. Their
        products vary no more than independent ones', and from some 20 columns on they are faster.
        Of points dozens of bandwidths apart along one column they leave a kernel of up to 0.12.
        ``orthogonal``: frequencies of orthogonal directions (Yu et al. 2016), tied likewise and
        for the same kernels; as fast as independent ones once they are made. Up to 64 columns,
        products of points within a bandwidth vary a tenth as much, and none is biased.
    dtype : {"float32", "float64"}, default "float32"
    backend : {"auto", "cupy"}, default "auto"

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.features import RandomFeatures
    >>> from streamk.kernels import Gaussian
    >>> features = RandomFeatures(Gaussian(bandwidth=1.0), seed=7)
    >>> Z = features.transform([[0.0], [1.0]], 0, 100_000)
    >>> bool(abs(Z[0] @ Z[1] / 100_000 - np.exp(-0.5)) < 0.01)
    True
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        seed: int,
        sampler: str = "iid",
        dtype: Any = "float32",
        backend: str = "auto",
    ) -> None:
        self.kernel = kernel
        self.seed = check_seed(seed)
        self.sampler = check_sampler(sampler, kernel)
        self.dtype = check_dtype(dtype)
        self._backend = backends.select(backend)

    def transform(
        self, X: ArrayLike, start: int, stop: int, columns: Sequence[Column] | None = None
    ) -> NDArray[Any]:
        """Features `start` to `stop` of each point.

        Parameters
        ----------
        X : array of shape (n, d)
        start, stop : int
            Half-open range of the sequence.
        columns : sequence of str or int, optional
            Names of the columns; ``range(d)`` by default. Their order does not matter to ``iid``,
            and nothing but their order and number to the other samplers. The directions of a Zonal
            kernel depend on which columns there are.

        Returns
        -------
        array of shape (n, stop - start), of the dtype chosen

        Raises
        ------
        InvalidInput
            If a value is not finite, the range is empty of sense, the columns do not fit, or the
            map of a `streamk.kernels.Composed` kernel does not return finite numbers.
        """
        check_range(start, stop)
        points = check_events(X, self.dtype, columns)
        names = range(points.shape[1]) if columns is None else columns
        blocks = FeatureBlocks(
            self.kernel,
            column_keys(names),
            seed=self.seed,
            backend=self._backend,
            dtype=self.dtype,
            cache_bytes=0,
            sampler=self.sampler,
        )
        first, backend = start // CHUNK, self._backend
        mapped = backend.put(self.kernel.mapped(points))
        Z = backend.get(blocks.features(mapped, first, -(-stop // CHUNK)))
        return np.ascontiguousarray(Z[:, start - first * CHUNK : stop - first * CHUNK])
