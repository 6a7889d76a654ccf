"""The mixture of a pool's experts: what they say together, and how the mixing learns."""

from __future__ import annotations

from typing import Any

from streamk.backends import NUMBERS
from streamk.backends.numba_backend.compilation.stages import call
from streamk.backends.numba_backend.experts.banks.all_banks import LEVELS, NEWTON
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.layout import slot, view
from streamk.backends.numba_backend.experts.mixing import (
    calibration,
    costs,
    expert_predictions,
    two_stage,
)
from streamk.backends.pool_arrays import SMOOTHERS

LOST, EVENTS, REVIEWED = NEWTON + 1, NEWTON + 2, NEWTON + 3
"""Places in the bank costs after those of the banks: the sum of losses, events, and events in which
the banks were looked at."""
WORTH = 0.005
"""Part of the loss that an external expert has to spare the others to stay active."""
_SELDOM = 4
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
    """Write the mixers' predictions and their mixture, from SCORES."""
    task, L, mixed, x = (
        table[slot.TASK],
        view.scores(table),
        view.mixed(table),
        table[slot.MIXERS],
    )
    on, beliefs, room = (
        view.active_mask(table),
        view.probabilities(table),
        view.expert_workspace(table),
    )
    expert_predictions.to_probabilities(task, L, beliefs)
    weights, calibrated = view.shares(table), view.calibrated(table)
    two_stage.share(weights[0], beliefs, on, room, mixed[0])
    calibration.to_probabilities(task, L, view.inverse_temperatures(table), calibrated)
    two_stage.share(weights[1], calibrated, on, room, mixed[1])
    first, weights, sums = len(weights), view.products(table), view.output_workspace(table)
    for i in range(len(weights)):
        two_stage.pool(task, L, weights[i], sums, mixed[first + i])
    said = view.mixer_scores(table)
    two_stage.to_scores(task, mixed, said)
    two_stage.pool(task, said, view.last_product(table), sums, mixed[x - 1])
    top, all_active = view.mixer_weights(table), view.ones(table)
    two_stage.share(top, mixed, all_active, room, view.out(table))


@fast
def store(mixed: Any, out: Any, kept: Any) -> None:
    """Write what the mixers (mixers, outputs) and their mixture say, as it is kept."""
    number, x = kept.dtype.type, len(mixed)
    for k in range(len(out)):
        for m in range(x):
            kept[m, k] = number(mixed[m, k])
        kept[x, k] = number(out[k])


@fast
def _load(table: Any, kept: Any, mixed: Any, out: Any) -> None:
    """Write what `store` was given.

    With the weights that they have by now, mixers too would look better than they were.
    """
    x, k = table[slot.MIXERS], table[slot.OUTPUTS]
    for c in range(k):
        for m in range(x):
            mixed[m, c] = kept[m, c]
        out[c] = kept[x, c]
    two_stage.to_scores(table[slot.TASK], mixed, view.mixer_scores(table))


@fast
def learn(table: Any, seen: Any, y: Any, mixed: Any, out: Any) -> None:
    """Update the mixers and their mixture by the predictions, as they are kept.

    That is in the pool's workspace from then on: an expert that was inactive at the prediction is
    inactive to the mixing, whether or not it is active now.
    """
    task, e, x = table[slot.TASK], table[slot.EXPERTS], table[slot.MIXERS]
    L, on = view.scores(table), view.active_mask(table)
    late = not table[slot.FRESH] or expert_predictions.differ(seen, L, on)
    if late:
        expert_predictions.load(seen, L, on)
        call(table[slot.MIX], table, ())
    table[slot.FRESH] = 0
    weights, alphas = view.shares(table), view.alphas(table)
    likely, beliefs, calibrated = (
        view.losses(table),
        view.probabilities(table),
        view.calibrated(table),
    )
    _learn_share(table, weights[0], beliefs, y, on, alphas[0], likely)
    _learn_share(table, weights[1], calibrated, y, on, alphas[1], likely)
    factors, curvatures = view.inverse_temperatures(table), view.curvatures(table)
    how = view.loss(table)
    calibration.learn(task, L, calibrated, y, how, view.mean_error(table), on, factors, curvatures)
    _learn_products(table, L, y, mixed[len(weights) :])
    if late:
        _load(table, seen[e:], mixed, out)
    top, all_active = view.mixer_weights(table), view.ones(table)
    _learn_share(table, top, mixed, y, all_active, alphas[0], view.above(table))
    _learn_last_product(table, y, mixed[x - 1])


