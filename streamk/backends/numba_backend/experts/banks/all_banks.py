"""The banks of experts: what they look at, what they put out, and how they learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import BINARY, CLASSES, HIGHEST_RANK, NUMBERS, OUTERMOST, SAMPLED
from streamk.backends.numba_backend.compiling import part
from streamk.backends.numba_backend.experts import slot, view
from streamk.backends.numba_backend.experts.banks import (
    coin_betting,
    grids,
    ladder,
    level,
    newton,
    rules,
    window,
)
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.mixing import costs
from streamk.backends.pool_arrays import BANKS, LEVEL_RATES, RULES, SMOOTHERS

LEVELS = len(LEVEL_RATES)
LINEAR, LADDER, GRIDS, WINDOW, NEWTON = range(BANKS)
"""Banks of experts, which are active or inactive as a whole."""
_CONFIDENCE = 3.0
"""Logit that the second-order expert's answer of 1 counts for."""
NEWTON_FORGET = 0.9995


@fast
def features(table: Any, x: Any, active: Any) -> None:
    """Write what the experts look at."""
    z, r, d = view.z(table), view.r(table), table[slot.COLUMNS]
    center, inverse = view.center(table), view.inverse(table)
    rank_row(x, center, inverse, view.knots(table), view.indicator(table), z[:d], r)
    z[d] = 1.0
    if active[LADDER]:
        u = view.u(table)
        ladder.project(z, view.projection(table), u)
        ladder.cosines(u, view.phases(table), view.scales(table), view.phi(table))
    if active[GRIDS]:
        _locate(table, r)


