"""Virtual examples, made as they are learned: images moved and bent, atoms in another order.

An image is turned, bent by a smooth random field (Simard, Steinkraus and Platt 2003; MNIST8M was
made of such fields, too) and moved by `benchmarks.copies`, which has shifts alone. A molecule's
Coulomb matrix has its atoms sorted by the norm of their rows and noise (Montavon et al. 2012).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from benchmarks.copies import Copies

Numbers = NDArray[Any]

WIDTH = 28
SHIFT = 1
"""Pixels, at most."""
TURN = 10.0
"""Degrees, at most."""
BEND, SMOOTH = 34.0 / 3.0**0.5, 4.0
"""Displacements in pixels: their standard deviation before smoothing, and that of the filter, of
their alpha 34 and sigma 4; 1.4 pixels come of it."""
ATOMS = 23
NOISE = 1.0
"""Standard deviation of what is added to the norms of rows before atoms are sorted by them, of a
matrix in atomic units."""
_AT_ONCE = 2048


def bent(
    images: Numbers,
    random: np.random.Generator,
    bend: float = BEND,
    least: float | None = None,
) -> Numbers:
    """Return images (n, height, width), each turned and bent in its own way.

    `bend` is as `BEND`, the same for all images; with `least` each has its own, from there to
    `bend`.
    """
    n, height, width = images.shape
    angles = np.deg2rad(random.uniform(-TURN, TURN, n))[:, None, None]
    fields = random.standard_normal((2, n, height, width), np.float32)
    # A Gaussian filter along both axes, as products: a third of the time of ndimage's own.
    along, across = (
        ndimage.gaussian_filter1d(np.eye(size, dtype=np.float32), SMOOTH, mode="constant")
        for size in (height, width)
    )
    strength: Any = np.float32(bend)
    if least is not None:
        strength = random.uniform(least, bend, (n, 1, 1)).astype(np.float32)
    down, right = strength * (along.T @ fields @ across)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    y, x = y - (height - 1) / 2, x - (width - 1) / 2
    rows = np.cos(angles) * y - np.sin(angles) * x + down + (height - 1) / 2
    columns = np.sin(angles) * y + np.cos(angles) * x + right + (width - 1) / 2
    which = np.broadcast_to(np.arange(n, dtype=np.float32)[:, None, None], rows.shape)
    found: Numbers = ndimage.map_coordinates(images, [which, rows, columns], order=1)
    return found


def images(
    X: Numbers, y: Numbers, n: int, seed: int, *, bend: float = BEND, least: float | None = None
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield n virtual examples of images X (m, d) in batches, float32, and their labels.

    For `bend` and `least` see `bent`. Columns that are no square image, of generated data, have
    noise instead.
    """
    square = X.shape[1] == WIDTH * WIDTH
    options: dict[str, Any] = {"shift": SHIFT, "width": WIDTH} if square else {"noise": 0.1}
    copies = Copies(X, y, seed=seed, **options)
    random = np.random.default_rng([seed, 7])
    for at in range(0, n, _AT_ONCE):
        rows, labels = copies.take(min(_AT_ONCE, n - at))
        found = rows.astype(np.float32)
        if square:
            found = bent(found.reshape(-1, WIDTH, WIDTH), random, bend, least).reshape(found.shape)
        yield found, labels


def molecules(X: Numbers, random: np.random.Generator, noise: float = NOISE) -> Numbers:
    """Return upper triangles (n, 276) of Coulomb matrices with their atoms in another order."""
    size = ATOMS
    rows, columns = np.triu_indices(size)
    matrices = np.zeros((len(X), size, size), X.dtype)
    matrices[:, rows, columns] = X
    matrices[:, columns, rows] = X
    norms = np.linalg.norm(matrices, axis=2)
    # Places without an atom stay at the end.
    disturbed = np.where(norms > 0.0, norms + noise * random.normal(size=norms.shape), -np.inf)
    order = np.argsort(-disturbed, axis=1, kind="stable")
    which = np.arange(len(X))[:, None, None]
    found: Numbers = matrices[which, order[:, :, None], order[:, None, :]]
    return found[:, rows, columns]
