"""Linear models of the scaled columns, by several step rules side by side, and one that bets.

The linear model that bets has no step size: each coefficient is a bet on its own slopes. Coin
betting (Orabona and Pal 2016, "Coin betting and parameter-free online learning"), coordinate
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

from streamk.backends.banks import NORMALIZED
from streamk.backends.jit.compiling import fast
from streamk.backends.numba_backend.experts import view


@fast
def outputs(table: Any, F: Any) -> None:
    """Write the outputs F (rules, outputs)."""
    forecast_linear(view.z(table), view.linear_a(table), F)


@fast
def descend(table: Any, G: Any) -> None:
    """Update the linear models by the slopes (rules, outputs) of their losses."""
    z, A, squares = view.z(table), view.linear_a(table), view.linear_squares(table)
    rates, kinds = view.linear_rates(table), view.linear_kinds(table)
    last = len(G) - 1  # the one that bets
    update_linear(z, A[:last], squares[:last], rates, kinds, G[:last])
    bets, gains = view.linear_bets(table), view.linear_gains(table)
    largest = view.linear_largest(table)
    update_bets(z, A[last], squares[last], bets, gains, largest, rates[last], G[last])


@fast
def dot(a: Any, b: Any) -> Any:
    """Return the inner product of two vectors."""
    total = a[0] * b[0]
    for i in range(1, len(a)):
        total += a[i] * b[i]
    return total


@fast
def forecast_linear(phi: Any, A: Any, F: Any) -> None:
    """Write ``F[rule, output] = A[rule, output] . phi``; A may have room for more outputs."""
    for rule in range(A.shape[0]):
        for k in range(F.shape[1]):
            F[rule, k] = dot(A[rule, k], phi)


@fast
def update_linear(phi: Any, A: Any, squares: Any, rates: Any, kinds: Any, G: Any) -> None:
    """Descend: `G` (rules, outputs) are the slopes of the losses in F, A as there."""
    norm = dot(phi, phi) + phi.dtype.type(1e-6)
    for rule in range(A.shape[0]):
        rate = phi.dtype.type(rates[rule])
        for k in range(G.shape[1]):
            g = G[rule, k]
            if abs(g) < 1e-5:  # too sure to learn: most classes of most events
                continue
            a = A[rule, k]
            if kinds[rule] == NORMALIZED:
                step = rate * g / norm
                for i in range(len(phi)):
                    a[i] -= step * phi[i]
            else:
                s = squares[rule, k]
                for i in range(len(phi)):
                    h = g * phi[i]
                    s[i] += h * h
                    # Divided by the root alone, which machines estimate at a third of the time.
                    a[i] -= rate * h / math.sqrt(s[i] + phi.dtype.type(1e-12))


_NEWTON = 2.0 / (2.0 - math.log(3.0))
"""Step on the logarithm of the wealth, over the sum of its squared slopes."""
_LARGEST_STAKE = 0.5
"""Part of the wealth that a bet may stake."""
_RICHEST = 1e9
"""Gain that wealth stops at: far more than a prediction needs, and single precision holds what
comes of it however small the slopes are."""
_TINY = 1e-25
_SURE = 1e-5
"""Slope, in units of the largest one, that is not worth a step: most classes of most events."""


@fast
def update_bets(
    phi: Any, A: Any, squares: Any, bets: Any, gains: Any, largest: Any, wealth: Any, G: Any
) -> None:
    """Take in the slopes G (outputs,) of the loss at ``A @ phi``; the last feature is the constant.

    `wealth` is what a coefficient begins with, as what it would add to the output; `bets` are the
    parts of it at stake, `gains` what was won, over `wealth`, `largest` the largest slopes. A moves
    by what the stakes move and by what their unit does, so that it may be set to something else at
    any time.
    """
    number = phi.dtype.type
    one, pace, most, tiny = number(1.0), number(_NEWTON), number(_LARGEST_STAKE), number(_TINY)
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
