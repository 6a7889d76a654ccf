"""The banks of experts: what they look at, what they put out, and how they learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import BINARY, CLASSES, NUMBERS
from streamk.backends.numba_backend.experts.banks import (
    coin,
    grids,
    ladder,
    level,
    newton,
    rules,
    window,
)
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.layout import of
from streamk.backends.numba_backend.experts.layout import places as at
from streamk.backends.numba_backend.experts.mixing import costs
from streamk.backends.numba_backend.ranking import rank_row
from streamk.backends.pool_arrays import BANKS, LEVEL_RATES, RULES, SMOOTHERS

LEVELS = len(LEVEL_RATES)
LINEAR, LADDER, GRIDS, WINDOW, NEWTON = range(BANKS)
"""Banks of experts, which sleep as a whole."""
_CONFIDENCE = 3.0
"""Logit that the second-order expert's answer of 1 counts for."""
NEWTON_FORGET = 0.9995


@fast
def features(table: Any, x: Any, awake: Any) -> None:
    """Write what the experts look at."""
    z, r, d = of.z(table), of.r(table), table[at.COLUMNS]
    center, inverse = of.center(table), of.inverse(table)
    rank_row(x, center, inverse, of.knots(table), of.indicator(table), z[:d], r)
    z[d] = 1.0
    if awake[LADDER]:
        u = of.u(table)
        ladder.project(z, of.projection(table), u)
        ladder.cosines(u, of.phases(table), of.scales(table), of.phi(table))
    if awake[GRIDS]:
        _locate(table, r)


