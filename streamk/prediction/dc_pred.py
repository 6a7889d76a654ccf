"""DC-Pred++: Hsieh, Si and Dhillon, Fast Prediction for Large-Scale Kernel Machines, NIPS 2014."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from inspect import get_annotations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import LANES
from streamk.backends.threads import one_blas_thread
from streamk.errors import InvalidInput, shown
from streamk.features.columns import Column
from streamk.options import Choice, Option, Whole, documented
from streamk.prediction.compiled import (
    LEAST_ABSENT,
    CompiledModel,
    Scale,
    as_events,
    depths,
    laid_out,
    linear_cost,
)
from streamk.prediction.teachers import Targets, predicted
from streamk.prediction.tree import (
    EXPONENTIAL,
    LeafPoints,
    Lesson,
    LocalModel,
    Tree,
    TreeOptions,
    fit_leaves,
    grow,
    total_loss,
)

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
_LEAST_ABSENT, _MOST_ABSENT = 1e-4, 0.5
"""Bounds of the probability of classes that leaves do not have."""
_FAR = 20.0
"""Deviations from the mean beyond which trees learn of no difference: one event of a thousand that
is far out would be most of the variance by which a leaf's first width is chosen."""


OPTIONS = {
    name: hint.__metadata__[0]
    for name, hint in get_annotations(TreeOptions, eval_str=True).items()
    if name != "seed"
}
"""Options that the estimators have, too."""
_TASK = Choice(choices=("classification", "regression"))
_GIVEN = {
    "X": Option(
        type="array of shape (n, d)",
        doc="Events. NaN is missing and counts as the column's mean, in which the thousandth of "
        "values on each side counts as the next ones.",
    ),
    "y": Option(
        type="array of shape (n,)",
        doc="Labels: texts, whole numbers or booleans; of a regression numbers, which are "
        "predicted to single precision in units of their deviation, however far from 0 they are.",
    ),
    "task": _TASK,
    "importance": Option(
        type="array of shape (n,)",
        doc="These weights, from a kernel machine that is already there: squares of its "
        "coefficients, see `importance_of`.",
    ),
    "seed": Whole(),
    "columns": Option(
        type="sequence of str or int", doc="Names of the columns, which stay with the model."
    ),
}


@documented(OPTIONS | _GIVEN)
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

    Returns
    -------
    CompiledModel

    Raises
    ------
    InvalidInput
        If an argument cannot be used.

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
    rows = as_events(X)
    _TASK.check("task", task)
    targets = (Targets.labels if task == "classification" else Targets.numbers)(y, len(rows))
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


def compile(  # noqa: A001 (the name that users look for)
    model: Any,
    X_sample: ArrayLike,
    *,
    budget: float = TreeOptions.budget,
    seed: int = TreeOptions.seed,
) -> CompiledModel:
    """Compile a trained model into a tree of small kernel models, see `dc_pred`.

    The tree learns what the model predicts of a sample of events: probabilities where the model
    has some, else classes or numbers. No labels are needed. Where the model does not decide by
    probability alone, as with `class_weight` or a threshold, the classes have weights by which the
    copy decides the same.

    Parameters
    ----------
    model
        Any learner of streamk; a fitted classifier or regressor with scikit-learn's methods, such
        as `SVC`, `KernelRidge` or gradient boosting; or a model of River.
    X_sample : array or data frame of shape (n, d)
        Events such as those to be predicted, the more the better. NaN is missing; where the model
        takes none, neither may there be any here. Of River's models a data frame, which has names.
    budget : float, default 10
        Multiply-adds for an event over those of a linear model of the same columns and classes.
    seed : int, default 0

    Returns
    -------
    CompiledModel

    Raises
    ------
    InvalidInput
        If an argument cannot be used, or the model predicts what cannot be compiled: several labels
        or numbers, or classes that do not follow from its probabilities by weights.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from streamk.prediction import compile
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> svc = SVC().fit(X, X[:, 0] * X[:, 1] > 0)
    >>> fast = compile(svc, X)
    >>> bool((fast.predict_many(X) == svc.predict(X)).mean() > 0.98)
    True
    """
    learner = getattr(getattr(model, "_model", None), "learner", model)  # of River's estimators
    if getattr(learner, "explained", learner) is not learner:
        raise InvalidInput(
            f"{model!r} cannot be compiled: it predicts from the past of entities, but a compiled "
            "model knows only the event"
        )
    rows = as_events(X_sample)
    frame = X_sample if hasattr(X_sample, "columns") else None
    columns = getattr(model, "columns", None)
    for names in (getattr(model, "feature_names_in_", None), getattr(frame, "columns", None)):
        if columns is None and names is not None:
            columns = [name if isinstance(name, int) else str(name) for name in names]
    options = TreeOptions(budget=budget, seed=seed)
    return fit(rows, predicted(model, rows, frame), options, columns=columns)


