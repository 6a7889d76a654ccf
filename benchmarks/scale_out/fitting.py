"""The constants of the model of a round's cost, fitted to measured rounds; and what it predicts.

Rounds of `streamk.learners.Sharded` with 4 shards are measured with 1 and 2 workers, each a process
of its own that is asked by a thread of its own. The least squares of relative errors, none of them
negative, tell what an event, a shard and a task take a worker, and what a round and a worker take
the driver, in processor seconds: moving bytes on one machine is among them, and other programs are
not. By how much some workers come later than others, with others in their way, is told by the
seconds until an outcome is there, divided by the processor seconds in it.

Then the same rounds are measured as users have them, by `streamk.distributed.Processes`, and put
beside the prediction; of two times the faster one. 4 workers share the cores of the machine, so
that no more than the driver's part, which was not fitted to them, is held against the prediction.
What the model takes without shards, and before the first round, is told by the 4,096 events that
come next, likewise.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks import common
from benchmarks.data import Directory, load
from benchmarks.scale_out import replicas
from benchmarks.scale_out.cost_model import ONE_MACHINE, Costs, first_events, mean_round
from benchmarks.scale_out.timed_rounds import (
    Events,
    Round,
    TimedWorkers,
    fastest_rounds,
    total,
)
from streamk.distributed import Processes
from streamk.learners import Sharded
from streamk.learners.base import Learner
from streamk.learners.registry import from_state

CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "2^14 features": ("doubly-stochastic", replicas.features(14), 185_924),
    "2^17 features": ("doubly-stochastic", replicas.features(17), 20_000),
    "multi-kernel": ("multi-kernel", {}, 50_000),
}
"""Models, and how many events they learn; after the last one of the stream comes its first."""
STREAM, SHARDS = "covtype_subset93k", 4
FITTED, CHECKED = (1, 2), (1, 2, 4)
_TIMES, _ALONE = 2, 4096


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Costs, and measured and predicted seconds, of each case."""
    found: dict[str, Any] = {}
    for case, (name, options, most) in list(CASES.items())[: 1 if quick else None]:
        stream = load(STREAM, data, quick=quick)
        sizes = replicas.features(6) if quick else options
        found[case] = _case(
            replicas.model(name, stream, **sizes),
            _repeated(replicas.events(stream), len(stream) if quick else most),
            quick=quick,
        )
        common.note(f"  {case}: {found[case]}")
    return found


def _repeated(events: Events, n: int) -> Events:
    X, y = events
    rows = np.arange(n) % len(y)
    return X[rows], [y[row] for row in rows.tolist()]


def _case(model: Learner, events: Events, *, quick: bool) -> dict[str, Any]:
    X, y = events
    before = len(y) // 2 if quick else first_events(SHARDS)
    model.predict_then_learn_many(X[:before], y[:before])
    begin, rest = _sharded(model, quick).state(), (X[before:], y[before:])
    rounds: dict[int, list[Round]] = {}
    measured: dict[str, float] = {}
    for count in FITTED[:1] if quick else CHECKED:
        rounds[count] = fastest_rounds(begin, rest, TimedWorkers(count), 1)
        if count in FITTED:
            times = 1 if quick else _TIMES
            measured[str(count)] = total(fastest_rounds(begin, rest, Processes(count), times))
    state = begin.child("learner").nbytes
    costs = fitted({count: rounds[count] for count in FITTED if count in rounds}, state)
    lengths = [one.each for one in rounds[FITTED[0]]]
    return {
        "events": before + SHARDS * sum(lengths),
        "before": before,
        "rounds": len(lengths),
        "alone": _alone(model, rest),
        "costs": dataclasses.asdict(costs),
        "measured": measured,
        "predicted": {count: _predicted(costs, lengths, int(count)) for count in measured},
        "driver": {str(count): sum(one.driver for one in found) for count, found in rounds.items()},
    }