@fast
def _locate(table: Any, r: Any) -> None:
    """Write the numbers of the cells that an event of ranks r is in."""
    starts, tables = view.starts(table), view.group(table)
    columns, shifts, factors = (
        view.members_of(table),
        view.shifts(table),
        view.multipliers(table),
    )
    bins, cells, of_all = view.bins(table), view.cells(table), view.of_all(table)
    for i in range(len(of_all)):
        one, end, first, last = starts[i], starts[i + 1], tables[i], tables[i + 1]
        shape = ((end - one) // (last - first), last - first)
        s, f = shifts[one:end].reshape(shape), factors[one:end].reshape(shape)
        if of_all[i]:
            grids.locate_all(r, s, f, bins[first:last], cells[first:last])
        else:
            c = columns[one:end].reshape(shape)
            grids.locate(r, c, s, f, bins[first:last], cells[first:last])
    grids.number_cells(cells, view.first(table), view.down(table))


@fast
def outputs(table: Any, F: Any, active: Any) -> None:
    """Write the scores F (experts, outputs), 0 of inactive experts."""
    z, s, k = view.z(table), table[slot.BANDWIDTHS], table[slot.OUTPUTS]
    e = table[slot.LINEAR_RULES]
    F[:] = 0.0
    if active[LINEAR]:
        rules.forecast(z, view.linear_a(table), F[:e])
    n = table[slot.LADDER_RULES]
    if active[LADDER]:
        phi, A = view.phi(table), view.ladder_a(table)
        for i in range(s):
            rules.forecast(phi[i], A[i], F[e + i * n : e + (i + 1) * n])
    e += s * n
    g, n = table[slot.GROUPS], table[slot.GRID_RULES]
    if active[GRIDS]:
        _forecast_grids(table, F[e : e + g * n].reshape((g, n, k)))
    e += g * n
    if active[WINDOW]:
        _smooth(table, F[e : e + SMOOTHERS])
    e += SMOOTHERS
    p = table[slot.NEWTON]
    if p and active[NEWTON]:
        rules.forecast(z[:p], view.newton_a(table).reshape((1, k, p)), F[e : e + 1])
        # Its answers are 1 and 0, or -1.
        confidence = np.float32(1.0 if table[slot.TASK] == NUMBERS else _CONFIDENCE)
        for j in range(k):
            F[e, j] *= confidence
    level.forecast(view.level(table), F[len(F) - LEVELS :])


@fast
def _forecast_grids(table: Any, F: Any) -> None:
    """Write the outputs (groups, rules, outputs) of the grids."""
    k, tables, cells = table[slot.OUTPUTS], view.group(table), view.cells(table)
    A, factors, out, found = (
        view.cells_a(table),
        view.factors(table),
        view.side(table),
        view.gathered(table),
    )
    if k == 1:
        grids.gather(cells, A, 0, found)
    for i in range(len(out)):
        first, last = tables[i], tables[i + 1]
        if k == 1:
            grids.forecast_one(factors[first:last], found[first:last], out[i])
        else:
            grids.forecast(cells[first:last], factors[first:last], A, out[i])
        for rule in range(F.shape[1]):
            for j in range(k):
                F[i, rule, j] = out[i, RULES * j + rule]


@fast
def _smooth(table: Any, F: Any) -> None:
    """Write the outputs of the smoothers: log-probabilities or numbers."""
    count, task = table[slot.COUNT], table[slot.TASK]
    if count == 0:
        return
    D, labels = view.distances(table)[:count], view.window_y(table)
    window.distances(view.z(table)[: table[slot.COLUMNS]], view.window_z(table), D)
    median, sums = view.distance(table)[0], view.sums(table)
    if task == CLASSES:
        window.by_class(D, labels, median, view.weights(table), sums)
        for e in range(SMOOTHERS):
            window.log_probabilities(sums[0, :, e], F[e])
        return
    window.totals(D, labels, median, sums[0])
    total, own = sums[0, 0], sums[0, 1]
    for e in range(SMOOTHERS):
        if task == NUMBERS:
            F[e, 0] = own[e] / (total[e] + np.float32(window.PRIOR))
        else:
            F[e, 0] = window.logit(own[e], total[e])


@fast
def descend(table: Any, active: Any, G: Any) -> None:
    """Update the experts that descend gradients by the slopes G of their losses."""
    s, k, e = table[slot.BANDWIDTHS], table[slot.OUTPUTS], table[slot.LINEAR_RULES]
    if active[LINEAR]:
        _learn_linear(table, view.z(table), G[:e])
    n = table[slot.LADDER_RULES]
    if active[LADDER]:
        phi, A, squares = view.phi(table), view.ladder_a(table), view.ladder_squares(table)
        rates, kinds = view.ladder_rates(table), view.ladder_kinds(table)
        for i in range(s):
            slopes = G[e + i * n : e + (i + 1) * n]
            rules.update(phi[i], A[i], squares[i], rates, kinds, slopes)
    e += s * n
    g, n = table[slot.GROUPS], table[slot.GRID_RULES]
    if active[GRIDS]:
        _learn_grids(table, G[e : e + g * n].reshape((g, n, k)))


@fast
def _learn_linear(table: Any, z: Any, G: Any) -> None:
    """Update the linear models by the slopes (rules, outputs) of their losses."""
    A, squares = view.linear_a(table), view.linear_squares(table)
    rates, kinds = view.linear_rates(table), view.linear_kinds(table)
    last = len(G) - 1  # the one that bets
    rules.update(z, A[:last], squares[:last], rates, kinds, G[:last])
    coin_betting.update(
        z,
        A[last],
        squares[last],
        view.linear_bets(table),
        view.linear_gains(table),
        view.linear_largest(table),
        rates[last],
        G[last],
    )


@fast
def _learn_grids(table: Any, G: Any) -> None:
    """Update the grids by the slopes (groups, rules, outputs) of their losses."""
    k, tables, cells = table[slot.OUTPUTS], view.group(table), view.cells(table)
    A, side, last = view.cells_a(table), view.side(table), RULES * table[slot.OUTPUT_ROOM]
    found, slopes = view.gathered(table), view.cell_slopes(table)
    squares, steps, taken = (
        view.cell_squares(table),
        view.cell_steps(table),
        view.taken(table),
    )
    grids.gather(cells, A, last, squares)
    for i in range(len(side)):
        first, end = tables[i], tables[i + 1]
        grids.lay(G[i], side[i])
        grids.take_in(G[i], taken, squares[first:end])
        if k == 1:
            grids.slopes_one(found[first:end], side[i], slopes[first:end])
        else:
            grids.slopes(cells[first:end], A, side[i], slopes[first:end])
    grids.learn(
        view.grid_rates(table).ravel(),
        view.grid_paces(table).ravel(),
        slopes.ravel(),
        squares.ravel(),
        view.factors(table).ravel(),
        view.spread(table).ravel(),
        steps.ravel(),
    )
    for i in range(len(side)):
        first, end = tables[i], tables[i + 1]
        if k == 1:
            grids.descend_one(cells[first:end], steps[first:end], squares[first:end], side[i], A)
        else:
            some = cells[first:end]
            grids.descend(some, steps[first:end], squares[first:end], side[i], A, last)


@fast
def _learn_newton(table: Any, y: Any, F: Any) -> None:
    """Update the second-order expert; F (1, outputs) is its output before."""
    k, task, step, A = (
        table[slot.OUTPUTS],
        table[slot.TASK],
        view.newton_step(table),
        view.newton_a(table),
    )
    z = view.z(table)[: len(step)]
    newton.gain(z, view.newton_p(table), np.float32(NEWTON_FORGET), step)
    for j in range(k):
        if task == NUMBERS:
            longest = np.float32(costs.longest(view.loss(table)))
            residual = min(max(np.float32(y) - F[0, j], -longest), longest)
        elif task == BINARY:
            residual = np.float32(2.0 * y - 1.0) - F[0, j] / np.float32(_CONFIDENCE)
        else:
            residual = np.float32(1.0 if j == int(y) else 0.0) - F[0, j] / np.float32(_CONFIDENCE)
        newton.update(step, A, j, residual)


@fast
def learn(table: Any, active: Any, F: Any, y: Any) -> None:
    """Update the experts without slopes by the label; F are the outputs of all."""
    if table[slot.NEWTON] and active[NEWTON]:
        _learn_newton(table, y, F[len(F) - LEVELS - 1 :])
    level.update(view.level(table), y)
    if active[WINDOW]:
        _remember(table, y)


@fast
def _remember(table: Any, y: Any) -> None:
    """Replace the oldest event of the window by this one."""
    n, row, z, Z = table[slot.WINDOW], table[slot.NEXT], view.z(table), view.window_z(table)
    for j in range(len(Z)):
        Z[j, row] = z[j]
    view.window_y(table)[row] = y
    table[slot.NEXT] = (row + 1) % n
    table[slot.COUNT] = min(table[slot.COUNT] + 1, n)


@part
def _below(value: Any, knots: Any) -> Any:
    """Return how many of the sorted knots are less than the value."""
    low, high = 0, len(knots)
    while low < high:
        middle = (low + high) >> 1
        if knots[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@part
def _rank(value: Any, knots: Any) -> Any:
    """Return the mid-rank of a value that is no NaN, by knots at equal steps of the rank."""
    last = len(knots) - 1
    low = _below(value, knots)
    if low > last:
        return HIGHEST_RANK
    if knots[low] == value:
        high = low
        while high < last and knots[high + 1] == value:
            high += 1
        level = 0.5 * (low + high)
    elif low == 0:
        return 0.0
    else:
        level = low - 1 + (value - knots[low - 1]) / (knots[low] - knots[low - 1])
    return min(level / last, HIGHEST_RANK)


@part
def rank_row(x: Any, center: Any, inverse: Any, knots: Any, indicator: Any, z: Any, r: Any) -> None:
    """Write the scaled values and the ranks of one event x, float64 (d,), with NaN missing.

    z, float32 (d,), is ``(x - center) * inverse`` between -8 and 8, and 0 where x is missing. r,
    float32 (d,), is the rank of x in [0, 1) by the knots (d, KNOTS), the middle one of the ranks
    where several knots equal x; 1/4 or 3/4 in a column of zeros and ones; -1 where x is missing.
    No knot is beyond 1e30, so x is bounded by that before it is ranked.
    """
    for j in range(len(x)):
        value = x[j]
        if math.isnan(value):
            z[j], r[j] = 0.0, -1.0
            continue
        z[j] = min(max((value - center[j]) * inverse[j], -OUTERMOST), OUTERMOST)
        if indicator[j]:
            r[j] = 0.25 if value < 0.5 else 0.75
        else:
            r[j] = _rank(min(max(value, -SAMPLED), SAMPLED), knots[j])
