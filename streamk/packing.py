"""States as bytes: JSON that is written in one way only, and arrays as safetensors.

What is read may have been written by anybody, so sizes that a file claims are held against the
size that it has, in Python's unbounded integers, before anything is allocated by them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamk.errors import StateError
from streamk.state import State

__all__ = [
    "LONGEST_HEADER",
    "Parts",
    "canonical",
    "fingerprint",
    "header_bytes",
    "pack",
    "packed",
    "places",
    "unpack",
]

LONGEST_HEADER = 100_000_000
"""Bytes of a header of safetensors at most, the format's own limit."""

_DTYPES = {
    "BOOL": np.dtype("?"),
    **{f"I{8 * size}": np.dtype(f"<i{size}") for size in (1, 2, 4, 8)},
    **{f"U{8 * size}": np.dtype(f"<u{size}") for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
}

_ORDER = ["U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8", "BOOL"]
"""In which a file has arrays, those of one type by their names: as the format's library does."""
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


Parts: TypeAlias = list[bytes | memoryview]
"""Bytes that are to be read one after the other."""


class Place(NamedTuple):
    """One array of a file of safetensors, and its bytes, counted from the end of the header."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


def fingerprint(state: State) -> str:
    """SHA-256 of a state: equal for equal headers and arrays, on any machine."""
    digest = hashlib.sha256(canonical(state.header))
    for part in packed(state.arrays):
        digest.update(part)
    return digest.hexdigest()


def canonical(data: Any, indent: int | None = 1) -> bytes:
    """Return JSON data as bytes: equal for equal data. Raises `ValueError` for NaN and infinity."""
    return json.dumps(data, indent=indent, sort_keys=True, allow_nan=False).encode()


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays in the format of safetensors, byte for byte as its library writes them."""
    return b"".join(packed(arrays))


def packed(arrays: Mapping[str, NDArray[Any]]) -> Parts:
    """Return the parts that `pack` joins: of arrays that lie in order, no copies.

    They may be most of a process's memory, of which the format's library makes three copies.
    """
    # Written as they lie in memory, so they have to lie there in order and little-endian.
    ordered = [
        (name, np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")), array.shape)
        for name, array in sorted(arrays.items())
    ]
    ordered.sort(key=lambda one: _ORDER.index(_NAMES[one[1].dtype]))
    entries, at = dict[str, Any](), 0
    for name, array, shape in ordered:
        offsets = [at, at + array.nbytes]
        entries[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(shape),
            "data_offsets": offsets,
        }
        at += array.nbytes
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > LONGEST_HEADER:
        raise StateError(
            f"the names and shapes of {len(arrays):,} arrays take {len(header):,} bytes, but at "
            f"most {LONGEST_HEADER:,} can be read back; use a model with fewer parts, or fewer "
            "challengers"
        )
    data = (array.reshape(-1).view(np.uint8).data for _, array, _ in ordered if array.size)
    return [len(header).to_bytes(8, "little"), header, *data]


def header_bytes(beginning: bytes | memoryview, size: int, where: object) -> int:
    """Return how many bytes of a file of safetensors come before its arrays.

    Parameters
    ----------
    beginning : bytes
        The first 8 of the file, or more.
    size : int
        Of the file, bytes.
    where : object
        Named in errors.
    """
    claimed = int.from_bytes(beginning[:8], "little")
    if size < 8 or claimed > min(size - 8, LONGEST_HEADER):
        raise StateError(
            f"{where}: is damaged, its header claims {claimed:,} bytes of a file of {size:,}"
        )
    return 8 + claimed


def places(beginning: bytes | memoryview, size: int, where: object) -> list[Place]:
    """Return where the arrays of a file lie, checked to fill it, one after the other.

    Parameters
    ----------
    beginning : bytes
        All that comes before the arrays, or more.
    size : int
        Of the file, bytes.
    where : object
        Named in errors.
    """
    first = header_bytes(beginning, size, where)
    try:
        entries = json.loads(bytes(beginning[8:first]), object_pairs_hook=_once)
        found = sorted(
            (_place(name, entry) for name, entry in entries.items()),
            key=lambda place: (place.start, place.stop),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StateError(f"{where}: is damaged, its header cannot be read: {error}") from error
    at = 0
    for place in found:
        needed = math.prod(place.shape) * place.dtype.itemsize
        if place.start != at or place.stop - place.start != needed:
            raise StateError(
                f"{where}: is damaged, array {place.name!r} of {needed:,} bytes is placed from "
                f"{place.start:,} to {place.stop:,}, but {at:,} comes next"
            )
        at = place.stop
    if first + at != size:
        raise StateError(
            f"{where}: is damaged, its arrays claim {first + at:,} bytes of a file of {size:,}"
        )
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. Raises `ValueError` if a name is there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _place(name: str, entry: Any) -> Place:
    """Read one entry of a header. Raises `ValueError`, `TypeError` or `KeyError`."""
    start, stop = entry["data_offsets"]
    numbers = [start, stop, *entry["shape"]]
    if set(entry) != {"dtype", "shape", "data_offsets"} or not all(
        type(number) is int and 0 <= number < 2**63 for number in numbers
    ):
        raise ValueError(f"{name!r} is not a dtype, shape and place")
    return Place(name, _DTYPES[entry["dtype"]], tuple(entry["shape"]), start, stop)


def unpack(data: bytes | memoryview, where: object) -> dict[str, NDArray[Any]]:
    """Return the arrays that `pack` was given, each with memory of its own."""
    found = places(data, len(data), where)
    first = header_bytes(data, len(data), where)
    every = np.frombuffer(data, np.uint8)
    arrays: dict[str, NDArray[Any]] = {}
    for name, dtype, shape, start, stop in found:
        part = every[first + start : first + stop]
        if dtype.kind == "b" and part.max(initial=0) > 1:
            raise StateError(f"{where}: is damaged, array {name!r} has a boolean of another value")
        try:
            arrays[name] = part.view(dtype).reshape(shape).copy()
        except ValueError as error:  # more axes, or longer ones of an empty array, than NumPy has
            raise StateError(f"{where}: is damaged, array {name!r}: {error}") from error
    return arrays
