"""The arrays of a model's state: name, dtype, shape and domain of each, declared once.

A learner lists its arrays as `Declared`; the list makes them (`Declared.zeros`) and checks those of
a state (`taken`), before anything is allocated by sizes that the state tells.

A length in a shape is a number, the name of a size, or a sum of one and a number. A size that is
not known yet is that of the first array which has it: sizes then come from arrays that are there,
not from a header that could claim any. What is made of a header is made within `reading`, and its
numbers are read with `count` and `number`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamk.errors import StateError

__all__ = [
    "ANY",
    "FINITE",
    "FLAGS",
    "NON_NEGATIVE",
    "POSITIVE",
    "SHARES",
    "Declared",
    "Domain",
    "count",
    "flag",
    "listed",
    "number",
    "reading",
    "taken",
    "within",
]

Length: TypeAlias = "int | str | tuple[str, int]"
Numbers: TypeAlias = NDArray[Any]

_MOST = 2**53
"""The largest int that is exact in JSON wherever it is read."""


@dataclass(frozen=True)
class Domain:
    """The values that an array may have: finite ones within bounds.

    Parameters
    ----------
    least, most : float
        The bounds, which are allowed.
    missing : bool, default False
        Whether NaN is allowed.
    whole : bool, default False
        Whether values are whole numbers.
    sum_to_one : bool, default False
        Whether the last axis sums to 1, up to rounding.
    infinite : bool, default False
        Whether infinities within the bounds are allowed.
    """

    least: float = -math.inf
    most: float = math.inf
    missing: bool = False
    whole: bool = False
    sum_to_one: bool = False
    infinite: bool = False

    def fault(self, array: Numbers) -> str | None:
        """Return how an array leaves the domain, None if it does not."""
        if array.size == 0:
            return None
        least: float
        most: float
        if array.dtype.kind != "f":
            least, most = int(array.min()), int(array.max())
        else:
            low, high = (np.fmin, np.fmax) if self.missing else (np.minimum, np.maximum)
            least, most = (float(one.reduce(array, axis=None)) for one in (low, high))
            if self.missing and math.isnan(least):
                return None
            finite = math.isfinite(least) and math.isfinite(most)
            if not finite and (math.isnan(least) or not self.infinite):
                return "holds a value that is not finite"
        if least < self.least:
            return f"holds {least:g}, below {self.least:g}"
        if most > self.most:
            return f"holds {most:g}, above {self.most:g}"
        if self.whole and array.dtype.kind == "f" and (array != np.floor(array)).any():
            return "holds a value that is not a whole number"
        if self.sum_to_one and np.abs(array.sum(axis=-1, dtype=np.float64) - 1.0).max() > _ROUNDED:
            return "does not sum to 1"
        return None


_ROUNDED = 1e-3
"""By how much sums of shares may differ from 1: they are not made anew at each step."""

ANY = Domain(missing=True)
"""Finite or missing."""
FINITE = Domain()
NON_NEGATIVE = Domain(least=0.0)
POSITIVE = Domain(least=math.ulp(0.0))
SHARES = Domain(least=0.0, most=1.0, sum_to_one=True)
"""Parts of 1 along the last axis."""
FLAGS = Domain(least=0, most=1)


@dataclass(frozen=True)
class Declared:
    """One array of a model.

    Parameters
    ----------
    name : str
        Its key in the state.
    dtype : str
        "float32", "int64", "bool" and so on.
    shape : tuple
        Of each axis the length, see the top of this module.
    domain : Domain, default FINITE

    Examples
    --------
    >>> weights = Declared("weights", "float32", ("outputs", ("columns", 1)))
    >>> weights.zeros({"outputs": 2, "columns": 3}).shape
    (2, 4)
    """

    name: str
    dtype: str
    shape: tuple[Length, ...]
    domain: Domain = FINITE

    def lengths(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape by sizes that are all known."""
        return tuple(_length(length, sizes) for length in self.shape)

    def zeros(self, sizes: Mapping[str, int]) -> Numbers:
        """Return the array as it begins, of zeros."""
        return np.zeros(self.lengths(sizes), self.dtype)

    def check(self, array: Numbers, sizes: dict[str, int], owner: str) -> None:
        """Raise StateError unless an array of a state fits; sizes not known yet become its own.

        An array of another float or int type is let through if its values fit this one's.
        """
        where = f"array {self.name!r} of {owner}"
        kinds = {"f": "f", "b": "b", "i": "iu", "u": "iu"}[np.dtype(self.dtype).kind]
        if array.dtype.kind not in kinds:
            raise StateError(f"{where} must be of dtype {self.dtype}, not {array.dtype}")
        if array.ndim != len(self.shape):
            raise StateError(
                f"{where} must have {len(self.shape)} axes, but has the shape {array.shape}"
            )
        for length, found in zip(self.shape, array.shape, strict=True):
            size, more = length if isinstance(length, tuple) else (length, 0)
            if isinstance(size, str):
                if found < more:
                    raise StateError(f"{where} has the shape {array.shape}, which is too short")
                sizes.setdefault(size, found - more)
        if array.shape != self.lengths(sizes):
            raise StateError(
                f"{where} must have the shape {self.lengths(sizes)}, not {array.shape}"
            )
        if array.dtype != self.dtype and kinds != "b":
            limits = np.finfo(self.dtype) if kinds == "f" else np.iinfo(self.dtype)
            fault = Domain(float(limits.min), float(limits.max), missing=True).fault(array)
            if fault:
                raise StateError(f"{where} {fault}, which is more than {self.dtype} holds")
        within(array, self.domain, self.name, owner)


