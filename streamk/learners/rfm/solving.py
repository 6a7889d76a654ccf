"""The making of a new function: its family, its metric, and where older events mislead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends.memory import give_back
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners.common.calibration import inverse_temperature
from streamk.learners.common.classes import Label
from streamk.learners.kernel_ridge import BLOCK
from streamk.learners.rfm.metric import Metric
from streamk.learners.rfm.metric_ridge import ALONE, RidgeSettings
from streamk.learners.rfm.metric_tree import MetricTree
from streamk.learners.rfm.schedule import FEW_EVENTS, MOST_COMPARED
from streamk.learners.rfm.search import (
    Error,
    Family,
    FirstRounds,
    Fold,
    MetricRound,
    SearchStart,
    best_in_leaves,
    cross_validated,
    families,
    least,
    refine,
    rounds_in_leaves,
    solved_in_leaves,
)
from streamk.learners.rfm.splits import EventMap
from streamk.scaling.fixed import ColumnScale

Numbers = NDArray[Any]

_HELD, _MOST_HELD = 0.2, 1_000
"""Part of the events that are held back to compare families and rounds, and at most so many."""
_CROSSED = 128
"""Events up to which there is cross-validation instead."""
_EXPLORED = 1
"""Rounds after round 0 by which families are compared."""
_FINALISTS, _NEAR = 3, 1.03
"""Families that are compared once more, and the ratio of errors up to which one is about as good as
the best."""
_ANEW = 1.02
"""Ratio of the errors of rounds from the identity on, and from the best metric known, up to which
the former are taken: the latter was the best one of several on the same events held back."""
_PAYS = 0.97
"""Part of the error of few events below which more must bring it, by as many rounds."""
_MISLEADS = 1.01
"""Ratio of the errors of most events and of those before them, from which on older ones mislead."""
_SMALL = 1_024
"""Events that a function is made of where more do not pay."""
_SPREAD = 4_096
"""The same where labels come late, of all."""
_TOGETHER = 1 / 3
"""Correlation of neighbours' errors from which on n tell less than n / 2 that are independent."""
_NARROW = 0.1
"""Bandwidth of the part that goes on to learn, relative to that of the part that is solved for."""


@dataclass(frozen=True)
class MetricRecipe:
    """The options by which a function is made of events."""

    kernel: Kernel | None
    """None for the best one of several."""
    metric: str
    rounds: int
    capacity: int
    """Of the tree: events that all leaves together solve for, see `MetricTree`."""
    max_classes: int
    known: tuple[Family, Metric, float] | None = None
    """Family, metric and regularization of the function before."""
    is_family_fixed: bool = False
    """No other families are compared with that one."""
    most: int = 2**62
    """Events that are solved for at once, and more only as they come."""
    compared: int = MOST_COMPARED
    """Events by which metrics are compared, at most."""
    lag: float = 0.0
    """Events by which labels come late, 0 where the function may follow the last ones."""
    errors: Sequence[float] | None = None
    """Of the function before, see `RidgeSettings`."""

    def families(self, d: int) -> list[Family]:
        """Return the families of functions that are compared, of d columns.

        Raises
        ------
        InvalidInput
            If kernel and metric do not fit each other.
        """
        if self.is_family_fixed and self.known is not None:
            return [self.known[0]]
        return families(self.kernel, self.metric, d)


