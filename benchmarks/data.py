"""The data sets of the benchmarks: arrays in .npz files, or generated ones of the same shape."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

VARIABLE = "STREAMK_DATA"


class DataError(Exception):
    """A data set cannot be had; the message says which and what to do."""


@dataclass(frozen=True)
class Shape:
    """What a data set is known to look like: the labels in `y`, as in the file."""

    columns: int
    labels: tuple[int, ...] | None
    """None: numbers, NaN where there is none."""
    positive: int | None = None
    """The label that is True, of a set with two classes."""


SETS = {
    "elec2": Shape(8, (0, 1), positive=1),
    "covtype_subset93k": Shape(54, (1, 2, 3, 4, 5, 6, 7)),
    "a9a": Shape(123, (-1, 1), positive=1),
    "airlines_h2o_44k": Shape(11, (0, 1), positive=1),
    "rialto": Shape(27, tuple(range(10))),
    "gmsc": Shape(10, (0, 1), positive=1),
    "letter": Shape(16, tuple(range(26))),
    "kdd99_10pct": Shape(41, tuple(range(23))),
    "cadata_california_housing": Shape(8, None),
    "beijing_pm25": Shape(11, None),
    "house_16H": Shape(16, None),
    "cpusmall": Shape(12, None),
    "abalone": Shape(8, None),
    "wine_quality": Shape(11, None),
    "pendigits": Shape(16, tuple(range(10))),
    "ijcnn1": Shape(22, (-1, 1), positive=1),
    "mnist": Shape(784, tuple(range(10))),
    "fashion_mnist": Shape(784, tuple(range(10))),
    "arena_adult": Shape(14, tuple(range(4))),
    "arena_airlines": Shape(7, (0, 1), positive=1),
    "arena_covtype_100k": Shape(54, tuple(range(7))),
    "arena_fried": Shape(10, None),
    "arena_metro_traffic": Shape(7, None),
}


@dataclass(frozen=True)
class Dataset:
    """Events in their order: X float32 (n, d), NaN where missing.

    y is bool for two classes, int for more, float for numbers to be predicted.
    `test` holds the rows of a canonical test part, if there is one.
    """

    name: str
    X: NDArray[np.float32]
    y: NDArray[Any]
    columns: tuple[str, ...]
    test: tuple[NDArray[np.float32], NDArray[Any]] | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def task(self) -> str:
        """The task of a learner, by the labels."""
        return "regression" if self.y.dtype.kind == "f" else "classification"

    def first(self, n: int) -> Dataset:
        """The first n events; 0 is all."""
        return replace(self, X=self.X[:n], y=self.y[:n]) if n else self

    def events(self, start: int, stop: int) -> Iterator[tuple[dict[str, float], Any]]:
        """Events as dicts without what is missing, each with its label."""
        labels = self.y[start:stop].tolist()
        for row, label in zip(self.X[start:stop].tolist(), labels, strict=True):
            yield {c: v for c, v in zip(self.columns, row, strict=True) if v == v}, label

    def describe(self) -> dict[str, Any]:
        """Shape, classes and a fingerprint of the numbers, for the record."""
        return {
            "events": len(self),
            "columns": len(self.columns),
            "classes": len(np.unique(self.y)),
            "sha256": fingerprint(self.X, self.y.astype(np.int64)),
        }


def fingerprint(*arrays: NDArray[Any]) -> str:
    """SHA-256 of the numbers of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


Directory = str | os.PathLike[str] | None


def load(name: str, directory: Directory, *, quick: bool = False) -> Dataset:
    """The data set `name` of a directory (default: the environment's); see docs/data.md.

    With `quick` its first events or, where no directory is given, generated ones.

    Raises
    ------
    DataError
        If there is none, or it is not the set that is meant.
    """
    if quick and not (directory or os.environ.get(VARIABLE)):
        return _generated(name)
    path, arrays = read(name, directory)
    found = _checked(name, path, arrays)
    return found.first(QUICK) if quick else found


def read(name: str, directory: Directory) -> tuple[Path, dict[str, NDArray[Any]]]:
    """The file of a data set, and the arrays in it."""
    directory = directory or os.environ.get(VARIABLE)
    if not directory:
        raise DataError(
            f"no directory of data sets: give --data DIR or set {VARIABLE}; docs/data.md says where"
            " to get each set (--quick runs on generated data)"
        )
    path = Path(directory) / f"{name}.npz"
    try:
        with np.load(path) as file:
            return path, dict(file)
    except (OSError, ValueError) as error:
        reason = "is not there" if not path.is_file() else f"cannot be read: {error}"
        raise DataError(
            f"data set {name}: {path} {reason}; docs/data.md says where to get it and in which form"
        ) from None


def _checked(name: str, path: Path, arrays: dict[str, NDArray[Any]]) -> Dataset:
    shape = SETS[name]
    missing = [key for key in ("X", "y") if key not in arrays]
    if missing or arrays["X"].shape != (len(arrays["y"]), shape.columns):
        what = f"no array {missing[0]!r}" if missing else f"X of shape {arrays['X'].shape}"
        raise DataError(f"{path}: {what}, not (events, {shape.columns}); see docs/data.md")
    odd = np.setdiff1d(arrays["y"], shape.labels) if shape.labels is not None else ()
    if len(odd):
        raise DataError(f"{path}: label {odd[0]} is none of {shape.labels}; see docs/data.md")
    names = arrays.get("feature_names", np.arange(shape.columns))
    test = None
    if "X_test" in arrays:
        test = (arrays["X_test"].astype(np.float32), _labels(shape, arrays["y_test"]))
    return Dataset(
        name,
        arrays["X"].astype(np.float32),
        _labels(shape, arrays["y"]),
        tuple(str(n) for n in names),
        test,
    )


def _labels(shape: Shape, y: NDArray[Any]) -> NDArray[Any]:
    if shape.labels is None:
        return y.astype(np.float64)
    return y.astype(np.int64) if shape.positive is None else y == shape.positive


QUICK = 280


def _generated(name: str) -> Dataset:
    """Events whose class depends on the first two columns, to try the code on."""
    shape, rng = SETS[name], np.random.default_rng(1)
    X = rng.normal(size=(2 * QUICK, shape.columns)).astype(np.float32)
    angle = np.arctan2(X[:, 1], X[:, 0]) / (2 * np.pi) + 0.5
    y = angle
    if shape.labels is not None:
        y = np.asarray(shape.labels)[(angle * len(shape.labels)).astype(int) % len(shape.labels)]
    columns = tuple(f"x{j}" for j in range(shape.columns))
    X[5, -1] = np.nan if name == "airlines_h2o_44k" else 0.0
    y = _labels(shape, y)
    return Dataset(name, X[:QUICK], y[:QUICK], columns, (X[QUICK:], y[QUICK:]))
