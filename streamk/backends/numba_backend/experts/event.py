"""One event through all experts: forecast it, then learn its label."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.np.numpy_support import carray

from streamk.backends.numba_backend.addresses import pointer
from streamk.backends.numba_backend.experts import (
    grids,
    ladder,
    level,
    mixing,
    newton,
    rules,
    window,
)
from streamk.backends.numba_backend.experts import places as at
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.mixing import BINARY, CLASSES, LEAST, NUMBERS
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
_FURTHEST = 20.0
"""Where a number that an expert predicts ends, in units of the labels' scale."""
_LONGEST = 3.0
"""The squared loss becomes Huber's where the error is more, in units of the labels' scale."""
_CONFIDENCE = 3.0
"""Logit that the second-order expert's answer of 1 counts for."""
FORGET = 0.9998
"""Of the weights' Newton steps: they look back some 5,000 events."""
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
def _flags(table: Any, place: Any, shape: Any) -> Any:
    return carray(pointer(table[place], np.bool_(False)), shape)


@fast
def _features(table: Any, x: Any, awake: Any) -> None:
    """Write what the experts look at."""
    d, m, s, t = table[at.COLUMNS], table[at.FEATURES], table[at.BANDWIDTHS], table[at.TABLES]
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
        members = table[at.MEMBERS]
        grids.locate(
            r,
            _whole(table, at.STARTS, (t + 1,)),
            _whole(table, at.MEMBERS_OF, (members,)),
            _single(table, at.SHIFTS, (members,)),
            _whole(table, at.BINS, (t,)),
            _whole(table, at.FIRST, (t + 1,)),
            _whole(table, at.CELLS, (t,)),
        )


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
    g, n, t = table[at.GROUPS], table[at.GRID_RULES], table[at.TABLES]
    if awake[GRIDS]:
        grids.forecast(
            _whole(table, at.CELLS, (t,)),
            _whole(table, at.GROUP, (t,)),
            _single(table, at.FACTORS, (t, n)),
            _single(table, at.CELLS_A, (table[at.SLOTS], n, k)),
            F[e : e + g * n].reshape((g, n, k)),
        )
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
    z, D = _single(table, at.Z, (d + 1,)), _single(table, at.DISTANCES, (n,))
    sums = _single(table, at.SUMS, (SMOOTHERS, c + 1))
    least = window.distances(z[:d], _single(table, at.WINDOW_Z, (n, d)), count, D)
    median = np.float32(_double(table, at.DISTANCE, (1,))[0])
    window.smooth(D, least, count, median, _single(table, at.WINDOW_Y, (n,)), sums)
    prior = np.float32(window.PRIOR)
    for e in range(SMOOTHERS):
        total = sums[e, c] + prior
        if task == NUMBERS:
            F[e, 0] = sums[e, 0] / total
        elif task == BINARY:
            half = np.float32(0.5) * prior
            F[e, 0] = math.log((sums[e, 1] + half) / (sums[e, 0] + half))
        else:
            for k in range(c):
                F[e, k] = math.log((sums[e, k] + prior / np.float32(c)) / total)


@fast
def _opine(task: Any, F: Any, L: Any) -> None:
    """Write an expert's opinion: a logit, log-probabilities or a number, all within bounds."""
    if task == NUMBERS:
        L[0] = min(max(F[0], np.float32(-_FURTHEST)), np.float32(_FURTHEST))
    elif task == BINARY:
        limit = np.float32(-math.log(LEAST))
        L[0] = min(max(F[0], -limit), limit)
    else:
        top = F[0]
        for k in range(1, len(F)):
            top = max(top, F[k])
        total = np.float32(0.0)
        for k in range(len(F)):
            total += math.exp(F[k] - top)
        shift = top + np.float32(math.log(total))
        for k in range(len(F)):
            L[k] = max(F[k] - shift, np.float32(math.log(LEAST)))


