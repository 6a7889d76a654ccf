"""The River estimators of this project, with a seed: with their defaults, and without a metric."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.streams import Stream

NAME, PLAIN_NAME = "streamk", "streamk, no metric"
_WARM, _PLAIN_WARM = 1_300, 300
"""Events after which all is compiled that learning needs, with a feature machine and without."""


def make(stream: Stream, *, seed: int = SEED, warm: int = _WARM, **options: Any) -> Any:
    """A new estimator, after another one has learned a few events: numba compiles on the way."""
    from streamk.adapters.river import KernelClassifier, KernelRegressor

    regression = stream.task == "regression"
    maker: Any = KernelRegressor if regression else KernelClassifier
    other = maker(seed=seed, **options)
    for x, y in islice(stream.first(warm).events(none=True), warm):
        (other.predict_one if regression else other.predict_proba_one)(x)
        other.learn_one(x, y)
    return maker(seed=seed, **options)


OURS = Contestant(
    NAME, make, "streamk", "KernelClassifier or KernelRegressor, defaults, seed=1", none=True
)
PLAIN = Contestant(
    PLAIN_NAME,
    partial(make, warm=_PLAIN_WARM, external_experts=()),
    OURS.package,
    f"{OURS.settings}, external_experts=()",
    none=True,
)
"""Ours without a feature machine among the experts."""
