"""The methods that are compared, by the names of the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamk import landmarks

Method = Callable[..., Any]

METHODS: dict[str, Method] = {
    "oASIS": landmarks.oasis,
    "uniform": landmarks.uniform,
    "leverage scores": landmarks.leverage_scores,
    "k-means": landmarks.k_means,
    "Farahat": landmarks.farahat,
    "RPCholesky": landmarks.rpcholesky,
    "RPCholesky, blocks": landmarks.block_rpcholesky,
}
GREEDY = ("oASIS", "Farahat")
"""oASIS draws its first landmark, Farahat's method nothing."""
