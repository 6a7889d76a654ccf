"""One model that learns in rounds; the events of a round are divided among shards."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import errors
from streamk.distributed.actors import Actors, Closing, one_thread_each
from streamk.distributed.replicas import Answer, Outcome, ShardBatch, Task, merging, reduced, work
from streamk.distributed.sharded import MOST_SHARDS
from streamk.errors import InvalidInput, StreamkError, WorkerLost
from streamk.landmarks.selection import check_count
from streamk.learners.common.base import Learner
from streamk.learners.common.prequential import Followed, Prequential, joined_by_class, nothing
from streamk.learners.registry import from_state
from streamk.options import Whole
from streamk.packing import pack, unpack
from streamk.state import State

Arrays = dict[str, NDArray[Any]]
Message: TypeAlias = bytes | memoryview
"""A task, or what came of it."""
_WHERE = Path("a message of a worker")


def answered(message: Message) -> bytes:
    """Do the task of a message, and return the result or the error as a message.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.distributed.replicas import ShardBatch
    >>> from streamk.learners import create
    >>> state = create("kernel-ridge", task="regression").state()
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> task = Task(state, {}, 2, (1, 2), {1: ShardBatch(X, [1.0, 2.0, np.inf])})
    >>> outcome(answered(task_message(task)))
    Traceback (most recent call last):
        ...
    streamk.errors.InvalidInput: shard 1: the label of row 2 is inf; drop the event
    """
    try:
        return _outcome_message(work(_task(message)))
    except StreamkError as error:
        return _joined({"error": [type(error).__name__, str(error)]}, {})
    except Exception:
        return _joined({"fault": traceback.format_exc()}, {})


def task_message(task: Task) -> bytes:
    """Return a task as bytes; its batches are arrays and lists of plain labels."""
    arrays: Arrays = {}
    header: dict[str, Any] = {
        "state": _put(arrays, "state", task.state),
        "placing": dict(task.placing),
        "shards": task.shards,
        "within": task.within,
        "batches": [],
        "begun": [(n, _put(arrays, f"begun-{n}", state)) for n, state in task.begun.items()],
        "merges": task.merges,
    }
    for shard, (X, y, columns) in task.batches.items():
        arrays[f"X.{shard}"] = np.asarray(X)
        names = None if columns is None else list(columns)
        header["batches"].append((shard, _put_column(arrays, f"y.{shard}", y), names))
    return _joined(header, arrays)


def _task(message: Message) -> Task:
    header, arrays = _parted(message)
    first, stop = header["within"]
    return Task(
        _get(arrays, "state", header["state"]),
        header["placing"],
        header["shards"],
        (first, stop),
        {
            shard: ShardBatch(arrays[f"X.{shard}"], _column(arrays, f"y.{shard}", y), names)
            for shard, y, names in header["batches"]
        },
        {shard: _get(arrays, f"begun-{shard}", state) for shard, state in header["begun"]},
        header["merges"],
    )


def _outcome_message(found: Outcome) -> bytes:
    arrays: Arrays = {}
    answers = []
    for shard, ((predictions, probabilities), classes, n_events) in found.answers.items():
        said = _put_column(arrays, f"predictions.{shard}", predictions)
        answers.append((shard, said, list(classes), n_events))
        if probabilities is not None:
            arrays[f"probabilities.{shard}"] = probabilities
    states = [
        (span, _put(arrays, f"state-{n}", state))
        for n, (span, state) in enumerate(found.states.items())
    ]
    return _joined({"answers": answers, "states": states}, arrays)


def outcome(message: Message) -> Outcome:
    """Return the result of a worker.

    Raises
    ------
    StreamkError
        The error that the worker met.
    RuntimeError
        If it met a fault of the program; the message has the worker's traceback.
    """
    header, arrays = _parted(message)
    if "error" in header:
        kind, text = header["error"]
        raise getattr(errors, kind, StreamkError)(text)
    if "fault" in header:
        raise RuntimeError(f"a worker failed by a bug in the program:\n{header['fault']}")
    found = Outcome()
    for shard, said, classes, n_events in header["answers"]:
        predictions = _column(arrays, f"predictions.{shard}", said)
        if said is not None:
            predictions = np.empty(len(said), object)
            predictions[:] = said
        prequential = Prequential(predictions, arrays.get(f"probabilities.{shard}"))
        found.answers[shard] = Answer(prequential, tuple(classes), n_events)
    for n, ((first, stop), state) in enumerate(header["states"]):
        found.states[(first, stop)] = _get(arrays, f"state-{n}", state)
    return found


def _put(arrays: Arrays, name: str, state: State) -> Any:
    """Add the arrays of a state under a name; return its header."""
    arrays.update({f"{name}/{own}": array for own, array in state.arrays.items()})
    return state.header


def _get(arrays: Arrays, name: str, header: Any) -> State:
    prefix = f"{name}/"
    own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
    return State(header, own)


def _put_column(arrays: Arrays, name: str, column: Any) -> list[Any] | None:
    """Add a column of numbers under a name, and return None; return any other as a list."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        arrays[name] = column
        return None
    return list(column)


