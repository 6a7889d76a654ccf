"""One event through all experts: forecast it, then learn its label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from streamk.backends import NUMBERS
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
    all_banks,
    binning,
    constant,
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
_TABLE, _EVENT, _FORECAST = map(_pointer, (types.int64, types.float64, types.float32))


@stage(_TABLE, _EVENT, fastmath=SUMS)
def evaluate_features(pointer: Any, event: Any) -> None:
    """Write what the experts look at in an event."""
    table = carray(pointer, (slot.SIZE,))
    active = view.active(table)
    mixture.expand_active_mask(table, active)
    all_banks.features(table, carray(event, (table[slot.COLUMNS],)), active)


@stage(_TABLE, fastmath=SUMS)
def predict_experts(pointer: Any) -> None:
    """Write the experts' outputs and scores, and the scores into the forecast."""
    table = carray(pointer, (slot.SIZE,))
    F, P = view.expert_outputs(table), view.expert_slopes(table)
    L, on = view.scores(table), view.active_mask(table)
    all_banks.outputs(table, F[: table[slot.OWN_EXPERTS]], view.active(table))
    expert_predictions.to_scores(table[slot.TASK], F, L, P)
    expert_predictions.clear_inactive(on, L, P, table[slot.EXTERNAL])
    if table[slot.LOSS] == QUANTILE:
        expert_predictions.add_offsets(view.tracked(table), on, L, P)
    expert_predictions.store(L, on, view.forecast(table))


@stage(_TABLE, fastmath=SUMS)
def mix(pointer: Any) -> None:
    """Write the predictions of the mixers and of their mixture."""
    mixture.mix(carray(pointer, (slot.SIZE,)))


@stage(_TABLE, _FORECAST, types.float64, fastmath=SUMS)
def learn_weights(pointer: Any, rows: Any, y: Any) -> None:
    """Update the mixing weights by a forecast (FORECAST_ROWS, OUTPUTS) and the label."""
    table = carray(pointer, (slot.SIZE,))
    forecast = carray(rows, (table[slot.FORECAST_ROWS], table[slot.OUTPUTS]))
    mixture.learn_weights(table, forecast, y)
    mixture.add_bank_costs(table, y)


@stage(_TABLE, types.float64, fastmath=SUMS)
def learn_experts(pointer: Any, y: Any) -> None:
    """Update the experts by the label."""
    table = carray(pointer, (slot.SIZE,))
    active, F, G = view.active(table), view.expert_outputs(table), view.expert_slopes(table)
    if table[slot.LOSS] == QUANTILE:
        # Those learn that are active now, though some were not at the prediction.
        mixture.expand_active_mask(table, active)
        on, steep = view.active_mask(table), view.pinball(table)
        miss = mixture.mixture_of(table, mixture.OWN).out[0] - y
        expert_predictions.learn_offsets(
            miss, y, view.loss(table), F, on, steep, view.tracked(table), G
        )
    else:
        expert_predictions.slopes(table[slot.TASK], y, view.loss(table), G)
    all_banks.learn(table, active, F, G, y)


STAGES = {
    slot.LEARN_WEIGHTS: learn_weights,
    slot.PREDICT_EXPERTS: predict_experts,
    slot.LEARN_EXPERTS: learn_experts,
    slot.MIX: mix,
    slot.EVALUATE_FEATURES: evaluate_features,
}
"""By the places of their addresses in a table, those that take the longest to compile first."""


@called_briefly
def forecast_one(table: Any, x: Any) -> None:
    """Write into the pool's workspace the forecast of an event x, float64 (d,), for `update`.

    The scores are in SCORES, the prediction in OUT; both are in FORECAST, with the predictions of
    the mixers between them, and with NaN for an inactive expert. The outputs of external experts
    are in the last rows of EXPERT_OUTPUTS before, NaN of inactive ones.

    What is called are the functions above of the places' names, by their addresses in the table.
    """
    call(table[slot.EVALUATE_FEATURES], table, (x,))
    call(table[slot.PREDICT_EXPERTS], table, ())
    call(table[slot.MIX], table, ())
    mixture.store(table)
    if table[slot.TASK] != NUMBERS:
        rows, known = view.forecast(table), constant.known_last(table)
        for k in range(rows.shape[1]):
            rows[len(rows) - 1, k] = known
    table[slot.MIXED_IS_CURRENT] = 1


