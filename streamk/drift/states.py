"""The states of two-sample tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamk import options
from streamk.backends import CHUNK, LARGEST
from streamk.backends.two_sample import (
    BANDS,
    BETS,
    EDGES,
    FADE,
    REFRESH,
    WINDOWS,
    WITNESSES,
    TwoSample,
)
from streamk.declared import Declared, Domain, count, listed, reading, taken
from streamk.drift.run import WARM_UP, Run, groups_after
from streamk.drift.scale import FirstScale
from streamk.errors import StateError
from streamk.options import Option
from streamk.state import State

_OWNER = "a two-sample test"
_EVENTS = Domain(-LARGEST, LARGEST, missing=True)
_MEANS = Domain(-1.001, 1.001)
"""Of features that are cosines."""
_WEALTH = Domain(0.0, 1e100)
_DECLARED = (
    Declared("rows", "float64", ("first", "columns"), _EVENTS),
    Declared("events", "float64", ("size", "columns"), _EVENTS),
    Declared("witness", "float32", (WINDOWS, "features"), Domain(-2.002, 2.002)),
    Declared("recent", "float32", (WINDOWS, "features"), _MEANS),
    Declared("reference", "float32", ("features",), _MEANS),
    Declared("seen", "int64", ("chunks",), Domain(0, 1 << 16)),
    Declared("wealth", "float64", (WITNESSES, BETS), _WEALTH),
    Declared("bins", "float64", (WITNESSES, len(EDGES)), Domain(0.0, 1.001 / FADE)),
    Declared("total", "float64", (2,), _WEALTH),
    Declared("counts", "int64", (2,), Domain(0, 2**53)),
)


def run_state(run: Run, header: dict[str, Any]) -> State:
    """Return the state of a test of that header, whose run this is."""
    sample = run.sample
    size = int(sample.counts[0])
    arrays = {
        "rows": run.rows.copy(),
        "events": sample.events[:size].copy(),
        "counts": sample.counts[1:3].copy(),
    }
    for name in ("witness", "recent", "reference", "seen", "wealth", "bins", "total"):
        arrays[name] = getattr(sample, name).copy()
    header = {**header, "run": run.n}
    if run.scale is None:
        return State(header, arrays)
    nested = State.nest({"scale": run.scale.state()}, header)
    return State(nested.header, {**nested.arrays, **arrays})


def read_header(
    declared: Mapping[str, Option], header: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[int, int]]:
    """Return the arguments that make a test of its header, and its numbers of events and alarms.

    Raises
    ------
    StateError
        If an entry is missing or does not fit.
    """
    columns = listed(header, "columns", _OWNER)
    with reading(_OWNER):
        chosen = {**options.from_header(declared, header), "columns": columns}
    return chosen, (count(header, "n_events", _OWNER), count(header, "n_drifts", _OWNER))


def run_from_state(run: Run, state: State) -> None:
    """Bring a run that has just begun to where a state is.

    Features and scores of the reference sample are computed anew.

    Raises
    ------
    StateError
        If the arrays do not fit, or contradict each other.
    """
    n = count(state.header, "run", _OWNER)
    warm = n >= WARM_UP
    groups = groups_after(n, run.most_groups)
    chunks = groups * BANDS
    sizes = {"columns": run.rows.shape[1], "chunks": chunks, "features": chunks * CHUNK}
    arrays, sizes = taken(_DECLARED, state.arrays, {**sizes, "first": 0 if warm else n}, _OWNER)
    size, most = sizes["size"], int(run.sample.counts[3])
    tests, since = arrays["counts"].tolist()
    if since > REFRESH or tests > n or size != min(tests, most) or arrays["seen"].max() > most:
        raise StateError(f"the counts of {_OWNER} contradict each other; it is damaged")
    own = {name: arrays[name].copy() for name in TwoSample._fields if name in arrays}
    own["counts"] = np.array([size, tests, since, most])
    room = {
        "features": np.zeros((chunks * CHUNK, size), np.float32),
        "scores": np.zeros((WITNESSES, size), np.float32),
    }
    scale = FirstScale.from_state(state.child("scale"), sizes["columns"]) if warm else None
    run.restore(n, arrays["rows"].copy(), scale, TwoSample(**{**own, **room}))
