"""The effects of the fields of an event on its prediction.

The effect of a field is the prediction, the probability of the predicted class or the number, less
what it would be if the event said nothing of the field: none of its texts, and no number or time
(occlusion, or feature ablation). NaN in the columns of hundreds of texts would be another thing:
few events or none are so, and a model that has met none has nothing to say of one. Of a field of
words each word that the event has is told by itself, as "comment:refund"; and beside the fields
what is known of its entities, as "user.amount.mean_1d".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.encoding import Name, Schema, shortened, vector_of
from streamk.encoding.values import SAFE, parse_number, plain
from streamk.features.columns import BOOLEANS
from streamk.learners.common.base import Learner

Event = Mapping[Name, Any] | None
"""The values of an event's fields as they stand in it; None where it is an array of numbers."""
Places = Mapping[Name, list[int]]
"""The places of the columns of fields."""

TOLD = 5
"""Reasons that are told of a prediction."""
_NUMBERS = 1 << 20
"""Of the events that are predicted at once: bounds the memory where columns are many."""
_WORDS = 256
"""Words of an event that are told by themselves; of one with more it is their field."""
_LONGEST = 200
"""Characters of a value."""


class Reason(NamedTuple):
    """A field, its value in an event, and its effect on the prediction."""

    column: str
    value: float | bool | str | None
    effect: float


class Fields:
    """The fields of events, each with the places of its columns.

    Attributes
    ----------
    nothing : float64 array of shape (d,)
        An event that says nothing of any field: 0 in the columns of texts and words, else NaN.

    Examples
    --------
    >>> schema = Schema(("n", "c=x", "c=y"), kinds={"n": "number", "c": "text"})
    >>> fields = Fields()
    >>> fields.follow(schema, schema.columns)
    >>> fields.of({"n": 1, "c": "y"})
    {'n': [0], 'c': [1, 2]}
    >>> fields.nothing
    array([nan,  0.,  0.])
    """

    def __init__(self) -> None:
        self.columns: tuple[Name, ...] = ()
        self.nothing = np.zeros(0)
        self._places: dict[Name, list[int]] = {}
        self._made: set[Name] = set()
        """Columns of no field, such as what is known of an entity."""
        self._words: set[int] = set()
        """The places of words."""
        self._vectors: dict[Name, list[Name]] = {}
        """Fields whose values may be vectors, with those that are made of their numbers."""

    def follow(self, schema: Schema, columns: Sequence[Name]) -> None:
        """Take over the present columns of a model, from `Learner.explained`."""
        if columns is self.columns:
            return
        # Made apart and then put in place, as other threads may explain meanwhile.
        known = len(self.columns) if columns[: len(self.columns)] == self.columns else 0
        places = {name: [*some] for name, some in self._places.items()} if known else {}
        words, made = ({*self._words}, {*self._made}) if known else (set(), set())
        nothing = np.append(self.nothing[:known], np.full(len(columns) - known, np.nan))
        for place in range(known, len(columns)):
            owner, is_made = _owner(schema, columns[place])
            made |= {owner} if is_made else set()
            places.setdefault(owner, []).append(place)
            mark = str(columns[place])[len(str(owner)) :][:1]
            if mark and mark in "=:":
                nothing[place] = 0.0
            if mark == ":":
                words.add(place)
        vectors: dict[Name, list[Name]] = {}
        for name in places:
            if (vector := vector_of(name)) is not None:
                vectors.setdefault(vector, []).append(name)
        self._places, self._vectors, self._words = places, vectors, words
        self._made, self.nothing = made, nothing
        self.columns = tuple(columns)

    def of(self, event: Event) -> Places:
        """Return the fields that an event has or lacks; a vector is one of them."""
        found = dict(self._places)
        for vector, numbers in self._vectors.items():
            if event is not None and self._is_vector(vector, numbers, event):
                found[vector] = sum(map(found.pop, numbers), found.get(vector, []))
        return found

    def apart(self, places: Places, x: NDArray[np.float64]) -> Places:
        """Return fields of an event x (d,), with the words of a text instead of its field."""
        if not self._words:
            return places
        found: dict[Name, list[int]] = {}
        for name, some in places.items():
            words = [place for place in some if place in self._words and x[place] > 0.0]
            if 0 < len(words) <= _WORDS:
                found |= {self.columns[place]: [place] for place in words}
            else:
                found[name] = some
        return found

    def _is_vector(self, name: Name, numbers: Sequence[Name], event: Mapping[Name, Any]) -> bool:
        """Return whether a field of an event is a vector, or there is neither it nor its numbers.

        In CSV "c.0" and "c.1" may be fields by themselves.
        """
        value = event.get(name)
        if value is None and name not in self._places:
            return not any(number in event for number in numbers)
        return isinstance(value, list | tuple)

    def value(
        self, name: Name, places: Sequence[int], x: NDArray[np.float64], event: Event
    ) -> float | bool | str | None:
        """Return the value of a field as it stands in an event x (d,), None where it is missing.

        A text that was read as a number is one; a list is a text.
        """
        if name not in self._places and self._words.issuperset(places):
            return 1
        number = next((x[place] for place in places if self.columns[place] == name), np.nan)
        value = plain(number if event is None or name in self._made else event.get(name))
        if value is None or np.isnan(x[places]).all():
            return None
        if isinstance(value, str) and parse_number(value) == number and abs(number) < SAFE:
            value = BOOLEANS.get(value, float(number))
        if isinstance(value, float):
            return int(value) if value.is_integer() and abs(value) < SAFE else value
        if isinstance(value, int) and abs(value) < SAFE:
            return value
        if isinstance(value, list | tuple | set | frozenset):
            items = list(map(str, value))
            value = ", ".join(items if isinstance(value, list | tuple) else sorted(items))
        return shortened(str(value), _LONGEST)


