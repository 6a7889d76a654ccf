"""Robust location, scale and rank of columns, which change at few moments of a stream only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import FAIR_COIN, HIGHEST_RANK, OUTERMOST, SAMPLED, TAG_SAMPLE, numbered_words
from streamk.declared import FLAGS, Declared, Domain, count, number, reading, taken
from streamk.errors import StateError
from streamk.features.random_features import check_seed
from streamk.state import JSON, State

KNOTS = 32
"""Quantiles kept of each column."""
DECILES = 2.563
"""Distance of the first and last decile of a normal law, in standard deviations."""
LEAST = 1e-45
"""Scale up to which values count as equal: what is divided by it would not be finite."""


def quantiles(
    S: NDArray[np.float64], n: NDArray[np.intp], parts: Sequence[int], whole: int
) -> NDArray[np.float64]:
    """Quantiles at the levels parts / whole of rows whose first n values are sorted and known.

    Places between two values are found in whole numbers, so that a value that is there often is
    met exactly.
    """
    low, rest = np.divmod(np.multiply.outer(n - 1, np.asarray(parts)), whole)
    below = np.take_along_axis(S, low, axis=1)
    above = np.take_along_axis(S, np.minimum(low + 1, n[:, None] - 1), axis=1)
    return np.asarray(below + (above - below) * (rest / whole))


def location(
    S: NDArray[np.float64], n: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the medians and scales of rows whose first n values are sorted and known."""
    least, tenth, median, ninetieth, most = quantiles(S, n, (1, 10, 50, 90, 99), 100).T
    scale = (ninetieth - tenth) / DECILES
    flat = np.flatnonzero(scale == 0.0)
    if len(flat):
        S, n, least, most = S[flat], n[flat], least[flat], most[flat]
        bounded = least < most
        least = np.where(bounded, least, S[:, 0])
        most = np.where(bounded, most, S[np.arange(len(S)), n - 1])
        scale[flat] = deviation(S, n, least, most)
    return median, np.where(scale > LEAST, scale, 1.0)


