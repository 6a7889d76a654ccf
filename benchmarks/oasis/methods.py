"""The methods that are compared, by the names of the tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.oasis.farahat import farahat
from streamk import landmarks

Method = Callable[..., Any]


def _farahat(X: Any, kernel: Any, *, max_landmarks: int, **_: int) -> Any:
    """Farahat's method draws nothing."""
    return farahat(X, kernel, max_landmarks=max_landmarks)


METHODS: dict[str, Method] = {
    "oASIS": landmarks.oasis,
    "uniform": landmarks.uniform,
    "leverage scores": landmarks.leverage_scores,
    "k-means": landmarks.k_means,
    "Farahat": _farahat,
    "RPCholesky": landmarks.rpcholesky,
    "RPCholesky, blocks": landmarks.block_rpcholesky,
}
"""Called with the points, the kernel, `max_landmarks` and `seed`."""
DETERMINISTIC = ("Farahat",)