def _owner(schema: Schema, column: Name) -> tuple[Name, bool]:
    """Return the field of a column, or the column and True if it is of none."""
    try:
        return schema.owner(column), False
    except ValueError:  # or of a model that was made with columns that the stream has not met
        return column, True


def reasons_of(
    learner: Learner,
    fields: Fields,
    X: NDArray[np.float64],
    events: Sequence[Event],
    *,
    places: Sequence[Places] | None = None,
    most: int | None = None,
) -> list[list[Reason]]:
    """Return the effects of fields on the predictions of events X (n, d), the largest first.

    The learner takes NaN as missing and has learned, and is as it was afterwards. `events` have the
    values of the fields as they stand in them, and `places` those of `Fields.of` whose effects are
    wanted, by default all. Of each event at most so many are told.
    """
    learner, X = learner.explained, learner.looked(X)
    places = [fields.of(event) for event in events] if places is None else places
    places = [fields.apart(one, x) for one, x in zip(places, X, strict=True)]
    effects = attributions(learner, X, [list(one.values()) for one in places], fields.nothing)
    found = []
    for x, event, one, sizes in zip(X, events, places, effects, strict=True):
        effect = dict(zip(one, sizes.tolist(), strict=True))
        largest = sorted(effect, key=lambda name: -abs(effect[name]))[:most]
        found.append(
            [
                Reason(shortened(str(name)), fields.value(name, one[name], x, event), effect[name])
                for name in largest
            ]
        )
    return found