@fast
def _asleep(e: Any, table: Any, awake: Any) -> Any:
    """Return whether an expert's bank sleeps."""
    first = table[at.LINEAR_RULES]
    if e < first:
        return not awake[LINEAR]
    first += table[at.BANDWIDTHS] * table[at.LADDER_RULES]
    if e < first:
        return not awake[LADDER]
    first += table[at.GROUPS] * table[at.GRID_RULES]
    if e < first:
        return not awake[GRIDS]
    if e < first + SMOOTHERS:
        return not awake[WINDOW]
    return e < table[at.EXPERTS] - LEVELS and not awake[NEWTON]


@fast
def _mix(table: Any, L: Any, mixed: Any, out: Any) -> None:
    """Write the mixers' predictions and their mixture, from opinions (experts, outputs)."""
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    shares, products = table[at.MIXERS_SHARE], table[at.MIXERS_PRODUCT]
    awake, on = _flags(table, at.AWAKE, (NEWTON + 1,)), _flags(table, at.ON, (e,))
    opinions, sums = _double(table, at.OPINIONS, (e, k)), _double(table, at.ROOM, (k,))
    for i in range(e):
        on[i] = not _asleep(i, table, awake)
        for j in range(k):
            v = np.float64(L[i, j])
            if task == BINARY:
                v = 1.0 / (1.0 + math.exp(-v))
            elif task == CLASSES:
                v = math.exp(v)
            opinions[i, j] = v
    weights = _double(table, at.SHARES, (shares, e))
    for i in range(shares):
        mixing.share(weights[i], opinions, on, mixed[i])
    weights = _double(table, at.PRODUCTS, (products, e))
    for i in range(products):
        mixing.pool(task, L, weights[i], sums, mixed[shares + i])
    all_on = _flags(table, at.ALL, (e,))
    mixing.share(_double(table, at.TOP, (shares + products,)), mixed, all_on, out)


@fast
def forecast(table: Any, X: Any, seen: Any, out: Any) -> None:
    """Write opinions (n, E, K) and predictions (n, K) of events X float64 (n, d).

    What was found for the last of them stays in the pool's room, for `update`.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    awake, F = _flags(table, at.AWAKE, (NEWTON + 1,)), _single(table, at.F, (e, k))
    mixed = _double(table, at.MIXED, (table[at.MIXERS_SHARE] + table[at.MIXERS_PRODUCT], k))
    smoothers = e - SMOOTHERS - (table[at.NEWTON] > 0) - LEVELS
    for i in range(len(X)):
        F[:] = 0.0
        _features(table, X[i], awake)
        _outputs(table, F, awake)
        if awake[WINDOW]:
            _smooth(table, F[smoothers : smoothers + SMOOTHERS])
        for j in range(e):
            if j == smoothers + SMOOTHERS and j < e - LEVELS:  # answers with 1 and 0, or -1
                confidence = np.float32(1.0 if task == NUMBERS else _CONFIDENCE)
                for q in range(k):
                    F[j, q] *= confidence
            _opine(task, F[j], seen[i, j])
        _mix(table, seen[i], mixed, out[i])


@fast
def _slopes(task: Any, F: Any, y: Any, G: Any) -> None:
    """Write the slopes of the experts' own losses in their outputs."""
    for e in range(F.shape[0]):
        if task == NUMBERS:
            longest = np.float32(_LONGEST)
            G[e, 0] = min(max(F[e, 0] - np.float32(y), -longest), longest)
        elif task == BINARY:
            G[e, 0] = np.float32(1.0) / (np.float32(1.0) + math.exp(-F[e, 0])) - np.float32(y)
        else:
            top, total = F[e, 0], np.float32(0.0)
            for k in range(1, F.shape[1]):
                top = max(top, F[e, k])
            for k in range(F.shape[1]):
                G[e, k] = math.exp(F[e, k] - top)
                total += G[e, k]
            for k in range(F.shape[1]):
                G[e, k] /= total
            G[e, int(y)] -= np.float32(1.0)


