"""The layout of a tree of local models for the compiled loops: how it is made, and checked.

The loops trust the places in these arrays, so those of a state are checked against all that
`streamk.backends.LocalKernels` says of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LANES, LEAF, NOWHERE, LocalKernels, filled
from streamk.declared import POSITIVE, Declared, Domain, taken, within
from streamk.errors import StateError
from streamk.prediction.local_model import LocalModel
from streamk.prediction.scale import Scale
from streamk.prediction.tree import Tree

__all__ = ["LEAST_ABSENT", "checked", "depths", "laid_out", "linear_cost"]

Numbers = NDArray[Any]

_OWNER = "a compiled model"
_PLACES = Domain(least=0)
_SINGLE = Domain(-3.4e38, 3.4e38)
LEAST_ABSENT = -100.0
"""Score of a class that a leaf does not have, at least."""
DECLARED = (
    Declared("shift", "float64", ("columns",)),
    Declared("factor", "float64", ("columns",)),
    Declared("fill", "float64", ("columns",)),
    Declared("normals", "float32", ("nodes", "columns")),
    Declared("offsets", "float32", ("nodes",)),
    Declared("children", "int64", ("nodes", 2)),
    Declared("roots", "int64", ("trees",)),
    Declared("absent", "float32", ("leaves",), Domain(LEAST_ABSENT, 0.0)),
    Declared("leaves", "int64", ("leaves", LEAF), _PLACES),
    Declared("numbers", "float32", ("numbers",), _SINGLE),
    Declared("pairs", "int64", ("pairs", 2), _PLACES),
    Declared("outputs", "int64", ("outputs",), _PLACES),
    Declared("visits", "float64", ("leaves",), Domain(0.0, 1.0)),
    Declared("weights", "float64", ("classes",), POSITIVE),
)
"""The arrays of `LocalKernels`, the share of training events in each leaf of its tree, and the
weights of the classes in decisions."""


def laid_out(
    scale: Scale,
    trees: Sequence[Tree],
    models: Sequence[LocalModel],
    absent: Numbers,
) -> LocalKernels:
    """Return the arrays of trees with a model for each leaf, on scaled columns.

    `models` are those of the first tree's leaves, then of the second one's and so on, and `absent`
    how far the scores of outputs that they do not have are below the greatest.
    """
    children, roots = _joined(trees)
    numbers = [_numbers(model) for model in models]
    leaves = np.zeros((len(models), LEAF), np.int64)
    leaves[:, 0] = [len(model.landmarks) for model in models]
    leaves[:, 1] = [len(model.pairs) for model in models]
    leaves[:, 2] = [len(model.outputs) for model in models]
    leaves[:, 3] = _starts([len(some) for some in numbers])
    leaves[:, 4] = _starts(leaves[:, 1])
    leaves[:, 5] = _starts(leaves[:, 2])
    return LocalKernels(
        np.ascontiguousarray(scale.shift, np.float64),
        np.ascontiguousarray(scale.factor, np.float64),
        np.ascontiguousarray(scale.fill, np.float64),
        np.concatenate([tree.normals for tree in trees]).astype(np.float32),
        np.concatenate([tree.offsets for tree in trees]).astype(np.float32),
        children,
        roots,
        np.ascontiguousarray(absent, np.float32),
        leaves,
        np.concatenate(numbers).astype(np.float32),
        np.concatenate([model.pairs for model in models]).astype(np.int64).reshape(-1, 2),
        np.concatenate([model.outputs for model in models]).astype(np.int64),
    )


def _starts(counts: Any) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)


def _numbers(model: LocalModel) -> Numbers:
    """Return the numbers of a leaf."""
    m, d = model.landmarks.shape
    q = len(model.outputs)
    wide, outputs = filled(m), filled(q)
    exponents = np.full(wide, NOWHERE)
    exponents[:m] = -np.einsum("ij,ij->i", model.landmarks, model.landmarks)
    landmarks = np.zeros((d, wide))
    landmarks[:, :m] = 2.0 * (model.landmarks * model.scale).T
    weights = np.zeros((wide + len(model.pairs), q))
    weights[:m] = model.weights[:m]
    weights[wide:] = model.weights[m:]
    if q == 1:
        laid = np.zeros(filled(len(weights)))
        laid[: len(weights)] = weights[:, 0]
    else:
        laid = np.zeros((len(weights), outputs))
        laid[:, :q] = weights
    bias = np.full(outputs, NOWHERE)
    bias[:q] = model.bias
    squares = np.zeros(filled(d))
    squares[:d] = -np.square(model.scale)
    return np.concatenate([squares, exponents, landmarks.ravel(), bias, laid.ravel()])


def linear_cost(columns: int, outputs: int) -> int:
    """Return the multiply-adds of a linear model for one event.

    Fewer columns than LANES count as so many: that is what one instruction takes.
    """
    return max(columns, LANES) * outputs


def _joined(trees: Sequence[Tree]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the children and the roots of trees whose nodes and leaves are numbered on."""
    children, roots, nodes, leaves = [], [], 0, 0
    for tree in trees:
        below = tree.children
        children.append(np.where(below >= 0, below + nodes, below - leaves))
        roots.append(nodes if len(below) else -1 - leaves)
        nodes, leaves = nodes + len(below), leaves + tree.n_leaves
    return np.concatenate(children).astype(np.int64), np.array(roots, np.int64)


