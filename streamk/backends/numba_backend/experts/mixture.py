"""The mixture of a pool's experts: what they predict together, and how the mixing learns.

Where there are external experts there are two mixtures: of all experts, and of those of the pool
itself. Else the two are one.

The mixture of all experts is what is predicted while, over the last thousand events or so, it has
lost less than that of the pool's own experts and has not made more errors, but for chance: of the
events of which one of the two was right, the other may have won up to a deviation more than half.
So external experts do no harm where they make likely what does not come, however small their log
loss is: the two part ways where labels are noisy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from streamk.backends import BINARY, NUMBERS
from streamk.backends.jit.compiling import call, fast
from streamk.backends.numba_backend.experts import (
    expert_predictions,
    reliability,
    slot,
    two_stage,
    view,
)
from streamk.backends.pool_arrays import FLAGGED_BANKS


class Mixture(NamedTuple):
    """Weights of a mixture, what moves them, and its predictions."""

    shares: Any
    products: Any
    inverses: Any
    last_product: Any
    last_inverse: Any
    mixer_weights: Any
    reliability: Any
    mixed: Any
    mixer_scores: Any
    out: Any


FULL, OWN = 0, 1
"""The mixture of all experts, and that of the pool's own, where there are others, too."""


@fast
def _own(table: Any) -> Any:
    """Return the arrays of the mixture of the pool's own experts, where there are others, too."""
    return Mixture(
        view.own_shares(table),
        view.own_products(table),
        view.own_inverses(table),
        view.own_last_product(table),
        view.own_last_inverse(table),
        view.own_mixer_weights(table),
        view.own_reliability(table),
        view.own_mixed(table),
        view.own_mixer_scores(table),
        view.own_out(table),
    )


@fast
def _full(table: Any, out: Any) -> Any:
    """Return the arrays of the mixture of all experts, which predicts to `out`."""
    return Mixture(
        view.shares(table),
        view.products(table),
        view.inverses(table),
        view.last_product(table),
        view.last_inverse(table),
        view.mixer_weights(table),
        view.reliability(table),
        view.mixed(table),
        view.mixer_scores(table),
        out,
    )


@fast
def mixture_of(table: Any, which: Any) -> Any:
    """Return the arrays of the mixture `FULL` or `OWN`, which are one without external experts."""
    if table[slot.EXTERNAL] == 0:
        return _full(table, view.out(table))
    if which == OWN:
        return _own(table)
    return _full(table, view.full_out(table))


@fast
def n_experts_of(table: Any, which: Any) -> Any:
    """Return how many experts a mixture has, the first ones."""
    return table[slot.OWN_EXPERTS] if which == OWN else table[slot.EXPERTS]


@fast
def has_external(table: Any, on: Any) -> Any:
    """Return whether an external expert is active by the mask."""
    active = 0.0
    for e in range(table[slot.OWN_EXPERTS], table[slot.EXPERTS]):
        active += on[e]
    return active > 0.0


@fast
def first_mixture(table: Any, on: Any) -> Any:
    """Return `OWN` if the mixture of all experts is that of the pool's own now, else `FULL`.

    The mixtures to go through are those from this one to `last_mixture`.
    """
    return FULL if table[slot.EXTERNAL] == 0 or has_external(table, on) else OWN


@fast
def last_mixture(table: Any) -> Any:
    """Return `OWN` if there are two mixtures, else `FULL`."""
    return OWN if table[slot.EXTERNAL] > 0 else FULL


_MEMORY = 0.999
_SPARED, _FEWER, _APART, _SPARED_SINCE, _FEWER_SINCE, _APART_SINCE = range(6)
"""Places: by how much less the mixture of all experts has lost, how many fewer errors it has made,
and of how many events one of the two was right, each as a discounted sum; then the same since the
last review."""
_LOST_SINCE, _COSTED_SINCE, _EVENTS_SINCE = 6, 7, 8
"""Places: what the mixture of all has lost since then, and a product of all where one looked for
what each external expert spares; and events."""


@fast
def choose_mixture(table: Any, on: Any) -> None:
    """Write the prediction of the better one of the two mixtures."""
    known, out = view.evidence(table), view.out(table)
    own, full = view.own_out(table), view.full_out(table)
    enough = known[_SPARED] > 0.0 and known[_FEWER] >= -math.sqrt(known[_APART])
    better = enough and has_external(table, on)
    for k in range(len(out)):
        out[k] = full[k] if better else own[k]


