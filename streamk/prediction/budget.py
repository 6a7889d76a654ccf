"""Leaves and landmarks that predict best within a budget of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LANES
from streamk.errors import InvalidInput, shown
from streamk.prediction.layout import depths, linear_cost
from streamk.prediction.local_fit import LocalOptions, fit_local
from streamk.prediction.local_model import EXPONENTIAL
from streamk.prediction.refinement import errors
from streamk.prediction.targets import Targets
from streamk.prediction.tree import Part, Tree, grow

__all__ = ["Shape", "landmarks_within", "within_budget"]

Numbers = NDArray[Any]

_LEAST_EVENTS = 24
"""Events of a leaf, at least, on average."""
_FEWEST, _MOST = 2, 256
"""Landmarks of the trees that are tried."""
_ITERATIONS = 12
"""Of L-BFGS, for the trees that are tried."""
_LEARNED = 4_000
"""Events that a tree learns, at most, when it is tried: of a larger one, some leaves are fitted."""
_HELD_BACK = 0.25
_ABSENT = 9.0
"""By how much the logarithmic probability of a class that a leaf does not have is less than 0."""


_SEVERAL = (2, 3)
"""Trees that are averaged, beside one."""


@dataclass(frozen=True)
class Shape:
    """Trees, leaves of each, and landmarks of each leaf."""

    trees: int
    leaves: int
    landmarks: int


def within_budget(
    Z: Numbers,
    targets: Targets,
    budget: float,
    options: LocalOptions,
    *,
    balance: float,
    halo: float,
    random: np.random.Generator,
) -> Shape:
    """Return the shape that predicts best within a budget.

    One tree of 1, 4, 16 ... leaves has as many landmarks as the budget allows. It learns three
    quarters of the events by few iterations, and the number of leaves with the least loss on the
    last quarter is taken; then half and twice as many, and several trees, are tried.

    Parameters
    ----------
    Z : float64 array of shape (n, d)
        Scaled events.
    targets : Targets
    budget : float
        Multiply-adds for an event over those of a linear model, see `CompiledModel.cost`.
    options : LocalOptions
        Of the leaves; its number of landmarks is not used.
    balance, halo : float
        Of the trees.
    random : Generator

    Raises
    ------
    InvalidInput
        If no tree is within the budget.
    """
    order = random.permutation(len(Z))
    held_back = max(1, round(_HELD_BACK * len(order)))
    learned, tested = np.sort(order[held_back:]), np.sort(order[:held_back])
    trials = _Trials(
        Z[learned],
        targets.take(learned),
        Z[tested],
        targets.take(tested).values,
        budget * linear_cost(Z.shape[1], targets.values.shape[1]),
        options,
        balance,
        halo,
        int(random.integers(2**31)),
    )
    most = max(1, len(learned) // _LEAST_EVENTS)
    best = trials.take((1, 4**k) for k in range(32) if 4**k <= most)
    if best is None:
        raise InvalidInput(
            f"budget={shown(budget)} allows for fewer than {_FEWEST} landmarks; give more"
        )
    sizes = best.leaves // 2, 2 * best.leaves
    best = trials.take((1, leaves) for leaves in sizes if leaves <= most) or best
    for trees in _SEVERAL:
        sizes = best.leaves, 2 * best.leaves
        best = trials.take((trees, leaves) for leaves in sizes if leaves <= most) or best
    return best


def landmarks_within(
    grown: Sequence[tuple[Tree, list[Part]]], targets: Targets, work: float, products: int
) -> int:
    """Return how many landmarks of a leaf so many multiply-adds for an event allow for.

    They fill vectors of the processor if there are more than one vector has.
    """
    left, each = work, 0.0
    for tree, parts in grown:
        d = tree.normals.shape[1]
        share = np.array([len(part.own) for part in parts], np.float64)
        share /= share.sum()
        q = float(share @ [len(targets.of_leaf(part.learned)[1]) for part in parts])
        above = float(share @ depths(tree.children, len(parts)))
        left -= d * (1.0 + above) + products * (1.0 + q)
        each += d + EXPONENTIAL + q
    m = min(_MOST, int(left / each))
    return m if m < LANES else m // LANES * LANES


@dataclass
class _Trials:
    """Shapes that were tried, and the loss of each on events that were not learned."""

    Z: Numbers
    targets: Targets
    tested: Numbers
    expected: Numbers
    work: float
    """Multiply-adds for an event, at most."""
    options: LocalOptions
    balance: float
    halo: float
    seed: int
    losses: dict[Shape, float] = field(default_factory=dict)

    def take(self, sizes: Iterable[tuple[int, int]]) -> Shape | None:
        """Try so many trees with so many leaves each; return the best of all shapes."""
        tried = {(shape.trees, shape.leaves) for shape in self.losses}
        for trees, leaves in sizes:
            if leaves >= 1 and (trees, leaves) not in tried:
                self._try(trees, leaves)
        return min(self.losses, key=lambda shape: self.losses[shape], default=None)

    def _try(self, trees: int, leaves: int) -> None:
        grown = [self._grown(tree, leaves) for tree in range(trees)]
        if grown[0][0].n_leaves < leaves:
            return
        m = landmarks_within(grown, self.targets, self.work, self.options.products)
        if m < _FEWEST:
            return
        few = replace(self.options, landmarks=m, iterations=_ITERATIONS, weighted=False)
        rows = self._rows(*grown[0])
        scores = np.zeros((len(rows), self.expected.shape[1]))
        for tree, parts in grown:
            self._add_scores(tree, parts, few, rows, scores)
        expected = self.expected[rows]
        loss, _ = errors(scores / trees, expected, self.options.is_classifier)
        if self.options.is_classifier:  # of other leaves there are other events to be tested
            loss -= _entropy(expected)
        self.losses[Shape(trees, leaves, m)] = loss / len(rows)

    def _grown(self, tree: int, leaves: int) -> tuple[Tree, list[Part]]:
        random = np.random.Generator(np.random.Philox([self.seed, tree]))
        return grow(self.Z, leaves, balance=self.balance, halo=self.halo, random=random)

    def _rows(self, tree: Tree, parts: Sequence[Part]) -> NDArray[np.intp]:
        """Return the tested events of all leaves, or of some that are enough."""
        random = np.random.Generator(np.random.Philox([self.seed, len(parts)]))
        places, learned, chosen = tree.leaves(self.tested), 0, []
        for leaf in random.permutation(len(parts)).tolist():
            chosen.append(leaf)
            learned += len(parts[leaf].own)
            if learned >= _LEARNED:
                break
        rows: NDArray[np.intp] = np.flatnonzero(np.isin(places, chosen))
        return rows if len(rows) else np.arange(len(places))

    def _add_scores(
        self,
        tree: Tree,
        parts: Sequence[Part],
        options: LocalOptions,
        rows: NDArray[np.intp],
        scores: Numbers,
    ) -> None:
        """Add a tree's scores of the events to those of the others."""
        places = tree.leaves(self.tested[rows])
        for leaf in np.unique(places).tolist():
            learned = parts[leaf].learned
            random = np.random.Generator(np.random.Philox([self.seed, leaf]))
            T, outputs, _ = self.targets.of_leaf(learned)
            here = np.flatnonzero(places == leaf)
            found = fit_local(self.Z[learned], T, outputs, options, random).scores(
                self.tested[rows[here]]
            )
            if scores.shape[1] == 1:
                scores[here] += found
            else:
                found -= found.max(axis=1, keepdims=True)
                found -= np.log(np.exp(found).sum(axis=1, keepdims=True)) - _ABSENT
                scores[np.ix_(here, outputs)] += found


def _entropy(T: Numbers) -> float:
    """Return the least loss that there can be of probabilities (n, q)."""
    every = np.hstack([T, 1.0 - T]) if T.shape[1] == 1 else T
    return -float(np.sum(every * np.log(np.where(every > 0.0, every, 1.0))))
