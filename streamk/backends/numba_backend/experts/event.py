"""One event through all experts: forecast it, then learn its label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.numpy_support import carray

from streamk.backends import BINARY, CLASSES, NUMBERS
from streamk.backends.numba_backend.addresses import pointer
from streamk.backends.numba_backend.experts import (
    calibration,
    coin,
    costs,
    grids,
    ladder,
    level,
    mixing,
    newton,
    offsets,
    opinions,
    rules,
    window,
)
from streamk.backends.numba_backend.experts import places as at
from streamk.backends.numba_backend.experts.compiled import fast
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
LAST_START, LAST_FORGET = 0.01, 0.9998
"""Largest inverse, and discount, of the product of mixers."""


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
def _how(table: Any) -> Any:
    """Return how errors of numbers count, see `costs`."""
    return table[at.LOSS], _double(table, at.LOSS_PARAMETER, (1,))[0]


@fast
def _tracked(table: Any) -> Any:
    """Return the offsets of quantiles and the mean errors."""
    return _double(table, at.TRACKED, (2, table[at.EXPERTS] + 1))


@fast
def _size(table: Any) -> Any:
    """Return the mean error of the mixture, by which steps on a quantile are measured."""
    if table[at.LOSS] == costs.QUANTILE:
        return _tracked(table)[1, table[at.EXPERTS]]
    return 1.0


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
    cells, of_all = _short(table, at.CELLS, (t,)), _flags(table, at.OF_ALL, (g,))
    for i in range(g):
        one, end, first, last = starts[i], starts[i + 1], tables[i], tables[i + 1]
        shape = ((end - one) // (last - first), last - first)
        s, f = shifts[one:end].reshape(shape), factors[one:end].reshape(shape)
        if of_all[i]:
            grids.locate_all(r, s, f, bins[first:last], cells[first:last])
        else:
            c = columns[one:end].reshape(shape)
            grids.locate(r, c, s, f, bins[first:last], cells[first:last])
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
    D, labels = _single(table, at.DISTANCES, (n,))[:count], _single(table, at.WINDOW_Y, (n,))
    window.distances(_single(table, at.Z, (d,)), _single(table, at.WINDOW_Z, (d, n)), D)
    median, sums = _double(table, at.DISTANCE, (1,))[0], _single(table, at.SUMS, window.room(c))
    if task == CLASSES:
        window.by_class(D, labels, median, _single(table, at.WEIGHTS, (2, n)), sums)
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
    weights, calibrated = (
        _double(table, at.SHARES, (shares, e)),
        _double(table, at.CALIBRATED, (e, k)),
    )
    mixing.share(weights[0], beliefs, on, mixed[0])
    calibration.believe(task, L, _double(table, at.LOUDNESS, (e,)), calibrated)
    mixing.share(weights[1], calibrated, on, mixed[1])
    weights, sums = _double(table, at.PRODUCTS, (products, e)), _double(table, at.ROOM, (k,))
    for i in range(products):
        mixing.pool(task, L, weights[i], sums, mixed[shares + i])
    x = table[at.MIXERS]
    said = _single(table, at.SAID, (x - 1, k))
    mixing.opine(task, mixed, said)
    mixing.pool(task, said, _double(table, at.LAST_PRODUCT, (x - 1,)), sums, mixed[x - 1])
    mixing.share(_double(table, at.TOP, (x,)), mixed, _double(table, at.ALL, (x,)), out)


@fast
def forecast_one(table: Any, x: Any) -> None:
    """Write into the pool's room what is said of an event x, float64 (d,), for `update`.

    The opinions are in SEEN, the prediction in OUT; in KEPT, an expert that sleeps says NaN.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    awake, F = _flags(table, at.AWAKE, (NEWTON + 1,)), _single(table, at.F, (e, k))
    P, own = _single(table, at.G, (e, k)), _single(table, at.SEEN, (e, k))
    mixed = _double(table, at.MIXED, (table[at.MIXERS], k))
    second = table[at.NEWTON] > 0
    smoothers = e - SMOOTHERS - second - LEVELS
    _rouse(table, awake)
    F[:] = 0.0
    _features(table, x, awake)
    _outputs(table, F, awake)
    if awake[WINDOW]:
        _smooth(table, F[smoothers : smoothers + SMOOTHERS])
    if second:  # its answers are 1 and 0, or -1
        confidence = np.float32(1.0 if task == NUMBERS else _CONFIDENCE)
        for j in range(k):
            F[smoothers + SMOOTHERS, j] *= confidence
    opinions.opine(task, F, own, P)
    if table[at.LOSS] == costs.QUANTILE:
        offsets.add(_tracked(table), _double(table, at.ON, (e,)), own, P)
    opinions.hand_out(own, _double(table, at.ON, (e,)), _single(table, at.KEPT, (e, k)))
    _mix(table, own, mixed, _double(table, at.OUT, (k,)))
    table[at.FRESH] = 1


