"""Landmarks and factorizations of kernel matrices."""

from __future__ import annotations

from streamk import landmarks
from streamk.factorization import meka
from streamk.kernels import Gaussian

from .common import events

KERNEL = Gaussian(bandwidth=2.0)


class Landmarks:
    """Choosing 100 landmarks of 2,000 points."""

    params = ("oasis", "rpcholesky", "uniform")
    param_names = ("method",)

    def setup(self, method: str) -> None:
        self.X = events(2000)[0]
        self.time_choose(method)

    def time_choose(self, method: str) -> None:
        landmarks.METHODS[method](self.X, KERNEL, max_landmarks=100)


class Incremental:
    """oASIS on a stream."""

    def setup(self) -> None:
        self.X = events(1000)[0]
        self.time_learn()

    def time_learn(self) -> None:
        landmarks.IncrementalOasis(KERNEL, max_landmarks=64).learn_many(self.X)


class Factorization:
    """MEKA of 2,000 points."""

    def setup(self) -> None:
        self.X = events(2000)[0]
        self.time_meka()

    def time_meka(self) -> None:
        meka(self.X, KERNEL, rank=32, n_clusters=4, seed=0)