@one_blas_thread()
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
    if options.leaves is None or options.landmarks is None:
        shape = within_budget(Z, targets, options, random)
    else:
        shape = Shape(1, options.leaves, options.landmarks)
    trees, m = options.trees or shape.trees, options.landmarks or shape.landmarks
    draws = random.spawn(trees)
    grown = _grown(Z, options.leaves or shape.leaves, options, draws)
    if options.landmarks is None:
        m = max(1, min(m, landmarks_within(grown, targets, options)))
    options, classifies = replace(options, landmarks=m), targets.is_classifier
    lessons, visits, absent = [], [], 0.0
    for (_, parts), each in zip(grown, draws, strict=True):
        for part, own in zip(parts, each.spawn(len(parts)), strict=True):
            rows = part.learned
            T, outputs, rest = targets.of_leaf(rows)
            lessons.append(Lesson(rows, T, outputs, own))
            visits.append(len(part.own) / len(X))
            absent += rest * visits[-1] / trees
    models = fit_leaves(Z, lessons, options, importance, is_classifier=classifies)
    return CompiledModel(
        laid_out(scale, [tree for tree, _ in grown], models, _log_absent(models, absent, targets)),
        classes=targets.classes,
        columns=columns,
        visits=np.array(visits),
        mean=targets.mean,
        deviation=targets.deviation,
        weights=targets.weights,
    )


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


@dataclass(frozen=True)
class Shape:
    """Trees, leaves of each, and landmarks of each leaf."""

    trees: int
    leaves: int
    landmarks: int


