"""The streams: files of the data directory, River's own small sets, and River's generators.

Every stream is numbers in a table, so that what makes an event is the same for all contestants.
What River generates is 20,000 events long; `--events` can only make it shorter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import data

SEED = 1
GENERATED = 20_000
KDD99 = 50_000
"""The events of kdd99 that are used: later ones are one attack for hours."""
_WORDS = 500
"""The words of generated mails."""

Event = dict[Hashable, Any]
LABELS = ("label 1", "label 2", "label 3")
"""Columns of the labels known last, the latest first."""


@dataclass(frozen=True)
class Words:
    """Rows of words, each there (1) or not: `found[starts[i]:starts[i + 1]]` are those of row i."""

    starts: NDArray[np.int64]
    found: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, rows: slice) -> Words:
        starts = self.starts[rows.start : rows.stop + 1]
        return Words(starts - starts[0], self.found[starts[0] : starts[-1]])


@dataclass(frozen=True)
class Stream:
    """Events in their order, NaN where a number is missing.

    y is bool for two classes, int for more, float for numbers to be predicted.
    """

    name: str
    X: NDArray[Any] | Words
    y: NDArray[Any]
    columns: tuple[Hashable, ...]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def task(self) -> str:
        return {"b": "binary", "i": "classes", "f": "regression"}[self.y.dtype.kind]

    @property
    def labels(self) -> list[Any]:
        """The classes there are, in order."""
        return list(np.unique(self.y).tolist())

    @property
    def nominal(self) -> tuple[Hashable, ...]:
        """The columns whose numbers are those of classes, from 0 on."""
        return ()

    def first(self, n: int) -> Stream:
        """The first n events; 0 is all."""
        return self.part(0, n or len(self))

    def shuffled(self) -> Stream:
        """The events in random order, of a table."""
        assert isinstance(self.X, np.ndarray)
        order = np.random.default_rng(SEED).permutation(len(self))
        return replace(self, X=self.X[order], y=self.y[order])

    def part(self, start: int, stop: int) -> Stream:
        """Some of the events."""
        some = slice(start, min(stop, len(self)))
        return replace(self, X=self.X[some], y=self.y[some])

    def events(self, *, none: bool = False) -> list[tuple[Event, Any]]:
        """New dicts, each with its label; what is missing is left out, or None if that is said."""
        if isinstance(self.X, Words):
            names = np.array(self.columns, dtype=object)
            words = np.split(names[self.X.found], self.X.starts[1:-1])
            rows = [dict.fromkeys(row.tolist(), 1.0) for row in words]
        else:
            rows = [self._row(row, none) for row in self.X.tolist()]
        return list(zip(rows, self.y.tolist(), strict=True))

    def _row(self, values: list[float], none: bool) -> Event:
        row = dict(zip(self.columns, values, strict=True))
        if any(value != value for value in values):
            known = {c: v if v == v else None for c, v in row.items()}
            return known if none else {c: v for c, v in known.items() if v is not None}
        return row

    def table(self) -> NDArray[Any]:
        """The numbers of all events, those of words too."""
        if not isinstance(self.X, Words):
            return self.X
        found = np.zeros((len(self), len(self.columns)), dtype=np.float32)
        found[np.repeat(np.arange(len(self)), np.diff(self.X.starts)), self.X.found] = 1
        return found

    def describe(self) -> dict[str, Any]:
        """Shape, classes and a fingerprint of the numbers, for the record."""
        arrays = (self.X.starts, self.X.found) if isinstance(self.X, Words) else (self.X,)
        about: dict[str, Any] = {"events": len(self), "columns": len(self.columns)}
        if self.task != "regression":
            about["classes"] = len(self.labels)
        return about | {"task": self.task, "sha256": data.fingerprint(*arrays, self.y)}


# --- with labels --------------------------------------------------------------------------------


def labels_before(y: NDArray[Any], after: int, none: float = math.nan) -> NDArray[np.float64]:
    """Three columns: the label of `after` events before each one, and of the two before that.

    `none` stands where there was no such event.
    """
    columns = [np.append(np.full(after + n, none), y)[: len(y)] for n in range(len(LABELS))]
    return np.column_stack(columns)


@dataclass(frozen=True)
class WithLabels(Stream):
    """One whose events have columns of the labels known last when each of them is predicted.

    The label of an event is known `delay` events later, or at once, as in the battery's loop.
    A class is told by its place among `labels`.
    """

    delay: int

    @property
    def nominal(self) -> tuple[Hashable, ...]:
        return () if self.task == "regression" else LABELS

    def events(self, *, none: bool = False) -> list[tuple[Event, Any]]:
        y = self.y if self.task == "regression" else np.searchsorted(self.labels, self.y)
        known = Stream(self.name, labels_before(y, max(self.delay, 1)), y, LABELS)
        plain = Stream(self.name, self.X, self.y, self.columns[: -len(LABELS)])
        both = zip(plain.events(none=none), known.events(none=none), strict=True)
        return [(x | labels, label) for (x, label), (labels, _) in both]


def with_labels(stream: Stream, delay: int) -> Stream:
    """The stream whose events have the labels known last as columns, too.

    All columns have texts for names: River's forests sort them.
    """
    columns = (*map(str, stream.columns), *LABELS)
    return WithLabels(stream.name, stream.X, stream.y, columns, delay)


# --- of the data directory ----------------------------------------------------------------------


def _file(
    name: str, directory: data.Directory, quick: bool, *, without: tuple[str, ...] = ()
) -> Stream:
    """A set as it is, but for columns that are left out, and events that have no y."""
    found = data.load(name, directory, quick=quick)
    columns = [j for j, column in enumerate(found.columns) if column not in without]
    there = found.y == found.y
    names = tuple(found.columns[j] for j in columns)
    return Stream(name, found.X[there][:, columns], found.y[there], names)


def _shuffled(name: str, directory: data.Directory, quick: bool) -> Stream:
    return _file(name, directory, quick).shuffled()


def _first(name: str, directory: data.Directory, quick: bool, *, n: int) -> Stream:
    return _file(name, directory, quick).first(n)


def _mails(name: str, directory: data.Directory, quick: bool) -> Stream:
    """The words of each mail: rows of a sparse matrix (`indptr`, `indices`) whose cells are 1."""
    try:
        _, arrays = data.read(name, directory)
        starts, found = (arrays[key].astype(np.int64) for key in ("indptr", "indices"))
        words, y = int(arrays["shape"][1]), arrays["y"] == 1
    except KeyError as error:
        raise data.DataError(f"data set {name} has no array {error}; see docs/data.md") from None
    except data.DataError:
        if not quick:
            raise
        rng = np.random.default_rng(SEED)
        starts, words = np.arange(data.QUICK + 1) * 5, _WORDS
        found = rng.integers(0, words, 5 * data.QUICK)
        y = found[::5] < words // 2
    mails = Stream(name, Words(starts, found), y, tuple(f"w{j}" for j in range(words)))
    return mails.first(data.QUICK if quick else 0)


# --- of River -----------------------------------------------------------------------------------


def _taken(name: str, events: Iterable[tuple[Event, Any]]) -> Stream:
    """Events as a table; labels become bool or the index of their sorted values."""
    rows, labels = zip(*events, strict=True)
    columns = tuple(rows[0])
    X = np.array([[float(row[column]) for column in columns] for row in rows])
    if isinstance(labels[0], float):
        return Stream(name, X, np.array(labels), columns)
    classes, y = np.unique(np.array(labels), return_inverse=True)
    return Stream(name, X, y == 1 if len(classes) == 2 else y.astype(np.int64), columns)


def _carried(name: str, _: data.Directory, quick: bool) -> Stream:
    from river import datasets

    source = getattr(datasets, name)()
    # All of them: a source that is left early keeps its file open.
    events = [(x, float(y) if source.task == "Regression" else y) for x, y in source]
    return _taken(name, events[: data.QUICK] if quick else events)


def _generated(name: str, _: data.Directory, quick: bool) -> Stream:
    from river.datasets import synth

    half, width = GENERATED // 2, GENERATED // 20

    def drifting(before: Any, after: Any) -> Any:
        return synth.ConceptDriftStream(before, after, position=half, width=width, seed=SEED)

    quarters = tuple(GENERATED * k // 4 for k in (1, 2, 3))
    makers: dict[str, Callable[[], Any]] = {
        "RandomRBFDrift": lambda: synth.RandomRBFDrift(
            SEED, SEED, n_classes=5, change_speed=0.001, n_drift_centroids=50
        ),
        "Hyperplane": lambda: synth.Hyperplane(SEED, n_drift_features=5, mag_change=0.001),
        "Agrawal": lambda: drifting(
            synth.Agrawal(0, SEED, perturbation=0.05), synth.Agrawal(6, SEED, perturbation=0.05)
        ),
        "SEA": lambda: drifting(synth.SEA(0, 0.1, SEED), synth.SEA(3, 0.1, SEED)),
        "LEDDrift": lambda: synth.LEDDrift(SEED, 0.1, irrelevant_features=True, n_drift_features=4),
        "Waveform": lambda: synth.Waveform(SEED, has_noise=True),
        "FriedmanDrift": lambda: synth.FriedmanDrift("lea", quarters, seed=SEED),
    }
    return _taken(name, islice(makers[name](), data.QUICK if quick else GENERATED))


# --- all of them --------------------------------------------------------------------------------

_Loader = Callable[[str, data.Directory, bool], Stream]
STREAMS: dict[str, tuple[str, _Loader]] = {
    "elec2": ("elec2", partial(_file, without=("date", "day"))),
    "airlines_h2o_44k": ("airl", _file),
    "gmsc": ("gmsc", _file),
    "a9a": ("a9a", _file),
    "covtype_subset93k": ("cover", _file),
    "letter": ("letter", _file),
    "rialto": ("rialto", _file),
    "kdd99_10pct": ("kdd99", partial(_first, n=KDD99)),
    "spam_sparse": ("spam", _mails),
    "Bananas": ("banan", _carried),
    "Phishing": ("phish", _carried),
    "ImageSegments": ("segm", _carried),
    "RandomRBFDrift": ("RBF", _generated),
    "Hyperplane": ("plane", _generated),
    "Agrawal": ("Agraw", _generated),
    "SEA": ("SEA", _generated),
    "LEDDrift": ("LED", _generated),
    "Waveform": ("wave", _generated),
    "TrumpApproval": ("Trump", _carried),
    "ChickWeights": ("chick", _carried),
    "cadata_california_housing": ("cadata", _shuffled),
    "beijing_pm25": ("pm25", _file),
    "house_16H": ("house", _file),
    "cpusmall": ("cpu", _file),
    "FriedmanDrift": ("Fried", _generated),
}
"""Each stream's heading in the tables, and what makes it."""

FILES = tuple(STREAMS)[:9]
RIVERS = tuple(STREAMS)[9:18]
NUMBERS = tuple(STREAMS)[18:]

ARENA = (
    *("arena_adult", "arena_airlines", "arena_covtype_100k"),
    *("arena_fried", "arena_metro_traffic"),
)
"""Streams of StreamArena, whole, in their order; the battery has none of them."""


@cache
def load(name: str, directory: data.Directory, *, quick: bool, events: int) -> Stream:
    """The first events of a stream, 0 for all.

    Raises
    ------
    DataError
        If its file is not there, or is another.
    """
    loader = _file if name in ARENA else STREAMS[name][1]
    return loader(name, directory, quick).first(events)
