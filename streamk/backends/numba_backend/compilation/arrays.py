"""numba's own functions on arrays, loaded without SciPy's linear algebra.

numba loads them with the first function that is compiled or comes from its cache, and with them
`scipy.linalg`, only to see whether it is there: 15 MB of memory and a tenth of a second. None of
our loops calls a product of numba's, and where another program's do, numba loads it with these.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

_OWNER, _ASKS = "numba.np.linalg", "numba.np.arraymath"


def load() -> None:
    """Load them; do nothing where they are there, or where this version of numba has others."""
    if _ASKS in sys.modules:
        return
    owner: Any = import_module(_OWNER)
    known = getattr(owner, "ensure_blas", None)
    if known is None:
        return
    owner.ensure_blas = lambda: None  # SciPy is there: this package cannot be without it
    try:
        asks: Any = import_module(_ASKS)
    finally:
        owner.ensure_blas = known
    asks.ensure_blas = known
