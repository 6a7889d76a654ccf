"""A learner that remembers the past of each event's entities, such as a user or a card."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.declared import NON_NEGATIVE, Declared, Domain, listed, reading, taken
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column, column_keys
from streamk.features.random_features import check_events
from streamk.learners.common.classes import Classes, Label
from streamk.learners.common.merging import check_mergeable
from streamk.learners.common.predictor import Wrapper, inside, one_row
from streamk.learners.common.prequential import Prequential, joined, labels_or_none, with_gaps
from streamk.learners.multi_kernel.multi_kernel import MultiKernel
from streamk.learners.scaled import Scaled
from streamk.memory.clock import ENOUGH, LATEST, NEVER, UNBOUNDED, Clock
from streamk.memory.entities import ENTITY, LABEL_CLASSES, MAX_ENTITIES, SPANS, EntityTable
from streamk.state import State

Floats = NDArray[np.float64]
Labels = Sequence[Any] | NDArray[Any]

_OF_EVENT = "event:"
MOST_SEEN = 64 << 20
"""Bytes of what held events were seen with, at most: the oldest is forgotten."""
NUMBERS = 16
"""Numbers of events, at most, whose statistics are kept unless they are named: the first ones."""
_INSIDE: dict[str, Any] = {MultiKernel.TYPE: MultiKernel, Scaled.TYPE: Scaled}
_OWNER = "the memory of entities"
_YEAR = 31_536_000.0
FAR = 2_592_000.0
"""Seconds by which the time of one event may be ahead of those before, unless a span is longer."""
_MARKS = frozenset("=@:")
_IN_SHARDS = (
    "entities and shards cannot be combined: each shard would see only a part of an entity's "
    "past; leave one of them out"
)
_FLOAT64 = np.dtype(np.float64)
_SEEN = (
    Declared("entities_of", "int64", ("held",), NON_NEGATIVE),
    Declared("entities_seen", "float64", ("held", "made"), Domain(-1e150, 1e150, missing=True)),
)


def field_of(column: Column) -> str:
    """Return the field of a column that numbers entities.

    >>> field_of("user@entity"), field_of(3)
    ('user', '3')
    """
    return str(column).removesuffix(ENTITY)


class EntityMemory(Wrapper):
    """A learner that adds the past of its entities to each event.

    For each field that names an entity one column of the events, "user@entity", has its number, by
    `streamk.memory.entity_number`, and one column, "ts@elapsed", may have the event's time. The
    learner inside sees neither of them, but the columns that an `EntityTable` of each field makes
    of the earlier events of the same entity. Events are told apart by what is done with them:

    - `predict_then_learn_many` and the verbs that learn: each event is seen with what was known
      before it, and then is part of the past. Where its label is None, the event counts, and the
      label does not.
    - `predict_many` and the other verbs that only predict: nothing is taken in.
    - `predict_held_many`: the event counts; what it was seen with is kept under its number until
      `learn_held_many`, which learns exactly that, and takes in the label as of the latest time of
      all events.

    A broken clock would hold the decays of an entity until the time that it tells. So a time that
    is more than 30 days ahead of all before, or the longest span or four times the pace of the
    stream where that is more, counts as the latest of those before, until 16 events in a row are as
    far ahead: `streamk.memory.clock`. The first time of a stream is believed.

    Parameters
    ----------
    learner : MultiKernel or Scaled, optional
        By default ``MultiKernel()``. It has no columns yet.
    entities : sequence of str or int
        Columns with the numbers of entities, at least one; NaN where one is missing.
    time : str or int, optional
        The column of times, in seconds; NaN where one is missing.
    spans : sequence of float, optional
        Spans of the statistics beside the whole past, in seconds: an hour, a day and 30 days if
        there is a time. Without one there are none.
    numbers : sequence of str or int, optional
        Columns whose statistics are kept for each entity. By default the first 16 without "=", "@"
        or ":" in their names, which texts, times and words have. None is called "label".
    max_entities : int, default 1,000,000
        Entities of a field that are remembered; that which was seen longest ago makes room.

    Attributes
    ----------
    tables : tuple of EntityTable
        One for each field.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, or the learner has another type or has columns.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import EntityMemory, MultiKernel
    >>> from streamk.memory import entity_number
    >>> users = [entity_number(name) for name in ("ada", "bob")] * 100
    >>> X, y = np.column_stack([users, np.ones(200)]), ["yes", "no"] * 100
    >>> model = EntityMemory(MultiKernel(external_experts=()), entities=["user@entity"])
    >>> model.add_columns(["user@entity", "amount"])
    >>> bool((model.predict_then_learn_many(X, y).predictions == y).mean() > 0.9)
    True
    """

    TYPE = "entity-memory"
    takes_missing = holds_predictions = remembers_events = True

    mixes_experts = inside("mixes_experts")
    external_experts = inside("external_experts")
    held_dropped = inside("held_dropped")
    drifts = inside("drifts")
    ended = inside("ended")
    leading_step = inside("leading_step")
    placing = inside("placing")

    def __init__(
        self,
        learner: MultiKernel | Scaled | None = None,
        *,
        entities: Sequence[Column],
        time: Column | None = None,
        spans: Sequence[float] | None = None,
        numbers: Sequence[Column] | None = None,
        max_entities: int = MAX_ENTITIES,
    ) -> None:
        learner = MultiKernel() if learner is None else learner
        if getattr(learner, "TYPE", None) not in _INSIDE or learner.columns is not None:
            raise InvalidInput(
                f"learner={learner!r} cannot be given more columns; give a MultiKernel or a Scaled"
                " learner that has no columns yet"
            )
        self.learner = learner
        self.entities, self.time = tuple(entities), time
        self.numbers = None if numbers is None else tuple(numbers)
        column_keys([*self.entities, *([] if time is None else [time])])
        if not self.entities:
            raise InvalidInput(
                "entities=() names no column; without entities use the learner itself"
            )
        check_entities(self.entities, time=time, spans=spans)
        spans = () if time is None else SPANS if spans is None else spans
        self.tables = tuple(
            EntityTable(
                field_of(entity),
                classes=learner.is_classifier,
                spans=spans,
                max_entities=max_entities,
            )
            for entity in self.entities
        )
        self._begin(None, Clock())

    def _begin(self, columns: tuple[Column, ...] | None, clock: Clock) -> None:
        self._columns, self._clock = columns, clock
        self._skew = min(UNBOUNDED, int(1000.0 * max((FAR, *self.spans))))
        self._is_aside = False
        self._seen: dict[int, Floats] = {}
        """Columns of the tables that held events were seen with, by their numbers."""
        self._numbers = Classes(self.learner.classes)
        self._locate()

    # What it is

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, also of entities and time; None before the first batch."""
        return self._columns

    @property
    def spans(self) -> tuple[float, ...]:
        """Spans of the statistics beside the whole past."""
        return self.tables[0].spans

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences of times far ahead, and of such in 1970, as of seconds read as milliseconds."""
        field, _, part = str(self.time).rpartition("@")
        if part != "elapsed":
            return ()
        found = []
        if abs(self.tables[0].now) < _YEAR:
            found.append(
                f"the times {field!r} of the events lie in 1970: numbers are read as milliseconds "
                "since then; write seconds as milliseconds, or times as text"
            )
        if self._clock.skewed:
            found.append(
                f"the times {field!r} of {self._clock.skewed:,} events were far ahead of earlier "
                "ones; their entities got the latest earlier time instead"
            )
        return tuple(found)

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
        held = sum(seen.nbytes for seen in self._seen.values())
        return int(self.learner.nbytes) + sum(table.nbytes for table in self.tables) + held

    def __repr__(self) -> str:
        return f"EntityMemory({self.learner!r}, entities={list(self.entities)!r})"

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero, or missing ones of entities."""
        before = self._columns or ()
        column_keys([*before, *names])
        numbers = self._new_numbers(names)
        usual = [self._inside(name) for name in self._usual(names)]
        column_keys([*(self.learner.columns or ()), *usual])
        for table in self.tables:
            table.add_columns(numbers)
        self._columns = (*before, *names)
        self._widen(usual)

    def _inside(self, name: Column) -> Column:
        """Return the name that a column has to the learner inside.

        One that may be a statistic's, such as "user.count", has "event:" before it.
        """
        starts = (_OF_EVENT, *(f"{table.name}." for table in self.tables))
        return f"{_OF_EVENT}{name}" if str(name).startswith(starts) else name

    def _usual(self, names: Sequence[Column]) -> list[Column]:
        """Return those of some columns that are none of entities or time."""
        return [name for name in names if name not in self.entities and name != self.time]

    def _new_numbers(self, names: Sequence[Column]) -> list[str]:
        """Return those of new columns whose statistics are kept."""
        known, found = self.tables[0].numbers, list[str]()
        for name in self._usual(names):
            text = str(name)
            is_one = name in self.numbers if self.numbers is not None else _MARKS.isdisjoint(text)
            room = self.numbers is not None or len(known) + len(found) < NUMBERS
            own = text == "label" or text.startswith("label=")
            if is_one and room and not own and text not in (*known, *found):
                found.append(text)
        return found

    def _widen(self, usual: Sequence[Column]) -> None:
        """Give the learner inside more columns, and those of the tables that it has not yet."""
        known = {*(self.learner.columns or ())}
        made = [name for table in self.tables for name in table.columns if name not in known]
        self.learner.add_columns([*usual, *made])
        self._locate()

    def _locate(self) -> None:
        """Find where columns come from, and go to in the learner inside."""
        columns, there = self._columns or (), self.learner.columns or ()
        here = {name: place for place, name in enumerate(columns)}
        to = {name: place for place, name in enumerate(there)}
        self._keys = [here.get(entity) for entity in self.entities]
        self._time = None if self.time is None else here.get(self.time)
        by_text = {str(name): here[name] for name in reversed(self._usual(columns))}
        self._of_numbers = np.array([by_text[name] for name in self.tables[0].numbers], np.intp)
        if self._columns is None:
            return
        usual = self._usual(columns)
        self._from = np.array([here[name] for name in usual], np.intp)
        self._to = np.array([to[self._inside(name)] for name in usual], np.intp)
        made = [to[name] for table in self.tables for name in table.columns if name in to]
        self._made = np.array(made, np.intp)
        self._told = np.array(
            [name in to for table in self.tables for name in table.columns], bool
        )  # a class's columns are not, while its first event is seen
        self._seen_at = np.sort(self._made)

    # Events

    def _check(self, X: ArrayLike) -> Floats:
        return check_events(X, _FLOAT64, self._columns, missing=True)

    def _of_tables(self, X: Floats) -> tuple[list[Floats], Floats, Floats]:
        """Return keys of each field, times and numbers of events."""
        nothing = np.full(len(X), np.nan)
        keys = [nothing if place is None else X[:, place] for place in self._keys]
        return keys, nothing if self._time is None else X[:, self._time], X[:, self._of_numbers]

    def _widened(self, X: Floats, numbers: Floats | None) -> Floats:
        """Return events as the learner inside sees them; with numbers of labels they are taken in.

        A number is NaN where the label is not known.
        """
        keys, times, values = self._of_tables(X)
        pairs = zip(self.tables, keys, strict=True)
        if numbers is None or self._is_aside:
            times = self._believed(times, looks=True)
            made = [table.look(key, times, values) for table, key in pairs]
        else:
            times = self._believed(times, looks=False)
            made = [table.follow(key, times, values, numbers) for table, key in pairs]
        return self._laid(X, np.concatenate(made, axis=1)[:, self._told], self._made)

    def _believed(self, times: Floats, *, looks: bool) -> Floats:
        """Return times, for those that are far ahead the clock's; it goes on unless one `looks`."""
        if self._time is None:
            return times
        exact = 1000.0 * times
        stamps = np.rint(np.where(np.abs(exact) <= LATEST, exact, NEVER)).astype(np.int64)
        if looks:
            at = np.maximum(stamps, self._clock.time)
            for row in np.flatnonzero(stamps > self._clock.time + self._skew).tolist():
                one = slice(row, row + 1)  # each as if it came next
                at[one] = self._clock.advance(stamps[one], self._skew)[1]
        else:
            self._clock, at = self._clock.advance(stamps, self._skew)
        return np.where(stamps > at, at / 1000.0, times)

    def _laid(self, X: Floats, made: Floats, places: NDArray[np.intp]) -> Floats:
        Z = np.zeros((len(X), len(self.learner.columns)))
        Z[:, self._to] = X[:, self._from]
        Z[:, places] = made
        return Z

    def _encoded(self, labels: NDArray[Any], known: NDArray[np.bool_]) -> Floats:
        """Return labels as the tables take them: NaN, a number, or that of a class."""
        if not self.is_classifier:
            return np.where(known, labels.astype(np.float64), np.nan)
        if len(self._numbers) != len(self.learner.classes):
            self._numbers = Classes(self.learner.classes)
        found = np.full(len(labels), np.nan)
        found[known] = self._numbers.encode(labels[known])
        return found

    def _pieces(self, numbers: Floats) -> Iterator[slice]:
        """Yield events, the first one of a class that the tables do not know by itself.

        They know it then, and the learner inside has its columns from the next event on.
        """
        if not self.is_classifier:
            yield slice(0, len(numbers))
            return
        first = 0
        with np.errstate(invalid="ignore"):
            late = np.flatnonzero(numbers >= self._table_classes)
        for place in late.tolist():
            number = int(numbers[place])
            if number < self._table_classes or number >= LABEL_CLASSES:
                continue
            yield slice(first, place)
            self._meet(self._numbers.labels[: number + 1])
            yield slice(place, place + 1)
            self._widen(())
            first = place + 1
        yield slice(first, len(numbers))

    @property
    def _table_classes(self) -> int:
        """Classes that the tables know: the first has no column, the second is the label's."""
        return self.tables[0].n_classes

    def _meet(self, classes: Sequence[Label]) -> None:
        """Have the tables know classes."""
        for label in classes[self._table_classes : LABEL_CLASSES]:
            for table in self.tables:
                table.add_class(label)
        self._locate()

    def _follow(
        self, X: Floats, labels: NDArray[Any], known: NDArray[np.bool_], go: Callable[..., Any]
    ) -> list[Any]:
        """Call `go` with events as they are seen, and a slice of which they are, piece by piece."""
        if self._columns is None:
            self.add_columns(range(X.shape[1]))
        numbers = self._encoded(labels, known)
        return [go(self._widened(X[some], numbers[some]), some) for some in self._pieces(numbers)]

    # Learning

    def learn_many(self, X: ArrayLike, y: Labels) -> None:
        """Learn from events X (n, d), in which NaN is missing, with labels y (n,), in their order.

        Raises `InvalidInput` before anything is learned.
        """
        events = self._check(X)
        labels = self.check_labels(y, len(events))
        known = np.ones(len(events), bool)
        self._follow(
            events, labels, known, lambda Z, some: self.learner.learn_many(Z, labels[some])
        )

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x (d,) with label y."""
        events = self._check(one_row(x))
        labels, learner = self.check_labels([y], 1), self.learner

        def learn(Z: Floats, _: slice) -> None:
            if len(Z):
                learner.learn_one(Z[0], labels[0])

        self._follow(events, labels, np.ones(1, bool), learn)

    def predict_then_learn_many(self, X: ArrayLike, y: Labels) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it if its label in y is not None.

        Events without a label are part of the past of the next ones, too. Raises `InvalidInput` as
        `learn_many` does.
        """
        events = self._check(X)
        labels, known = labels_or_none(self, y, len(events))
        gaps = with_gaps(labels, known)
        learner = self.learner
        found = self._follow(
            events, labels, known, lambda Z, some: learner.predict_then_learn_many(Z, gaps[some])
        )
        return joined(found, self)

    def finish(self) -> None:
        """Learn the events gathered for a step."""
        self.learner.finish()

    def compile_rare_steps(self) -> None:
        """Have what happens seldom compiled, before the first event."""
        self.learner.compile_rare_steps()

    def for_shards(self) -> Self:
        """Raise `InvalidInput`."""
        raise InvalidInput(_IN_SHARDS)

    # Predicting

    @property
    def explained(self) -> Any:
        """The learner inside, with its columns of statistics of entities."""
        return self.learner

    def looked(self, X: ArrayLike) -> Floats:
        """Return events X (n, d) as the learner inside would see them if each were the next."""
        events = self._check(X)
        return events if self._columns is None else self._widened(events, None)

    def decision_many(self, X: ArrayLike) -> Floats:
        """Outputs before any decision, float64 (n, outputs), of events that are not taken in."""
        return np.asarray(self.learner.decision_many(self.looked(X)))

    def decision_one(self, x: ArrayLike) -> Floats:
        """Outputs of one event x of shape (d,), float64 (outputs,)."""
        return np.asarray(self.learner.decision_one(self.looked(one_row(x))[0]))

    def predictions(self, F: Floats) -> NDArray[Any]:
        """Predicted labels or numbers, shape (n,), where `decision_many` gave F."""
        return np.asarray(self.learner.predictions(F))

    def prediction(self, F: Floats) -> Any:
        """Predicted label or number, where `decision_one` gave F."""
        return self.learner.prediction(F)

    def probabilities(self, F: Floats) -> Floats:
        """Class probabilities, shape (n, classes), where `decision_many` gave F."""
        return np.asarray(self.learner.probabilities(F))

    def choices(self, P: NDArray[Any]) -> NDArray[np.intp]:
        """Return the numbers of the predicted classes where `predict_proba_many` gave P."""
        return np.asarray(self.learner.choices(P))

    def predict_quantile_many(self, X: ArrayLike, levels: ArrayLike) -> Floats:
        """Quantiles of the numbers to come of events X (n, d); see `MultiKernel`."""
        return np.asarray(self._mixture().predict_quantile_many(self.looked(X), levels))

    def predict_interval_many(self, X: ArrayLike, level: float = 0.9) -> Floats:
        """Intervals with so large a part of the numbers to come; see `MultiKernel`."""
        return np.asarray(self._mixture().predict_interval_many(self.looked(X), level))

    def _mixture(self) -> Any:
        """Return the learner inside, which has quantiles, or raise InvalidInput."""
        if not self.mixes_experts:
            raise InvalidInput(f"{self.learner!r} has no quantiles; only a MultiKernel has")
        return self.learner

    def shares(self, x: ArrayLike) -> dict[str, float]:
        """Return how much each kind of expert contributes for one event x (d,)."""
        return dict(self.learner.shares(self.looked(one_row(x))[0]))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Predict without a trace: later learning is the same as without the call."""
        with self.lock, self.learner.aside():
            before, self._is_aside = self._is_aside, True
            try:
                yield
            finally:
                self._is_aside = before

    # Held events

    def predict_held_many(self, X: ArrayLike, numbers: Sequence[int]) -> Prequential:
        """Predict events (n, d) in turn, and take them in but for their labels.

        What they were seen with is kept under their numbers (n,).
        """
        events, learner = self._check(X), self.learner
        nothing: list[Any] = [None] * len(events)

        def predict(Z: Floats, some: slice) -> Prequential:
            for number, seen in zip(numbers[some], Z[:, self._seen_at], strict=True):
                self._seen[number] = seen
            while len(self._seen) * len(self._seen_at) * 8 > MOST_SEEN:
                del self._seen[next(iter(self._seen))]
            found: Prequential
            if learner.holds_predictions:
                found = learner.predict_held_many(Z, numbers[some])
            else:
                found = learner.predict_then_learn_many(Z, nothing[some])
            return found

        labels, known = labels_or_none(self, nothing, len(events))
        return joined(self._follow(events, labels, known, predict), self)

    def learn_held_many(self, X: ArrayLike, y: Labels, numbers: Sequence[int]) -> None:
        """Learn from held events (n, d) with labels y (n,), in their order, as they were seen.

        An event of which that is not known is seen with what is known now. One whose number is -1
        is learned again with another label: its entities have no past then, as that has its own
        label in it, and do not take in the second one.
        """
        events = self._check(X)
        labels = self.check_labels(y, len(events))
        if self._columns is None:
            self.add_columns(range(events.shape[1]))
        known = all(number in self._seen for number in numbers)
        is_once = len(set(numbers)) == len(numbers)
        step = len(events) if known and is_once else 1  # each is seen after the labels before it
        for first in range(0, len(events), max(1, step)):
            part = slice(first, first + step)
            self._learn_held(events[part], labels[part], numbers[part])

    def _learn_held(self, X: Floats, y: NDArray[Any], numbers: Sequence[int]) -> None:
        learner = self.learner
        codes = self._encoded(y, np.ones(len(y), bool))
        for some in self._pieces(codes):
            Z = self._as_seen(X[some], numbers[some])
            keys, *_ = self._of_tables(X[some])
            for table, key in zip(self.tables, keys, strict=True):
                if -1 not in numbers[some]:  # such a one is alone
                    table.learn_labels(key, np.full(len(key), table.now), codes[some])
            if learner.holds_predictions:
                learner.learn_held_many(Z, y[some], numbers[some])
            else:
                learner.learn_many(Z, y[some])

    def _as_seen(self, X: Floats, numbers: Sequence[int]) -> Floats:
        """Return held events as they were seen, which are held no more."""
        if any(number not in self._seen for number in numbers):
            Z = self._widened(X, None)
            if -1 in numbers:
                Z[:, self._seen_at] = np.nan
            return Z
        made = np.zeros((len(X), len(self._seen_at)))  # columns that came later were zero
        for row, number in zip(made, numbers, strict=True):
            seen = self._seen.pop(number)
            row[: len(seen)] = seen
        return self._laid(X, made, self._seen_at)

    def held_predictions(self) -> dict[str, NDArray[Any]]:
        """Return the statistics that held events were seen with, and the inner learner's part."""
        seen = np.zeros((len(self._seen), max(map(len, self._seen.values()), default=0)))
        for row, one in zip(seen, self._seen.values(), strict=True):
            row[: len(one)] = one
        found = self.learner.held_predictions() if self.learner.holds_predictions else {}
        return {
            **found,
            "entities_of": np.array(list(self._seen), np.int64),
            "entities_seen": seen,
        }

    def restore_held_predictions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on with what `held_predictions` gave. Raises `StateError` if it does not fit."""
        found, sizes = taken(_SEEN, arrays, {}, _OWNER)
        most = 0 if self._columns is None else len(self._seen_at)
        if sizes["made"] > most:
            raise StateError(f"array 'entities_seen' of {_OWNER} has more columns than {most}")
        if self.learner.holds_predictions:
            self.learner.restore_held_predictions(arrays)
        pairs = zip(found["entities_of"].tolist(), found["entities_seen"], strict=True)
        self._seen = {number: seen.copy() for number, seen in pairs}

    # States and merging

    def state(self) -> State:
        """Return the state to go on exactly from here, without held events."""
        return self._state(self.learner.state(), [table.state() for table in self.tables])

    def lent_state(self) -> State:
        """Return `state()` for whoever writes it down before this learns again."""
        return self._state(self.learner.lent_state(), [one.lent_state() for one in self.tables])

    def _state(self, learner: State, tables: Sequence[State]) -> State:
        parts = {f"table{n}": table for n, table in enumerate(tables)}
        header: dict[str, Any] = {
            "type": self.TYPE,
            "entities": list(self.entities),
            "time": self.time,
            "clock": self._clock.to_json(),
            "numbers": None if self.numbers is None else list(self.numbers),
            "columns": None if self._columns is None else list(self._columns),
        }
        return State.nest({"learner": learner, **parts}, header)

    @classmethod
    def from_state(cls, state: State, **placing: Any) -> Self:
        """Return the learner of a state, or raise StateError."""
        header: Any = state.expect(cls.TYPE).header
        model = cls.__new__(cls)
        inner = state.child("learner")
        if inner.type not in _INSIDE:
            raise StateError(f"{_OWNER} has no learner of the type {inner.type!r}")
        model.learner = _INSIDE[inner.type].from_state(inner, **placing)
        with reading(_OWNER):
            model.entities = tuple(listed(header, "entities", _OWNER))
            model.time, numbers = header["time"], header["numbers"]
            model.numbers = None if numbers is None else tuple(numbers)
            names = range(len(model.entities))
            model.tables = tuple(EntityTable.from_state(state.child(f"table{n}")) for n in names)
            model._check_tables()
            columns = header["columns"]
            try:
                column_keys(model.entities + (() if model.time is None else (model.time,)))
                column_keys(columns or ())
                model._begin(None if columns is None else tuple(columns), _clock_of(header))
            except InvalidInput as error:
                raise ValueError(error) from error
            if columns is not None:
                model._check_columns()
        return model

    def _check_tables(self) -> None:
        """Raise ValueError unless the tables are of the fields, and alike."""
        alike = {(table.spans, table.numbers, table.n_classes) for table in self.tables}
        names = tuple(table.name for table in self.tables)
        kinds = {table.classes for table in self.tables} == {self.is_classifier}
        if len(alike) != 1 or names != tuple(map(field_of, self.entities)) or not kinds:
            raise ValueError("the tables do not match the entities, or differ")
        if self.is_classifier and self._table_classes > max(2, len(self.classes)):
            raise ValueError("a table knows more classes than there are")

    def _check_columns(self) -> None:
        if not self._told.all():
            raise ValueError("the learner lacks the columns of the tables")

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        Of an entity that both know there stays what the one knows that has seen more of it, see
        `EntityTable.merge`; and no labels of entities that only the other knows, where the classes
        of the two are in different orders.
        """
        check_mergeable(self, other, ("entities", "time", "spans", "numbers"))
        self._merge(other, lambda one: one.merge(other.learner, common_events=common_events))

    def merge_replica(self, other: Self, common_events: int, common: Callable[[], Self]) -> None:
        """Do `merge`; `common` returns what both were."""
        check_mergeable(self, other, ("entities", "time", "spans", "numbers"))
        self._merge(
            other,
            lambda one: one.merge_replica(other.learner, common_events, lambda: common().learner),
        )

    def _merge(self, other: Self, join: Callable[[Any], None]) -> None:
        both = min(len(self.classes), len(other.classes))
        alike = self.classes[:both] == other.classes[:both]
        join(self.learner)
        self._clock = max(self._clock, other._clock, key=lambda clock: clock.time)
        if other.columns is None:
            return
        known = self._columns or ()
        self._columns = (*known, *(name for name in other.columns if name not in known))
        for table, one in zip(self.tables, other.tables, strict=True):
            table.merge(one, with_labels=alike)
        if self.is_classifier:
            self._meet(self.classes)
        self._widen(())