@fast
def _is_wrong(task: Any, prediction: Any, y: Any) -> Any:
    """Return 1.0 if the label is not the most probable class, else 0.0; 0.0 of numbers."""
    if task == NUMBERS:
        return 0.0
    if task == BINARY:
        return 1.0 if (prediction[0] > 0.5) != (y > 0.5) else 0.0
    label = int(y)
    for k in range(len(prediction)):
        if prediction[k] > prediction[label]:
            return 1.0
    return 0.0


@fast
def compare_mixtures(table: Any, task: Any, y: Any) -> None:
    """Take in how the two mixtures have predicted a label."""
    known, how = view.evidence(table), view.loss(table)
    own, full = view.own_out(table), view.full_out(table)
    lost = two_stage.loss(task, full, y, how)
    spared = two_stage.loss(task, own, y, how) - lost
    fewer = _is_wrong(task, own, y) - _is_wrong(task, full, y)
    known[_SPARED] = _MEMORY * known[_SPARED] + spared
    known[_FEWER] = _MEMORY * known[_FEWER] + fewer
    known[_APART] = _MEMORY * known[_APART] + abs(fewer)
    known[_SPARED_SINCE] += spared
    known[_LOST_SINCE] += lost
    known[_FEWER_SINCE] += fewer
    known[_APART_SINCE] += abs(fewer)
    known[_EVENTS_SINCE] += 1.0


LOST, EVENTS, COSTED = range(FLAGGED_BANKS, FLAGGED_BANKS + 3)
"""Places in the bank costs after those of the banks: the sum of losses, events, and events that
were looked at for the costs of banks."""
COST_EVERY = 4
"""Events of which one is looked at for the costs of banks."""
LAST_START, LAST_FORGET = 0.01, 0.9998
"""Largest inverse, and discount, of the product of mixers."""


@fast
def expand_active_mask(table: Any, active: Any) -> None:
    """Write which experts are active: of active banks, or external with outputs that are no NaN."""
    on, F, banks = view.active_mask(table), view.expert_outputs(table), view.bank_of_expert(table)
    own = table[slot.OWN_EXPERTS]
    for i in range(own):
        on[i] = active[banks[i]] if banks[i] < FLAGGED_BANKS else 1.0
    for i in range(own, len(on)):
        on[i] = 1.0 if F[i, 0] == F[i, 0] else 0.0


@fast
def mix(table: Any) -> None:
    """Write the mixers' predictions and their mixture, from SCORES.

    With external experts there are two mixtures.
    """
    task, L, on = table[slot.TASK], view.scores(table), view.active_mask(table)
    expert_predictions.to_probabilities(task, L, view.probabilities(table))
    expert_predictions.to_calibrated(
        task, L, view.inverse_temperatures(table), view.calibrated(table)
    )
    for which in range(first_mixture(table, on), last_mixture(table) + 1):
        _mix(table, mixture_of(table, which), n_experts_of(table, which))
    if table[slot.EXTERNAL] > 0:
        choose_mixture(table, on)


@fast
def _mix(table: Any, one: Any, n: Any) -> None:
    """Write the predictions of a mixture of the first n experts."""
    task, on = table[slot.TASK], view.active_mask(table)[:n]
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
    two_stage.to_scores(task, one.mixed, one.mixer_scores)
    last = len(one.mixer_scores)
    two_stage.pool(task, one.mixer_scores, one.last_product, sums, one.mixed[last])
    _share_uncorrected(table, one, one.out)
    if task == NUMBERS:
        _bound(L, on, one.out)
        return
    reliability.correct(one.reliability, one.out, one.mixed[last + 1])
    two_stage.share(one.mixer_weights, one.mixed, view.ones(table), room, one.out)


@fast
def _share_uncorrected(table: Any, one: Any, out: Any) -> None:
    """Write the share of a mixture's mixers, but for the one that corrects them.

    Of a late label it is by the weights of now, of what the mixers had predicted.
    """
    n = len(one.mixer_scores) + 1
    ones, room = view.ones(table), view.expert_workspace(table)
    two_stage.share(one.mixer_weights[:n], one.mixed[:n], ones, room, out)


_BEYOND = 0.25
"""Part of the range of the experts' numbers by which their mixture may leave it. On usual streams
with labels at once it does not, or in one event of some hundreds."""


