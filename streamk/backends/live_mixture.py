"""A mixture of one given expert and of cheap ones that follow the labels.

Its experts, in this order: what is given with an event, linear models at several rates (normalized
least mean squares, of classes on the slopes of the log loss), and running means of the labels at
several paces. Mixers of the experts are a fixed share (Herbster and Warmuth 1998) and products of
experts, whose exponents are learned along normalized gradients; of numbers sums take the place of
products. A fixed share of the mixers is what is predicted.

An event takes some ``rates * outputs * columns`` multiply-adds, and as many exponentials and
logarithms as there are experts times classes. The loops are in `streamk.backends.live_loops`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LINEAR_RATES = {True: (2.0, 0.2), False: (0.5, 0.05)}
"""Of the linear models, of classes (True) and of numbers."""
PACES = (0.3, 0.03, 0.003)
"""Of the running means, the slowest last."""
PRODUCT_RATES = (0.02, 0.005)
CHANGE = 1e-3
"""Rate of change of the fixed shares."""
SHARE_RATE = 0.5
"""Learning rate of the fixed shares of classes: by 1, Bayes' rule, two labels that are wrong would
leave nothing of a copy that is sure of itself."""
LEAST = 1e-4
"""Least probability that an expert or a mixer gives a class."""
LOSSES = 2.0
"""Cost of an error of the labels' spread in a fixed share of numbers."""
MOST = 8.0
"""Cost of an error at most, and errors in units of the spread that an expert learns from."""


class LiveMixture(NamedTuple):
    """All that is learned, float64; K outputs are one a class, or the number."""

    linear: Array
    """(rates, K, d + 1), the last one for the constant"""
    means: Array
    """(paces, K)"""
    shares: Array
    """(experts,)"""
    products: Array
    """(product rates, experts)"""
    mixers: Array
    """(1 + product rates,)"""
    seen: Array
    """(2,): labels learned, and of numbers the running mean of the distance from the slowest
    mean"""


def begin(columns: int, outputs: int, *, classes: bool) -> LiveMixture:
    """Return a mixture that has learned nothing."""
    experts = 1 + len(LINEAR_RATES[classes]) + len(PACES)
    products = len(PRODUCT_RATES)
    return LiveMixture(
        linear=np.zeros((len(LINEAR_RATES[classes]), outputs, columns + 1)),
        means=np.full((len(PACES), outputs), 1.0 / max(1, outputs) if classes else 0.0),
        shares=np.full(experts, 1.0 / experts),
        products=np.full((products, experts), 1.0 / experts),
        mixers=np.full(1 + products, 1.0 / (1 + products)),
        seen=np.zeros(2),
    )