def depths(children: NDArray[np.int64], leaves: int) -> NDArray[np.int64]:
    """Return the number of hyperplanes above each of the leaves."""
    above = np.zeros(len(children), np.int64)
    found = np.zeros(leaves, np.int64)
    for node, below in enumerate(children.tolist()):
        for child in below:
            if child >= 0:
                above[child] = above[node] + 1
            else:
                found[-1 - child] = above[node] + 1
    return found


def checked(arrays: Mapping[str, Numbers], classes: int) -> tuple[LocalKernels, dict[str, Numbers]]:
    """Return a model's arrays from those of a state, and by name those that the loops do not read.

    Raises
    ------
    StateError
        If an array is missing, or does not fit with the others and with so many classes.
    """
    found, _ = taken(DECLARED, arrays, {"classes": classes}, _OWNER)
    others = {name: found.pop(name) for name in ("visits", "weights")}
    outputs = classes if classes > 2 else 1
    model = LocalKernels(**{name: np.ascontiguousarray(each) for name, each in found.items()})
    _check_trees(model.children, model.roots, len(model.leaves))
    d = len(model.shift)
    m, p, q = (model.leaves[:, i] for i in range(3))
    within(q, Domain(1, outputs), "leaves", _OWNER)
    most = 2**40
    within(m, Domain(0, most // (d + outputs + 2 * LANES)), "leaves", _OWNER)
    within(p, Domain(0, most // outputs), "leaves", _OWNER)
    for name, i, lengths, end in (
        ("numbers", 3, _lengths(m, p, q, d), len(model.numbers)),
        ("pairs", 4, p, len(model.pairs)),
        ("outputs", 5, q, len(model.outputs)),
    ):
        if (model.leaves[:, i] != _starts(lengths)).any() or int(np.sum(lengths)) != end:
            raise StateError(f"array {name!r} of {_OWNER} does not fit with its leaves")
    if (model.pairs >= np.repeat(m, p)[:, None]).any():
        raise StateError(f"array 'pairs' of {_OWNER} names landmarks that there are not")
    within(model.outputs, Domain(0, outputs - 1), "outputs", _OWNER)
    return model, others


def _check_trees(children: NDArray[np.int64], roots: NDArray[np.int64], leaves: int) -> None:
    """Raise StateError unless each node and leaf is a root or the child of one node before it."""
    nodes = len(children)
    every = np.sort(np.concatenate([children.ravel(), roots]))
    if (
        not len(roots)
        or len(every) != nodes + leaves
        or (every != np.arange(-leaves, nodes)).any()
        or ((children >= 0) & (children <= np.arange(nodes)[:, None])).any()
    ):
        raise StateError(f"arrays 'children' and 'roots' of {_OWNER} are no trees")


def _lengths(m: Any, p: Any, q: Any, d: int) -> Any:
    """Return how many numbers leaves have, see `_numbers`."""
    wide, outputs = filled(m), filled(q)
    weights = np.where(q == 1, filled(wide + p), (wide + p) * outputs)
    return filled(d) + wide * (1 + d) + outputs + weights
