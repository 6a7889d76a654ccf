"""Augmented copies of events without end: `augment:images.npz?shift=2&width=28&noise=0.1`.

The file holds arrays X (n, d) and y (n,). Events come in a random order of each pass over them, and
every copy is a new one: an image is shifted, columns have noise, and two events are mixed.
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from connectors.base import URL, Chunk, Connector, Rows, Source, SourceBase
from connectors.errors import BadURL, OffsetOutOfRange, Unavailable

__all__ = ["AUGMENTED", "AugmentedSource"]

Numbers = NDArray[Any]

_BLOCK = 256
"""Events that are drawn together: a position's event depends on seed and position alone."""


class AugmentedSource(SourceBase):
    """Endless copies of events, each augmented anew; one partition.

    The event at a position follows from the seed and the position, so a job that is restarted goes
    on with the events that it would have had.

    Parameters
    ----------
    X : array of shape (n, d)
    y : sequence of n labels
    noise : float, default 0
        Standard deviation of normal noise, in units of each column's standard deviation.
    shift : int, default 0
        Pixels by which an image is moved at most, up or down and to the left or right; the pixels
        that come in are 0.
    width : int, optional
        Pixels in a row of an image, which `shift` needs.
    mixup : float, default 0
        The parameter alpha of mix-up (Zhang et al. 2018): an event is ``t x + (1 - t) x'`` with t
        from Beta(alpha, alpha) and another event x' of the same class. Of numbers x' is any event,
        and labels are mixed, too.
    seed : int, default 0
    limit : int, optional
        At most so many events; without end by default.

    Raises
    ------
    ValueError
        If an option is out of its domain or the arrays do not fit.

    Examples
    --------
    >>> source = AugmentedSource(np.eye(3), [0.0, 1.0, 2.0], noise=0.1, limit=5)
    >>> [chunk] = source.poll(100, 0.0)
    >>> chunk.values.X.shape, sorted(chunk.values.y[:3].tolist())
    ((5, 3), [0.0, 1.0, 2.0])
    """

    encoding = "rows"

    def __init__(
        self,
        X: Numbers,
        y: Any,
        *,
        noise: float = 0.0,
        shift: int = 0,
        width: int | None = None,
        mixup: float = 0.0,
        seed: int = 0,
        limit: int | None = None,
    ) -> None:
        self._X, self._y = np.asarray(X, np.float64), np.asarray(y)
        _check(self._X, self._y, noise, shift, width, mixup, seed, limit)
        self.fields = tuple(f"x{j}" for j in range(self._X.shape[1]))
        self._noise, self._shift, self._width, self._mixup = noise, shift, width, mixup
        self._seed, self._end, self._next = seed, limit, 0
        digest = hashlib.sha256(self._X.tobytes() + "\n".join(map(str, y)).encode()).hexdigest()
        options = f"noise={noise:g},shift={shift},width={width},mixup={mixup:g},seed={seed}"
        self._partition = f"{digest[:16]}:{options}"
        """Everything that the event at a position follows from: others are another stream."""
        self._spread = self._X.std(axis=0) if noise else None
        self._of_numbers = self._y.dtype.kind == "f"
        self._by_class = np.argsort(self._y, kind="stable")
        self._epoch, self._order = -1, np.zeros(0, np.int64)
        self._block, self._drawn = -1, Rows(self._X[:0], self._y[:0])

    def partitions(self) -> tuple[str, ...]:
        """One."""
        return (self._partition,)

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        """The next events; never waits."""
        first = self._next
        stop = first + max_events if self._end is None else min(first + max_events, self._end)
        if stop <= first:
            return []
        parts = []
        for block in range(first // _BLOCK, (stop - 1) // _BLOCK + 1):
            at = block * _BLOCK
            parts.append(self._events(block)[max(0, first - at) : stop - at])
        self._next = stop
        offsets = np.arange(first, stop, dtype=np.int64)
        return [Chunk(self._partition, offsets, offsets, Rows.join(parts))]

    def seek(self, partition: str, offset: int) -> None:
        """Go to a position. Raises `OffsetOutOfRange` before 0 and past the limit."""
        if offset < 0 or (self._end is not None and offset > self._end):
            raise OffsetOutOfRange(
                f"there is no offset {offset}, the events are limited to {self._end}",
                partition=partition,
                offset=offset,
            )
        self._next = offset

    def start(self, partition: str) -> int:
        """0."""
        return 0

    def end(self, partition: str) -> int | None:
        """The limit, None without one."""
        return self._end

    def lag(self) -> int | None:
        """The events up to the limit, None without one."""
        return None if self._end is None else self._end - self._next

    def finished(self) -> bool:
        """Return whether the limit is reached."""
        return self._next == self._end

    # Drawing

    def _events(self, block: int) -> Rows:
        """Draw the events of a block; the last one drawn is kept."""
        if block != self._block:
            positions = np.arange(block * _BLOCK, (block + 1) * _BLOCK)
            rows = np.array([self._row(position) for position in positions.tolist()])
            sequence = np.random.SeedSequence([self._seed, 1, block])
            self._drawn = self._copies(rows, np.random.Generator(np.random.Philox(sequence)))
            self._block = block
        return self._drawn

    def _row(self, position: int) -> int:
        """Return the event that is copied at a position."""
        epoch, place = divmod(position, len(self._X))
        if epoch != self._epoch:
            sequence = np.random.SeedSequence([self._seed, 0, epoch])
            self._order = np.random.Generator(np.random.Philox(sequence)).permutation(len(self._X))
            self._epoch = epoch
        return int(self._order[place])

    def _copies(self, rows: Numbers, random: np.random.Generator) -> Rows:
        X, y = self._X[rows], self._y[rows]
        if self._mixup:
            others = self._others(rows, random)
            t = random.beta(self._mixup, self._mixup, len(rows))
            X = t[:, None] * X + (1.0 - t)[:, None] * self._X[others]
            if self._of_numbers:
                y = t * y + (1.0 - t) * self._y[others]
        if self._shift and self._width:
            moves = random.integers(-self._shift, self._shift + 1, (len(rows), 2))
            images = X.reshape(len(rows), -1, self._width)
            X = np.stack([_moved(*pair) for pair in zip(images, moves.tolist(), strict=True)])
            X = X.reshape(len(rows), -1)
        if self._spread is not None:
            X = X + self._noise * self._spread * random.normal(size=X.shape)
        return Rows(X, y)

    def _others(self, rows: Numbers, random: np.random.Generator) -> Numbers:
        """Return events to mix with: of the same class, or any where labels are numbers."""
        places = random.random(len(rows))
        if self._of_numbers:
            return (places * len(self._X)).astype(np.int64)
        ordered = self._y[self._by_class]
        first = np.searchsorted(ordered, self._y[rows], "left")
        last = np.searchsorted(ordered, self._y[rows], "right")
        return self._by_class[first + (places * (last - first)).astype(np.int64)]


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


def _check(
    X: Numbers,
    y: Numbers,
    noise: float,
    shift: int,
    width: int | None,
    mixup: float,
    seed: int,
    limit: int | None,
) -> None:
    """Raise ValueError for what cannot be."""
    if X.ndim > 2:
        height = " x ".join(map(str, X.shape[1:]))
        raise ValueError(
            f"X of shape {X.shape} must be (events, columns); give images of {height} as rows of "
            f"{math.prod(X.shape[1:])} numbers, and width={X.shape[2]}"
        )
    if X.ndim != 2 or len(X) == 0 or y.shape != (len(X),):
        raise ValueError(f"X of shape {X.shape} and y of shape {y.shape} are no events and labels")
    if not np.isfinite(X).all():
        raise ValueError(f"row {int(np.argmin(np.isfinite(X).all(axis=1)))} of X is not finite")
    for name, value in (("noise", noise), ("shift", shift), ("mixup", mixup)):
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} is a finite number, 0 or more, not {value}")
    if seed < 0:
        raise ValueError(f"seed is a whole number, 0 or more, not {seed}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit is at least 1, not {limit}")
    if width is not None and not shift:
        raise ValueError("width= is for shift=, by which images are moved; leave it out")
    if shift and width is None:
        raise ValueError("shift needs the width of an image, such as width=28")
    if width is not None and (width < 1 or X.shape[1] % width):
        raise ValueError(f"width={width} does not divide the {X.shape[1]} columns")
    if width is not None and shift >= min(width, X.shape[1] // width):
        raise ValueError(f"shift={shift} moves all of an image of width {width} out of sight")


def _open(
    url: URL,
    *,
    noise: float = 0.0,
    shift: int = 0,
    width: int | None = None,
    mixup: float = 0.0,
    seed: int = 0,
    limit: int | None = None,
) -> Source:
    path = Path(url.path).expanduser()
    if not path.is_file():
        raise Unavailable(f"{url.text}: there is no file {path}")
    try:
        with np.load(path, allow_pickle=False) as file:
            X, y = file["X"], file["y"]
    except KeyError as error:
        raise BadURL(f"{url.text} has no array {error}; it needs X and y") from error
    except (OSError, ValueError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise BadURL(f"{url.text} is no .npz file of arrays X and y of numbers or texts") from error
    options: dict[str, Any] = {"shift": shift, "width": width, "mixup": mixup}
    try:
        return AugmentedSource(X, y, noise=noise, seed=seed, limit=limit, **options)
    except ValueError as error:
        raise BadURL(f"{url.text}: {error}") from None


AUGMENTED = Connector(source=_open)