@called
def forecast(table: Any, X: Any, forecasts: Any, out: Any) -> None:
    """Write forecasts (n, FORECAST_ROWS, OUTPUTS) and predictions (n, OUTPUTS) of events X (n, d).

    The outputs of external experts are in the last of the experts' rows before.
    """
    e, k = table[slot.EXPERTS], table[slot.OUTPUTS]
    rows, predicted = view.forecast(table), view.out(table)
    F, own = view.expert_outputs(table), e - table[slot.EXTERNAL]
    for i in range(len(X)):
        for learner in range(own, e):
            for c in range(k):
                F[learner, c] = forecasts[i, learner, c]
        forecast_one(table, X[i])
        for row in range(len(rows)):
            for c in range(k):
                forecasts[i, row, c] = rows[row, c]
        for c in range(k):
            out[i, c] = predicted[c]


@called_briefly
def update(table: Any, forecast: Any, y: Any) -> None:
    """Learn the label of the event that `forecast_one` was given last.

    The mixing learns from the forecast (FORECAST_ROWS, OUTPUTS) that there was when the event had
    to be predicted; the experts learn from what they predict now.
    """
    if table[slot.TASK] != NUMBERS:
        table[slot.KNOWN] = int(forecast[len(forecast) - 1, 0])
    call(table[slot.LEARN_WEIGHTS], table, (forecast, y))
    call(table[slot.LEARN_EXPERTS], table, (y,))


@called
def predict_then_learn(
    table: Any,
    X: Any,
    y: Any,
    external: Any,
    forecasts: Any,
    places: Any,
    lags: Any,
    errors: Any,
    out: Any,
    upkeep: Any,
) -> Any:
    """Forecast and learn events X float64 (n, d) with labels y float64 (n,), one by one.

    The mixing learns from the forecast of an event when it had to be predicted: that is at its
    place in `forecasts` (m, FORECAST_ROWS, OUTPUTS), or, where `places` int64 (n,) has -1, the one
    of now. Since then `lags` int64 (n,) events were learned. The predictions of now, each before
    its event is learned, are written to `out` float64 (n, OUTPUTS).

    `external` float32 (n, external experts, OUTPUTS) are the outputs of external experts for each
    event before they learned it. `errors` is the table of the running quantiles of errors, None if
    labels are classes.

    `upkeep` is a tuple: the events since the last review, the events between two of them, then the
    arguments of `reviews.review`.

    Returns
    -------
    (int, int)
        How many events were learned, and what the review after the last of them has found. They
        are not all if it has found something.
    """
    e, k = table[slot.EXPERTS], table[slot.OUTPUTS]
    now, predicted = view.forecast(table), view.out(table)
    shares = mixture.mixture_of(table, mixture.OWN).shares
    since, period, drift, trials, limits = upkeep
    F, own = view.expert_outputs(table), e - table[slot.EXTERNAL]
    for i in range(len(X)):
        for learner in range(external.shape[1]):
            for c in range(k):
                F[own + learner, c] = external[i, learner, c]
        forecast_one(table, X[i])
        for c in range(k):
            out[i, c] = predicted[c]
        then = forecasts[places[i]] if places[i] >= 0 else now
        if errors is not None:
            missed = np.float32(y[i]) - then[len(then) - 1, 0]
            spread.learn(errors, missed, then[:e], shares[0])
        table[slot.LAG] = lags[i]
        update(table, then, y[i])
        since += 1
        if since == period:
            since = 0
            found = reviews.review(table, drift, trials, limits)
            if found != reviews.QUIET:
                return i + 1, found
    return len(X), reviews.QUIET


def _arguments(errors: Any) -> tuple[Any, ...]:
    """Return the types that `predict_then_learn` is called with."""
    row, rows = types.float64[::1], types.float64[:, ::1]
    upkeep = _tuple((types.int64, types.int64, row, rows, _tuple((types.float64,) * 3)))
    forecasts, places = types.float32[:, :, ::1], types.int64[::1]
    return types.int64[::1], rows, row, forecasts, forecasts, places, places, errors, rows, upkeep


_AFTER_DRIFT = Loop(
    binning.restart, (types.float32[:, ::1], types.int64, types.int64, types.float32)
)
LOOPS: dict[str, list[Compilable]] = {
    "classification": [Loop(predict_then_learn, _arguments(types.none)), _AFTER_DRIFT],
    "regression": [
        Loop(predict_then_learn, _arguments(types.int64[::1])),
        spread.take_in,
        _AFTER_DRIFT,
    ],
}
"""Further loops that an event needs, by the task."""
