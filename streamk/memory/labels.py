"""The labels of a stream that are known by now, as columns of the event to come.

The columns are a level, which is the last label where each is known before the next event, and
differences: of the last labels, of these and running means at a few rates, and of labels of a
season ago. So what is near the level need not be learned. Where events have times, there are those
of `streamk.memory.times`, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LARGEST
from streamk.declared import Declared, Domain, count, taken
from streamk.errors import StateError
from streamk.memory import times as timed
from streamk.memory.seasons import SEASONS, SHORTEST, SPANS, find_seasons
from streamk.memory.times import LabelTimes
from streamk.state import JSON, State

Floats = NDArray[np.float64]

_RATES = (1 / 4, 1 / 16, 1 / 64)
"""Of running means, which are plain means of the first labels."""
COLUMNS = (
    *("level", "last", "change", "change before"),
    *(f"above mean of {round(1 / rate)}" for rate in _RATES),
    *(f"season {n + 1}" for n in range(SEASONS)),
    *(f"change of season {n + 1}" for n in range(SEASONS)),
)
"""The columns of an event, in their order."""
_KEPT = 8_192
"""Labels that are kept."""
_LOOK_EVERY = 1_024
"""Labels between two searches for lags."""
_OWNER = "labels in memory"


class LabelMemory:
    """The last labels of a stream, and the columns that these are to the event to come.

    The seasonal lags are found in the labels alone, every 1,024 of them: where the partial
    autocorrelation of the older half of the last 8,192, beyond that of three labels, is largest
    among lags from 4 to 2,048, and that of the later half is there, too. Where labels come late,
    the value of a season ago is that of as many seasons as it takes to be known.

    The level is the running mean of rate 1 / (1 + lag) of each label that became known: with a lag
    of 48 the last label says little more of the next one than any of the last 48.

    Parameters
    ----------
    has_times : bool, default False
        Whether events have times, in seconds, NaN where one is missing.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns.
    times : LabelTimes or None
        The labels by their times, if there are any.
    n_labels : int
        Labels known so far.
    lag : int
        How many labels became known between the prediction of the event that was learned last and
        its learning: 0 where each label comes before the next event. As many will of the next one,
        it is assumed, unless that has a number.
    offset : int
        By how much the number of the last event that had one was above that of its label.
    seasons : tuple of int
        Lags in use, in labels, the stronger one first.

    Examples
    --------
    >>> memory = LabelMemory()
    >>> memory.follow(np.array([1.0, 4.0, 6.0]))[:, :3]
    array([[nan, nan, nan],
           [ 1.,  0., nan],
           [ 4.,  0.,  3.]])
    >>> memory.now()[:3]
    array([6., 0., 2.])
    """

    def __init__(self, *, has_times: bool = False) -> None:
        self.times = LabelTimes(_KEPT) if has_times else None
        self.columns = (*COLUMNS, *(timed.COLUMNS if has_times else ()))
        self.n_labels, self.lag, self.offset = 0, 0, 0
        self.seasons: tuple[int, ...] = ()
        self._means = np.zeros(1 + len(_RATES))
        """The level, and the means."""
        self._place(np.zeros(0), 0)

    def _place(self, labels: Floats, n: int) -> None:
        """Keep these labels, with room for n and more behind them, and unknown ones before them."""
        self._stop = SHORTEST + len(labels)
        self._labels = np.full(2 * self._stop + n, np.nan)
        self._labels[SHORTEST : self._stop] = labels

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return int(self._labels.nbytes) + (0 if self.times is None else self.times.nbytes)

    @property
    def _known(self) -> Floats:
        """The labels that are kept, the oldest first."""
        known: Floats = self._labels[self._stop - min(self.n_labels, _KEPT) : self._stop]
        return known

    # Columns

    def now(self, number: int | None = None, time: float = math.nan) -> Floats:
        """Return the columns of an event that is predicted now, float64 (columns,), NaN unknown.

        Events may have numbers, in their order, where labels come late.
        """
        lag = self.lag if number is None else max(0, number - self.offset - self.n_labels)
        # Python's numbers take a tenth of the time of arrays of one.
        level, *means = self._means.tolist() if self.n_labels else [math.nan] * len(self._means)
        third, before, last = self._labels[self._stop - 3 : self._stop].tolist()
        row = [level, last - level, last - before, before - third, *(last - mean for mean in means)]
        seasonal, changes = [math.nan] * SEASONS, [math.nan] * SEASONS
        for place, season in enumerate(self.seasons):
            at = self._stop - (season * (lag // season + 1) - lag)  # the first that is known
            one, other = self._labels[at - 1 : at + 1].tolist()
            seasonal[place], changes[place] = other - level, other - one
        row += [*seasonal, *changes]
        return np.array(row if self.times is None else row + self.times.now(time, level))

    def follow(self, labels: Floats, times: Floats | None = None) -> Floats:
        """Return the columns of events (n, columns) whose labels each come before the next event.

        Labels (n,) and the times (n,) of their events are taken in.
        """
        pieces = []
        for part in self._parts(len(labels)):
            first = self.now()[None, : len(COLUMNS)]
            means = self._add(labels[part], np.zeros(part.stop - part.start, np.int64))
            rows = np.concatenate([first, self._rows(means[1:])]) if len(means) > 1 else first
            if self.times is not None and times is not None:
                some = zip(times[part].tolist(), labels[part].tolist(), means[:, 0], strict=True)
                more = [self.times.follow(time, label, level) for time, label, level in some]
                rows = np.concatenate([rows, more], axis=1)
            pieces.append(rows)
            self._end(0)
        return np.concatenate(pieces) if pieces else np.zeros((0, len(self.columns)))

    def take(
        self,
        labels: Floats,
        known: NDArray[np.int64],
        number: int | None = None,
        times: Floats | None = None,
    ) -> None:
        """Take in labels (n,) of events that were predicted when so many labels were known (n,).

        The number is that of the last one; times (n,) are those of the events.
        """
        if number is not None:
            self.offset = number - (self.n_labels + len(labels) - 1)
        lags = np.maximum(0, self.n_labels + np.arange(len(labels)) - known)
        for part in self._parts(len(labels)):
            self._add(labels[part], lags[part])
            if self.times is not None and times is not None:
                for time, label in zip(times[part].tolist(), labels[part].tolist(), strict=True):
                    self.times.add(time, label)
            self._end(int(lags[part.stop - 1]))

    def _parts(self, n: int) -> list[slice]:
        """Return slices of the next n labels, which end with each search for lags."""
        until = _LOOK_EVERY - self.n_labels % _LOOK_EVERY
        if 0 < n <= until:
            return [slice(0, n)]
        stops = [*range(until, n, _LOOK_EVERY), n]
        return [slice(a, b) for a, b in zip([0, *stops], stops, strict=False) if a < b]

    def _add(self, labels: Floats, lags: NDArray[np.int64]) -> Floats:
        """Append labels (n,), and return level and means before each, float64 (n, 1 + rates)."""
        n = len(labels)
        if self._stop + n > len(self._labels):
            self._place(self._known.copy(), n)
        self._labels[self._stop : self._stop + n] = labels
        self._stop += n
        before, means = np.empty((n, len(self._means))), self._means.tolist()
        for row, (label, lag) in enumerate(zip(labels.tolist(), lags.tolist(), strict=True)):
            before[row] = means
            self.n_labels += 1
            if self.n_labels == 1:
                means = [label] * len(means)
                continue
            least, rates = 1.0 / self.n_labels, (1.0 / (1.0 + lag), *_RATES)
            means = [
                mean + max(rate, least) * (label - mean)
                for mean, rate in zip(means, rates, strict=True)
            ]
        self._means = np.array(means)
        return before

    def _end(self, lag: int) -> None:
        """Look for seasons, if it is time."""
        self.lag = lag
        if self.n_labels % _LOOK_EVERY == 0:
            self.seasons = find_seasons(self._known, self.seasons)
            if self.times is not None:
                self.times.look()

    def _rows(self, means: Floats) -> Floats:
        """Return the columns of the last n events, by the level and means (n, 1 + rates) before.

        Each label was known before the next event, as `now` has it with a lag of 0.
        """
        n, at = len(means), self._stop - len(means)

        def ago(labels: int) -> Floats:
            return self._labels[at - labels : at - labels + n]

        out = np.full((n, len(COLUMNS)), np.nan)
        level, last, before = means[:, 0], ago(1), ago(2)
        first = level, last - level, last - before, before - ago(3)
        out[:, : len(first)] = np.stack(first, axis=1)
        seasonal = len(first) + len(_RATES)
        out[:, len(first) : seasonal] = last[:, None] - means[:, 1:]
        for place, season in enumerate(self.seasons):
            out[:, seasonal + place] = ago(season) - level
            out[:, seasonal + SEASONS + place] = ago(season) - ago(season + 1)
        return out

    # State

    def state(self) -> State:
        """Return everything needed to go on exactly from here."""
        header: dict[str, JSON] = {
            "type": "label-memory",
            "n_labels": self.n_labels,
            "lag": self.lag,
            "offset": self.offset,
            "seasons": list(self.seasons),
        }
        arrays = {"labels": self._known.copy(), "means": self._means.copy()}
        if self.times is not None:
            header["spans"], arrays["times"] = list(self.times.spans), self.times.times
        return State(header, arrays)

    @classmethod
    def from_state(cls, state: State) -> LabelMemory:
        """Return the memory of a state. Raises `StateError` if it does not fit."""
        header: Mapping[str, Any] = state.expect("label-memory").header
        has_times = "spans" in header
        memory = cls(has_times=has_times)
        memory.n_labels, memory.lag = (count(header, name, _OWNER) for name in ("n_labels", "lag"))
        memory.offset = count(header, "offset", _OWNER, least=-memory.n_labels)
        declared = (*_DECLARED, _TIMES) if has_times else _DECLARED
        found, sizes = taken(declared, state.arrays, {}, _OWNER)
        seasons = header.get("seasons")
        if not (
            isinstance(seasons, list)
            and len(seasons) <= SEASONS
            and all(type(s) is int and SHORTEST <= s <= sizes["kept"] // 4 for s in seasons)
        ):
            raise StateError(f"'seasons' of {_OWNER} are {seasons!r}; it is damaged")
        if sizes["kept"] != min(memory.n_labels, _KEPT):
            raise StateError(f"array 'labels' of {_OWNER} has {sizes['kept']} of {memory.n_labels}")
        memory.seasons, memory._means = tuple(seasons), found["means"].copy()
        memory._place(found["labels"], 0)
        if memory.times is not None:
            spans = header["spans"]
            fits = isinstance(spans, list) and len(spans) <= SEASONS
            if not (fits and all(span in SPANS for span in spans)):
                raise StateError(f"'spans' of {_OWNER} are {spans!r}; it is damaged")
            memory.times.spans = tuple(spans)
            for time, label in zip(found["times"].tolist(), found["labels"].tolist(), strict=True):
                memory.times.add(time, label)
        return memory


_LABELS = Domain(-1e300, 1e300)
_TIMES = Declared("times", "float64", ("kept",), Domain(-LARGEST, LARGEST, missing=True))
_DECLARED = (
    Declared("labels", "float64", ("kept",), _LABELS),
    Declared("means", "float64", (1 + len(_RATES),), _LABELS),
)
