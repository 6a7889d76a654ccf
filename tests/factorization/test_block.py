"""Clusters, block kernels and ridge regression in them, against plain code."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'streamk[sklearn]'")

from streamk.errors import InvalidInput
from streamk.factorization import BlockKernel, block_kernel
from streamk.factorization.block import solve_blocks
from streamk.factorization.clusters import clustered
from streamk.kernels import (
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    PowerExponential,
    RationalQuadratic,
)

KERNELS = [
    Gaussian(gamma=2.0),
    Laplacian(bandwidth=0.5),
    PowerExponential(bandwidth=0.5),
    Matern(nu=2.5, bandwidth=0.5),
    RationalQuadratic(alpha=0.5, bandwidth=0.5),
    Cauchy(bandwidth=0.5),
]


def points(n: int = 300, d: int = 3, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(size=(n, d))


def blocks(n: int = 300, kernel: Kernel = KERNELS[0], **options: Any) -> BlockKernel:
    return block_kernel(points(n), kernel, **{"n_clusters": 7, **options})


def plain(made: BlockKernel) -> Any:
    """The whole matrix: the kernel, 0 where labels differ."""
    G = made.kernel.pairwise(made.points)
    return np.where(made.labels[:, None] == made.labels, G, 0.0)


# Clusters


def test_all_points_go_to_the_nearest_centre() -> None:
    X = points(2_000)
    found = clustered(X, 9, seed=3)
    distances = ((X[:, None] - found.centers) ** 2).sum(axis=2)
    assert np.array_equal(found.labels, distances.argmin(axis=1))
    assert found.labels.dtype == np.int32
    assert len(found.rows) == len(found) == 9
    for s, rows in enumerate(found.rows):
        assert np.array_equal(rows, np.flatnonzero(found.labels == s))
    Y = points(100, seed=1)
    nearest = ((Y[:, None] - found.centers) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(found.nearest(Y), nearest)


@pytest.mark.usefixtures("many_threads")
def test_a_seed_decides_and_threads_and_batches_do_not() -> None:
    X = points(30_000, 5)
    found = clustered(X, 20, seed=1, sample=1_000, threads=1)
    again = clustered(X, 20, seed=1, sample=1_000, threads=3)
    assert np.array_equal(found.centers, again.centers)
    assert np.array_equal(found.labels, again.labels)
    assert not np.array_equal(found.centers, clustered(X, 20, seed=2, sample=1_000).centers)
    for some in (slice(0, 1), slice(5, 12), slice(100, 4_100)):
        assert np.array_equal(found.nearest(X[some]), found.labels[some])
    assert len(found.nearest(X[:0])) == 0


def test_equally_near_centres_are_the_first() -> None:
    found = clustered([[0.0], [0.0], [2.0], [2.0]], 2, seed=0)
    assert found.centers.tolist() == [[0.0], [2.0]]
    assert found.nearest([[1.0], [0.9], [1.1]]).tolist() == [0, 0, 1]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_clusters_far_from_the_origin_are_told_apart(scale: float) -> None:
    X = np.concatenate([points(50), points(50) + 3.0, points(50) + 1e7]) * scale
    found = clustered(X, 3, seed=0)
    assert found.labels.tolist() == [0] * 50 + [1] * 50 + [2] * 50


def test_fewer_points_than_clusters() -> None:
    assert clustered(points(3), 10, seed=0).labels.tolist() != [0, 0, 0]
    assert len(clustered(points(3), 10, seed=0)) == 3
    assert clustered(np.ones((5, 2)), 3, seed=0).labels.tolist() == [0] * 5
    assert clustered([[1.0], [1.0], [2.0]], 3, seed=0).labels.tolist() == [0, 0, 1]
    assert len(clustered([[4.0]], 2, seed=0)) == 1


# The matrix


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_kernel_within_clusters(kernel: Kernel) -> None:
    made = blocks(kernel=kernel)
    G = plain(made)
    V = np.random.default_rng(1).normal(size=(300, 4))
    assert np.allclose(made.matvec(V), G @ V, atol=1e-12)
    assert np.allclose(made @ V[:, 0], G @ V[:, 0], atol=1e-12)
    every = np.arange(300)
    assert np.allclose(made.approximate(every[:, None], every), G, atol=1e-15)
    i, j = np.random.default_rng(2).integers(300, size=(2, 5_000))
    assert np.allclose(made.approximate(i, j), G[i, j], atol=1e-15)
    whole = kernel.pairwise(made.points)
    exact = np.linalg.norm(whole - G) / np.linalg.norm(whole)
    assert made.error() == pytest.approx(exact, rel=1e-12)
    assert made.error(100, seed=4) == pytest.approx(exact, rel=0.2)
    for s in range(made.n_clusters):
        assert np.allclose(made.block(s), G[np.ix_(made.rows(s), made.rows(s))], atol=1e-15)
    assert np.linalg.eigvalsh(G).min() > -1e-12


def test_what_it_says_of_itself() -> None:
    made = blocks()
    assert (made.n, made.d, made.n_clusters) == (300, 3, 7)
    assert made.centers.shape == (7, 3)
    assert made.nbytes == sum(8 * len(made.rows(s)) ** 2 for s in range(7))
    assert repr(made) == "<kernel of 300 points in 7 blocks>"
    assert made.approximate(made.rows(0)[:0], 0).shape == (0,)
    copy = pickle.loads(pickle.dumps(made))
    assert np.array_equal(copy @ np.ones(300), made @ np.ones(300))


@pytest.mark.parametrize("shape", [(300,), (300, 1), (300, 3)])
def test_solutions_are_those_of_the_matrix(shape: tuple[int, ...]) -> None:
    made, y = blocks(), np.random.default_rng(1).normal(size=shape)
    alpha = made.solve(0.01, y)
    assert alpha.shape == shape
    assert np.allclose(alpha, np.linalg.solve(plain(made) + 0.01 * np.eye(300), y), rtol=1e-8)
    assert np.allclose(0.01 * alpha + made @ alpha, y, atol=1e-10)


def test_predictions_are_those_of_the_own_cluster() -> None:
    made, Y = blocks(), points(80, seed=5)
    alpha = np.random.default_rng(1).normal(size=(300, 2))
    cross = made.kernel.pairwise(Y, made.points)
    nearest = ((Y[:, None] - made.centers) ** 2).sum(axis=2).argmin(axis=1)
    cross[nearest[:, None] != made.labels] = 0.0
    F = made.predict(Y, alpha)
    assert np.allclose(F, cross @ alpha, atol=1e-12)
    assert np.allclose(made.predict(Y, alpha[:, 0]), F[:, 0], atol=1e-15)
    for some in (slice(0, 1), slice(3, 50)):
        assert np.array_equal(made.predict(Y[some], alpha), F[some])
    assert np.allclose(made.predict(made.points, alpha), made @ alpha, atol=1e-12)
    assert made.predict(Y[:0], alpha).shape == (0, 2)


# What cannot be used


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kernel": Linear()}, "not shift-invariant"),
        ({"kernel": "gaussian"}, "kernel='gaussian' must be a streamk Kernel"),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": 2.5}, r"n_clusters=2\.5"),
        ({"seed": -1}, "seed=-1"),
        ({"threads": 0}, "threads=0"),
        ({"X": [[1.0], [np.nan]]}, "nan in row 1, column 0"),
        ({"X": [[1.0], [-1e80]]}, "-1e[+]80 in row 1, column 0"),
    ],
)
def test_bad_arguments(options: dict[str, Any], match: str) -> None:
    given = {"X": points(20), "kernel": Gaussian(), "n_clusters": 2, **options}
    with pytest.raises(InvalidInput, match=match):
        block_kernel(given.pop("X"), given.pop("kernel"), **given)


def test_bad_vectors_and_points() -> None:
    made = blocks()
    for wrong in (np.ones(299), 1.0, np.ones((300, 1, 1))):
        with pytest.raises(InvalidInput, match="a number for each of the 300 points"):
            made.matvec(wrong)
    holed = np.ones(300)
    holed[7] = np.inf
    with pytest.raises(InvalidInput, match="alpha has the value inf in row 7"):
        made.predict(points(2), holed)
    with pytest.raises(InvalidInput, match="Y has 2 columns"):
        made.predict(points(2, 2), np.ones(300))
    with pytest.raises(InvalidInput, match="nan in row 0"):
        made.predict([[0.0, np.nan, 0.0]], np.ones(300))
    for lam in (-1.0, np.nan, np.inf, "1", True):
        with pytest.raises(InvalidInput, match="lam="):
            made.solve(lam, np.ones(300))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="whole numbers, not float64"):
        made.approximate(1.0, 0)
    with pytest.raises(InvalidInput, match="n_rows=0"):
        made.error(0)


def test_a_singular_block_and_one_too_large() -> None:
    twice = block_kernel(np.ones((4, 1)), Gaussian(), n_clusters=1)
    with pytest.raises(InvalidInput, match="larger lam"):
        twice.solve(0.0, np.ones(4))
    assert np.allclose(twice.solve(1.0, np.ones(4)), 0.2)
    X = np.zeros((23_171, 1))
    with pytest.raises(InvalidInput, match="more clusters"):
        solve_blocks(X, Gaussian(), [np.arange(23_171)], 1.0, X[:, 0])
