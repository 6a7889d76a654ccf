"""Leaves and landmarks that predict best within a budget of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.prediction.layout import depths, linear_cost
from streamk.prediction.local_fit import LocalOptions, fit_local
from streamk.prediction.local_model import EXPONENTIAL, LocalModel
from streamk.prediction.refinement import errors
from streamk.prediction.targets import Targets
from streamk.prediction.tree import Part, Tree, grow

__all__ = ["Shape", "within_budget"]

Numbers = NDArray[Any]

_LEAST_EVENTS = 24
"""Events of a leaf, at least, on average."""
_FEWEST, _MOST = 2, 256
"""Landmarks of the trees that are tried."""
_ITERATIONS = 20
"""Of L-BFGS, for the trees that are tried."""
_LEARNED = 20_000
"""Events that a tree learns, at most, when it is tried: of a larger one, some leaves are fitted."""
_HELD_BACK = 0.25
_SURPRISE = 7.0
"""Loss of an event whose class its leaf does not have: -log .001."""


@dataclass(frozen=True)
class Shape:
    """Leaves of a tree, and landmarks of each."""

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
    """Return the shape of the tree that predicts best within a budget.

    Trees of 1, 2, 4, 8 ... leaves are tried, each with as many landmarks as the budget allows. A
    tree learns three quarters of the events by few iterations, and the one with the least loss on
    the last quarter is taken.

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
        Of the tree.
    random : Generator

    Raises
    ------
    InvalidInput
        If no tree is within the budget.
    """
    order = random.permutation(len(Z))
    held_back = max(1, round(_HELD_BACK * len(order)))
    learned, tested = np.sort(order[held_back:]), np.sort(order[:held_back])
    found: list[tuple[float, Shape]] = []
    linear = linear_cost(Z.shape[1], targets.values.shape[1])
    leaves = 1
    while leaves == 1 or len(learned) >= leaves * _LEAST_EVENTS:
        tree, parts = grow(
            Z[learned],
            leaves,
            balance=balance,
            halo=halo,
            random=np.random.Generator(np.random.Philox(0)),
        )
        there = targets.take(learned)
        m = _landmarks(tree, parts, there, budget * linear, options)
        if tree.n_leaves < leaves:
            break
        if m >= _FEWEST:
            few = replace(options, landmarks=min(m, _MOST), iterations=_ITERATIONS)
            data = _Data(Z[learned], there, Z[tested], targets.take(tested))
            found.append((_loss(tree, parts, data, few, random), Shape(leaves, min(m, _MOST))))
        leaves *= 2
    if not found:
        raise InvalidInput(
            f"budget={budget!r} allows for fewer than {_FEWEST} landmarks; give more"
        )
    return min(found, key=lambda one: one[0])[1]


def _landmarks(
    tree: Tree, parts: Sequence[Part], targets: Targets, most: float, options: LocalOptions
) -> int:
    """Return how many landmarks so many multiply-adds for an event allow for."""
    d, p = tree.normals.shape[1], options.products
    share = np.array([len(part.own) for part in parts], np.float64)
    share /= share.sum()
    outputs = [len(targets.of_leaf(np.concatenate([part.own, part.halo]))[1]) for part in parts]
    q = float(share @ outputs)
    rest = d * (1.0 + float(share @ depths(tree.children))) + p * (1.0 + q)
    return int((most - rest) / (d + EXPONENTIAL + q))


@dataclass(frozen=True)
class _Data:
    """Events that are learned, and events that are not, with their targets."""

    Z: Numbers
    targets: Targets
    tested: Numbers
    expected: Targets


def _loss(
    tree: Tree,
    parts: Sequence[Part],
    data: _Data,
    options: LocalOptions,
    random: np.random.Generator,
) -> float:
    """Return the mean loss on the tested events, of all leaves or of some."""
    places = tree.leaves(data.tested)
    total, count, learned = 0.0, 0, 0
    for leaf in random.permutation(len(parts)).tolist():
        part = parts[leaf]
        rows = np.concatenate([part.own, part.halo])
        T, outputs, _ = data.targets.of_leaf(rows)
        (here,) = np.nonzero(places == leaf)
        if len(here):
            model = fit_local(data.Z[rows], T, outputs, options, random)
            total += _loss_of(model, data.tested[here], data.expected.values[here], options)
            count += len(here)
        learned += len(part.own)
        if learned >= _LEARNED:
            break
    return total / max(count, 1)


def _loss_of(model: LocalModel, Z: Numbers, T: Numbers, options: LocalOptions) -> float:
    """Return the sum of losses of events (n, d) with the targets (n, outputs)."""
    known = T[:, model.outputs]
    loss, _ = errors(model.scores(Z), known, options.is_classifier)
    if T.shape[1] == 1:
        return loss
    return loss + _SURPRISE * float(T.sum() - known.sum())
