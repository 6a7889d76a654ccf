"""Bytes of the state of a model that keeps no features; see `benchmarks.speed.state`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks import common
from benchmarks.hot import SAMPLERS
from benchmarks.speed import state


def measure(*, quick: bool) -> dict[str, Any]:
    """The state's sizes at several numbers of features."""
    blocks = state.BLOCKS[:2] if quick else state.BLOCKS
    return {
        "rows": {name: state.grow(blocks, sampler=sampler) for sampler, name in SAMPLERS.items()},
        "goals": [],
    }


def render(found: Mapping[str, Any]) -> str:
    """The table of this part."""
    rows = [
        [
            f"{name}, {row['features']:,} features",
            f"{row['coefficients']:,}",
            f"{row['bytes_a_feature_and_output']:g}",
            f"{row['other_arrays']:,}",
            f"{row['header']:,}",
        ]
        for name, sizes in found["rows"].items()
        for row in sizes
    ]
    title = f"state, d={state.COLUMNS}, {state.OUTPUTS} outputs, cache_bytes=0"
    header = [title, "bytes", "a feature and output", "other arrays", "header"]
    return common.table(header, rows)
