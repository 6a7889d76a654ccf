"""Functions that are rebuilt in background threads, and the events they are built from."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamk.backends.memory import give_back
from streamk.backends.threads import one_blas_thread, submitted, yield_to_others
from streamk.declared import FINITE, Declared, Domain, count, reading, taken
from streamk.errors import InvalidInput, StateError, StreamkError
from streamk.state import State

T = TypeVar("T")


REPLACEMENTS, _BLOCKS = "replacement", "blocks"
"""The thread of all learners' replacements, which is busy for seconds, and that of what is soon
asked for. Of replacements there is one: what limits the threads of BLAS within one is never undone
by another."""


@cache
def _thread(name: str) -> ThreadPoolExecutor:
    """Return the one thread of that name."""
    begin = _begin_replacements if name == REPLACEMENTS else None
    return ThreadPoolExecutor(1, thread_name_prefix=f"streamk-{name}", initializer=begin)


def _begin_replacements() -> None:
    """Have this thread yield to that of events and that of blocks, where they share few cores.

    Now loops have been loaded and pools have grown: what that has left goes back to the system.
    """
    give_back()
    begun(_BLOCKS, int)  # or that thread would be begun by this one, and yield as it does
    yield_to_others()


# A forked process has no such thread, and would wait for it for ever.
os.register_at_fork(after_in_child=_thread.cache_clear)


def begun(thread: str, work: Callable[[], T]) -> Future[T]:
    """Return the future of work in the thread of a name."""
    return submitted(_thread(thread), lambda: _alone(work))


def _alone(work: Callable[[], T]) -> T:
    with one_blas_thread():
        return work()


class Background(Generic[T]):
    """Work in progress in a background thread.

    It depends on nothing that changes meanwhile, and may be called again in a forked process.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work, self._process = work, os.getpid()
        self._future = begun(_BLOCKS, work)

    def result(self) -> T:
        """Wait for the result and return it, or raise the error of the work.

        A forked process, which has no such thread, does the work now.
        """
        if os.getpid() != self._process:
            return self._work()
        return self._future.result()


class Learns(Protocol):
    """A function that learns events, given as arrays of one row for each."""

    @property
    def learn(self) -> Callable[..., Any]:
        """Learns from events, one after the other, in whatever batches they come."""

    def state(self) -> State:
        """Everything needed to go on exactly from here."""


F = TypeVar("F", bound=Learns)


_TOGETHER = 32
"""Single events that are handed over to a function at a time."""


