"""What a `Meka` is made of, from its state."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk import kernels
from streamk.factorization.blocks import BlockDiagonal, Links
from streamk.factorization.clusters import divided
from streamk.state import State

_OWN = ("type", "format", "shift", "clear")
"""Of a header; the others are the kernel's."""


def parts_of(state: State, threads: int | None) -> dict[str, Any]:
    """Return the fields of a `Meka`, or raise one of many errors if the state is damaged."""
    a, header = state.arrays, dict(state.header)
    kernel = kernels.from_json({k: v for k, v in header.items() if k not in _OWN})
    ranks, counts = a["ranks"].tolist(), a["counts"].tolist()
    if min(ranks) < 1:
        raise ValueError("a cluster has no directions")
    clusters = divided(a["centers"], a["labels"], threads)
    W = BlockDiagonal(a["W"], clusters.rows, ranks)
    landmarks = np.split(a["landmarks"], np.cumsum(counts)[:-1])
    sizes = [m * k for m, k in zip(counts, ranks, strict=True)]
    maps = np.split(a["maps"], np.cumsum(sizes)[:-1])
    shaped = (T.reshape(m, k) for T, m, k in zip(maps, counts, ranks, strict=True))
    shift: Any = header["shift"]
    L = Links(a["L"], a["pairs"], ranks)
    # Compiled loops go by these sizes and look at no others.
    numbers = sum(n * k for n, k in zip(W.sizes, ranks, strict=True))
    links = sum(ranks[s] * ranks[t] for s, t in L.pairs.tolist())
    d = a["centers"].shape[1]
    own = [a[name].shape for name in ("points", "W", "L", "landmarks")]
    if own != [(len(a["labels"]), d), (numbers,), (links,), (sum(counts), d)]:
        raise ValueError("its arrays do not fit each other")
    return {
        "kernel": kernel,
        "points": a["points"],
        "shift": float(shift),
        "_clusters": clusters,
        "_W": W,
        "_L": L,
        "_landmarks": tuple(landmarks),
        "_maps": tuple(shaped),
        "_threads": threads,
        "_clear": bool(header["clear"]),
    }
