"""Points in clouds, and a `Meka` as the oracle has it."""

import numpy as np
from reference import landmarks as naive_landmarks
from reference import meka as oracle
from reference import naive

from streamk import kernels

KERNELS = [
    (kernels.Gaussian(bandwidth=1.0), naive.Kernel("gaussian", 1.0)),
    (kernels.Laplacian(bandwidth=4.0), naive.Kernel("laplacian", 4.0)),
    (kernels.PowerExponential(bandwidth=9.0), naive.Kernel("power_exponential", 9.0)),
    (kernels.Matern(nu=1.5, bandwidth=1.5), naive.Kernel("matern", 1.5, 1.5)),
    (
        kernels.RationalQuadratic(alpha=1.5, bandwidth=1.0),
        naive.Kernel("rational_quadratic", 1.0, 1.5),
    ),
    (kernels.Cauchy(bandwidth=2.0), naive.Kernel("cauchy", 2.0)),
]
GAUSSIAN = KERNELS[0][0]
SIZES = (20, 30, 50, 60, 80)
EVERY = {"oversampling": 1e4, "link_samples": 1e4}
"""Every point is a landmark and every entry a sample: nothing is left to chance."""


def clouds(sizes=SIZES, seed=0, d=3, apart=2.5, spread=0.6):
    """Gaussian clouds of these sizes, mixed, around centres that are not so far apart."""
    rng = np.random.default_rng(seed)
    centers = apart * rng.normal(size=(len(sizes), d))
    X = np.repeat(centers, sizes, axis=0) + spread * rng.normal(size=(sum(sizes), d))
    return X[rng.permutation(len(X))]


def plain_kernel(k):
    """A kernel of the oracles between the rows of two sets of points."""
    return lambda X, Y: naive_landmarks.kernel_matrix(k, X, Y)


def as_oracle(m):
    """The same W and L, in double precision."""
    clusters = range(m.n_clusters)
    bases = [
        oracle.Basis(m.basis(s).astype(float), m.link(s, s).astype(float), np.empty(0))
        for s in clusters
    ]
    pairs = [(s, t) for s in clusters for t in clusters if m.links[s, t]]
    L = {(s, t): m.link(s, t).astype(float) for s, t in pairs}
    return oracle.Meka([m.rows(s) for s in clusters], bases, L)


def factors(m):
    """W (n, rank) and L (rank, rank)."""
    plain = as_oracle(m)
    return oracle.block_diagonal(plain), oracle.link_matrix(plain)


def dense(m):
    """W L W', without the diagonal shift."""
    W, L = factors(m)
    return W @ L @ W.T
