"""Places of a pool's numbers in its table of int64: sizes, addresses of arrays and of stages.

The places are those of the names in `streamk.backends.pool_arrays`, in capital letters, one after
the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamk.backends.pool_arrays import ARRAYS, COUNTERS, SIZES, STAGES

NAMES = (*SIZES, *COUNTERS, *(each.name.upper() for each in ARRAYS), *STAGES)
SIZE = len(NAMES)
"""Of the table."""

vars().update({name: place for place, name in enumerate(NAMES)})

if TYPE_CHECKING:

    def __getattr__(name: str) -> int:
        """Return the place of a name."""
