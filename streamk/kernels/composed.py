"""Kernels of points that a function of the user's maps first (Dai et al. 2014, Theorem 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import Backend
from streamk.errors import InvalidInput
from streamk.kernels.base import Kernel

PointMap = Callable[[NDArray[np.float64]], ArrayLike]
"""A function of one event x (d,), float64, that returns q numbers."""

_MAPS: dict[str, PointMap] = {}


def register_map(name: str, function: PointMap) -> None:
    """Give a map of points the name by which a `Composed` kernel and its saved states know it.

    A state holds the name alone, never code: the program that opens it registers the same function
    before.

    Parameters
    ----------
    name : str
    function : callable
        Takes one event, a float64 array of shape (d,), and returns numbers (q,), as many for each
        event. It is asked for one event at a time, so that a prediction does not depend on the
        batch, and must be a function of the event alone.

    Raises
    ------
    InvalidInput
        If the name is not an identifier, or belongs to another function.

    Examples
    --------
    >>> register_map("squares", lambda x: x * x)
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidInput(f"name={name!r} of a map must be an identifier, such as 'patches'")
    if not callable(function):
        raise InvalidInput(f"the map {name!r} must be a function of one event, not {function!r}")
    if _MAPS.get(name, function) is not function:
        raise InvalidInput(f"another map is called {name!r} already; choose another name")
    _MAPS[name] = function


def _of_kernel(name: str) -> Any:
    """Return a property that is that of the kernel of mapped points."""
    return property(attrgetter(f"kernel.{name}"))


@dataclass(frozen=True, kw_only=True)
class Composed(Kernel):
    """A kernel k(psi(x), psi(y)) of points that a registered function psi maps.

    Its random features are those of k at psi(x), ``cos(w.psi(x) + b)`` for a kernel with a Fourier
    law: by Theorem 3 of Dai et al. (2014) their products average to a kernel whatever psi is.

    Features depend on the order of the columns, and psi on their number: columns that come after
    the first step are refused, and models merge if they met the columns in one order.

    Parameters
    ----------
    kernel : Kernel
        With random features.
    map : str
        Name of psi, see `register_map`.

    Raises
    ------
    InvalidInput
        If no map has the name, or the kernel has no random features. When points are mapped, if
        psi raises, or returns anything but as many finite numbers for each event.

    Examples
    --------
    >>> from streamk.kernels import Gaussian
    >>> register_map("products", lambda x: np.outer(x, x).ravel())
    >>> kernel = Composed(kernel=Gaussian(bandwidth=2.0), map="products")
    >>> kernel.pairwise([[1.0, 0.0]], [[-1.0, 0.0], [0.0, 1.0]]).round(4)
    array([[1.    , 0.7788]])
    """

    name = "composed"
    law = _of_kernel("law")
    curve = _of_kernel("curve")
    isotropic = _of_kernel("isotropic")
    heavy_tailed = _of_kernel("heavy_tailed")
    amplitude = _of_kernel("amplitude")
    frequency_scale = _of_kernel("frequency_scale")
    degrees_of_freedom = _of_kernel("degrees_of_freedom")
    shift_invariant = False
    takes_late_columns = False
    by_place = True

    kernel: Kernel
    map: str
    _function: PointMap = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel) or self.kernel.law is None:
            raise InvalidInput(
                f"kernel={self.kernel!r} of Composed must be a Kernel with random features, such "
                "as Gaussian()"
            )
        if not isinstance(self.map, str) or self.map not in _MAPS:
            raise InvalidInput(
                f"no map is called {self.map!r}; register it by streamk.kernels.register_map "
                f"before the kernel or a state of it is opened (there are {', '.join(_MAPS)})"
            )
        object.__setattr__(self, "_function", _MAPS[self.map])

    def mapped(self, points: NDArray[Any]) -> NDArray[Any]:
        """Return psi of each row, mapped as the kernel's points are, of the type of the points."""
        if not len(points):
            q = len(self._psi(np.zeros(points.shape[1])))
            return self.kernel.mapped(np.empty((0, q), points.dtype))
        rows = [self._psi(x) for x in points.astype(np.float64)]
        if len({len(row) for row in rows}) > 1:
            raise InvalidInput(
                f"the map {self.map!r} returns arrays of different lengths; it must return as "
                "many numbers for each event"
            )
        with np.errstate(over="ignore"):
            found = np.array(rows).astype(points.dtype)
        if not np.isfinite(found).all():
            row = int(np.argwhere(~np.isfinite(found))[0, 0])
            raise InvalidInput(
                f"the map {self.map!r} returns NaN, or numbers beyond {points.dtype}, for the "
                f"event of row {row}; bound them in the function"
            )
        return self.kernel.mapped(np.ascontiguousarray(found))

    def _psi(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return psi of one event."""
        try:
            found = np.asarray(self._function(x), np.float64)
        except Exception as error:
            raise InvalidInput(
                f"the map {self.map!r} fails on an event of {len(x)} columns: {error!r}"
            ) from error
        if found.ndim != 1:
            raise InvalidInput(
                f"the map {self.map!r} returns an array of shape {found.shape} for an event; it "
                "must return numbers of shape (q,)"
            )
        return found

    def mapped_keys(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the keys of psi's numbers: their places."""
        q = len(self._psi(np.zeros(len(keys))))
        return self.kernel.mapped_keys(np.arange(q, dtype=np.uint64))

    def values_on(self, backend: Backend, X: Any, Y: Any, out: Any) -> None:
        """Write the kernel between mapped points (n, q) and (m, q) of a backend into out (n, m)."""
        self.kernel.values_on(backend, X, Y, out)

    def product_on(
        self, backend: Backend, X: Any, Y: Any, V: Any, *, threads: int | None = None
    ) -> Any:
        """Return the product as of `product`, of arrays on a backend's device; see `Kernel`."""
        return self.kernel.product_on(backend, X, Y, V, threads=threads)

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return ``k(psi(x), psi(x))`` of each row of `X` (n, d), float64 of shape (n,)."""
        points = np.ascontiguousarray(X, np.float64)
        return self.kernel.diagonal(np.array([self._psi(x) for x in points]))

    def to_json(self) -> dict[str, Any]:
        """Return the kernel as JSON data: its map by name."""
        return {"kernel": self.name, "of": self.kernel.to_json(), "map": self.map}
