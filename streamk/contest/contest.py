"""Several models that learn the same events; one of them predicts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.contest.entries import (
    Cause,
    Entry,
    Promotion,
    Scores,
    check_beside,
    check_name,
    evidence,
    needed,
    promotions_of,
    scored,
    undone,
)
from streamk.declared import count, listed, reading
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column
from streamk.learners.common.base import Learner
from streamk.learners.common.predictor import OwnClasses
from streamk.learners.common.prequential import Followed, Prequential, joined_by_class
from streamk.learners.registry import Opening, check_kind, initials, inner, kind_of, other_champion
from streamk.options import Whole
from streamk.packing import fingerprint
from streamk.state import JSON, State

_OWNER = "a contest"
_log = logging.getLogger("streamk.contest")
WINDOW = 1000
"""Default of the events that windowed figures are about."""


class Contest(OwnClasses):
    """A champion, which predicts, and challengers, which learn beside it.

    Each model predicts each event before it learns it, as it would alone; what it predicts and
    learns does not depend on the others. The champion's predictions are those of the contest. The
    figures of all are in `standings`, and a challenger becomes champion by `promote`, or by a test:
    with ``promote_after=n`` each challenger is tested against the champion after every n events
    that both have predicted, on these, and is promoted where it is better
    (`streamk.contest.entries`): it was right, or nearer to the number, more often than
    the champion, and of numbers its mean absolute error was less. The probability that a challenger
    that is not better is ever promoted is at most 5%. Of several that pass at one event that of the
    strongest evidence is promoted. All tests begin anew with each champion.

    Predictions and states are the same bits whatever the batches.

    Parameters
    ----------
    models : mapping of str to Learner
        Two at least, which have not learned yet; the first one is the champion. Names are made of
        letters, digits, ``-`` and ``_``.
    promote_after : int, default 0
        Events of a test; 0 for none.
    window : int, default 1000
        Events in the windowed figures.

    Attributes
    ----------
    champion : str
        The name of the champion.
    promotions : list of Promotion
        All changes of the champion so far.

    Raises
    ------
    InvalidInput
        If a name or number is out of its domain, there is no challenger, or models are of different
        tasks, have learned, or cannot be in a contest.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import create
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0.0, "same", "other").tolist()
    >>> small = {"task": "classification", "block_size": 64, "max_features": 64}
    >>> models = {
    ...     "line": create("doubly-stochastic", kernel="linear", **small),
    ...     "curve": create("doubly-stochastic", kernel="gaussian", **small),
    ... }
    >>> contest = Contest(models, promote_after=100)
    >>> _ = contest.predict_then_learn_many(X, y)
    >>> contest.champion, [promotion.events for promotion in contest.promotions]
    ('curve', [101])
    """

    TYPE = "contest"

    def __init__(
        self, models: Mapping[str, Any], *, promote_after: int = 0, window: int = WINDOW
    ) -> None:
        Whole(least=0).check("promote_after", promote_after)
        Whole(least=1).check("window", window)
        if len(models) < 2:
            raise InvalidInput(f"a contest needs at least two models, not {len(models)}")
        self.promote_after, self.window = promote_after, window
        self._tests = 0
        """Those that have begun."""
        self.promotions: list[Promotion] = []
        self._entries: dict[str, Entry] = {}
        self._events = 0
        self._classes = []
        self.champion = next(iter(models))
        self.learner = models[self.champion]
        for name, learner in models.items():
            self.begin(name, learner)

    def begin(self, name: str, learner: Any) -> None:
        """Have another model join as a challenger, which begins with the next event.

        Raises `InvalidInput` if the name is taken or none, or the model cannot be in this contest.
        """
        check_kind(learner, f"{name}: {learner!r} cannot be in a contest")
        check_beside(name, learner, self.models, self._classes)
        scores = Scores(classification=learner.is_classifier, window=self.window)
        entry = Entry(learner, fingerprint(learner.state()), scores, self._events)
        if self.columns is not None and learner.columns is None:
            learner.add_columns(self.columns)
        self._entries[name] = entry
        self._met(learner.classes)
        if name != self.champion:
            self._begin_test(entry)

    def go_on_with(self, learner: Any) -> None:
        """Have the champion be one that has learned alone; the challengers begin after it.

        Parameters
        ----------
        learner : Learner
            Of the kind that the champion is. Nothing was learned here.
        """
        self._entries[self.champion].learner = self.learner = learner
        self._events, self._classes = int(learner.n_events), list(learner.classes)
        for entry in self._challengers.values():
            entry.began = self._events
            self._met(entry.learner.classes)
            if learner.columns is not None and entry.learner.columns is None:
                entry.learner.add_columns(learner.columns)

    def drop(self, name: str) -> None:
        """Have a challenger leave.

        Raises `InvalidInput` unless there is a challenger of that name, and another one.
        """
        self._challenger(name)
        if len(self._entries) == 2:
            raise InvalidInput(f"{name} is the last challenger; go on with the champion, `learner`")
        del self._entries[name]

    # What it is

    @property
    def predicting(self) -> Any:
        """The champion."""
        return self.learner

    @property
    def models(self) -> dict[str, Any]:
        """The learners by their names, in the order in which they began."""
        return {name: entry.learner for name, entry in self._entries.items()}

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        """True if a value may be missing (NaN)."""
        return all(learner.takes_missing for learner in self.models.values())

    @property
    def max_classes(self) -> int:
        """Classes that there may be; labels that would make more are refused."""
        return min(int(learner.max_classes) for learner in self.models.values())

    @property
    def n_events(self) -> int:
        """Events learned."""
        return self._events

    @property
    def nbytes(self) -> int:
        """Memory of all models, in bytes."""
        return sum(entry.learner.nbytes + entry.scores.nbytes for entry in self._entries.values())

    @property
    def drifts(self) -> tuple[int, ...]:
        """After how many events the champion's experts began anew because of drift."""
        began = self._entries[self.champion].began
        return tuple(began + n for n in self.learner.drifts)

    @property
    def standings(self) -> dict[str, Any]:
        """The champion, the figures of all models and the promotions, as JSON data.

        ``champion`` is a name. ``models`` has for each name ``began``, after how many labelled
        events, ``events``, how many were scored, and the figures of these, ``whole`` and
        ``window``: accuracy and log_loss, or mae and rmse. ``promotions`` is a list of
        `streamk.contest.entries.Promotion`.
        """
        return {
            "champion": self.champion,
            "models": {
                name: {"began": entry.began, **entry.scores.figures()}
                for name, entry in self._entries.items()
            },
            "promotions": [asdict(each) for each in self.promotions],
        }

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        for learner in self.models.values():
            learner.add_columns(names)

    # Learning

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it if its label in y is not None.

        Raises `InvalidInput` if events or labels cannot be used, naming the model that refuses
        them.
        """
        events, labels, known = self._checked(X, y)
        found: list[Followed] = []
        first = 0
        while first < len(events):
            stop = first + self._until_test(known[first:])
            part = slice(first, stop)
            found.append(self._follow(events[part], labels[part], known[part]))
            better = self._best()
            if better is not None:
                self._promote(better, "rule")
            first = stop
        return joined_by_class(found, self._classes if self.is_classifier else None)

    def _follow(self, X: NDArray[Any], y: list[Any], known: NDArray[np.bool_]) -> Followed:
        """Have all models predict and learn events, and compare; return the champion's part."""
        found = {}
        for name, learner in self.models.items():
            try:
                found[name] = learner.predict_then_learn_many(X, y)
            except InvalidInput as error:
                raise InvalidInput(f"{name}: {error}") from error
        self._events += int(known.sum())
        if known.any():
            scores = {
                name: scored(found[name], tuple(entry.learner.classes), y, known)
                for name, entry in self._entries.items()
            }
            for name, entry in self._entries.items():
                entry.scores.add(scores[name].scores[scores[name].there])
                if name != self.champion:
                    entry.compare(scores[name], scores[self.champion])
        for learner in self.models.values():
            self._met(learner.classes)
        return Followed(found[self.champion], tuple(self.learner.classes))

    # Tests of challengers against the champion, each after `promote_after` events compared

    def _begin_test(self, entry: Entry) -> None:
        """Begin a test of a challenger, and forget the one that it was in."""
        self._tests += self.promote_after > 0
        entry.restart(self._tests if self.promote_after else 0)

    def _until_test(self, known: NDArray[np.bool_]) -> int:
        """Return after how many of the next events, some with labels, a test may be due, or all."""
        if not self.promote_after:
            return len(known)
        left = min(self.promote_after - entry.compared for entry in self._challengers.values())
        rows = np.flatnonzero(known)
        return len(known) if len(rows) < left else int(rows[left - 1]) + 1

    def _best(self) -> str | None:
        """Return the challenger to be promoted by the tests that are due.

        None if there is none; those that were tested are in their next tests then.
        """
        if not self.promote_after:
            return None
        challengers = self._challengers
        due = {name: one for name, one in challengers.items() if one.compared >= self.promote_after}
        found = {name: evidence(each.wins, each.losses) for name, each in due.items()}
        passed = [
            name
            for name, each in due.items()
            if found[name] >= needed(each.test) and each.gain > 0.0
        ]
        if passed:
            return max(passed, key=lambda name: found[name])
        for each in due.values():
            self._begin_test(each)
        return None

    # The champion

    @property
    def _challengers(self) -> dict[str, Entry]:
        return {name: entry for name, entry in self._entries.items() if name != self.champion}

    def _challenger(self, name: str) -> Entry:
        """Return the challenger of that name. Raises `InvalidInput` if there is none."""
        found = self._challengers
        if name not in found:
            what = "is the champion" if name == self.champion else "is no model here"
            raise InvalidInput(f"{name!r} {what}; the challengers are {', '.join(found)}")
        return found[name]

    def promote(self, name: str) -> None:
        """Have a challenger predict from the next event on; the champion becomes a challenger.

        Raises `InvalidInput` unless there is a challenger of that name.
        """
        with self.lock:
            self._challenger(name)
            self._promote(name, "command")

    def roll_back(self) -> None:
        """Have the champion before the last promotion predict again.

        Raises `InvalidInput` if there was no promotion, or that model is no longer here.
        """
        with self.lock:
            name = undone(self.promotions)
            self._challenger(name)
            self._promote(name, "rollback")

    def _promote(self, name: str, by: Cause) -> None:
        entry = self._entries[name]
        tested = (entry.wins, entry.losses) if by == "rule" else (0, 0)
        self.promotions.append(Promotion(self._events, name, self.champion, by, *tested))
        self.champion, self.learner = name, entry.learner
        _log.info("%s is the champion, after %s labelled events", name, f"{self._events:,}")
        entry.restart(0)
        for each in self._challengers.values():
            self._begin_test(each)

    def __repr__(self) -> str:
        return f"Contest(champion={self.champion!r}, models={self.models!r})"

    # State

    def state(self) -> State:
        """Return everything needed to go on exactly from here."""
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "champion": self.champion,
            "models": [entry.to_json(name) for name, entry in self._entries.items()],
            "promotions": [asdict(each) for each in self.promotions],
            "promote_after": self.promote_after,
            "window": self.window,
            "events": self._events,
            "tests": self._tests,
            "classes": list[JSON](self._classes),
        }
        parts = {
            part_of(name, self.champion): learner.state() for name, learner in self.models.items()
        }
        parts |= {f"entry-{name}": entry.state() for name, entry in self._entries.items()}
        return State.nest(parts, header)

    @classmethod
    def initials(cls, state: State) -> dict[str, str]:
        """Return digests of the models before they learned, by name. Raises `StateError`."""
        models = listed(state.header, "models", _OWNER)
        with reading(_OWNER):
            return {str(each["name"]): str(each["initial"]) for each in models}

    @classmethod
    def champion_state(cls, state: State) -> State:
        """Return the state of the champion."""
        return state.child("learner")

    @property
    def placing(self) -> dict[str, Any]:
        """The placing of each model, and the options that a job may change."""
        return {
            "models": {name: learner.placing for name, learner in self.models.items()},
            "promote_after": self.promote_after,
            "window": self.window,
        }

    @classmethod
    def from_state(
        cls,
        state: State,
        *,
        models: Mapping[str, dict[str, Any]] | None = None,
        promote_after: int | None = None,
        window: int | None = None,
    ) -> Self:
        """Return the contest of a state.

        Raises `StateError` if the state is another learner's or does not fit.

        Parameters
        ----------
        state : State
        models : mapping of str to dict, optional
            `Learner.placing` of the models, by their names.
        promote_after, window : int, optional
            See above; by default as they were. Tests begin anew where `promote_after` is another.
        """
        header: Any = state.expect(cls.TYPE).header
        contest = cls.__new__(cls)
        before = count(header, "promote_after", _OWNER)
        contest.promote_after = before if promote_after is None else promote_after
        contest._tests = count(header, "tests", _OWNER)
        contest.window = count(header, "window", _OWNER, least=1) if window is None else window
        contest.champion = str(header.get("champion"))
        contest.promotions = promotions_of(header.get("promotions"))
        contest._events = count(header, "events", _OWNER)
        contest._classes = listed(header, "classes", _OWNER)
        contest._entries = {}
        for data in listed(header, "models", _OWNER):
            with reading(_OWNER):
                name = data["name"]
                check_name(name)
            part = state.child(part_of(name, contest.champion))
            learner = inner(part, (models or {}).get(name), _OWNER)
            kept = state.child(f"entry-{name}")
            contest._entries[name] = Entry.restored(learner, data, kept, contest.window)
        contest._check(before)
        if contest.promote_after != before:
            for entry in contest._challengers.values():
                contest._begin_test(entry)
        return contest

    def _check(self, before: int) -> None:
        """Raise StateError unless the parts of a state with tests of so many events fit."""
        fits = len(self._entries) > 1 and self.champion in self._entries
        if fits:
            self.learner = self._entries[self.champion].learner
            fits = all(self._fits(entry, before) for entry in self._entries.values())
            begun = [entry.test for entry in self._challengers.values()]
            fits = fits and all(bool(before) <= test <= self._tests for test in begun)
        if not fits:
            raise StateError(f"the parts of {_OWNER} do not fit together; take another checkpoint")

    def _fits(self, entry: Entry, before: int) -> bool:
        learner = entry.learner
        return (
            learner.is_classifier == self.is_classifier
            and learner.columns == self.columns
            and set(learner.classes) <= set(self._classes)
            and entry.began <= self._events
            and entry.scores.events <= self._events - entry.began
            and (not before or entry.compared < before)
        )

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another contest learned since the two were one, model by model.

        A model that the other lacks stays as it is. Champion, figures and tests stay those of this
        contest.
        """
        for name, entry in self._entries.items():
            its = other._entries.get(name)
            if its is None:
                continue
            # Models that began apart have nothing in common.
            together = entry.began == its.began
            common = max(0, common_events - entry.began) if together else 0
            try:
                entry.learner.merge(its.learner, common_events=common)
            except InvalidInput as error:
                raise InvalidInput(f"{name}: {error}") from error
        self._events += other._events - common_events
        known = self.columns or ()
        for learner in self.models.values():
            there = set(learner.columns or ())
            learner.add_columns([column for column in known if column not in there])
        self._met(other.classes)


def part_of(name: str, champion: str) -> str:
    """Return the name of the part of a state that has a model."""
    return "learner" if name == champion else f"challenger-{name}"


class ContestOpening(Opening):
    """Opens what checkpoints hold as the contest of a run.

    A run may have other challengers than the one before it. Its own model is known by what it was
    before it learned anything, challengers by that and their names:

    - A challenger that the checkpoint lacks begins with the next event.
    - One that the run does not name is dropped, and so is a former champion.
    - The champion stays, so the run must have it: as its own model or as one of its challengers.
    - A run without challengers goes on with the champion alone, in shards if its model is in
      shards (`Opening`).

    Parameters
    ----------
    contest : Contest
        The run's, as it begins without a checkpoint.
    """

    def __init__(self, contest: Contest) -> None:
        super().__init__(contest)
        self._placing = contest.placing
        self._own = contest.champion
        """The name of the run's own model."""

    def _digest_of(self, model: Any) -> str:
        return initials(self._fresh)[model.champion]

    def open(self, state: State, like: Learner) -> Contest:
        """Return the contest that goes on from a state; raises as `Opening.open` does."""
        if state.type == Contest.TYPE:
            return self._with_challengers(state)
        contest = Contest.from_state(self._fresh, **self._placing)
        contest.go_on_with(contest.learner.reopened(state, kind_of(state.type)))
        return contest

    def _with_challengers(self, state: State) -> Contest:
        """Return a contest that goes on with the models that this run has, and no others."""
        there, wanted = initials(state), initials(self._fresh)
        del wanted[self._own]
        for name, digest in wanted.items():
            if there.get(name, digest) != digest:
                raise StateError(
                    f"the model {name!r} started differently in the checkpoint; give it the same "
                    "options, or another name"
                )
        champion = str(state.header.get("champion"))
        own = self._name_of_own(there.keys() - wanted.keys(), there, champion)
        if champion != own and champion not in wanted:
            raise StateError(other_champion(champion))
        models = self._placing["models"]
        of_each = {own: models[self._own], **{name: models[name] for name in wanted}}
        contest = Contest.from_state(state, **{**self._placing, "models": of_each})
        fresh = Contest.from_state(self._fresh, **self._placing).models
        try:
            for name in [name for name in wanted if name not in there]:
                contest.begin(name, fresh[name])
        except InvalidInput as error:
            raise StateError(f"no challenger can be added to the checkpoint: {error}") from error
        for name in there.keys() - wanted.keys() - {own}:
            contest.drop(name)
        return contest

    def _name_of_own(self, names: Set[str], there: Mapping[str, str], champion: str) -> str:
        """Return the name that the run's own model has among those that no challenger has."""
        found = [name for name in there if name in names and there[name] == self._digest]
        if not found:
            raise StateError(
                "this run's own model is not in the checkpoint, or is also given as a challenger; "
                "give it the options of a model that `streamk inspect` shows"
            )
        return champion if champion in found else found[0]
