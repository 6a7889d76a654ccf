"""The composition of a pool: its experts, their rates, and the sizes of their arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CLASSES, NUMBERS, pool_arrays
from streamk.learners.experts import tables
from streamk.learners.experts.number_loss import kind_of
from streamk.losses import Loss
from streamk.scaling.quantiles import KNOTS

LINEAR, LADDER, GRIDS, WINDOW, NEWTON = "linear", "gaussian", "binning", "window", "newton"
LEVEL = "constant"
BANKS = (LINEAR, LADDER, GRIDS, WINDOW, NEWTON)
"""Experts of one kind, in the order of their scores; after them come those of the constant kernel,
which are always active."""

FEATURES = 256
"""Random features of the Gaussian kernels."""
SHARPNESS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Median distance over bandwidth, over the root of 2."""
ADAGRAD, NORMALIZED, BETTING = 0, 1, 2
LINEAR_RULES = ((ADAGRAD, 0.3), (NORMALIZED, 0.05), (NORMALIZED, 0.5), (BETTING, 1.0))
LADDER_RULES = ((ADAGRAD, 0.3), (NORMALIZED, 0.5))
"""Step rules and their rates. The one that bets comes last and has no rate but a wealth to begin
with, which matters by its logarithm."""
GRID_RULES = ((0.02, 0.1), (0.1, 0.1), (0.5, 0.03))
"""Rates of the cells, and paces of the tables' factors."""
CELLS = 1 << 22
"""Numbers in the cells of a rule, at most."""
RECENT, WINDOW_BYTES = 1000, 4 << 20
"""Events in the smoothers' window, and the memory that they may take."""
NEWTON_COLUMNS = 64
"""Columns up to which there is a second-order expert: its time grows with their square."""
ALPHAS = (1e-3, 1e-3)
"""Rates of change of the fixed shares: of predictions as they are, and of calibrated ones."""
GRADIENT_RATE = 2e-3
NEWTON_STARTS = (0.01, 0.1)
NEWTON_FORGETS = (0.9998, 0.999)
"""Of the products of experts: one that moves along gradients, the others by Newton steps."""
FURTHEST = 20.0
"""Bound of a regression's labels, in units of their spread; and of what experts say."""


def banks_of(newton: int) -> tuple[str, ...]:
    """Return the bank of each expert of the pool itself, with so many features of second order."""
    return (
        *(LINEAR for _ in LINEAR_RULES),
        *(LADDER for _ in SHARPNESS for _ in LADDER_RULES),
        *(GRIDS for _ in tables.GROUPS for _ in GRID_RULES),
        *(WINDOW for _ in range(pool_arrays.SMOOTHERS)),
        *(NEWTON for _ in range(newton > 0)),
        *(LEVEL for _ in pool_arrays.LEVEL_RATES),
    )


def cells_of(columns: int, outputs: int) -> NDArray[np.int64]:
    """Return the cells of each table of random binning, not folded, of so many columns."""
    return tables.slots(tables.widths(columns), outputs, CELLS)


def sizes_of(
    task: int,
    classes: int,
    columns: int,
    capacity: int,
    output_room: int,
    external_experts: Sequence[str],
    loss: Loss | None,
    most_cells: int,
) -> dict[str, int]:
    """Return the sizes of a pool, see `streamk.backends.pool_arrays`, without making it."""
    outputs = classes if task == CLASSES else 1
    newton = capacity + 1 if capacity <= NEWTON_COLUMNS else 0
    products = 1 + len(NEWTON_STARTS)
    return pool_arrays.derived(
        {
            "TASK": task,
            "COLUMNS": capacity,
            "FEATURES": FEATURES,
            "BANDWIDTHS": len(SHARPNESS),
            "OUTPUTS": outputs,
            "CLASSES": 1 if task == NUMBERS else classes,
            "TABLES": tables.TABLES,
            "GROUPS": len(tables.GROUPS),
            "MEMBERS": int(tables.widths(columns).sum()),
            "SLOTS": int(tables.starts_of(cells_of(columns, outputs), most_cells)[-1]),
            "EXPERTS": len(banks_of(newton)) + len(external_experts),
            "WINDOW": max(16, min(RECENT, WINDOW_BYTES // (4 * capacity))),
            "LINEAR_RULES": len(LINEAR_RULES),
            "LADDER_RULES": len(LADDER_RULES),
            "GRID_RULES": len(GRID_RULES),
            "NEWTON": newton,
            "LEVELS": KNOTS,
            "MIXERS_SHARE": len(ALPHAS),
            "MIXERS_PRODUCT": products,
            "MIXERS": len(ALPHAS) + products + 1,
            "LOSS": kind_of(loss),
            "EXTERNAL": len(external_experts),
            "OUTPUT_ROOM": output_room,
        }
    )