def _column(arrays: Arrays, name: str, column: list[Any] | None) -> Any:
    return arrays[name] if column is None else column


def _joined(header: Any, arrays: Arrays) -> bytes:
    text = json.dumps(header).encode()  # NaN among labels is for the learner to refuse
    return b"".join([len(text).to_bytes(8, "little"), text, pack(arrays)])


def _parted(message: Message) -> tuple[Any, Arrays]:
    view = memoryview(message)  # whose parts are not copies
    end = 8 + int.from_bytes(view[:8], "little")
    return json.loads(bytes(view[8:end])), unpack(view[end:], _WHERE)


class MessageWorkers(Protocol):
    """Workers that each do a part of a task."""

    def __len__(self) -> int: ...

    def answer(self, place: int, message: bytes) -> Message:
        """Have one worker make `streamk.distributed.rounds.answered` of a message.

        Another thread may wait for another worker meanwhile.
        """

    def close(self) -> None:
        """Free the resources of the workers."""


class TaskDivision(Closing):
    """Workers that do a task together, each for some of its shards; they are closed with it."""

    def __init__(self, workers: MessageWorkers) -> None:
        self._workers = workers
        self._lock, self._is_closed = threading.Lock(), False
        # One thread for each: who is done with its part of a task begins with the next one's.
        self._threads = [ThreadPoolExecutor(1) for _ in range(len(workers))]

    def __len__(self) -> int:
        return len(self._workers)

    def begin(self, task: Task) -> Callable[[], Outcome]:
        """Have the workers begin a task, after all earlier ones.

        What is returned waits for the task, and returns what `streamk.distributed.replicas.work`
        does.

        Raises
        ------
        InvalidInput
            If the workers are closed; from the callable, if they are closed before the task is
            done, or if the events of a shard cannot be used, naming the shard.
        WorkerLost
            From the callable, if a worker dies too often.
        """
        first, stop = task.within
        count = len(self._workers)
        bounds = [first + (stop - first) * n // count for n in range(count + 1)]
        parts = [
            replace(
                task,
                within=(a, b),
                batches={shard: batch for shard, batch in task.batches.items() if a <= shard < b},
                begun={shard: state for shard, state in task.begun.items() if a <= shard < b},
            )
            for a, b in itertools.pairwise(bounds)
        ]
        with self._lock:  # all parts are begun, or none
            self._check_open()
            waiting = [
                thread.submit(self._done, place, part)
                for place, (thread, part) in enumerate(zip(self._threads, parts, strict=True))
            ]

        def whole() -> Outcome:
            wait(waiting)  # so that after an error no worker is at this task any more
            found = Outcome()
            for one in waiting:
                found.answers.update(one.result().answers)
                found.states.update(one.result().states)
            return found

        return whole

    def close(self) -> None:
        """Free the workers; tasks that are not done end with an error."""
        with self._lock:
            self._is_closed = True
        self._workers.close()
        for thread in self._threads:
            thread.shutdown()  # `wait` would wait forever for what is cancelled in a queue

    def _check_open(self) -> None:
        if self._is_closed:
            raise InvalidInput("the workers are closed; start new ones")

    def _done(self, place: int, part: Task) -> Outcome:
        self._check_open()
        return outcome(self._workers.answer(place, task_message(part)))


_SIZE = 8
"""Bytes of the size of a message."""


class Processes(Closing):
    """Processes that each do one task of a round.

    A process knows nothing but the task that it is sent. One that dies is replaced by another,
    which is sent the task again, so the result is the same. They live until `close`, or the end of
    a ``with`` statement, and end with the process that started them. Each takes one thread, unless
    `OMP_NUM_THREADS` or a variable of one library, such as `NUMBA_NUM_THREADS`, says otherwise.

    Parameters
    ----------
    count : int
        Processes.
    max_restarts : int, default 3
        Times that each of them is replaced before it answers again.

    Raises
    ------
    InvalidInput
        If there are none, or `max_restarts` is negative.

    Attributes
    ----------
    restarts : int
        Processes that were replaced so far.

    Examples
    --------
    >>> Processes(0)
    Traceback (most recent call last):
        ...
    streamk.errors.InvalidInput: count=0 must be a whole number of at least 1
    """

    def __init__(self, count: int, *, max_restarts: int = 3) -> None:
        check_count("count", count)
        check_count("max_restarts", max_restarts, least=0)
        # A fork would copy locks that other threads hold, and the state of compiled loops.
        self._context = multiprocessing.get_context("spawn")
        self._max_restarts = max_restarts
        self._deaths = [0] * count
        self.restarts = 0
        self._lock, self._is_closed = threading.Lock(), False
        self._workers: list[tuple[Any, socket.socket]] = []
        try:
            for _ in range(count):
                self._workers.append(self._start())
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._deaths)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [process.pid for process, _ in self._workers]

    def answer(self, place: int, message: bytes) -> Message:
        """Return a process's answer to a message; threads may wait for several at once.

        Raises `WorkerLost` if the process and those in its place die more often than
        `max_restarts`, and `InvalidInput` if the processes are closed.
        """
        while True:
            with self._lock:
                if self._is_closed:
                    raise InvalidInput("the processes are closed; start new ones")
                connection = self._workers[place][1]
            with contextlib.suppress(EOFError, OSError):
                _send(connection, message)
                found = _received(connection)
                self._deaths[place] = 0
                return found
            self._replace(place)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._is_closed = True
            for process, _ in self._workers:
                process.kill()
                process.join()
                process.close()
            self._workers = []  # a connection is closed when no thread waits for it any more

    def _start(self) -> tuple[Any, socket.socket]:
        here, there = socket.socketpair()
        process = self._context.Process(target=_serve, args=(there,), daemon=True)
        limits = one_thread_each(os.environ)  # which libraries read when they are imported
        os.environ.update(limits)
        try:
            process.start()
        finally:
            for name in limits:
                del os.environ[name]
        there.close()  # else its end would not be seen here
        return process, here

    def _replace(self, place: int) -> None:
        """Start another process in place of one that died."""
        with self._lock:
            if self._is_closed:
                return
            process, connection = self._workers[place]
            connection.close()
            process.kill()
            process.join()
            status = process.exitcode
            if self._deaths[place] == self._max_restarts:
                raise WorkerLost(
                    f"process {place} of {len(self)} died and was replaced "
                    f"{self._max_restarts} times without an answer, as often as max_restarts "
                    f"allows; the last time with exit status {status}"
                )
            self._deaths[place] += 1
            self.restarts += 1
            process.close()
            self._workers[place] = self._start()


