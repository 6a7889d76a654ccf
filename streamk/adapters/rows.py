"""From events with weights to the rows of an array that a learner takes."""

from __future__ import annotations

import math
import struct
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamk import learners
from streamk.encoding import ColumnTable, Kind, Name, Rejected, Schema, flatten
from streamk.encoding.columns import Event
from streamk.encoding.values import SAFE
from streamk.errors import InvalidInput
from streamk.learners import Learner
from streamk.learners.explaining import Fields, report
from streamk.learners.remembering import check_entities, remembering
from streamk.options import Real

Numbers = NDArray[np.float64]
Found = TypeVar("Found")


def read_fields(
    x: Mapping[Hashable, Any],
    read: Callable[[Mapping[Name, Any]], Found],
    ignore: tuple[Name, ...] = (),
) -> Found:
    """Apply a function to the fields of an event; names of nested fields have dots.

    An unusable value raises `InvalidInput`, which names it.
    """
    if not hasattr(x, "items"):
        raise InvalidInput(f"an event must be a dict of columns, not {x!r:.60}")
    try:
        return read(flatten(x, ignore))
    except Rejected as rejected:
        raise InvalidInput(rejected.reason.partition(": ")[2]) from None


def in_order(made: Any) -> bool:
    """Return whether an estimator learns events in their order: it names entities, or a time."""
    return bool(getattr(made, "entities", None)) or getattr(made, "time", None) is not None


