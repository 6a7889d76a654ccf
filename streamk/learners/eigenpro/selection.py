"""Choosing centers among the first events of a stream, while these come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import Declared, Domain, taken
from streamk.errors import StateError
from streamk.kernels import Kernel
from streamk.landmarks.methods import (
    ITERATIONS,
    block_rpcholesky,
    centers_of,
    oasis,
    scikit_learn,
)

Numbers = NDArray[Any]

METHODS = ("random", "k-means", "oasis", "rpcholesky")
WITH_FACTOR = ("oasis", "rpcholesky")
"""Methods that keep a factor of all events by all centers, ``4 SHARE p^2`` bytes."""
SHARE = 4
"""Events for each center from which the centers are chosen."""


class CenterSelection:
    """Events among which centers are chosen after each doubling of their number.

    The method is that of the last choice; those before are random. "k-means" takes centres of
    clusters; "oasis" and "rpcholesky" choose landmarks of the kernel.

    Examples
    --------
    >>> from streamk.kernels import Laplacian
    >>> selection = CenterSelection(2, method="random", kernel=Laplacian(), seed=0)
    >>> for number in range(4):
    ...     selection.add(np.full((2, 1), number, np.float32), np.zeros(2))
    ...     print(selection.is_due, selection.is_last)
    True False
    True False
    False False
    True True
    >>> len(selection.events), len(selection.centers())
    (8, 2)
    """

    def __init__(self, n_centers: int, *, method: str, kernel: Kernel, seed: int) -> None:
        self._n_centers, self._method, self._seed = n_centers, method, seed
        self._kernel = kernel
        self.blocks: list[tuple[Numbers, Numbers]] = []
        """The events, float32 (m, d), and labels as numbers, float64 (m,), in their order."""
        self.fixed: Numbers = np.zeros((0, 0), np.float32)
        """Centers, float32 (n, d), that are there beside those that are chosen."""
        self._n_events = 0

    @property
    def nbytes(self) -> int:
        """Memory of the events, in bytes."""
        return self.fixed.nbytes + sum(X.nbytes + y.nbytes for X, y in self.blocks)

    @property
    def is_due(self) -> bool:
        """True if a choice of centers is due after these blocks."""
        n = len(self.blocks)
        return n & (n - 1) == 0 or self.is_last

    @property
    def is_last(self) -> bool:
        """True if there are enough events for the last choice."""
        return self._n_events >= SHARE * self._n_centers

    @property
    def events(self) -> Numbers:
        """All events, float32 (n, d)."""
        return np.concatenate([X for X, _ in self.blocks])

    @property
    def labels(self) -> Numbers:
        """Labels of all events as numbers, float64 (n,)."""
        return np.concatenate([y for _, y in self.blocks])

    def add(self, X: Numbers, y: Numbers) -> None:
        """Add a block of events (m, d) and labels (m,)."""
        if self._method == "k-means" and not self.blocks:
            scikit_learn("cluster", "k-means")  # now, not when the last choice is due
        self.blocks.append((X, y))
        self._n_events += len(X)

    def add_columns(self, count: int) -> None:
        """Append columns of zeros."""
        self.blocks = [(np.pad(X, ((0, 0), (0, count))), y) for X, y in self.blocks]
        self.fixed = np.pad(self.fixed, ((0, 0), (0, count)))

    def add_fixed(self, Z: Numbers) -> None:
        """Add centers (n, d) that every choice has beside its own."""
        self.fixed = np.concatenate([self.fixed, Z])

    @property
    def replaces(self) -> bool:
        """True if the choice now replaces random events."""
        return self.is_last and self._method != "random"

    def centers(self) -> Numbers:
        """Return centers for all events so far, float32 (p, d), those chosen in random order."""
        X, random = self.events, self._random()
        if self.replaces:
            X = self._chosen(X, random)
        chosen = random.permutation(X)[: self._n_centers]
        return np.concatenate([self.fixed, chosen]) if len(self.fixed) else chosen

    def _chosen(self, X: Numbers, random: np.random.Generator) -> Numbers:
        """Return the method's centers, float32 (p, d), or fewer where these span all events."""
        p = self._n_centers
        if self._method == "k-means":
            Z = centers_of(X.astype(np.float64), p, random, init="random", iterations=ITERATIONS)
            return Z.astype(np.float32)
        choose = oasis if self._method == "oasis" else block_rpcholesky
        seed = int(random.integers(2**31))
        found = choose(X, self._kernel, max_landmarks=p, seed=seed, dtype="float32")
        return X[found.indices]

    def more(self, present: int) -> Numbers:
        """Return centers to be added to those chosen before, float32 (n, d).

        A part of the events before is there, and as large a part of those since is added.
        """
        X = self.events
        most = len(self.fixed) + min(self._n_centers, max(2, len(X) // SHARE))
        before = len(self.blocks) - 1  # the last choice was at a power of 2 up to this
        last = 1 << before.bit_length() - 1 if before else 0
        since = X[sum(len(block) for block, _ in self.blocks[:last]) :]
        return self._random().permutation(since)[: max(0, most - present)]

    def _random(self) -> np.random.Generator:
        sequence = np.random.SeedSequence([self._seed, self._n_events])
        return np.random.Generator(np.random.Philox(sequence))

    # State

    def arrays(self) -> dict[str, Numbers]:
        """The arrays to go on from, by name, copies."""
        found = {"fixed": self.fixed.copy()}
        if self.blocks:
            sizes = np.array([len(X) for X, _ in self.blocks])
            found |= {"first": self.events, "first_labels": self.labels, "first_sizes": sizes}
        return found

    def load(
        self, arrays: Mapping[str, Numbers], sizes: Mapping[str, int], labels: Domain, owner: str
    ) -> None:
        """Take what `arrays` gave, or raise StateError if it does not fit.

        Sizes that are known are "columns", and "first", the events.
        """
        declared = [Declared("fixed", "float32", ("fixed", "columns"))]
        if sizes["first"]:
            declared += (
                Declared("first", "float32", ("first", "columns")),
                Declared("first_labels", "float64", ("first",), labels),
                Declared("first_sizes", "int64", ("blocks",), Domain(1, sizes["first"])),
            )
        found, _ = taken(declared, arrays, sizes, owner)
        self.fixed = found["fixed"].copy()
        if not sizes["first"]:
            return
        ends = np.cumsum(found["first_sizes"])
        if ends[-1] != sizes["first"]:
            raise StateError(f"array 'first_sizes' of {owner} does not sum to {sizes['first']}")
        X, y = (np.split(found[name], ends[:-1]) for name in ("first", "first_labels"))
        for events, some in zip(X, y, strict=True):
            self.add(events.copy(), some.copy())
