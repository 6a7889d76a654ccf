"""Gradient boosted trees on a stream: trained anew every 1,000 events, on labels known by then.

A training takes all events before, or the last 10,000. Before the first one the answers are the
shares of the classes so far, of numbers their mean. What is missing is NaN, which both libraries
take as it is; words are a sparse matrix. One thread.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.river_battery import batches
from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.streams import Event, Stream

EVERY = 1_000
LAST = 10_000
DENSE = 1_000
"""Columns up to which a table is dense."""

Trees = Callable[..., Any]


def lightgbm(task: str, **options: Any) -> Any:
    """Trees of LightGBM with its defaults, of which there are 100."""
    import lightgbm

    kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    return kind(random_state=SEED, n_jobs=1, verbose=-1, **options)


def histogram(task: str) -> Any:
    """scikit-learn's, without early stopping: it fails where a class has a single event."""
    from sklearn import ensemble

    regression = task == "regression"
    kind = (
        ensemble.HistGradientBoostingRegressor
        if regression
        else ensemble.HistGradientBoostingClassifier
    )
    return kind(random_state=SEED, early_stopping=False)


def rows(events: Sequence[Event], index: Mapping[Hashable, int]) -> Any:
    """Events as rows; sparse where there are many columns."""
    if len(index) <= DENSE:
        return batches.table(events, index)
    starts = np.cumsum([0, *map(len, events)])
    columns = [index[column] for event in events for column in event]
    values = np.array([value for event in events for value in event.values()], dtype=np.float64)
    return scipy.sparse.csr_matrix((values, columns, starts), shape=(len(events), len(index)))


def stacked(parts: Sequence[Any]) -> Any:
    """Tables of `rows`, one below the other."""
    if len(parts) == 1:
        return parts[0]
    sparse = scipy.sparse.issparse(parts[0])
    return scipy.sparse.vstack(parts, format="csr") if sparse else np.vstack(parts)


class Retrained:
    """Trees with the battery's interface for batches.

    Events come one at a time until the first training, then `EVERY` at a time; each such batch is
    predicted by trees that were trained when it came.
    """

    def __init__(self, stream: Stream, make: Trees, last: int = 0) -> None:
        self._index = {column: j for j, column in enumerate(stream.columns)}
        self._task = stream.task
        self._make, self._last = partial(make, stream.task), last
        self._parts: list[Any] = []
        self._labels: list[Any] = []
        self._asked = 0
        self._trees: Any = None

    def learn_many(self, events: Sequence[Event], labels: Sequence[Any]) -> None:
        """Keep events for the next training."""
        self._parts.append(rows(events, self._index))
        self._labels += labels

    def predict_many(self, events: Sequence[Event]) -> Sequence[Any]:
        """Train if it is time, and answer."""
        if self._asked and self._asked % EVERY == 0:
            self._train()
        self._asked += len(events)
        if self._trees is None:
            return [self._before()] * len(events)
        X = rows(events, self._index)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM's, that columns have no names
            if self._task == "regression":
                numbers: list[float] = self._trees.predict(X).tolist()
                return numbers
            shares = self._trees.predict_proba(X).tolist()
        classes = self._trees.classes_.tolist()
        return [dict(zip(classes, row, strict=True)) for row in shares]

    def _train(self) -> None:
        """Nothing where all labels are of one class: trees need two."""
        if len(set(self._labels[-self._last :])) > 1:
            self._parts = [stacked(self._parts)]
            X, y = self._parts[0][-self._last :], np.array(self._labels[-self._last :])
            self._trees = self._make().fit(X, y)

    def _before(self) -> Any:
        if not self._labels:
            return None
        if self._task == "regression":
            return float(np.mean(self._labels))
        return {label: n / len(self._labels) for label, n in Counter(self._labels).items()}


def contestant(name: str, make: Trees, package: str, settings: str, **options: Any) -> Contestant:
    """Trees of one kind; `last` events of a training, 0 for all before, is among the options."""
    trained = f"trained anew every {EVERY:,} events on {options.get('last') or 'all'} before"
    return Contestant(
        name,
        partial(Retrained, make=make, last=options.get("last", 0)),
        package,
        f"{settings}, {trained}",
        batch=EVERY,
        alone=EVERY,
        most_columns=options.get("most_columns", float("inf")),
        none=True,
    )


_LIGHTGBM = (lightgbm, "lightgbm", "defaults, n_jobs=1")
_HISTOGRAM = (histogram, "scikit-learn", "defaults, early_stopping=False")
CONTESTANTS = (
    contestant("LightGBM, all before", *_LIGHTGBM),
    contestant("LightGBM, last 10,000", *_LIGHTGBM, last=LAST),
    contestant("HGB, all before", *_HISTOGRAM, most_columns=DENSE),
    contestant("HGB, last 10,000", *_HISTOGRAM, most_columns=DENSE, last=LAST),
)
