"""Entities, such as users, cards or devices, with statistics of the past of each.

An `EntityTable` follows events one by one. Of each it writes columns made of the earlier events of
its entity alone, and only then takes it in. For each number of the events, and for the label, there
are mean and variance over all the entity's past and over spans of it. Over a span tau the event
that came at time T counts at time t by ``w = exp(-(t - T) / tau)``, and over the whole past by 1:

    mean = sum of w x / sum of w,    variance = sum of w (x - mean)^2 / sum of w.

What the table keeps of these are the sum of the weights, mean and variance, which each value moves
(West 1979); no event is kept. Times of an entity do not go back: one that is earlier than its
latest counts as that. An event without a time (NaN) comes as if no time had passed.

**Shrinkage.** An entity with few events says little. With n the sum of its weights, M the mean of
all values of all entities, and k as follows, it is given

    (n mean + k M) / (n + k),

of which an unseen entity has M. Here k is the variance within entities over that between them, by
the method of moments of an analysis of variance of all values so far, whatever their entities'
sizes: ``within = S / (N - G)`` and ``between = (N total - (N - 1) within) / (N - sum of n^2 / N)``,
for N values of G entities, with S the sum of their squared deviations from their entities' means,
and `total` their variance. It is 1 before any entity has had two values, and at most 1,000, as
where no difference between entities is seen. The mean over a span is drawn to the entity's own
over the whole past in the same way, by the same k: where it has been silent for long, this is left.
Variances are drawn to the variance within entities, and those of spans to that of the whole past,
as by 2 events.

**Labels** have times of their own: one that comes late counts as of the time at which it comes. For
classes the label's mean is the share of the second class, and further ones have a share each.

**Bound.** The table has a row for each entity, of ``8 (4 + spans + (3 spans + 4) statistics)``
bytes. Of more than `max_entities` that which was seen longest ago makes room. What has been learned
of the population stays, also where an entity has gone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import (
    COUNT,
    EVICTED,
    HEAD,
    KEY,
    LABEL,
    LABEL_TIME,
    LARGEST,
    LIMIT,
    MOMENTS,
    NEWEST,
    OLDEST,
    TIME,
    USED,
    loops,
)
from streamk.declared import (
    ANY,
    FINITE,
    NON_NEGATIVE,
    Declared,
    Domain,
    count,
    flag,
    listed,
    reading,
    taken,
    within,
)
from streamk.errors import InvalidInput, StateError, shown
from streamk.features.columns import column_key
from streamk.state import State

Floats = NDArray[np.float64]

ENTITY = "@entity"
"""End of the name of the column with the numbers of a field's entities."""
SPANS = 3_600.0, 86_400.0, 2_592_000.0
"""Seconds of the usual spans: an hour, a day, 30 days."""
MAX_ENTITIES = 1_000_000
LABEL_CLASSES = 8
"""Classes, at most, of which a table has shares; the first one has none, nor have later ones."""
_FIRST_ROWS = 64
_TOGETHER = 256
"""Events that are followed before other threads may go on."""
_UNITS = ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)
_OWNER = "a table of entities"


def entity_number(text: str) -> float:
    """Return the number of an entity, by which tables know it: 52 bits of a hash of its text.

    Among a million entities two have the same with a chance of 1 in 9,000.

    >>> entity_number("ada") == entity_number("ada") < 2.0**52
    True
    """
    return float(column_key(text) >> 12)


def span_name(seconds: float) -> str:
    """Return a span as the names of columns have it.

    >>> [span_name(seconds) for seconds in (90, 3600, 86400, 2592000, 0.5)]
    ['90s', '1h', '1d', '30d', '0.5s']
    """
    for unit, size in _UNITS:
        if seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds!r}s"


