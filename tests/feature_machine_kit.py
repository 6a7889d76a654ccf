"""Events and comparisons for the tests of feature machines."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamk.state import State


def same(one: State, other: State) -> bool:
    """Return whether two states are the same bits."""
    arrays = one.arrays.keys() == other.arrays.keys() and all(
        np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items()
    )
    return one.header == other.header and arrays


def friedman(n: int, seed: int = 0, noise: float = 0.1) -> tuple[Any, Any]:
    """Return numbers of columns 0 to 2; columns 3 to 5 do not matter."""
    random = np.random.default_rng(seed)
    X = random.uniform(size=(n, 6))
    y = np.sin(3.0 * X[:, 0] * X[:, 1]) + 2.0 * (X[:, 2] - 0.5) ** 2
    return X, (y + noise * y.std() * random.normal(size=n))[:, None]


forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def in_fork(work: Callable[[], Any]) -> Any:
    """Return what work gives in a forked process."""
    context: Any = multiprocessing.get_context("fork")
    found = context.Queue()
    child = context.Process(target=lambda: found.put(work()))
    child.start()
    result = found.get(timeout=60.0)
    child.join()
    return result
