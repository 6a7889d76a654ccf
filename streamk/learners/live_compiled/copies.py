"""Compiled copies of a learner: the one in service, the one that is compiled, and the schedule."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import ANY, Declared, count, taken
from streamk.errors import InvalidInput, StateError
from streamk.learners.common.classes import Label
from streamk.learners.live_compiled.background import Background, Order
from streamk.learners.live_compiled.comparison import Comparison
from streamk.learners.live_compiled.recent import RecentEvents
from streamk.prediction import CompiledModel
from streamk.prediction.dc_pred import TreeOptions
from streamk.prediction.teachers import predicted
from streamk.state import JSON, State

__all__ = ["Copies", "aside"]

Numbers = NDArray[Any]

_log = logging.getLogger("streamk.compiling")

_OWNER = "a compiled learner"

FIRST = 20_000
"""Labels after which the first copy is begun."""
GROWTH, LONGEST = 4, 200_000
"""The next copy is begun after so many times as many labels, and after so many more at most."""
MEANWHILE, LATEST = 4, 70_000
"""A copy is taken into service when a quarter as many labels more were learned, or so many."""
_SAMPLE, _SAMPLE_BYTES = 100_000, 64 << 20
"""Last events that a copy learns from, and the memory that they may take."""
_ITERATIONS = 50
"""Of L-BFGS: a new copy comes soon."""
_NEVER = -30.0
"""Score of a class that a copy does not know."""
_BEHIND = 0.01
"""Part by which the loss is larger than the learner's, from which on a new copy is compiled."""


class Copies:
    """The compiled copies of a learner, see `streamk.learners.LiveCompiled`.

    Parameters
    ----------
    learner : streamk.learners.Learner
    budget : float
    seed : int
    """

    def __init__(self, learner: Any, *, budget: float, seed: int) -> None:
        self._learner = learner
        # The shape of a copy is found anew: more events need more leaves.
        self._options = TreeOptions(budget=budget, seed=seed, iterations=_ITERATIONS)
        self.model: CompiledModel | None = None
        """The copy in service."""
        self.recent = RecentEvents(_SAMPLE, most_bytes=_SAMPLE_BYTES)
        """Events that the next copy learns from."""
        self.comparison = Comparison()
        self._order: Order | None = None
        self._background: Background | None = None
        """The copy that comes next, and the process that compiles it."""
        self._at, self._serve_at = FIRST, 0
        """Labels after which the next copy is begun, and the one that was begun is served."""

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        held = [each.nbytes for each in (self.model, self._order) if each is not None]
        return self.recent.nbytes + sum(held)

    @property
    def due(self) -> int:
        """Labels until the next copy is begun or taken into service."""
        n: int = self._learner.n_events
        return (self._serve_at if self._order is not None else self._at) - n

    def turn(self) -> None:
        """Begin a copy, or take one into service, where it is time to."""
        n = self._learner.n_events
        if self._order is not None:
            self._background = self._background or Background(self._order)
            if n >= self._serve_at:
                self._take_over()
        if self._order is None and n >= self._at:
            self._at = min(GROWTH * n, n + LONGEST)
            if self.model is None or self.comparison.behind(_BEHIND):
                self._begin()

    def renew(self) -> None:
        """Have a copy compiled now, wait for it, and take it into service.

        Raises
        ------
        InvalidInput
            If there is nothing to compile: fewer than two events, or of classes fewer than two.
        """
        self._order = None  # one that was begun is of fewer events
        self._begin()
        if self._order is None:
            raise InvalidInput("there is nothing to compile yet: learn two events or classes first")
        self._take_over()

    def _begin(self) -> None:
        """Have a copy compiled of what the learner says of the last events."""
        learner, X = self._learner, self.recent.events.copy()
        if not learner.columns or (learner.is_classifier and len(learner.classes) < 2):
            return
        if len(X) < 2:  # others learned the events, before they merged with this one
            return
        with aside(learner):
            targets = predicted(learner, X)
        self._order = Order(X, targets, self._options)
        self._background = Background(self._order)
        n = learner.n_events
        self._serve_at = n + min(max(1, n // MEANWHILE), LATEST)
        self._at = max(self._at, self._serve_at + 1)

    def _take_over(self) -> None:
        """Wait for the copy that is compiled, and take it into service."""
        assert self._background is not None
        copy = self._background.result()
        if self.model is not None:
            figures = self.comparison.figures(is_classifier=self._learner.is_classifier)
            _log.info("a compiled copy leaves service", extra={"streamk": figures})
        self._use(copy)
        self._order = self._background = None
        self.comparison = Comparison()

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
            return scores.astype(np.float64)
        if scores.shape[1] == 1:  # of the second of two classes
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        if self._same_order and len(self._places) == classes:
            return scores.astype(np.float64)
        found = np.full((len(X), classes), _NEVER)
        found[:, self._places] = scores - scores.max(axis=1, keepdims=True)
        return found

    # State

    def state(self, parts: dict[str, State], header: dict[str, JSON]) -> State:
        """Return the state of a model with these parts and this header, and the copies."""
        parts = {**parts, "comparison": self.comparison.state()}
        if self.model is not None:
            parts["copy"] = self.model.state()
        if self._order is not None:
            parts["order"] = self._order.state()
        nested = State.nest(parts, {**header, "at": self._at, "serve_at": self._serve_at})
        return State(nested.header, {**nested.arrays, "events": self.recent.events.copy()})

    def restore(self, state: State) -> None:
        """Take back what `state` gave.

        Raises
        ------
        StateError
            If it does not fit.
        """
        header: Any = state.header
        self._at = count(header, "at", _OWNER, least=1)
        self._serve_at = count(header, "serve_at", _OWNER)
        self.comparison = Comparison.from_state(state.child("comparison"))
        sizes = {"d": len(self._learner.columns or ())}
        declared = (Declared("events", "float64", ("n", "d"), ANY),)
        found, _ = taken(declared, state.arrays, sizes, _OWNER)
        self.recent.add(found["events"])
        if "copy" in header["parts"]:
            made = CompiledModel.from_state(state.child("copy"))
            self._check_part("copy", made.classes, made.width)
            self._use(made)
        if "order" in header["parts"]:
            order = Order.from_state(state.child("order"))
            self._check_part("order", order.targets.classes, order.X.shape[1])
            # Sizes come from arrays, and not from a header.
            self._order = replace(order, options=self._options)

    def _check_part(self, name: str, classes: Sequence[Label], width: int) -> None:
        """Raise StateError unless a copy has the columns and classes of the learner, or some."""
        learner = self._learner
        distinct = len(classes) > 1 and all(classes.count(label) == 1 for label in classes)
        known = distinct and all(label in learner.classes for label in classes)
        if (not known if learner.is_classifier else classes) or not (
            0 < width <= len(learner.columns or ())
        ):
            raise StateError(f"the {name} of {_OWNER} has other columns or classes than it")


def aside(learner: Any) -> AbstractContextManager[None]:
    """Predict without a trace in the learner, see `MultiKernel.aside`."""
    found: AbstractContextManager[None] = getattr(learner, "aside", nullcontext)()
    return found
