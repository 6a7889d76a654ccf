"""A bounded part of a stream, kept with its labels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, count, reading, taken
from streamk.errors import StateError
from streamk.factorization.checks import check_choice
from streamk.features.random_features import check_seed
from streamk.state import State

Matrix = NDArray[np.float64]

BUFFERS = ("recent", "reservoir")
_OWNER = "an event buffer"
_DRAWN = 1024
"""Places that are drawn together."""


class EventBuffer:
    """The last events, or a uniform sample of all (Vitter 1985, Algorithm R).

    What is drawn is a function of the seed and an event's number alone.

    Parameters
    ----------
    kind : {"recent", "reservoir"}
    size : int
        Most events.
    seed : int, default 0

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
        if len(X) == 1 and len(self) == self.size:
            self._replace(X[0], float(y[0]))
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

    def _replace(self, x: Matrix, y: float) -> None:
        """Do `add` for an event (d,) where there is no room, in a tenth of the time."""
        number, place = self.seen, self.seen % self.size
        self.seen += 1
        if self.kind == "reservoir":
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

        Parameters
        ----------
        since : int, default 0
            Leave out those numbered below.
        until : int, optional
            And those numbered so or above; None leaves out none.
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
        header: dict[str, Any] = {
            "type": self.TYPE,
            "kind": self.kind,
            "size": self.size,
            "seed": self._seed,
            "seen": self.seen,
        }
        known = slice(0, self._count)
        names = {"X": self._X, "y": self._y, "numbers": self._numbers}
        arrays = {name: array[known].copy() for name, array in names.items()}
        return State(header, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the buffer whose state this is.

        Raises
        ------
        StateError
            If it is the state of something else, or its arrays do not fit.
        """
        header: Any = state.expect(cls.TYPE).header
        size = count(header, "size", _OWNER, least=1)
        with reading(_OWNER):
            check_choice("kind", header["kind"], BUFFERS)
            buffer = cls(header["kind"], size, check_seed(header["seed"]))
        buffer.seen = count(header, "seen", _OWNER)
        declared = (
            Declared("X", "float64", ("events", "columns")),
            Declared("y", "float64", ("events",)),
            Declared("numbers", "int64", ("events",), Domain(0, buffer.seen - 1)),
        )
        sizes = {"events": min(buffer.seen, size)}
        found, _ = taken(declared, state.arrays, sizes, _OWNER)
        buffer._X, buffer._y, buffer._numbers = (found[each.name].copy() for each in declared)
        buffer._count = len(buffer._y)
        return buffer

    def restored(self, state: State, columns: int, classes: int | None) -> Self:
        """Return the buffer of a state, which must be of the options that this one has.

        Parameters
        ----------
        state : State
        columns : int
            Those that its events must have.
        classes : int or None
            Its labels must be numbers of so many classes; None: they are any numbers.

        Raises
        ------
        StateError
            If it is not so, or as of `from_state`.
        """
        found = self.from_state(state)
        mine, others = ((one.kind, one.size, one._seed) for one in (self, found))
        if mine != others:
            raise StateError(f"kind, size and seed of {_OWNER} must be {mine}, not {others}")
        if len(found) and found._X.shape[1] != columns:
            raise StateError(
                f"array 'X' of {_OWNER} must have {columns} columns, not {found._X.shape[1]}"
            )
        fault = (
            None
            if classes is None
            else Domain(0, classes - 1, whole=True).fault(found._y[: len(found)])
        )
        if fault:
            raise StateError(f"array 'y' of {_OWNER} {fault}, and is of {classes} classes")
        return found