@fast
def _bound(L: Any, on: Any, out: Any) -> None:
    """Hold a number near the range of the scores L (experts, 1) of active experts.

    Weights of products have no bound: where labels wander and come late, what errors of the past
    hundreds of events seem to say makes some large ones of both signs, and the sum is then far from
    what any expert says.
    """
    least = greatest = float(L[0, 0])  # of the linear experts, which are always active
    for e in range(1, len(on)):
        if on[e] > 0.0:
            least, greatest = min(least, float(L[e, 0])), max(greatest, float(L[e, 0]))
    far = _BEYOND * (greatest - least)
    out[0] = min(max(out[0], least - far), greatest + far)


@fast
def store(table: Any) -> None:
    """Write the predictions of the mixers and their mixtures into FORECAST, after the scores."""
    row = table[slot.EXPERTS]
    rows, out = view.forecast(table), view.out(table)
    number = rows.dtype.type
    for which in range(last_mixture(table) + 1):
        one = mixture_of(table, which)
        for m in range(len(one.mixed)):
            for k in range(len(out)):
                rows[row + m, k] = number(one.mixed[m, k])
        row += len(one.mixed)
        for k in range(len(out)):
            rows[row, k] = number(one.out[k])
        row += 1
    if table[slot.EXTERNAL] > 0:
        for k in range(len(out)):
            rows[row, k] = number(out[k])


@fast
def _load(table: Any, forecast: Any, one: Any, row: Any) -> None:
    """Write a mixture's predictions back that `store` wrote from a row on.

    With the weights that they have by now, mixers too would look better than they were.
    """
    x = len(one.mixed)
    for c in range(len(one.out)):
        for m in range(x):
            one.mixed[m, c] = forecast[row + m, c]
        one.out[c] = forecast[row + x, c]
    two_stage.to_scores(table[slot.TASK], one.mixed, one.mixer_scores)


@fast
def weight_of(table: Any, forecast: Any, y: Any) -> Any:
    """Return how much an event counts to the mixing: 1, or less where labels come late."""
    lag, known = table[slot.LAG], view.late_errors(table)
    if lag == 0 and known[two_stage.LAG] == 0.0:
        return 1.0
    # Of the pool's own mixture, which is as it would be without external experts.
    one = table[slot.EXPERTS] + last_mixture(table) * (table[slot.MIXERS] + 1) + table[slot.MIXERS]
    out, top = forecast[one], 0
    error = float(out[0]) - y
    if len(out) > 1:  # how much too sure of its class it was
        for k in range(1, len(out)):
            if out[k] > out[top]:
                top = k
        error = float(out[top]) - (1.0 if top == int(y) else 0.0)
    return two_stage.late_weight(known, error, lag)


@fast
def learn_weights(table: Any, forecast: Any, y: Any) -> None:
    """Update the mixers and their mixtures by a forecast and the label.

    The forecast is in the pool's workspace from then on: an expert that was inactive at the
    prediction is inactive to the mixing, whether or not it is active now.
    """
    task, e = table[slot.TASK], table[slot.EXPERTS]
    L, on, how = view.scores(table), view.active_mask(table), view.loss(table)
    late = not table[slot.MIXED_IS_CURRENT] or expert_predictions.differ(forecast, L, on)
    if late:
        expert_predictions.load(forecast, L, on)
        call(table[slot.MIX], table, ())
    table[slot.MIXED_IS_CURRENT] = 0
    weight = weight_of(table, forecast, y)
    begin, end = first_mixture(table, on), last_mixture(table) + 1
    alphas, likely, calibrated = view.alphas(table), view.likelihoods(table), view.calibrated(table)
    for m in range(len(alphas)):
        predictions = view.probabilities(table) if m == 0 else calibrated
        two_stage.likelihoods(task, predictions, y, how, likely)
        two_stage.temper(likely, weight)
        for which in range(begin, end):
            shares = mixture_of(table, which).shares[m]
            two_stage.reweigh(shares, likely, on, weight * alphas[m])
    factors, curvatures = view.inverse_temperatures(table), view.curvatures(table)
    expert_predictions.calibrate(
        task, L, calibrated, y, how, view.mean_error(table), on, factors, curvatures
    )
    for which in range(begin, end):
        one = mixture_of(table, which)
        _learn_products(table, one, L[: n_experts_of(table, which)], y, weight)
        if late:
            _load(table, forecast, one, e + which * (table[slot.MIXERS] + 1))
        _learn_top(table, one, y, weight)
    if begin < end - 1:
        compare_mixtures(table, task, y)


