"""The tree that divides events among local models: 2-means, again and again."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    """Divide points by a tree of so many leaves, as far as there are points that differ.

    The leaf with the most points is divided next. Its hyperplane is orthogonal to the line between
    the two centers of 2-means, and lies midway between these (the paper's assignment to the nearest
    center) or nearer to one, so that each side has at least the share `balance` of the points.

    Parameters
    ----------
    Z : float64 array of shape (n, d)
    leaves : int
        At least 1.
    balance : float
        From 0, the two clusters as they are, to .5, halves.
    halo : float
        Points of a leaf's halo over those in it. The distance of a point to the leaf is that from
        the half spaces of which it is the intersection, the root of the sum of squares.
    random : Generator

    Returns
    -------
    Tree
    list of LeafPoints
        For each leaf.
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
    from scipy.cluster.vq import kmeans2

    some = Z if len(Z) <= _SAMPLE else Z[random.choice(len(Z), _SAMPLE, replace=False)]
    first = some[random.integers(len(some))]
    away = np.square(some - first).sum(axis=1)
    if not away.any():
        return np.stack([first, first])
    second = some[random.choice(len(some), p=away / away.sum())]  # as k-means++ begins
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of the clusters may become empty
        centers, _ = kmeans2(some, np.stack([first, second]), iter=_ITERATIONS, minit="matrix")
    found: Numbers = centers
    return found
