"""Places of a pool's numbers in its table of int64: sizes, counters, stages' and arrays' addresses.

``slot.COLUMNS`` is the place of that size, counter or stage of `streamk.backends.pool_arrays`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamk.backends.pool_arrays import ARRAYS, COUNTERS, SIZES, STAGES

_NUMBERS = (*SIZES, *COUNTERS, *STAGES)
PLACES = {
    name: place for place, name in enumerate((*_NUMBERS, *(each.name.upper() for each in ARRAYS)))
}
SIZE = len(PLACES)
"""Of the table."""
globals().update({name: PLACES[name] for name in _NUMBERS})

if TYPE_CHECKING:

    def __getattr__(name: str) -> int: ...
