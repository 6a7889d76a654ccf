"""The constants of the model of a round's cost, fitted to measured rounds; and what it predicts.

Rounds of `streamk.learners.Sharded` with 4 shards are measured with 1 and 2 workers, each a process
of its own that is asked by a thread of its own, so that each has its seconds. The least squares of
relative errors, none of them negative, tell what an event, a shard and a task take a worker, and
what a round and a worker take the driver. Bandwidth and latency are those of the pipe between two
processes. Then the same rounds are measured as users have them, with several processes of
`streamk.distributed.Processes`, and put beside the prediction. All is measured three times, and the
fastest time counts. 4 workers share the cores of the machine, so that no more than the driver's
part, which was not fitted to them, can be held against the prediction.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.scale_out import replicas
from benchmarks.scale_out.cost_model import Costs, Link, first_events, mean_round
from streamk.distributed import Processes, TaskDivision
from streamk.learners import Sharded
from streamk.learners.base import Learner
from streamk.learners.registry import from_state
from streamk.state import State

CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "2^14 features": ("doubly-stochastic", replicas.features(14), 92_962),
    "2^17 features": ("doubly-stochastic", replicas.features(17), 20_000),
    "multi-kernel": ("multi-kernel", {}, 50_000),
}
"""Models, and events of the stream that they learn."""
STREAM, SHARDS = "covtype_subset93k", 4
FITTED, CHECKED = (1, 2), (1, 2, 4)
_ECHOED, _ECHOES, _TIMES = 16 << 20, 20, 3


@dataclass
class Round:
    """What was measured in a round.

    Attributes
    ----------
    each : int
        Events of a shard.
    seconds : float
    workers : list of float
        Seconds from sending a task to the outcome, of each worker.
    sent, received : float
        Bytes of a message to a worker, and of one back; the mean of all workers.
    """

    each: int
    seconds: float = 0.0
    workers: list[float] = dataclasses.field(default_factory=list)
    sent: float = 0.0
    received: float = 0.0


class TimedWorkers:
    """Processes each of which is asked by a thread of its own, and timed.

    Parameters
    ----------
    count : int
    """

    def __init__(self, count: int) -> None:
        self._workers = [Processes(1) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count)
        self.last = Round(0)
        """The round that was answered last."""

    def __len__(self) -> int:
        return len(self._workers)

    def answer(self, messages: Sequence[bytes]) -> list[bytes]:
        """Return what each process makes of its message."""
        found = list(self._threads.map(_timed, self._workers, messages))
        answers = [answer for answer, _ in found]
        self.last = Round(
            0,
            workers=[seconds for _, seconds in found],
            sent=float(np.mean([len(message) for message in messages])),
            received=float(np.mean([len(answer) for answer in answers])),
        )
        return answers

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown()
        for worker in self._workers:
            worker.close()


def _timed(worker: Processes, message: bytes) -> tuple[bytes, float]:
    began = time.perf_counter()
    (answer,) = worker.answer([message])
    return answer, time.perf_counter() - began


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """The link, and costs, measured and predicted seconds of each case."""
    link = _link()
    found: dict[str, Any] = {}
    for case, (name, options, most) in CASES.items():
        if quick:
            options = {**options, **replicas.features(6)} if options else options
        stream = load(STREAM, data, quick=quick).first(most)
        found[case] = _case(replicas.model(name, stream, **options), stream, link, quick=quick)
        common.note(f"  {case}: {found[case]}")
    return {"link": dataclasses.asdict(link), "cases": found}


def _case(model: Learner, stream: Dataset, link: Link, *, quick: bool) -> dict[str, Any]:
    X, y = replicas.events(stream)
    before = len(y) // 2 if quick else first_events(SHARDS)
    model.predict_then_learn_many(X[:256], y[:256])  # which compiles
    began = time.perf_counter()
    model.predict_then_learn_many(X[256:before], y[256:before])
    event = (time.perf_counter() - began) / (before - 256)
    state, rest = model.state(), (X[before:], y[before:])
    rounds = {}
    for count in FITTED[:1] if quick else CHECKED:
        workers = TimedWorkers(count)
        with TaskDivision(workers) as division:
            rounds[count] = _rounds(_sharded(state, model, division, quick), rest, workers)
    costs = fitted(
        {count: rounds[count] for count in FITTED if count in rounds}, link, state.nbytes
    )
    lengths = [one.each for one in rounds[FITTED[0]]]
    measured, predicted, driver = {}, {}, {}
    for count, found in rounds.items():
        with TaskDivision(Processes(count)) as division:
            measured[str(count)] = sum(
                one.seconds for one in _rounds(_sharded(state, model, division, quick), rest)
            )
        predicted[str(count)] = sum(
            mean_round(costs, link, each=each, shards=SHARDS, workers=count, rounds=20)
            for each in lengths
        )
        driver[str(count)] = sum(one.seconds - max(one.workers) for one in found)
    return {
        "events": before + SHARDS * sum(lengths),
        "before": before,
        "rounds": len(lengths),
        "alone": event,
        "costs": dataclasses.asdict(costs),
        "measured": measured,
        "predicted": predicted,
        "driver": driver,
    }


def _sharded(state: State, model: Learner, workers: TaskDivision, quick: bool) -> Sharded:
    """Return the model in shards, at the beginning of a round; its workers have learned a few."""
    options: dict[str, Any] = {"round_events": 8} if quick else {}
    return Sharded(from_state(state, **model.placing), shards=SHARDS, workers=workers, **options)


def _rounds(
    model: Sharded, events: tuple[Any, list[Any]], workers: TimedWorkers | None = None
) -> list[Round]:
    """Return the rounds that the events make; a round in which workers start is not counted."""
    X, y = events
    found: list[Round] = []
    first, is_warm, begin = 0, False, model.state()
    while first + model.events_left <= len(y):
        length = model.events_left
        part = slice(first, first + length)
        began = time.perf_counter()
        model.predict_then_learn_many(X[part], y[part])
        one = Round(0) if workers is None else workers.last
        one.each, one.seconds = length // model.shards, time.perf_counter() - began
        if is_warm:
            found.append(one)
            first = part.stop
        else:
            is_warm = True
            model = Sharded.from_state(begin, learner=model.learner.placing, workers=model.workers)
    return found


def _seconds(rounds: Sequence[Round]) -> float:
    return sum(one.seconds for one in rounds)


def fitted(rounds: Mapping[int, Sequence[Round]], link: Link, state: float) -> Costs:
    """Return the costs of rounds by the number of workers.

    Parameters
    ----------
    rounds : mapping of int to sequence of Round
    link : Link
    state : float
        Bytes of a model.
    """
    busy, driver, sizes = [], [], []
    for count, some in rounds.items():
        own = SHARDS / count
        for one in some:
            sent = link.seconds(one.sent + one.received) + 2.0 * link.latency
            busy += [([own * one.each, own, 1.0], taken - sent) for taken in one.workers]
            driver.append(([1.0, float(count)], one.seconds - max(one.workers)))
            sizes.append((own * one.each, one.sent - state, one.received - state))
    event, shard, task = _relative(busy)
    fixed, worker = _relative(driver)
    ratios = [np.log(taken / np.dot(row, (event, shard, task))) for row, taken in busy]
    n, sent_bytes, received_bytes = np.array(sizes).sum(axis=0).tolist()
    return Costs(
        event=event,
        task=task,
        shard=shard,
        driver_round=fixed,
        driver_worker=worker,
        spread=float(np.std(ratios)),
        state=float(state),
        sent=max(0.0, sent_bytes / n),
        received=max(0.0, received_bytes / n),
    )


def _relative(found: Sequence[tuple[Sequence[float], float]]) -> tuple[float, ...]:
    """Return the coefficients, at least 0, of the least squares of relative errors."""
    A = np.array([row for row, _ in found])
    b = np.array([value for _, value in found])
    solution, _ = nnls(A / b[:, None], np.ones(len(b)))
    return tuple(solution.tolist())


def _link() -> Link:
    """Measure the pipe to another process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_echo, args=(there,), daemon=True)
    process.start()
    there.close()
    try:
        small, large = (_round_trip(here, b"x" * size) for size in (1, _ECHOED))
    finally:
        here.close()
        process.join()
    return Link(bandwidth=2 * _ECHOED / (large - small), latency=small / 2)