def attributions(
    learner: Learner,
    X: NDArray[np.float64],
    groups: Sequence[Sequence[Sequence[int]]] | None = None,
    nothing: NDArray[np.float64] | None = None,
) -> list[NDArray[np.float64]]:
    """Return what groups of columns of events add to their predictions.

    Of a group this is the prediction less what it would be without its columns: of the predicted
    class, or of the number. Columns that are missing add nothing. Each of the events X (n, d) has
    groups of places of columns that are left out together, by default each alone, and gets a number
    for each group. Columns that are left out have the values of `nothing` (d,), by default NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import MultiKernel
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = MultiKernel(seed=1)
    >>> model.learn_many(X, X[:, 0] > 0)
    >>> ((first, second),) = attributions(model, np.array([[2.0, 2.0]]))
    >>> bool(first > 0.2 > abs(second))
    True
    """
    if groups is None:
        groups = [[[place] for place in range(X.shape[1])]] * len(X)
    if nothing is None:
        nothing = np.full(X.shape[1], np.nan)
    found = [np.zeros(len(some)) for some in groups]
    # Of each event first the prediction itself; without what says nothing already it is the same.
    asked: list[tuple[int, int]] = []
    there = ~np.isnan(X) & (nothing != X)
    for event, some in enumerate(groups):
        asked.append((event, -1))
        asked += [(event, n) for n, part in enumerate(some) if there[event, part].any()]
    whole, classes = np.zeros(len(X)), np.zeros(len(X), np.intp)
    at_once = max(1, _NUMBERS // max(1, X.shape[1]))
    for first in range(0, len(asked), at_once):
        some_asked = asked[first : first + at_once]
        of = [event for event, _ in some_asked]
        rows = X[of]
        for row, (event, n) in zip(rows, some_asked, strict=True):
            if n >= 0:
                part = groups[event][n]
                row[part] = nothing[part]
        with learner.aside():
            answers = _answers(learner, rows, of, [n < 0 for _, n in some_asked], classes)
        for (event, n), answer in zip(some_asked, answers.tolist(), strict=True):
            if n < 0:
                whole[event] = answer
            else:
                found[event][n] = whole[event] - answer
    return found


def _answers(
    learner: Learner,
    rows: NDArray[np.float64],
    of: Sequence[int],
    is_whole: Sequence[bool],
    classes: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Return the numbers predicted for rows, or the probabilities of the events' classes.

    Those are noted in `classes`, as the rows say that are whole.
    """
    if not learner.is_classifier:
        return np.asarray(learner.predict_many(rows), np.float64)
    P = np.asarray(learner.predict_proba_many(rows))
    events, whole = np.array(of), np.array(is_whole)
    classes[events[whole]] = learner.choices(P[whole])
    return np.asarray(P[np.arange(len(P)), classes[events]])


_MOST = 10
"""Classes, and fields, that are listed."""


def report(learner: Learner, fields: Fields, x: NDArray[np.float64], event: Event) -> str:
    """Return a report on an event x (d,) with the values of its fields, as lines."""
    if not learner.n_events:
        return "nothing is learned yet"
    lines = [_prediction(learner, x)]
    if learner.mixes_experts:
        lines += ["", "share of what the experts say:"]
        lines += [f"  {share:6.1%}  {name}" for name, share in learner.shares(x).items()]
    if not learner.takes_missing:
        return "\n".join(lines)
    (reasons,) = reasons_of(learner, fields, x[None], [event])
    on = f"the probability of {learner.predict_one(x)!r}" if learner.is_classifier else "the number"
    lines += ["", f"effect of each field on {on}, against its absence:"]
    for field, value, effect in reasons[:_MOST]:
        is_there = event is None or field in map(str, event)
        said = f"= {value!r}" if value is not None else "is missing" if is_there else "is absent"
        lines.append(f"  {effect:+10.4g}  {field} {said}")
    if len(reasons) > _MOST:
        lines.append(f"  and {len(reasons) - _MOST} fields with less")
    return "\n".join(lines)


def _prediction(learner: Learner, x: NDArray[np.float64]) -> str:
    if not learner.is_classifier:
        return f"predicted: {learner.predict_one(x):g}"
    probabilities = learner.predict_proba_one(x)
    best = sorted(probabilities, key=lambda label: -probabilities[label])[:_MOST]
    shown = ", ".join(f"{label!r} {probabilities[label]:.1%}" for label in best)
    predicted = learner.predict_one(x)
    if probabilities[predicted] == probabilities[best[0]]:
        return f"predicted: {shown}"
    return f"predicted: {predicted!r} by the class weights; probabilities: {shown}"
