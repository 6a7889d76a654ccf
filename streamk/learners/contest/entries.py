"""One model of a contest, with its figures and how it compares with the champion."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamk.declared import FINITE, Declared, count, taken
from streamk.errors import InvalidInput, StateError
from streamk.learners.common.classes import Label
from streamk.learners.common.prequential import Prequential, score_classes, score_numbers
from streamk.learners.contest.scores import Scores
from streamk.packing import fingerprint
from streamk.state import JSON, State

__all__ = ["Entry", "Scored", "check_beside", "check_name", "new_entry", "scored"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_OWNER = "a model of a contest"
_GAIN = (Declared("gain", "float64", (), FINITE),)


def check_name(name: Any) -> None:
    """Raise InvalidInput unless it can be the name of a model."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidInput(
            f"{name!r} cannot be the name of a model; it is made of letters, digits, - and _"
        )


def check_beside(
    name: Any, learner: Any, models: Mapping[str, Any], classes: Collection[Label]
) -> None:
    """Raise InvalidInput unless a learner can be a model of that name beside others.

    Parameters
    ----------
    name : str
    learner : Learner
    models : mapping of str to Learner
        The others.
    classes : collection of labels
        The labels that these have met.
    """
    check_name(name)
    if name in models:
        raise InvalidInput(f"there is a model called {name!r} already; choose another name")
    if learner.n_events:
        raise InvalidInput(f"{name} has learned {learner.n_events} events already; give a new one")
    for other, each in models.items():
        if learner.is_classifier != each.is_classifier:
            raise InvalidInput(f"{name} and {other} must be of the same task")
        if learner.columns not in (None, each.columns):
            raise InvalidInput(f"{name} and {other} must have the same columns, or none yet")
    found = {*classes, *learner.classes}
    most = min(each.max_classes for each in (learner, *models.values()))
    if learner.is_classifier and len(found) > most:
        raise InvalidInput(
            f"with {name} there are {len(found)} classes, and one of the models may have {most};"
            " raise max_classes"
        )


@dataclass(frozen=True)
class Scored:
    """Scores of predictions of events, two of each, in which less or more is better.

    Attributes
    ----------
    there : bool array of shape (n,)
        Whether an event has a label, and was predicted.
    scores : float64 array of shape (n, 2)
        Of events without either, anything.
    """

    there: NDArray[np.bool_]
    scores: NDArray[np.float64]


def scored(
    found: Prequential, classes: tuple[Label, ...], y: list[Any], known: NDArray[np.bool_]
) -> Scored:
    """Return the scores of predictions of n events.

    Parameters
    ----------
    found : Prequential
    classes : tuple of labels
        Those that its probabilities are of.
    y : list of n labels or None
    known : bool array of shape (n,)
        Whether a label is not None.
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
    return Scored(there, scores)


@dataclass
class Entry:
    """One model of a contest.

    Attributes
    ----------
    learner : Learner
    initial : str
        Digest of its state before it learned anything.
    scores : Scores
    began : int
        Labelled events of the contest before it began.
    test : int
        The number of the test that it is in, 0 if it is in none.
    compared, wins, losses : int
        Events on which it was compared with the champion in this test, and on how many of them it
        was better or worse.
    gain : float
        Sum of the champion's first scores less its own, of numbers; of classes its own less the
        champion's.
    """

    KEPT: ClassVar[tuple[str, ...]] = ("began", "test", "compared", "wins", "losses")

    learner: Any
    initial: str
    scores: Scores
    began: int = 0
    test: int = 0
    compared: int = 0
    wins: int = 0
    losses: int = 0
    gain: float = 0.0

    def compare(self, mine: Scored, champions: Scored) -> None:
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
        header: Any = {"type": "entry"}
        gain = State(header, {"gain": np.array(self.gain)})
        return State.nest({"scores": self.scores.state(), "test": gain}, header)

    @classmethod
    def restored(cls, learner: Any, data: Mapping[str, Any], state: State, window: int) -> Entry:
        """Return the entry of `to_json` and `state`. Raises `StateError` if they do not fit."""
        scores = Scores(classification=learner.is_classifier, window=window)
        scores.restore(state.child("scores"))
        initial = data.get("initial")
        if not isinstance(initial, str):
            raise StateError(f"'initial' of {_OWNER} must be a digest, not {initial!r}")
        found, _ = taken(_GAIN, state.child("test").arrays, {}, _OWNER)
        kept = {each: count(data, each, _OWNER) for each in cls.KEPT}
        entry = cls(learner, initial, scores, **kept, gain=float(found["gain"]))
        if entry.wins + entry.losses > entry.compared:
            raise StateError(f"{_OWNER} has won and lost more often than it was compared")
        return entry


def new_entry(learner: Any, *, window: int, began: int) -> Entry:
    """Return the entry of a model that begins after so many labelled events."""
    scores = Scores(classification=learner.is_classifier, window=window)
    return Entry(learner, fingerprint(learner.state()), scores, began)