def _clock_of(header: Mapping[str, Any]) -> Clock:
    """Return the clock of a state's header, or raise ValueError."""
    clock = Clock.from_json(header["clock"])
    stamps = [0 if clock.time == NEVER else clock.time, *clock.beyond]
    if len(clock.moves) > ENOUGH or len(clock.beyond) >= ENOUGH or clock.skewed < 0:
        raise ValueError("the clock has too many entries")
    if max(map(abs, stamps)) > LATEST or not all(0 < move <= 2 * LATEST for move in clock.moves):
        raise ValueError("the clock has impossible times")
    return clock


def check_entities(
    entities: Sequence[Column] | None,
    *,
    time: Column | None = None,
    spans: Sequence[float] | None = None,
    max_entities: int = MAX_ENTITIES,
) -> None:
    """Raise `InvalidInput` for options of entities, as of `remembering`, that cannot go together.

    >>> check_entities((), spans=(60.0,))
    Traceback (most recent call last):
    ...
    streamk.errors.InvalidInput: spans=(60.0,) is for entities; it needs entities= too
    """
    if isinstance(entities, str):
        raise InvalidInput(f"entities={entities!r} must be a sequence of names: ({entities!r},)")
    for name, value in {"spans": spans, "max_entities": max_entities}.items():
        if not entities and value not in (None, MAX_ENTITIES):
            raise InvalidInput(f"{name}={value!r} is for entities; it needs entities= too")
    if entities and time in entities:
        raise InvalidInput(f"time={time!r} is among entities=, too; leave out one of them")
    if spans and time is None:
        raise InvalidInput(
            f"spans={spans!r} are measured in the time of events; they need time= too"
        )