@dataclass(frozen=True)
class TrainingEvents:
    """The events (n, d) that a new function is made of, with their labels."""

    X: Numbers
    y: Numbers
    """Labels as numbers, float64 (n,)."""
    targets: Numbers
    """Labels as they are learned, float64 (n, outputs)."""
    classes: Sequence[Label]
    """None of numbers."""
    task: str
    seed: int

    def fit(self, recipe: MetricRecipe) -> MetricTree:
        """Search for family, metric and regularization, and return the function solved with them.

        The last fifth of the events is held back while these and the regularization are chosen by
        those before; of up to 128 events they are chosen by cross-validation. Then the coefficients
        are solved for with all of them.

        Raises
        ------
        InvalidInput
            If numbers overflow.
        """
        n, d = self.X.shape
        count = n if n <= _CROSSED else min(_MOST_HELD, int(_HELD * n))
        held, rest = np.arange(n - count, n), np.arange(n - count)[::-1]
        # Labels that a forecast does not know, such as of the hour before, tell of those held back.
        rest = rest[min(int(recipe.lag), len(rest) // 4) :]
        try:
            with np.errstate(all="ignore"):
                if len(rest):
                    family, kept, pays = self._searched(recipe, rest, held, d)
                else:
                    rounds, pays = min(recipe.rounds, _EXPLORED), True
                    family, kept = cross_validated(
                        recipe.families(d), self.X, self.targets, rounds, self._error
                    )
                give_back()  # before what is solved for takes as much
                return self._function(recipe, family, kept, held, pays)
        except (np.linalg.LinAlgError, ValueError) as error:
            raise InvalidInput(
                f"the function of {n} events cannot be solved for ({error}); scale columns and "
                "labels"
            ) from None

    @property
    def _error(self) -> Error:
        return np.square if self.task == "classification" else np.abs

    def _searched(
        self, recipe: MetricRecipe, rest: Numbers, held: Numbers, d: int
    ) -> tuple[Family, MetricRound, bool]:
        """Return the family of least error, and its best round.

        Families are compared on few events. The best one of each of three kinds, if they are about
        as good, and the metric in use are compared on more, in leaves, and the best one goes on
        from round to round. So does the identity: where few events have led a metric astray, its
        rounds end in less error.

        And whether more events have paid: where they do not lower the error, as on streams that
        change or are noise for the most part, still more would not help.
        """
        few = self._explored(recipe.families(d), rest[:FEW_EVENTS], held, recipe.rounds)
        each = [(one, found.metric, found.ridge) for one, found in few]
        if recipe.known is not None:
            each.append(recipe.known)
        some = rest[: recipe.compared]
        folds = self._folds([one for one, *_ in each], some[: max(_SMALL, len(some) // 2)], held)
        best = best_in_leaves(
            [SearchStart(one, folds[one.scale], metric, ridge) for one, metric, ridge in each]
        )
        family = best.family
        best = best._replace(fold=self._folds([family], some, held)[family.scale])
        found = rounds_in_leaves(best, recipe.rounds)
        pays = found[0].error < _PAYS * min(one.error for _, one in few)
        pays = pays or len(rest) < 3 * FEW_EVENTS
        identity = family.identity(d)
        if not np.array_equal(best.metric.root, identity.root):  # else they are these rounds
            anew = rounds_in_leaves(best._replace(metric=identity), recipe.rounds)
            if least(anew).error <= _ANEW * least(found).error:
                found = anew
        kept = least(found)
        if pays and len(rest) >= 2 * _SMALL:
            last = self._folds([family], rest[:_SMALL], held)[family.scale]
            start = SearchStart(family, last, kept.metric, kept.ridge)
            recent, *_ = solved_in_leaves(start, (0,))
            pays = kept.error < _MISLEADS * recent.error
        return family, kept, pays

    def _folds(self, families: Sequence[Family], rows: Numbers, held: Numbers) -> dict[str, Fold]:
        """Return events to learn from and others held back, on each scale of families."""
        scales, of = {one.scale for one in families}, Fold.of
        return {scale: of(self.X, self.targets, rows, held, scale, self._error) for scale in scales}

    def _explored(
        self, families: Sequence[Family], rows: Numbers, held: Numbers, rounds: int
    ) -> list[tuple[Family, MetricRound]]:
        """Return the best one of each kind of families, with its best round on few events.

        There are three at most, and those alone that are about as good as the first.
        """
        first_rounds, each = FirstRounds(), list[tuple[float, int, MetricRound]]()
        folds, rounds = self._folds(families, rows, held), min(rounds, _EXPLORED)
        for place, one in enumerate(families):
            found = least(refine(one, [folds[one.scale]], rounds, first_rounds))
            each.append((one.handicap * found.error, place, found))
        each.sort(key=lambda one: one[:2])
        kinds: dict[tuple[type[Kernel], bool], tuple[Family, MetricRound]] = {}
        for error, place, found in each:
            one = families[place]
            if error <= _NEAR * each[0][0]:
                kinds.setdefault((type(one.kernel), one.diagonal), (one, found))
        return list(kinds.values())[:_FINALISTS] or [(families[each[0][1]], each[0][2])]

    def _function(
        self, recipe: MetricRecipe, family: Family, kept: MetricRound, held: Numbers, pays: bool
    ) -> MetricTree:
        """Solve for the coefficients of the last events: of as many as pay, in whole blocks.

        As many are shown to pay as metrics were compared by: all, if those are as many as can be.
        Where labels come late, errors of neighbours go together and more do not pay, they are some
        of all, as the last ones, which are of one season, say little of those that are predicted
        until there is another function.
        """
        alone = recipe.lag > 0.0 and _go_together(self.targets[held] - kept.margins)
        n, spread = len(self.X), alone and not pays
        shown = recipe.compared if recipe.compared < MOST_COMPARED else recipe.most
        count = min(n, max(_SMALL, min(shown, recipe.most)) if pays else _SMALL)
        if spread:
            count = min(n, _SPREAD)
        count -= count % BLOCK
        some = np.linspace(0, n - 1, count).astype(np.int64) if spread else slice(n - count, None)
        constant = self.targets.mean(axis=0)
        narrow: Any = family.kernel
        function = MetricTree(
            replace(narrow, bandwidth=_NARROW * narrow.bandwidth),
            task=self.task,
            capacity=recipe.capacity,
            seed=self.seed,
            columns=self.X.shape[1],
            classes=self.classes,
            max_classes=recipe.max_classes,
        )
        function.map = EventMap(ColumnScale.of(self.X, family.scale), kept.metric)
        errors = ALONE if alone else recipe.errors
        settings = RidgeSettings(family.kernel, kept.ridge, constant, errors)
        function.begin(settings, self.X[some], self.y[some])
        if not pays:
            function.close()
        if len(self.classes) > 1:
            labels = self.y[held]
            function.calibrate(kept.margins, labels, inverse_temperature(kept.margins, labels))
        return function


def _go_together(errors: Numbers) -> bool:
    """Return whether errors (n, outputs) one after the other tell less than half as many would."""
    squares, products = np.sum(errors * errors), np.sum(errors[1:] * errors[:-1])
    return bool(products > _TOGETHER * squares)