@fast
def _learn_top(table: Any, one: Any, y: Any, weight: Any) -> None:
    """Update what corrects a mixture's mixers, the fixed share of these, and then their product."""
    task = table[slot.TASK]
    if task != NUMBERS:
        before = view.output_workspace(table)
        _share_uncorrected(table, one, before)
        reliability.learn(one.reliability, task, before, y, weight)
    likely = view.mixer_likelihoods(table)
    two_stage.likelihoods(task, one.mixed, y, view.loss(table), likely)
    two_stage.temper(likely, weight)
    alpha = weight * view.alphas(table)[0]
    two_stage.reweigh(one.mixer_weights, likely, view.ones(table), alpha)
    _learn_last_product(table, one, y, weight)


@fast
def _learn_products(table: Any, one: Any, L: Any, y: Any, weight: Any) -> None:
    """Update a mixture's products of experts by their predictions."""
    numbers = table[slot.TASK] == NUMBERS
    rates, starts = view.product_rates(table), view.product_starts(table)
    forgets, room, g = (
        view.forgets(table),
        view.expert_workspace(table),
        view.product_gradient(table),
    )
    first, g = len(one.shares), g[: len(L)]
    for i in range(len(one.products)):
        residual = _direction(table, L, one.mixed[first + i], y, g)
        w, P = one.products[i], one.inverses[i]
        if starts[i] > 0.0:
            forget, start = forgets[i], starts[i]
            two_stage.newton_step(w, P, g, residual, forget, start, room[: len(L)], weight)
        else:
            two_stage.gradient_step(w, g, residual, rates[i], numbers)


@fast
def _learn_last_product(table: Any, one: Any, y: Any, weight: Any) -> None:
    """Update the product of a mixture's other mixers.

    What it predicts by now takes the place of what it had predicted.
    """
    n = len(one.last_product)
    prediction = one.mixed[n]
    room, g = view.expert_workspace(table)[:n], view.product_gradient(table)[:n]
    two_stage.pool(
        table[slot.TASK],
        one.mixer_scores,
        one.last_product,
        view.output_workspace(table),
        prediction,
    )
    residual = _direction(table, one.mixer_scores, prediction, y, g)
    w, P = one.last_product, one.last_inverse
    two_stage.newton_step(w, P, g, residual, LAST_FORGET, LAST_START, room, weight)


@fast
def _direction(table: Any, L: Any, prediction: Any, y: Any, g: Any) -> Any:
    """Write a product's gradient in its weights, from scores L; return the step's factor."""
    if table[slot.TASK] != NUMBERS:
        two_stage.slopes(table[slot.TASK], L, prediction, y, g)
        return 1.0
    for e in range(len(g)):
        g[e] = L[e, 0]
    return two_stage.slope(prediction[0] - y, view.loss(table), view.mean_error(table))


@fast
def add_bank_costs(table: Any, y: Any) -> None:
    """Add up what was lost, and what the lack of each bank would have cost.

    And what the lack of each external expert would have cost a product of all.

    What was lost is of the prediction as it was made, the others are of the experts' scores then
    and of the weights they have now. Of the pool's own banks, and of drift, the mixture of these
    alone decides, so that they are what they would be without external experts.
    """
    task, bank_costs, how = table[slot.TASK], view.bank_costs(table), view.loss(table)
    n, one = table[slot.OWN_EXPERTS], mixture_of(table, OWN)
    bank_costs[LOST] += two_stage.loss(task, one.out, y, how)
    bank_costs[EVENTS] += 1.0
    if bank_costs[EVENTS] % COST_EVERY:
        return
    bank_costs[COSTED] += 1.0
    w, L, on = one.products[1], view.scores(table), view.active_mask(table)
    banks, sums, room = view.bank_of_expert(table), view.output_workspace(table), one.mixed[0]
    two_stage.pool(task, L[:n], w, sums, room)
    by_own = two_stage.loss(task, room, y, how)
    for bank in range(FLAGGED_BANKS):
        two_stage.pool_without(task, L[:n], w, banks, bank, sums, room)
        bank_costs[bank] += two_stage.loss(task, room, y, how) - by_own
    if table[slot.EXTERNAL] == 0 or not has_external(table, on):
        return
    w = view.products(table)[1]
    two_stage.pool(task, L, w, sums, room)
    by_all = two_stage.loss(task, room, y, how)
    view.evidence(table)[_COSTED_SINCE] += by_all
    for place in range(table[slot.EXTERNAL]):
        if on[n + place] > 0.0:
            two_stage.pool_without(task, L, w, banks, FLAGGED_BANKS + 1 + place, sums, room)
            bank_costs[COSTED + 1 + place] += two_stage.loss(task, room, y, how) - by_all