@fast
def forecast(table: Any, X: Any, seen: Any, out: Any) -> None:
    """Write opinions (n, E, K), NaN of who sleeps, and predictions (n, K) of events X (n, d)."""
    e, k = table[at.EXPERTS], table[at.OUTPUTS]
    kept, predicted = _single(table, at.KEPT, (e, k)), _double(table, at.OUT, (k,))
    for i in range(len(X)):
        forecast_one(table, X[i])
        seen[i] = kept
        out[i] = predicted


@fast
def _learn_mixing(table: Any, seen: Any, y: Any, mixed: Any, out: Any) -> None:
    """Let the mixers and their mixture learn from what the opinions were.

    They are in the pool's room from then on: who slept when the event had to be predicted is asleep
    to the mixing, whoever sleeps now.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    shares, x = table[at.MIXERS_SHARE], table[at.MIXERS]
    L, on = _single(table, at.SEEN, (e, k)), _double(table, at.ON, (e,))
    if not table[at.FRESH] or opinions.differ(seen, L, on):
        opinions.take_back(seen, L, on)
        _mix(table, L, mixed, out)
    table[at.FRESH] = 0
    how, likely = _how(table), _double(table, at.LOSSES, (e,))
    above, calibrated = _double(table, at.ABOVE, (x,)), _double(table, at.CALIBRATED, (e, k))
    mixing.likelihoods(task, mixed, y, how, above)
    weights, alphas = _double(table, at.SHARES, (shares, e)), _double(table, at.ALPHAS, (shares,))
    mixing.likelihoods(task, _double(table, at.OPINIONS, (e, k)), y, how, likely)
    mixing.reweigh(weights[0], likely, on, alphas[0])
    mixing.likelihoods(task, calibrated, y, how, likely)
    mixing.reweigh(weights[1], likely, on, alphas[1])
    factors, curvatures = _double(table, at.LOUDNESS, (e,)), _double(table, at.CURVATURES, (e,))
    calibration.learn(task, L, calibrated, y, how, _size(table), on, factors, curvatures)
    _learn_products(table, L, y, mixed[shares:])
    _learn_last_product(table, y, mixed[x - 1])
    mixing.reweigh(_double(table, at.TOP, (x,)), above, _double(table, at.ALL, (x,)), alphas[0])


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
        residual = _direction(table, L, mixed[i], y, g)
        if starts[i] > 0.0:
            mixing.newton_step(weights[i], inverses[i], g, residual, forgets[i], starts[i], room)
        else:
            mixing.gradient_step(weights[i], g, residual, rates[i], task == NUMBERS)


@fast
def _learn_last_product(table: Any, y: Any, prediction: Any) -> None:
    """Let the product of the other mixers learn."""
    n = table[at.MIXERS] - 1
    room, g = _double(table, at.NEWTON_ROOM, (n,)), _double(table, at.SLOPES, (n,))
    said, weights = (
        _single(table, at.SAID, (n, table[at.OUTPUTS])),
        _double(table, at.LAST_PRODUCT, (n,)),
    )
    residual = _direction(table, said, prediction, y, g)
    inverse = _double(table, at.LAST_INVERSE, (n, n))
    mixing.newton_step(weights, inverse, g, residual, LAST_FORGET, LAST_START, room)


@fast
def _direction(table: Any, L: Any, prediction: Any, y: Any, g: Any) -> Any:
    """Write the direction in which a product of opinions L learns; return the step's factor."""
    if table[at.TASK] != NUMBERS:
        mixing.slopes(table[at.TASK], L, prediction, y, g)
        return 1.0
    for e in range(len(g)):
        g[e] = L[e, 0]
    return costs.slope(prediction[0] - y, _how(table), _size(table))


