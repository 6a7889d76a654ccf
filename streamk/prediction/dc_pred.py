"""DC-Pred++: Hsieh, Si and Dhillon, Fast Prediction for Large-Scale Kernel Machines, NIPS 2014."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.errors import InvalidInput
from streamk.features.columns import Column
from streamk.options import Choice, Real, Whole
from streamk.prediction.budget import Shape, landmarks_within, within_budget
from streamk.prediction.compiled import CompiledModel
from streamk.prediction.layout import LEAST_ABSENT, laid_out, linear_cost
from streamk.prediction.local_fit import LocalOptions, fit_local
from streamk.prediction.local_model import LocalModel
from streamk.prediction.scale import Scale, as_events
from streamk.prediction.targets import Targets
from streamk.prediction.tree import grow

__all__ = ["TreeOptions", "dc_pred", "fit"]

Numbers = NDArray[Any]

_LEAST_ABSENT, _MOST_ABSENT = 1e-4, 0.5
"""Bounds of the probability of classes that leaves do not have."""
_FAR = 20.0
"""Deviations from the mean beyond which trees learn of no difference: one event of a thousand that
is far out would be most of the variance by which a leaf's first width is chosen."""


@dataclass(frozen=True, kw_only=True)
class TreeOptions:
    """Options of `dc_pred`, checked, and their defaults."""

    budget: float = 10.0
    trees: int | None = None
    leaves: int | None = None
    landmarks: int | None = None
    products: int = 0
    halo: float = 3.0
    balance: float = 0.5
    weighted: bool = True
    ridge: float = 1e-6
    iterations: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name, domain in _DOMAINS.items():
            domain.check(name, getattr(self, name))


_DOMAINS = {
    "budget": Real(open_below=True, least=0.0),
    "trees": Whole(least=1, optional=True),
    "leaves": Whole(least=1, optional=True),
    "landmarks": Whole(least=1, optional=True),
    "products": Whole(least=0),
    "halo": Real(least=0.0),
    "balance": Real(least=0.0, most=0.5),
    "ridge": Real(least=0.0),
    "iterations": Whole(least=0),
    "seed": Whole(least=0),
}
_TASK = Choice(choices=("classification", "regression"))


def dc_pred(
    X: ArrayLike,
    y: Any,
    *,
    task: str = "classification",
    budget: float = TreeOptions.budget,
    trees: int | None = None,
    leaves: int | None = None,
    landmarks: int | None = None,
    products: int = TreeOptions.products,
    halo: float = TreeOptions.halo,
    balance: float = TreeOptions.balance,
    weighted: bool = TreeOptions.weighted,
    importance: ArrayLike | None = None,
    ridge: float = TreeOptions.ridge,
    iterations: int = TreeOptions.iterations,
    seed: int = TreeOptions.seed,
    columns: Sequence[Column] | None = None,
) -> CompiledModel:
    """Train a model that predicts in microseconds, by DC-Pred++ (the paper's Algorithm 2).

    A tree of 2-means divides the events into leaves, and at each leaf there is a model on few
    landmarks, with the Gaussian kernel. Landmarks are the centers of weighted k-means, an event's
    weight being the square of its coefficient in kernel ridge regression on the leaf's events (the
    paper's section 5).

    Four things go beyond the paper, and each can be turned off. The loss moves landmarks, weights
    and a width for each column together (``iterations=0``: they stay where k-means and ridge
    regression put them). Several trees are averaged (``trees=1``). A leaf also learns from its
    halo, the nearest events around it (``halo=0``). Hyperplanes divide events into halves
    (``balance=0``: at equal distance from the two centers).

    Parameters
    ----------
    X : array of shape (n, d)
        Events. NaN is missing and counts as the column's mean, in which the thousandth of values
        on each side counts as the next ones.
    y : array of shape (n,)
        Labels: texts, whole numbers or booleans; of a regression numbers, which are predicted to
        single precision in units of their deviation, however far from 0 they are.
    task : {"classification", "regression"}, default "classification"
    budget : float, default 10
        Multiply-adds for an event over those of a linear model of the same columns and classes.
        Trees, leaves and landmarks follow from it: several are tried on events that are held back.
        Not used if leaves and landmarks are given.
    trees : int, optional
        Trees whose predictions are averaged, 1 if leaves and landmarks are given.
    leaves : int, optional
        Leaves of a tree; fewer if there are not so many different events.
    landmarks : int, optional
        Of a leaf, at most.
    products : int, default 0
        Products of two kernel values that a leaf's model uses beside these: the paper's implicit
        pseudo landmarks of degree 2 (equation 7), sampled.
    halo : float, default 3
        Events around a leaf that its model learns, over those in it.
    balance : float, default 0.5
        Least share of a node's events on each side of its hyperplane, at most 0.5.
    weighted : bool, default True
        Whether k-means has weights.
    importance : array of shape (n,), optional
        These weights, from a kernel machine that is already there: squares of its coefficients,
        see `importance_of`.
    ridge : float, default 1e-6
        Factor of half the squares of the weights in the loss.
    iterations : int, default 100
        Of L-BFGS for each leaf.
    seed : int, default 0
    columns : sequence of str or int, optional
        Names of the columns, which stay with the model.

    Returns
    -------
    CompiledModel

    Raises
    ------
    InvalidInput
        If an argument cannot be used.
    BackendUnavailable
        If scikit-learn, whose k-means finds the landmarks, is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.prediction import dc_pred
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = dc_pred(X, y, leaves=4, landmarks=10)
    >>> model.predict_one([0.5, 0.5]), model.predict_one([-0.5, 0.5])
    ('same', 'other')
    """
    rows = as_events(X, least=2)
    _TASK.check("task", task)
    made = Targets.labels if task == "classification" else Targets.numbers
    targets = made(y, len(rows))
    given = None if importance is None else _checked_importance(importance, len(rows))
    options = TreeOptions(
        budget=budget,
        trees=trees,
        leaves=leaves,
        landmarks=landmarks,
        products=products,
        halo=halo,
        balance=balance,
        weighted=weighted,
        ridge=ridge,
        iterations=iterations,
        seed=seed,
    )
    return fit(rows, targets, options, importance=given, columns=columns)


