"""The River estimators of this project, with their defaults and a seed."""

from __future__ import annotations

from itertools import islice
from typing import Any

from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.streams import Stream

NAME = "streamk"
_WARM = 300


def make(stream: Stream) -> Any:
    """A new estimator, after another one has learned a few events: numba compiles on the way."""
    from streamk.adapters.river import KernelClassifier, KernelRegressor

    regression = stream.task == "regression"
    maker: Any = KernelRegressor if regression else KernelClassifier
    other = maker(seed=SEED)
    for x, y in islice(stream.first(_WARM).events(none=True), _WARM):
        (other.predict_one if regression else other.predict_proba_one)(x)
        other.learn_one(x, y)
    return maker(seed=SEED)


OURS = Contestant(
    NAME, make, "streamk", "KernelClassifier or KernelRegressor, defaults, seed=1", none=True
)
