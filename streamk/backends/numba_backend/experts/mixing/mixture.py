"""The mixture of a pool's experts: what they say together, and how the mixing learns."""

from __future__ import annotations

from typing import Any

from streamk.backends import NUMBERS
from streamk.backends.numba_backend.compilation.stages import call
from streamk.backends.numba_backend.experts.banks.all_banks import LEVELS, NEWTON
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.layout import of
from streamk.backends.numba_backend.experts.layout import places as at
from streamk.backends.numba_backend.experts.mixing import calibration, costs, opinions
from streamk.backends.numba_backend.experts.mixing import two_stage as mixing
from streamk.backends.pool_arrays import SMOOTHERS

LOST, EVENTS, REVIEWED = NEWTON + 1, NEWTON + 2, NEWTON + 3
"""Places in an account after those of the banks: the sum of losses, events, and events in which the
banks were looked at."""
_SELDOM = 4
"""Events in which the banks are looked at once."""
LAST_START, LAST_FORGET = 0.01, 0.9998
"""Largest inverse, and discount, of the product of mixers."""


@fast
def rouse(table: Any, awake: Any) -> None:
    """Write which experts are awake, from which banks are."""
    on = of.on(table)
    sizes = (
        table[at.LINEAR_RULES],
        table[at.BANDWIDTHS] * table[at.LADDER_RULES],
        table[at.GROUPS] * table[at.GRID_RULES],
        SMOOTHERS,
        min(table[at.NEWTON], 1),
    )
    on[table[at.EXPERTS] - table[at.GUESTS] - LEVELS :] = 1.0
    e = 0
    for bank in range(len(sizes)):
        for i in range(e, e + sizes[bank]):
            on[i] = awake[bank]
        e += sizes[bank]


@fast
def mix(table: Any) -> None:
    """Write the mixers' predictions and their mixture, from the opinions in SEEN."""
    task, L, mixed, x = table[at.TASK], of.seen(table), of.mixed(table), table[at.MIXERS]
    on, beliefs, room = of.on(table), of.opinions(table), of.newton_room(table)
    opinions.believe(task, L, beliefs)
    weights, calibrated = of.shares(table), of.calibrated(table)
    mixing.share(weights[0], beliefs, on, room, mixed[0])
    calibration.believe(task, L, of.loudness(table), calibrated)
    mixing.share(weights[1], calibrated, on, room, mixed[1])
    first, weights, sums = len(weights), of.products(table), of.room(table)
    for i in range(len(weights)):
        mixing.pool(task, L, weights[i], sums, mixed[first + i])
    said = of.said(table)
    mixing.opine(task, mixed, said)
    mixing.pool(task, said, of.last_product(table), sums, mixed[x - 1])
    top, everyone = of.top(table), of.all(table)
    mixing.share(top, mixed, everyone, room, of.out(table))


@fast
def hand_out(mixed: Any, out: Any, kept: Any) -> None:
    """Write what the mixers (mixers, outputs) and their mixture say, as it is kept."""
    number, x = kept.dtype.type, len(mixed)
    for k in range(len(out)):
        for m in range(x):
            kept[m, k] = number(mixed[m, k])
        kept[x, k] = number(out[k])


@fast
def _take_back(table: Any, kept: Any, mixed: Any, out: Any) -> None:
    """Write what `hand_out` was given.

    With the weights that they have by now, mixers too would look better than they were.
    """
    x, k = table[at.MIXERS], table[at.OUTPUTS]
    for c in range(k):
        for m in range(x):
            mixed[m, c] = kept[m, c]
        out[c] = kept[x, c]
    mixing.opine(table[at.TASK], mixed, of.said(table))


