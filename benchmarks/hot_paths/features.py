"""Random features and exact kernels."""

from __future__ import annotations

import numpy as np

from streamk import kernels
from streamk.features import RandomFeatures

from .common import events


class Features:
    """Features of a batch, by kernel and sampler."""

    params = (("gaussian", "laplacian", "matern", "linear"), ("iid", "hadamard"))
    param_names = ("kernel", "sampler")

    def setup(self, kernel: str, sampler: str) -> None:
        if sampler == "hadamard" and kernel == "laplacian":
            raise NotImplementedError  # its law is not isotropic
        self.features = RandomFeatures(kernels.by_name(kernel), seed=1, sampler=sampler)
        self.X = events(256, 54)[0].astype(np.float32)
        self.time_transform(kernel, sampler)

    def time_transform(self, kernel: str, sampler: str) -> None:
        self.features.transform(self.X, 0, 2048)


class Pairwise:
    """Exact kernel matrices, and their products, which never store them."""

    params = ("gaussian", "laplacian", "matern")
    param_names = ("kernel",)

    def setup(self, kernel: str) -> None:
        self.kernel = kernels.by_name(kernel)
        self.X = events(1000)[0]
        self.V = np.ones((1000, 4))
        self.time_matrix(kernel)
        self.time_product(kernel)

    def time_matrix(self, kernel: str) -> None:
        self.kernel.pairwise(self.X, self.X[:500])

    def time_product(self, kernel: str) -> None:
        self.kernel.product(self.X, self.X, self.V)
