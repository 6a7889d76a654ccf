"""A linear model without a step size: each coefficient is a bet on its own slopes.

Coin betting (Orabona and Pal 2016, "Coin betting and parameter-free online learning"), coordinate
by coordinate. A coefficient stakes a part of its wealth on the sign of the next slope, and wins or
loses that part times the slope, in units of the largest slope so far. The part moves by online
Newton steps on the logarithm of the wealth (Cutkosky and Orabona 2018, "Black-box reductions for
parameter-free online learning in Banach spaces", Algorithm 1; the largest slope takes the place of
a known bound as in Cutkosky 2019, "Artificial constraints and hints for unbounded online
learning"). Wealth never falls below what it began with, as in COCOB (Orabona and Tommasi 2017,
"Training deep networks without learning rates through coin betting", Algorithm 1).

A loss in another unit changes no prediction, nor does a feature in another unit.
"""

from __future__ import annotations

import math
from typing import Any

from streamk.backends.numba_backend.experts.compiled import fast

_NEWTON = 2.0 / (2.0 - math.log(3.0))
"""Step on the logarithm of the wealth, over the sum of its squared slopes."""
_MOST = 0.5
"""Part of the wealth that a bet may stake."""
_RICHEST = 1e9
"""Gain that wealth stops at: far more than a prediction needs, and single precision holds what
comes of it however small the slopes are."""
_TINY = 1e-25
_SURE = 1e-5
"""Slope, in units of the largest one, that is not worth a step: most classes of most events."""


@fast
def update(
    phi: Any, A: Any, squares: Any, bets: Any, gains: Any, largest: Any, wealth: Any, G: Any
) -> None:
    """Take in the slopes G (outputs,) of the loss at ``A @ phi``; the last feature is the constant.

    `wealth` is what a coefficient begins with, as what it would add to the output; `bets` are the
    parts of it at stake, `gains` what was won, over `wealth`, `largest` the largest slopes. A moves
    by what the stakes move and by what their unit does, so that it may be set to something else at
    any time.
    """
    number = phi.dtype.type
    one, pace, most, tiny = number(1.0), number(_NEWTON), number(_MOST), number(_TINY)
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