@fast
def _learn_share(
    table: Any, weights: Any, said: Any, y: Any, on: Any, alpha: Any, likely: Any
) -> None:
    """Update a fixed share by the predictions that it mixes; `likely` is workspace."""
    two_stage.likelihoods(table[slot.TASK], said, y, view.loss(table), likely)
    two_stage.temper(likely)
    two_stage.reweigh(weights, likely, on, alpha)


@fast
def _learn_products(table: Any, L: Any, y: Any, mixed: Any) -> None:
    """Update the products of experts; `mixed` are their predictions."""
    weights, inverses, numbers = (
        view.products(table),
        view.inverses(table),
        table[slot.TASK] == NUMBERS,
    )
    rates, starts = view.product_rates(table), view.product_starts(table)
    forgets, room, g = view.forgets(table), view.expert_workspace(table), view.slopes(table)
    for i in range(len(weights)):
        residual = _direction(table, L, mixed[i], y, g)
        if starts[i] > 0.0:
            two_stage.newton_step(weights[i], inverses[i], g, residual, forgets[i], starts[i], room)
        else:
            two_stage.gradient_step(weights[i], g, residual, rates[i], numbers)


@fast
def _learn_last_product(table: Any, y: Any, prediction: Any) -> None:
    """Update the product of the other mixers; `prediction` becomes its prediction now."""
    said, weights = view.mixer_scores(table), view.last_product(table)
    room, g = view.expert_workspace(table)[: len(weights)], view.slopes(table)[: len(weights)]
    two_stage.pool(table[slot.TASK], said, weights, view.output_workspace(table), prediction)
    residual = _direction(table, said, prediction, y, g)
    two_stage.newton_step(
        weights, view.last_inverse(table), g, residual, LAST_FORGET, LAST_START, room
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
def add_bank_costs(table: Any, L: Any, y: Any, out: Any, room: Any) -> None:
    """Add up what was lost, and what the lack of each bank would have cost.

    And of each external expert, by how much that was more than it has to be.

    The former is of the prediction as it was made, the latter of the experts' scores then and of
    the weights they have now.
    """
    task, bank_costs, how = table[slot.TASK], view.bank_costs(table), view.loss(table)
    bank_costs[LOST] += two_stage.loss(task, out, y, how)
    bank_costs[EVENTS] += 1.0
    if bank_costs[EVENTS] % _SELDOM:
        return
    bank_costs[REVIEWED] += 1.0
    weights = view.products(table)[1]
    banks, sums = view.banks(table), view.output_workspace(table)
    two_stage.pool(task, L, weights, sums, room)
    by_all = two_stage.loss(task, room, y, how)
    for bank in range(NEWTON + 1):
        two_stage.pool_without(task, L, weights, banks, bank, sums, room)
        bank_costs[bank] += two_stage.loss(task, room, y, how) - by_all
    on, first = view.active_mask(table), table[slot.EXPERTS] - table[slot.EXTERNAL]
    for place in range(table[slot.EXTERNAL]):
        if on[first + place] > 0.0:
            two_stage.pool_without(task, L, weights, banks, NEWTON + 2 + place, sums, room)
            spared = two_stage.loss(task, room, y, how) - by_all
            bank_costs[REVIEWED + 1 + place] += spared - WORTH * by_all
