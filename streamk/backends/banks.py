"""The banks of a pool's experts: each kind of expert is one record here, and one file of loops.

A bank has experts that look at the same of an event, and that are active or inactive together. Its
record says how many there are, by which rules they step, and what arrays they have. The order of
scores, the masks of active experts, the arrays of a pool, the check of its state, and what becomes
of it where labels get another unit or columns and classes are added, follow from the records. The
loops are in the bank's file below `streamk.backends.numba_backend.experts`, where `all_banks` calls
them. Nothing here needs numba. Arrays and sizes of a bank begin with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from streamk.backends import NUMBERS
from streamk.declared import Declared, Domain

PoolSizes: TypeAlias = Mapping[str, int]
"""By the names in `streamk.backends.pool_arrays.SIZES`."""

ADAGRAD, NORMALIZED, BETTING = 0, 1, 2
"""Step rules: ``rate / sqrt(sum of squared gradients)`` for each coefficient (Duchi et al. 2011);
``rate / |features|^2`` (normalized least mean squares, Nagumo and Noda 1967); and the one that
bets, which comes last and has no rate but a wealth to begin with, which matters by its logarithm.
"""
RULES = 4
"""Rules that a cell of random binning has room for, side by side."""
GAUSSIAN_FEATURES = 256
"""Random features, at each bandwidth."""
GAUSSIAN_SHARPNESS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Median distance over bandwidth, over the root of 2."""
WINDOW_EVENTS, WINDOW_BYTES = 1000, 4 << 20
"""Events that smoothers look at, and the memory that they may take."""
SMOOTHERS = 7
"""Experts of the window: kernels of two kinds at several sharpnesses."""
APART, WIDTH = 4, 8
"""Sums of a class of the smoothers that go on side by side, and numbers in each: one for each
smoother, and room."""
NEWTON_COLUMNS = 64
"""Columns up to which there is this bank: its time grows with their square."""
CONSTANT_RATES = (1.0, 0.2, 0.01)
"""Of the experts of the constant kernel."""
CHAIN_LABELS = 256
"""Labels, the first ones, of which the constant kernel knows what label follows them."""

