"""Processor seconds and bytes of merging V replicas, as `streamk.learners.Sharded` does.

A model has learned 4,096 events, and its replicas 64 each besides. Each replica is packed as a
worker packs it, unpacked and opened with all checks as the driver does it, and all are merged in
the tree, one after the other in one process. Sending them is not in it. The fastest of two.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.scale_out import replicas
from streamk.learners.base import Learner
from streamk.learners.registry import from_state
from streamk.learners.sharded.replicas import merging, reduced
from streamk.packing import pack, unpack
from streamk.state import State

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{
        f"2^{exponent} features, covtype": (
            "doubly-stochastic",
            "covtype_subset93k",
            replicas.features(exponent),
        )
        for exponent in (10, 12, 14, 16, 17)
    },
    "multi-kernel, elec2": ("multi-kernel", "elec2", {}),
    "multi-kernel, covtype": ("multi-kernel", "covtype_subset93k", {}),
    "multi-kernel, a9a": ("multi-kernel", "a9a", {}),
}
QUICK = "2^10 features, covtype", "multi-kernel, elec2"
SHARDS = 2, 4, 16
STAGES = "pack", "open", "merge"
_BEFORE, _OWN, _TIMES = 4096, 64, 2


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Bytes of a state, and seconds of each stage by shards, of each case."""
    found = {}
    for case, (name, label, options) in CASES.items():
        if quick and case not in QUICK:
            continue
        stream = load(label, data, quick=quick)
        shards = SHARDS[:1] if quick else SHARDS
        X, y = replicas.events(stream)
        most = min(_BEFORE, len(y) // 2)
        model = replicas.model(name, stream, **options)
        model.predict_then_learn_many(X[:most], y[:most])
        common_state, states = model.state(), []
        for shard in range(shards[-1]):
            replica = from_state(common_state, **model.placing)
            part = slice(most + _OWN * shard, most + _OWN * (shard + 1))
            replica.predict_then_learn_many(X[part], y[part])
            states.append(replica.state())
        found[case] = {"bytes": states[0].nbytes}
        for count in shards:
            taken = [_stages(model, states[:count]) for _ in range(1 if quick else _TIMES)]
            found[case][str(count)] = min(taken, key=lambda one: sum(one.values()))
        common.note(f"  {case}: {found[case]}")
    return found


def _stages(model: Learner, states: list[State]) -> dict[str, float]:
    """Return the seconds of each stage of a reduction of replicas with these states."""
    opened = [from_state(state, **model.placing) for state in states]
    times = [time.process_time()]
    packed = [(one.header, pack(one.arrays)) for one in (replica.state() for replica in opened)]
    times.append(time.process_time())
    opened = [
        from_state(State(header, unpack(text, "a message")), **model.placing)
        for header, text in packed
    ]
    times.append(time.process_time())
    merge = merging(model.n_events, lambda: model)
    reduced((0, len(opened)), lambda _: None, opened.__getitem__, merge)
    times.append(time.process_time())
    return {stage: times[n + 1] - times[n] for n, stage in enumerate(STAGES)}


def render(found: Mapping[str, Any]) -> str:
    """A line for each case and number of shards."""
    rows = []
    for case, one in found.items():
        for place, shards in enumerate(s for s in SHARDS if str(s) in one):
            seconds = [one[str(shards)][stage] for stage in STAGES]
            first = [case, f"{one['bytes'] / 1e6:.2f}"] if place == 0 else ["", ""]
            cells = [f"{1e3 * s:,.1f}" for s in (*seconds, sum(seconds))]
            rows.append([*first, str(shards), *cells])
    header = ["a reduction of V replicas, ms", "MB each", "V", *STAGES, "all"]
    return common.table(header, rows)