def _serve(connection: socket.socket) -> None:
    """Do the tasks that come, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends its processes by itself
    with contextlib.suppress(EOFError, OSError):
        while True:
            _send(connection, answered(_received(connection)))


def _send(connection: socket.socket, message: bytes) -> None:
    """Send a message, its size before it."""
    connection.sendall(len(message).to_bytes(_SIZE, "little"))
    connection.sendall(message)


def _received(connection: socket.socket) -> memoryview:
    """Return the next message. Raises `EOFError` if the other end is closed."""
    return _filled(connection, int.from_bytes(_filled(connection, _SIZE), "little"))


def _filled(connection: socket.socket, size: int) -> memoryview:
    # Read into one place: a connection of multiprocessing makes room for all that is missing at
    # each read, by which 50 MB take five times as long.
    whole = np.empty(size, np.uint8).data
    rest = whole
    while rest:
        n = connection.recv_into(rest)
        if not n:
            raise EOFError
        rest = rest[n:]
    return whole


class RayWorkers(Actors):
    """Ray actors that each do one task of a round.

    An actor knows nothing but the task that it is sent. One that dies, as with its machine, is
    replaced by another anywhere in the cluster, which is sent the task again, so the result is the
    same. `ray.init` comes before. They live until `close`, or the end of a ``with`` statement. Each
    takes one thread, unless `OMP_NUM_THREADS` or a variable of one library, such as
    `NUMBA_NUM_THREADS`, is set here, or among the ``env_vars`` of Ray's option `runtime_env`.

    Parameters
    ----------
    count : int
        Actors.
    options : mapping, optional
        Ray's options of the actors, ``{"num_cpus": 1}`` by default; ``{"num_gpus": 1}`` where the
        model computes on a GPU.
    max_restarts : int, default 3
        Times that each of them is replaced before it answers again.

    Raises
    ------
    InvalidInput
        If there are none.
    BackendUnavailable
        If Ray is not installed.
    """

    def __init__(
        self, count: int, *, options: Mapping[str, Any] | None = None, max_restarts: int = 3
    ) -> None:
        check_count("count", count)
        chosen: Mapping[str, Any] = {"num_cpus": 1} if options is None else options
        given = chosen.get("runtime_env", {})
        variables = given.get("env_vars", {})
        variables = {**one_thread_each({**os.environ, **variables}), **variables}
        limited = {**chosen, "runtime_env": {**given, "env_vars": variables}}
        super().__init__(_Worker, [()] * count, options=limited, max_restarts=max_restarts)

    def answer(self, place: int, message: bytes) -> bytes:
        """Return an actor's answer to a message; threads may wait for several at once.

        Raises `WorkerLost` if the actor dies more often than `max_restarts`, and `InvalidInput` if
        the actors are closed.
        """
        if self._is_closed:
            raise InvalidInput("the actors are closed; start new ones")
        found: bytes = self.ask_one(place, "answer", (message,))
        return found

    def _restore(self, s: int, worker: Any) -> None:
        """Tell a new worker nothing: a task has all that it needs."""


class _Worker:
    def answer(self, message: bytes) -> bytes:
        return answered(message)


Events: TypeAlias = (
    "ShardBatch | tuple[ArrayLike, Sequence[Any] | NDArray[Any]] "
    "| tuple[ArrayLike, Sequence[Any] | NDArray[Any], Sequence[Any] | None] | None"
)
"""Of one shard: those of a `ShardBatch`, or None for no events."""


class Rounds(Closing):
    """A model that learns from several shards of a stream at once, in rounds.

    Every shard begins a round with a replica of the model. It predicts its events one by one and
    learns each after its prediction. At the end of the round the replicas of the shards that
    learned something are merged, by `streamk.learners.Learner.merge`, in a fixed binary tree over
    the shards, and what comes of it is the model of the next round. Columns and classes that are
    new come in the order of the shards.

    What is learned depends on the model, the number of shards and their events alone: predictions
    and states are the same bits for any number of workers, and after a worker's death. A shard does
    not know what the others learn in the same round, so the more events a round has, the older is
    what its predictions go by. Predictions whose labels come in a later round are not remembered:
    such an event is learned as if it had been predicted just then.

    Parameters
    ----------
    model : Learner or State
        It stays as it is. A new one of many kernels is learned without the external expert that it
        has by default, as in `streamk.distributed.Sharded`.
    shards : int, default 16
        Up to 4096.
    workers : int or MessageWorkers, default 1
        1 for this process alone, more for so many processes of this machine; or workers of another
        kind, which are closed with this object.

    Attributes
    ----------
    model : Learner
        The model after the last round: another object each time, not to be changed.
    n_rounds : int
        Rounds so far.

    Raises
    ------
    InvalidInput
        If there are no shards, or not from 1 worker to as many as there are shards.
    StateError
        If no learner has such a state.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import create
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] > 0.0, "right", "left")
    >>> rounds = Rounds(create("doubly-stochastic", task="classification"), shards=4)
    >>> for first in range(0, 400, 80):
    ...     some = [slice(n, n + 20) for n in range(first, first + 80, 20)]
    ...     answers = rounds.round([(X[part], y[part]) for part in some])
    >>> rounds.model.n_events, len(answers), answers[0].predictions.shape
    (400, 4, (20,))
    >>> bool(np.mean(answers[3].predictions == y[some[3]]) > 0.8)
    True
    """

    def __init__(
        self, model: Learner | State, *, shards: int = 16, workers: int | MessageWorkers = 1
    ) -> None:
        Whole(most=MOST_SHARDS).check("shards", shards)
        self.shards = shards
        self._placing: dict[str, Any] = {}
        if isinstance(model, State):
            self._state = model
        else:
            learner = model.for_shards()
            self._state, self._placing = learner.state(), learner.placing
        self.model = from_state(self._state, **self._placing)
        self.n_rounds = 0
        self._workers: TaskDivision | None = None
        count = workers if isinstance(workers, int) else len(workers)
        Whole(most=shards).check("workers", count)
        if not isinstance(workers, int):
            self._workers = TaskDivision(workers)
        elif workers > 1:
            self._workers = TaskDivision(Processes(workers))

    def state(self) -> State:
        """Return the state of the model after the last round."""
        return self._state

    def round(self, batches: Sequence[Events]) -> list[Prequential]:
        """Have each shard predict its events in turn and learn them; merge what they learned.

        Parameters
        ----------
        batches : sequence of ShardBatch, (X, y) or None
            One for each shard, of as many events as one likes: X of shape (n, d), n labels, None
            where one is not known, and, if they are not those of the model, names of the columns.

        Returns
        -------
        list of Prequential
            For each shard, with the probabilities of all classes known after the round, in their
            order; NaN where the shard did not know a class.

        Raises
        ------
        InvalidInput
            If there is not one batch for each shard, or the events of one cannot be used, naming
            the shard. Then nothing is learned.
        WorkerLost
            If a worker dies too often. Then nothing is learned.
        """
        given = self._checked(batches)
        task = Task(self._state, self._placing, self.shards, (0, self.shards), given)
        found = work(task) if self._workers is None else self._workers.begin(task)()
        spans = {span: from_state(state, **self._placing) for span, state in found.states.items()}
        merge = merging(self.model.n_events, lambda: self.model)
        merged = reduced((0, self.shards), spans.get, lambda _: None, merge)
        if merged is not None:
            self._state = merged.state()
            self.model = from_state(self._state, **self._placing)
        self.n_rounds += 1
        return [self._answer(found.answers.get(shard)) for shard in range(self.shards)]

    def close(self) -> None:
        """End the workers; the model stays."""
        if self._workers is not None:
            self._workers.close()

    def _checked(self, batches: Sequence[Events]) -> dict[int, ShardBatch]:
        """Return the batches of the shards that have events."""
        if len(batches) != self.shards:
            raise InvalidInput(
                f"{len(batches)} batches came for {self.shards} shards; give one for each, None "
                "for a shard without events"
            )
        found = {}
        widths = set() if self.model.columns is None else {len(self.model.columns)}
        for shard, batch in enumerate(batches):
            if batch is None:
                continue
            plain = _plain(shard, ShardBatch(*batch))
            if not len(np.asarray(plain.X)):
                continue
            if plain.columns is None:
                widths.add(np.asarray(plain.X).shape[1])
            if len(widths) > 1:
                raise InvalidInput(
                    f"shard {shard}: events have {np.asarray(plain.X).shape[1]} columns, but the "
                    f"model or another shard has {min(widths)} or {max(widths)}; give all events "
                    "the same columns, or pass the columns' names with each batch"
                )
            found[shard] = plain
        return found

    def _answer(self, found: Answer | None) -> Prequential:
        """Return the predictions of a shard with probabilities of the model's classes."""
        if found is None:
            return nothing(self.model, 0)
        some = Followed(found.prequential, found.classes)
        return joined_by_class([some], self.model.classes if self.model.is_classifier else None)


def _plain(shard: int, batch: ShardBatch) -> ShardBatch:
    """Return a batch as an array of numbers, and an array of numbers or a list of plain labels."""
    X, y = np.asarray(batch.X), batch.y
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InvalidInput(
            f"shard {shard}: events must be numbers of shape (n, columns), not "
            f"{X.dtype} of shape {X.shape}"
        )
    if isinstance(y, np.ndarray) and y.dtype.kind in "biuf":
        return ShardBatch(X, y, batch.columns)
    labels = [label.item() if isinstance(label, np.generic) else label for label in y]
    for row, label in enumerate(labels):
        if not isinstance(label, str | int | float | None):
            raise InvalidInput(
                f"shard {shard}: row {row}: label {label!r} is a {type(label).__name__}; labels "
                "are str, int, bool, numbers or None"
            )
    return ShardBatch(X, labels, batch.columns)
