"""Events whose labels would be more classes than a model may have: found before, left out after."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamk.encoding import BadEvent, Decoded
from streamk.engine.observing.explaining import Explanation
from streamk.learners.common.classes import Label, beyond
from streamk.learners.common.prequential import Prequential

__all__ = ["Predicted", "before", "surplus_of", "without"]


class Predicted(NamedTuple):
    """The predictions of a batch.

    Attributes
    ----------
    prequential : Prequential
    classes : tuple of labels
        Those that were known after it.
    details : list of dict
        Of each event, if any are wanted.
    drifts : list of int
        Which of its labelled events, counted from 1, were the last before experts began anew.
    measured : float64 array of shape (n, 2), optional
        Whether the region of each event held its label, and its size, where there are regions.
    explanation : Explanation, optional
        Of the first prediction.
    """

    prequential: Prequential
    classes: tuple[Any, ...]
    details: list[dict[str, Any]]
    drifts: list[int]
    measured: npt.NDArray[np.float64] | None = None
    explanation: Explanation | None = None


def surplus_of(
    decoded: Decoded, classes: set[Label], most: int, label: str | int | None
) -> list[BadEvent]:
    """Return the events whose labels would be more than `most` classes, as bad ones.

    The labels of the others join `classes`.
    """
    return [
        BadEvent(
            int(decoded.good[place]),
            label,
            f"label out of domain: {decoded.y[place]!r} would be one class more than"
            f" max_classes={most}; raise that option, or learn a number",
        )
        for place in beyond(classes, decoded.y, most)
    ]


def without(
    decoded: Decoded, surplus: list[BadEvent], found: Predicted
) -> tuple[Decoded, Predicted]:
    """Return what is left where some of the events turn out to be bad ones."""
    kept = ~np.isin(decoded.good, [event.row for event in surplus])
    y = [label for label, keep in zip(decoded.y, kept.tolist(), strict=True) if keep]
    bad = sorted([*decoded.bad, *surplus])
    said, P = found.prequential.predictions, found.prequential.probabilities
    left = Prequential(said[kept], None if P is None else P[kept])
    measured = None if found.measured is None else found.measured[kept]
    details = [more for more, keep in zip(found.details, kept.tolist(), strict=False) if keep]
    growth = [(int(kept[:row].sum()), width) for row, width in decoded.growth]
    return (
        Decoded(decoded.X[kept], y, decoded.good[kept], bad, growth),
        Predicted(left, found.classes, details, found.drifts, measured),
    )


def before(decoded: Decoded, row: int) -> Decoded:
    """Return the events before one of the batch."""
    n = int(np.searchsorted(decoded.good, row))
    growth = [(i, width) for i, width in decoded.growth if i < n]
    return Decoded(decoded.X[:n], decoded.y[:n], decoded.good[:n], [], growth)
