"""Places of a pool's numbers in its table of int64: sizes, counters, stages' and arrays' addresses.

The names are those of `streamk.backends.pool_arrays`, in its order; a test holds that.
"""

from __future__ import annotations

from streamk.backends.pool_arrays import ARRAYS, COUNTERS, SIZES, STAGES

TASK, COLUMNS, FEATURES, BANDWIDTHS, OUTPUTS, CLASSES, TABLES, GROUPS = range(8)
MEMBERS, SLOTS, EXPERTS, WINDOW, LINEAR_RULES, LADDER_RULES, GRID_RULES = range(8, 15)
NEWTON, LEVELS, MIXERS_SHARE, MIXERS_PRODUCT, MIXERS, LOSS, EXTERNAL = range(15, 22)
OUTPUT_ROOM, LINE, SIDE_LINE, SUMMED, KEPT_ROWS, OWN_EXPERTS = range(22, 28)
COUNT, NEXT, FRESH = range(28, 31)
FEATURES_OF, PREDICT, MIX, WEIGH, DESCEND = range(31, 36)

PLACES = {
    name: place
    for place, name in enumerate(
        (*SIZES, *COUNTERS, *STAGES, *(each.name.upper() for each in ARRAYS))
    )
}
SIZE = len(PLACES)
"""Of the table."""
