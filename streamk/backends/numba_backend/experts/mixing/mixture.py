"""The mixture of a pool's experts: what they say together, and how the mixing learns."""

from __future__ import annotations

from typing import Any

from streamk.backends import NUMBERS
from streamk.backends.numba_backend.experts import slot, view
from streamk.backends.numba_backend.experts.banks.all_banks import LEVELS, NEWTON
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.mixing import (
    calibration,
    costs,
    evidence,
    expert_predictions,
    two_stage,
    weights,
)
from streamk.backends.numba_backend.stages import call
from streamk.backends.pool_arrays import SMOOTHERS

LOST, EVENTS, REVIEWED = NEWTON + 1, NEWTON + 2, NEWTON + 3
"""Places in the bank costs after those of the banks: the sum of losses, events, and events in which
the banks were looked at."""
SELDOM = 4
"""Events in which the banks are looked at once."""
LAST_START, LAST_FORGET = 0.01, 0.9998
"""Largest inverse, and discount, of the product of mixers."""


@fast
def expand_active_mask(table: Any, active: Any) -> None:
    """Write which experts are active, from which banks are; external ones whose F is no NaN."""
    on = view.active_mask(table)
    sizes = (
        table[slot.LINEAR_RULES],
        table[slot.BANDWIDTHS] * table[slot.LADDER_RULES],
        table[slot.GROUPS] * table[slot.GRID_RULES],
        SMOOTHERS,
        min(table[slot.NEWTON], 1),
    )
    experts, F = table[slot.EXPERTS], view.f(table)
    own = experts - table[slot.EXTERNAL]
    on[own - LEVELS : own] = 1.0
    for i in range(own, experts):
        on[i] = 1.0 if F[i, 0] == F[i, 0] else 0.0
    e = 0
    for bank in range(len(sizes)):
        for i in range(e, e + sizes[bank]):
            on[i] = active[bank]
        e += sizes[bank]


@fast
def mix(table: Any) -> None:
    """Write the mixers' predictions and their mixture, from SCORES.

    With external experts there are two mixtures, see `weights` and `evidence`.
    """
    task, L, on = table[slot.TASK], view.scores(table), view.active_mask(table)
    expert_predictions.to_probabilities(task, L, view.probabilities(table))
    calibration.to_probabilities(task, L, view.inverse_temperatures(table), view.calibrated(table))
    for which in range(weights.first(table, on), weights.last(table) + 1):
        _mix(table, weights.mixture(table, which > 0), weights.experts(table, which > 0))
    if table[slot.EXTERNAL] > 0:
        evidence.choose(table, on)


@fast
def _mix(table: Any, one: Any, n: Any) -> None:
    """Write the predictions of a mixture of the first n experts."""
    task, x, on = table[slot.TASK], table[slot.MIXERS], view.active_mask(table)[:n]
    L, room, sums = (
        view.scores(table)[:n],
        view.expert_workspace(table),
        view.output_workspace(table),
    )
    two_stage.share(one.shares[0], view.probabilities(table), on, room, one.mixed[0])
    two_stage.share(one.shares[1], view.calibrated(table), on, room, one.mixed[1])
    first = len(one.shares)
    for i in range(len(one.products)):
        two_stage.pool(task, L, one.products[i], sums, one.mixed[first + i])
    two_stage.to_scores(task, one.mixed, one.said)
    two_stage.pool(task, one.said, one.last_product, sums, one.mixed[x - 1])
    two_stage.share(one.top, one.mixed, view.ones(table), room, one.out)


@fast
def store(table: Any) -> None:
    """Write what the mixers and their mixtures say into KEPT, after the scores."""
    row = table[slot.EXPERTS]
    kept, out = view.kept(table), view.out(table)
    number = kept.dtype.type
    for which in range(weights.last(table) + 1):
        one = weights.mixture(table, which > 0)
        for m in range(len(one.mixed)):
            for k in range(len(out)):
                kept[row + m, k] = number(one.mixed[m, k])
        row += len(one.mixed)
        for k in range(len(out)):
            kept[row, k] = number(one.out[k])
        row += 1
    if table[slot.EXTERNAL] > 0:
        for k in range(len(out)):
            kept[row, k] = number(out[k])


@fast
def _load(table: Any, seen: Any, one: Any, row: Any) -> None:
    """Write what `store` has kept of a mixture from a row on.

    With the weights that they have by now, mixers too would look better than they were.
    """
    x = len(one.mixed)
    for c in range(len(one.out)):
        for m in range(x):
            one.mixed[m, c] = seen[row + m, c]
        one.out[c] = seen[row + x, c]
    two_stage.to_scores(table[slot.TASK], one.mixed, one.said)


