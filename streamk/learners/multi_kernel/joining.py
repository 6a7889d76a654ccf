"""Pools of experts that learned in other scales, converted before they are joined."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import BINARY, CLASSES, NUMBERS, OUTERMOST, loops
from streamk.backends.threads import one_blas_thread
from streamk.learners.common.classes import Classes
from streamk.learners.multi_kernel import binning_tables, pool_growth
from streamk.learners.multi_kernel.expert_pool import ExpertPool
from streamk.learners.multi_kernel.mixture import ExpertMixture
from streamk.learners.multi_kernel.units import (
    OTHER_UNIT,
    ScaledColumns,
    Targets,
    unit_change,
    unit_of,
)
from streamk.learners.multi_kernel.upkeep import REVIEW_EVERY
from streamk.scaling.labels import LabelQuantiles
from streamk.scaling.quantiles import RunningQuantiles


class Parts(NamedTuple):
    """The parts of a learner of many kernels that are merged."""

    mixture: ExpertMixture
    columns: ScaledColumns
    targets: Targets
    classes: Classes


class InScale(NamedTuple):
    """A pool, and the scales of the columns and of the labels that it learned in."""

    pool: ExpertPool
    scale: RunningQuantiles
    labels: LabelQuantiles


def merge(
    mine: Parts, other: Parts, began: Parts | None, both: NDArray[np.bool_], common_events: int
) -> None:
    """Have parts take in what others, whose columns and classes they know, have learned since then.

    Parameters
    ----------
    mine, other : Parts
    began : Parts or None
        What both were after `common_events`, if that is known.
    both : bool array of shape (d,)
        Columns that both have met.
    """
    (mixture, columns, targets, classes), theirs = mine, other.mixture
    names, before = columns.names or (), max(mixture.n_events, theirs.n_events)
    apart = theirs.n_events - common_events
    share = apart / max(1, apart + mixture.n_events - common_events)
    one, two, *rest = (aligned(some, mine) for some in (mine, other, began) if some is not None)
    source = InScale(two, other.columns.scale_of(names), other.targets.label_scale)
    target = InScale(one, columns.scale, targets.label_scale)
    if mixture.external:
        mixture.external.update_columns_and_classes(names, classes.labels, columns.scale)
        unit = unit_change(other.targets.unit, targets.unit)
        ours = mixture.n_events - common_events
        mixture.external.merge(
            theirs.external, common_events, (ours, apart), both, unit, ahead=share > 0.5
        )
    mixture.upkeep.join(theirs.upkeep, share)
    if share > 0.5:
        source, target, share = target, source, 1.0 - share
        mixture.errors = copy.deepcopy(theirs.errors)
    mixture.n_events += apart
    most = max(
        binning_tables.most_after(mixture.n_events),
        *(pool.most_cells for pool in (one, two, *rest)),
    )
    for pool in (one, two, *rest):
        pool.add_cells(most)
    rescale(source, target, both)
    target.pool.join(source.pool, share, *rest)
    target.scale.join(source.scale, share, mixture.n_events)
    columns.scale, targets.label_scale = target.scale, copy.deepcopy(target.labels)
    mixture.use_pool(target.pool, columns, classes.labels)
    mixture.restart_if_woken()
    since_review = target.pool.arrays["BANK_COSTS"][loops.mixture.EVENTS]
    if mixture.n_events // REVIEW_EVERY > before // REVIEW_EVERY and since_review:
        mixture.review()


def aligned(parts: Parts, target: Parts) -> ExpertPool:
    """Return a copy of a pool with the columns and the classes of a target.

    It is a new one even where the shapes are alike, so that it does not depend on the room that a
    pool has in memory, which is not part of its state.
    """
    pool, mine, here = parts.mixture.pool, target.mixture.pool, target.classes
    classes = max(2, len(here))
    task = pool.task if pool.task == NUMBERS else (CLASSES if classes > 2 else BINARY)
    order = [here.number(label) or 0 for label in parts.classes.labels]
    order += [n for n in range(classes) if n not in order][: pool.classes - len(order)]
    new = pool_growth.successor(pool, mine.keys, task, classes, mine.capacity, order=order)
    new.arrays["BANK_COSTS"][...] = pool.arrays["BANK_COSTS"]
    return new


def rescale(source: InScale, target: InScale, both: NDArray[np.bool_]) -> None:
    """Convert a pool into the scale of another, before the two are joined.

    Labels and linear experts are converted. There is no such map for random features, whose
    frequencies belong to a scale, nor for tables, whose cells belong to ranks: where the scales
    differ by more than estimates of one stream may (a scale or distance by 30%, a center by 0.3
    scales, a rank by 0.06), the source takes what the target knows, so that joining leaves that as
    it is. A mean of the two would be right in neither scale.

    Parameters
    ----------
    source, target : InScale
        Of the same columns and classes; the source's pool is changed.
    both : bool array of shape (d,)
        Columns that both have met.
    """
    if len(target.labels):
        units = unit_of(source.labels), unit_of(target.labels)
        source.pool.shift_labels(*unit_change(*units))
    _adopt(source, target)
    scaled, ranked = target.scale.differ(source.scale)
    _leave_tables(source.pool, target.pool, ranked & both)
    if (scaled & both).any():
        for name in ("GAUSSIAN_A", "GAUSSIAN_SQUARES"):
            source.pool.arrays[name][...] = target.pool.arrays[name]


def lines(
    target: RunningQuantiles, source: RunningQuantiles
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return slopes and intercepts (d,) from scaled values of the target to those of the source.

    Where the target's center is out of the source's bounds, this is the bound that it is at.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        slope = source.inverse / target.inverse
        intercept = (target.center - source.center) * source.inverse
        near = (slope < OTHER_UNIT) & (np.abs(intercept) <= OUTERMOST)
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
    if source.pool.sizes["NEWTON_FEATURES"]:
        T = np.eye(source.pool.sizes["NEWTON_FEATURES"])
        T[np.arange(d), np.arange(d)], T[:d, -1] = a, b
        with one_blas_thread():
            arrays["NEWTON_A"][...] = arrays["NEWTON_A"] @ T
            arrays["NEWTON_P"][...] = T.T @ arrays["NEWTON_P"] @ T


def _leave_tables(pool: ExpertPool, kept: ExpertPool, unlike: NDArray[np.bool_]) -> None:
    """Give a pool the other's tables of the columns whose ranks are unlike."""
    found = kept.members
    table_of = np.repeat(np.arange(len(found.starts) - 1), np.diff(found.starts))
    for table in np.unique(table_of[unlike[found.columns]]).tolist():
        some = slice(*kept.arrays["BINNING_STARTS"][table : table + 2])
        pool.arrays["BINNING_CELLS"][some] = kept.arrays["BINNING_CELLS"][some]
        for name in ("BINNING_WEIGHTS", "BINNING_WEIGHT_SQUARES"):
            pool.arrays[name][table] = kept.arrays[name][table]
