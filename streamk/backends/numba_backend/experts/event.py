"""One event through all experts: forecast it, then learn its label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from streamk.backends.jit.compiling import (
    SUMS,
    Compilable,
    Loop,
    call,
    called,
    called_briefly,
    stage,
)
from streamk.backends.jit.vectors import carray
from streamk.backends.numba_backend.experts import (
    banks,
    binning,
    expert_predictions,
    mixture,
    reviews,
    slot,
    spread,
    view,
)
from streamk.backends.pool_arrays import QUANTILE

_pointer: Any = types.CPointer
_tuple: Any = types.Tuple
_TABLE, _EVENT, _SAID = map(_pointer, (types.int64, types.float64, types.float32))


@stage(_TABLE, _EVENT, fastmath=SUMS)
def evaluate_features(numbers: Any, event: Any) -> None:
    """Write what the experts look at in an event."""
    table = carray(numbers, (slot.SIZE,))
    active = view.active(table)
    mixture.expand_active_mask(table, active)
    banks.features(table, carray(event, (table[slot.COLUMNS],)), active)


@stage(_TABLE, fastmath=SUMS)
def predict_experts(numbers: Any) -> None:
    """Write the experts' scores."""
    table = carray(numbers, (slot.SIZE,))
    F, P, own, on = view.f(table), view.g(table), view.scores(table), view.active_mask(table)
    banks.outputs(table, F[: table[slot.OWN_EXPERTS]], view.active(table))
    expert_predictions.to_scores(table[slot.TASK], F, own, P)
    expert_predictions.clear_inactive(on, own, P, table[slot.EXTERNAL])
    if table[slot.LOSS] == QUANTILE:
        expert_predictions.add_offsets(view.tracked(table), on, own, P)
    expert_predictions.store(own, on, view.kept(table))


@stage(_TABLE, fastmath=SUMS)
def mix(numbers: Any) -> None:
    """Write the predictions of the mixers and of their mixture."""
    mixture.mix(carray(numbers, (slot.SIZE,)))


@stage(_TABLE, _SAID, types.float64, fastmath=SUMS)
def weigh(numbers: Any, said: Any, y: Any) -> None:
    """Update the mixing weights by the outputs that were kept."""
    table = carray(numbers, (slot.SIZE,))
    seen = carray(said, (table[slot.KEPT_ROWS], table[slot.OUTPUTS]))
    mixture.learn(table, seen, y)
    mixture.add_bank_costs(table, y)


@stage(_TABLE, types.float64, fastmath=SUMS)
def descend(numbers: Any, y: Any) -> None:
    """Update the experts by the label."""
    table = carray(numbers, (slot.SIZE,))
    active, F, G = view.active(table), view.f(table), view.g(table)
    if table[slot.LOSS] == QUANTILE:
        # Those learn that are active now, though some were not at the prediction.
        mixture.expand_active_mask(table, active)
        on, steep = view.active_mask(table), view.pinball(table)
        miss = mixture.mixture_of(table, True).out[0] - y
        expert_predictions.learn_offsets(
            miss, y, view.loss(table), F, on, steep, view.tracked(table), G
        )
    else:
        expert_predictions.slopes(table[slot.TASK], y, view.loss(table), G)
    banks.descend(table, active, G)
    banks.learn(table, active, F, y)


STAGES = {
    slot.WEIGH: weigh,
    slot.PREDICT: predict_experts,
    slot.DESCEND: descend,
    slot.MIX: mix,
    slot.FEATURES_OF: evaluate_features,
}
"""By the places of their addresses in a table, those that take the longest to compile first."""


@called_briefly
def forecast_one(table: Any, x: Any) -> None:
    """Write into the pool's room what is said of an event x, float64 (d,), for `update`.

    The scores are in SCORES, the prediction in OUT; both are in KEPT, with the predictions of the
    mixers between them, and with NaN for an inactive expert. The outputs of external experts are in
    the last rows of F before, NaN of inactive ones.
    """
    call(table[slot.FEATURES_OF], table, (x,))
    call(table[slot.PREDICT], table, ())
    call(table[slot.MIX], table, ())
    mixture.store(table)
    table[slot.FRESH] = 1


