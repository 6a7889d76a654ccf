"""How the loops of this backend are compiled.

``contract`` lets LLVM fuse a multiply and an add, which changes no order; reassociation stays off,
because a row's result must not depend on its batch.
"""

from __future__ import annotations

from numba import njit

compiled = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
# What the fused step and the step in parts share outside the loops over features must round in the
# same way in both, so nothing may be fused there.
exact = njit(cache=True, nogil=True, error_model="numpy")
