"""Compiled copies of a learner: the one in service, the one that is compiled, and the schedule."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import ANY, Declared, count, taken
from streamk.errors import InvalidInput, StateError
from streamk.learners.common.classes import Label
from streamk.learners.common.predictor import aside
from streamk.learners.live_compiled.background import Background, NotCompiled, Order
from streamk.learners.live_compiled.comparison import Comparison
from streamk.learners.live_compiled.recent import RecentEvents
from streamk.prediction import CompiledModel
from streamk.prediction.dc_pred import TreeOptions
from streamk.prediction.teachers import predicted
from streamk.state import JSON, State

__all__ = ["Copies"]

Numbers = NDArray[Any]

_log = logging.getLogger("streamk.compiling")

_OWNER = "a compiled learner"

FIRST = 20_000
"""Events after which the first copy is begun."""
GROWTH, LONGEST = 2, 200_000
"""The next copy is begun after so many times as many events, and after so many more at most."""
MEANWHILE, LATEST = 4, 70_000
"""A copy that is waited for comes when a quarter as many events more were seen, or so many."""
STEP = 1_000
"""Events from one to the next decision: to begin a copy, to wait for one, to predict by it."""
ENOUGH = 1_000
"""Labels before the first copy is begun, and those on which a copy is compared before it counts."""
_SAMPLE, _SAMPLE_BYTES = 100_000, 64 << 20
"""Last events that a copy learns from, and the memory that they may take."""
_ITERATIONS = 50
"""Of L-BFGS: a new copy comes soon."""
_NEVER = -30.0
"""Score of a class that a copy does not know."""
_BEHIND = 0.5
"""Part of the tolerance from which on another copy is compiled."""


class Copies:
    """The compiled copies of a learner, see `streamk.learners.LiveCompiled`.

    Parameters
    ----------
    learner : streamk.learners.Learner
    budget, tolerance : float
    wait : bool
    seed : int
    """

    def __init__(
        self, learner: Any, *, budget: float, tolerance: float, wait: bool, seed: int
    ) -> None:
        self._learner, self._tolerance, self._wait = learner, tolerance, wait
        # The shape of a copy is found anew: more events need more leaves.
        self._options = TreeOptions(budget=budget, seed=seed, iterations=_ITERATIONS)
        self.model: CompiledModel | None = None
        """The copy that predicts, or is compared with the learner."""
        self.serving = False
        """True if it predicts."""
        self.seen = self._since = self._predicted = 0
        """Events in all, those since the copy came, and those of them that it predicted."""
        self.recent = RecentEvents(_SAMPLE, most_bytes=_SAMPLE_BYTES)
        """Events that the next copy learns from."""
        self._comparison = Comparison()
        self._order: Order | None = None
        self._background: Background | None = None
        """The copy that comes next, and the process that compiles it."""
        self._next: CompiledModel | None = None
        """A copy that is there, and comes with the next checkpoint."""
        self._at, self._come_at = FIRST, 0
        """Events after which the next copy is begun, and the one that was begun comes."""

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        held = [each.nbytes for each in (self.model, self._order, self._next) if each is not None]
        return self.recent.nbytes + sum(held)

    @property
    def figures(self) -> dict[str, Any]:
        """See `LiveCompiled.comparison`."""
        found: dict[str, Any] = self._comparison.figures(is_classifier=self._learner.is_classifier)
        if found:
            found["predicted_by_copy"] = self._predicted / max(1, self._since)
            found["copy_predicts"] = self.serving
        return found

    @property
    def due(self) -> int:
        """Events until there is something to decide."""
        return STEP - self.seen % STEP

    def see(self, X: Numbers) -> None:
        """Take in events (n, d), `due` at most, after they were predicted and learned."""
        self.recent.add(X)
        self.seen += len(X)
        if self.model is not None:
            self._since += len(X)
            self._predicted += self.serving * len(X)
        if self._order is not None:
            self._background = self._background or Background(self._order)
        if self.seen % STEP == 0 and len(X):
            self._decide()

    def compare(self, mine: Numbers, copy: Numbers, y: Numbers) -> None:
        """Take in predictions (n, outputs) of the learner and by the copy, and labels (n,)."""
        self._comparison.add(mine, copy, y, is_classifier=self._learner.is_classifier)

    def _decide(self) -> None:
        """Predict by the copy or not, from here on; begin the next, or wait for it."""
        self._comparison.close()
        enough = self._comparison.events >= ENOUGH
        excess = self._comparison.excess(is_classifier=self._learner.is_classifier)
        if enough:
            self.serving = excess <= self._tolerance
        if self._order is not None:
            if self._wait and self.seen >= self._come_at:
                self._take_over(self._compiled())
            return
        behind = self.model is None or (enough and excess > _BEHIND * self._tolerance)
        due = self.seen >= self._at and self._learner.n_events >= ENOUGH
        if behind and due and self._next is None:
            self._at = min(GROWTH * self.seen, self.seen + LONGEST)
            try:
                self._begin()
            except InvalidInput as error:  # as where single precision does not hold a prediction
                _log.warning(
                    "no copy can be compiled of what the model predicts (%s); the next one is begun"
                    " after %s events",
                    error,
                    f"{self._at:,}",
                )

    def checkpointed(self, *, saved: bool) -> None:
        """Take over the copy that the last state has, or without a state one that is ready."""
        if not saved:
            self._look()
        if self._next is not None:
            self._take_over(self._next)

    def renew(self) -> None:
        """Have a copy compiled now, wait for it, and predict by it.

        Raises
        ------
        InvalidInput
            If there is nothing to compile: fewer than two events, or of classes fewer than two.
        """
        self._order = None  # one that was begun is of fewer events
        self._begin()
        if self._order is None:
            raise InvalidInput("there is nothing to compile yet: learn two events or classes first")
        self._take_over(self._compiled())
        self.serving = True

    def _begin(self) -> None:
        """Have a copy compiled of what the learner says of the last events."""
        learner, X = self._learner, self.recent.events.copy()
        if not learner.columns or (learner.is_classifier and len(learner.classes) < 2):
            return
        if len(X) < 2:
            return
        with aside(learner):
            targets = predicted(learner, X)
        self._order = Order(X, targets, self._options)
        self._background = Background(self._order)
        self._come_at = self.seen + min(max(1, self.seen // MEANWHILE), LATEST)

    def _compiled(self) -> CompiledModel:
        """Wait for the copy that was begun, and return it."""
        assert self._background is not None
        assert self._order is not None
        try:
            return self._background.result()
        except NotCompiled as error:
            _log.warning("%s; compiling in this process", error)
            return self._order.compiled()

    def _look(self) -> None:
        """Take what the process that compiles has left, if it has ended."""
        if self._wait or self._background is None or not self._background.ended:
            return
        try:
            self._next = self._background.result()
        except NotCompiled as error:
            _log.warning("%s; the next one is begun after %s events", error, f"{self._at:,}")
        self._order = self._background = None

    def _take_over(self, copy: CompiledModel) -> None:
        if self.model is not None:
            _log.info("another compiled copy comes", extra={"streamk": self.figures})
        self._use(copy)
        self._order = self._background = self._next = None
        self.serving, self._since, self._predicted = False, 0, 0
        self._comparison = Comparison()

    def _use(self, copy: CompiledModel) -> None:
        self.model = copy
        self._places = [self._learner.classes.index(label) for label in copy.classes]
        """Of the copy's classes, among the learner's."""
        self._same_order = self._places == list(range(len(copy.classes)))

    def scores(self, X: Numbers) -> Numbers:
        """Return what the copy in service says of events (n, d).

        Returns
        -------
        float64 array of shape (n, classes) or (n, 1)
            Scores of all classes that the learner knows, or numbers.
        """
        assert self.model is not None
        width, classes = self.model.width, len(self._learner.classes)
        scores = self.model.decision_many(X if X.shape[1] == width else X[:, :width])
        if not self._learner.is_classifier:
            return scores
        if scores.shape[1] == 1:  # of the second of two classes
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        if self._same_order and len(self._places) == classes:
            return scores
        found = np.full((len(X), classes), _NEVER)
        found[:, self._places] = scores - scores.max(axis=1, keepdims=True)
        return found

    # State

    def state(self, parts: dict[str, State], header: dict[str, JSON]) -> State:
        """Return the state of a model with these parts and this header, and the copies."""
        self._look()
        parts = {**parts, "comparison": self._comparison.state()}
        for name, part in (("copy", self.model), ("order", self._order), ("next", self._next)):
            if part is not None:
                parts[name] = part.state()
        numbers = {name: getattr(self, attribute) for name, attribute in _COUNTS.items()}
        nested = State.nest(parts, {**header, **numbers, "serving": self.serving})
        return State(nested.header, {**nested.arrays, "events": self.recent.events.copy()})

    def restore(self, state: State) -> None:
        """Take back what `state` gave, and take over the copy that came with it.

        Raises
        ------
        StateError
            If it does not fit.
        """
        header: Any = state.header
        for name, attribute in _COUNTS.items():
            setattr(self, attribute, count(header, name, _OWNER))
        self._comparison = Comparison.from_state(state.child("comparison"))
        sizes = {"d": len(self._learner.columns or ())}
        declared = (Declared("events", "float64", ("n", "d"), ANY),)
        found, _ = taken(declared, state.arrays, sizes, _OWNER)
        self.recent.add(found["events"])
        if "copy" in header["parts"]:
            self._use(self._copy_of(state, "copy"))
            self.serving = header.get("serving") is True
        if "order" in header["parts"]:
            order = Order.from_state(state.child("order"))
            self._check_part("order", order.targets.classes, order.X.shape[1])
            # Sizes come from arrays, and not from a header.
            self._order = replace(order, options=self._options)
        if "next" in header["parts"]:
            self._take_over(self._copy_of(state, "next"))

    def _copy_of(self, state: State, name: str) -> CompiledModel:
        found = CompiledModel.from_state(state.child(name))
        self._check_part(name, found.classes, found.width)
        return found

    def _check_part(self, name: str, classes: Sequence[Label], width: int) -> None:
        """Raise StateError unless a copy has the columns and classes of the learner, or some."""
        learner = self._learner
        distinct = len(classes) > 1 and all(classes.count(label) == 1 for label in classes)
        known = distinct and all(label in learner.classes for label in classes)
        if (not known if learner.is_classifier else classes) or not (
            0 < width <= len(learner.columns or ())
        ):
            raise StateError(f"the {name} of {_OWNER} has other columns or classes than it")


_COUNTS = {
    "seen": "seen",
    "since": "_since",
    "predicted": "_predicted",
    "at": "_at",
    "come_at": "_come_at",
}
"""Names in a header, and attributes."""