@fast
def learn(table: Any, seen: Any, y: Any) -> None:
    """Update the mixers and their mixtures by the predictions, as they are kept.

    That is in the pool's workspace from then on: an expert that was inactive at the prediction is
    inactive to the mixing, whether or not it is active now.
    """
    task, e = table[slot.TASK], table[slot.EXPERTS]
    L, on, how = view.scores(table), view.active_mask(table), view.loss(table)
    late = not table[slot.FRESH] or expert_predictions.differ(seen, L, on)
    if late:
        expert_predictions.load(seen, L, on)
        call(table[slot.MIX], table, ())
    table[slot.FRESH] = 0
    begin, end = weights.first(table, on), weights.last(table) + 1
    alphas, likely, calibrated = view.alphas(table), view.losses(table), view.calibrated(table)
    for m in range(len(alphas)):
        said = view.probabilities(table) if m == 0 else calibrated
        two_stage.likelihoods(task, said, y, how, likely)
        two_stage.temper(likely)
        for which in range(begin, end):
            shares = weights.mixture(table, which > 0).shares[m]
            two_stage.reweigh(shares, likely, on, alphas[m])
    factors, curvatures = view.inverse_temperatures(table), view.curvatures(table)
    calibration.learn(task, L, calibrated, y, how, view.mean_error(table), on, factors, curvatures)
    for which in range(begin, end):
        one = weights.mixture(table, which > 0)
        _learn_products(table, one, L[: weights.experts(table, which > 0)], y)
        if late:
            _load(table, seen, one, e + which * (table[slot.MIXERS] + 1))
        _learn_top(table, one, y)
    if begin < end - 1:
        evidence.compare(table, task, y)


@fast
def _learn_top(table: Any, one: Any, y: Any) -> None:
    """Update the fixed share of a mixture's mixers, and then their product."""
    likely = view.above(table)
    two_stage.likelihoods(table[slot.TASK], one.mixed, y, view.loss(table), likely)
    two_stage.temper(likely)
    two_stage.reweigh(one.top, likely, view.ones(table), view.alphas(table)[0])
    _learn_last_product(table, one, y)


@fast
def _learn_products(table: Any, one: Any, L: Any, y: Any) -> None:
    """Update a mixture's products of experts by their predictions."""
    numbers = table[slot.TASK] == NUMBERS
    rates, starts = view.product_rates(table), view.product_starts(table)
    forgets, room, g = view.forgets(table), view.expert_workspace(table), view.slopes(table)
    first, g = len(one.shares), g[: len(L)]
    for i in range(len(one.products)):
        residual = _direction(table, L, one.mixed[first + i], y, g)
        w, P = one.products[i], one.inverses[i]
        if starts[i] > 0.0:
            two_stage.newton_step(w, P, g, residual, forgets[i], starts[i], room[: len(L)])
        else:
            two_stage.gradient_step(w, g, residual, rates[i], numbers)


@fast
def _learn_last_product(table: Any, one: Any, y: Any) -> None:
    """Update the product of a mixture's other mixers.

    What it predicts by now takes the place of what it had predicted.
    """
    n, prediction = len(one.last_product), one.mixed[len(one.mixed) - 1]
    room, g = view.expert_workspace(table)[:n], view.slopes(table)[:n]
    two_stage.pool(
        table[slot.TASK], one.said, one.last_product, view.output_workspace(table), prediction
    )
    residual = _direction(table, one.said, prediction, y, g)
    two_stage.newton_step(
        one.last_product, one.last_inverse, g, residual, LAST_FORGET, LAST_START, room
    )


@fast
def _direction(table: Any, L: Any, prediction: Any, y: Any, g: Any) -> Any:
    """Write a product's gradient in its weights, from scores L; return the step's factor."""
    if table[slot.TASK] != NUMBERS:
        two_stage.slopes(table[slot.TASK], L, prediction, y, g)
        return 1.0
    for e in range(len(g)):
        g[e] = L[e, 0]
    return costs.slope(prediction[0] - y, view.loss(table), view.mean_error(table))


@fast
def add_bank_costs(table: Any, y: Any) -> None:
    """Add up what was lost, and what the lack of each bank would have cost.

    And of each external expert, by how much that was more than it has to be.

    What was lost is of the prediction as it was made, the others are of the experts' scores then
    and of the weights they have now. Of the pool's own banks, and of drift, the mixture of these
    alone decides, so that they are what they would be without external experts.
    """
    task, bank_costs, how = table[slot.TASK], view.bank_costs(table), view.loss(table)
    n, one = table[slot.OWN_EXPERTS], weights.mixture(table, True)
    bank_costs[LOST] += two_stage.loss(task, one.out, y, how)
    bank_costs[EVENTS] += 1.0
    if bank_costs[EVENTS] % SELDOM:
        return
    bank_costs[REVIEWED] += 1.0
    w, L, on = one.products[1], view.scores(table), view.active_mask(table)
    banks, sums, room = view.banks(table), view.output_workspace(table), one.mixed[0]
    two_stage.pool(task, L[:n], w, sums, room)
    by_own = two_stage.loss(task, room, y, how)
    for bank in range(NEWTON + 1):
        two_stage.pool_without(task, L[:n], w, banks, bank, sums, room)
        bank_costs[bank] += two_stage.loss(task, room, y, how) - by_own
    if table[slot.EXTERNAL] == 0 or not weights.has_external(table, on):
        return
    w = view.products(table)[1]
    two_stage.pool(task, L, w, sums, room)
    by_all = two_stage.loss(task, room, y, how)
    for place in range(table[slot.EXTERNAL]):
        if on[n + place] > 0.0:
            two_stage.pool_without(task, L, w, banks, NEWTON + 2 + place, sums, room)
            spared = two_stage.loss(task, room, y, how) - by_all
            bank_costs[REVIEWED + 1 + place] += spared - evidence.WORTH * by_all
