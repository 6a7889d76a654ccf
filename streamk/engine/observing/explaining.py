"""The explanation of one prediction, at a cost that is bounded whatever the columns are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connectors.errors import BadRecord
from streamk.encoding import Name, Schema
from streamk.learners import Contest, Learner, MultiKernel
from streamk.learners.common.predictor import innermost
from streamk.learners.report import attributions

__all__ = ["MOST_FIELDS", "Explanation", "Fields", "explain"]

MOST_FIELDS = 256
"""Fields whose effects are computed for one event; each takes a prediction."""
_REASONS = 5

Places = Mapping[Name, list[int]]
Event = NDArray[np.float64]


@dataclass(frozen=True)
class Explanation:
    """The effects of fields on a prediction, and the shares of the experts in it.

    Attributes
    ----------
    effects : dict of field to float
        Of a field on the prediction, against its absence, see `attributions`; of `MOST_FIELDS`
        fields at most, and none where the model takes no missing values.
    values : dict of field to float, str or None
        Of the five fields of the largest effect, that one first: the number or the texts, None
        where it is missing.
    is_whole : bool
        Whether these are the effects of all fields.
    experts : dict of str to float
        The shares of the experts, see `MultiKernel.shares`; empty for other models.
    """

    effects: dict[Name, float]
    values: dict[Name, Any]
    is_whole: bool
    experts: dict[str, float]

    @property
    def reasons(self) -> list[dict[str, Any]] | None:
        """Field, value and effect of the largest effects; None where not all are known.

        Examples
        --------
        >>> Explanation({"a": 0.1, "b": -0.2}, {"b": "x"}, True, {}).reasons
        [{'column': 'b', 'value': 'x', 'effect': -0.2}]
        """
        if not self.is_whole:
            return None
        return [
            {"column": str(name), "value": value, "effect": self.effects[name]}
            for name, value in self.values.items()
        ]


class Fields:
    """The fields of events, each with the places of its columns.

    Parameters
    ----------
    schema : Schema
    columns : sequence of str or int
        Those of the model, all of them of the schema's fields.

    Examples
    --------
    >>> schema = Schema(("n", "c=x", "c=y"), kinds={"n": "number", "c": "text"})
    >>> Fields(schema, schema.columns).places
    {'n': [0], 'c': [1, 2]}
    """

    def __init__(self, schema: Schema, columns: Sequence[Name]) -> None:
        self.columns = columns
        self.places: dict[Name, list[int]] = {}
        for place, column in enumerate(columns):
            self.places.setdefault(_owner(schema, column), []).append(place)

    def turn(self, number: int) -> tuple[Places, bool]:
        """Return the fields that the explanation of that number is about, and whether all are."""
        names = list(self.places)
        if len(names) <= MOST_FIELDS:
            return self.places, True
        first = number * MOST_FIELDS % len(names)
        some = [*names[first:], *names[:first]][:MOST_FIELDS]
        return {name: self.places[name] for name in some}, False

    def value(self, name: Name, x: Event) -> float | str | None:
        """Return the value of a field in an event x (d,): its texts, number or time; else None."""
        there = [place for place in self.places[name] if not math.isnan(x[place])]
        columns = {self.columns[place]: float(x[place]) for place in there}
        before = f"{name}="
        texts = [str(column) for column, number in columns.items() if number > 0.0]
        found = [text.removeprefix(before) for text in texts if text.startswith(before)]
        if found:
            return ", ".join(found)
        elapsed = columns.get(f"{name}@elapsed")
        if elapsed is not None:
            return f"{np.datetime64(int(elapsed), 's')}Z"
        return columns.get(name)


def _owner(schema: Schema, column: Name) -> Name:
    try:
        return schema.owner(column)
    except BadRecord:  # of a model that was made with columns that the stream has not met
        return column


def explain(model: Learner, fields: Fields, x: Event, number: int) -> Explanation:
    """Explain what a model predicts for an event; it is as it was afterwards.

    Parameters
    ----------
    model : Learner
        Of a contest its champion is meant.
    fields : Fields
    x : float64 array of shape (d,)
    number : int
        Of explanations so far: where the fields are many, others have their turn each time.
    """
    model = model.learner if isinstance(model, Contest) else model
    experts: dict[str, float] = {}
    expert = innermost(model)
    if isinstance(expert, MultiKernel):
        with expert.aside():
            experts = expert.shares(x)
    if not model.takes_missing:
        return Explanation({}, {}, False, experts)
    turn, is_whole = fields.turn(number)
    found = attributions(model, x, list(turn.values())).tolist()
    effects = dict(zip(turn, found, strict=True))
    largest = sorted(effects, key=lambda name: -abs(effects[name]))[:_REASONS]
    values = {name: fields.value(name, x) for name in largest}
    return Explanation(effects, values, is_whole, experts)