def taken(
    declared: Iterable[Declared],
    arrays: Mapping[str, Numbers],
    sizes: Mapping[str, int],
    owner: str,
) -> tuple[dict[str, Numbers], dict[str, int]]:
    """Return the arrays of a state by their names, and all sizes, after they were checked.

    Parameters
    ----------
    declared : iterable of Declared
    arrays : mapping of str to array
        The state's; others than those that are declared are left alone.
    sizes : mapping of str to int
        The sizes known without the arrays.
    owner : str
        Whose arrays they are, for messages: "a pool of experts".

    Returns
    -------
    dict of str to array
        The state's own arrays, not copied, of the declared dtypes.
    dict of str to int
        The sizes known, and those that arrays have.

    Raises
    ------
    StateError
        If an array is missing, or its dtype, shape or values do not fit, naming it.

    Examples
    --------
    >>> import numpy as np
    >>> declared = [Declared("weights", "float64", ("rows", 2), SHARES)]
    >>> taken(declared, {"weights": np.array([[0.2, 0.9]])}, {}, "a mixture")
    Traceback (most recent call last):
        ...
    streamk.errors.StateError: array 'weights' of a mixture does not sum to 1
    """
    found: dict[str, Numbers] = {}
    known = dict(sizes)
    for each in declared:
        array = arrays.get(each.name)
        if array is None:
            raise StateError(
                f"{owner} has no array {each.name!r}; it is damaged, or another version wrote it"
            )
        each.check(array, known, owner)
        found[each.name] = array.astype(each.dtype, copy=False)
    return found, known


def within(part: Numbers, domain: Domain, name: str, owner: str) -> None:
    """Raise StateError unless a part of an array, or what follows from it, is within a domain.

    Examples
    --------
    >>> import numpy as np
    >>> within(np.array([0.5, -1.0])[1:], NON_NEGATIVE, "sums", "a mixture")
    Traceback (most recent call last):
        ...
    streamk.errors.StateError: array 'sums' of a mixture holds -1, below 0
    """
    fault = domain.fault(part)
    if fault:
        raise StateError(f"array {name!r} of {owner} {fault}")


def count(header: Mapping[str, Any], name: str, owner: str, *, least: int = 0) -> int:
    """Return an int of a header; raise StateError unless it is one, from `least` to 2**53."""
    value = header.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
        raise StateError(f"{name!r} of {owner} must be an int from {least}, not {value!r}")
    return value


def number(header: Mapping[str, Any], name: str, owner: str, domain: Domain = FINITE) -> float:
    """Return a number of a header; raise StateError unless it is one, within the domain."""
    value = header.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise StateError(f"{name!r} of {owner} must be a number, not {value!r}")
    try:
        fault = domain.fault(np.array([float(value)]))
    except OverflowError:
        fault = "is too large"
    if fault:
        raise StateError(f"{name!r} of {owner} is out of bounds: it {fault}")
    return float(value)


def flag(header: Mapping[str, Any], name: str, owner: str) -> bool:
    """Return a bool of a header; raise StateError unless it is one."""
    value = header.get(name)
    if not isinstance(value, bool):
        raise StateError(f"{name!r} of {owner} must be true or false, not {value!r}")
    return value


def listed(header: Mapping[str, Any], name: str, owner: str) -> list[Any]:
    """Return a copy of a list of a header; raise StateError unless it is one."""
    value = header.get(name)
    if not isinstance(value, list):
        raise StateError(f"{name!r} of {owner} must be a list, not {value!r}")
    return list(value)


@contextmanager
def reading(owner: str) -> Iterator[None]:
    """Raise StateError where something is made of entries of a header that do not fit.

    Parameters
    ----------
    owner : str
        Whose header it is, for the message.

    Examples
    --------
    >>> with reading("a model"):
    ...     {"step": 1.0}["loss"]
    Traceback (most recent call last):
        ...
    streamk.errors.StateError: the header of a model does not fit: KeyError('loss'); it is damaged
    or was changed by hand
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StateError(
            f"the header of {owner} does not fit: {error!r}; it is damaged or was changed by hand"
        ) from error


def _length(length: Length, sizes: Mapping[str, int]) -> int:
    if isinstance(length, tuple):
        return sizes[length[0]] + length[1]
    return sizes[length] if isinstance(length, str) else length