class Model:
    """A learner that is fed dicts and columns of frames, and the columns it has met.

    `streamk.encoding.columns` has the rules by which values become columns. Copies and pickles go
    through the learner's state. The lock is the learner's, where it has one. Hold it from
    reading events until they are predicted or learned: another thread's would take the same array,
    or bring columns.
    """

    def __init__(self, learner: Learner, schema: Schema | None = None) -> None:
        self.learner = learner
        self.left: dict[Hashable, float] = {}
        """The rest of weights, by label, see `carried`."""
        self.lock: threading.RLock = getattr(learner, "lock", None) or threading.RLock()
        self._table = ColumnTable(Schema(max_columns=sys.maxsize) if schema is None else schema)
        self._fields = Fields()
        self._has_spans = False
        """Some fields hold NumPy's durations, of which the fast way would take the nanoseconds."""
        self._lay_out()

    @classmethod
    def of(cls, made: Any, learner: Any) -> Self:
        """Return the model of an estimator, which knows entities or times if that names some."""
        entities, given = getattr(made, "entities", None), dict[str, Any]()
        if hasattr(made, "entities"):
            given = {name: getattr(made, name) for name in ("time", "spans", "max_entities")}
            check_entities(entities, **given)
        if not in_order(made):
            return cls(learner)
        entities = entities or ()
        kinds: dict[Name, Kind] = dict.fromkeys(entities, "entity")
        kinds |= {} if made.time is None else {made.time: "clock"}
        schema = Schema(kinds=kinds, max_columns=sys.maxsize)
        return cls(remembering(learner, entities, **given), schema)

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            return {
                "learner": self.learner.state(),
                "schema": self._table.schema.to_json(),
                "left": self.left,
                "spans": self._has_spans,
            }

    def __setstate__(self, saved: dict[str, Any]) -> None:
        learner = learners.from_state(saved["learner"])
        Model.__init__(self, learner, Schema.from_json(saved["schema"]))
        self.left = dict(saved["left"])
        self._has_spans = saved["spans"]
        self._lay_out()

    def owners(self, names: Sequence[Hashable]) -> list[int]:
        """Return the place among `names` of each column's field.

        These are the fields of all events that were learned, before nested ones became several.
        """
        schema = self._table.schema
        places = {name: place for place, name in enumerate(flatten(dict.fromkeys(names)))}
        found = []
        for column in schema.columns:
            field = schema.owner(column)
            while field and field not in places:  # of a nested one
                field = str(field).rpartition(".")[0]
            found.append(places[field])
        return found

    def _lay_out(self) -> None:
        """Prepare the fast way, for events that have every column and only numbers."""
        names = tuple(self._table.places)
        self._row = np.zeros(len(names))
        self._bytes = self._row.data.cast("B") if names else memoryview(bytearray())
        self._pack = struct.Struct(f"{len(names)}d").pack
        plain = len(self._table.numbers) == len(names) and not self._has_spans
        # With a single name itemgetter gives no tuple.
        self._get = itemgetter(*names) if len(names) > 1 and plain else None

    def row(self, x: Mapping[Hashable, Any], labels: Sequence[Any] | None = None) -> Numbers:
        """Return an event as an array of shape (columns,), which the next call overwrites.

        If it is learned, it has one label: its columns that are new come now, if neither it
        nor its label is refused. The lock is held.
        """
        if self._get is not None and isinstance(x, dict) and len(x) == len(self._row):
            try:
                numbers = self._get(x)
                self._bytes[:] = self._pack(*numbers)
                size = math.hypot(*numbers)
                if size < SAFE or (size != size and not (np.abs(self._row) >= SAFE).any()):
                    return self._row
                # one that is infinite, or a whole number that has lost digits
            except (KeyError, OverflowError, TypeError, struct.error):
                pass  # another column, a text, None or a number past the range of floats
        event = self._read(x)
        if labels is not None:
            self._append_columns(event, labels[0])
        return self._table.row(event)

    def report(self, x: Mapping[Hashable, Any], row: Numbers) -> str:
        """Return the report on an event and its row, by `streamk.learners.explaining`."""
        self._fields.follow(self._table.schema, self.learner.explained.columns or ())
        return report(self.learner, self._fields, row, flatten(x, self._table.schema.ignore))

    def rows(self, events: Sequence[Mapping[Hashable, Any]]) -> Numbers:
        """Return the events to predict as an array of shape (events, columns)."""
        with self.lock:
            rows = np.zeros((len(events), len(self._table)))
            for row, x in zip(rows, events, strict=True):
                row[:] = self.row(x)
        return rows

    def rows_of_columns(self, names: Sequence[Hashable], numbers: Numbers) -> Numbers | None:
        """Return events that came as named columns of an array, None unless all are in order.

        That is, unless all columns are known and given, and no number asks for a closer look.
        """
        places = self._table.numbers
        known = [places.get(name) for name in names]  # type: ignore[call-overload]
        if None in known or len(known) < len(self._table) or (np.abs(numbers) >= SAFE).any():
            return None
        rows = np.empty((len(numbers), len(known)))
        rows[:, known] = numbers
        return rows

    def learn(self, events: Iterable[Mapping[Hashable, Any]], labels: Sequence[Any]) -> None:
        """Learn events in order, with runs of the same columns at once; the lock is held.

        Where one is refused, the events before have been learned.
        """
        rows: list[Numbers] = []

        def learn_rows(stop: int) -> None:
            if rows:
                some, known = np.array(rows), list(labels[stop - len(rows) : stop])
                rows.clear()
                self.learner.learn_many(some, known)

        for i, x in enumerate(events):
            try:
                event = self._read(x)
                if event.new or self.learner.columns is None:
                    learn_rows(i)
                self._append_columns(event, labels[i])
            except InvalidInput:
                learn_rows(i)
                raise
            rows.append(self._table.row(event))
        learn_rows(len(labels))

    def learn_weighted(self, x: Mapping[Hashable, Any], label: Any, weight: Any) -> None:
        """Learn an event as often as its weight and the carried rest say; the lock is held."""
        (known,) = checked(weight, 1).tolist()
        if not known:
            return
        (times,), left = self.times([label], [known])
        row = self.row(x, [label] if times else None)
        for _ in range(times):
            self.learner.learn_one(row, label)
        self.left = left

    def times(
        self, labels: Sequence[Any], weights: Iterable[float]
    ) -> tuple[list[int], dict[Hashable, float]]:
        """Return how often each event is learned, and the rest of the weights."""
        self.learner.check_labels(labels, len(labels))
        kinds = labels if self.learner.is_classifier else [None] * len(labels)
        return carried(self.left, kinds, weights)

    def _read(self, x: Mapping[Hashable, Any]) -> Event:
        found = read_fields(x, self._table.read, self._table.ignore)
        if not self._has_spans and np.timedelta64 in map(type, x.values()):
            self._has_spans = True
            self._lay_out()
        return found

    def _append_columns(self, event: Event, label: Any) -> None:
        """Append the columns of an event that are new, unless its label is refused."""
        learner, known = self.learner, len(self._table)
        if not event.changes and learner.columns is not None:
            return
        learner.check_labels([label], 1)
        if self._table.admit(event) or learner.columns is None:
            learner.add_columns(list(self._table.places)[known:])
            self._lay_out()


# Weights of events: how often each is learned

_MEAN = 4
"""Most whole numbers that an event has on average instead of weights in the same ratio."""
_ONE = 1 << 30
"""Parts of a weight, whole numbers, so that their sums are exact."""
_WEIGHT = Real(least=0.0, most=1e6)
"""Weights on a stream: an event is learned so many times, one after the other."""


