"""The paired test by which a challenger is found better than the champion.

Of each event that both have predicted, the challenger wins, loses, or neither: of classes it wins
where it alone is right, of numbers where it is nearer to the label. The hypothesis is that, given
all events before, it is at no event likelier to win than to lose. A bet of a share λ of the wealth
on each win then loses in the mean, so that the wealth (1 + λ)^wins (1 − λ)^losses is a
supermartingale, and so is its mean over λ between 0 and 1, an e-process: by Markov's inequality it
reaches 1 / α with probability α at most (Ville 1939; Waudby-Smith and Ramdas 2024). Nothing is
assumed of how events depend on each other, or of how much the models learn meanwhile.

A job tests again and again. The j-th test that it begins has α = 0.05 / (j (j + 1)), which sum to
0.05: with that probability, at most, a job ever promotes a challenger that is not better.
"""

from __future__ import annotations

import math

__all__ = ["ERROR_RATE", "evidence", "needed"]

ERROR_RATE = 0.05
"""Probability that a job ever promotes a challenger for which the hypothesis holds, at most."""


def evidence(wins: int, losses: int) -> float:
    """Return the logarithm of the mean wealth of all bets.

    It is 0 where there are no more wins than losses, which cannot be evidence: the mean is at most
    1 then.

    Examples
    --------
    >>> round(math.exp(evidence(1, 0)), 6)  # the mean of 1 + λ
    1.5
    >>> round(evidence(60, 40), 2), evidence(40, 60)
    (0.58, 0.0)
    """
    from scipy.special import bdtr

    if wins <= losses:
        return 0.0
    n = wins + losses
    # The mean is an incomplete beta function, which of whole numbers is a binomial probability.
    whole = math.lgamma(wins + 1) + math.lgamma(losses + 1) - math.lgamma(n + 2)
    return whole + (n + 1) * math.log(2.0) + math.log(bdtr(wins, n + 1, 0.5))


def needed(test: int) -> float:
    """Return the evidence that a challenger needs in the job's test of that number, from 1.

    Examples
    --------
    >>> round(needed(1), 2), round(needed(100), 2)
    (3.69, 12.22)
    """
    return math.log(test * (test + 1) / ERROR_RATE)
