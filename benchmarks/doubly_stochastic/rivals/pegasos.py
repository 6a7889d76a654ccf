"""Linear machines on fixed features: 2^8 random ones or as many of Nyström's, as in the paper.

Features are scikit-learn's `RBFSampler` and `Nystroem`, fitted before the clock starts, as in the
paper; to compute them of events is part of learning and predicting. Pegasos is scikit-learn's
`SGDClassifier` with its steps ``1 / (nu (t + t0))``.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

FEATURES = 1 << 8


class Linear(Protocol):
    """A machine that learns features of events."""

    def learn(self, first: int, Z: Numbers, y: Numbers) -> None:
        """Learn features (m, r) of the events from number `first` on."""

    def scores(self, Z: Numbers) -> Numbers:
        """f of features (m, r)."""


class Pegasos:
    """`SGDClassifier` on features.

    Parameters
    ----------
    nu : float
        Regularization.
    seed : int
    """

    def __init__(self, nu: float, seed: int) -> None:
        from sklearn.linear_model import SGDClassifier

        self._model = SGDClassifier(
            loss="hinge", alpha=nu, fit_intercept=False, shuffle=False, random_state=seed
        )

    def learn(self, first: int, Z: Numbers, y: Numbers) -> None:
        """Steps on features (m, r), in their order."""
        self._model.partial_fit(Z, y, classes=(-1.0, 1.0))

    def scores(self, Z: Numbers) -> Numbers:
        """f of features (m, r)."""
        found: Numbers = self._model.decision_function(Z)
        return found


def random_features(gamma: float, X: Numbers, seed: int) -> Any:
    """Return the transformer of `FEATURES` random features."""
    from sklearn.kernel_approximation import RBFSampler

    return RBFSampler(gamma=gamma, n_components=FEATURES, random_state=seed).fit(X[:1])


def nystroem(gamma: float, X: Numbers, seed: int) -> Any:
    """Return the transformer of Nyström's approximation on events drawn among rows X."""
    from sklearn.kernel_approximation import Nystroem

    return Nystroem(gamma=gamma, n_components=min(FEATURES, len(X)), random_state=seed).fit(X)


class OnFeatures:
    """A linear machine behind a transformer.

    Parameters
    ----------
    features : transformer
        Fitted.
    machine : Linear
    """

    def __init__(self, features: Any, machine: Linear) -> None:
        self._features, self._machine = features, machine

    def learn(self, first: int, X: Numbers, y: Numbers) -> None:
        """Learn the events (n, d) from number `first` on, labels -1 and +1."""
        self._machine.learn(first, self._features.transform(X), y)

    def scores(self, X: Numbers) -> Numbers:
        """f(x) of rows (n, d)."""
        return np.asarray(self._machine.scores(self._features.transform(X)))