@fast
def _locate(table: Any, r: Any) -> None:
    """Write the numbers of the cells that an event of ranks r is in."""
    starts, tables = of.starts(table), of.group(table)
    columns, shifts, factors = of.members_of(table), of.shifts(table), of.multipliers(table)
    bins, cells, of_all = of.bins(table), of.cells(table), of.of_all(table)
    for i in range(len(of_all)):
        one, end, first, last = starts[i], starts[i + 1], tables[i], tables[i + 1]
        shape = ((end - one) // (last - first), last - first)
        s, f = shifts[one:end].reshape(shape), factors[one:end].reshape(shape)
        if of_all[i]:
            grids.locate_all(r, s, f, bins[first:last], cells[first:last])
        else:
            c = columns[one:end].reshape(shape)
            grids.locate(r, c, s, f, bins[first:last], cells[first:last])
    grids.number_cells(cells, of.first(table), of.down(table))


@fast
def outputs(table: Any, F: Any, awake: Any) -> None:
    """Write the outputs F (experts, outputs): logits, log-probabilities or numbers; 0 asleep."""
    z, s, k = of.z(table), table[at.BANDWIDTHS], table[at.OUTPUTS]
    e = table[at.LINEAR_RULES]
    F[:] = 0.0
    if awake[LINEAR]:
        rules.forecast(z, of.linear_a(table), F[:e])
    n = table[at.LADDER_RULES]
    if awake[LADDER]:
        phi, A = of.phi(table), of.ladder_a(table)
        for i in range(s):
            rules.forecast(phi[i], A[i], F[e + i * n : e + (i + 1) * n])
    e += s * n
    g, n = table[at.GROUPS], table[at.GRID_RULES]
    if awake[GRIDS]:
        _forecast_grids(table, F[e : e + g * n].reshape((g, n, k)))
    e += g * n
    if awake[WINDOW]:
        _smooth(table, F[e : e + SMOOTHERS])
    e += SMOOTHERS
    p = table[at.NEWTON]
    if p and awake[NEWTON]:
        rules.forecast(z[:p], of.newton_a(table).reshape((1, k, p)), F[e : e + 1])
        # Its answers are 1 and 0, or -1.
        confidence = np.float32(1.0 if table[at.TASK] == NUMBERS else _CONFIDENCE)
        for j in range(k):
            F[e, j] *= confidence
    level.forecast(of.level(table), F[len(F) - LEVELS :])


@fast
def _forecast_grids(table: Any, F: Any) -> None:
    """Write the outputs (groups, rules, outputs) of the grids."""
    k, tables, cells = table[at.OUTPUTS], of.group(table), of.cells(table)
    A, factors, out, found = (
        of.cells_a(table),
        of.factors(table),
        of.side(table),
        of.gathered(table),
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
    count, task = table[at.COUNT], table[at.TASK]
    if count == 0:
        return
    D, labels = of.distances(table)[:count], of.window_y(table)
    window.distances(of.z(table)[: table[at.COLUMNS]], of.window_z(table), D)
    median, sums = of.distance(table)[0], of.sums(table)
    if task == CLASSES:
        window.by_class(D, labels, median, of.weights(table), sums)
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
def descend(table: Any, awake: Any, G: Any) -> None:
    """Let the experts that descend gradients learn from the slopes G of their losses."""
    s, k, e = table[at.BANDWIDTHS], table[at.OUTPUTS], table[at.LINEAR_RULES]
    if awake[LINEAR]:
        _learn_linear(table, of.z(table), G[:e])
    n = table[at.LADDER_RULES]
    if awake[LADDER]:
        phi, A, squares = of.phi(table), of.ladder_a(table), of.ladder_squares(table)
        rates, kinds = of.ladder_rates(table), of.ladder_kinds(table)
        for i in range(s):
            slopes = G[e + i * n : e + (i + 1) * n]
            rules.update(phi[i], A[i], squares[i], rates, kinds, slopes)
    e += s * n
    g, n = table[at.GROUPS], table[at.GRID_RULES]
    if awake[GRIDS]:
        _learn_grids(table, G[e : e + g * n].reshape((g, n, k)))


@fast
def _learn_linear(table: Any, z: Any, G: Any) -> None:
    """Let the linear models learn from the slopes (rules, outputs) of their losses."""
    A, squares = of.linear_a(table), of.linear_squares(table)
    rates, kinds = of.linear_rates(table), of.linear_kinds(table)
    last = len(G) - 1  # the one that bets
    rules.update(z, A[:last], squares[:last], rates, kinds, G[:last])
    coin.update(
        z,
        A[last],
        squares[last],
        of.linear_bets(table),
        of.linear_gains(table),
        of.linear_largest(table),
        rates[last],
        G[last],
    )


@fast
def _learn_grids(table: Any, G: Any) -> None:
    """Let the grids learn from the slopes (groups, rules, outputs) of their losses."""
    k, tables, cells = table[at.OUTPUTS], of.group(table), of.cells(table)
    A, side, last = of.cells_a(table), of.side(table), RULES * table[at.OUTPUT_ROOM]
    found, slopes = of.gathered(table), of.cell_slopes(table)
    squares, steps, taken = of.cell_squares(table), of.cell_steps(table), of.taken(table)
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
        of.grid_rates(table).ravel(),
        of.grid_paces(table).ravel(),
        slopes.ravel(),
        squares.ravel(),
        of.factors(table).ravel(),
        of.spread(table).ravel(),
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
    """Let the second-order expert learn; F (1, outputs) is its opinion before."""
    k, task, step, A = table[at.OUTPUTS], table[at.TASK], of.newton_step(table), of.newton_a(table)
    z = of.z(table)[: len(step)]
    newton.gain(z, of.newton_p(table), np.float32(NEWTON_FORGET), step)
    for j in range(k):
        if task == NUMBERS:
            longest = np.float32(costs.longest(of.loss(table)))
            residual = min(max(np.float32(y) - F[0, j], -longest), longest)
        elif task == BINARY:
            residual = np.float32(2.0 * y - 1.0) - F[0, j] / np.float32(_CONFIDENCE)
        else:
            residual = np.float32(1.0 if j == int(y) else 0.0) - F[0, j] / np.float32(_CONFIDENCE)
        newton.update(step, A, j, residual)


@fast
def learn(table: Any, awake: Any, F: Any, y: Any) -> None:
    """Let the experts learn the label that have no slopes; F are the outputs of all."""
    if table[at.NEWTON] and awake[NEWTON]:
        _learn_newton(table, y, F[len(F) - LEVELS - 1 :])
    level.update(of.level(table), y)
    if awake[WINDOW]:
        _remember(table, y)


@fast
def _remember(table: Any, y: Any) -> None:
    """Let the event take the place of the oldest one in the window."""
    n, row, z, Z = table[at.WINDOW], table[at.NEXT], of.z(table), of.window_z(table)
    for j in range(len(Z)):
        Z[j, row] = z[j]
    of.window_y(table)[row] = y
    table[at.NEXT] = (row + 1) % n
    table[at.COUNT] = min(table[at.COUNT] + 1, n)