@called
def forecast(table: Any, X: Any, seen: Any, out: Any) -> None:
    """Write what is kept (n, E + X + 1, K) and predictions (n, K) of events X (n, d).

    The outputs of external experts are in the last of the E rows before.
    """
    e, k = table[slot.EXPERTS], table[slot.OUTPUTS]
    kept, predicted = view.kept(table), view.out(table)
    F, own = view.f(table), e - table[slot.EXTERNAL]
    for i in range(len(X)):
        for learner in range(own, e):
            for c in range(k):
                F[learner, c] = seen[i, learner, c]
        forecast_one(table, X[i])
        for row in range(len(kept)):
            for c in range(k):
                seen[i, row, c] = kept[row, c]
        for c in range(k):
            out[i, c] = predicted[c]


@called_briefly
def update(table: Any, seen: Any, y: Any) -> None:
    """Learn the label of the event that `forecast` saw last.

    The mixing learns from what experts, mixers and their mixture said when the event had to be
    predicted, (E + X + 1, K) in `seen`; the experts learn from what they would say now.
    """
    call(table[slot.WEIGH], table, (seen, y))
    call(table[slot.DESCEND], table, (y,))


@called
def learn(
    table: Any,
    X: Any,
    y: Any,
    external: Any,
    seen: Any,
    places: Any,
    errors: Any,
    out: Any,
    upkeep: Any,
) -> Any:
    """Forecast and learn events X float64 (n, d) with labels y float64 (n,), one by one.

    The mixing learns from what was said of an event when it had to be predicted: that is at its
    place in `seen` (m, E + X + 1, K), or, where `places` int64 (n,) has -1, what is said now. The
    predictions of now, each before its event is learned, are written to `out` float64 (n, K).

    `external` float32 (n, experts, K) is what each external expert says of an event before it.
    `errors` is the table of the running quantiles of errors, None if labels are classes.

    `upkeep` is a tuple: the events since the last review, the events between two of them, then the
    arguments of `reviews.review`.

    Returns
    -------
    (int, int)
        How many events were learned, and what the review after the last of them has found. They
        are not all if it has found something.
    """
    e, k = table[slot.EXPERTS], table[slot.OUTPUTS]
    now, predicted = view.kept(table), view.out(table)
    shares = mixture.mixture_of(table, True).shares
    since, period, drift, trials, limits = upkeep
    F, own = view.f(table), e - table[slot.EXTERNAL]
    for i in range(len(X)):
        for learner in range(external.shape[1]):
            for c in range(k):
                F[own + learner, c] = external[i, learner, c]
        forecast_one(table, X[i])
        for c in range(k):
            out[i, c] = predicted[c]
        then = seen[places[i]] if places[i] >= 0 else now
        if errors is not None:
            missed = np.float32(y[i]) - then[len(then) - 1, 0]
            spread.learn(errors, missed, then[:e], shares[0])
        update(table, then, y[i])
        since += 1
        if since == period:
            since = 0
            found = reviews.review(table, drift, trials, limits)
            if found != reviews.QUIET:
                return i + 1, found
    return len(X), reviews.QUIET


def _arguments(errors: Any) -> tuple[Any, ...]:
    """Return the types that `learn` is called with."""
    row, rows = types.float64[::1], types.float64[:, ::1]
    upkeep = _tuple((types.int64, types.int64, row, rows, _tuple((types.float64,) * 3)))
    kept, places = types.float32[:, :, ::1], types.int64[::1]
    return types.int64[::1], rows, row, kept, kept, places, errors, rows, upkeep


_AFTER_DRIFT = Loop(
    binning.restart, (types.float32[:, ::1], types.int64, types.int64, types.float32)
)
LOOPS: dict[str, list[Compilable]] = {
    "classification": [Loop(learn, _arguments(types.none)), _AFTER_DRIFT],
    "regression": [Loop(learn, _arguments(types.int64[::1])), spread.take_in, _AFTER_DRIFT],
}
"""Further loops that an event needs, by the task."""
