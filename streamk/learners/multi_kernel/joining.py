"""Pools of experts that learned in other scales, converted before they are joined."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import OUTERMOST
from streamk.backends.threads import one_blas_thread
from streamk.learners.multi_kernel.expert_pool import ExpertPool
from streamk.scaling.labels import LabelQuantiles
from streamk.scaling.quantiles import RunningQuantiles

_OTHER = 1e3
"""Change of a unit after which what was learned in the old one is noise."""


class InScale(NamedTuple):
    """A pool, and the scales of the columns and of the labels that it learned in."""

    pool: ExpertPool
    scale: RunningQuantiles
    labels: LabelQuantiles


def rescale(source: InScale, target: InScale, both: NDArray[np.bool_]) -> None:
    """Convert a pool into the scale of another, before the two are joined.

    Labels and linear experts are converted. There is no such map for random features, whose
    frequencies belong to a scale, nor for tables, whose cells belong to ranks: where the scales
    differ by more than estimates of one stream may, the source takes what the target knows, so that
    joining leaves that as it is. A mean of the two would be right in neither scale.

    Parameters
    ----------
    source, target : InScale
        Of the same columns and classes; the source's pool is changed.
    both : bool array of shape (d,)
        Columns that both have met.
    """
    if len(target.labels):
        _relabel(source, target)
    _adopt(source, target)
    scaled, ranked = target.scale.differ(source.scale)
    _leave_tables(source.pool, target.pool, ranked & both)
    if (scaled & both).any():
        for name in ("LADDER_A", "LADDER_SQUARES"):
            source.pool.arrays[name][...] = target.pool.arrays[name]


def _relabel(source: InScale, target: InScale) -> None:
    """Follow the labels' scale."""
    old = source.labels
    source.pool.shift_labels(*unit_change(old.center[0], old.inverse[0], target.labels))


def unit_change(center: float, inverse: float, labels: RunningQuantiles) -> tuple[float, float]:
    """Return factor and shift from labels in the unit of an old scale to those in that of a new."""
    factor = labels.inverse[0] / inverse
    shift = (center - labels.center[0]) * labels.inverse[0]
    return (0.0, 0.0) if max(factor, abs(shift)) > _OTHER else (factor, shift)


def lines(
    target: RunningQuantiles, source: RunningQuantiles
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return slopes and intercepts (d,) from scaled values of the target to those of the source.

    Where the target's center is out of the source's bounds, this is the bound that it is at.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        slope = source.inverse / target.inverse
        intercept = (target.center - source.center) * source.inverse
        near = (slope < _OTHER) & (np.abs(intercept) <= OUTERMOST)
    bound = np.clip(np.nan_to_num(intercept), -OUTERMOST, OUTERMOST)
    return np.where(near, slope, 0.0), bound


def _adopt(source: InScale, target: InScale) -> None:
    """Convert the linear experts into the target's scale: their outputs for an event stay.

    Of ``z = (x - center) * inverse`` the source's is ``a z + b`` of the target's, so a linear model
    in the one is one in the other, but for values that are bounded or missing. The sums of squared
    slopes become those of slopes that do not depend on the event.
    """
    arrays, d = source.pool.arrays, len(target.scale)
    a, b = lines(target.scale, source.scale)
    A, squares = arrays["LINEAR_A"], arrays["LINEAR_SQUARES"]
    A[..., -1] += A[..., :d] @ b
    A[..., :d] *= a
    steps = squares[..., -1:]
    moved = (squares[..., :d] + steps * b**2) / np.maximum(a**2, 1e-12)
    squares[..., :d] = np.minimum(moved, steps * OUTERMOST**2)
    if source.pool.sizes["NEWTON"]:
        T = np.eye(source.pool.sizes["NEWTON"])
        T[np.arange(d), np.arange(d)], T[:d, -1] = a, b
        with one_blas_thread():
            arrays["NEWTON_A"][...] = arrays["NEWTON_A"] @ T
            arrays["NEWTON_P"][...] = T.T @ arrays["NEWTON_P"] @ T


def _leave_tables(pool: ExpertPool, kept: ExpertPool, unlike: NDArray[np.bool_]) -> None:
    """Give a pool the other's tables of the columns whose ranks are unlike."""
    found = kept.members
    tables = np.repeat(np.arange(len(found.starts) - 1), np.diff(found.starts))
    for table in np.unique(tables[unlike[found.columns]]).tolist():
        some = slice(*kept.arrays["FIRST"][table : table + 2])
        pool.arrays["CELLS_A"][some] = kept.arrays["CELLS_A"][some]
        for name in ("FACTORS", "SPREAD"):
            pool.arrays[name][table] = kept.arrays[name][table]
