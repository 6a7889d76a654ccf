"""One run of a two-sample test, from its first event to its alarm."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamk import backends
from streamk.backends import CHUNK, Curve, Dense, loops, two_sample
from streamk.backends.two_sample import BANDS, TwoSample
from streamk.drift.scale import FirstScale
from streamk.features.blocks import FeatureBlocks
from streamk.features.columns import Column, column_keys
from streamk.kernels import Gaussian

WARM_UP = 64
"""Events at first that are training events and give the scales of the columns."""
BANDWIDTHS = (0.35, 0.7, 1.4)
"""In units of the median distance of two events."""
_NEAREST = 1e-6
"""Least distance that is a unit: single precision holds what is scaled by it."""
_GROWTH = 1024
"""Events of a run after which the features double; later they do whenever there are four times as
many: their number goes by the root of the events', as the error of the means does."""
_ROOM = 64
"""Events of the reference sample that there is room for at first."""

Events = NDArray[np.float64]


def groups_after(events: int, most: int) -> int:
    """Return how many groups of BANDS chunks of features there are after so many events of a run.

    Examples
    --------
    >>> [groups_after(n, 16) for n in (0, 1023, 1024, 4096, 16384)], groups_after(10**9, 5)
    ([1, 1, 2, 4, 8], 5)
    """
    groups, moment = 1, _GROWTH
    while groups < most and events >= moment:
        groups, moment = 2 * groups, 4 * moment
    return min(groups, most)


