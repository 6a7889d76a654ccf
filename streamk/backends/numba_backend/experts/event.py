"""One event through all experts: forecast it, then learn its label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.numpy_support import carray

from streamk.backends import BINARY, NUMBERS
from streamk.backends.numba_backend.addresses import pointer
from streamk.backends.numba_backend.experts import (
    grids,
    ladder,
    level,
    mixing,
    newton,
    opinions,
    rules,
    window,
)
from streamk.backends.numba_backend.experts import places as at
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.opinions import LONGEST
from streamk.backends.numba_backend.ranking import rank_row

SMOOTHERS = window.GAUSSIANS + window.POWERS
LEVELS = len(level.RATES)
LINEAR, LADDER, GRIDS, WINDOW, NEWTON = range(5)
"""Banks of experts, which sleep as a whole."""
LOST, EVENTS, REVIEWED = NEWTON + 1, NEWTON + 2, NEWTON + 3
"""Places in an account after those of the banks: the sum of losses, events, and events in which the
banks were looked at."""
_SELDOM = 4
"""Events in which the banks are looked at once."""
_CONFIDENCE = 3.0
"""Logit that the second-order expert's answer of 1 counts for."""
NEWTON_FORGET = 0.9995


@fast
def _single(table: Any, place: Any, shape: Any) -> Any:
    return carray(pointer(table[place], np.float32(0.0)), shape)


@fast
def _double(table: Any, place: Any, shape: Any) -> Any:
    return carray(pointer(table[place], np.float64(0.0)), shape)


@fast
def _whole(table: Any, place: Any, shape: Any) -> Any:
    return carray(pointer(table[place], np.int64(0)), shape)


@fast
def _short(table: Any, place: Any, shape: Any) -> Any:
    return carray(pointer(table[place], np.int32(0)), shape)


@fast
def _flags(table: Any, place: Any, shape: Any) -> Any:
    return carray(pointer(table[place], np.bool_(False)), shape)


@fast
def _features(table: Any, x: Any, awake: Any) -> None:
    """Write what the experts look at."""
    d, m, s = table[at.COLUMNS], table[at.FEATURES], table[at.BANDWIDTHS]
    z, r = _single(table, at.Z, (d + 1,)), _single(table, at.R, (d,))
    rank_row(
        x,
        _double(table, at.CENTER, (d,)),
        _double(table, at.INVERSE, (d,)),
        _double(table, at.KNOTS, (d, table[at.LEVELS])),
        _flags(table, at.INDICATOR, (d,)),
        z[:d],
        r,
    )
    z[d] = 1.0
    if awake[LADDER]:
        u = _single(table, at.U, (m,))
        ladder.project(z, _single(table, at.PROJECTION, (d, m)), u)
        phases, scales = _single(table, at.PHASES, (m,)), _double(table, at.SCALES, (s,))
        ladder.cosines(u, phases, scales, _single(table, at.PHI, (s, m)))
    if awake[GRIDS]:
        _locate(table, r)


