"""Nulls that depend on time: data sets whose events are shuffled in blocks.

Blocks of consecutive events keep their order within and come in a random one. With blocks of one
event the stream is exchangeable, a null; with longer ones events resemble the one before, which no
detector here allows for. Alarms of the whole stream, of "events" (all columns) for MMDDrift and of
"labels" (as a number) for it and the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.drift.detectors import OURS, SLOW, Numbers, detectors, ours

SETS = ("elec2", "rialto", "covtype_subset93k")
BLOCKS = (1, 4, 16, 64)
MOST = 40_000
"""Events of each set; the slow detectors, which would take minutes for so many, are left out."""


def shuffled(n: int, block: int, seed: int = 0) -> Numbers:
    """Return the places of n events, those of each block together."""
    starts = np.random.default_rng(seed).permutation(-(-n // block))
    places = (starts[:, None] * block + np.arange(block)).ravel()
    return places[places < n]


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Alarms by data set, length of blocks and detector."""
    found: dict[str, Any] = {}
    others = {name: alarms for name, alarms in detectors().items() if name not in SLOW}
    for name in SETS:
        stream = load(name, data, quick=quick).first(MOST)
        X, y = stream.X.astype(np.float64), stream.y.astype(np.float64)[:, None]
        found[name] = {"events": len(X), "blocks": {}}
        for block in BLOCKS:
            places = shuffled(len(X), block)
            heard = {f"{OURS}, events": len(ours(X[places], 1))}
            for other, alarms in others.items():
                heard[f"{other}, labels"] = len(alarms(y[places], 1))
            found[name]["blocks"][str(block)] = heard
            common.note(f"  {name}, blocks of {block}: {heard}")
    return found


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set and length of blocks, a column for each detector."""
    lines, header = [], ["alarms"]
    for name, one in found.items():
        for block, heard in one["blocks"].items():
            header = ["alarms", *heard]
            cells = [f"{number:,}" for number in heard.values()]
            lines.append([f"{name}, {one['events']:,} events, blocks of {block}", *cells])
    return common.table(header, lines)
