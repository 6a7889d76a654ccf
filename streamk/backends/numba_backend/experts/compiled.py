"""How the loops over an event's experts are compiled."""

from __future__ import annotations

from streamk.backends.numba_backend.compiling import compiling

fast = compiling(nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
"""Sums may be taken in another order, so that they fill vectors; NaN and infinity stay what they
are. Which order is fixed when a function is compiled."""