@fast
def _locate(table: Any, r: Any) -> None:
    """Write the numbers of the cells that an event of ranks r is in."""
    t, g, members = table[at.TABLES], table[at.GROUPS], table[at.MEMBERS]
    starts, tables = _whole(table, at.STARTS, (g + 1,)), _whole(table, at.GROUP, (g + 1,))
    columns, shifts = (
        _short(table, at.MEMBERS_OF, (members,)),
        _single(table, at.SHIFTS, (members,)),
    )
    factors, bins = _short(table, at.MULTIPLIERS, (members,)), _single(table, at.BINS, (t,))
    cells = _short(table, at.CELLS, (t,))
    for i in range(g):
        one, end, first, last = starts[i], starts[i + 1], tables[i], tables[i + 1]
        shape = ((end - one) // (last - first), last - first)
        grids.locate(
            r,
            columns[one:end].reshape(shape),
            shifts[one:end].reshape(shape),
            factors[one:end].reshape(shape),
            bins[first:last],
            cells[first:last],
        )
    grids.number_cells(cells, _short(table, at.FIRST, (t,)), _short(table, at.DOWN, (t,)))


@fast
def _forecast_grids(table: Any, F: Any) -> None:
    """Write the outputs (groups, rules, outputs) of the grids."""
    g, t, k, q = table[at.GROUPS], table[at.TABLES], table[at.OUTPUTS], grids.RULES
    line, tables = grids.line(k), _whole(table, at.GROUP, (g + 1,))
    cells, factors = _short(table, at.CELLS, (t,)), _single(table, at.FACTORS, (t, q))
    A, out = _single(table, at.CELLS_A, (table[at.SLOTS], line)), _single(table, at.SIDE, (g, line))
    found = _single(table, at.GATHERED, (t, q))
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
def _outputs(table: Any, F: Any, awake: Any) -> None:
    """Write the outputs of all experts but the smoothers: logits or numbers."""
    d, m, s, k = table[at.COLUMNS], table[at.FEATURES], table[at.BANDWIDTHS], table[at.OUTPUTS]
    e = table[at.LINEAR_RULES]
    z = _single(table, at.Z, (d + 1,))
    if awake[LINEAR]:
        rules.forecast(z, _single(table, at.LINEAR_A, (e, k, d + 1)), F[:e])
    n = table[at.LADDER_RULES]
    if awake[LADDER]:
        phi, A = _single(table, at.PHI, (s, m)), _single(table, at.LADDER_A, (s, n, k, m))
        for i in range(s):
            rules.forecast(phi[i], A[i], F[e + i * n : e + (i + 1) * n])
    e += s * n
    g, n = table[at.GROUPS], table[at.GRID_RULES]
    if awake[GRIDS]:
        _forecast_grids(table, F[e : e + g * n].reshape((g, n, k)))
    e += g * n + SMOOTHERS
    p = table[at.NEWTON]
    if p and awake[NEWTON]:
        A = _single(table, at.NEWTON_A, (1, k, p))
        rules.forecast(z[:p], A, F[e : e + 1])
    level.forecast(_single(table, at.LEVEL, (LEVELS, table[at.CLASSES])), F[len(F) - LEVELS :])


@fast
def _smooth(table: Any, F: Any) -> None:
    """Write the outputs of the smoothers: log-probabilities or numbers."""
    d, n, c = table[at.COLUMNS], table[at.WINDOW], table[at.CLASSES]
    count, task = table[at.COUNT], table[at.TASK]
    if count == 0:
        return
    D, W = _single(table, at.DISTANCES, (n,))[:count], _single(table, at.WEIGHTS, (SMOOTHERS, n))
    labels, sums = _single(table, at.WINDOW_Y, (n,)), _single(table, at.SUMS, (c, SMOOTHERS))
    window.distances(_single(table, at.Z, (d,)), _single(table, at.WINDOW_Z, (d, n)), D)
    window.weigh(D, np.float32(_double(table, at.DISTANCE, (1,))[0]), W)
    prior = np.float32(window.PRIOR)
    if c > 2:
        window.by_class(W, labels, count, sums)
    for e in range(SMOOTHERS):
        total = window.total_of(W[e], count)
        if c <= 2:
            positive = window.total_by(W[e], labels, count)
        if task == NUMBERS:
            F[e, 0] = positive / (total + prior)
        elif task == BINARY:
            F[e, 0] = window.logit(positive, total)
        else:
            window.log_probabilities(sums[:, e], total, F[e])


@fast
def _rouse(table: Any, awake: Any) -> None:
    """Write which experts are awake, from which banks are."""
    on = _double(table, at.ON, (table[at.EXPERTS],))
    sizes = (
        table[at.LINEAR_RULES],
        table[at.BANDWIDTHS] * table[at.LADDER_RULES],
        table[at.GROUPS] * table[at.GRID_RULES],
        SMOOTHERS,
        min(table[at.NEWTON], 1),
    )
    on[table[at.EXPERTS] - LEVELS :] = 1.0
    e = 0
    for bank in range(len(sizes)):
        for i in range(e, e + sizes[bank]):
            on[i] = awake[bank]
        e += sizes[bank]


@fast
def _mix(table: Any, L: Any, mixed: Any, out: Any) -> None:
    """Write the mixers' predictions and their mixture, from opinions (experts, outputs)."""
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    shares, products = table[at.MIXERS_SHARE], table[at.MIXERS_PRODUCT]
    on, beliefs = _double(table, at.ON, (e,)), _double(table, at.OPINIONS, (e, k))
    opinions.believe(task, L, beliefs)
    weights = _double(table, at.SHARES, (shares, e))
    for i in range(shares):
        mixing.share(weights[i], beliefs, on, mixed[i])
    weights, sums = _double(table, at.PRODUCTS, (products, e)), _double(table, at.ROOM, (k,))
    for i in range(products):
        mixing.pool(task, L, weights[i], sums, mixed[shares + i])
    all_on = _double(table, at.ALL, (shares + products,))
    mixing.share(_double(table, at.TOP, (shares + products,)), mixed, all_on, out)


@fast
def forecast(table: Any, X: Any, seen: Any, out: Any) -> None:
    """Write opinions (n, E, K) and predictions (n, K) of events X float64 (n, d).

    The opinion of an expert that sleeps is NaN. What was found for the last event stays in the
    pool's room, for `update`.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    awake, F = _flags(table, at.AWAKE, (NEWTON + 1,)), _single(table, at.F, (e, k))
    P, own = _single(table, at.G, (e, k)), _single(table, at.SEEN, (e, k))
    mixed = _double(table, at.MIXED, (table[at.MIXERS_SHARE] + table[at.MIXERS_PRODUCT], k))
    second = table[at.NEWTON] > 0
    smoothers = e - SMOOTHERS - second - LEVELS
    _rouse(table, awake)
    for i in range(len(X)):
        F[:] = 0.0
        _features(table, X[i], awake)
        _outputs(table, F, awake)
        if awake[WINDOW]:
            _smooth(table, F[smoothers : smoothers + SMOOTHERS])
        if second:  # its answers are 1 and 0, or -1
            confidence = np.float32(1.0 if task == NUMBERS else _CONFIDENCE)
            for j in range(k):
                F[smoothers + SMOOTHERS, j] *= confidence
        opinions.opine(task, F, own, P)
        opinions.hand_out(own, _double(table, at.ON, (e,)), seen[i])
        _mix(table, own, mixed, out[i])
        _double(table, at.OUT, (k,))[:] = out[i]
    table[at.FRESH] = len(X) > 0


@fast
def _learn_mixing(table: Any, seen: Any, y: Any, mixed: Any, out: Any) -> None:
    """Let the mixers and their mixture learn from what the opinions were.

    They are in the pool's room from then on: who slept when the event had to be predicted is asleep
    to the mixing, whoever sleeps now.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    shares, products = table[at.MIXERS_SHARE], table[at.MIXERS_PRODUCT]
    L, on = _single(table, at.SEEN, (e, k)), _double(table, at.ON, (e,))
    if not table[at.FRESH] or opinions.differ(seen, L, on):
        opinions.take_back(seen, L, on)
        _mix(table, L, mixed, out)
    table[at.FRESH] = 0
    likely = _double(table, at.LOSSES, (e,))
    mixing.likelihoods(task, _double(table, at.OPINIONS, (e, k)), y, likely)
    above = _double(table, at.ABOVE, (shares + products,))
    mixing.likelihoods(task, mixed, y, above)
    weights, alphas = _double(table, at.SHARES, (shares, e)), _double(table, at.ALPHAS, (shares,))
    for i in range(shares):
        mixing.reweigh(weights[i], likely, on, alphas[i])
    _learn_products(table, L, y, mixed[shares:])
    all_on = _double(table, at.ALL, (shares + products,))
    mixing.reweigh(_double(table, at.TOP, (shares + products,)), above, all_on, alphas[0])


@fast
def _learn_products(table: Any, L: Any, y: Any, mixed: Any) -> None:
    """Let the products of experts learn; `mixed` are their predictions."""
    task, e, products = table[at.TASK], table[at.EXPERTS], table[at.MIXERS_PRODUCT]
    weights = _double(table, at.PRODUCTS, (products, e))
    inverses = _double(table, at.INVERSES, (products, e, e))
    rates = _double(table, at.PRODUCT_RATES, (products,))
    starts = _double(table, at.PRODUCT_STARTS, (products,))
    forgets = _double(table, at.FORGETS, (products,))
    room, g = _double(table, at.NEWTON_ROOM, (e,)), _double(table, at.SLOPES, (e,))
    for i in range(products):
        prediction, residual = mixed[i], 1.0
        if task == NUMBERS:
            residual = min(max(prediction[0] - y, -LONGEST), LONGEST)
            for j in range(e):
                g[j] = L[j, 0]
        else:
            mixing.slopes(task, L, prediction, y, g)
        if starts[i] > 0.0:
            mixing.newton_step(weights[i], inverses[i], g, residual, forgets[i], starts[i], room)
        else:
            mixing.gradient_step(weights[i], g, residual, rates[i], task == NUMBERS)


@fast
def _learn_experts(table: Any, awake: Any, G: Any) -> None:
    """Let the experts that are awake learn the label of the event in the pool's room."""
    d, m, s, k = table[at.COLUMNS], table[at.FEATURES], table[at.BANDWIDTHS], table[at.OUTPUTS]
    z = _single(table, at.Z, (d + 1,))
    e = table[at.LINEAR_RULES]
    if awake[LINEAR]:
        shape = (e, k, d + 1)
        rules.update(
            z,
            _single(table, at.LINEAR_A, shape),
            _single(table, at.LINEAR_SQUARES, shape),
            _double(table, at.LINEAR_RATES, (e,)),
            _whole(table, at.LINEAR_KINDS, (e,)),
            G[:e],
        )
    n = table[at.LADDER_RULES]
    if awake[LADDER]:
        phi, A = _single(table, at.PHI, (s, m)), _single(table, at.LADDER_A, (s, n, k, m))
        squares = _single(table, at.LADDER_SQUARES, (s, n, k, m))
        rates = _double(table, at.LADDER_RATES, (n,))
        kinds = _whole(table, at.LADDER_KINDS, (n,))
        for i in range(s):
            slopes = G[e + i * n : e + (i + 1) * n]
            rules.update(phi[i], A[i], squares[i], rates, kinds, slopes)
    e += s * n
    g, n = table[at.GROUPS], table[at.GRID_RULES]
    if awake[GRIDS]:
        _learn_grids(table, G[e : e + g * n].reshape((g, n, k)))


@fast
def _learn_grids(table: Any, G: Any) -> None:
    """Let the grids learn from the slopes (groups, rules, outputs) of their losses."""
    g, t, k, q = table[at.GROUPS], table[at.TABLES], table[at.OUTPUTS], grids.RULES
    line, tables = grids.line(k), _whole(table, at.GROUP, (g + 1,))
    cells = _short(table, at.CELLS, (t,))
    A, side = (
        _single(table, at.CELLS_A, (table[at.SLOTS], line)),
        _single(table, at.SIDE, (g, line)),
    )
    found, slopes = _single(table, at.GATHERED, (t, q)), _single(table, at.CELL_SLOPES, (t, q))
    squares, steps = _single(table, at.CELL_SQUARES, (t, q)), _single(table, at.CELL_STEPS, (t, q))
    grids.gather(cells, A, q * k, squares)
    for i in range(g):
        first, last = tables[i], tables[i + 1]
        grids.lay(G[i], side[i])
        grids.take_in(G[i], squares[first:last])
        if k == 1:
            grids.slopes_one(found[first:last], side[i], slopes[first:last])
        else:
            grids.slopes(cells[first:last], A, side[i], slopes[first:last])
    grids.learn(
        _single(table, at.GRID_RATES, (t * q,)),
        _single(table, at.GRID_PACES, (t * q,)),
        slopes.ravel(),
        squares.ravel(),
        _single(table, at.FACTORS, (t * q,)),
        _single(table, at.SPREAD, (t * q,)),
        steps.ravel(),
    )
    for i in range(g):
        first, last = tables[i], tables[i + 1]
        if k == 1:
            grids.descend_one(cells[first:last], steps[first:last], squares[first:last], side[i], A)
        else:
            some = cells[first:last]
            grids.descend(some, steps[first:last], squares[first:last], side[i], A, q * k)


@fast
def _learn_newton(table: Any, y: Any, F: Any) -> None:
    """Let the second-order expert learn; F (1, outputs) is its opinion before."""
    p, k, task = table[at.NEWTON], table[at.OUTPUTS], table[at.TASK]
    step = _single(table, at.NEWTON_STEP, (p,))
    z = _single(table, at.Z, (p,))
    newton.gain(z, _single(table, at.NEWTON_P, (p, p)), np.float32(NEWTON_FORGET), step)
    A = _single(table, at.NEWTON_A, (k, p))
    for j in range(k):
        if task == NUMBERS:
            longest = np.float32(LONGEST)
            residual = min(max(np.float32(y) - F[0, j], -longest), longest)
        elif task == BINARY:
            residual = np.float32(2.0 * y - 1.0) - F[0, j] / np.float32(_CONFIDENCE)
        else:
            residual = np.float32(1.0 if j == int(y) else 0.0) - F[0, j] / np.float32(_CONFIDENCE)
        newton.update(step, A, j, residual)


@fast
def _keep_account(table: Any, L: Any, y: Any, out: Any, room: Any) -> None:
    """Add up what was lost, and what the lack of each bank would have cost."""
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    account = _double(table, at.ACCOUNT, (NEWTON + 4,))
    account[LOST] += mixing.loss(task, out, y)
    account[EVENTS] += 1.0
    if account[EVENTS] % _SELDOM:
        return
    account[REVIEWED] += 1.0
    weights = _double(table, at.PRODUCTS, (table[at.MIXERS_PRODUCT], e))[1]
    banks, sums = _whole(table, at.BANKS, (e,)), _double(table, at.ROOM, (k,))
    mixing.pool(task, L, weights, sums, room)
    whole = mixing.loss(task, room, y)
    for bank in range(NEWTON + 1):
        mixing.pool_without(task, L, weights, banks, bank, sums, room)
        account[bank] += mixing.loss(task, room, y) - whole


@fast
def update(table: Any, seen: Any, y: Any) -> None:
    """Learn the label of the event that `forecast` saw last.

    The mixing learns from the opinions (E, K) in `seen`, which are those at the time when the event
    had to be predicted; the experts learn from what they would say now.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    awake, F = _flags(table, at.AWAKE, (NEWTON + 1,)), _single(table, at.F, (e, k))
    G = _single(table, at.G, (e, k))
    mixed = _double(table, at.MIXED, (table[at.MIXERS_SHARE] + table[at.MIXERS_PRODUCT], k))
    out = _double(table, at.OUT, (k,))
    _learn_mixing(table, seen, y, mixed, out)
    _keep_account(table, _single(table, at.SEEN, (e, k)), y, out, mixed[0])
    opinions.slopes(task, y, G)
    _learn_experts(table, awake, G)
    if table[at.NEWTON] and awake[NEWTON]:
        _learn_newton(table, y, F[e - LEVELS - 1 :])
    level.update(_single(table, at.LEVEL, (LEVELS, table[at.CLASSES])), y)
    if not awake[WINDOW]:
        return
    d, n = table[at.COLUMNS], table[at.WINDOW]
    z, row = _single(table, at.Z, (d,)), table[at.NEXT]
    Z = _single(table, at.WINDOW_Z, (d, n))
    for j in range(d):
        Z[j, row] = z[j]
    _single(table, at.WINDOW_Y, (n,))[row] = y
    table[at.NEXT] = (row + 1) % n
    table[at.COUNT] = min(table[at.COUNT] + 1, n)