@fast
def _learn_mixing(table: Any, L: Any, y: Any, awake: Any, mixed: Any, out: Any) -> None:
    """Let the mixers and their mixture learn from what the opinions were."""
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    shares, products = table[at.MIXERS_SHARE], table[at.MIXERS_PRODUCT]
    _mix(table, L, mixed, out)
    losses, on = _double(table, at.LOSSES, (e,)), _flags(table, at.ON, (e,))
    opinions = _double(table, at.OPINIONS, (e, k))
    for i in range(e):
        losses[i] = mixing.loss(task, opinions[i], y)
    above, all_on = _double(table, at.ABOVE, (shares + products,)), _flags(table, at.ALL, (e,))
    for i in range(shares + products):
        above[i] = mixing.loss(task, mixed[i], y)
    weights, alphas = _double(table, at.SHARES, (shares, e)), _double(table, at.ALPHAS, (shares,))
    for i in range(shares):
        mixing.reweigh(weights[i], losses, on, alphas[i])
    weights = _double(table, at.PRODUCTS, (products, e))
    inverses = _double(table, at.INVERSES, (products, e, e))
    rates = _double(table, at.PRODUCT_RATES, (products,))
    starts = _double(table, at.PRODUCT_STARTS, (products,))
    forgets = _double(table, at.FORGETS, (products,))
    room, g = _double(table, at.NEWTON_ROOM, (e,)), _double(table, at.SLOPES, (e,))
    for i in range(products):
        prediction, residual = mixed[shares + i], 1.0
        if task == NUMBERS:
            residual = min(max(prediction[0] - y, -_LONGEST), _LONGEST)
            for j in range(e):
                g[j] = L[j, 0]
        else:
            mixing.slopes(task, L, prediction, y, g)
        if starts[i] > 0.0:
            mixing.newton_step(weights[i], inverses[i], g, residual, forgets[i], starts[i], room)
        else:
            mixing.gradient_step(weights[i], g, residual, rates[i], task == NUMBERS)
    mixing.reweigh(_double(table, at.TOP, (shares + products,)), above, all_on, alphas[0])


@fast
def _learn_experts(table: Any, y: Any, awake: Any, F: Any, G: Any) -> None:
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
    g, n, t = table[at.GROUPS], table[at.GRID_RULES], table[at.TABLES]
    if awake[GRIDS]:
        slots = table[at.SLOTS]
        grids.update(
            _whole(table, at.CELLS, (t,)),
            _whole(table, at.GROUP, (t,)),
            _double(table, at.GRID_RATES, (g, n)),
            _double(table, at.GRID_PACES, (n,)),
            _single(table, at.FACTORS, (t, n)),
            _single(table, at.SPREAD, (t, n)),
            _single(table, at.CELLS_A, (slots, n, k)),
            _single(table, at.CELLS_SQUARES, (slots, n)),
            G[e : e + g * n].reshape((g, n, k)),
        )


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
            longest = np.float32(_LONGEST)
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
    _learn_mixing(table, seen, y, awake, mixed, out)
    _keep_account(table, seen, y, out, mixed[0])
    _slopes(task, F, y, G)
    _learn_experts(table, y, awake, F, G)
    if table[at.NEWTON] and awake[NEWTON]:
        _learn_newton(table, y, F[e - LEVELS - 1 :])
    level.update(_single(table, at.LEVEL, (LEVELS, table[at.CLASSES])), y)
    if not awake[WINDOW]:
        return
    d, n = table[at.COLUMNS], table[at.WINDOW]
    z, row = _single(table, at.Z, (d,)), table[at.NEXT]
    _single(table, at.WINDOW_Z, (n, d))[row] = z
    _single(table, at.WINDOW_Y, (n,))[row] = y
    table[at.NEXT] = (row + 1) % n
    table[at.COUNT] = min(table[at.COUNT] + 1, n)