@fast
def _learn_experts(table: Any, awake: Any, G: Any) -> None:
    """Let the experts that are awake learn the label of the event in the pool's room."""
    d, m, s, k = table[at.COLUMNS], table[at.FEATURES], table[at.BANDWIDTHS], table[at.OUTPUTS]
    z = _single(table, at.Z, (d + 1,))
    e = table[at.LINEAR_RULES]
    if awake[LINEAR]:
        _learn_linear(table, z, G[:e])
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
def _learn_linear(table: Any, z: Any, G: Any) -> None:
    """Let the linear models learn from the slopes (rules, outputs) of their losses."""
    e, k, p = len(G), table[at.OUTPUTS], len(z)
    A, squares = (
        _single(table, at.LINEAR_A, (e, k, p)),
        _single(table, at.LINEAR_SQUARES, (e, k, p)),
    )
    rates, kinds = _double(table, at.LINEAR_RATES, (e,)), _whole(table, at.LINEAR_KINDS, (e,))
    last = e - 1  # the one that bets
    rules.update(z, A[:last], squares[:last], rates, kinds, G[:last])
    coin.update(
        z,
        A[last],
        squares[last],
        _single(table, at.LINEAR_BETS, (k, p)),
        _single(table, at.LINEAR_GAINS, (k, p)),
        _single(table, at.LINEAR_LARGEST, (k, p)),
        rates[last],
        G[last],
    )


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
    taken = _single(table, at.TAKEN, (q,))
    grids.gather(cells, A, q * k, squares)
    for i in range(g):
        first, last = tables[i], tables[i + 1]
        grids.lay(G[i], side[i])
        grids.take_in(G[i], taken, squares[first:last])
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
            longest = np.float32(costs.longest(_how(table)))
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
    how = _how(table)
    account[LOST] += mixing.loss(task, out, y, how)
    account[EVENTS] += 1.0
    if account[EVENTS] % _SELDOM:
        return
    account[REVIEWED] += 1.0
    weights = _double(table, at.PRODUCTS, (table[at.MIXERS_PRODUCT], e))[1]
    banks, sums = _whole(table, at.BANKS, (e,)), _double(table, at.ROOM, (k,))
    mixing.pool(task, L, weights, sums, room)
    whole = mixing.loss(task, room, y, how)
    for bank in range(NEWTON + 1):
        mixing.pool_without(task, L, weights, banks, bank, sums, room)
        account[bank] += mixing.loss(task, room, y, how) - whole


@fast
def update(table: Any, seen: Any, y: Any) -> None:
    """Learn the label of the event that `forecast` saw last.

    The mixing learns from the opinions (E, K) in `seen`, which are those at the time when the event
    had to be predicted; the experts learn from what they would say now.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    awake, F = _flags(table, at.AWAKE, (NEWTON + 1,)), _single(table, at.F, (e, k))
    G = _single(table, at.G, (e, k))
    mixed = _double(table, at.MIXED, (table[at.MIXERS], k))
    out = _double(table, at.OUT, (k,))
    _learn_mixing(table, seen, y, mixed, out)
    _keep_account(table, _single(table, at.SEEN, (e, k)), y, out, mixed[0])
    if table[at.LOSS] == costs.QUANTILE:
        on, steep = _double(table, at.ON, (e,)), _flags(table, at.PINBALL, (e,))
        offsets.learn(out[0] - y, y, _how(table), F, on, steep, _tracked(table), G)
    else:
        opinions.slopes(task, y, _how(table), G)
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


@fast
def learn(table: Any, X: Any, seen: Any, given: Any, y: Any) -> None:
    """Forecast and learn events X float64 (n, d) with labels y float64 (n,), one by one.

    Where `given` is true the mixing learns from the opinions in `seen` (n, E, K); else from those
    of now.
    """
    now = _single(table, at.KEPT, (table[at.EXPERTS], table[at.OUTPUTS]))
    for i in range(len(X)):
        forecast_one(table, X[i])
        update(table, seen[i] if given[i] else now, y[i])
