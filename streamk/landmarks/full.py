"""Whole matrices, for the methods that cannot do without."""

from __future__ import annotations

import numpy as np

from streamk.errors import InvalidInput
from streamk.landmarks.matrices import Matrix, Numbers

LIMIT = 4 << 30
"""Bytes beyond which a matrix is not formed: 23,170 rows."""
_ENTRIES = 1 << 17
"""Entries that are computed at a time, so that no second matrix is needed."""


def full(matrix: Matrix, method: str) -> Numbers:
    """Return all entries of a matrix, in an array of their own.

    Raises
    ------
    InvalidInput
        If they took more than `LIMIT` bytes, or one is not finite.
    """
    size = 8 * matrix.n**2
    if size > LIMIT:
        raise InvalidInput(
            f"{method} needs the whole matrix, which takes {size / 2**30:.3g} GiB for "
            f"n={matrix.n}, more than the {LIMIT / 2**30:.3g} GiB that are formed: take oasis or "
            "block_rpcholesky, which need a few of its columns, or fewer rows"
        )
    G = np.empty((matrix.n, matrix.n))
    step = max(1, _ENTRIES // matrix.n)
    for first in range(0, matrix.n, step):
        part = G[first : first + step]
        entries = matrix.block(slice(first, first + step), slice(None))
        part[:] = entries.toarray() if hasattr(entries, "toarray") else entries
        if not np.isfinite(part).all():
            i, j = np.argwhere(~np.isfinite(part))[0]
            raise InvalidInput(
                f"entry ({first + i}, {j}) of the matrix is {part[i, j]}; "
                "all entries must be finite"
            )
    return G