WIDE = Domain(-1e30, 1e30)
"""Of coefficients: what follows from them in single precision is finite. Those of real streams are
some 10^20 times smaller."""
_SQUARES = Domain(0.0, 1e30)
_CELLS = Domain(-1e17, 1e17)
"""Slopes in the weights of tables, which are squared, are up to 20 times as large."""

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
    learned, following, forecasting, learning : tuple of Declared
        Arrays that learning changes and a state holds; that follow from columns, seed, scale and
        options; that forecasting writes; and that learning writes.
    rules : tuple of (float, float)
        Of experts side by side, if they descend gradients: step rule and rate; of random binning
        the rate of its cells, and of its tables' weights.
    """

    name: str
    experts: Callable[[PoolSizes], int]
    learned: tuple[Learned, ...] = ()
    following: tuple[Declared, ...] = ()
    forecasting: tuple[Declared, ...] = ()
    learning: tuple[Declared, ...] = ()
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

_GAUSSIAN = ("GAUSSIAN_BANDWIDTHS", "GAUSSIAN_RULES", "OUTPUT_ROOM", "GAUSSIAN_FEATURES")

GAUSSIAN = Bank(
    "gaussian",
    lambda sizes: sizes["GAUSSIAN_BANDWIDTHS"] * sizes["GAUSSIAN_RULES"],
    learned=(
        Learned("gaussian_a", "float32", _GAUSSIAN, WIDE, COEFFICIENT, "factor"),
        Learned("gaussian_squares", "float32", _GAUSSIAN, _SQUARES, UNSIGNED),
    ),
    following=(
        Declared("gaussian_projection", "float32", ("COLUMNS", "GAUSSIAN_FEATURES")),
        Declared("gaussian_offsets", "float32", ("GAUSSIAN_FEATURES",)),
        Declared("gaussian_scales", "float64", ("GAUSSIAN_BANDWIDTHS",)),
        Declared("gaussian_rates", "float64", ("GAUSSIAN_RULES",)),
        Declared("gaussian_kinds", "int64", ("GAUSSIAN_RULES",)),
    ),
    forecasting=(
        Declared("gaussian_u", "float32", ("GAUSSIAN_FEATURES",)),
        Declared("gaussian_phi", "float32", ("GAUSSIAN_BANDWIDTHS", "GAUSSIAN_FEATURES")),
    ),
    rules=((ADAGRAD, 0.3), (NORMALIZED, 0.5)),
)
"""Linear models of Gaussian random features, at each bandwidth of a ladder."""

_BINNING = ("BINNING_TABLES", RULES)

BINNING = Bank(
    "binning",
    lambda sizes: sizes["BINNING_GROUPS"] * sizes["BINNING_RULES"],
    learned=(
        # For each output the coefficients of the rules, then their sums of squared slopes, then
        # nothing; a row begins on a cache line.
        Learned("binning_cells", "float32", ("BINNING_SLOTS", "BINNING_LINE"), _CELLS),
        Learned("binning_weights", "float32", _BINNING, Domain(0.01, 8.0)),
        Learned("binning_weight_squares", "float32", _BINNING, Domain(0.0, 1e38)),
    ),
    following=(
        # Where a group's columns start among the members, which lie as (columns of a table, tables
        # of the group), and where its tables start; whether these are of all columns.
        Declared("binning_member_starts", "int64", (("BINNING_GROUPS", 1),)),
        Declared("binning_group_starts", "int64", (("BINNING_GROUPS", 1),)),
        Declared("binning_of_all", "bool", ("BINNING_GROUPS",)),
        Declared("binning_columns", "int32", ("BINNING_MEMBERS",)),
        Declared("binning_shifts", "float32", ("BINNING_MEMBERS",)),
        # Strides of the bins, of a table with a cell for each of them; else random.
        Declared("binning_multipliers", "int32", ("BINNING_MEMBERS",)),
        Declared("binning_bins", "float32", ("BINNING_TABLES",)),
        # A table's first cell, and by how many bits a hash is shifted down to the number of a cell.
        Declared("binning_starts", "int32", (("BINNING_TABLES", 1),)),
        Declared("binning_down", "int32", ("BINNING_TABLES",)),
        Declared("binning_rates", "float32", _BINNING),  # 0 for a rule that is not used
        Declared("binning_weight_rates", "float32", _BINNING),
    ),
    forecasting=(
        Declared("binning_places", "int32", ("BINNING_TABLES",)),  # of the event's cells
        # Coefficients of the event's cells, if there is one output; a group's outputs, or slopes,
        # laid out as a cell is.
        Declared("binning_gathered", "float32", _BINNING),
        Declared("binning_by_group", "float32", ("BINNING_GROUPS", "BINNING_USED_LINE")),
    ),
    learning=(
        Declared("binning_slopes", "float32", _BINNING),
        Declared("binning_squares", "float32", _BINNING),
        Declared("binning_steps", "float32", _BINNING),
        Declared("binning_rule_squares", "float32", (RULES,)),  # squares of slopes
    ),
    rules=((0.02, 0.1), (0.1, 0.1), (0.5, 0.03)),
)
"""Sums over tables of random binning, for each group of tables."""

WINDOW = Bank(
    "window",
    lambda _: SMOOTHERS,
    learned=(
        Learned("window_z", "float32", ("COLUMNS", "WINDOW_EVENTS"), Domain(-1e4, 1e4)),
        Learned("window_y", "float32", ("WINDOW_EVENTS",), WIDE, unit="value"),
    ),
    forecasting=(
        Declared("window_distances", "float32", ("WINDOW_EVENTS",)),
        Declared("window_weights", "float32", (2, "WINDOW_EVENTS")),
        # Of weights and of weights times labels, or by class.
        Declared("window_sums", "float32", (APART, "WINDOW_CLASSES", WIDTH)),
    ),
)
"""Kernel smoothers over the last events."""

NEWTON = Bank(
    "newton",
    lambda sizes: min(sizes["NEWTON_FEATURES"], 1),
    learned=(
        Learned(
            *("newton_a", "float32", ("OUTPUTS", "NEWTON_FEATURES"), Domain(-1e15, 1e15)),
            split=COEFFICIENT,
            unit="affine",
        ),
        Learned(
            *("newton_p", "float32", ("NEWTON_FEATURES", "NEWTON_FEATURES"), Domain(-1e12, 1e12)),
            split=UNSIGNED,
        ),
    ),
    learning=(Declared("newton_step", "float32", ("NEWTON_FEATURES",)),),
)
"""Recursive least squares with forgetting, where columns are few."""

CHAIN = Learned("constant_chain", "float32", ("CHAIN", "CLASSES"), Domain(0.0, 1e4))
"""Discounted counts of the classes that came where another was known last; none of numbers."""

CONSTANT = Bank(
    "constant",
    lambda sizes: len(CONSTANT_RATES) + (sizes["TASK"] != NUMBERS),
    learned=(
        Learned("constant_levels", "float32", (len(CONSTANT_RATES), "CLASSES"), WIDE, unit="value"),
        CHAIN,
    ),
)
"""Labels alone: smoothed at several rates, and classes by the last one known; always active."""

BANKS = (LINEAR, GAUSSIAN, BINNING, WINDOW, NEWTON, CONSTANT)
"""In the order of their scores. The first and the last one are always active, the others as they
are needed."""


def banks_of(sizes: PoolSizes) -> list[int]:
    """Return the number of each expert's bank, of a pool of such sizes."""
    return [place for place, bank in enumerate(BANKS) for _ in range(bank.experts(sizes))]
