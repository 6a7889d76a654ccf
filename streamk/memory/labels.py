"""The labels of a stream that are known by now, as columns of the event to come.

The columns are a level, which is the last label where each is known before the next event, and
differences: of the last labels, of these and running means at a few rates, and of labels of a
season ago. So what is near the level need not be learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, count, taken
from streamk.errors import StateError
from streamk.state import JSON, State

Floats = NDArray[np.float64]

_RATES = (1 / 4, 1 / 16, 1 / 64)
"""Of running means, which are plain means of the first labels."""
_SEASONS = 2
"""Lags that are looked for."""
COLUMNS = (
    *("level", "last", "change", "change before"),
    *(f"above mean of {round(1 / rate)}" for rate in _RATES),
    *(f"season {n + 1}" for n in range(_SEASONS)),
    *(f"change of season {n + 1}" for n in range(_SEASONS)),
)
"""The columns of an event, in their order."""
_KEPT = 8_192
"""Labels that are kept."""
_LONGEST = 2_048
"""Lag at most, and a fourth of the labels: each half of them has two seasons."""
_SHORTEST = 4
"""Lag at least: the last labels are columns of their own."""
_LOOK_EVERY = 1_024
"""Labels between two searches for lags."""
_FOUND, _CHECKED = 5.0, 3.0
"""Deviations by which the autocorrelation at a lag has to differ from 0 where it is looked for, as
the largest one of many, and in the later labels, by which it is checked."""
_AS_LARGE = 0.8
"""Part of the largest autocorrelation from which on a shorter lag, or the one in use, is taken."""
_WIDEST = 6.0
"""Deviations at which labels are cut off for the search."""
_ORDER = 3
"""Labels before, whose linear effect is taken out of what seasons are looked for in."""
_OWNER = "labels in memory"


class LabelMemory:
    """The last labels of a stream, and the columns that these are to the event to come.

    The seasonal lags are found in the labels alone, every 1,024 of them: where the partial
    autocorrelation of the older half of the last 8,192, beyond that of three labels, is largest
    among lags from 4 to 2,048, and that of the later half is there, too. Where labels come late,
    the value of a season ago is that of as many seasons as it takes to be known.

    The level is the running mean of rate 1 / (1 + lag) of each label that became known: with a lag
    of 48 the last label says little more of the next one than any of the last 48.

    Attributes
    ----------
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

    def __init__(self) -> None:
        self.n_labels, self.lag, self.offset = 0, 0, 0
        self.seasons: tuple[int, ...] = ()
        self._means = np.zeros(1 + len(_RATES))
        """The level, and the means."""
        self._place(np.zeros(0), 0)

    def _place(self, labels: Floats, n: int) -> None:
        """Keep these labels, with room for n and more behind them, and unknown ones before them."""
        self._stop = _SHORTEST + len(labels)
        self._labels = np.full(2 * self._stop + n, np.nan)
        self._labels[_SHORTEST : self._stop] = labels

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return int(self._labels.nbytes)

    @property
    def _known(self) -> Floats:
        """The labels that are kept, the oldest first."""
        known: Floats = self._labels[self._stop - min(self.n_labels, _KEPT) : self._stop]
        return known

    # Columns

    def now(self, number: int | None = None) -> Floats:
        """Return the columns of an event that is predicted now, float64 (columns,), NaN unknown.

        Events may have numbers, in their order, where labels come late.
        """
        lag = self.lag if number is None else max(0, number - self.offset - self.n_labels)
        # Python's numbers take a tenth of the time of arrays of one.
        level, *means = self._means.tolist() if self.n_labels else [math.nan] * len(self._means)
        third, before, last = self._labels[self._stop - 3 : self._stop].tolist()
        row = [level, last - level, last - before, before - third, *(last - mean for mean in means)]
        seasonal, changes = [math.nan] * _SEASONS, [math.nan] * _SEASONS
        for place, season in enumerate(self.seasons):
            at = self._stop - (season * (lag // season + 1) - lag)  # the first that is known
            one, other = self._labels[at - 1 : at + 1].tolist()
            seasonal[place], changes[place] = other - level, other - one
        return np.array([*row, *seasonal, *changes])

    def follow(self, labels: Floats) -> Floats:
        """Return the columns of events (n, columns), each label of which is known before the next.

        Labels (n,) are taken in.
        """
        pieces = []
        for part in self._parts(len(labels)):
            pieces.append(self.now()[None])
            means = self._add(labels[part], np.zeros(part.stop - part.start, np.int64))
            if len(means) > 1:
                pieces.append(self._rows(means[1:]))
            self._end(0)
        return np.concatenate(pieces) if pieces else np.zeros((0, len(COLUMNS)))

    def take(self, labels: Floats, known: NDArray[np.int64], number: int | None = None) -> None:
        """Take in labels (n,) of events that were predicted when so many labels were known (n,).

        The number is that of the last one.
        """
        if number is not None:
            self.offset = number - (self.n_labels + len(labels) - 1)
        lags = np.maximum(0, self.n_labels + np.arange(len(labels)) - known)
        for part in self._parts(len(labels)):
            self._add(labels[part], lags[part])
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
            out[:, seasonal + _SEASONS + place] = ago(season) - ago(season + 1)
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
        return State(header, {"labels": self._known.copy(), "means": self._means.copy()})

    @classmethod
    def from_state(cls, state: State) -> LabelMemory:
        """Return the memory whose state this is. Raises `StateError` if it does not fit."""
        header: Mapping[str, Any] = state.expect("label-memory").header
        memory = cls()
        memory.n_labels, memory.lag = (count(header, name, _OWNER) for name in ("n_labels", "lag"))
        memory.offset = count(header, "offset", _OWNER, least=-memory.n_labels)
        found, sizes = taken(_DECLARED, state.arrays, {}, _OWNER)
        seasons = header.get("seasons")
        if not (
            isinstance(seasons, list)
            and len(seasons) <= _SEASONS
            and all(type(s) is int and _SHORTEST <= s <= sizes["kept"] // 4 for s in seasons)
        ):
            raise StateError(f"'seasons' of {_OWNER} are {seasons!r}; it is damaged")
        if sizes["kept"] != min(memory.n_labels, _KEPT):
            raise StateError(f"array 'labels' of {_OWNER} has {sizes['kept']} of {memory.n_labels}")
        memory.seasons, memory._means = tuple(seasons), found["means"].copy()
        memory._place(found["labels"], 0)
        return memory


_LABELS = Domain(-1e300, 1e300)
_DECLARED = (
    Declared("labels", "float64", ("kept",), _LABELS),
    Declared("means", "float64", (1 + len(_RATES),), _LABELS),
)


def find_seasons(labels: Floats, known: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the lags at which labels (n,) repeat, none to two of them, the stronger one first.

    Those `known` stay while they are about as good as the best.

    Examples
    --------
    >>> rng, days = np.random.default_rng(0), np.arange(2048)
    >>> find_seasons(np.sin(2 * np.pi * days / 24) ** 5 + rng.normal(size=2048))
    (24,)
    >>> find_seasons(rng.normal(size=2048))
    ()
    """
    rest = _without_last_labels(labels) if len(labels) > 4 * _SHORTEST else None
    found: list[int] = []
    while rest is not None and len(found) < _SEASONS:
        lag, strength = _strongest(rest, found, known)
        if not lag:
            break
        found.append(lag)
        rest = rest[lag:] - strength * rest[:-lag]
    return tuple(found)


def _without_last_labels(labels: Floats) -> Floats | None:
    """Return what of labels a linear function of the last ones leaves, in deviations; or None."""
    center = np.median(labels)
    away = np.abs(labels - center)
    if not np.median(away) and away.any():  # half of them are one label, as at night
        away = away[away > 0.0]
    scale = np.median(away) * 1.5
    if not 0.0 < scale < np.inf:
        return None
    z = np.clip((labels - center) / scale, -_WIDEST, _WIDEST)
    z -= z.mean()
    r = _autocorrelation(z, _ORDER)
    lags = np.abs(np.subtract.outer(np.arange(_ORDER), np.arange(_ORDER)))
    weights = np.linalg.solve(r[lags] + 1e-6 * np.eye(_ORDER), r[1:])
    rest = z[_ORDER:].copy()
    for n, weight in enumerate(weights.tolist(), start=1):
        rest -= weight * z[_ORDER - n : -n]
    return np.asarray(np.clip(rest, -_WIDEST, _WIDEST))


def _autocorrelation(z: Floats, most: int) -> Floats:
    """Return the autocorrelation of numbers (n,) of mean 0 at the lags up to `most`, of pairs."""
    n = len(z)
    spectrum = np.fft.rfft(z, 1 << (2 * n - 1).bit_length())
    sums = np.fft.irfft(np.abs(spectrum) ** 2)[: most + 1]
    pairs = n - np.arange(most + 1)
    return np.asarray(sums / pairs / max(sums[0] / n, 1e-300))


def _strongest(rest: Floats, others: Sequence[int], known: Sequence[int]) -> tuple[int, float]:
    """Return the lag of the largest autocorrelation, found and checked, and that; or 0, 0.

    It is none near others.
    """
    older, later = np.split(rest, [len(rest) // 2])
    most = min(_LONGEST, len(older) // 2)
    if most < _SHORTEST:
        return 0, 0.0
    before, after = (_autocorrelation(half - half.mean(), most) for half in (older, later))
    noise = 1.0 / np.sqrt(len(older) - np.arange(most + 1))
    fits = (before > _FOUND * noise) & (after > _CHECKED * noise)
    fits[:_SHORTEST] = False
    for other in others:
        fits[other - max(1, other // 8) : other + max(2, other // 8)] = False
    if not fits.any():
        return 0, 0.0
    both = np.where(fits, before + after, 0.0)
    good = np.flatnonzero(both >= _AS_LARGE * both.max())
    kept = [season for season in known if season in good]
    # Of multiples of a season, the first; of its neighbours, the largest.
    first = kept[0] if kept else int(good[0])
    if not kept:
        near = both[first : first + max(2, first // 8)]
        first += int(near.argmax())
    return first, float((before[first] + after[first]) / 2.0)
