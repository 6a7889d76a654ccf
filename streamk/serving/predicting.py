"""Predictions of a model that learns no more, as they are written."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamk.conformal import Regions
from streamk.engine.training.regions import given
from streamk.learners import Learner
from streamk.learners.common.classes import Label
from streamk.learners.common.predictor import Decider
from streamk.learners.common.prequential import Prequential, nothing

__all__ = ["answers"]


def answers(
    learner: Learner, X: NDArray[np.float64], regions: Regions | None = None
) -> list[dict[str, Any]]:
    """Return predictions and, of classes, probabilities; None, {} and 0 where nothing is known.

    Parameters
    ----------
    learner : Learner
    X : float64 array of shape (n, d)
    regions : Regions, optional
        Intervals or sets of classes that are to go with them.

    Returns
    -------
    list of n dict
    """
    found = _predicted(learner, X)
    labels = found.predictions.tolist()
    if found.probabilities is None:
        told: list[dict[str, Any]] = [{"prediction": number} for number in labels]
    else:
        names = [_text(label) for label in learner.classes]
        told = [
            {"prediction": label, "probabilities": dict(zip(names, row, strict=True))}
            for label, row in zip(labels, found.probabilities.tolist(), strict=True)
        ]
    if regions is not None:
        more, _ = given(regions, found, learner.classes)
        told = [one | region for one, region in zip(told, more, strict=True)]
    return told


def _text(label: Label) -> str:
    return label if isinstance(label, str) else msgspec.json.encode(label).decode()


def _predicted(learner: Learner, X: NDArray[np.float64]) -> Prequential:
    known = bool(learner.classes) if learner.is_classifier else learner.n_events > 0
    if not known:
        return nothing(learner, len(X))
    if isinstance(learner, Decider):  # whose outputs are computed once for both
        F = learner.decision_many(X)
        P = learner.probabilities(F) if learner.is_classifier else None
        return Prequential(learner.predictions(F), P)
    labels = np.asarray(learner.predict_many(X))
    return Prequential(labels, learner.predict_proba_many(X) if learner.is_classifier else None)