def deviation(
    S: NDArray[np.float64],
    n: NDArray[np.intp],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the deviations of the rows' known values within bounds; 1 where the bounds meet."""
    known = ~np.isnan(S)
    V = np.where(known, np.clip(S, least[:, None], most[:, None]) - least[:, None], 0.0)
    mean = V.sum(axis=1) / n
    squares = np.where(known, V - mean[:, None], 0.0) ** 2
    return np.where(least < most, np.sqrt(squares.sum(axis=1) / n), 1.0)


def rank_shift(old: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much any knot's rank, of the old or the new ones, moves from old to new."""
    V = np.concatenate([old, new], axis=1)
    return np.asarray(np.abs(midranks(V, old) - midranks(V, new)).max(axis=1))


def midranks(V: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of values (d, k) by the knots of their columns, as `rank_row` has them."""
    low = np.count_nonzero(knots[:, None, :] < V[:, :, None], axis=2)
    high = np.count_nonzero(knots[:, None, :] <= V[:, :, None], axis=2)
    left, right = np.maximum(low - 1, 0), np.minimum(low, KNOTS - 1)
    start = np.take_along_axis(knots, left, axis=1)
    gap = np.take_along_axis(knots, right, axis=1) - start
    level = left + (V - start) / np.where(gap > 0.0, gap, 1.0)
    level = np.where(high > low, 0.5 * (low + high - 1), level)
    level = np.where(high == 0, 0.0, np.where(low == KNOTS, KNOTS, level))
    return np.asarray(np.minimum(level / (KNOTS - 1), HIGHEST_RANK))


_JOIN = 0x6A6F696E
"""Makes another seed of a sample's, for the draws of joining."""
WINDOW = 16
"""Capacities of events that the sample is uniform over; older ones fade exponentially."""


class Reservoir:
    """A sample of rows, in which the first rows are the sample that a smaller one would hold.

    The event numbered i (from 0) draws a place among ``n = min(i + 1, WINDOW * capacity)``. While
    the sample is not full, the row at that place moves to place i and the event takes its place;
    later the event replaces the row at that place, or is left out where the place is beyond the
    capacity (Vitter 1985, Algorithm R). What is drawn is a function of seed, i and capacity alone,
    so nothing but the number of events has to be remembered, and it is drawn ahead for many events
    at once.

    Examples
    --------
    >>> import numpy as np
    >>> sample = Reservoir(1, capacity=4, seed=0)
    >>> sample.plan(0, 100)
    >>> len(sample.take(np.arange(100.0)[:, None], 0)), sample.rows.shape
    (16, (4, 1))
    """

    def __init__(self, d: int, *, capacity: int, seed: int) -> None:
        self.capacity = capacity
        self.seed = seed
        self._memory: NDArray[np.float64] = np.empty((0, d))
        self._filled = 0
        self._numbers: list[int] = []
        self._places: list[int] = []
        self._at = 0

    @property
    def rows(self) -> NDArray[np.float64]:
        """The rows sampled, NaN where a value was missing."""
        return self._memory[: self._filled]

    @rows.setter
    def rows(self, rows: NDArray[np.float64]) -> None:
        self._memory, self._filled = rows, len(rows)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._memory.nbytes

    def plan(self, first: int, stop: int) -> None:
        """Draw the places of the events numbered first...stop."""
        numbers = np.arange(first, stop)
        bound = np.minimum(numbers + 1, WINDOW * self.capacity).astype(np.uint64)
        places = _words(self.seed, first, stop) * bound >> np.uint64(32)
        taken = places < self.capacity
        self._numbers, self._places = numbers[taken].tolist(), places[taken].tolist()
        self._at = 0

    def next(self) -> int | None:
        """Return the number of the next event that is planned to be taken."""
        return self._numbers[self._at] if self._at < len(self._numbers) else None

    def take(self, X: NDArray[np.float64], first: int) -> NDArray[np.float64]:
        """Take those of the events X (n, d), numbered from `first`, that were drawn."""
        start = self._at
        self._at = stop = bisect_left(self._numbers, first + len(X), lo=start)
        numbers = self._numbers[start:stop]
        taken = X if len(numbers) == len(X) else X[[number - first for number in numbers]]
        if not numbers:
            return taken
        bounded = np.minimum(np.maximum(taken, -SAMPLED), SAMPLED)
        for row, event, place in zip(bounded, numbers, self._places[start:stop], strict=True):
            if event < self.capacity:
                self._append(event, place)
            self._memory[place] = row
        return taken

    def join(self, other: Reservoir, share: float, number: int) -> None:
        """Take in a share of the rows of another sample of the same seed and capacity.

        Samples of one seed replace the same places at the same numbers of events, so where two
        that were one differ in a place, both have taken an event of their own since. One of the
        two is drawn, by counters of their own: the number of the draw changes with each
        sample to join. The share is from 0 to 1.
        """
        both = min(self._filled, other._filled)
        words = _words(self.seed ^ _JOIN, number, number + max(self._filled, other._filled))
        drawn = words < np.uint64(round(share * 2**32))
        mine, theirs = self.rows[:both], other.rows[:both]
        taken = drawn[:both, None]
        rows = np.where(taken, theirs, mine)
        longer = self if self._filled >= other._filled else other
        self.rows = np.concatenate([rows, longer.rows[both:]])

    def undo(self, stop: int | None) -> Callable[[], None]:
        """Return a function that undoes taking events before number `stop`, None for any."""
        before = dict(vars(self))
        places: Iterable[int] = range(self._filled)
        if stop is not None:
            end = bisect_left(self._numbers, stop, lo=self._at)
            places = [place for place in self._places[self._at : end] if place < self._filled]
        kept = np.unique(np.fromiter(places, np.intp))
        rows = self._memory[kept]

        def back() -> None:
            vars(self).update(before)
            self._memory[kept] = rows

        return back

    def _append(self, number: int, place: int) -> None:
        if number == len(self._memory):
            grown = (min(self.capacity, max(16, 2 * number)), self._memory.shape[1])
            memory = np.empty(grown)
            memory[:number] = self._memory
            self._memory = memory
        self._memory[number] = self._memory[place]
        self._filled = number + 1

    def shrink(self, capacity: int) -> None:
        """Keep the first rows, the sample that a reservoir of that capacity would hold.

        That is so up to the window of the smaller one; after it they are a fair part of the sample.
        What was planned is void.
        """
        self.capacity = capacity
        self.rows = self.rows[:capacity].copy()


def _words(seed: int, first: int, stop: int) -> NDArray[Any]:
    """Return 32 random bits of each event number, in uint64."""
    words = numbered_words(first // 4, -(-stop // 4), TAG_SAMPLE, seed)
    return words.reshape(-1)[first % 4 :][: stop - first]


_LONGEST = 8192
"""Most events between two estimates."""
_FEWEST, _MOST = 16, 2048
"""Rows of the sample, whatever its budget."""
_SHIFT, _STRETCH, _RANKS = 0.15, 0.15, 0.03
"""Least change by which a center (in scales), a scale or distance (relative to the old one) and a
rank are replaced. Ranks of two samples of 2048 from one law often differ by 0.03 somewhere:
at 0.02 the knots of a stream at rest were replaced at nearly every moment, at 0.03 at half of them,
and errors are the same; at 0.04 at fewer, and some streams are predicted worse."""
_PAIRS = 2048
"""Pairs of rows, about, that the distance is the median of."""
_BLOCK = 1 << 18
"""Values that are sorted or compared at once."""


class RunningQuantiles:
    """Median, scale and quantiles of each column, estimated from a sample at few moments.

    The estimates are made anew after event 1, 2, 4, ... 8192 and then after every 8192 events.
    Between these moments they do not change, and most events cost no more than one comparison.
    Up to 16 times the sample's rows all events count alike, from then on older ones fade. An
    estimate replaces what is in use only where it differs by more than the noise of a sample: a
    scale by 15%, a center by 0.15 scales, a rank by 0.03, the distance by 15%. A column without a
    value in the sample keeps what it has.

    How events are divided into calls of `observe` changes nothing. It writes into the arrays that
    are there; `add_columns` makes new ones.

    Parameters
    ----------
    d : int
        Number of columns.
    seed : int, default 0
        0 to 2^64 - 1; what is sampled is a function of it and of the events' numbers.
    budget : int, default 8 MiB
        Memory of the sample, in bytes. It holds 16 rows at least and 2048 at most, in double
        precision: columns far from 0 whose values are close together, such as times in seconds
        since 1970, are scaled and ranked as if they were near it.

    Attributes
    ----------
    center : array of shape (d,), float64
        Median of a numeric column, 0 of an indicator.
    inverse : array of shape (d,), float64
        1 / scale. The scale is what the first and last decile are apart, over 2.563: a normal
        law's deviation. Where they are equal it is the deviation of the values, bounded by their
        quantiles at 1% and 99% if those differ; 1 where all values are equal; 1/2 of an indicator.
    knots : array of shape (d, KNOTS), float64
        Quantiles at the levels 0/31 ... 31/31. Those of an indicator are old and unused.
    indicator : array of shape (d,), bool
        Whether the column has held nothing but 0 and 1 in all events that were sampled, also in
        those that have left the sample.
    distance : float
        Median distance of two sampled events that are scaled, bounded by 8 and 0 where missing.
    version : int
        Counts the changes of these.

    Examples
    --------
    >>> import numpy as np
    >>> quantiles = RunningQuantiles(2)
    >>> X = np.column_stack([np.arange(64.0), np.arange(64) % 2])
    >>> quantiles.observe(X)
    True
    >>> quantiles.center, quantiles.inverse.round(4), quantiles.indicator
    (array([31.5, 0. ]), array([0.0509, 2. ]), array([False, True]))
    >>> quantiles.until_change(), quantiles.observe(X[:63]), quantiles.observe(X[63:])
    (63, False, False)
    """

    TYPE = "running-quantiles"

    def __init__(self, d: int = 0, *, seed: int = 0, budget: int = 8 << 20) -> None:
        self.center = np.zeros(d)
        self.inverse = np.ones(d)
        self.knots = np.zeros((d, KNOTS))
        self.indicator = np.zeros(d, dtype=bool)
        self.distance = 1.0
        self.version = 0
        self._numeric = np.zeros(d, dtype=bool)
        self._budget = budget
        self._all_numeric = False
        self._events = self._moment = self._due = 0
        capacity = _capacity(d, budget)
        self._sample = Reservoir(d, capacity=capacity, seed=check_seed(seed))
        self._plan()

    def __len__(self) -> int:
        return len(self.center)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        own: int = sum(getattr(self, name).nbytes for name in _ARRAYS.values())
        return self._sample.nbytes + own

    @property
    def moment(self) -> int:
        """Number of events after which estimates are made next."""
        return self._moment

    @property
    def sample(self) -> NDArray[np.float64]:
        """The rows that the estimates are taken of, NaN where a value was missing."""
        return self._sample.rows

    def observe(self, X: NDArray[np.float64]) -> bool:
        """Take in events X, float64 of shape (n, d); NaN is missing, all else is finite."""
        events = self._events + len(X)
        if events < self._due:
            self._events = events
            return False
        return self._observe(X)

    def until_change(self) -> int:
        """Return how many events may be observed at once if they are learned after it.

        All of these are then learned by the estimates by which they would be learned one at a time:
        none but the first of them is at a moment at which estimates are made.
        """
        moment = self._moment
        if self._events + 1 == moment:
            moment = _moment_after(moment)
        return moment - 1 - self._events

    def undo(self, n: int) -> Callable[[], None]:
        """Return a function that undoes the taking in of the next n events or less."""
        stop = self._events + n
        at_rest = stop < self._moment  # no estimates are made meanwhile
        sample = self._sample.undo(stop if at_rest else None)
        before = dict(vars(self))
        changed = ("_numeric",) if at_rest else _ARRAYS.values()
        arrays = {name: getattr(self, name).copy() for name in changed}

        def back() -> None:
            sample()
            vars(self).update(before | arrays)

        return back

    def _observe(self, X: NDArray[np.float64]) -> bool:
        before, start = self.version, 0
        while start < len(X):
            stop = min(len(X), start + self._moment - self._events)
            self._note_numbers(self._sample.take(X[start:stop], self._events))
            self._events += stop - start
            start = stop
            if self._events == self._moment:
                self._estimate()
                self._plan()
        self._find_due()
        return self.version > before

    def _note_numbers(self, X: NDArray[np.float64]) -> None:
        """Remember which columns have held other numbers than 0 and 1."""
        if self._all_numeric or not len(X):
            return
        self._numeric |= (~np.isnan(X) & (X != 0.0) & (X != 1.0)).any(axis=0)
        self._all_numeric = bool(self._numeric.all())

    def _plan(self) -> None:
        """Draw which events will be sampled up to the next estimate."""
        self._moment = _moment_after(self._events)
        self._all_numeric = bool(self._numeric.all())
        self._sample.plan(self._events, self._moment)
        self._find_due()

    def _find_due(self) -> None:
        """Note the number of events at which there is something to do."""
        number = self._sample.next()
        self._due = self._moment if number is None else number + 1

    # --- estimates ----------------------------------------------------------------------------

    def _estimate(self) -> None:
        changed = False
        for block in self._blocks():
            changed |= self._estimate_columns(block)
        distance = self._find_distance()
        if abs(distance / self.distance - 1.0) > _STRETCH:
            self.distance, changed = distance, True
        self.version += changed

    def _blocks(self) -> Iterator[slice]:
        width = max(1, _BLOCK // max(len(self._sample.rows), KNOTS * KNOTS))
        for start in range(0, len(self), width):
            yield slice(start, start + width)

    def _estimate_columns(self, block: slice) -> bool:
        """Replace what has moved too far; return whether anything has."""
        S = np.sort(self._sample.rows[:, block].T, axis=1)
        n = np.count_nonzero(~np.isnan(S), axis=1)
        columns = block.start + np.flatnonzero(n)
        if not len(columns):
            return False
        S, n = S[n > 0], n[n > 0]
        indicator = ~self._numeric[columns]
        median, scale = location(S, n)
        center = np.where(indicator, 0.0, median)
        inverse = 1.0 / np.where(indicator, FAIR_COIN, scale)

        turned = indicator != self.indicator[columns]
        moved = turned | self._moved(columns, center, inverse)
        self.indicator[columns] = indicator
        self.center[columns[moved]] = center[moved]
        self.inverse[columns[moved]] = inverse[moved]

        knots = quantiles(S, n, range(KNOTS), KNOTS - 1)
        reranked, own = turned.copy(), self.knots[columns]
        compared = np.flatnonzero(~turned & ~indicator & (knots != own).any(axis=1))
        reranked[compared] = rank_shift(own[compared], knots[compared]) > _RANKS
        self.knots[columns[reranked]] = knots[reranked]
        return bool(moved.any() or reranked.any())

    def _find_distance(self) -> float:
        """Return the median distance of pairs of rows.

        Their order is random, so that each one and the next few after it are pairs enough.
        """
        rows = self._sample.rows
        m = len(rows)
        if m < 2:
            return 1.0
        squares = np.zeros((min(m // 2, -(-_PAIRS // m)), m))
        for block in self._blocks():
            Z = (rows[:, block] - self.center[block]) * self.inverse[block]
            Z = np.minimum(np.maximum(Z, -OUTERMOST), OUTERMOST)
            Z = np.where(np.isnan(Z), 0.0, Z)
            for k, sums in enumerate(squares, start=1):
                sums += np.square(Z - np.roll(Z, -k, axis=0)).sum(axis=1)
        return float(np.median(np.sqrt(squares))) or 1.0

    def join(self, other: RunningQuantiles, share: float, number: int) -> None:
        """Take in a share of the sample of another one of the same columns and seed.

        What is in use stays until the next estimates, which are of both. Events go on to be counted
        from the larger of the two counts, so that no estimate is left out. The share, from 0 to 1,
        is of the events that both have learned since they were one; see `Reservoir.join`.
        """
        capacity = min(self._sample.capacity, other._sample.capacity)
        if self._sample.capacity != capacity:
            self._sample.shrink(capacity)
        self._sample.join(other._sample, share, number)
        self._sample.rows = self._sample.rows[:capacity]
        self._numeric = self._numeric | other._numeric
        self._events = max(self._events, other._events)
        self._plan()

    def differ(self, other: RunningQuantiles) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which columns another one of the same columns scales, and ranks, otherwise.

        Otherwise is by more than twice what would make one of them replace what it has: so far
        apart may the estimates of one stream be. Another distance is another scale of all columns.
        """
        turned = self.indicator != other.indicator
        scaled = turned | self._moved(slice(None), other.center, other.inverse, 2.0)
        scaled |= abs(self.distance / other.distance - 1.0) > 2.0 * _STRETCH
        ranked = rank_shift(self.knots, other.knots) > 2.0 * _RANKS
        return scaled, np.where(self.indicator | other.indicator, turned, ranked)

    def _moved(
        self,
        columns: Any,
        center: NDArray[np.float64],
        inverse: NDArray[np.float64],
        times: float = 1.0,
    ) -> NDArray[np.bool_]:
        """Return which columns have another center or scale than these."""
        old = self.inverse[columns]
        shifted = np.abs(center - self.center[columns]) * old > times * _SHIFT
        return np.asarray(shifted | (np.abs(old / inverse - 1.0) > times * _STRETCH))

    # --- columns and state --------------------------------------------------------------------

    def add_columns(self, n: int) -> None:
        """Append n columns that were zero in all events so far."""
        if n:
            self._append(n)
            self._refit()

    def select(self, order: Sequence[int | None]) -> RunningQuantiles:
        """Return a copy whose columns are those numbered; None is one that was always zero."""
        copy = RunningQuantiles.from_state(self.state())
        copy._append(1)
        numbers = [len(self) if number is None else number for number in order]
        for name in _ARRAYS.values():
            setattr(copy, name, getattr(copy, name)[numbers])
        copy._sample.rows = copy._sample.rows[:, numbers]
        copy._refit()
        return copy

    def _append(self, n: int) -> None:
        """Append columns; where there were events they are indicators."""
        some = self._events > 0
        self.center = np.append(self.center, np.zeros(n))
        self.inverse = np.append(self.inverse, np.full(n, 1.0 / FAIR_COIN if some else 1.0))
        self.knots = np.concatenate([self.knots, np.zeros((n, KNOTS))])
        self.indicator = np.append(self.indicator, np.full(n, some))
        self._numeric = np.append(self._numeric, np.zeros(n, dtype=bool))
        rows = self._sample.rows
        self._sample.rows = np.pad(rows, ((0, 0), (0, n)))

    def _refit(self) -> None:
        """Go on with other columns."""
        capacity = _capacity(len(self), self._budget)
        if self._events:  # a sample that has let events go cannot grow
            capacity = min(capacity, self._sample.capacity)
        self._sample.shrink(capacity)
        self.version += 1
        self._plan()

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, JSON] = {
            "type": RunningQuantiles.TYPE,
            "seed": self._sample.seed,
            "budget": self._budget,
            "capacity": self._sample.capacity,
            "events": self._events,
            "version": self.version,
            "distance": self.distance,
        }
        arrays = {name: getattr(self, own).copy() for name, own in _ARRAYS.items()}
        return State(header, {**arrays, "sample": self._sample.rows.copy()})

    @classmethod
    def from_state(cls, state: State) -> RunningQuantiles:
        """Return the quantiles of a state."""
        state = state.expect(cls.TYPE)
        header = state.header
        budget, events, version = (
            count(header, name, _OWNER) for name in ("budget", "events", "version")
        )
        capacity = count(header, "capacity", _OWNER, least=1)
        distance = number(header, "distance", _OWNER, DISTANCES)
        if capacity > _MOST:
            raise StateError(f"'capacity' of {_OWNER} is {capacity}, above {_MOST}")
        with reading(_OWNER):
            seed: Any = header["seed"]
            check_seed(seed)
        arrays, _ = taken(_DECLARED, state.arrays, {"rows": min(events, capacity)}, _OWNER)
        quantiles = cls(0, seed=seed, budget=budget)
        for name, attribute in _ARRAYS.items():
            setattr(quantiles, attribute, arrays[name].copy())
        quantiles._sample.capacity, quantiles._sample.rows = capacity, arrays["sample"].copy()
        quantiles._events, quantiles.version, quantiles.distance = events, version, distance
        quantiles._plan()
        return quantiles


_ARRAYS = {
    "center": "center",
    "inverse": "inverse",
    "knots": "knots",
    "indicator": "indicator",
    "numeric": "_numeric",
}
"""The arrays of a state, and the attributes that hold them."""
_OWNER = "running quantiles"
_BEYOND = 1.001 * SAMPLED  # what lies between two of the largest is rounded
CENTERS = Domain(least=-_BEYOND, most=_BEYOND)
"""Of values as they are sampled."""
INVERSES = Domain(least=1e-40, most=1.0 / LEAST)
"""Of scales, which are above `LEAST` and not above what sampled values are apart."""
DISTANCES = Domain(least=1e-200, most=1e6)
"""Of scaled events, whose values are bounded: at most 16 times the root of the columns."""
_DECLARED = (
    Declared("center", "float64", ("columns",), CENTERS),
    Declared("inverse", "float64", ("columns",), INVERSES),
    Declared("knots", "float64", ("columns", KNOTS), CENTERS),
    Declared("indicator", "bool", ("columns",), FLAGS),
    Declared("numeric", "bool", ("columns",), FLAGS),
    Declared("sample", "float64", ("rows", "columns"), Domain(-_BEYOND, _BEYOND, missing=True)),
)


def _capacity(d: int, budget: int) -> int:
    return max(_FEWEST, min(_MOST, budget // (8 * max(d, 1))))


def _moment_after(events: int) -> int:
    """Return the number of events after which estimates are made next."""
    return min(1 << events.bit_length(), (events // _LONGEST + 1) * _LONGEST)
