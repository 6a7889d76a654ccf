"""All banks of experts in turn: what they look at, what they put out, and how they learn.

A bank's loops are in the file of its name; it has those of `features`, `outputs`, `descend` and
`learn` that it needs. Its experts lie side by side in the order of `streamk.backends.banks.BANKS`.
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
    window,
)
from streamk.backends.numba_backend.experts.view import array_of

LINEAR, GAUSSIAN, BINNING, WINDOW, NEWTON, CONSTANT = range(len(BANKS))
"""Numbers of the banks."""
_starts = array_of("bank_starts")


@fast
def _of(table: Any, F: Any, bank: Any) -> Any:
    """Return the rows of a bank's experts."""
    starts = _starts(table)
    return F[starts[bank] : starts[bank + 1]]


@fast
def features(table: Any, x: Any, active: Any) -> None:
    """Write what the active experts look at of an event x, float64 (d,)."""
    columns.features(table, x)
    if active[GAUSSIAN]:
        gaussian.features(table)
    if active[BINNING]:
        binning.features(table)


@fast
def outputs(table: Any, F: Any, active: Any) -> None:
    """Write the scores F (experts, outputs), 0 of inactive experts."""
    F[:] = 0.0
    if active[LINEAR]:
        linear.outputs(table, _of(table, F, LINEAR))
    if active[GAUSSIAN]:
        gaussian.outputs(table, _of(table, F, GAUSSIAN))
    if active[BINNING]:
        binning.outputs(table, _of(table, F, BINNING))
    if active[WINDOW]:
        window.outputs(table, _of(table, F, WINDOW))
    if table[slot.NEWTON] and active[NEWTON]:
        newton.outputs(table, _of(table, F, NEWTON))
    constant.outputs(table, _of(table, F, CONSTANT))


@fast
def descend(table: Any, active: Any, G: Any) -> None:
    """Update the experts that descend gradients by the slopes G of their losses."""
    if active[LINEAR]:
        linear.descend(table, _of(table, G, LINEAR))
    if active[GAUSSIAN]:
        gaussian.descend(table, _of(table, G, GAUSSIAN))
    if active[BINNING]:
        binning.descend(table, _of(table, G, BINNING))


@fast
def learn(table: Any, active: Any, F: Any, y: Any) -> None:
    """Update the experts without slopes by the label; F are the outputs of all."""
    if table[slot.NEWTON] and active[NEWTON]:
        newton.learn(table, y, _of(table, F, NEWTON))
    constant.learn(table, y)
    if active[WINDOW]:
        window.learn(table, y)
