"""Reviews of a pool: whether the stream has changed, and which banks are worth their time.

They are rounded as they are written, so that a review gives the same wherever it is called from.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.jit.compiling import exact
from streamk.backends.numba_backend.experts import view
from streamk.backends.numba_backend.experts.all_banks import WINDOW_AT
from streamk.backends.numba_backend.experts.mixture import COSTED, EVENTS, LOST
from streamk.backends.pool_arrays import FLAGGED_BANKS

QUIET, ALARM, WINDOW_ACTIVATED = range(3)
"""Results of a review."""

_DRIFT = 0.2
"""Deviations by which losses may rise without counting."""
_HIGHEST = 4.0
"""Deviations that a single value counts for at most."""
_FEWEST = 8
"""Values before the first alarm, whose mean and deviation others are judged by."""

_RATE = 1.0 / 32
"""Weight of a review in the running means."""
_LEAST_GAIN = 0.002
"""Part of the loss that a bank has to spare the others to stay active."""
_LONGEST = 1024.0
"""Most reviews for which a bank is inactive."""
_GAIN, _AGE, _PAUSE = range(3)
"""Columns of the trials: running gain, reviews since the last change, next pause."""


@exact
def rises(values: Any, value: Any, limit: Any) -> bool:
    """Take in a value; return whether it sets off the alarm of a Page-Hinkley test for a rise.

    The test (Page 1954; Hinkley 1971) is in deviations: it adds up how far values lie above their
    mean since the last alarm, less a fifth of a deviation each. The alarm comes when the sum has
    risen by `limit` from its least. After an alarm it begins anew.

    Parameters
    ----------
    values : float64 array of shape (5,)
        Count, mean, sum of squared deviations, the sum and its least: all of its state.
    value, limit : float

    Examples
    --------
    >>> import numpy as np
    >>> values = np.zeros(5)
    >>> any(rises(values, 1.0 + 0.1 * (n % 3), 6.0) for n in range(100))
    False
    >>> any(rises(values, 2.0 + 0.1 * (n % 3), 6.0) for n in range(10))
    True
    """
    count, mean, squares = values[0], values[1], values[2]
    total, least = values[3], values[4]
    if count >= _FEWEST:
        deviation = math.sqrt(squares / (count - 1.0)) + 1e-9 * abs(mean) + 1e-300
        total += min((value - mean) / deviation, _HIGHEST) - _DRIFT
        least = min(least, total)
        if total - least > limit:
            values[:] = 0.0
            return True
    count += 1.0
    change = value - mean
    mean += change / count
    squares += change * (value - mean)
    values[0], values[1], values[2], values[3], values[4] = count, mean, squares, total, least
    return False


@exact
def schedule_banks(
    values: Any, gains: Any, loss: Any, trial: Any, shortest: Any, active: Any
) -> int:
    """Deactivate banks that do not lower the loss, and activate them for trials.

    Inactive experts cost nothing, and the mixture goes on as if they predicted what it does
    ("specialists", Freund et al. 1997). The first of these banks is always active.

    Parameters
    ----------
    values : float64 array of shape (banks + 1, 3)
        Running gain, reviews since the last change and the next pause of each bank; the last row
        has the running loss.
    gains : float64 array of shape (banks,)
        Mean of what the lack of each bank would have cost an event.
    loss : float
        Mean loss of an event.
    trial : float
        Reviews that a bank is active for at least.
    shortest : float
        Reviews for which it is inactive: each time twice as many, until it has been of use.
    active : bool array of shape (banks,)
        Which are active, changed here.

    Returns
    -------
    int
        The banks that were activated: bit `bank` is set.

    Examples
    --------
    >>> import numpy as np
    >>> values, active = np.zeros((3, 3)), np.array([True, True])
    >>> values[:2, 2] = 64.0
    >>> for _ in range(100):
    ...     activated = schedule_banks(values, np.array([0.1, 0.0]), 0.5, 64.0, 64.0, active)
    >>> active, activated
    (array([ True, False]), 0)
    """
    banks, activated = len(gains), 0
    values[banks, _GAIN] += _RATE * (loss - values[banks, _GAIN])
    for bank in range(banks):
        known = values[bank]
        if active[bank]:
            known[_GAIN] += _RATE * (gains[bank] - known[_GAIN])
        known[_AGE] += 1.0
        if bank == 0:
            continue
        if active[bank] and known[_AGE] >= trial:
            if known[_GAIN] >= _LEAST_GAIN * values[banks, _GAIN]:
                known[_PAUSE] = shortest
            else:
                active[bank], known[_AGE] = False, 0.0
        elif not active[bank] and known[_AGE] >= known[_PAUSE]:
            active[bank] = True
            activated |= 1 << bank
            known[_GAIN], known[_AGE], known[_PAUSE] = 0.0, 0.0, min(2.0 * known[_PAUSE], _LONGEST)
    return activated


@exact
def review(table: Any, drift: Any, trials: Any, limits: Any) -> int:
    """Take the bank costs of the events since the last review as means; return what was found.

    Where that is `ALARM` no bank was deactivated or activated. `drift` has the values of `rises`,
    `trials` those of `schedule_banks`, and `limits` (limit, trial, shortest) of both.
    """
    alarm, trial, shortest = limits
    bank_costs, active = view.bank_costs(table), view.active(table)
    loss = bank_costs[LOST] / max(1.0, bank_costs[EVENTS])
    gains = bank_costs[:FLAGGED_BANKS]
    for bank in range(FLAGGED_BANKS):
        gains[bank] /= max(1.0, bank_costs[COSTED])
    found = QUIET
    if rises(drift, loss, alarm):
        found = ALARM
    elif schedule_banks(trials, gains, loss, trial, shortest, active) & (1 << WINDOW_AT):
        found = WINDOW_ACTIVATED
    bank_costs[: COSTED + 1] = 0.0  # what follows is of external experts, see `add_bank_costs`
    return found
