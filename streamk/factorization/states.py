"""The parts of a `Meka`, from its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk import kernels
from streamk.declared import Declared, Domain, number, taken
from streamk.factorization.blocks import BlockDiagonal, Links
from streamk.factorization.clusters import divided
from streamk.state import State

_OWN = ("type", "format", "shift", "clear")
"""Of a header; the others are the kernel's."""


def parts_of(state: State, threads: int | None) -> dict[str, Any]:
    """Return the fields of a `Meka`, or raise one of many errors if the state is damaged."""
    header = dict(state.header)
    kernel = kernels.from_json({k: v for k, v in header.items() if k not in _OWN})
    a = _checked(state.arrays)
    ranks, counts = a["ranks"].tolist(), a["counts"].tolist()
    if not ranks:
        raise ValueError("it has no clusters")
    clusters = divided(a["centers"], a["labels"], threads)
    # Compiled loops go by these sizes and look at no others.
    pairs = a["pairs"].tolist()
    parts = [m * k for m, k in zip(counts, ranks, strict=True)]
    wanted = {
        "W": sum(len(rows) * k for rows, k in zip(clusters.rows, ranks, strict=True)),
        "L": sum(ranks[s] * ranks[t] for s, t in pairs),
        "landmarks": sum(counts),
        "maps": sum(parts),
    }
    if any(len(a[name]) != length for name, length in wanted.items()):
        raise ValueError(f"its arrays do not fit each other: these lengths do, {wanted}")
    if any(s > t for s, t in pairs) or len(set(map(tuple, pairs))) < len(pairs):
        raise ValueError("array 'pairs' has a pair twice, or one that is not ascending")
    W, L = BlockDiagonal(a["W"], clusters.rows, ranks), Links(a["L"], a["pairs"], ranks)
    landmarks = np.split(a["landmarks"], np.cumsum(counts)[:-1])
    maps = np.split(a["maps"], np.cumsum(parts)[:-1])
    shaped = (T.reshape(m, k) for T, m, k in zip(maps, counts, ranks, strict=True))
    return {
        "kernel": kernel,
        "points": a["points"],
        "shift": number(header, "shift", _OWNER),
        "_clusters": clusters,
        "_W": W,
        "_L": L,
        "_landmarks": tuple(landmarks),
        "_maps": tuple(shaped),
        "_threads": threads,
        "_clear": bool(header["clear"]),
    }


def _checked(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state, each of which fits by itself."""
    found, sizes = taken(_DECLARED, arrays, {}, _OWNER)
    clusters = Domain(0, sizes["clusters"] - 1)
    # W and L are stored in single precision or in double.
    stored = {name: getattr(arrays.get(name), "dtype", None) for name in ("W", "L")}
    dtype = {name: "float32" if kind == np.float32 else "float64" for name, kind in stored.items()}
    more = (
        Declared("labels", "int32", ("points",), clusters),
        Declared("pairs", "int64", ("links", 2), clusters),
        Declared("W", dtype["W"], ("coordinates",)),
        Declared("L", dtype["L"], ("products",)),
    )
    return found | taken(more, arrays, sizes, _OWNER)[0]


_OWNER = "a MEKA's damaged state"
_DECLARED = (
    Declared("centers", "float64", ("clusters", "columns")),
    Declared("points", "float64", ("points", "columns")),
    Declared("ranks", "int64", ("clusters",), Domain(1, 2**31)),
    Declared("counts", "int64", ("clusters",), Domain(0, 2**31)),
    Declared("landmarks", "float64", ("landmarks", "columns")),
    Declared("maps", "float64", ("weights",)),
)