def fit(
    X: Numbers,
    targets: Targets,
    options: TreeOptions,
    *,
    importance: Numbers | None = None,
    columns: Sequence[Column] | None = None,
) -> CompiledModel:
    """Return the model of events (n, d) and their targets."""
    if columns is not None and len(columns) != X.shape[1]:
        raise InvalidInput(f"{len(columns)} names of columns do not fit {X.shape[1]} columns")
    scale = Scale.of(X)
    near = np.clip(scale(X), -_FAR, _FAR)
    Z = near.astype(np.float32).astype(np.float64)  # as the compiled loops see them
    random = np.random.Generator(np.random.Philox(options.seed))
    shape, local = _shape(Z, targets, options, random)
    draws = random.spawn(shape.trees)
    grown = [
        grow(Z, shape.leaves, balance=options.balance, halo=options.halo, random=each)
        for each in draws
    ]
    if options.landmarks is None:
        work = options.budget * linear_cost(X.shape[1], targets.values.shape[1])
        allowed = landmarks_within(grown, targets, work, options.products)
        local = replace(local, landmarks=max(1, min(local.landmarks, allowed)))
    models, visits, absent = [], [], 0.0
    for (_, parts), each in zip(grown, draws, strict=True):
        for part in parts:
            rows = part.learned
            T, outputs, rest = targets.of_leaf(rows)
            given = None if importance is None else importance[rows]
            models.append(fit_local(Z[rows], T, outputs, local, each, given))
            visits.append(len(part.own) / len(X))
            absent += rest * visits[-1] / shape.trees
    trees = [tree for tree, _ in grown]
    return CompiledModel(
        laid_out(scale, trees, models, _log_absent(models, absent, targets)),
        classes=targets.classes,
        columns=columns,
        visits=np.array(visits),
        mean=targets.mean,
        deviation=targets.deviation,
        weights=targets.weights,
    )


def _shape(
    Z: Numbers, targets: Targets, options: TreeOptions, random: np.random.Generator
) -> tuple[Shape, LocalOptions]:
    """Return trees, leaves and landmarks, as given or found, and the options of the leaves."""
    local = LocalOptions(
        landmarks=options.landmarks or 0,
        products=options.products,
        weighted=options.weighted,
        ridge=options.ridge,
        iterations=options.iterations,
        is_classifier=targets.is_classifier,
    )
    if options.leaves is None or options.landmarks is None:
        found = within_budget(
            Z,
            targets,
            options.budget,
            local,
            balance=options.balance,
            halo=options.halo,
            random=random,
        )
    else:
        found = Shape(1, options.leaves, options.landmarks)
    shape = Shape(
        options.trees or found.trees,
        options.leaves or found.leaves,
        options.landmarks or found.landmarks,
    )
    return shape, replace(local, landmarks=shape.landmarks)


def _log_absent(models: Sequence[LocalModel], absent: float, targets: Targets) -> Numbers:
    """Return the logarithm of the probability of each class that a leaf does not have.

    It is too small for the class to be decided on: of no event that the leaf learned it was.
    """
    share = float(np.clip(absent, _LEAST_ABSENT, _MOST_ABSENT))
    missing = targets.values.shape[1] - np.array([len(model.outputs) for model in models])
    found: Numbers = np.log(share / np.maximum(missing, 1))
    if targets.weights is not None and targets.values.shape[1] > 1:
        for leaf, model in enumerate(models):
            least = targets.weights[model.outputs].min()
            others = np.delete(targets.weights, model.outputs).max(initial=least)
            found[leaf] = min(found[leaf], np.log(_MOST_ABSENT * least / others))
    return np.maximum(found, LEAST_ABSENT)


def _checked_importance(importance: ArrayLike, n: int) -> Numbers:
    found = np.asarray(importance, np.float64)
    if found.shape != (n,) or not (np.isfinite(found) & (found >= 0.0)).all():
        raise InvalidInput(
            f"importance must be {n} finite numbers of at least 0, one for each event"
        )
    return found
