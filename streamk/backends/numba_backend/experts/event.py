"""One event through all experts: forecast it, then learn its label."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends.numba_backend.experts import (
    banks,
    costs,
    mixture,
    offsets,
    opinions,
    reviews,
    spread,
)
from streamk.backends.numba_backend.experts import places as at
from streamk.backends.numba_backend.experts.banks import NEWTON
from streamk.backends.numba_backend.experts.compiled import fast
from streamk.backends.numba_backend.experts.reach import double, flags, loss_of, single, tracked


@fast
def forecast_one(table: Any, x: Any) -> None:
    """Write into the pool's room what is said of an event x, float64 (d,), for `update`.

    The opinions are in SEEN, the prediction in OUT; both are in KEPT, with what the mixers say
    between them, and there an expert that sleeps says NaN. The outputs of guests are in the last
    rows of F before.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    awake, F = flags(table, at.AWAKE, (NEWTON + 1,)), single(table, at.F, (e, k))
    P, own = single(table, at.G, (e, k)), single(table, at.SEEN, (e, k))
    mixed = double(table, at.MIXED, (table[at.MIXERS], k))
    mixture.rouse(table, awake)
    banks.features(table, x, awake)
    banks.outputs(table, F[: e - table[at.GUESTS]], awake)
    opinions.opine(task, F, own, P)
    if table[at.LOSS] == costs.QUANTILE:
        offsets.add(tracked(table), double(table, at.ON, (e,)), own, P)
    kept, out = single(table, at.KEPT, (mixture.kept_rows(table), k)), double(table, at.OUT, (k,))
    opinions.hand_out(own, double(table, at.ON, (e,)), kept)
    mixture.mix(table, own, mixed, out)
    mixture.hand_out(mixed, out, kept[e:])
    table[at.FRESH] = 1


@fast
def forecast(table: Any, X: Any, seen: Any, out: Any) -> None:
    """Write what is kept (n, E + X + 1, K) and predictions (n, K) of events X (n, d).

    The outputs of guests are in the last of the E rows before.
    """
    e, k = table[at.EXPERTS], table[at.OUTPUTS]
    kept = single(table, at.KEPT, (mixture.kept_rows(table), k))
    predicted = double(table, at.OUT, (k,))
    F, own = single(table, at.F, (e, k)), e - table[at.GUESTS]
    for i in range(len(X)):
        F[own:] = seen[i, own:e]
        forecast_one(table, X[i])
        seen[i] = kept
        out[i] = predicted


@fast
def update(table: Any, seen: Any, y: Any) -> None:
    """Learn the label of the event that `forecast` saw last.

    The mixing learns from what experts, mixers and their mixture said when the event had to be
    predicted, (E + X + 1, K) in `seen`; the experts learn from what they would say now.
    """
    task, e, k = table[at.TASK], table[at.EXPERTS], table[at.OUTPUTS]
    awake, F = flags(table, at.AWAKE, (NEWTON + 1,)), single(table, at.F, (e, k))
    G = single(table, at.G, (e, k))
    mixed = double(table, at.MIXED, (table[at.MIXERS], k))
    out = double(table, at.OUT, (k,))
    mixture.learn(table, seen, y, mixed, out)
    mixture.keep_account(table, single(table, at.SEEN, (e, k)), y, out, mixed[0])
    if table[at.LOSS] == costs.QUANTILE:
        mixture.rouse(table, awake)  # who learns is awake now, whoever slept at the prediction
        on, steep = double(table, at.ON, (e,)), flags(table, at.PINBALL, (e,))
        offsets.learn(out[0] - y, y, loss_of(table), F, on, steep, tracked(table), G)
    else:
        opinions.slopes(task, y, loss_of(table), G)
    banks.descend(table, awake, G)
    banks.learn(table, awake, F[: e - table[at.GUESTS]], y)


@fast
def learn(
    table: Any, X: Any, y: Any, seen: Any, places: Any, errors: Any, out: Any, upkeep: Any
) -> Any:
    """Forecast and learn events X float64 (n, d) with labels y float64 (n,), one by one.

    The mixing learns from what was said of an event when it had to be predicted: that is at its
    place in `seen` (m, E + X + 1, K), or, where `places` int64 (n,) has -1, what is said now. The
    predictions of now, each before its event is learned, are written to `out` float64 (n, K).

    `errors` are the arrays of the running quantiles of errors, None if labels are classes. There
    are no guests: what they say depends on the events before.

    `upkeep` is a tuple: the events since the last review, the events between two of them, then the
    arguments of `reviews.review`.

    Returns
    -------
    (int, int)
        How many events were learned, and what the review after the last of them has found. They
        are not all if it has found something.
    """
    e, k = table[at.EXPERTS], table[at.OUTPUTS]
    now = single(table, at.KEPT, (mixture.kept_rows(table), k))
    predicted = double(table, at.OUT, (k,))
    shares = double(table, at.SHARES, (table[at.MIXERS_SHARE], e))
    since, period, drift, sleeping, limits = upkeep
    for i in range(len(X)):
        forecast_one(table, X[i])
        out[i] = predicted
        then = seen[places[i]] if places[i] >= 0 else now
        if errors is not None:
            missed = np.float32(y[i]) - then[len(then) - 1, 0]
            spread.learn(np.float64(missed), then[:e], shares[0], errors)
        update(table, then, y[i])
        since += 1
        if since == period:
            since = 0
            found = reviews.review(table, drift, sleeping, limits)
            if found != reviews.QUIET:
                return i + 1, found
    return len(X), reviews.QUIET
