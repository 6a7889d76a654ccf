"""Copies of events without end, each another one: an image is moved, columns have noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]

_BLOCK = 256
"""Copies that are made together: the copy at a position depends on seed and position alone."""


class Copies:
    """Copies of events X (n, d) with labels y (n,), in another random order on each pass.

    Parameters
    ----------
    noise : float, default 0
        Standard deviation of normal noise, in units of each column's standard deviation.
    shift, width : int, default 0
        An image of rows of `width` pixels is moved by at most `shift`, up or down and to the left
        or right; the pixels that come in are 0.
    seed : int, default 0
    """

    def __init__(
        self,
        X: Numbers,
        y: Numbers,
        *,
        noise: float = 0.0,
        shift: int = 0,
        width: int = 0,
        seed: int = 0,
    ) -> None:
        self._X, self._y = np.asarray(X, np.float64), np.asarray(y)
        self._noise, self._shift, self._width, self._seed = noise, shift, width, seed
        self._rows = self._order()
        self._blocks = self._drawn()
        self._left = self._X[:0], self._y[:0]

    def take(self, n: int) -> tuple[Numbers, Numbers]:
        """Return the next n copies, float64 (n, d), and their labels (n,)."""
        X, y = [self._left[0]], [self._left[1]]
        while sum(map(len, X)) < n:
            rows, labels = next(self._blocks)
            X.append(rows)
            y.append(labels)
        all_X, all_y = np.concatenate(X), np.concatenate(y)
        self._left = all_X[n:], all_y[n:]
        return all_X[:n], all_y[:n]

    def _order(self) -> Iterator[int]:
        epoch = 0
        while True:
            yield from self._random(0, epoch).permutation(len(self._X)).tolist()
            epoch += 1

    def _drawn(self) -> Iterator[tuple[Numbers, Numbers]]:
        spread, block = self._X.std(axis=0), 0
        while True:
            random, rows = self._random(1, block), [next(self._rows) for _ in range(_BLOCK)]
            X = self._X[rows]
            if self._shift:
                moves = random.integers(-self._shift, self._shift + 1, (_BLOCK, 2)).tolist()
                images = X.reshape(_BLOCK, -1, self._width)
                X = np.stack([_moved(*pair) for pair in zip(images, moves, strict=True)])
                X = X.reshape(_BLOCK, -1)
            if self._noise:
                X = X + self._noise * spread * random.normal(size=X.shape)
            yield X, self._y[rows]
            block += 1

    def _random(self, *key: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(np.random.SeedSequence([self._seed, *key])))


def _moved(image: Numbers, by: list[int]) -> Numbers:
    """Return an image (height, width) moved down and to the right."""
    found = np.zeros_like(image)
    there, here = zip(
        *(
            (slice(max(0, n), size + min(0, n)), slice(max(0, -n), size - max(0, n)))
            for n, size in zip(by, image.shape, strict=True)
        ),
        strict=True,
    )
    found[there] = image[here]
    return found
