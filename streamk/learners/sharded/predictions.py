"""Predictions of several shards, with the probabilities of all classes that any of them knew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamk.learners.common.classes import Label
from streamk.learners.common.prequential import Prequential


class Followed(NamedTuple):
    """Predictions of some events, and the classes that their probabilities are of."""

    prequential: Prequential
    classes: tuple[Label, ...]


def joined(found: Sequence[Followed], classes: Sequence[Label] | None) -> Prequential:
    """Return the predictions of shards as one.

    Parameters
    ----------
    found : sequence of Followed
        In the order of their events.
    classes : sequence of labels or None
        Those that any of them knew, in the order of the probabilities; None for regression.

    Examples
    --------
    >>> one = Prequential(np.array(["a"], object), np.array([[1.0]]))
    >>> two = Prequential(np.array(["b"], object), np.array([[0.25, 0.75]]))
    >>> joined([Followed(one, ("a",)), Followed(two, ("a", "b"))], ["a", "b"]).probabilities
    array([[1.  ,  nan],
           [0.25, 0.75]])
    """
    n = sum(len(one.prequential.predictions) for one in found)
    dtype: Any = np.float64 if classes is None else object
    predictions = np.empty(n, dtype)
    P = None if classes is None else np.full((n, len(classes)), np.nan)
    places = {label: place for place, label in enumerate(classes or ())}
    first = 0
    for (labels, given), known in found:
        part = slice(first, first + len(labels))
        predictions[part], first = labels, part.stop
        if P is not None and given is not None and known:
            P[part, [places[label] for label in known]] = given
    return Prequential(predictions, P)