class EntityTable:
    """Statistics of the entities of one field, see the top of this module.

    Parameters
    ----------
    name : str
        The field, "user", with which the names of the columns begin.
    numbers : sequence of str, optional
        Names of the numbers of events; `add_columns` adds more.
    classes : bool, default False
        Whether labels are numbers of classes, 0, 1, ..., in place of numbers.
    spans : sequence of float, default an hour, a day and 30 days
        In seconds, or in whatever unit the times are.
    max_entities : int, default 1,000,000

    Attributes
    ----------
    columns : tuple of str
        Names of what `follow` writes, in their order; new ones are the last:

        - ``user.count`` and ``user.since``, the number of events and the time since the last, NaN
          of an unseen entity; ``user.log_count_1h``, the logarithm of 1 and the events in a span;
        - ``user.amount.mean``, ``user.amount.spread``, the root of the variance, and both over each
          span, ``user.amount.mean_1h``; ``user.amount.last``, the last one that was known; and
          ``user.amount.zscore``, by how many spreads that of the event is above the mean, at most
          1,000 either way;
        - the same of the label, ``user.label.mean``, but the zscore. Of classes ``label`` is
          whether it is the second one, and ``label=name`` whether it is that of `add_class`; these
          have no spreads.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, or a name comes twice.

    Examples
    --------
    >>> table = EntityTable("user", ["amount"], spans=[3600])
    >>> ada = entity_number("ada")
    >>> found = table.follow([ada, ada], [0.0, 60.0], [[10.0], [30.0]], [1.0, np.nan])
    >>> found[1, [table.columns.index(f"user.{name}") for name in ("count", "amount.last")]]
    array([ 1., 10.])
    """

    TYPE = "entities"

    def __init__(
        self,
        name: str,
        numbers: Sequence[str] = (),
        *,
        classes: bool = False,
        spans: Sequence[float] = SPANS,
        max_entities: int = MAX_ENTITIES,
    ) -> None:
        for span in spans:
            if not (isinstance(span, int | float) and 0.0 < span <= LARGEST):
                raise InvalidInput(f"spans={shown(spans)} must be numbers of seconds above 0")
        if len(set(spans)) < len(spans):
            raise InvalidInput(f"spans={shown(spans)} has one twice; leave it out")
        if not isinstance(max_entities, int) or not 1 <= max_entities < 2**31:
            raise InvalidInput(
                f"max_entities={max_entities!r} must be a whole number from 1 to 2^31 - 1"
            )
        self.name, self.classes = name, classes
        self.spans = tuple(float(span) for span in spans)
        self.now = math.nan
        """The time of the event that came last, NaN before the first that has one."""
        self._spans = np.array(self.spans)
        self._names: list[str] = []
        self._sources = np.zeros(0, np.int64)
        self._population = np.zeros((0, MOMENTS))
        self._ends = np.array([0, -1, -1, 0, max_entities])
        self._rows = np.zeros((min(_FIRST_ROWS, max_entities), HEAD + len(spans)))
        self._links: NDArray[np.int32]
        self._changed: NDArray[np.uint8]
        self._chain(np.arange(0))
        self._widen(["label"], [LABEL - 2 if classes else LABEL])
        self.add_columns(numbers)

    # What it is

    def __len__(self) -> int:
        return int(self._ends[USED])

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers of events, in their order."""
        return self._numbers

    @property
    def n_classes(self) -> int:
        """Number of classes with shares, including the first, which is the remainder."""
        return 1 + int((self._sources < 0).sum())

    @property
    def max_entities(self) -> int:
        """Entities that have a row, at most."""
        return int(self._ends[LIMIT])

    @property
    def evicted(self) -> int:
        """Entities that made room for others."""
        return int(self._ends[EVICTED])

    @property
    def nbytes(self) -> int:
        """Memory of the table, in bytes."""
        return self._rows.nbytes + self._index.nbytes + self._links.nbytes

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of what `follow` writes, in their order."""
        return self._columns

    def _name_columns(self) -> None:
        pairs = zip(self._names, self._sources.tolist(), strict=True)
        self._numbers = tuple(name for name, source in pairs if source >= 0)
        times = ["", *(f"_{span_name(span)}" for span in self.spans)]
        found = ["count", "since", *(f"log_count{time}" for time in times[1:])]
        for name, source in zip(self._names, self._sources.tolist(), strict=True):
            found += [f"{name}.mean{time}" for time in times]
            if source >= LABEL:
                found += [f"{name}.spread{time}" for time in times]
            found += [f"{name}.last", *([f"{name}.zscore"] if source >= 0 else [])]
        self._columns = tuple(f"{self.name}.{one}" for one in found)

    # Events

    def follow(self, keys: ArrayLike, times: ArrayLike, X: ArrayLike, y: ArrayLike) -> Floats:
        """Write the columns of events in their order, and take each in after that.

        Parameters
        ----------
        keys : (n,)
            Numbers of entities, by `entity_number` or any others. Of an event whose entity is
            missing (NaN) all columns are NaN, and nothing is taken in.
        times : (n,)
            NaN where there is none.
        X : (n, numbers)
            NaN where one is missing: it is left out of that number's statistics.
        y : (n,)
            Labels, NaN where one is not known yet; see `learn_labels`.

        Returns
        -------
        float64 array of shape (n, columns)
            Bounded by 1e150.
        """
        events = self._checked(keys, times, X, y)
        out = np.empty((len(events[0]), len(self._columns)))
        done = 0
        while done < len(out):
            some = slice(done, done + _TOGETHER)
            done += self._call(events, some, out, learns=True)
            if done < min(some.stop, len(out)):
                self._resize(min(2 * len(self._rows), self.max_entities))
        known = events[1][~np.isnan(events[1])]
        self.now = float(known[-1]) if len(known) else self.now
        return out

    def look(self, keys: ArrayLike, times: ArrayLike, X: ArrayLike) -> Floats:
        """Return what `follow` would write for each event if it came next; take in nothing."""
        events = self._checked(keys, times, X, np.full(len(np.asarray(keys)), np.nan))
        out = np.empty((len(events[0]), len(self._columns)))
        for first in range(0, len(out), _TOGETHER):
            self._call(events, slice(first, first + _TOGETHER), out, learns=False)
        return out

    def learn_labels(self, keys: ArrayLike, times: ArrayLike, y: ArrayLike) -> None:
        """Take in labels of earlier events, which come at such times, in their order.

        Nothing comes of that of an entity that has no row.
        """
        keys, times, y = (_line(one) for one in (keys, times, y))
        table = self._rows, self._changed, self._index, self._population
        loops.entities.learn_labels(keys, times, y, self._sources, self._spans, *table)

    def _checked(self, *given: ArrayLike) -> list[Floats]:
        keys, times, X, y = given
        events = [_line(keys), _line(times), np.ascontiguousarray(X, np.float64), _line(y)]
        n, wide = len(events[0]), len(self.numbers)
        if events[2].shape != (n, wide) or len(events[1]) != n or len(events[3]) != n:
            raise InvalidInput(
                f"{n} keys of entities came with {len(events[1])} times, {len(events[3])} labels "
                f"and numbers of the shape {events[2].shape}, not {(n, wide)}"
            )
        return events

    def _call(self, events: list[Floats], some: slice, out: Floats, *, learns: bool) -> int:
        """Follow some events, and return how many until the table needs more rows."""
        part = [array[some] for array in events]
        known = self._sources, self._spans
        rows = self._rows, self._changed
        table = *rows, self._index, self._links, self._ends, self._population
        return int(loops.entities.follow(*part, learns, *known, *table, out[some]))

    # Columns

    def add_columns(self, numbers: Sequence[str]) -> None:
        """Append numeric fields without a past yet. Raises `InvalidInput`."""
        first = len(self.numbers)
        self._widen(numbers, range(first, first + len(numbers)))

    def add_class(self, label: object) -> None:
        """Append the share of the next class after the second one, which no label was so far.

        Nothing comes of classes beyond `LABEL_CLASSES`.
        """
        if self.n_classes < LABEL_CLASSES:
            self._widen([f"label={label}"], [LABEL - 1 - self.n_classes])

    def _widen(self, names: Sequence[str], sources: Sequence[int]) -> None:
        """Append statistics, of shares with the weights of the label's."""
        if len({*self._names, *names}) < len(self._names) + len(names):
            raise InvalidInput(f"a number of {self.name!r} comes twice: {', '.join(names)}")
        used, block = len(self), self._block
        more = np.zeros((len(self._rows), len(names), block))
        more[:used, :, -1] = np.nan
        moments = np.zeros((len(names), MOMENTS))
        if sources and sources[0] < LABEL and self._names:
            first = self._rows[:used, self._head : self._head + block]
            more[:used, :, : len(self.spans) + 1] = first[:, None, : len(self.spans) + 1]
            more[:used, :, -1] = np.where(np.isnan(first[:, -1:]), np.nan, 0.0)
            moments[:] = self._population[0] * (1, 0, 0, 0, 1, 1)
        self._rows = np.concatenate(
            [self._rows, more.reshape(len(more), len(names) * block)], axis=1
        )
        self._population = np.concatenate([self._population, moments])
        self._sources = np.concatenate([self._sources, np.array(sources, np.int64)])
        self._names += names
        self._name_columns()

    # Rows

    @property
    def _head(self) -> int:
        """Numbers of a row before those of the statistics."""
        return HEAD + len(self.spans)

    @property
    def _block(self) -> int:
        """Numbers of a statistic."""
        return 3 * len(self.spans) + 4

    def _resize(self, rows: int) -> None:
        """Have room for so many rows, more than before."""
        more = rows - len(self._rows)
        self._rows = np.pad(self._rows, ((0, more), (0, 0)))
        self._links = np.pad(self._links, ((0, more), (0, 0)))
        self._changed = np.pad(self._changed, (0, more), constant_values=1)
        self._enter()

    def _chain(self, order: NDArray[np.int64]) -> None:
        """Chain the rows, of which these are in use, the coldest first, and index them."""
        self._links = np.zeros((len(self._rows), 2), np.int32)
        ends = np.concatenate([[-1], order, [-1]])
        self._links[order, 0], self._links[order, 1] = ends[:-2], ends[2:]
        self._ends[OLDEST], self._ends[NEWEST] = (order[0], order[-1]) if len(order) else (-1, -1)
        self._changed = np.ones(len(self._rows), np.uint8)
        self._enter()

    def _enter(self) -> None:
        self._index = np.zeros(2 << (len(self._rows) - 1).bit_length(), np.int64)
        loops.entities.enter(self._rows, len(self), self._index)

    def row(self, key: float) -> dict[str, float] | None:
        """Return the statistics of an entity, by name; None if it has no row.

        Weights and log counts are those at its own times.
        """
        place = loops.entities.find(float(key), self._rows, self._index)
        if place < 0:
            return None
        row = self._rows[place].tolist()
        found = {"count": row[COUNT], "time": row[TIME], "label_time": row[LABEL_TIME]}
        times = ["", *(f"_{span_name(span)}" for span in self.spans)]
        found |= zip((f"count{time}" for time in times[1:]), row[HEAD:], strict=False)
        kept = [f"{one}{time}" for one in ("weight", "mean", "variance") for time in times]
        names = [f"{name}.{one}" for name in self._names for one in (*kept, "last")]
        return found | dict(zip(names, row[self._head :], strict=True))

    def forget(self, key: float) -> bool:
        """Remove an entity; return whether it had a row. The population's moments stay."""
        table = self._rows, self._changed, self._index, self._links, self._ends
        return bool(loops.entities.forget(float(key), *table))

    def _in_order(self) -> NDArray[np.int64]:
        """Return the places of the rows, the coldest first."""
        places = np.empty(len(self), np.int64)
        loops.entities.order(self._links, self._ends, places)
        return places

    def _lay(self, rows: Floats) -> None:
        """Have such rows, from the coldest on."""
        used = min(len(rows), self.max_entities)
        self._ends[EVICTED] += len(rows) - used
        self._place(rows[len(rows) - used :], np.arange(used))

    def _place(self, rows: Floats, order: NDArray[np.int64]) -> None:
        """Have such rows in their places, and in this order, the coldest first."""
        most, used = self.max_entities, len(rows)
        self._ends[USED] = used
        room = max(min(_FIRST_ROWS, most), min(most, 1 << max(0, used - 1).bit_length()))
        self._rows = np.zeros((room, rows.shape[1]))
        self._rows[:used] = rows
        self._chain(order)

    # States

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        return self._state(self._rows[: len(self)].copy())

    def lent_state(self) -> State:
        """Return `state()` for whoever writes it down before this learns again: rows are lent."""
        lent = self._state(self._rows[: len(self)])
        return replace(lent, changed={"rows": self._changed})

    def _state(self, rows: Floats) -> State:
        header: dict[str, Any] = {
            "type": self.TYPE,
            "name": self.name,
            "classes": self.classes,
            "max_entities": self.max_entities,
            "evicted": self.evicted,
            "names": list(self._names),
        }
        own = {"spans": self._spans, "now": np.array([self.now]), "sources": self._sources}
        own["population"] = self._population
        arrays = {"rows": rows, "order": self._in_order()}
        return State(header, {**arrays, **{name: one.copy() for name, one in own.items()}})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the table of a state, or raise StateError."""
        header: Any = state.expect(cls.TYPE).header
        with reading(_OWNER):
            names = [str(name) for name in listed(header, "names", _OWNER)]
            known = {"one": 1, "statistics": len(names)}
            arrays, sizes = taken(_DECLARED, state.arrays, known, _OWNER)
            most = count(header, "max_entities", _OWNER, least=1)
            sources, rows, order = arrays["sources"], arrays["rows"], arrays["order"]
            is_classes = flag(header, "classes", _OWNER)
            try:
                table = cls(
                    str(header["name"]),
                    classes=is_classes,
                    spans=arrays["spans"].tolist(),
                    max_entities=most,
                )
                table._widen(names[1:], sources[1:].tolist())
            except InvalidInput as error:
                raise StateError(f"{_OWNER} cannot have these options: {error}") from error
            if not _are_sources(sources.tolist(), is_classes):
                raise StateError(f"array 'sources' of {_OWNER} is not of statistics in their order")
            if rows.shape[1] != table._rows.shape[1]:
                raise StateError(f"array 'rows' of {_OWNER} has not the numbers of its statistics")
            taken(_OF_ROWS, table._parts(rows), sizes, _OWNER)
            if len(rows) > most or len(np.unique(rows[:, KEY])) < len(rows):
                raise StateError(f"array 'rows' of {_OWNER} has an entity twice, or too many")
            if not np.array_equal(np.sort(order), np.arange(len(rows))):
                raise StateError(f"array 'order' of {_OWNER} has not each row once")
            table._ends[EVICTED] = count(header, "evicted", _OWNER)
        within(np.delete(arrays["population"], 1, axis=1), NON_NEGATIVE, "population", _OWNER)
        table._place(rows, order)
        table._population = arrays["population"].copy()
        table.now = float(arrays["now"][0])
        return table

    def _parts(self, rows: Floats) -> dict[str, Floats]:
        """Return what rows hold, by names."""
        head, wide = self._head, len(self.spans) + 1
        statistics = rows[:, head:].reshape(len(rows), len(self._names), self._block)
        found = {"keys": rows[:, KEY], "counts": rows[:, COUNT], "recent": rows[:, HEAD:head]}
        found["times"] = rows[:, TIME : LABEL_TIME + 1]
        parts = np.split(statistics, np.arange(1, 4) * wide, axis=2)
        return found | dict(zip(("weights", "means", "variances", "last"), parts, strict=True))

    # Merging

    def merge(self, other: EntityTable, *, with_labels: bool = True) -> None:
        """Take in the entities of another table of the same field.

        Of an entity of both that row stays that has more events, and of as many the one that was
        seen later. The rows are then in the order of their entities' last times, those without
        before, and the coldest make room. The population's moments are those of the table that has
        more values. Without labels, where classes are in another order, those of the other's
        entities are as if none had been known.

        Raises
        ------
        InvalidInput
            If the two differ in field, spans or the kind of labels.
        """
        for name in ("name", "classes", "spans"):
            if getattr(self, name) != getattr(other, name):
                raise InvalidInput(
                    f"cannot merge tables of entities that differ in {name}:"
                    f" {getattr(self, name)!r} and {getattr(other, name)!r}"
                )
        other = type(self).from_state(other.state())
        mine, theirs = ([n for n in one._names if n.startswith("label=")] for one in (self, other))
        both = min(len(mine), len(theirs))
        if not with_labels or mine[:both] != theirs[:both]:
            other._drop_labels()
        for one, two in ((self, other), (other, self)):
            one._follow_names(two)
        places = [other._names.index(name) for name in self._names]
        rows = other._rows[other._in_order()]
        statistics = rows[:, self._head :].reshape(len(rows), len(places), self._block)[:, places]
        wide = len(places) * self._block
        rows = np.column_stack([rows[:, : self._head], statistics.reshape(len(rows), wide)])
        self._lay(_joined(self._rows[self._in_order()], rows))
        moments = other._population[places]
        more = moments[:, 0] > self._population[:, 0]
        self._population[more] = moments[more]
        self._ends[EVICTED] += other.evicted
        self.now = float(np.fmax(self.now, other.now))

    def _follow_names(self, other: EntityTable) -> None:
        """Have all statistics that another table has."""
        self.add_columns([name for name in other.numbers if name not in self._names])
        for name, source in zip(other._names, other._sources.tolist(), strict=True):
            if source < LABEL and name not in self._names:
                self.add_class(name.removeprefix("label="))

    def _drop_labels(self) -> None:
        """Forget all labels, and the shares of further classes."""
        block, stays = self._block, self._sources >= 0
        stays[0] = True
        first = slice(self._head, self._head + block)
        self._rows[:, LABEL_TIME], self._rows[:, first] = np.nan, 0.0
        self._rows[:, first.stop - 1] = np.nan
        self._population[0] = 0.0
        head = np.ones(self._head, bool)
        self._rows = np.ascontiguousarray(self._rows[:, np.append(head, np.repeat(stays, block))])
        self._population, self._sources = self._population[stays], self._sources[stays]
        self._names = [name for name, stay in zip(self._names, stays, strict=True) if stay]
        self._name_columns()


def _joined(mine: Floats, theirs: Floats) -> Floats:
    """Return rows of both, one of each entity, in the order of their last times."""
    rows = np.concatenate([mine, theirs])
    late = np.where(np.isnan(rows[:, TIME]), -math.inf, rows[:, TIME])
    better = np.lexsort((-np.arange(len(rows)), late, rows[:, COUNT], rows[:, KEY]))
    keys, best = rows[better, KEY], np.ones(len(rows), bool)
    best[:-1] = keys[1:] != keys[:-1]
    kept = np.sort(better[best])
    found: Floats = rows[kept[np.argsort(late[kept], kind="stable")]]
    return found


def _are_sources(sources: list[int], classes: bool) -> bool:
    """Return whether there are the label, numbers in their order, and shares in theirs."""
    numbers = [source for source in sources if source >= 0]
    labels = [source for source in sources if source < 0]
    shares = [LABEL - 2 - n for n in range(len(labels))] if classes else [LABEL]
    return sources[:1] == shares[:1] and labels == shares and numbers == [*range(len(numbers))]


def _line(given: ArrayLike) -> Floats:
    line = np.ascontiguousarray(given, np.float64)
    if line.ndim != 1:
        raise InvalidInput(f"keys, times and labels must have the shape (n,), not {line.shape}")
    if (np.abs(line) > LARGEST).any():
        raise InvalidInput(f"keys, times and labels must lie between {-LARGEST:g} and {LARGEST:g}")
    return line


_MANY = Domain(least=0.0, most=2.0**53)
_VALUES = Domain(least=-LARGEST, most=LARGEST)
_VALUES_OR_NONE = Domain(least=-LARGEST, most=LARGEST, missing=True)
_SUMS = Domain(least=-LARGEST, most=4.0 * LARGEST**2)
_SQUARES = Domain(least=0.0, most=4.0 * LARGEST**2)
_BY_SPAN = "rows", "statistics", ("spans", 1)
_DECLARED = (
    Declared("spans", "float64", ("spans",), Domain(least=math.ulp(0.0), most=LARGEST)),
    Declared("sources", "int64", ("statistics",)),
    Declared("population", "float64", ("statistics", MOMENTS), _SUMS),
    Declared("now", "float64", ("one",), _VALUES_OR_NONE),
    Declared("rows", "float64", ("rows", "numbers"), ANY),
    Declared("order", "int64", ("rows",), NON_NEGATIVE),
)
_OF_ROWS = (
    Declared("keys", "float64", ("rows",), FINITE),
    Declared("counts", "float64", ("rows",), Domain(least=1.0, most=2.0**53, whole=True)),
    Declared("times", "float64", ("rows", 2), _VALUES_OR_NONE),
    Declared("recent", "float64", ("rows", "spans"), _MANY),
    Declared("weights", "float64", _BY_SPAN, _MANY),
    Declared("means", "float64", _BY_SPAN, _VALUES),
    Declared("variances", "float64", _BY_SPAN, _SQUARES),
    Declared("last", "float64", ("rows", "statistics", 1), _VALUES_OR_NONE),
)
