"""Ranks, and paired comparisons of two runs on the same events."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import rankdata

from benchmarks.river_battery.contestant import SEED
from benchmarks.river_battery.scores import Numbers

ROUNDS = 1_000
"""Resamples of a bootstrap."""


def ranks(scores: Mapping[str, float], *, most: bool) -> dict[str, float]:
    """Places from 1, equal scores share the mean of theirs; `most`: the greatest score is first."""
    values = np.array(list(scores.values()), dtype=np.float64)
    places = rankdata(-values if most else values)
    return dict(zip(scores, places.tolist(), strict=True))


def mean_ranks(scores: Mapping[str, Mapping[str, float]], *, most: bool) -> dict[str, float]:
    """Mean place over the streams, of scores by stream and contestant.

    All streams must have the same contestants.
    """
    places = [ranks(of_stream, most=most) for of_stream in scores.values()]
    return {name: math.fsum(p[name] for p in places) / len(places) for name in places[0]}


def paired(a: Numbers, b: Numbers, rounds: int = ROUNDS) -> dict[str, float]:
    """Mean of a - b over the same events, and the 95% interval of its bootstrap.

    Events are drawn with replacement, `rounds` times; the interval is that of the percentiles 2.5
    and 97.5. It takes the events as independent of each other.
    """
    difference = a - b
    rng = np.random.default_rng(SEED)
    n = len(difference)
    means = [difference[rng.integers(0, n, n)].mean() for _ in range(rounds)]
    low, high = np.percentile(means, [2.5, 97.5])
    return {"difference": float(difference.mean()), "low": float(low), "high": float(high)}


def best(rivals: Mapping[str, Numbers], ours: Numbers, *, parts: bool) -> dict[str, Any]:
    """Ours less the rival of the least mean loss; in `parts` of that loss, or as it is."""
    name = min(rivals, key=lambda rival: rivals[rival].mean())
    scale = float(rivals[name].mean()) or 1.0 if parts else 1.0
    return {"rival": name, **paired(rivals[name] / scale, ours / scale)}
