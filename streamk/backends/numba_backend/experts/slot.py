"""Places of a pool's numbers in its table of int64: sizes, counters, stages' and arrays' addresses.

The names are those of `streamk.backends.pool_arrays`, in its order; a test holds that.
"""

from __future__ import annotations

from streamk.backends.pool_arrays import ARRAYS, COUNTERS, SIZES, STAGES

(
    TASK,
    COLUMNS,
    GAUSSIAN_FEATURES,
    GAUSSIAN_BANDWIDTHS,
    OUTPUTS,
    CLASSES,
    BINNING_TABLES,
    BINNING_GROUPS,
) = range(8)
(
    BINNING_MEMBERS,
    BINNING_SLOTS,
    EXPERTS,
    WINDOW_EVENTS,
    LINEAR_RULES,
    GAUSSIAN_RULES,
    BINNING_RULES,
) = range(8, 15)
NEWTON_FEATURES, N_KNOTS, MIXERS_SHARE, MIXERS_PRODUCT, MIXERS, LOSS, EXTERNAL = range(15, 22)
OUTPUT_ROOM, BINNING_LINE, BINNING_USED_LINE, WINDOW_CLASSES, FORECAST_ROWS, OWN_EXPERTS = range(
    22, 28
)
COUNT, NEXT, MIXED_IS_CURRENT = range(28, 31)
EVALUATE_FEATURES, PREDICT_EXPERTS, MIX, LEARN_WEIGHTS, LEARN_EXPERTS = range(31, 36)

PLACES = {
    name: place
    for place, name in enumerate(
        (*SIZES, *COUNTERS, *STAGES, *(each.name.upper() for each in ARRAYS))
    )
}
SIZE = len(PLACES)
"""Of the table."""
