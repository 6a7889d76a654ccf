"""The explanation of one prediction, at a cost that is bounded whatever the fields are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.learners import Learner
from streamk.learners.explaining import TOLD, Event, Fields, Places, Reason, reasons_of

__all__ = ["MOST_FIELDS", "Explanation", "explain", "turn_of"]

MOST_FIELDS = 256
"""Fields whose effects are computed for one event; each takes a prediction."""


@dataclass(frozen=True)
class Explanation:
    """The effects of fields on a prediction, and the shares of the experts in it.

    Attributes
    ----------
    effects : list of Reason
        The largest first, of `MOST_FIELDS` fields at most; none where the model takes no missing
        values.
    is_whole : bool
        Whether these are the effects of all fields.
    experts : dict of str to float
        The shares of the experts, see `MultiKernel.shares`; empty for other models.
    """

    effects: list[Reason]
    is_whole: bool
    experts: dict[str, float]

    @property
    def reasons(self) -> list[dict[str, Any]] | None:
        """Field, value and effect of the largest effects; None where not all are known.

        Examples
        --------
        >>> Explanation([Reason("b", "x", -0.2)], True, {}).reasons
        [{'column': 'b', 'value': 'x', 'effect': -0.2}]
        """
        return [one._asdict() for one in self.effects[:TOLD]] if self.is_whole else None


def turn_of(places: Places, number: int) -> Places:
    """Return the fields that the explanation of that number is about: of many others each time."""
    names = list(places)
    if len(names) <= MOST_FIELDS:
        return places
    first = number * MOST_FIELDS % len(names)
    return {name: places[name] for name in [*names[first:], *names[:first]][:MOST_FIELDS]}


def explain(
    model: Learner, fields: Fields, x: NDArray[np.float64], event: Event, number: int
) -> Explanation:
    """Explain what a model predicts for an event; it is as it was afterwards.

    Parameters
    ----------
    model : Learner
        Of a contest its champion is meant.
    fields : Fields
    x : float64 array of shape (d,)
    event : mapping or None
        The values of its fields.
    number : int
        Of explanations so far, see `turn_of`.
    """
    model = model.predicting
    with model.innermost.aside():
        experts = model.innermost.shares(x)
    if not model.takes_missing:
        return Explanation([], False, experts)
    places = fields.of(event)
    turn = turn_of(places, number)
    (effects,) = reasons_of(model, fields, x[None], [event], places=[turn])
    return Explanation(effects, len(turn) == len(places), experts)
