"""One model of a contest, with its figures and how it compares with the champion."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from streamk.declared import FINITE, NON_NEGATIVE, Declared, count, reading, taken
from streamk.errors import InvalidInput, StateError
from streamk.learners.common.classes import Label
from streamk.learners.common.prequential import Prequential, score_classes, score_numbers
from streamk.state import JSON, State

_TYPE = "entry"
_ARRAYS = (
    Declared("sums", "float64", (2,), NON_NEGATIVE),
    Declared("last", "float64", (2, "rows"), NON_NEGATIVE),
    Declared("gain", "float64", (), FINITE),
)

Floats = NDArray[np.float64]


class Scores:
    """Means of the two scores of each event, over all events and over the last, a `window` of them.

    Examples
    --------
    >>> scores = Scores(classification=False, window=2)
    >>> scores.add(np.array([[3.0, 9.0], [1.0, 1.0], [1.0, 1.0]]))
    >>> scores.figures()["window"]
    {'mae': 1.0, 'rmse': 1.0}
    """

    def __init__(self, *, classification: bool, window: int) -> None:
        self.names = ("accuracy", "log_loss") if classification else ("mae", "rmse")
        self.window = window
        self.events = 0
        self._sums: Floats = np.zeros(2)
        self._last: Floats = np.zeros((2, 0))

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self._sums.nbytes + self._last.nbytes

    def add(self, scores: Floats) -> None:
        """Add the scores of further events, (n, 2): `score_classes` or `score_numbers`."""
        self.events += len(scores)
        # One after the other, so that the sums do not depend on the division into calls.
        self._sums = np.cumsum(np.vstack([self._sums, scores]), axis=0)[-1]
        self._last = np.hstack([self._last, scores.T])[:, -self.window :]

    def figures(self) -> dict[str, Any]:
        """Return how many ``events`` were scored, and their figures, ``whole`` and ``window``."""
        if not self.events:
            return {"events": 0, "whole": {}, "window": {}}
        # Summed anew each time: figures must not depend on what has left the window.
        means = {"whole": self._sums / self.events, "window": self._last.mean(axis=1)}
        return {"events": self.events} | {of: self._named(mean) for of, mean in means.items()}

    def _named(self, means: Floats) -> dict[str, float]:
        first, second = means.tolist()
        second = math.sqrt(second) if self.names[1] == "rmse" else second
        return dict(zip(self.names, (first, second), strict=True))

    def arrays(self) -> dict[str, Floats]:
        """Return sums, and the last scores."""
        return {"sums": self._sums.copy(), "last": self._last.copy()}

    def restore(self, events: int, arrays: Mapping[str, Floats]) -> None:
        """Go on with what `arrays` gave after so many events."""
        self.events, self._sums = events, arrays["sums"].copy()
        self._last = arrays["last"][:, -self.window :].copy()


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_OWNER = "a model of a contest"


def check_name(name: Any) -> None:
    """Raise InvalidInput unless it can be the name of a model."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidInput(f"{name!r} cannot be the name of a model; use letters, digits, - and _")


def check_beside(
    name: Any, learner: Any, models: Mapping[str, Any], classes: Collection[Label]
) -> None:
    """Raise InvalidInput unless a learner can be a model of that name beside others.

    `classes` are the labels that the others have met.
    """
    check_name(name)
    if name in models:
        raise InvalidInput(f"there is a model called {name!r} already; choose another name")
    if learner.n_events:
        raise InvalidInput(f"{name} has learned {learner.n_events} events already; give a new one")
    for other, each in models.items():
        if learner.is_classifier != each.is_classifier:
            raise InvalidInput(f"{name} and {other} must have the same task")
        if learner.columns not in (None, each.columns):
            raise InvalidInput(f"{name} and {other} must have the same columns, or none yet")
    found = {*classes, *learner.classes}
    most = min(each.max_classes for each in (learner, *models.values()))
    if learner.is_classifier and len(found) > most:
        raise InvalidInput(
            f"with {name} there are {len(found)} classes, but one of the models allows {most}; "
            "raise max_classes"
        )


class EventScores(NamedTuple):
    """Scores of predictions of n events, two of each, in which less or more is better."""

    there: NDArray[np.bool_]
    """True for an event that has a label, and was predicted (n,)."""
    scores: NDArray[np.float64]
    """Anything, of events without either (n, 2)."""


def scored(
    found: Prequential, classes: tuple[Label, ...], y: list[Any], known: NDArray[np.bool_]
) -> EventScores:
    """Return the scores of predictions of n events, with probabilities of these classes.

    `known` tells which of the n labels in `y` are not None.
    """
    answers, P = found
    there = known if P is None else known & np.array([one is not None for one in answers], bool)
    scores = np.zeros((len(y), 2))
    rows = np.flatnonzero(there)
    if len(rows):
        truth = [y[row] for row in rows.tolist()]
        if P is None:
            scores[rows] = score_numbers(answers[rows], truth)
        else:
            scores[rows] = score_classes(P[rows], answers[rows].tolist(), classes, truth)
    return EventScores(there, scores)


