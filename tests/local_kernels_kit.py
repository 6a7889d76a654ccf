"""Trees of small kernel models, made at random, and their scores in double precision."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamk.backends import LocalKernels
from streamk.prediction.compiled import CompiledModel, Scale, laid_out
from streamk.prediction.tree import LocalModel, Tree

Numbers = Any


class Made(NamedTuple):
    """The parts of a model, and the arrays that the loops read."""

    scale: Scale
    trees: list[Tree]
    models: list[LocalModel]
    """Of all leaves of the first tree, of the second one, and so on."""
    absent: Numbers
    kernels: LocalKernels
    n_outputs: int

    def scores(self, X: Numbers) -> Numbers:
        """Scores (n, outputs) of raw events (n, d)."""
        Z, first = self.scale(X), 0
        total = np.zeros((len(X), self.n_outputs))
        for tree in self.trees:
            leaves = first + tree.leaves(Z)
            first += tree.n_leaves
            for leaf in np.unique(leaves):
                mine = np.flatnonzero(leaves == leaf)
                total[mine] += self._of_leaf(leaf, Z[mine])
        return total / len(self.trees)

    def _of_leaf(self, leaf: int, Z: Numbers) -> Numbers:
        model = self.models[leaf]
        scores = model.scores(Z)
        if self.n_outputs == 1:
            return scores
        out = np.full((len(Z), self.n_outputs), self.absent[leaf])
        out[:, model.outputs] = scores - scores.max(axis=1, keepdims=True)
        return out

    def beside_planes(self, X: Numbers) -> Numbers:
        """Whether (n,) events are so near to a hyperplane that rounding may decide on the side."""
        Z = self.scale(X)
        near = np.zeros(len(X), bool)
        for tree in self.trees:
            beyond = np.abs(Z @ tree.normals.T - tree.offsets)
            sums = np.abs(Z) @ np.abs(tree.normals.T) + np.abs(tree.offsets)
            near |= (beyond < 1e-5 * sums).any(axis=1)
        return near

    @property
    def tolerance(self) -> float:
        """Of single precision, in a score."""
        sums = [np.abs(model.weights).sum(axis=0).max(initial=0.0) for model in self.models]
        return 2e-6 * (1.0 + max(sums))


def made(
    d: int = 5,
    *,
    trees: int = 1,
    leaves: int = 7,
    n_outputs: int = 4,
    landmarks: int = 20,
    products: int = 0,
    alike: bool = False,
    seed: int = 0,
) -> Made:
    """A model whose leaves differ in size, unless they are to be alike; one has no landmarks."""
    random = np.random.default_rng(seed)
    scale = Scale(random.normal(size=d), random.uniform(0.5, 2.0, d), random.normal(size=d))
    models = []
    for leaf in range(trees * leaves):
        m = landmarks if alike else int(random.integers(1, landmarks + 1))
        m = 0 if leaf == 1 and not alike else m
        p = min(products, m) if alike else int(random.integers(0, min(products, m) + 1))
        q = n_outputs if alike else int(random.integers(1, n_outputs + 1))
        widths = random.uniform(0.5, 1.0, d) / np.sqrt(d)
        models.append(
            LocalModel(
                np.sort(random.choice(n_outputs, q, replace=False)),
                random.normal(size=(m, d)) * widths,
                widths,
                random.integers(0, max(m, 1), (p, 2)),
                random.normal(size=(m + p, q)),
                random.normal(size=q),
            )
        )
    grown = [tree_of(leaves, d, random) for _ in range(trees)]
    absent = random.uniform(-8.0, -3.0, len(models))
    kernels = laid_out(scale, grown, models, absent)
    return Made(scale, grown, models, absent, kernels, n_outputs)


def tree_of(leaves: int, d: int, random: np.random.Generator) -> Tree:
    """A tree in which the leaves to be divided were chosen at random."""
    children: list[list[int]] = []
    places: list[tuple[int, int] | None] = [None]
    for node in range(leaves - 1):
        leaf, new = int(random.integers(len(places))), len(places)
        if (place := places[leaf]) is not None:
            children[place[0]][place[1]] = node
        children.append([-1 - leaf, -1 - new])
        places[leaf] = (node, 0)
        places.append((node, 1))
    normals = random.normal(size=(leaves - 1, d))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return Tree(
        normals,
        random.normal(scale=0.5, size=leaves - 1),
        np.array(children, np.int64).reshape(-1, 2),
    )


def events(n: int, d: int, seed: int = 0) -> Numbers:
    """Raw events, of which some values are missing and some far away."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    X[random.random((n, d)) < 0.05] = np.nan
    X[random.random((n, d)) < 0.002] *= 1e9
    return X


def compiled(model: Made, classes: tuple[Any, ...] | None = None, **options: Any) -> CompiledModel:
    """The model that predicts classes, by default numbered ones, or a number if it has one output.

    No classes are a number, too.
    """
    if classes is None:
        classes = tuple(range(model.n_outputs)) if model.n_outputs > 1 else ()
    visits = np.concatenate([np.full(tree.n_leaves, 1 / tree.n_leaves) for tree in model.trees])
    options = {"columns": None, "visits": visits, **options}
    return CompiledModel(model.kernels, classes=classes, **options)


MODELS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "two classes": ({"n_outputs": 1, "d": 6}, ("no", "yes")),
    "many classes": ({"n_outputs": 26, "d": 16, "leaves": 20}, tuple(range(26))),
    "all classes everywhere": ({"n_outputs": 3, "alike": True}, ("a", "b", "c")),
    "numbers": ({"n_outputs": 1, "d": 20}, ()),
    "one leaf": ({"n_outputs": 5, "leaves": 1}, tuple("abcde")),
    "constant leaves": ({"n_outputs": 3, "leaves": 2, "landmarks": 1}, ("a", "b", "c")),
    "several trees": ({"n_outputs": 17, "trees": 3, "products": 5}, tuple(range(17))),
    "several trees, numbers": ({"n_outputs": 1, "trees": 4, "d": 16}, ()),
    "products": ({"n_outputs": 4, "products": 30, "landmarks": 40}, tuple(range(4))),
    "products, numbers": ({"n_outputs": 1, "products": 9, "d": 1}, ()),
}
"""Shapes of models, as `made` has them, and their classes."""
