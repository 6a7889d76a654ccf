"""What a pool of experts knows, in the scale of another one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import OUTERMOST
from streamk.learners.experts.expert_pool import ExpertPool
from streamk.scaling.quantiles import RunningQuantiles

_OTHER = 1e3
"""Change of a unit after which what was learned in the old one is noise."""


class Scaled(NamedTuple):
    """A pool, and the scales of the columns and of the labels that it learned in."""

    pool: ExpertPool
    scale: RunningQuantiles
    labels: RunningQuantiles


def rescale(guest: Scaled, host: Scaled, both: NDArray[np.bool_]) -> None:
    """Let a pool say in another's scale what it said in its own, before the two are joined.

    Labels and linear experts are converted. There is no such map for random features, whose
    frequencies belong to a scale, nor for tables, whose cells belong to ranks: where the scales
    differ by more than estimates of one stream may, the guest takes what the host knows, so that
    joining leaves that as it is. A mean of the two would be right in neither scale.

    Parameters
    ----------
    guest, host : Scaled
        Of the same columns and classes; the guest's pool is changed.
    both : bool array of shape (d,)
        Columns that both have met.
    """
    if len(host.labels):
        _relabel(guest, host)
    _adopt(guest, host)
    scaled, ranked = host.scale.differ(guest.scale)
    _leave_tables(guest.pool, host.pool, ranked & both)
    if (scaled & both).any():
        for name in ("LADDER_A", "LADDER_SQUARES"):
            guest.pool.arrays[name][...] = host.pool.arrays[name]


def _relabel(guest: Scaled, host: Scaled) -> None:
    """Follow the labels' scale."""
    old = guest.labels
    guest.pool.shift_labels(*unit_change(old.center[0], old.inverse[0], host.labels))


def unit_change(center: float, inverse: float, labels: RunningQuantiles) -> tuple[float, float]:
    """Return factor and shift from labels in the unit of an old scale to those in that of a new."""
    factor = labels.inverse[0] / inverse
    shift = (center - labels.center[0]) * labels.inverse[0]
    return (0.0, 0.0) if max(factor, abs(shift)) > _OTHER else (factor, shift)


def lines(
    host: RunningQuantiles, guest: RunningQuantiles
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return slopes and intercepts (d,) from scaled values of the host to those of the guest.

    Where the host's center is out of the guest's bounds, this is the bound that it is at.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        slope = guest.inverse / host.inverse
        intercept = (host.center - guest.center) * guest.inverse
        near = (slope < _OTHER) & (np.abs(intercept) <= OUTERMOST)
    bound = np.clip(np.nan_to_num(intercept), -OUTERMOST, OUTERMOST)
    return np.where(near, slope, 0.0), bound


def _adopt(guest: Scaled, host: Scaled) -> None:
    """Let the linear experts say of an event in the host's scale what they said in their own.

    Of ``z = (x - center) * inverse`` the guest's is ``a z + b`` of the host's, so a linear model in
    the one is one in the other, but for values that are bounded or missing. The sums of squared
    slopes become those of slopes that do not depend on the event.
    """
    arrays, d = guest.pool.arrays, len(host.scale)
    a, b = lines(host.scale, guest.scale)
    A, squares = arrays["LINEAR_A"], arrays["LINEAR_SQUARES"]
    A[..., -1] += A[..., :d] @ b
    A[..., :d] *= a
    steps = squares[..., -1:]
    moved = (squares[..., :d] + steps * b**2) / np.maximum(a**2, 1e-12)
    squares[..., :d] = np.minimum(moved, steps * OUTERMOST**2)
    if guest.pool.sizes["NEWTON"]:
        T = np.eye(guest.pool.sizes["NEWTON"])
        T[np.arange(d), np.arange(d)], T[:d, -1] = a, b
        arrays["NEWTON_A"][...] = arrays["NEWTON_A"] @ T
        arrays["NEWTON_P"][...] = T.T @ arrays["NEWTON_P"] @ T


def _leave_tables(pool: ExpertPool, keeper: ExpertPool, unlike: NDArray[np.bool_]) -> None:
    """Give a pool the other's tables of the columns whose ranks are unlike."""
    found = keeper.members
    tables = np.repeat(np.arange(len(found.starts) - 1), np.diff(found.starts))
    for table in np.unique(tables[unlike[found.columns]]).tolist():
        some = slice(*keeper.arrays["FIRST"][table : table + 2])
        pool.arrays["CELLS_A"][some] = keeper.arrays["CELLS_A"][some]
        for name in ("FACTORS", "SPREAD"):
            pool.arrays[name][table] = keeper.arrays[name][table]