def within_budget(
    Z: Numbers,
    targets: Targets,
    options: TreeOptions,
    random: np.random.Generator,
) -> Shape:
    """Return the shape that predicts scaled events (n, d) best within a budget.

    One tree of 1, 4, 16 ... leaves has as many landmarks as the budget allows. It learns three
    quarters of the events by few iterations, and the number of leaves with the least loss on the
    last quarter is taken; then half and twice as many, and several trees, are tried.
    """
    order = random.permutation(len(Z))
    held_back = max(1, round(_HELD_BACK * len(order)))
    learned, tested = np.sort(order[held_back:]), np.sort(order[:held_back])
    trials = _Trials(
        Z[learned],
        targets.take(learned),
        Z[tested],
        targets.take(tested).values,
        options,
        int(random.integers(2**31)),
    )
    most = max(1, len(learned) // _LEAST_EVENTS)
    best = trials.take((1, 4**k) for k in range(32) if 4**k <= most)
    if best is None:
        raise InvalidInput(
            f"budget={shown(options.budget)} allows for fewer than {_FEWEST} landmarks; raise it"
        )
    sizes = best.leaves // 2, 2 * best.leaves
    best = trials.take((1, leaves) for leaves in sizes if leaves <= most) or best
    for trees in _SEVERAL:
        sizes = best.leaves, 2 * best.leaves
        best = trials.take((trees, leaves) for leaves in sizes if leaves <= most) or best
    return best


def landmarks_within(
    grown: Sequence[tuple[Tree, list[LeafPoints]]], targets: Targets, options: TreeOptions
) -> int:
    """Return how many landmarks of a leaf the budget allows for.

    They fill vectors of the processor if there are more than one vector has.
    """
    d, products = grown[0][0].normals.shape[1], options.products
    left, each = options.budget * linear_cost(d, targets.values.shape[1]), 0.0
    for tree, parts in grown:
        share = np.array([len(part.own) for part in parts], np.float64)
        share /= share.sum()
        q = float(share @ [len(targets.of_leaf(part.learned)[1]) for part in parts])
        above = float(share @ depths(tree.children, len(parts)))
        left -= d * (1.0 + above) + products * (1.0 + q)
        each += d + EXPONENTIAL + q
    m = min(_MOST, int(left / each))
    return m if m < LANES else m // LANES * LANES


def _grown(
    Z: Numbers, leaves: int, options: TreeOptions, draws: Iterable[np.random.Generator]
) -> list[tuple[Tree, list[LeafPoints]]]:
    """Return a tree for each of the generators."""
    return [
        grow(Z, leaves, balance=options.balance, halo=options.halo, random=each) for each in draws
    ]


@dataclass
class _Trials:
    """Shapes that were tried, and the loss of each on events that were not learned."""

    Z: Numbers
    targets: Targets
    tested: Numbers
    expected: Numbers
    options: TreeOptions
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
        draws = [np.random.Generator(np.random.Philox([self.seed, tree])) for tree in range(trees)]
        grown = _grown(self.Z, leaves, self.options, draws)
        if grown[0][0].n_leaves < leaves:
            return
        m = landmarks_within(grown, self.targets, self.options)
        if m < _FEWEST:
            return
        few = replace(self.options, landmarks=m, iterations=_ITERATIONS, weighted=False)
        rows = self._rows(*grown[0])
        scores = np.zeros((len(rows), self.expected.shape[1]))
        for tree, parts in grown:
            self._add_scores(tree, parts, few, rows, scores)
        expected = self.expected[rows]
        loss = total_loss(scores / trees, expected, self.targets.is_classifier)
        if self.targets.is_classifier:  # of other leaves there are other events to be tested
            loss -= _entropy(expected)
        self.losses[Shape(trees, leaves, m)] = loss / len(rows)

    def _rows(self, tree: Tree, parts: Sequence[LeafPoints]) -> NDArray[np.intp]:
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
        parts: Sequence[LeafPoints],
        options: TreeOptions,
        rows: NDArray[np.intp],
        scores: Numbers,
    ) -> None:
        """Add a tree's scores of the events to those of the others."""
        places, classifies = tree.leaves(self.tested[rows]), self.targets.is_classifier
        leaves, lessons = np.unique(places).tolist(), []
        for leaf in leaves:
            learned = parts[leaf].learned
            random = np.random.Generator(np.random.Philox([self.seed, leaf]))
            T, outputs, _ = self.targets.of_leaf(learned)
            lessons.append(Lesson(learned, T, outputs, random))
        models = fit_leaves(self.Z, lessons, options, is_classifier=classifies)
        for leaf, local in zip(leaves, models, strict=True):
            here = np.flatnonzero(places == leaf)
            found = local.scores(self.tested[rows[here]])
            if scores.shape[1] == 1:
                scores[here] += found
            else:
                found -= found.max(axis=1, keepdims=True)
                found -= np.log(np.exp(found).sum(axis=1, keepdims=True)) - _ABSENT
                scores[np.ix_(here, local.outputs)] += found


def _entropy(T: Numbers) -> float:
    """Return the least loss that there can be of probabilities (n, q)."""
    every = np.hstack([T, 1.0 - T]) if T.shape[1] == 1 else T
    return -float(np.sum(every * np.log(np.where(every > 0.0, every, 1.0))))
