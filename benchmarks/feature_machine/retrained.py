"""LightGBM with its defaults on a stream: fitted anew to all events so far, every 1,000."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

EVERY = 1_000


class Said(NamedTuple):
    """Predictions of events before they were learned."""

    predictions: Numbers


class Retrained:
    """Trees of all events so far; before the first ones the most frequent label, or the median.

    Parameters
    ----------
    task : {"classification", "regression"}
    """

    def __init__(self, task: str) -> None:
        self._is_classifier = task == "classification"
        self._X: list[Numbers] = []
        self._y: list[Any] = []
        self._trees: Any = None
        self._fitted = 0

    def predict_then_learn_many(self, X: Numbers, y: Any) -> Said:
        """Predict events X (n, d), then take in their labels y (n,)."""
        said = np.full(len(X), self._common()) if self._trees is None else self._trees.predict(X)
        self._X.append(X)
        self._y.extend(y)
        if len(self._y) // EVERY > self._fitted:
            self._fitted = len(self._y) // EVERY
            self._fit()
        return Said(said)

    def _common(self) -> Any:
        if not self._y:
            return 0
        if not self._is_classifier:
            return np.median(self._y)
        labels, counts = np.unique(self._y, return_counts=True)
        return labels[counts.argmax()]

    def _fit(self) -> None:
        import lightgbm

        kind = lightgbm.LGBMClassifier if self._is_classifier else lightgbm.LGBMRegressor
        y = np.array(self._y)
        if not self._is_classifier or len(np.unique(y)) > 1:
            self._trees = kind(n_jobs=1, verbose=-1).fit(np.concatenate(self._X), y)
