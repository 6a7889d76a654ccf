"""The contestants: ours with its defaults and without a metric, and trees.

CapyMOA's are streaming gradient boosted trees (SGBT, Gunasekara et al. 2024) and PLASTIC (Heyden et
al. 2024), a Hoeffding tree that is restructured; of classes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.retrained import trees
from benchmarks.river_battery import moa, rivers
from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.ours import OURS, PLAIN

_MOST_COLUMNS = 1_000
"""CapyMOA's are not run on streams of more."""
_SGBT = "StreamingGradientBoostedTrees"
_MOA = (
    moa.contestant("CapyMOA PLASTIC", "PLASTIC", "defaults"),
    moa.contestant("CapyMOA SGBT", _SGBT, "defaults", moa.Filled, random_seed=SEED),
)
MOA = tuple(replace(one, most_columns=_MOST_COLUMNS) for one in _MOA)
BASELINES = tuple(one for one in rivers.CONTESTANTS if one.name in rivers.BASELINES)
RIVALS = (*BASELINES, *trees.CONTESTANTS, *MOA)
"""In the order in which they run: those that take longest come last."""
CONTESTANTS = {one.name: one for one in (OURS, PLAIN, *RIVALS)}
ROWS = (OURS.name, PLAIN.name, *(one.name for one in (*trees.CONTESTANTS, *MOA, *BASELINES)))


def of_seed(contestant: Contestant, seed: int) -> Contestant:
    """One of ours with another seed."""
    return replace(
        contestant,
        name=f"{contestant.name}, seed {seed}",
        make=partial(contestant.make, seed=seed),
        settings=f"{contestant.settings}, but seed={seed}",
    )
