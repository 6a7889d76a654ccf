"""Trees of small kernel models: 2-means, again and again, and a model on landmarks in each leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.backends.threads import divide
from streamk.options import Checked, Flag, Real, Whole

Numbers = NDArray[Any]
Places = NDArray[np.intp]

_SAMPLE, _ITERATIONS = 2000, 10
"""Points of which a node's two centers are found, and iterations of Lloyd's for it."""


@dataclass(frozen=True, kw_only=True)
class TreeOptions(Checked):
    """Options of `dc_pred`, and their defaults."""

    budget: Annotated[
        float,
        Real(
            open_below=True,
            doc="Multiply-adds for an event over those of a linear model of the same columns and "
            "classes. Trees, leaves and landmarks follow from it: several are tried on events that "
            "are held back. Not used if leaves and landmarks are given.",
        ),
    ] = 10.0
    trees: Annotated[
        int | None,
        Whole(
            optional=True,
            doc="Trees whose predictions are averaged, 1 if leaves and landmarks are given.",
        ),
    ] = None
    leaves: Annotated[
        int | None,
        Whole(
            optional=True,
            doc="Leaves of a tree; fewer if there are not so many different events.",
        ),
    ] = None
    landmarks: Annotated[int | None, Whole(optional=True, doc="Of a leaf, at most.")] = None
    products: Annotated[
        int,
        Whole(
            least=0,
            doc="Products of two kernel values that a leaf's model uses beside these: the paper's "
            "implicit pseudo landmarks of degree 2 (equation 7), sampled.",
        ),
    ] = 0
    halo: Annotated[
        float, Real(doc="Events around a leaf that its model learns, over those in it.")
    ] = 3.0
    balance: Annotated[
        float,
        Real(
            most=0.5,
            doc="Least share of a node's events on each side of its hyperplane, at most 0.5.",
        ),
    ] = 0.5
    weighted: Annotated[bool, Flag(doc="Whether k-means has weights.")] = True
    ridge: Annotated[float, Real(doc="Factor of half the squares of the weights in the loss.")] = (
        1e-6
    )
    iterations: Annotated[int, Whole(least=0, doc="Of L-BFGS for each leaf.")] = 100
    seed: Annotated[int, Whole(least=0)] = 0


@dataclass(frozen=True)
class Tree:
    """Hyperplanes that divide the space into leaves.

    An event z goes from node 0 to the second child where ``normal . z >= offset``, else to the
    first; a child below 0 is the leaf of number ``-1 - child``. Without nodes all is leaf 0.
    """

    normals: Numbers
    """float64 (nodes, d)"""
    offsets: Numbers
    """float64 (nodes,)"""
    children: NDArray[np.int64]
    """(nodes, 2)"""

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.offsets) + 1

    def leaves(self, Z: Numbers) -> Places:
        """Return the number of the leaf (n,) of each of the points (n, d)."""
        nodes = np.full(len(Z), 0 if len(self.offsets) else -1, np.intp)
        while True:
            (inner,) = np.nonzero(nodes >= 0)
            if not len(inner):
                return -1 - nodes
            at = nodes[inner]
            right = np.einsum("ij,ij->i", Z[inner], self.normals[at]) >= self.offsets[at]
            nodes[inner] = self.children[at, right.astype(np.intp)]


class LeafPoints(NamedTuple):
    """The points by which the model of a leaf is fitted, as places among all."""

    own: Places
    """Those in the leaf."""
    halo: Places
    """The nearest outside of it."""

    @property
    def learned(self) -> Places:
        """Return both."""
        return np.concatenate(self)


def grow(
    Z: Numbers, leaves: int, *, balance: float, halo: float, random: np.random.Generator
) -> tuple[Tree, list[LeafPoints]]:
    """Divide points by a tree of at most so many leaves; equal points stay together.

    The leaf with the most points is divided next. Its hyperplane is orthogonal to the line between
    the two centers of 2-means, and lies midway between these (the paper's assignment to the nearest
    center) or nearer to one, so that each side has at least the share `balance` of the points Z (n,
    d): from 0, the two clusters as they are, to .5, halves.

    A leaf's halo has `halo` times as many points as it. The distance of a point to the leaf is that
    from the half spaces of which it is the intersection, the root of the sum of squares.
    """
    parts = [_Node(np.arange(len(Z)), np.empty(0, np.intp), np.empty(0))]
    normals: list[Numbers] = []
    offsets: list[float] = []
    children: list[list[int]] = []
    place: list[tuple[int, int] | None] = [None]
    final = [False]
    while len(parts) < leaves and not all(final):
        sizes = [0 if done else len(part.own) for part, done in zip(parts, final, strict=True)]
        leaf = int(np.argmax(sizes))
        plane = _divide(Z[parts[leaf].own], balance, random)
        if plane is None:
            final[leaf] = True
            continue
        node, new = len(offsets), len(parts)
        if (known := place[leaf]) is not None:
            children[known[0]][known[1]] = node
        normals.append(plane[0])
        offsets.append(plane[1])
        children.append([-1 - leaf, -1 - new])
        place[leaf], second = (node, 0), (node, 1)
        place.append(second)
        final.append(False)
        left, right = parts[leaf].divided(Z, *plane, halo)
        parts[leaf] = left
        parts.append(right)
    shape = (len(offsets), Z.shape[1])
    tree = Tree(
        np.array(normals).reshape(shape),
        np.array(offsets, np.float64),
        np.array(children, np.int64).reshape(-1, 2),
    )
    return tree, [LeafPoints(part.own, part.near[: round(halo * len(part.own))]) for part in parts]


class _Node(NamedTuple):
    """Points of a node, and those near it with their squared distances, in ascending order."""

    own: Places
    near: Places
    distances: Numbers

    def divided(
        self, Z: Numbers, normal: Numbers, offset: float, halo: float
    ) -> tuple[_Node, _Node]:
        """Return the two sides of a hyperplane."""
        beyond = Z[self.own] @ normal - offset
        beyond_near = Z[self.near] @ normal - offset
        right = beyond >= 0.0
        return (
            self._side(self.own[~right], self.own[right], beyond[right], beyond_near, halo),
            self._side(self.own[right], self.own[~right], -beyond[~right], -beyond_near, halo),
        )

    def _side(
        self, own: Places, others: Places, beyond: Numbers, beyond_near: Numbers, halo: float
    ) -> _Node:
        near = np.concatenate([others, self.near])
        before = np.concatenate([np.zeros(len(others)), self.distances])
        distances = before + np.maximum(np.concatenate([beyond, beyond_near]), 0.0) ** 2
        nearest = np.argsort(distances, kind="stable")[: int(np.ceil(halo * len(own)))]
        return _Node(own, near[nearest], distances[nearest])


def _divide(
    Z: Numbers, balance: float, random: np.random.Generator
) -> tuple[Numbers, float] | None:
    """Return a unit normal and an offset that divide points, or None if all are the same."""
    (differ,) = np.nonzero(np.any(Z[0] != Z, axis=1))
    if not len(differ):
        return None
    centers = _two_centers(Z, random)
    normal = centers[1] - centers[0]
    if not normal.any():
        centers = np.stack([Z[0], Z[differ[0]]])
        normal = centers[1] - centers[0]
    normal /= np.linalg.norm(normal)
    along = Z @ normal
    middle = 0.5 * float(centers.sum(axis=0) @ normal)
    offset = middle
    if balance:
        offset = float(np.clip(middle, *np.quantile(along, [balance, 1.0 - balance])))
    if offset <= along.min() or offset > along.max():
        # The middle lies beside the points, or many lie on the hyperplane.
        offset = 0.5 * float(along.min() + along.max())
        if offset <= along.min() or offset > along.max():
            return None
    # Between two values: on one of them rounding would decide on its side.
    below, above = along[along < offset].max(), along[along >= offset].min()
    between = 0.5 * float(below + above)
    return normal, between if between > below else float(above)


def _two_centers(Z: Numbers, random: np.random.Generator) -> Numbers:
    """Return the centers (2, d) of 2-means on a sample."""
    some = Z if len(Z) <= _SAMPLE else Z[random.choice(len(Z), _SAMPLE, replace=False)]
    first = some[random.integers(len(some))]
    away = np.square(some - first).sum(axis=1)
    if not away.any():
        return np.stack([first, first])
    second = some[random.choice(len(some), p=away / away.sum())]  # as k-means++ begins
    centers, before = np.stack([first, second]), None
    for _ in range(_ITERATIONS):
        normal = centers[1] - centers[0]
        right = some @ normal > 0.5 * (centers.sum(axis=0) @ normal)
        if right.all() or not right.any() or (before is not None and (right == before).all()):
            break
        centers, before = np.stack([some[~right].mean(axis=0), some[right].mean(axis=0)]), right
    return centers


# The model of one leaf

EXPONENTIAL = 8
"""Multiply-adds that an exponential counts as."""


@dataclass(frozen=True)
class LocalModel:
    """Scores ``bias + W' c`` on the kernel values of landmarks and products of two of them.

    The values are those of the Gaussian kernel with a width of each column's own, ``c_j = exp(-|s z
    - l_j|^2)``. The product of two is a constant times a Gaussian of half the variance around the
    midpoint of the two landmarks: a pseudo landmark whose kernel value takes one multiplication.
    """

    outputs: NDArray[np.int64]
    """(q,), numbers of the outputs that it has scores for, ascending"""
    landmarks: Numbers
    """float64 (m, d), scaled by `scale` as points are"""
    scale: Numbers
    """float64 (d,), s"""
    pairs: NDArray[np.int64]
    """(p, 2)"""
    weights: Numbers
    """float64 (m + p, q)"""
    bias: Numbers
    """float64 (q,)"""

    def scores(self, Z: Numbers) -> Numbers:
        """Return the scores (n, q) of points (n, d), in double precision."""
        return np.asarray(self.bias + self.basis(Z) @ self.weights)

    def basis(self, Z: Numbers) -> Numbers:
        """Return the kernel values and their products (n, m + p)."""
        C = np.exp(-squared(Z * self.scale, self.landmarks))
        if not len(self.pairs):
            return C
        return np.concatenate([C, C[:, self.pairs[:, 0]] * C[:, self.pairs[:, 1]]], axis=1)


def squared(X: Numbers, Y: Numbers) -> Numbers:
    """Return the squared distances (n, m) of points (n, d) and (m, d)."""
    found: Numbers = X @ Y.T
    found *= -2.0
    found += np.einsum("ij,ij->i", X, X)[:, None]
    found += np.einsum("ij,ij->i", Y, Y)
    return np.maximum(found, 0.0, out=found)


def refine(
    model: LocalModel,
    Z: Numbers,
    T: Numbers,
    *,
    is_classifier: bool,
    ridge: float,
    iterations: int,
) -> LocalModel:
    """Return the model after so many iterations of L-BFGS on points (n, d) and targets (n, q).

    The loss is the mean of the cross-entropy with the targets' probabilities (of two classes that
    of the second one, q = 1), or of half the squared errors, and ``ridge / 2`` times the squares of
    the weights.
    """
    # In units of the scale's mean the slopes of landmarks are about as large as of weights.
    unit = float(model.scale.mean())
    parts = model.landmarks / unit, model.scale / unit, model.weights, model.bias
    x = np.concatenate([part.ravel() for part in parts])
    leaf = loops.leaves.leaf(
        Z,
        T,
        model.pairs,
        len(model.landmarks),
        classifies=is_classifier,
        ridge=ridge,
        unit=unit,
    )
    loops.leaves.learn(leaf, iterations, x, np.empty(len(x)))
    if not np.all(np.isfinite(x)):
        return model
    landmarks, scale, weights, bias = np.split(x, np.cumsum([part.size for part in parts[:3]]))
    return replace(
        model,
        landmarks=landmarks.reshape(model.landmarks.shape) * unit,
        scale=scale * unit,
        weights=weights.reshape(model.weights.shape),
        bias=bias,
    )


def total_loss(scores: Numbers, T: Numbers, is_classifier: bool) -> float:
    """Return the sum of the losses of scores (n, q), see `refine`."""
    if not is_classifier:
        errors = scores - T
        return 0.5 * float(np.vdot(errors, errors))
    if scores.shape[1] == 1:
        return float(np.logaddexp(0.0, scores).sum() - np.vdot(T, scores))
    scores = scores - scores.max(axis=1, keepdims=True)
    totals = np.exp(scores).sum(axis=1, keepdims=True)
    return float((np.log(totals) * T.sum(axis=1, keepdims=True)).sum() - np.vdot(T, scores))


_K_MEANS = 5
"""Iterations of k-means."""
_RIDGE = 1e-2
"""Of the first weights, relative to kernel values of 1."""
_SOLVED = 1500
"""Points of a leaf, at most, for which the local kernel machine is solved."""
_LEAST_WEIGHT = 1e-12
"""In k-means, relative to the greatest: of points that are not support vectors, or were not solved
for."""
_SURE = 3.0
"""Logit that a first score of 1 stands for."""


class Lesson(NamedTuple):
    """Events that the model of a leaf learns, and their targets."""

    rows: Places
    """(n,), at least one: those of the leaf and of its halo"""
    targets: Numbers
    """float64 (n, q): probabilities of its classes (of two that of the second, q = 1), or
    numbers"""
    outputs: NDArray[np.int64]
    """(q,)"""
    random: np.random.Generator


def fit_leaves(
    Z: Numbers,
    lessons: Sequence[Lesson],
    options: TreeOptions,
    importance: Numbers | None = None,
    *,
    is_classifier: bool,
) -> list[LocalModel]:
    """Return the model of each leaf, by threads: each leaf is learned by itself, of all points.

    The importance (n,) is the square of each point's coefficient in a kernel machine. By default it
    is that of kernel ridge regression on the leaf's points, if `options.weighted`. The options have
    a number of landmarks.
    """
    assert options.landmarks is not None
    found: list[LocalModel | None] = [None] * len(lessons)

    def some(part: slice) -> None:
        for place in range(part.start, part.stop):
            rows, T, outputs, random = lessons[place]
            given = None if importance is None else importance[rows]
            found[place] = fit_local(
                Z[rows], T, outputs, options, random, given, is_classifier=is_classifier
            )

    numbers = sum(len(rows) * (Z.shape[1] + len(outputs)) for rows, _, outputs, _ in lessons)
    divide(len(lessons), numbers * options.landmarks * (1 + options.iterations), some)
    return [model for model in found if model is not None]


def fit_local(
    Z: Numbers,
    T: Numbers,
    outputs: NDArray[np.int64],
    options: TreeOptions,
    random: np.random.Generator,
    importance: Numbers | None = None,
    *,
    is_classifier: bool,
) -> LocalModel:
    """Return the model of a leaf of points (n, d), see `Lesson` and `fit_leaves`."""
    assert options.landmarks is not None
    centered = 2.0 * T - 1.0 if is_classifier else T  # +1 and -1 of sure labels
    bias = centered.mean(axis=0)
    apart = 2.0 * float(Z.var(axis=0).sum())  # the mean squared distance of two points
    if np.ptp(T, axis=0).max() == 0.0 or not apart > 1e-12:
        return _constant(Z, T, outputs, is_classifier)
    gamma = 1.0 / apart
    if importance is None and options.weighted:
        importance = _importance(Z, centered - bias, gamma, random)
    landmarks = _landmarks(Z, importance, options.landmarks, random)
    m = len(landmarks)
    scale = np.full(Z.shape[1], np.sqrt(gamma))
    pairs = _pairs(m, options.products, random)
    model = LocalModel(outputs, landmarks * scale, scale, pairs, np.empty(0), bias)
    basis = model.basis(Z)
    system = basis.T @ basis
    system[np.diag_indices(len(system))] += _RIDGE
    weights = np.linalg.solve(system, basis.T @ (centered - bias))
    if is_classifier:
        weights, bias = _SURE * weights, _SURE * bias
    model = replace(model, weights=weights, bias=bias)
    if not options.iterations:
        return model
    return refine(
        model,
        Z,
        T,
        is_classifier=is_classifier,
        ridge=options.ridge,
        iterations=options.iterations,
    )


def _constant(
    Z: Numbers, T: Numbers, outputs: NDArray[np.int64], is_classifier: bool
) -> LocalModel:
    """Return a model without landmarks: the mean of the targets."""
    mean = T.mean(axis=0)
    if is_classifier:
        n = len(T)
        smooth = (n * mean + 0.5) / (n + 1.0)
        mean = np.log(smooth / (1.0 - smooth)) if len(mean) == 1 else np.log(smooth)
    nothing = np.empty((0, Z.shape[1]))
    return LocalModel(
        outputs,
        nothing,
        np.zeros(Z.shape[1]),
        np.empty((0, 2), np.int64),
        np.empty((0, len(mean))),
        mean,
    )


def _importance(Z: Numbers, Y: Numbers, gamma: float, random: np.random.Generator) -> Numbers:
    """Return the squared coefficients (n,) of kernel ridge regression on the points."""
    n = len(Z)
    some = np.arange(n) if n <= _SOLVED else np.sort(random.choice(n, _SOLVED, replace=False))
    K = np.exp(-gamma * squared(Z[some], Z[some]))
    K[np.diag_indices(len(K))] += 0.1
    coefficients = np.linalg.solve(K, Y[some])
    found = np.zeros(n)
    found[some] = np.square(coefficients).sum(axis=1)
    return found


def _landmarks(
    Z: Numbers, importance: Numbers | None, count: int, random: np.random.Generator
) -> Numbers:
    if len(Z) <= count:
        return np.unique(Z, axis=0)
    weights = None
    if importance is not None and importance.max() > 0.0:
        # Support vectors may be fewer than landmarks, and k-means draws these by weight.
        weights = importance / importance.max() + _LEAST_WEIGHT
    return _k_means(Z, count, weights, random)


def _k_means(
    Z: Numbers, count: int, weights: Numbers | None, random: np.random.Generator
) -> Numbers:
    """Return different centers of clusters of points, at most so many, by Lloyd's iterations.

    They begin at points drawn by weight. A cluster without a point begins again at the point that
    is the farthest from its center.
    """
    w = np.ones(len(Z)) if weights is None else weights
    centers = Z[random.choice(len(Z), count, replace=False, p=w / w.sum())]
    weighted = w * Z.T
    for _ in range(_K_MEANS):
        away = squared(Z, centers)
        nearest = away.argmin(axis=1)
        masses = np.bincount(nearest, w, count)
        (empty,) = np.nonzero(masses == 0.0)
        masses[empty] = 1.0
        sums = [np.bincount(nearest, column, count) for column in weighted]
        centers = np.stack(sums, axis=1) / masses[:, None]
        if len(empty):
            apart = w * away[np.arange(len(Z)), nearest]
            centers[empty] = Z[np.argsort(-apart, kind="stable")[: len(empty)]]
    return np.asarray(np.unique(centers, axis=0))


def _pairs(m: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return different pairs of m landmarks, of a landmark with itself too, at random."""
    if not count:
        return np.empty((0, 2), np.int64)
    first, second = np.triu_indices(m)
    chosen = random.choice(len(first), min(count, len(first)), replace=False)
    return np.stack([first[chosen], second[chosen]], axis=1).astype(np.int64)
