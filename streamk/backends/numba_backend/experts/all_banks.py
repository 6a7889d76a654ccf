"""All banks of experts in turn: what they look at, what they put out, and how they learn.

A bank's loops are in the file of its name; it has those of `features` and `outputs` that it needs,
and `descend`, which learns from the slopes of losses, or `learn`, from the label. Its experts lie
side by side in the order of `streamk.backends.banks.BANKS`.
"""

from __future__ import annotations

from typing import Any

from streamk.backends.banks import BANKS
from streamk.backends.jit.compiling import fast
from streamk.backends.numba_backend.experts import (
    binning,
    columns,
    constant,
    gaussian,
    linear,
    newton,
    slot,
    view,
    window,
)

LINEAR_AT, GAUSSIAN_AT, BINNING_AT, WINDOW_AT, NEWTON_AT, CONSTANT_AT = range(len(BANKS))
"""Places of the banks among all."""


@fast
def _of(table: Any, F: Any, bank: Any) -> Any:
    """Return the rows of a bank's experts."""
    starts = view.bank_starts(table)
    return F[starts[bank] : starts[bank + 1]]


@fast
def features(table: Any, x: Any, active: Any) -> None:
    """Write what the active experts look at of an event x, float64 (d,)."""
    columns.features(table, x)
    if active[GAUSSIAN_AT]:
        gaussian.features(table)
    if active[BINNING_AT]:
        binning.features(table)


@fast
def outputs(table: Any, F: Any, active: Any) -> None:
    """Write the outputs F (experts, outputs), 0 of inactive experts."""
    F[:] = 0.0
    if active[LINEAR_AT]:
        linear.outputs(table, _of(table, F, LINEAR_AT))
    if active[GAUSSIAN_AT]:
        gaussian.outputs(table, _of(table, F, GAUSSIAN_AT))
    if active[BINNING_AT]:
        binning.outputs(table, _of(table, F, BINNING_AT))
    if active[WINDOW_AT]:
        window.outputs(table, _of(table, F, WINDOW_AT))
    if table[slot.NEWTON_FEATURES] and active[NEWTON_AT]:
        newton.outputs(table, _of(table, F, NEWTON_AT))
    constant.outputs(table, _of(table, F, CONSTANT_AT))


@fast
def learn(table: Any, active: Any, F: Any, G: Any, y: Any) -> None:
    """Update the experts by the slopes G of their losses, or by the label and the outputs F."""
    if active[LINEAR_AT]:
        linear.descend(table, _of(table, G, LINEAR_AT))
    if active[GAUSSIAN_AT]:
        gaussian.descend(table, _of(table, G, GAUSSIAN_AT))
    if active[BINNING_AT]:
        binning.descend(table, _of(table, G, BINNING_AT))
    if table[slot.NEWTON_FEATURES] and active[NEWTON_AT]:
        newton.learn(table, y, _of(table, F, NEWTON_AT))
    constant.learn(table, y)
    if active[WINDOW_AT]:
        window.learn(table, y)
