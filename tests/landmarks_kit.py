"""Matrices to select landmarks of: what is given, and the matrix that it stands for."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse
from reference import landmarks as naive_landmarks
from reference import naive

from streamk import kernels
from streamk.landmarks import Diffusion, oasis

KERNELS = [
    (kernels.Gaussian(bandwidth=1.2), naive.Kernel("gaussian", 1.2)),
    (kernels.Laplacian(bandwidth=3.0), naive.Kernel("laplacian", 3.0)),
    (kernels.PowerExponential(bandwidth=9.0), naive.Kernel("power_exponential", 9.0)),
    (kernels.Matern(nu=0.5, bandwidth=1.5), naive.Kernel("matern", 1.5, 0.5)),
    (kernels.Matern(nu=1.5, bandwidth=1.5), naive.Kernel("matern", 1.5, 1.5)),
    (kernels.Matern(nu=2.5, bandwidth=1.5), naive.Kernel("matern", 1.5, 2.5)),
    (kernels.NTK(depth=2, bandwidth=1.5), naive.Kernel("ntk", 1.5, 2)),
    (kernels.Linear(), naive.Kernel("linear")),
]


@dataclass
class Case:
    """What oasis is given, the matrix that it stands for, and the landmarks to select."""

    X: Any
    kernel: Any
    matrix: np.ndarray | Callable[[], np.ndarray]
    count: int

    @cached_property
    def G(self) -> np.ndarray:  # noqa: N802
        """The matrix: that of a kernel takes a second, and every process collects the cases."""
        return self.matrix() if callable(self.matrix) else self.matrix


def abalone_like(n, rng):
    """A class, three lengths and four weights that mostly follow one hidden size."""
    size = rng.lognormal(sigma=0.35, size=n)
    lengths = size[:, None] * [0.52, 0.41, 0.14] + 0.01 * rng.normal(size=(n, 3))
    shares = [0.83, 0.36, 0.18, 0.24] + 0.02 * rng.normal(size=(n, 4))
    return np.column_stack([rng.integers(1, 4, size=n), lengths, size[:, None] ** 3 * shares])


def of_points(X, share, diffusion=False):
    """The paper's sigma is a share of the largest distance, its kernel exp(-d^2 / sigma^2)."""
    bandwidth = share * naive_landmarks.largest_distance(X) / math.sqrt(2.0)
    G = naive_landmarks.kernel_matrix(naive.Kernel("gaussian", bandwidth), X, X)
    kernel = kernels.Gaussian(bandwidth=bandwidth)
    count = 45 if share > 0.3 else 60  # before the oracle's inverse is all rounding
    if diffusion:
        return Case(X, Diffusion(kernel), naive_landmarks.diffusion_matrix(G), count)
    return Case(X, kernel, G, count)


def triangles(n, rng):
    """A sparse kernel: 1 - |x - y| where that is positive, on a line."""
    x = np.sort(rng.uniform(0.0, 30.0, size=n))
    return np.maximum(0.0, 1.0 - abs(x[:, None] - x[None, :]))


def cases():
    rng = np.random.default_rng(0)
    moons, abalone = naive_landmarks.two_moons(400, rng), abalone_like(300, rng)
    borg = naive_landmarks.borg(4, 15, rng, variance=0.01)
    for name, X, share in (
        ("two moons", moons, 0.05),
        ("two moons, wide", moons, 0.4),
        ("abalone", abalone, 0.05),
        ("borg", borg, 0.125),
    ):
        yield name, of_points(X, share)
        yield f"{name}, diffusion", of_points(X, share, diffusion=True)
    X = rng.normal(size=(300, 3))
    for ours, oracle in KERNELS[:-1]:
        name = f"{ours.name} {oracle.nu}"
        yield name, Case(X, ours, partial(naive_landmarks.kernel_matrix, oracle, X, X), 60)
    wide = rng.normal(size=(200, 30))
    yield "linear", Case(wide, kernels.Linear(), wide @ wide.T, 25)
    B = rng.normal(size=(250, 250)) * np.geomspace(1.0, 1e-3, 250)
    yield "precomputed", Case(B @ B.T, "precomputed", B @ B.T, 60)
    G = triangles(300, rng)
    yield "sparse", Case(scipy.sparse.csr_array(G), "precomputed", G, 60)
    scale = np.exp(rng.normal(size=300))
    G = G * np.outer(scale, scale)
    yield "sparse, scaled", Case(scipy.sparse.csc_array(G), "precomputed", G, 60)


CASES = dict(cases())


def select(case, **options):
    return oasis(case.X, case.kernel, max_landmarks=case.count, **options)


def bit_equal(a, b):
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.schur, b.schur)
    np.testing.assert_array_equal(a.factor, b.factor)


def following(case, chosen, n_init=1):
    """Algorithm 1 made to take these columns, for what it would have chosen from."""
    rest = iter(chosen[n_init:])
    return naive_landmarks.oasis(case.G, len(chosen), chosen[:n_init], choose=lambda *_: next(rest))


def worst_choice(case, chosen, n_init=1):
    """How far below the largest Schur complement a choice was, by the largest diagonal entry."""
    short = [0.0]
    for step, delta in enumerate(following(case, chosen, n_init).deltas, start=n_init):
        short.append(abs(np.delete(delta, chosen[:step])).max() - delta[chosen[step]])
    return max(short) / case.G.diagonal().max()
