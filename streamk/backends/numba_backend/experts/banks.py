"""The banks of experts: what they look at, what they put out, and how they learn.

Linear models learn by several step rules side by side, as those on the ladder's features do; the
second-order expert learns by recursive least squares with forgetting.

The ladder has Gaussian features at many bandwidths that share one projection,
``cos(2 pi (s u + b))`` for ``u = w . z`` in turns and s = 1/4, 1/2, ...: the frequencies of a
Gaussian kernel scale with the inverse bandwidth (Rahimi and Recht 2007), so the product is paid
once.

The linear model that bets has no step size: each coefficient is a bet on its own slopes. Coin
betting (Orabona and Pal 2016, "Coin betting and parameter-free online learning"), coordinate
by coordinate. A coefficient stakes a part of its wealth on the sign of the next slope, and wins or
loses that part times the slope, in units of the largest slope so far. The part moves by online
Newton steps on the logarithm of the wealth (Cutkosky and Orabona 2018, "Black-box reductions for
parameter-free online learning in Banach spaces", Algorithm 1; the largest slope takes the place of
a known bound as in Cutkosky 2019, "Artificial constraints and hints for unbounded online
learning"). Wealth never falls below what it began with, as in COCOB (Orabona and Tommasi 2017,
"Training deep networks without learning rates through coin betting", Algorithm 1).

A loss in another unit changes no prediction, nor does a feature in another unit.

The constant kernel is experts that look at no column and follow the labels alone: exponential
smoothing at several rates. The fastest one says the last label again, which is hard to beat where
neighbouring labels resemble each other, and useless where they come late; the slowest knows how
frequent the classes are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import BINARY, CLASSES, HIGHEST_RANK, NUMBERS, OUTERMOST, SAMPLED
from streamk.backends.numba_backend.compiling import fast, part
from streamk.backends.numba_backend.experts import grids, slot, two_stage, view, window
from streamk.backends.numba_backend.simd import COSINE
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
        project(z, view.projection(table), u)
        cosines(u, view.phases(table), view.scales(table), view.phi(table))
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
        forecast_linear(z, view.linear_a(table), F[:e])
    n = table[slot.LADDER_RULES]
    if active[LADDER]:
        phi, A = view.phi(table), view.ladder_a(table)
        for i in range(s):
            forecast_linear(phi[i], A[i], F[e + i * n : e + (i + 1) * n])
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
        forecast_linear(z[:p], view.newton_a(table).reshape((1, k, p)), F[e : e + 1])
        # Its answers are 1 and 0, or -1.
        confidence = np.float32(1.0 if table[slot.TASK] == NUMBERS else _CONFIDENCE)
        for j in range(k):
            F[e, j] *= confidence
    forecast_level(view.level(table), F[len(F) - LEVELS :])


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
            update_linear(phi[i], A[i], squares[i], rates, kinds, slopes)
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
    update_linear(z, A[:last], squares[:last], rates, kinds, G[:last])
    update_bets(
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
    newton_gain(z, view.newton_p(table), np.float32(NEWTON_FORGET), step)
    for j in range(k):
        if task == NUMBERS:
            longest = np.float32(two_stage.longest(view.loss(table)))
            residual = min(max(np.float32(y) - F[0, j], -longest), longest)
        elif task == BINARY:
            residual = np.float32(2.0 * y - 1.0) - F[0, j] / np.float32(_CONFIDENCE)
        else:
            residual = np.float32(1.0 if j == int(y) else 0.0) - F[0, j] / np.float32(_CONFIDENCE)
        update_newton(step, A, j, residual)


@fast
def learn(table: Any, active: Any, F: Any, y: Any) -> None:
    """Update the experts without slopes by the label; F are the outputs of all."""
    if table[slot.NEWTON] and active[NEWTON]:
        _learn_newton(table, y, F[len(F) - LEVELS - 1 :])
    update_level(view.level(table), y)
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


ADAGRAD = 0
"""Step ``rate / sqrt(sum of squared gradients)`` for each coefficient (Duchi et al. 2011)."""
NORMALIZED = 1
"""Step ``rate / |features|^2`` (normalised least mean squares, Nagumo and Noda 1967)."""


@fast
def dot(a: Any, b: Any) -> Any:
    """Return the inner product of two vectors."""
    total = a[0] * b[0]
    for i in range(1, len(a)):
        total += a[i] * b[i]
    return total


@fast
def forecast_linear(phi: Any, A: Any, F: Any) -> None:
    """Write ``F[rule, output] = A[rule, output] . phi``; A may have room for more outputs."""
    for rule in range(A.shape[0]):
        for k in range(F.shape[1]):
            F[rule, k] = dot(A[rule, k], phi)


@fast
def update_linear(phi: Any, A: Any, squares: Any, rates: Any, kinds: Any, G: Any) -> None:
    """Descend: `G` (rules, outputs) are the slopes of the losses in F, A as there."""
    norm = dot(phi, phi) + phi.dtype.type(1e-6)
    for rule in range(A.shape[0]):
        rate = phi.dtype.type(rates[rule])
        for k in range(G.shape[1]):
            g = G[rule, k]
            if abs(g) < 1e-5:  # too sure to learn: most classes of most events
                continue
            a = A[rule, k]
            if kinds[rule] == NORMALIZED:
                step = rate * g / norm
                for i in range(len(phi)):
                    a[i] -= step * phi[i]
            else:
                s = squares[rule, k]
                for i in range(len(phi)):
                    h = g * phi[i]
                    s[i] += h * h
                    # Divided by the root alone, which machines estimate at a third of the time.
                    a[i] -= rate * h / math.sqrt(s[i] + phi.dtype.type(1e-12))


_NEWTON = 2.0 / (2.0 - math.log(3.0))
"""Step on the logarithm of the wealth, over the sum of its squared slopes."""
_LARGEST_STAKE = 0.5
"""Part of the wealth that a bet may stake."""
_RICHEST = 1e9
"""Gain that wealth stops at: far more than a prediction needs, and single precision holds what
comes of it however small the slopes are."""
_TINY = 1e-25
_SURE = 1e-5
"""Slope, in units of the largest one, that is not worth a step: most classes of most events."""


@fast
def update_bets(
    phi: Any, A: Any, squares: Any, bets: Any, gains: Any, largest: Any, wealth: Any, G: Any
) -> None:
    """Take in the slopes G (outputs,) of the loss at ``A @ phi``; the last feature is the constant.

    `wealth` is what a coefficient begins with, as what it would add to the output; `bets` are the
    parts of it at stake, `gains` what was won, over `wealth`, `largest` the largest slopes. A moves
    by what the stakes move and by what their unit does, so that it may be set to something else at
    any time.
    """
    number = phi.dtype.type
    one, pace, most, tiny = number(1.0), number(_NEWTON), number(_LARGEST_STAKE), number(_TINY)
    richest, last = number(_RICHEST), len(phi) - 1
    for k in range(len(G)):
        g, before = G[k], largest[k, last]
        top = max(before, abs(g))
        if abs(g) <= number(_SURE) * top:
            continue
        stake = number(wealth) * top
        growth = min(top / before, one / tiny) if before > number(0.0) else one
        a, s, bet, gain, most_yet = A[k], squares[k], bets[k], gains[k], largest[k]
        for i in range(len(phi)):
            h = g * phi[i]
            was, bound = most_yet[i], max(most_yet[i], abs(h))
            inverse = one / (bound + tiny)
            coin = -h * inverse
            odds = one + bet[i] * coin
            won = min(max((one + gain[i]) * odds - one, number(0.0)), richest)
            slope = coin / odds
            sum_of_squares = s[i] + slope * slope
            part = min(max(bet[i] + pace * slope / (one + sum_of_squares), -most), most)
            moved = part * (one + won) - bet[i] * (one + gain[i])
            a[i] = (a[i] * growth * (was + tiny) + stake * moved) * inverse
            s[i], bet[i], gain[i], most_yet[i] = sum_of_squares, part, won, bound


_COSINE = COSINE["float"]


@fast
def project(z: Any, W: Any, u: Any) -> None:
    """Write ``u = z W`` in turns; columns that are 0 cost nothing."""
    for i in range(len(u)):
        u[i] = 0.0
    for j in range(W.shape[0]):
        x = z[j]
        if x != 0.0:
            w = W[j]
            for i in range(len(u)):
                u[i] += x * w[i]


@fast
def cosines(u: Any, b: Any, scales: Any, phi: Any) -> None:
    """Write ``phi[s] = cos(2 pi (scales[s] u + b))``."""
    number = u.dtype.type
    c0, c1, c2, c3, c4, c5 = _COSINE
    for s in range(len(scales)):
        scale, row = number(scales[s]), phi[s]
        for i in range(len(u)):
            t = scale * u[i] + b[i]
            t -= np.rint(t)
            q = t * t
            c = number(c4) + q * number(c5)
            c = number(c2) + q * (number(c3) + q * c)
            row[i] = number(c0) + q * (number(c1) + q * c)


_PRIOR = 0.01
"""Added to what is known of each class."""


@fast
def forecast_level(level: Any, F: Any) -> None:
    """Write logits of classes, or numbers, from the levels (rates, classes or 1)."""
    small = level.dtype.type(_PRIOR)
    for i in range(len(level)):
        if level.shape[1] == 1:
            F[i, 0] = level[i, 0]
        elif F.shape[1] == 1:
            F[i, 0] = math.log((level[i, 1] + small) / (level[i, 0] + small))
        else:
            for k in range(level.shape[1]):
                F[i, k] = math.log(level[i, k] + small)


@fast
def update_level(level: Any, y: Any) -> None:
    """Follow a label, the number of a class or a number."""
    for i in range(len(level)):
        rate = level.dtype.type(LEVEL_RATES[i])
        for k in range(level.shape[1]):
            target = level.dtype.type(y)
            if level.shape[1] > 1:
                target = level.dtype.type(1.0 if k == int(y) else 0.0)
            level[i, k] += rate * (target - level[i, k])


_LARGEST_MEAN = 1e2
"""Mean of P's diagonal from which on forgetting does not let it grow."""


