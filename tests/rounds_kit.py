"""Events, models and comparisons for the tests of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.distributed import Rounds, ShardBatch
from streamk.learners import create
from streamk.learners.common.base import Learner
from streamk.packing import fingerprint

MODELS: dict[str, dict[str, Any]] = {
    "multi-kernel": {"external_experts": ()},
    "doubly-stochastic": {"block_size": 128, "max_features": 128},
    "online-nystrom": {"max_landmarks": 24},
    "streaming-meka": {},
    "kernel-ridge": {"max_centers": 64},
    "eigenpro": {"n_centers": 64},
    "feature-machine": {"buffer_size": 64, "first": 64, "swap_delay": 32},
}
TASKS = "classification", "regression"


def model(name: str, task: str) -> Learner:
    return create(name, task=task, **MODELS[name])


def events(n: int, task: str, *, seed: int = 0) -> tuple[NDArray[np.float64], list[Any]]:
    """Events of four columns; with classes, the third of which comes late."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 1.0]
    if task == "regression":
        return X, (np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.normal(size=n)).tolist()
    y = np.where(X[:, 0] * X[:, 2] > 0.0, "same", "other").astype(object)
    y[np.arange(n) >= n // 2] = np.where(X[n // 2 :, 1] > 12.0, "far", y[n // 2 :])
    return X, y.tolist()


def dealt(X: NDArray[Any], y: Sequence[Any], shards: int) -> list[ShardBatch]:
    """Events dealt in turns."""
    return [ShardBatch(X[s::shards], y[s::shards]) for s in range(shards)]


def uneven(
    X: NDArray[Any], y: Sequence[Any], shards: int, seed: int = 0
) -> list[ShardBatch | None]:
    """Events for shards drawn at random, of which every fifth has none."""
    of = np.random.default_rng(seed).integers(0, shards, len(X))
    of[of % 5 == 3] = 0
    rows = [np.flatnonzero(of == s) for s in range(shards)]
    return [ShardBatch(X[r], [y[n] for n in r]) if len(r) else None for r in rows]


def digest(rounds: Rounds, answers: Sequence[Any]) -> list[Any]:
    """What must be the same bits: the state, and each shard's predictions."""
    found: list[Any] = [fingerprint(rounds.state())]
    for predictions, probabilities in answers:
        found.append(predictions.tolist())
        found.append(None if probabilities is None else probabilities.tobytes())
    return found
