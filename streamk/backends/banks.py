"""The banks of a pool's experts: each kind of expert is one record here, and one file of loops.

A bank has experts that look at the same of an event, and that are active or inactive together. Its
record says how many there are, by which rules they step, and what arrays they have. The order of
scores, the masks of active experts, the arrays of a pool, the check of its state, and what becomes
of it where labels get another unit or columns and classes are added, follow from the records. The
loops are in the bank's file below `streamk.backends.numba_backend.experts`, where `banks` calls
them. Nothing here needs numba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from streamk.declared import Declared, Domain

Sizes: TypeAlias = Mapping[str, int]
"""By the names in `streamk.backends.pool_arrays.SIZES`."""

ADAGRAD, NORMALIZED, BETTING = 0, 1, 2
"""Step rules: ``rate / sqrt(sum of squared gradients)`` for each coefficient (Duchi et al. 2011);
``rate / |features|^2`` (normalized least mean squares, Nagumo and Noda 1967); and the one that
bets, which comes last and has no rate but a wealth to begin with, which matters by its logarithm.
"""
RULES = 4
"""Rules that a cell of random binning has room for, side by side."""
SMOOTHERS = 7
"""Experts of the window: kernels of two kinds at several sharpnesses."""
APART, WIDTH = 4, 8
"""Sums of a class of the smoothers that go on side by side, and numbers in each: one for each
smoother, and room."""
LEVEL_RATES = (1.0, 0.2, 0.01)
"""Of the experts of the constant kernel."""

WIDE = Domain(-1e30, 1e30)
"""Of coefficients: what follows from them in single precision is finite. Those of real streams are
some 10^20 times smaller."""
_SQUARES = Domain(0.0, 1e30)
_CELLS = Domain(-1e17, 1e17)
"""Slopes in the factors of tables, which are squared, are up to 20 times as large."""

COEFFICIENT, SIGNED, UNSIGNED = (-0.5, 0.5), (-1.0, 1.0), (1.0, 1.0)
"""Factors from a logit's number to those of two outputs: of a coefficient, of a number with a sign
but no unit, of one without a sign."""


@dataclass(frozen=True)
class Learned(Declared):
    """An array that learning changes, and what becomes of it as the stream goes on.

    Parameters
    ----------
    split : tuple of float, optional
        Factors from a logit's number to those of two outputs, of arrays with an axis of outputs or
        columns: a new pool takes these over by their names. The others are taken over by
        `streamk.learners.multi_kernel.pool_growth`, each in its own way.
    unit : {"", "factor", "affine", "value"}
        How labels in another unit change it: not by this record, but perhaps by
        `streamk.learners.multi_kernel.expert_pool.ExpertPool.shift_labels`; by a factor; by a
        factor, and the last column by a shift; all of it by both.
    """

    split: tuple[float, float] | None = None
    unit: Literal["", "factor", "affine", "value"] = ""


@dataclass(frozen=True)
class Bank:
    """Experts of one kind.

    Parameters
    ----------
    name : str
    experts : callable
        How many there are, of the sizes of a pool.
    learned, following, room, workspace : tuple of Declared
        Arrays that learning changes and a state holds; that follow from columns, seed, scale and
        options; that a forecast writes; and that learning writes.
    rules : tuple of (int, float)
        Step rules and rates of experts side by side, if they descend gradients.
    """

    name: str
    experts: Callable[[Sizes], int]
    learned: tuple[Learned, ...] = ()
    following: tuple[Declared, ...] = ()
    room: tuple[Declared, ...] = ()
    workspace: tuple[Declared, ...] = ()
    rules: tuple[tuple[float, float], ...] = ()


_LINEAR = ("LINEAR_RULES", "OUTPUT_ROOM", ("COLUMNS", 1))
_BETS = ("OUTPUTS", ("COLUMNS", 1))

LINEAR = Bank(
    "linear",
    lambda sizes: sizes["LINEAR_RULES"],
    learned=(
        Learned("linear_a", "float32", _LINEAR, WIDE, COEFFICIENT, "affine"),
        Learned("linear_squares", "float32", _LINEAR, _SQUARES, UNSIGNED),
        # Of the rule that bets, the last one: stakes, what was won, and the largest slopes.
        Learned("linear_bets", "float32", _BETS, Domain(-0.51, 0.51), SIGNED),
        Learned("linear_gains", "float32", _BETS, Domain(0.0, 1e12), UNSIGNED),
        Learned("linear_largest", "float32", _BETS, Domain(0.0, 1e4), UNSIGNED),
    ),
    following=(
        Declared("linear_rates", "float64", ("LINEAR_RULES",)),
        Declared("linear_kinds", "int64", ("LINEAR_RULES",)),
    ),
    rules=((ADAGRAD, 0.3), (NORMALIZED, 0.05), (NORMALIZED, 0.5), (BETTING, 1.0)),
)
"""Linear models of the scaled columns."""

_LADDER = ("BANDWIDTHS", "LADDER_RULES", "OUTPUT_ROOM", "FEATURES")

GAUSSIAN = Bank(
    "gaussian",
    lambda sizes: sizes["BANDWIDTHS"] * sizes["LADDER_RULES"],
    learned=(
        Learned("ladder_a", "float32", _LADDER, WIDE, COEFFICIENT, "factor"),
        Learned("ladder_squares", "float32", _LADDER, _SQUARES, UNSIGNED),
    ),
    following=(
        Declared("projection", "float32", ("COLUMNS", "FEATURES")),
        Declared("phases", "float32", ("FEATURES",)),
        Declared("scales", "float64", ("BANDWIDTHS",)),
        Declared("ladder_rates", "float64", ("LADDER_RULES",)),
        Declared("ladder_kinds", "int64", ("LADDER_RULES",)),
    ),
    room=(
        Declared("u", "float32", ("FEATURES",)),
        Declared("phi", "float32", ("BANDWIDTHS", "FEATURES")),
    ),
    rules=((ADAGRAD, 0.3), (NORMALIZED, 0.5)),
)
"""Linear models of Gaussian random features, at each bandwidth of a ladder."""

_TABLES = ("TABLES", RULES)

BINNING = Bank(
    "binning",
    lambda sizes: sizes["GROUPS"] * sizes["GRID_RULES"],
    learned=(
        # For each output the coefficients of the rules, then their sums of squared slopes, then
        # nothing; a row begins on a cache line.
        Learned("cells_a", "float32", ("SLOTS", "LINE"), _CELLS),
        Learned("factors", "float32", _TABLES, Domain(0.01, 8.0)),
        Learned("spread", "float32", _TABLES, Domain(0.0, 1e38)),
    ),
    following=(
        # Where a group's columns start among the members, which lie as (columns of a table, tables
        # of the group), and where its tables start; whether these are of all columns.
        Declared("starts", "int64", (("GROUPS", 1),)),
        Declared("group", "int64", (("GROUPS", 1),)),
        Declared("of_all", "bool", ("GROUPS",)),
        Declared("members_of", "int32", ("MEMBERS",)),
        Declared("shifts", "float32", ("MEMBERS",)),
        # Strides of the bins, of a table with a cell for each of them; else random.
        Declared("multipliers", "int32", ("MEMBERS",)),
        Declared("bins", "float32", ("TABLES",)),
        # A table's first cell, and by how many bits a sum is shifted down to the number of a cell.
        Declared("first", "int32", (("TABLES", 1),)),
        Declared("down", "int32", ("TABLES",)),
        Declared("grid_rates", "float32", _TABLES),  # 0 for a rule that is not used
        Declared("grid_paces", "float32", _TABLES),
    ),
    room=(
        Declared("cells", "int32", ("TABLES",)),
        # Coefficients of the event's cells, if there is one output; outputs, laid out as a cell is.
        Declared("gathered", "float32", _TABLES),
        Declared("side", "float32", ("GROUPS", "SIDE_LINE")),
    ),
    workspace=(
        Declared("cell_slopes", "float32", _TABLES),
        Declared("cell_squares", "float32", _TABLES),
        Declared("cell_steps", "float32", _TABLES),
        Declared("taken", "float32", (RULES,)),  # squares of slopes
    ),
    rules=((0.02, 0.1), (0.1, 0.1), (0.5, 0.03)),
)
"""Sums over tables of random binning, for each group of tables. Its rules are rates of the cells,
and paces of the tables' factors."""

