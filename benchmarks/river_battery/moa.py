"""CapyMOA's ensembles and its nearest neighbours, in Java; columns and classes are told before.

What is missing stays so for the ensembles. SAMkNN and SGBT (of the retrained trees) fail on it, and
get the column's mean so far.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.river_battery.contestant import BOTH, SEED, Contestant
from benchmarks.river_battery.streams import Event, Stream


class _Moa:
    """A learner of CapyMOA with River's interface."""

    def __init__(self, stream: Stream, learner: str, options: Mapping[str, Any]) -> None:
        from capymoa import classifier
        from capymoa.core import Instance, LabeledInstance
        from capymoa.stream import Schema

        self._question, self._answered = Instance.from_array, LabeledInstance.from_array
        self._labels = stream.labels
        self._index = {label: j for j, label in enumerate(self._labels)}
        self._columns = {column: j for j, column in enumerate(stream.columns)}
        names = [f"c{j}" for j in self._columns.values()]
        classes = {"class": [str(label) for label in self._labels]}
        self._schema = Schema.from_custom([*names, "class"], "class", classes)
        self._model = getattr(classifier, learner)(self._schema, **options)

    def _row(self, x: Event) -> NDArray[np.float64]:
        row = np.zeros(len(self._columns))
        row[[self._columns[column] for column in x]] = list(x.values())
        return row

    def predict_proba_one(self, x: Event) -> Mapping[Any, float] | None:
        answer = self._model.predict_proba(self._question(self._schema, self._row(x)))
        return None if answer is None else dict(zip(self._labels, answer.tolist(), strict=True))

    def learn_one(self, x: Event, y: Any) -> None:
        self._model.train(self._answered(self._schema, self._row(x), self._index[y]))


class Filled(_Moa):
    """One that gets the mean of a column for what is missing."""

    def __init__(self, stream: Stream, learner: str, options: Mapping[str, Any]) -> None:
        super().__init__(stream, learner, options)
        self._sums, self._counts = np.zeros((2, len(stream.columns)))

    def _row(self, x: Event) -> NDArray[np.float64]:
        row = super()._row(x)
        missing = np.isnan(row)
        if missing.any():
            row[missing] = (self._sums / np.maximum(self._counts, 1))[missing]
        return row

    def learn_one(self, x: Event, y: Any) -> None:
        row = super()._row(x)
        there = ~np.isnan(row)
        self._sums[there] += row[there]
        self._counts += there
        super().learn_one(x, y)


def contestant(
    name: str, learner: str, settings: str, maker: type[_Moa] = _Moa, **options: Any
) -> Contestant:
    """The learner of that name in `capymoa.classifier`, with these options."""
    make = partial(maker, learner=learner, options=options)
    return Contestant(name, make, "capymoa", settings, BOTH, none=True)


CONTESTANTS = (
    contestant("CapyMOA SAMkNN", "SAMkNN", "defaults", Filled, random_seed=SEED),
    contestant(
        "CapyMOA ARF, 30",
        "AdaptiveRandomForestClassifier",
        "ensemble_size=30",
        ensemble_size=30,
        random_seed=SEED,
    ),
    contestant(
        "CapyMOA SRP, 10",
        "StreamingRandomPatches",
        "ensemble_size=10",
        ensemble_size=10,
        random_seed=SEED,
    ),
)