def relative(weights: Numbers) -> Numbers:
    """Return weights in the smallest whole numbers of their ratio, or with a mean of 1.

    They are whole numbers where these are 4 or less on average. Means are those of weights above 0.

    Examples
    --------
    >>> relative(np.array([0.1, 0.2, 0.0, 0.3]))
    array([1., 2., 0., 3.])
    >>> relative(np.array([1.0, 0.0, 4.0, 14.0, 13.0]))
    array([0.125, 0.   , 0.5  , 1.75 , 1.625])
    """
    if not weights.any():
        raise InvalidInput("all sample weights are zero, so no event would be learned")
    weights = weights / weights.max()
    positive = weights[weights > 0.0]
    least, mean = positive.min(), positive.mean()
    for parts in range(1, int(_MEAN * least / mean + 1e-6) + 1):
        found = weights / least * parts
        if np.allclose(found, np.rint(found), rtol=1e-6, atol=0.0):
            return np.asarray(np.rint(found))
    # Rounded, so that a factor of all of them leaves no trace.
    return np.asarray(np.rint(weights / mean * _ONE) / _ONE)


def repeats(weights: Numbers, turn: int, turns: int) -> NDArray[np.intp]:
    """Return how often each event is learned in one of several passes over all.

    That is the same in all passes for whole weights. Of others it is the next whole number below or
    above, and over all passes an event is learned as often as its weight says, less than once more
    or less.

    Examples
    --------
    >>> weights = np.array([0.5, 1.0, 1.75, 0.75])
    >>> repeats(weights, 0, 2), repeats(weights, 1, 2)
    (array([0, 1, 2, 1]), array([1, 1, 2, 0]))
    """
    sums = np.cumsum(np.rint(weights * _ONE).astype(np.int64))
    return np.diff((sums + (2 * turn + 1) * _ONE // (2 * turns)) // _ONE, prepend=0)


def carried(
    left: Mapping[Hashable, float], labels: Iterable[Hashable], weights: Iterable[float]
) -> tuple[list[int], dict[Hashable, float]]:
    """Return how often each event of a stream is learned, and the rest of the weights.

    The sum of the weights so far, rounded, is how often events of a label were learned: what is
    left of one comes in with the next one of the same label.

    Examples
    --------
    >>> carried({}, ["a", "a", "b", "a"], [0.25, 0.5, 0.25, 2.25])
    ([0, 1, 0, 2], {'a': 0.0, 'b': 0.25})
    """
    rest, times = dict(left), []
    for label, weight in zip(labels, weights, strict=True):
        fraction, whole = math.modf(weight)
        if fraction:
            total = rest.get(label, 0.0) + fraction
            more = math.floor(total + 0.5)
            rest[label] = total - more
            whole += more
        times.append(int(whole))
    return times, rest


def checked(weights: Any, n: int, name: str = "w") -> Numbers:
    """Return the weights of n events of a stream, from one number for all or n of them."""
    given = list(weights) if hasattr(weights, "__len__") else [weights] * n
    if len(given) != n:
        raise InvalidInput(f"{n} events came with {len(given)} weights")
    for weight in given:
        _WEIGHT.check(name, weight)
    return np.array(given, np.float64)


def order_of(contents: Iterable[bytes], weights: Numbers | None) -> NDArray[np.intp]:
    """Return an order of events: by contents if some occur twice or weigh more, else as given.

    So an event of weight 2 has the place of two events.
    """
    found = _digests(contents)
    if _as_they_stand(found, weights):
        return np.arange(len(found))
    return np.argsort(found, kind="stable")


def merged(
    points: Numbers, targets: NDArray[Any], weights: Numbers | None
) -> tuple[Numbers, NDArray[Any], Numbers | None]:
    """Merge equal events into one with the sum of their weights.

    Points are (n, d), targets numbers, (n,) or (n, targets), and weights (n,), None where all are
    1.

    Examples
    --------
    >>> points, targets, weights = merged(np.array([[7.0], [8.0], [7.0]]), np.ones(3), None)
    >>> sorted(zip(points.tolist(), weights.tolist()))
    [([7.0], 2.0), ([8.0], 1.0)]
    """
    found = _digests(row.tobytes() for row in np.column_stack([points, targets]) + 0.0)
    _, first, place = np.unique(found, return_index=True, return_inverse=True)
    if _as_they_stand(found, weights) or len(first) < 2:
        return points, targets, weights
    return points[first], targets[first], np.bincount(place, weights).astype(np.float64)


def _as_they_stand(found: NDArray[np.uint64], weights: Numbers | None) -> bool:
    """Return whether all events are different, and weigh the same."""
    alike = weights is None or bool((weights == weights[0]).all())
    return alike and len(np.unique(found)) == len(found)


def _digests(contents: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return a number for the content of each event, alike for those that are alike."""
    return np.frombuffer(b"".join(blake2b(c, digest_size=8).digest() for c in contents), np.uint64)
