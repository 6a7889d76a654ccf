"""The River estimators of this project, with their defaults and a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.streams import Stream

NAME = "streamk"
_WARM = 300


def _no_experts(_: Stream) -> tuple[()]:
    return ()


def make(
    stream: Stream,
    *,
    seed: int = SEED,
    experts: Callable[[Stream], Sequence[Any] | None] = _no_experts,
    warm: int = _WARM,
) -> Any:
    """A new estimator, after another one has learned a few events: numba compiles on the way."""
    from streamk.adapters.river import KernelClassifier, KernelRegressor

    regression = stream.task == "regression"
    maker: Any = KernelRegressor if regression else KernelClassifier
    other = maker(seed=seed, external_experts=experts(stream))
    for x, y in islice(stream.first(warm).events(none=True), warm):
        (other.predict_one if regression else other.predict_proba_one)(x)
        other.learn_one(x, y)
    return maker(seed=seed, external_experts=experts(stream))


OURS = Contestant(
    NAME,
    make,
    "streamk",
    "KernelClassifier or KernelRegressor, seed=1, external_experts=[]",
    none=True,
)
