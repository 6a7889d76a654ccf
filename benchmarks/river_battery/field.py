"""All contestants, and the groups of them that the tables ask for."""

from __future__ import annotations

from benchmarks.river_battery import batches, moa, rivers, vowpal
from benchmarks.river_battery.ours import OURS, PLAIN

_CHEAP = rivers.CONTESTANTS[:6]
_VOWPAL = (vowpal.DEFAULT, vowpal.QUADRATIC, *vowpal.GRID)

RIVALS = (*_CHEAP, *_VOWPAL, *batches.GRID, *moa.CONTESTANTS, *rivers.CONTESTANTS[6:])
"""In the order in which they run: those that take hours come last."""
CONTESTANTS = {contestant.name: contestant for contestant in (OURS, PLAIN, *RIVALS)}

BASELINES = rivers.BASELINES
RIVER = tuple(c.name for c in rivers.CONTESTANTS if c.name not in BASELINES)
GRIDS = {
    "VW, best of 12": tuple(c.name for c in _VOWPAL),
    "sklearn, best of 7": tuple(c.name for c in batches.GRID),
}
"""Rows that show, for each stream, the best one of these, picked in hindsight."""
SINGLES = (
    OURS.name,
    *RIVER,
    vowpal.DEFAULT.name,
    vowpal.QUADRATIC.name,
    *(c.name for c in moa.CONTESTANTS),
    *BASELINES,
)
"""Rows of one contestant with one setting: these are ranked, ours with its defaults alone."""
OTHERS = (*(c.name for c in moa.CONTESTANTS), *(name for grid in GRIDS.values() for name in grid))
"""The rivals that are not River's, every setting by itself."""
