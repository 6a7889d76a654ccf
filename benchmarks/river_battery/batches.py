"""scikit-learn in batches of 256: StandardScaler, RBFSampler of 1,024 features, SGD.

What is missing is the column's mean. In regression the numbers are standardised as they come. One
contestant for each gamma of a grid; the best one of each stream is picked in hindsight.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.river_battery.contestant import SEED, Contestant
from benchmarks.river_battery.streams import Event, Stream

_BATCH = 256
_FEATURES = 1024
GAMMAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def table(events: Sequence[Event], index: Mapping[Hashable, int]) -> NDArray[np.float64]:
    """Events as rows, a column each by its index: 0 for one that is left out, NaN for None."""
    X = np.zeros((len(events), len(index)))
    for row, event in zip(X, events, strict=True):
        row[[index[column] for column in event]] = list(event.values())
    return X


class _Sampled:
    def __init__(self, stream: Stream, gamma: float) -> None:
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.linear_model import SGDClassifier, SGDRegressor
        from sklearn.preprocessing import StandardScaler

        self._index = {column: j for j, column in enumerate(stream.columns)}
        self._labels = None if stream.task == "regression" else stream.labels
        self._scaler = StandardScaler()
        self._target = StandardScaler()
        self._sampler = RBFSampler(gamma=gamma, n_components=_FEATURES, random_state=SEED)
        self._sampler.fit(np.zeros((1, len(stream.columns))))
        if self._labels is None:
            self._model = SGDRegressor(random_state=SEED)
        else:
            self._model = SGDClassifier(loss="log_loss", random_state=SEED)
        self._ready = False

    def _features(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled = np.nan_to_num(self._scaler.transform(X), copy=False)
        features: NDArray[np.float64] = self._sampler.transform(scaled)
        return features

    def learn_many(self, events: Sequence[Event], labels: Sequence[Any]) -> None:
        X, y = table(events, self._index), np.array(labels)
        self._scaler.partial_fit(X)
        if self._labels is None:
            column = y[:, np.newaxis]
            y = self._target.partial_fit(column).transform(column)[:, 0]
            self._model.partial_fit(self._features(X), y)
        else:
            self._model.partial_fit(self._features(X), y, classes=self._labels)
        self._ready = True

    def predict_many(self, events: Sequence[Event]) -> Sequence[Mapping[Any, float] | float | None]:
        if not self._ready:
            return [None] * len(events)
        features = self._features(table(events, self._index))
        if self._labels is None:
            answers = self._model.predict(features)[:, np.newaxis]
            numbers: list[float] = self._target.inverse_transform(answers)[:, 0].tolist()
            return numbers
        shares = self._model.predict_proba(features).tolist()
        return [dict(zip(self._labels, row, strict=True)) for row in shares]


GRID = tuple(
    Contestant(
        f"sklearn, gamma {gamma:g}",
        partial(_Sampled, gamma=gamma),
        "scikit-learn",
        f"StandardScaler, RBFSampler(gamma={gamma:g}, {_FEATURES}), SGD, batches of {_BATCH}",
        batch=_BATCH,
        none=True,
    )
    for gamma in GAMMAS
)