class Run:
    """The statistics of a run and what computes features for them.

    Parameters
    ----------
    columns : sequence of str or int
    reference : int
        Most events of the reference sample.
    max_features : int
        A multiple of BANDS * CHUNK.
    seed : int

    Attributes
    ----------
    n : int
        Events of this run.
    most_groups : int
        Groups of BANDS chunks of features, at most.
    rows : float64 array of shape (events, d)
        The first events, as long as there is no scale.
    scale : FirstScale or None
    sample : TwoSample
    """

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        reference: int,
        max_features: int,
        seed: int,
    ) -> None:
        self._reference, self.most_groups = reference, max_features // (BANDS * CHUNK)
        self._seed = seed
        self._backend = backends.select()
        self._keys = column_keys(columns)
        self._blocks = self._make_blocks()
        self._begin(len(columns))

    def _begin(self, n_columns: int) -> None:
        self.n = 0
        self.rows = np.zeros((0, n_columns))
        self.scale: FirstScale | None = None
        self.sample = two_sample.begin(self._reference, n_columns, BANDS * CHUNK)
        self._basis: Dense | None = None
        self._moment = self._next_moment()

    def anew(self) -> Run:
        """Return a run of the same columns at its first event; features are not drawn again."""
        run = copy.copy(self)
        run._begin(self.rows.shape[1])
        return run

    def _make_blocks(self) -> FeatureBlocks:
        return FeatureBlocks(
            Gaussian(bandwidth=1.0),
            self._keys,
            seed=self._seed,
            backend=self._backend,
            dtype=np.dtype(np.float32),
            cache_bytes=1 << 40,
            threads=1,
        )

    @property
    def n_features(self) -> int:
        """Random features in use."""
        return len(self.sample.reference)

    @property
    def wealth(self) -> float:
        """The largest wealth of a witness now."""
        return float(self.sample.total[0])

    @property
    def peak(self) -> float:
        """The largest wealth that a witness has ever had."""
        return float(self.sample.total[1])

    # --- events ---------------------------------------------------------------------------------

    def take(self, X: Events, draws: NDArray[np.float64], threshold: float) -> int:
        """Take in the first one or more of some events; return how many.

        Parameters
        ----------
        X : float64 array of shape (n, d)
        draws : float64 array of shape (n, 3)
            Numbers drawn for them, see `streamk.backends.two_sample`.
        threshold : float
            Wealth that ends the run.
        """
        if self.scale is None:
            n = min(len(X), WARM_UP - self.n)
            self.rows = np.concatenate([self.rows, X[:n]])
            self.n += n
            if self.n == WARM_UP:
                self._finish_warm_up()
            return n
        n = min(len(X), self._moment - self.n)
        self._reserve(int(self.sample.counts[0]) + n)
        taken: int = loops.two_sample.follow(
            self.sample, self.features(X[:n]), X[:n], draws[:n], threshold
        )
        self.n += taken
        if self.n == self._moment:
            self._grow()
        return taken

    def _finish_warm_up(self) -> None:
        """Take the scale from the first events, and let them be the first training events."""
        self.scale = FirstScale(self.rows)
        self._lay_out()
        training = np.zeros((WARM_UP, 3))
        loops.two_sample.follow(self.sample, self.features(self.rows), self.rows, training, np.inf)
        self.rows = self.rows[:0]

    # --- features -------------------------------------------------------------------------------

    def features(self, X: Events) -> NDArray[np.float32]:
        """Return the features (n, D) of events (n, d)."""
        assert self.scale is not None
        assert self._basis is not None
        out = np.empty((len(X), len(self._basis.b) * CHUNK), np.float32)
        Z = self.scale.transform(X, self._backend)
        self._backend.features(Z, self._basis, Curve.COSINE, False, out)
        return out

    def _lay_out(self) -> None:
        """Scale the frequencies of all chunks by their bandwidths."""
        assert self.scale is not None
        chunks = len(self.sample.seen)
        basis = self._blocks.kept(chunks)
        assert isinstance(basis, Dense)
        distance = max(self.scale.distance, _NEAREST)
        units = np.array(BANDWIDTHS)[np.arange(chunks) % BANDS] * distance
        W = basis.W[:chunks] / units[:, None, None]
        self._basis = Dense(W.astype(np.float32), basis.b[:chunks])

    def _next_moment(self) -> int:
        """Return after how many events of the run there are more features."""
        groups, moment = len(self.sample.seen) // BANDS, _GROWTH
        while moment <= self.n:
            moment *= 4
        return moment if groups < self.most_groups else 1 << 62

    def _grow(self) -> None:
        """Append the features that so many events are worth."""
        more = groups_after(self.n, self.most_groups) * BANDS - len(self.sample.seen)
        old, chunks = self.sample, ((0, 0), (0, more * CHUNK))
        self.sample = old._replace(
            features=np.pad(old.features, chunks[::-1]),
            witness=np.pad(old.witness, chunks),
            recent=np.pad(old.recent, chunks),
            reference=np.pad(old.reference, chunks[1]),
            seen=np.pad(old.seen, (0, more)),
        )
        self._moment = self._next_moment()
        self._lay_out()
        self._evaluate()

    def _evaluate(self) -> None:
        """Compute the features of the reference sample anew."""
        size = int(self.sample.counts[0])
        self.sample.features[:, :size] = self.features(self.sample.events[:size]).T

    def restore(self, n: int, rows: Events, scale: FirstScale | None, sample: TwoSample) -> None:
        """Go on after n events, with a sample whose features and scores are not computed yet."""
        self.n, self.rows, self.scale, self.sample = n, rows, scale, sample
        self._moment = self._next_moment()
        if scale is not None:
            self._lay_out()
            self._evaluate()
            loops.two_sample.rescore(sample)

    def _reserve(self, size: int) -> None:
        """Make room for so many events in the reference sample, or as many as it may have."""
        room, most = len(self.sample.events), int(self.sample.counts[3])
        if min(size, most) <= room:
            return
        more = min(max(size, 2 * room, _ROOM), most) - room
        self.sample = self.sample._replace(
            events=np.pad(self.sample.events, ((0, more), (0, 0))),
            features=np.pad(self.sample.features, ((0, 0), (0, more))),
            scores=np.pad(self.sample.scores, ((0, 0), (0, more))),
        )

    def add_columns(self, columns: Sequence[Column]) -> None:
        """Go on with more columns than before, the first of which are those there were."""
        more = len(columns) - self.rows.shape[1]
        self._keys = column_keys(columns)
        self._blocks = self._make_blocks()
        self.rows = np.pad(self.rows, ((0, 0), (0, more)))
        self.sample = self.sample._replace(events=np.pad(self.sample.events, ((0, 0), (0, more))))
        if self.scale is not None:
            self.scale.add_columns(more)
            self._lay_out()
            self._evaluate()
            loops.two_sample.rescore(self.sample)
