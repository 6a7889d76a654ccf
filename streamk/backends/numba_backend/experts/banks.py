"""The banks of experts: what they look at, what they put out, and how they learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import BINARY, CLASSES, NUMBERS
from streamk.backends.numba_backend.experts import (
    coin,
    costs,
    grids,
    ladder,
    level,
    newton,
    rules,
    window,
)
from streamk.backends.numba_backend.experts import places as at
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.reach import (
    double,
    flags,
    loss_of,
    short,
    single,
    whole,
)
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
    d, m, s = table[at.COLUMNS], table[at.FEATURES], table[at.BANDWIDTHS]
    z, r = single(table, at.Z, (d + 1,)), single(table, at.R, (d,))
    rank_row(
        x,
        double(table, at.CENTER, (d,)),
        double(table, at.INVERSE, (d,)),
        double(table, at.KNOTS, (d, table[at.LEVELS])),
        flags(table, at.INDICATOR, (d,)),
        z[:d],
        r,
    )
    z[d] = 1.0
    if awake[LADDER]:
        u = single(table, at.U, (m,))
        ladder.project(z, single(table, at.PROJECTION, (d, m)), u)
        phases, scales = single(table, at.PHASES, (m,)), double(table, at.SCALES, (s,))
        ladder.cosines(u, phases, scales, single(table, at.PHI, (s, m)))
    if awake[GRIDS]:
        _locate(table, r)


@fast
def _locate(table: Any, r: Any) -> None:
    """Write the numbers of the cells that an event of ranks r is in."""
    t, g, members = table[at.TABLES], table[at.GROUPS], table[at.MEMBERS]
    starts, tables = whole(table, at.STARTS, (g + 1,)), whole(table, at.GROUP, (g + 1,))
    columns, shifts = (
        short(table, at.MEMBERS_OF, (members,)),
        single(table, at.SHIFTS, (members,)),
    )
    factors, bins = short(table, at.MULTIPLIERS, (members,)), single(table, at.BINS, (t,))
    cells, of_all = short(table, at.CELLS, (t,)), flags(table, at.OF_ALL, (g,))
    for i in range(g):
        one, end, first, last = starts[i], starts[i + 1], tables[i], tables[i + 1]
        shape = ((end - one) // (last - first), last - first)
        s, f = shifts[one:end].reshape(shape), factors[one:end].reshape(shape)
        if of_all[i]:
            grids.locate_all(r, s, f, bins[first:last], cells[first:last])
        else:
            c = columns[one:end].reshape(shape)
            grids.locate(r, c, s, f, bins[first:last], cells[first:last])
    grids.number_cells(cells, short(table, at.FIRST, (t,)), short(table, at.DOWN, (t,)))


@fast
def outputs(table: Any, F: Any, awake: Any) -> None:
    """Write the outputs F (experts, outputs): logits, log-probabilities or numbers; 0 asleep."""
    d, m, s, k = table[at.COLUMNS], table[at.FEATURES], table[at.BANDWIDTHS], table[at.OUTPUTS]
    e = table[at.LINEAR_RULES]
    z = single(table, at.Z, (d + 1,))
    F[:] = 0.0
    if awake[LINEAR]:
        rules.forecast(z, single(table, at.LINEAR_A, (e, table[at.OUTPUT_ROOM], d + 1)), F[:e])
    n = table[at.LADDER_RULES]
    if awake[LADDER]:
        phi, more = single(table, at.PHI, (s, m)), table[at.OUTPUT_ROOM]
        A = single(table, at.LADDER_A, (s, n, more, m))
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
        rules.forecast(z[:p], single(table, at.NEWTON_A, (1, k, p)), F[e : e + 1])
        # Its answers are 1 and 0, or -1.
        confidence = np.float32(1.0 if table[at.TASK] == NUMBERS else _CONFIDENCE)
        for j in range(k):
            F[e, j] *= confidence
    level.forecast(single(table, at.LEVEL, (LEVELS, table[at.CLASSES])), F[len(F) - LEVELS :])


@fast
def _cells(table: Any) -> Any:
    """Return the numbers in the cells of the grids (slots, line)."""
    return single(table, at.CELLS_A, (table[at.SLOTS], grids.line(table[at.OUTPUT_ROOM])))


@fast
def _forecast_grids(table: Any, F: Any) -> None:
    """Write the outputs (groups, rules, outputs) of the grids."""
    g, t, k, q = table[at.GROUPS], table[at.TABLES], table[at.OUTPUTS], RULES
    line, tables = grids.line(k), whole(table, at.GROUP, (g + 1,))
    cells, factors = short(table, at.CELLS, (t,)), single(table, at.FACTORS, (t, q))
    A, out = _cells(table), single(table, at.SIDE, (g, line))
    found = single(table, at.GATHERED, (t, q))
    if k == 1:
        grids.gather(cells, A, 0, found)
    for i in range(g):
        first, last = tables[i], tables[i + 1]
        if k == 1:
            grids.forecast_one(factors[first:last], found[first:last], out[i])
        else:
            grids.forecast(cells[first:last], factors[first:last], A, out[i])
        for rule in range(F.shape[1]):
            for j in range(k):
                F[i, rule, j] = out[i, q * j + rule]


@fast
def _smooth(table: Any, F: Any) -> None:
    """Write the outputs of the smoothers: log-probabilities or numbers."""
    d, n, c = table[at.COLUMNS], table[at.WINDOW], table[at.CLASSES]
    count, task = table[at.COUNT], table[at.TASK]
    if count == 0:
        return
    D, labels = single(table, at.DISTANCES, (n,))[:count], single(table, at.WINDOW_Y, (n,))
    window.distances(single(table, at.Z, (d,)), single(table, at.WINDOW_Z, (d, n)), D)
    median, sums = double(table, at.DISTANCE, (1,))[0], single(table, at.SUMS, window.room(c))
    if task == CLASSES:
        window.by_class(D, labels, median, single(table, at.WEIGHTS, (2, n)), sums)
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
    d, m, s, k = table[at.COLUMNS], table[at.FEATURES], table[at.BANDWIDTHS], table[at.OUTPUTS]
    z = single(table, at.Z, (d + 1,))
    e = table[at.LINEAR_RULES]
    if awake[LINEAR]:
        _learn_linear(table, z, G[:e])
    n = table[at.LADDER_RULES]
    if awake[LADDER]:
        phi, more = single(table, at.PHI, (s, m)), table[at.OUTPUT_ROOM]
        A = single(table, at.LADDER_A, (s, n, more, m))
        squares = single(table, at.LADDER_SQUARES, (s, n, more, m))
        rates = double(table, at.LADDER_RATES, (n,))
        kinds = whole(table, at.LADDER_KINDS, (n,))
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
    e, k, p, more = len(G), table[at.OUTPUTS], len(z), table[at.OUTPUT_ROOM]
    A, squares = (
        single(table, at.LINEAR_A, (e, more, p)),
        single(table, at.LINEAR_SQUARES, (e, more, p)),
    )
    rates, kinds = double(table, at.LINEAR_RATES, (e,)), whole(table, at.LINEAR_KINDS, (e,))
    last = e - 1  # the one that bets
    rules.update(z, A[:last], squares[:last], rates, kinds, G[:last])
    coin.update(
        z,
        A[last],
        squares[last],
        single(table, at.LINEAR_BETS, (k, p)),
        single(table, at.LINEAR_GAINS, (k, p)),
        single(table, at.LINEAR_LARGEST, (k, p)),
        rates[last],
        G[last],
    )


@fast
def _learn_grids(table: Any, G: Any) -> None:
    """Let the grids learn from the slopes (groups, rules, outputs) of their losses."""
    g, t, k, q = table[at.GROUPS], table[at.TABLES], table[at.OUTPUTS], RULES
    line, tables = grids.line(k), whole(table, at.GROUP, (g + 1,))
    cells = short(table, at.CELLS, (t,))
    A, side, last = _cells(table), single(table, at.SIDE, (g, line)), q * table[at.OUTPUT_ROOM]
    found, slopes = single(table, at.GATHERED, (t, q)), single(table, at.CELL_SLOPES, (t, q))
    squares, steps = single(table, at.CELL_SQUARES, (t, q)), single(table, at.CELL_STEPS, (t, q))
    taken = single(table, at.TAKEN, (q,))
    grids.gather(cells, A, last, squares)
    for i in range(g):
        first, end = tables[i], tables[i + 1]
        grids.lay(G[i], side[i])
        grids.take_in(G[i], taken, squares[first:end])
        if k == 1:
            grids.slopes_one(found[first:end], side[i], slopes[first:end])
        else:
            grids.slopes(cells[first:end], A, side[i], slopes[first:end])
    grids.learn(
        single(table, at.GRID_RATES, (t * q,)),
        single(table, at.GRID_PACES, (t * q,)),
        slopes.ravel(),
        squares.ravel(),
        single(table, at.FACTORS, (t * q,)),
        single(table, at.SPREAD, (t * q,)),
        steps.ravel(),
    )
    for i in range(g):
        first, end = tables[i], tables[i + 1]
        if k == 1:
            grids.descend_one(cells[first:end], steps[first:end], squares[first:end], side[i], A)
        else:
            some = cells[first:end]
            grids.descend(some, steps[first:end], squares[first:end], side[i], A, last)


@fast
def _learn_newton(table: Any, y: Any, F: Any) -> None:
    """Let the second-order expert learn; F (1, outputs) is its opinion before."""
    p, k, task = table[at.NEWTON], table[at.OUTPUTS], table[at.TASK]
    step = single(table, at.NEWTON_STEP, (p,))
    z = single(table, at.Z, (p,))
    newton.gain(z, single(table, at.NEWTON_P, (p, p)), np.float32(NEWTON_FORGET), step)
    A = single(table, at.NEWTON_A, (k, p))
    for j in range(k):
        if task == NUMBERS:
            longest = np.float32(costs.longest(loss_of(table)))
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
    level.update(single(table, at.LEVEL, (LEVELS, table[at.CLASSES])), y)
    if awake[WINDOW]:
        _remember(table, y)


@fast
def _remember(table: Any, y: Any) -> None:
    """Let the event take the place of the oldest one in the window."""
    d, n, row = table[at.COLUMNS], table[at.WINDOW], table[at.NEXT]
    z, Z = single(table, at.Z, (d,)), single(table, at.WINDOW_Z, (d, n))
    for j in range(d):
        Z[j, row] = z[j]
    single(table, at.WINDOW_Y, (n,))[row] = y
    table[at.NEXT] = (row + 1) % n
    table[at.COUNT] = min(table[at.COUNT] + 1, n)