@dataclass
class Entry:
    """One model of a contest."""

    KEPT: ClassVar[tuple[str, ...]] = ("began", "test", "compared", "wins", "losses")

    learner: Any
    initial: str
    """Digest of its state before it learned anything."""
    scores: Scores
    began: int = 0
    """Labelled events of the contest before it began."""
    test: int = 0
    """The number of the test that it is in, 0 if it is in none."""
    compared: int = 0
    """Events on which it was compared with the champion in this test."""
    wins: int = 0
    losses: int = 0
    gain: float = 0.0
    """Sum of the champion's first scores less its own, of numbers; of classes its own less the
    champion's."""

    def compare(self, mine: EventScores, champions: EventScores) -> None:
        """Count in which events this model was better or worse than the champion."""
        both = mine.there & champions.there
        better = mine.scores[both, 0] - champions.scores[both, 0]
        if not self.learner.is_classifier:
            better = -better  # these are errors
        self.compared += len(better)
        self.wins += int((better > 0.0).sum())
        self.losses += int((better < 0.0).sum())
        # One after the other, so that the sum does not depend on the division into calls.
        self.gain = float(np.cumsum([self.gain, *better])[-1])

    def restart(self, test: int) -> None:
        """Begin the test of that number, or none if it is 0."""
        self.test = test
        self.compared = self.wins = self.losses = 0
        self.gain = 0.0

    def to_json(self, name: str) -> JSON:
        """Return all but learner, scores and gain, as JSON data."""
        return {"name": name, "initial": self.initial} | {
            each: getattr(self, each) for each in self.KEPT
        }

    def state(self) -> State:
        """Return scores and gain."""
        header: Any = {"type": _TYPE, "events": self.scores.events}
        return State(header, {**self.scores.arrays(), "gain": np.array(self.gain)})

    @classmethod
    def restored(cls, learner: Any, data: Mapping[str, Any], state: State, window: int) -> Entry:
        """Return the entry of `to_json` and `state`. Raises `StateError` if they do not fit."""
        initial = data.get("initial")
        if not isinstance(initial, str):
            raise StateError(f"'initial' of {_OWNER} must be a digest, not {initial!r}")
        found, _ = taken(_ARRAYS, state.expect(_TYPE).arrays, {}, _OWNER)
        scores = Scores(classification=learner.is_classifier, window=window)
        scores.restore(count(state.header, "events", _OWNER), found)
        kept = {each: count(data, each, _OWNER) for each in cls.KEPT}
        entry = cls(learner, initial, scores, **kept, gain=float(found["gain"]))
        if entry.wins + entry.losses > entry.compared:
            raise StateError(f"{_OWNER} has won and lost more often than it was compared")
        return entry


ERROR_RATE = 0.05
"""Probability that a job ever promotes a challenger for which the hypothesis holds, at most. Each
test has its part of it from its beginning, so that it does not depend on what comes out."""


def evidence(wins: int, losses: int) -> float:
    """Return the logarithm of the mean wealth of all bets.

    It is 0 where there are no more wins than losses, which cannot be evidence: the mean is at most
    1 then.

    Examples
    --------
    >>> round(math.exp(evidence(1, 0)), 6)  # the mean of 1 + λ
    1.5
    >>> round(evidence(60, 40), 2), evidence(40, 60)
    (0.58, 0.0)
    """
    from scipy.special import bdtr

    if wins <= losses:
        return 0.0
    n = wins + losses
    # The mean is an incomplete beta function, which of whole numbers is a binomial probability.
    whole = math.lgamma(wins + 1) + math.lgamma(losses + 1) - math.lgamma(n + 2)
    return whole + (n + 1) * math.log(2.0) + math.log(bdtr(wins, n + 1, 0.5))


def needed(test: int) -> float:
    """Return the evidence that a challenger needs in the job's test of that number, from 1.

    Examples
    --------
    >>> round(needed(1), 2), round(needed(100), 2)
    (3.69, 12.22)
    """
    return math.log(test * (test + 1) / ERROR_RATE)


Cause: TypeAlias = Literal["rule", "command", "rollback"]
"""The cause of a promotion: `promote_after`, `streamk promote`, or `rollback`."""
_PROMOTIONS = "the promotions of a contest"


@dataclass(frozen=True)
class Promotion:
    """One change of the champion."""

    events: int
    """Labelled events before it."""
    champion: str
    """The champion from then on."""
    former: str
    by: Cause
    wins: int = 0
    """The champion's, as `losses`, in the events of its test; 0 where there was none."""
    losses: int = 0


def undone(promotions: Sequence[Promotion]) -> str:
    """Return the champion before the last promotion that was not rolled back.

    Raises `InvalidInput` if there is none.

    Examples
    --------
    >>> undone([Promotion(100, "b", "a", "command")])
    'a'
    """
    former: list[str] = []
    for each in promotions:
        if each.by != "rollback":
            former.append(each.former)
        elif former:
            former.pop()
    if not former:
        raise InvalidInput("there is no promotion to roll back: the first champion predicts")
    return former[-1]


def promotions_of(data: Any) -> list[Promotion]:
    """Return promotions of JSON data. Raises `StateError` if they do not fit."""
    with reading(_PROMOTIONS):
        promotions = [Promotion(**each) for each in data]
    kinds = {"events": int, "wins": int, "losses": int, "champion": str, "former": str}
    for each in promotions:
        typed = all(type(getattr(each, name)) is kind for name, kind in kinds.items())
        if not typed or each.by not in get_args(Cause):
            raise StateError(f"{_PROMOTIONS} do not fit: {each}")
    return promotions
