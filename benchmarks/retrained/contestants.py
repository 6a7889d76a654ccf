"""The contestants: ours without and with a learned metric, and trees.

CapyMOA's are streaming gradient boosted trees (SGBT, Gunasekara et al. 2024) and PLASTIC (Heyden et
al. 2024), a Hoeffding tree that is restructured; of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.retrained import trees
from benchmarks.river_battery import moa, ours, rivers
from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.ours import OURS
from benchmarks.river_battery.streams import Stream

_MOST_COLUMNS = 1_000
"""A metric of more would take its time in products of events with thousands of columns."""
_WARM = 1_300
"""Events after which all that the metric needs is compiled."""


def _feature_machine(stream: Stream) -> Sequence[Any]:
    from streamk.learners import FeatureMachine

    task = "regression" if stream.task == "regression" else "classification"
    return [FeatureMachine(task=task)]


METRIC = Contestant(
    "streamk, metric",
    partial(ours.make, experts=_feature_machine, warm=_WARM),
    OURS.package,
    OURS.settings.replace("[]", "[FeatureMachine()]"),
    most_columns=_MOST_COLUMNS,
    none=True,
)
_SGBT = "StreamingGradientBoostedTrees"
_MOA = (
    moa.contestant("CapyMOA PLASTIC", "PLASTIC", "defaults"),
    moa.contestant("CapyMOA SGBT", _SGBT, "defaults", random_seed=SEED),
)
MOA = tuple(replace(one, most_columns=_MOST_COLUMNS) for one in _MOA)
BASELINES = tuple(one for one in rivers.CONTESTANTS if one.name in rivers.BASELINES)
RIVALS = (*BASELINES, *trees.CONTESTANTS, *MOA)
"""In the order in which they run: those that take longest come last."""
CONTESTANTS = {one.name: one for one in (OURS, METRIC, *RIVALS)}
ROWS = (OURS.name, METRIC.name, *(one.name for one in (*trees.CONTESTANTS, *MOA, *BASELINES)))


def of_seed(contestant: Contestant, seed: int) -> Contestant:
    """One of ours with another seed."""
    return replace(
        contestant,
        name=f"{contestant.name}, seed {seed}",
        make=partial(contestant.make, seed=seed),
        settings=f"{contestant.settings}, but seed={seed}",
    )
