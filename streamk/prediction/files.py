"""A state in one file of safetensors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from streamk.errors import InvalidInput, StateError
from streamk.packing import canonical, pack, unpack
from streamk.state import State

__all__ = ["read", "write"]

_HEADER = "header"
"""The array that holds the state's header, JSON as bytes."""


def write(state: State, path: Path) -> None:
    """Write a state beside the path, and then put it in the place of any file there."""
    header = np.frombuffer(canonical(state.header, indent=None), np.uint8)
    data = pack({**state.arrays, _HEADER: header})
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def read(path: Path) -> State:
    """Return the state that a file holds.

    Raises
    ------
    InvalidInput
        If the file cannot be read.
    StateError
        If it is damaged, or no such file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    arrays = unpack(data, path)
    try:
        return State(json.loads(arrays.pop(_HEADER).tobytes()), arrays)
    except (KeyError, ValueError, AttributeError, InvalidInput) as error:
        raise StateError(f"{path}: is no model that can be read: {error}") from error