class Replacement(Generic[F]):
    """A function that is built in the background and learns the events of the meantime there.

    It takes over after an event. What makes it depends on nothing that changes meanwhile, and is
    called again in a forked process, which does all of the work itself.
    """

    def __init__(self, at: int, make: Callable[[], F]) -> None:
        self.at = at
        self._make, self._process = make, os.getpid()
        self._steps: list[Callable[[F], Any]] = []
        """All that has followed, for a forked process."""
        self._future = self._before = begun(REPLACEMENTS, make)
        self._events: deque[tuple[NDArray[Any], ...]] | None = None
        self._held: list[tuple[NDArray[Any], ...]] = []
        """Events that are not handed over yet."""

    @classmethod
    def of(cls, data: Any, clock: int, make: Callable[[], F], owner: str) -> Replacement[F]:
        """Return the result or failure recorded in a state, after so many events.

        The data are those of `saved`. What makes the function out of the state is asked if it had
        not failed. If the data do not fit, StateError is raised.
        """
        with reading(owner):
            at, failure = count(data, "at", owner), data["failure"]
        if at <= clock or not (failure is None or isinstance(failure, str)):
            raise StateError(
                f"{owner} must have an 'at' above {clock}, and a text or nothing as 'failure', "
                f"not {data!r}"
            )
        made = [] if failure is not None else [make()]

        def again() -> F:
            if failure is not None:
                raise InvalidInput(failure)
            return made.pop() if made else make()

        return cls(at, again)

    def saved(self, parts: dict[str, State]) -> dict[str, Any]:
        """Return the data that `of` takes; the function's state goes among the parts as "next".

        It must be there, or have failed, see `wait`.
        """
        failure = self.failure
        if failure is None:
            parts["next"] = self.result().state()
        return {"at": self.at, "failure": failure and str(failure)}

    def then(self, follow: Callable[[F], Any]) -> None:
        """Apply a change to the function, as soon as it is there."""
        self._hand_over()
        self._events = None
        self._steps.append(follow)
        self._follow(follow)

    def learn(self, *arrays: NDArray[Any]) -> None:
        """Have the function learn events, as its own `learn` takes them.

        Those that are waiting when it comes to them are learned together, which changes no bit and
        asks for the interpreter less often: the thread that goes on meanwhile has it most of the
        time.
        """
        self._renew()
        self._steps.append(lambda function: function.learn(*arrays))
        self._held.append(arrays)
        if len(arrays[0]) > 1 or len(self._held) == _TOGETHER:
            self._hand_over()

    def _hand_over(self) -> None:
        """Have the function learn the events that are held."""
        self._renew()
        if not self._held:
            return
        if self._events is None:
            self._events = deque()
        events = self._events
        events.extend(self._held)
        self._held.clear()

        def learn(function: F) -> None:
            waiting = [events.popleft() for _ in range(len(events))]
            if waiting:
                function.learn(*map(np.concatenate, zip(*waiting, strict=True)))

        self._follow(learn)

    def _follow(self, follow: Callable[[F], Any]) -> None:
        self._before = before = self._future

        def work() -> F:
            function = before.result()
            follow(function)
            return function

        self._future = begun(REPLACEMENTS, work)

    def _renew(self) -> None:
        """Begin all of the work anew in a forked process, in which no thread does it."""
        if os.getpid() == self._process:
            return
        steps = tuple(self._steps)

        def work() -> F:
            function = self._make()
            for step in steps:
                step(function)
            return function

        self._process, self._events, self._held = os.getpid(), None, []
        self._future = self._before = begun(REPLACEMENTS, work)

    @property
    def late(self) -> bool:
        """True if more is left to be done than to follow what happened last."""
        self._hand_over()
        return not self._before.done()

    def wait(self) -> float:
        """Wait until it is there, or has failed, and return for how many seconds."""
        self._hand_over()
        began = time.perf_counter()
        self._future.exception()
        return time.perf_counter() - began

    def result(self) -> F:
        """Return the function; raise what its making, or a prediction that overflowed, raised."""
        self._hand_over()
        return self._future.result()

    @property
    def failure(self) -> StreamkError | None:
        """The error of the background thread; None without one."""
        self._hand_over()
        found = self._future.exception()
        if found is not None and not isinstance(found, StreamkError):
            raise found
        return found


Matrix = NDArray[np.float64]

_OWNER = "an event buffer"
_DRAWN = 1024
"""Places that are drawn together."""