WINDOW = Bank(
    "window",
    lambda _: SMOOTHERS,
    learned=(
        Learned("window_z", "float32", ("COLUMNS", "WINDOW"), Domain(-1e4, 1e4)),
        Learned("window_y", "float32", ("WINDOW",), WIDE, unit="value"),
    ),
    room=(
        Declared("distances", "float32", ("WINDOW",)),
        Declared("weights", "float32", (2, "WINDOW")),
        # Of weights and of weights times labels, or by class.
        Declared("sums", "float32", (APART, "SUMMED", WIDTH)),
    ),
)
"""Kernel smoothers over the last events."""

NEWTON = Bank(
    "newton",
    lambda sizes: min(sizes["NEWTON"], 1),
    learned=(
        Learned(
            *("newton_a", "float32", ("OUTPUTS", "NEWTON"), Domain(-1e15, 1e15)),
            split=COEFFICIENT,
            unit="affine",
        ),
        Learned(
            *("newton_p", "float32", ("NEWTON", "NEWTON"), Domain(-1e12, 1e12)), split=UNSIGNED
        ),
    ),
    workspace=(Declared("newton_step", "float32", ("NEWTON",)),),
)
"""Recursive least squares with forgetting, where columns are few."""

CONSTANT = Bank(
    "constant",
    lambda _: len(LEVEL_RATES),
    learned=(Learned("level", "float32", (len(LEVEL_RATES), "CLASSES"), WIDE, unit="value"),),
)
"""Labels alone, smoothed at several rates; always active."""

BANKS = (LINEAR, GAUSSIAN, BINNING, WINDOW, NEWTON, CONSTANT)
"""In the order of their scores. The last one is always active, the others as they are needed."""


def banks_of(sizes: Sizes) -> list[int]:
    """Return the number of each expert's bank, of a pool of such sizes."""
    return [place for place, bank in enumerate(BANKS) for _ in range(bank.experts(sizes))]
