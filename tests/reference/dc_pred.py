"""DC-Pred++ (Hsieh, Si and Dhillon 2014), as plainly as its Algorithm 2 can be stated.

Nothing here imports streamk: loops over events, one after the other.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np


def leaf_of(z, normals, offsets, children) -> int:
    """The leaf that an event is routed to: the nearer one of two centers, again and again."""
    node = 0 if len(offsets) else -1
    while node >= 0:
        right = sum(a * b for a, b in zip(z, normals[node], strict=True)) >= offsets[node]
        node = int(children[node][1 if right else 0])
    return -1 - node


def basis(z, landmarks, scale, pairs) -> list[float]:
    """Kernel values of the landmarks, and products of two of them: equation 7."""
    c = [
        math.exp(-sum((s * a - b) ** 2 for s, a, b in zip(scale, z, u, strict=True)))
        for u in landmarks
    ]
    return c + [c[i] * c[j] for i, j in pairs]


def scores(z, model) -> list[float]:
    """The decision values of a leaf: the last line of Algorithm 1."""
    c = basis(z, model.landmarks, model.scale, model.pairs)
    return [
        float(model.bias[k]) + sum(c[i] * float(model.weights[i, k]) for i in range(len(c)))
        for k in range(len(model.bias))
    ]


def loss(Z, T, model, ridge: float, *, classify: bool) -> float:
    """The mean loss of a local model, and half the squared weights times the ridge."""
    total = 0.0
    for z, t in zip(Z, T, strict=True):
        f = scores(z, model)
        if not classify:
            total += 0.5 * sum((a - b) ** 2 for a, b in zip(f, t, strict=True))
        elif len(f) == 1:
            p = 1.0 / (1.0 + math.exp(-f[0]))
            total -= t[0] * math.log(p) + (1.0 - t[0]) * math.log(1.0 - p)
        else:
            powers = [math.exp(v) for v in f]
            total -= sum(
                b * math.log(power / sum(powers)) for b, power in zip(t, powers, strict=True)
            )
    return total / len(Z) + 0.5 * ridge * float(np.sum(np.square(model.weights)))


def importance(K, Y, ridge: float) -> np.ndarray:
    """Squares of the coefficients of kernel ridge regression: the weights of section 5."""
    alpha = np.linalg.inv(K + ridge * np.eye(len(K))) @ Y
    return np.sum(alpha**2, axis=1)


def unpacked(kernels, leaf: int):
    """The model of a leaf with one output, out of the arrays that the compiled loops read."""
    d, lanes = len(kernels.shift), 16
    m, p, q, at, pair, _ = kernels.leaves[leaf].tolist()
    assert q == 1
    wide, filled = -(-m // lanes) * lanes, -(-d // lanes) * lanes
    numbers = np.asarray(kernels.numbers, np.float64)[at:]
    scale = np.sqrt(-numbers[:d])
    landmarks = numbers[filled + wide :][: d * wide].reshape(d, wide)[:, :m].T / (2.0 * scale)
    rest = numbers[filled + (1 + d) * wide :]
    weights = np.concatenate([rest[lanes:][:m], rest[lanes + wide :][:p]])
    pairs = kernels.pairs[pair : pair + p]
    return SimpleNamespace(
        landmarks=landmarks, scale=scale, pairs=pairs, weights=weights[:, None], bias=rest[:1]
    )


def early_prediction(x, kernels) -> float:
    """Algorithm 2's prediction: by the model of the nearest cluster alone."""
    z = [(a - b) * c for a, b, c in zip(x, kernels.shift, kernels.factor, strict=True)]
    leaf = leaf_of(z, kernels.normals, kernels.offsets, kernels.children)
    return scores(z, unpacked(kernels, leaf))[0]


def trained_weights(Z, y, model, ridge: float) -> tuple[np.ndarray, float]:
    """Algorithm 2's last step: ridge regression of centered targets on the landmarks' kernels."""
    C = np.array([basis(z, model.landmarks, model.scale, model.pairs) for z in Z])
    mean = sum(y) / len(y)
    system = C.T @ C + ridge * np.eye(C.shape[1])
    return np.linalg.inv(system) @ (C.T @ (np.asarray(y) - mean)), mean
