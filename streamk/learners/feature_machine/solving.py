"""A new metric and kernel ridge regression in it, out of events that a stream's learner keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.kernels import Kernel, Matern
from streamk.learners.common.classes import Label
from streamk.learners.feature_machine.columns import Columns
from streamk.learners.feature_machine.machine import BANDWIDTHS, families
from streamk.learners.feature_machine.metric_ridge import EventMap, MetricRidge
from streamk.learners.feature_machine.probabilities import inverse_temperature
from streamk.learners.feature_machine.search import RIDGES, Family, Limits, Round, refine
from streamk.learners.feature_machine.solved_part import SolvedPart, whole_blocks

Numbers = NDArray[Any]

_LADDER = RIDGES[2:]
"""Regularizations from .001 on: coefficients are kept in single precision, and those of less are
differences of numbers too large for it."""
_HELD, _MOST_HELD = 0.2, 1_000
"""Part of the events that are held back to compare families and rounds, and at most so many."""
_FEW, _EXPLORED = 800, 2
"""Events by which families are compared, and rounds after round 0."""
_MORE = 1_600
"""Events by which the metric of the best family is learned. From so many on it is judged whether
they have paid."""
_GRADIENTS = 800
"""Events at which gradients are taken, for each of these metrics."""
_AT_ONCE = 4_608
"""Events that a function is made of. It takes more as they come, if it goes on at all."""
_FULL = 1.01
"""Ratio of errors by which a diagonal metric may be worse than a full one, of many more numbers."""
_PAYS = 0.97
"""Part of the error of few events below which more must bring it."""
_SMALL = 1_024
"""Events that a function is made of where more do not pay."""
_NARROW = 0.1
"""Bandwidth of the part that goes on to learn, relative to that of the part that is solved for."""


@dataclass(frozen=True)
class Recipe:
    """How a function is made of events.

    Attributes
    ----------
    kernel : Kernel or None
        None for ``Matern(nu=0.5)`` of the better one of two bandwidths.
    metric : {"auto", "diagonal", "full"}
    rounds : int
    max_centers : int
        Of each part.
    max_classes : int
    family : Family or None
        Of the function before, if no others are to be compared with it.
    most : int
        Events that are solved for at once, and more only as they come.
    errors : sequence of float, optional
        Of the function before, see `MetricRidge.begin`.
    """

    kernel: Kernel | None
    metric: str
    rounds: int
    max_centers: int
    max_classes: int
    family: Family | None = None
    most: int = 2**62
    errors: Sequence[float] | None = None

    def families(self, d: int) -> list[Family]:
        """Return the families of functions that are compared, of d columns.

        Raises
        ------
        InvalidInput
            If kernel and metric do not fit each other.
        """
        if self.family is not None:
            return [self.family]
        made = [Matern(nu=0.5, bandwidth=s) for s in BANDWIDTHS]
        each = made if self.kernel is None else [self.kernel]
        return [family for one in each for family in families(one, None, self.metric, d)]


@dataclass(frozen=True)
class Snapshot:
    """The data of a function, as they were when it was begun.

    Attributes
    ----------
    X : float64 array of shape (n, d)
        The events that were kept.
    y : float64 array of shape (n,)
        Their labels, as numbers.
    targets : float64 array of shape (n, outputs)
    classes : sequence of labels
        None of numbers.
    task : {"classification", "regression"}
    seed : int
    """

    X: Numbers
    y: Numbers
    targets: Numbers
    classes: Sequence[Label]
    task: str
    seed: int

    def solved(self, recipe: Recipe) -> MetricRidge:
        """Return the function in the metric of the best family and round.

        The last fifth of the events is held back while these and the regularization are chosen by
        those before; then the coefficients are solved for with all of them.

        Raises
        ------
        InvalidInput
            If numbers overflow.
        """
        n, d = self.X.shape
        count = min(_MOST_HELD, max(1, int(_HELD * n)))
        held, rest = np.arange(n - count, n), np.arange(n - count)[::-1]
        try:
            with np.errstate(all="ignore"):
                family, kept, pays = self._searched(recipe, rest, held, d)
                return self._function(recipe, family, kept, held, pays)
        except (np.linalg.LinAlgError, ValueError) as error:
            raise InvalidInput(
                f"the function of {n} events cannot be solved for ({error}); scale columns and "
                "labels"
            ) from None

    def _searched(
        self, recipe: Recipe, rest: Numbers, held: Numbers, d: int
    ) -> tuple[Family, Round, bool]:
        """Return the family of least error on few events, and its best round on more.

        And whether these have paid: where twice the events do not lower the error, as on streams
        that change or are noise for the most part, still more would be of no use.
        """
        chosen, place = recipe.families(d), len(_LADDER) // 2
        many = len(rest) >= _MORE
        best, first, least = chosen[0], _LADDER[place], np.inf
        if many or len(chosen) > 1:
            turns = min(recipe.rounds, _EXPLORED)
            found = [self._best(one, rest[:_FEW], held, turns, first) for one in chosen]
            handicaps = [1.0 if one.diagonal else _FULL for one in chosen]
            errors = [factor * one.error for factor, one in zip(handicaps, found, strict=True)]
            place = int(np.argmin(errors))
            best, first, least = chosen[place], found[place].ridge, found[place].error
        kept = self._best(best, rest[:_MORE], held, recipe.rounds, first)
        return best, kept, not many or kept.error < _PAYS * least

    def _best(
        self, family: Family, rows: Numbers, held: Numbers, rounds: int, first: float
    ) -> Round:
        """Return the best round of a family that learns some events."""
        columns = Columns.of(self.X[rows], family.scale)
        S, Q = columns.scaled(self.X[rows]), columns.scaled(self.X[held])
        error = "squared" if self.task == "classification" else "absolute"
        limits = Limits(
            rounds,
            len(rows),
            "random",
            self.seed,
            error,
            patience=1,
            single=True,
            ladder=len(rows) > _FEW,
            n_gradients=_GRADIENTS,
        )
        targets = self.targets
        found = refine(family, S, targets[rows], Q, targets[held], limits, _LADDER, first)
        return min(found, key=lambda one: one.error)

    def _function(
        self, recipe: Recipe, family: Family, kept: Round, held: Numbers, pays: bool
    ) -> MetricRidge:
        """Solve for the coefficients of the last events: of as many as pay, in whole blocks."""
        made = EventMap(Columns.of(self.X, family.scale), kept.metric)
        count = min(len(self.X), _AT_ONCE, max(_SMALL, recipe.most) if pays else _SMALL)
        some = slice(len(self.X) - whole_blocks(count), None)
        constant = self.targets.mean(axis=0)
        part = SolvedPart(
            family.kernel,
            kept.ridge,
            recipe.max_centers,
            n_columns=self.X.shape[1],
            n_outputs=len(constant),
        )
        narrow: Any = family.kernel
        function = MetricRidge(
            replace(narrow, bandwidth=_NARROW * narrow.bandwidth),
            task=self.task,
            max_centers=recipe.max_centers,
            seed=self.seed,
            columns=range(self.X.shape[1]),
            classes=self.classes,
            max_classes=recipe.max_classes,
        )
        function.map = made
        function.begin(part, self.X[some], self.y[some], constant, recipe.errors)
        if not pays:
            function.close()
        if len(self.classes) > 1:
            labels = self.y[held]
            factor_of_margins = inverse_temperature(kept.margins, labels)
            function.calibrate(kept.margins, labels, factor_of_margins)
        return function
