"""Checkpoints as bytes: JSON that is written in one way only, and arrays as safetensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from streamk.errors import StateError
from streamk.state import State

__all__ = ["canonical", "fingerprint", "pack", "unpack"]


def fingerprint(state: State) -> str:
    """SHA-256 of a state: equal for equal headers and arrays, on any machine."""
    digest = hashlib.sha256(canonical(state.header))
    digest.update(pack(state.arrays))
    return digest.hexdigest()


def canonical(data: Any, indent: int | None = 1) -> bytes:
    """Return JSON data as bytes: equal for equal data. Raises `ValueError` for NaN and infinity."""
    return json.dumps(data, indent=indent, sort_keys=True, allow_nan=False).encode()


def pack(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return arrays in the format of safetensors."""
    from safetensors.numpy import save

    plain = {}
    for name, array in sorted(arrays.items()):
        # Written as they lie in memory, so they have to lie there in order and little-endian.
        ordered = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        plain[name] = ordered.reshape(array.shape)
    return bytes(save(plain))


def unpack(data: bytes, where: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays that `pack` was given. Raises `StateError` that names `where`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
    except SafetensorError as error:
        raise StateError(f"{where}: {error}") from error
    return {name: a if a.flags.writeable else a.copy() for name, a in arrays.items()}