def remembering(
    model: Any,
    entities: Sequence[Column],
    *,
    time: Column | None = None,
    spans: Sequence[float] | None = None,
    max_entities: int = MAX_ENTITIES,
) -> Any:
    """Return a model that knows the past of the entities of these fields: itself if it does so.

    Without entities, but with a time, it is one that remembers labels with their times.

    Parameters
    ----------
    model : MultiKernel, Scaled or EntityMemory, or a contest of some of the last
    entities : sequence of fields
        If there are none, and no time, the model is returned as it is.
    time : field, optional
        That of the time of the events.
    spans, max_entities : optional
        As of `EntityMemory`.

    Raises
    ------
    InvalidInput
        If the model has another type, or remembers others.
    """
    if not entities:
        return model if time is None else _with_clock(model, time)
    if len(set(entities)) < len(entities):
        raise InvalidInput(f"entities={tuple(entities)!r} names one twice; leave it out")
    columns = [f"{name}{ENTITY}" for name in entities]
    clock = None if time is None else f"{time}@elapsed"
    for one in model.models.values() or [model]:
        if isinstance(one, EntityMemory) and (list(one.entities), one.time) != (columns, clock):
            raise InvalidInput(
                f"{one!r} remembers other entities than those of {', '.join(map(str, entities))}, "
                "or has another time; give the learner inside it"
            )
    if model.models and not all(isinstance(one, EntityMemory) for one in model.models.values()):
        raise InvalidInput("with entities, each model of a contest must be an EntityMemory")
    if model.models or isinstance(model, EntityMemory):
        return model
    if model.sharding is not None:
        raise InvalidInput(_IN_SHARDS)
    given: dict[str, Any] = {"time": clock, "spans": spans, "max_entities": max_entities}
    return EntityMemory(model, entities=columns, **given)


def _with_clock(model: Any, time: Column) -> Any:
    """Return a model that remembers labels with the times of this field: itself if it does so."""
    clock = f"{time}@elapsed"
    if all(getattr(one, "clock", None) == clock for one in model.models.values() or [model]):
        return model
    if not isinstance(model, MultiKernel) or model.is_classifier or model.columns is not None:
        raise InvalidInput(
            f"time={time!r} is for entities; it needs entities= too, or a new MultiKernel of "
            "numbers"
        )
    return model.as_new(clock=clock)