@fast
def learn(table: Any, seen: Any, y: Any, mixed: Any, out: Any) -> None:
    """Let the mixers and their mixture learn from what was said, as it is kept.

    That is in the pool's room from then on: who slept when the event had to be predicted is asleep
    to the mixing, whoever sleeps now.
    """
    task, e, x = table[at.TASK], table[at.EXPERTS], table[at.MIXERS]
    L, on = of.seen(table), of.on(table)
    late = not table[at.FRESH] or opinions.differ(seen, L, on)
    if late:
        opinions.take_back(seen, L, on)
        call(table[at.MIX], table, ())
    table[at.FRESH] = 0
    weights, alphas = of.shares(table), of.alphas(table)
    likely, beliefs, calibrated = of.losses(table), of.opinions(table), of.calibrated(table)
    _learn_share(table, weights[0], beliefs, y, on, alphas[0], likely)
    _learn_share(table, weights[1], calibrated, y, on, alphas[1], likely)
    factors, curvatures = of.loudness(table), of.curvatures(table)
    how = of.loss(table)
    calibration.learn(task, L, calibrated, y, how, of.mean_error(table), on, factors, curvatures)
    _learn_products(table, L, y, mixed[len(weights) :])
    if late:
        _take_back(table, seen[e:], mixed, out)
    top, everyone = of.top(table), of.all(table)
    _learn_share(table, top, mixed, y, everyone, alphas[0], of.above(table))
    _learn_last_product(table, y, mixed[x - 1])


@fast
def _learn_share(
    table: Any, weights: Any, said: Any, y: Any, on: Any, alpha: Any, likely: Any
) -> None:
    """Let a fixed share learn from what those that it mixes said; `likely` is room."""
    mixing.likelihoods(table[at.TASK], said, y, of.loss(table), likely)
    mixing.temper(likely)
    mixing.reweigh(weights, likely, on, alpha)


@fast
def _learn_products(table: Any, L: Any, y: Any, mixed: Any) -> None:
    """Let the products of experts learn; `mixed` are their predictions."""
    weights, inverses, numbers = of.products(table), of.inverses(table), table[at.TASK] == NUMBERS
    rates, starts = of.product_rates(table), of.product_starts(table)
    forgets, room, g = of.forgets(table), of.newton_room(table), of.slopes(table)
    for i in range(len(weights)):
        residual = _direction(table, L, mixed[i], y, g)
        if starts[i] > 0.0:
            mixing.newton_step(weights[i], inverses[i], g, residual, forgets[i], starts[i], room)
        else:
            mixing.gradient_step(weights[i], g, residual, rates[i], numbers)


@fast
def _learn_last_product(table: Any, y: Any, prediction: Any) -> None:
    """Let the product of the other mixers learn; `prediction` becomes what it would say now."""
    said, weights = of.said(table), of.last_product(table)
    room, g = of.newton_room(table)[: len(weights)], of.slopes(table)[: len(weights)]
    mixing.pool(table[at.TASK], said, weights, of.room(table), prediction)
    residual = _direction(table, said, prediction, y, g)
    mixing.newton_step(weights, of.last_inverse(table), g, residual, LAST_FORGET, LAST_START, room)


@fast
def _direction(table: Any, L: Any, prediction: Any, y: Any, g: Any) -> Any:
    """Write the direction in which a product of opinions L learns; return the step's factor."""
    if table[at.TASK] != NUMBERS:
        mixing.slopes(table[at.TASK], L, prediction, y, g)
        return 1.0
    for e in range(len(g)):
        g[e] = L[e, 0]
    return costs.slope(prediction[0] - y, of.loss(table), of.mean_error(table))


@fast
def keep_account(table: Any, L: Any, y: Any, out: Any, room: Any) -> None:
    """Add up what was lost, and what the lack of each bank would have cost.

    The former is of the prediction as it was made, the latter of the experts' opinions then and of
    the weights they have now.
    """
    task, account, how = table[at.TASK], of.account(table), of.loss(table)
    account[LOST] += mixing.loss(task, out, y, how)
    account[EVENTS] += 1.0
    if account[EVENTS] % _SELDOM:
        return
    account[REVIEWED] += 1.0
    weights = of.products(table)[1]
    banks, sums = of.banks(table), of.room(table)
    mixing.pool(task, L, weights, sums, room)
    by_all = mixing.loss(task, room, y, how)
    for bank in range(NEWTON + 1):
        mixing.pool_without(task, L, weights, banks, bank, sums, room)
        account[bank] += mixing.loss(task, room, y, how) - by_all