@fast
def _begin_anew(phi: Any, P: Any, out: Any) -> None:
    """Make P the identity, and write ``P phi``."""
    for i in range(len(phi)):
        for j in range(len(phi)):
            P[i, j] = P.dtype.type(1.0 if i == j else 0.0)
        out[i] = phi[i]


@fast
def newton_gain(phi: Any, P: Any, forget: Any, out: Any) -> None:
    """Write the gain ``P phi / (forget + phi' P phi)`` and take the event into P.

    P is the inverse of the discounted sum of ``phi phi'``. Where the discount alone would let it
    grow, in directions that no event has, it stays.
    """
    n, number = len(phi), phi.dtype.type
    for i in range(n):
        out[i] = 0.0
    for j in range(n):  # P is symmetric: sums along its rows fill vectors, and need no last sum
        row, v = P[j], phi[j]
        if v != number(0.0):
            for i in range(n):
                out[i] += v * row[i]
    form, trace = dot(phi, out), number(0.0)
    if not form >= number(0.0):  # rounding has made P useless: begin anew
        _begin_anew(phi, P, out)
        form = dot(phi, phi)
    q = forget + form
    for i in range(n):
        trace += P[i, i]
    scale = number(1.0) / forget if trace < number(_LARGEST_MEAN * n) else number(1.0)
    root = number(1.0) / math.sqrt(q)
    for i in range(n):
        out[i] *= root
    for i in range(n):  # products of the same two numbers: else what is not symmetric would grow
        f, row = out[i], P[i]
        for j in range(n):
            row[j] = (row[j] - f * out[j]) * scale
    for i in range(n):
        out[i] *= root


@fast
def update_newton(step: Any, A: Any, k: Any, residual: Any) -> None:
    """Move output k along the gain."""
    for i in range(len(step)):
        A[k, i] += residual * step[i]