def _alone(model: Learner, events: Events) -> float:
    """Return the seconds of an event that the model learns next, without shards."""
    X, y = (some[:_ALONE] for some in events)
    state, seconds = model.state(), []
    for _ in range(_TIMES):
        learner = from_state(state, **model.placing)
        began = time.perf_counter()
        learner.predict_then_learn_many(X, y)
        seconds.append(time.perf_counter() - began)
    return min(seconds) / len(y)


def _predicted(costs: Costs, lengths: Sequence[int], workers: int) -> float:
    return sum(
        mean_round(costs, ONE_MACHINE, each=each, shards=SHARDS, workers=workers, rounds=20)
        for each in lengths
    )


def _sharded(model: Learner, quick: bool) -> Sharded:
    """Return the model in shards, at the beginning of a round."""
    options: dict[str, Any] = {"round_events": 4} if quick else {}
    return Sharded(model, shards=SHARDS, **options)


def fitted(rounds: Mapping[int, Sequence[Round]], state: float) -> Costs:
    """Return the costs of rounds by the number of workers.

    Parameters
    ----------
    rounds : mapping of int to sequence of Round
    state : float
        Bytes of a model.
    """
    busy, driver, sizes, late = [], [], [], []
    for count, some in rounds.items():
        own = SHARDS / count
        for one in some:
            busy += [([own * one.each, own, 1.0], taken) for taken in one.workers]
            driver.append(([1.0, float(count)], one.driver))
            sizes.append((own * one.each, one.sent - state, one.received - state))
            late += np.log(np.divide(one.waited, one.workers)).tolist()
    event, shard, task = _relative(busy)
    fixed, worker = _relative(driver)
    n, sent, received = np.array(sizes).sum(axis=0).tolist()
    return Costs(
        event=event,
        task=task,
        shard=shard,
        driver_round=fixed,
        driver_worker=worker,
        spread=float(np.std(late)),
        state=float(state),
        sent=max(0.0, sent / n),
        received=max(0.0, received / n),
    )


def _relative(found: Sequence[tuple[Sequence[float], float]]) -> tuple[float, ...]:
    """Return the coefficients, at least 0, of the least squares of relative errors."""
    A = np.array([row for row, _ in found])
    b = np.array([value for _, value in found])
    solution, _ = nnls(A / b[:, None], np.ones(len(b)))
    return tuple(solution.tolist())


def render(found: Mapping[str, Any]) -> str:
    """The constants, and seconds measured and predicted."""
    rows = []
    for case, one in found.items():
        costs = one["costs"]
        parts = [1e6 * costs["event"]]
        parts += [1e3 * costs[name] for name in ("shard", "task", "driver_worker", "driver_round")]
        sizes = [f"{100 * costs['spread']:.0f}%", f"{costs['state'] / 1e6:.1f} MB"]
        rows.append([case, *(f"{part:,.1f}" for part in parts), *sizes])
    head = ["fitted", "event, µs", "shard, ms", "task", "driver: worker", "round"]
    return f"{common.table([*head, 'spread', 'state'], rows)}\n\n{_beside(found)}"


def _beside(cases: Mapping[str, Any]) -> str:
    rows = []
    for case, one in cases.items():
        serial, alone = one["alone"] * one["before"], one["alone"] * one["events"]
        rows.append([f"{case}, {one['events']:,} events", f"{alone:.1f}", *[""] * 5])
        for count, driver in one["driver"].items():
            cells, costs = [""] * 4, one["costs"]
            if count in one["measured"]:
                measured = one["measured"][count]
                cells = [
                    f"{serial + measured:.1f}",
                    f"{serial + one['predicted'][count]:.1f}",
                    f"{alone / (serial + measured):.2f}",
                    f"{(alone - serial) / measured:.2f}",
                ]
            modelled = one["rounds"] * (costs["driver_round"] + int(count) * costs["driver_worker"])
            rows.append([f"  workers: {count}", *cells, f"{driver:.2f}", f"{modelled:.2f}"])
    head = ["seconds", "measured", "predicted", "times as fast", "in rounds", "driver", "predicted"]
    return common.table(head, rows)