class EventBuffer:
    """The last events ("recent"), or a uniform sample of all ("reservoir"), of some size.

    The sample is that of Vitter 1985, Algorithm R. What is drawn is a function of the seed and an
    event's number alone.

    Examples
    --------
    >>> buffer = EventBuffer("recent", 2)
    >>> buffer.add(np.array([[1.0], [2.0], [3.0]]), np.array([10.0, 20.0, 30.0]))
    >>> [part.tolist() for part in buffer.events()]
    [[[2.0], [3.0]], [20.0, 30.0]]
    """

    TYPE = "event-buffer"

    def __init__(self, kind: str, size: int, seed: int = 0) -> None:
        self.kind, self.size, self._seed = kind, size, seed
        self.seen: int = 0
        self._count: int = 0
        self._X: Matrix = np.zeros((0, 0))
        self._y: Matrix = np.zeros(0)
        self._numbers = np.zeros(0, np.int64)
        self._block, self._draws = -1, np.zeros(0)
        """Of the reservoir: the block of draws that was drawn last, which stand for its events."""

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory of the events that it has, in bytes."""
        return int(self._count * (8 * self._X.shape[1] + 16))

    def add(self, X: Matrix, y: Matrix) -> None:
        """Take events X (n, d) with labels y (n,), each in its turn."""
        if len(X) == 1 and (self._count < len(self._y) or self._count == self.size):
            self._put(X[0], float(y[0]))
            return
        room = max(0, min(len(X), self.size - len(self)))
        numbers = np.arange(self.seen, self.seen + len(X))
        self.seen += len(X)
        if room:
            self._make_room(len(self) + room, X.shape[1])
            new = slice(len(self), len(self) + room)
            self._X[new], self._y[new], self._numbers[new] = X[:room], y[:room], numbers[:room]
            self._count += room
        if room < len(X):
            numbers = numbers[room:]
            places = self._places(numbers)
            taken = places < self.size
            # Of several for one place the last stays, as if they had come one by one.
            last = dict(zip(places[taken].tolist(), np.flatnonzero(taken).tolist(), strict=True))
            to, rows = list(last), np.array(list(last.values()), np.int64)
            self._X[to], self._y[to] = X[room + rows], y[room + rows]
            self._numbers[to] = numbers[rows]

    def _put(self, x: Matrix, y: float) -> None:
        """Do `add` for an event (d,) for which there is an array, in a tenth of the time."""
        number, place = self.seen, self._count
        self.seen += 1
        if place < self.size:
            self._count += 1
        elif self.kind == "recent":
            place = number % self.size
        else:
            place = int(self._drawn(number // _DRAWN)[number % _DRAWN] * (number + 1))
        if place < self.size:
            self._X[place], self._y[place], self._numbers[place] = x, y, number

    def _make_room(self, count: int, columns: int) -> None:
        """Have arrays for so many events; they double, up to the size."""
        if count <= len(self._y):
            return
        known, rows = slice(0, self._count), min(max(count, 2 * self._count), self.size)
        grown = np.zeros((rows, columns)), np.zeros(rows), np.zeros(rows, np.int64)
        for array, before in zip(grown, (self._X, self._y, self._numbers), strict=True):
            if self._count:
                array[known] = before[known]
        self._X, self._y, self._numbers = grown

    def _places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where events go, a place beyond the size being nowhere."""
        if self.kind == "recent":
            return numbers % self.size
        blocks = range(int(numbers[0]) // _DRAWN, int(numbers[-1]) // _DRAWN + 1)
        first = int(numbers[0]) % _DRAWN
        draws = np.concatenate([self._drawn(block) for block in blocks])
        return np.asarray(draws[first : first + len(numbers)] * (numbers + 1)).astype(np.int64)

    def _drawn(self, block: int) -> Matrix:
        """Return the draws of a block of events, from 0 to 1."""
        if block != self._block:
            seed = np.random.SeedSequence([self._seed, block])
            self._draws = np.random.Generator(np.random.Philox(seed)).random(_DRAWN)
            self._block = block
        return self._draws

    def events(self, since: int = 0, until: int | None = None) -> tuple[Matrix, Matrix]:
        """Return copies of the events (n, d) and their labels (n,), in the order they came in.

        Those numbered below `since` are left out, and those numbered `until` or above.
        """
        numbers = self._numbers[: self._count]
        order = np.argsort(numbers)
        order = order[numbers[order] >= since]
        if until is not None:
            order = order[numbers[order] < until]
        return self._X[order], self._y[order]

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        if len(self):
            self._X = np.pad(self._X, ((0, 0), (0, count)))

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        known = slice(0, self._count)
        names = {"X": self._X, "y": self._y, "numbers": self._numbers}
        arrays = {name: array[known].copy() for name, array in names.items()}
        return State({"type": self.TYPE, "seen": self.seen}, arrays)

    def restored(self, state: State, columns: int, classes: int | None) -> Self:
        """Return the buffer of a state, with the options of this one, or raise StateError.

        It has so many columns. Labels are numbers of so many classes, or any if that is None.
        """
        buffer = type(self)(self.kind, self.size, self._seed)
        buffer.seen = count(state.expect(self.TYPE).header, "seen", _OWNER)
        labels = FINITE if classes is None else Domain(0, classes - 1, whole=True)
        declared = (
            Declared("X", "float64", ("events", "columns")),
            Declared("y", "float64", ("events",), labels),
            Declared("numbers", "int64", ("events",), Domain(0, buffer.seen - 1)),
        )
        sizes = {"events": min(buffer.seen, self.size)}
        if buffer.seen:
            sizes["columns"] = columns
        found, _ = taken(declared, state.arrays, sizes, _OWNER)
        buffer._X, buffer._y, buffer._numbers = (found[each.name].copy() for each in declared)
        buffer._count = len(buffer._y)
        return buffer