def _round_trip(connection: Connection, message: bytes) -> float:
    """Return the median seconds of sending a message and receiving it back."""
    seconds = []
    for _ in range(_ECHOES):
        began = time.perf_counter()
        connection.send_bytes(message)
        connection.recv_bytes()
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds[1:]))


def _echo(connection: Connection) -> None:
    try:
        while True:
            connection.send_bytes(connection.recv_bytes())
    except EOFError:
        return


def render(found: Mapping[str, Any]) -> str:
    """The constants, and seconds measured and predicted."""
    link, cases = found["link"], found["cases"]
    rows = []
    for case, one in cases.items():
        c = one["costs"]
        parts = [1e6 * c["event"]]
        parts += [1e3 * c[name] for name in ("shard", "task", "driver_worker", "driver_round")]
        rows.append(
            [
                case,
                *(f"{part:,.1f}" for part in parts),
                f"{100 * c['spread']:.0f}%",
                _mb(c["state"]),
            ]
        )
    bandwidth, latency = link["bandwidth"] / 1e9, 1e6 * link["latency"]
    head = [
        f"fitted, {bandwidth:.2f} GB/s, {latency:.0f} µs",
        "event, µs",
        "shard, ms",
        "task",
        "driver: worker",
        "round",
        "spread",
        "state",
    ]
    return f"{common.table(head, rows)}\n\n{_beside(cases)}"


def _mb(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.1f} MB"


def _beside(cases: Mapping[str, Any]) -> str:
    rows = []
    for case, one in cases.items():
        serial = one["alone"] * one["before"]
        alone = one["alone"] * one["events"]
        rows.append(
            [f"{case}, {one['events']:,} events: no shards", f"{alone:.1f}", "", "", "", ""]
        )
        for count, measured in one["measured"].items():
            predicted = one["predicted"][count]
            costs = one["costs"]
            driver = one["rounds"] * (costs["driver_round"] + int(count) * costs["driver_worker"])
            fair = int(count) in FITTED
            rows.append(
                [
                    f"  workers: {count}",
                    f"{serial + measured:.1f}",
                    f"{serial + predicted:.1f}" if fair else "",
                    f"{alone / (serial + measured):.2f}" if fair else "",
                    f"{one['driver'][count]:.2f}",
                    f"{driver:.2f}",
                ]
            )
    head = ["seconds", "measured", "predicted", "times as fast", "driver", "predicted"]
    return common.table(head, rows)
