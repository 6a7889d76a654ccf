"""Meaning of options that several estimators have."""

from __future__ import annotations

import math
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.matrices import PRECOMPUTED

POINTS = 1_000
"""Points of a part, on average, where the number of parts is not given."""


def drawn_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return a seed from scikit-learn's random state."""
    return int(check_random_state(random_state).randint(2**31))


def count_of_parts(given: int | None, n: int) -> int:
    """Return into how many parts n points are divided, one for each `POINTS` by default."""
    return max(1, n // POINTS) if given is None else given


def threads_of(n_jobs: int | None) -> int:
    """Return the number of threads: 1 by default, -1 for all cores."""
    return int(effective_n_jobs(n_jobs))


def labels_of(y: Any) -> Any:
    """Return labels as NumPy has them, from a series of any library or what it has as an array.

    scikit-learn takes pandas' nullable whole numbers and booleans as numbers with fractions, of
    which two large ones may be the same.

    Raises
    ------
    InvalidInput
        If one is missing, naming its row, or some are texts and others are not.

    Examples
    --------
    >>> labels_of(["a", None])
    Traceback (most recent call last):
    ...
    streamk.errors.InvalidInput: the label of row 1 is missing (None); leave the event out
    """
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        listed: list[Any] = series.to_list()
        y = series.to_numpy()
    elif isinstance(y, list | tuple) or (isinstance(y, np.ndarray) and y.dtype == object):
        listed = list(y)
    else:
        return y
    for row, label in enumerate(listed):
        if _is_missing(label):
            raise InvalidInput(f"the label of row {row} is missing ({label}); leave the event out")
    if len({isinstance(label, str) for label in listed}) > 1:
        raise InvalidInput("some labels are texts and others are not; make all of them texts")
    return y


def _is_missing(label: Any) -> bool:
    try:
        return label is None or not bool(label == label)
    except (TypeError, ValueError):  # pandas.NA is neither; an array is no label at all
        return not hasattr(label, "__len__")


def check_classes(classes: NDArray[Any]) -> None:
    """Check that labels are of two classes at least.

    Raises
    ------
    InvalidInput
        Naming the one that there is.
    """
    if len(classes) < 2:
        raise InvalidInput(
            f"all labels are of one class, {classes.tolist()[0]!r}; a classifier needs at least two"
        )


def made_kernel(
    kernel: str | Kernel, columns: int, *, bandwidth: float | None, gamma: float | None
) -> str | Kernel:
    """Return the kernel that the options say for points of so many columns, or "precomputed".

    Raises
    ------
    InvalidInput
        If there is no such kernel, or one that is not given by name is given a scale.
    """
    scales = {"bandwidth": bandwidth, "gamma": gamma}
    given = {name: scale for name, scale in scales.items() if scale is not None}
    if isinstance(kernel, str) and kernel != PRECOMPUTED:
        if not given and kernel != "linear":
            # As scikit-learn's gamma=None does: exp(-|x-y|^2 / d), exp(-|x-y|_1 / d). The sum of
            # square roots is of the order of 1 as well.
            far = {"laplacian": columns, "power_exponential": columns**2}
            given = {"bandwidth": float(far.get(kernel, math.sqrt(columns / 2)))}
        return kernels.by_name(kernel, **given)
    kernels.check_scales(kernel, **given)
    return kernel


def kernel_of_points(
    kernel: str | Kernel, columns: int, *, bandwidth: float | None, gamma: float | None
) -> Kernel:
    """Return the kernel that the options say for points of so many columns.

    Raises
    ------
    InvalidInput
        Also if it is "precomputed".
    """
    made = made_kernel(kernel, columns, bandwidth=bandwidth, gamma=gamma)
    if not isinstance(made, Kernel):
        raise InvalidInput(f"kernel={made!r} must be the name of a kernel or a streamk Kernel")
    return made
