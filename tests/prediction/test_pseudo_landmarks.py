"""Pseudo landmarks and the approximations by them, against the oracle of their paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from reference import naive
from reference import prediction as oracle
from scipy import sparse

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.kernels import Kernel, Laplacian, Linear
from streamk.prediction import PseudoLandmarks, PseudoNystrom

RADIAL = [
    (kernels.Gaussian(bandwidth=1.5), naive.Kernel("gaussian", 1.5)),
    (kernels.Matern(nu=0.5, bandwidth=2.0), naive.Kernel("matern", 2.0, 0.5)),
    (kernels.Matern(nu=1.5, bandwidth=2.0), naive.Kernel("matern", 2.0, 1.5)),
    (kernels.Matern(nu=2.5, bandwidth=2.0), naive.Kernel("matern", 2.0, 2.5)),
    (
        kernels.RationalQuadratic(alpha=1.5, bandwidth=1.5),
        naive.Kernel("rational_quadratic", 1.5, 1.5),
    ),
]
OTHERS = [
    (kernels.Laplacian(bandwidth=4.0), naive.Kernel("laplacian", 4.0)),
    (kernels.PowerExponential(bandwidth=9.0), naive.Kernel("power_exponential", 9.0)),
    (kernels.Cauchy(bandwidth=2.0), naive.Kernel("cauchy", 2.0)),
    (kernels.NTK(depth=2, bandwidth=1.0), naive.Kernel("ntk", 1.0, 2)),
    (kernels.Linear(), naive.Kernel("linear")),
]
BOUNDS = {"lower": oracle.lower_bound, "upper": oracle.upper_bound}
GAUSSIAN = RADIAL[0][0]


def points(n: int, seed: int = 0, d: int = 3) -> Any:
    return np.random.default_rng(seed).normal(size=(n, d))


def made(kind: str, kernel: Kernel = GAUSSIAN, p: int = 12, m: int = 6) -> PseudoLandmarks:
    return PseudoLandmarks.of(
        points(80), kernel, landmarks=points(m, seed=1), n_pseudo=p, kind=kind, seed=3
    )


# --- the expansion --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "plain"), RADIAL + OTHERS)
def test_products_are_the_oracles(kernel: Kernel, plain: naive.Kernel) -> None:
    pseudo, X = made("products", kernel), points(40, seed=2)
    C = oracle.kernel_values(plain, X, pseudo.landmarks)
    expected = oracle.monomials(C, pseudo.pseudo.tolist())
    assert pseudo.expand(X) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize(("kernel", "plain"), RADIAL)
def test_bounds_are_the_oracles(kernel: Kernel, plain: naive.Kernel, kind: str) -> None:
    pseudo, X = made(kind, kernel), points(40, seed=2)
    expected = oracle.by_bounds(plain, X, pseudo.landmarks, pseudo.pseudo, BOUNDS[kind])
    assert pseudo.expand(X) == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("kind", ["products", "lower", "upper"])
def test_a_row_has_the_same_bits_in_every_batch(kind: str) -> None:
    pseudo, X = made(kind, p=20), points(6000, seed=5)
    found = PseudoNystrom.of(X[:300], pseudo)
    beta = np.random.default_rng(0).normal(size=(len(pseudo), 2))
    whole = pseudo.expand(X), pseudo.predict(X, beta), found.transform(X)
    for rows in (slice(7, 8), slice(3, 40), slice(1000, 5999)):
        some = pseudo.expand(X[rows]), pseudo.predict(X[rows], beta), found.transform(X[rows])
        assert all(np.array_equal(a[rows], b) for a, b in zip(whole, some, strict=True))


def test_no_points_and_no_pseudo_landmarks() -> None:
    alone = made("products", p=0)
    X = points(20)
    assert np.array_equal(alone.expand(X), GAUSSIAN.pairwise(X, alone.landmarks))
    for kind in ("products", "lower", "upper"):
        assert made(kind, p=0).expand(X).shape == (20, 6)
        assert made(kind).expand(X[:0]).shape == (0, 18)
        assert made(kind).predict(X[:0], np.ones(18)).shape == (0,)


def test_points_that_are_far_apart() -> None:
    for kind in ("products", "lower", "upper"):
        C = made(kind).expand([[1e50, -1e50, 0.0]])
        assert not C.any()


@pytest.mark.parametrize("kind", ["products", "lower"])
def test_what_a_prediction_takes(kind: str) -> None:
    pseudo = made(kind, p=12, m=6)
    each = 1 if kind == "products" else 6
    assert pseudo.multiply_adds == 6 * 3 + 12 * each + 18
    assert len(pseudo) == 18
    assert pseudo.d == 3


# --- what is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["products", "lower", "upper"])
def test_the_seed_decides(kind: str) -> None:
    def drawn(seed: int) -> Any:
        landmarks = points(8, seed=1)
        return PseudoLandmarks.of(
            points(80), GAUSSIAN, landmarks=landmarks, n_pseudo=15, kind=kind, seed=seed
        ).pseudo

    assert np.array_equal(drawn(1), drawn(1))
    assert not np.array_equal(drawn(1), drawn(2))
    assert len({tuple(row) for row in drawn(1).tolist()}) == 15


def test_pseudo_landmarks_are_points_or_pairs() -> None:
    X = {tuple(row) for row in points(80).tolist()}
    assert {tuple(row) for row in made("lower").pseudo.tolist()} <= X
    every = PseudoLandmarks.of(points(9), GAUSSIAN, landmarks=points(5), n_pseudo=15)
    assert [tuple(pair) for pair in every.pseudo.tolist()] == oracle.every_pair(5)


# --- the approximation ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "plain", "kind"),
    [
        *((*pair, "products") for pair in (*RADIAL, *OTHERS[:2])),
        *((*pair, "lower") for pair in RADIAL),
    ],
)
def test_weights_are_the_oracles(kernel: Kernel, plain: naive.Kernel, kind: str) -> None:
    X, pseudo = points(70, seed=6), made(kind, kernel, p=8)
    found = PseudoNystrom.of(X, pseudo)
    C, G = pseudo.expand(X), oracle.kernel_values(plain, X, X)
    W = oracle.weights(C, G)
    assert found.pairwise(X) == pytest.approx(C @ W @ C.T, abs=1e-7)
    assert found.pairwise(X) == pytest.approx(C @ found.W @ C.T, abs=1e-7)
    F = found.transform(X)
    assert found.pairwise(X[:9], X[20:]) == pytest.approx(F[:9] @ F[20:].T, abs=1e-12)


def test_sampled_rows_are_rows() -> None:
    X, pseudo = points(300, seed=6), made("products")
    found = PseudoNystrom.of(X, pseudo, n_rows=60, seed=2)
    drawn = np.random.Generator(np.random.Philox(2)).choice(300, 60, replace=False)
    own = PseudoNystrom.of(X[np.sort(drawn)], pseudo)
    assert np.array_equal(found.map, own.map)
    C, G = pseudo.expand(X), GAUSSIAN.pairwise(X)
    W = oracle.weights(C, G, np.sort(drawn).tolist())
    assert found.pairwise(X) == pytest.approx(C @ W @ C.T, abs=1e-6)
    assert not np.array_equal(found.map, PseudoNystrom.of(X, pseudo, n_rows=60, seed=3).map)


@pytest.mark.parametrize("outputs", [None, 2])
def test_weights_predict_as_the_approximate_kernel(outputs: int | None) -> None:
    X, new, pseudo = points(90, seed=6), points(20, seed=7), made("products")
    found = PseudoNystrom.of(X, pseudo, n_rows=50)
    alpha = np.random.default_rng(0).normal(size=90 if outputs is None else (90, outputs))
    beta = found.weights(X, alpha)
    expected = oracle.decision_values(pseudo.expand(X), found.W, alpha, pseudo.expand(new))
    assert pseudo.predict(new, beta) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert pseudo.predict(new, beta) == pytest.approx(found.pairwise(new, X) @ alpha, abs=1e-6)


def test_rows_by_default() -> None:
    X = points(2500, seed=6)
    few, many = made("products", p=10), made("products", p=170, m=18)
    for pseudo, count in ((few, 1000), (many, 1880)):
        own = PseudoNystrom.of(X, pseudo, n_rows=count)
        assert np.array_equal(PseudoNystrom.of(X, pseudo).map, own.map)


def test_landmarks_of_no_use_have_rank_0() -> None:
    zeros = np.zeros((5, 3))
    pseudo = PseudoLandmarks.of(zeros, Linear(), landmarks=zeros, n_pseudo=3)
    found = PseudoNystrom.of(zeros, pseudo)
    assert found.rank == 0
    assert not found.pairwise(points(4)).any()
    assert not found.weights(points(4), np.ones(4)).any()


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lower", "upper"])
@pytest.mark.parametrize(("kernel", "_"), OTHERS)
def test_bounds_need_the_euclidean_distance(kernel: Kernel, _: Any, kind: str) -> None:
    with pytest.raises(
        InvalidInput, match=f"kind='{kind}' needs a kernel of the Euclidean distance.*products"
    ):
        made(kind, kernel)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kernel": "gaussian"}, "kernel='gaussian' must be a streamk Kernel"),
        ({"kind": "middle"}, "kind='middle'"),
        ({"n_pseudo": -1}, "n_pseudo=-1"),
        ({"n_pseudo": 1.5}, "n_pseudo=1.5"),
        ({"n_pseudo": 11}, "n_pseudo=11 is more than the 10 products of 4 landmarks"),
        ({"n_pseudo": 21, "kind": "upper"}, "n_pseudo=21 is more than the 20 points of X"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"landmarks": points(4, d=2)}, "X has 3 columns and the landmarks 2"),
        ({"landmarks": points(0)}, "landmarks has no points"),
        ({"landmarks": points(4)[0]}, "landmarks must be a matrix"),
        ({"landmarks": 2e50 * points(4)}, "landmarks has the value .* scale the columns"),
        ({"landmarks": [["a"]]}, "landmarks must be an array of numbers"),
        ({"X": [[0.0, math.nan, 1.0]]}, "X has the value nan in row 0, column 1"),
        ({"X": [[0.0, 0.0, math.inf]]}, "X has the value inf in row 0, column 2"),
        ({"X": sparse.csr_array(np.eye(3))}, "X is sparse"),
        ({"X": points(0)}, "X has no points"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], says: str) -> None:
    usual = {"X": points(20), "kernel": GAUSSIAN, "landmarks": points(4), "n_pseudo": 5}
    with pytest.raises(InvalidInput, match=says):
        PseudoLandmarks.of(**(usual | options))


@pytest.mark.parametrize(
    ("pseudo", "kind", "says"),
    [
        ([[0, 4]], "products", "pseudo has the number 4, but landmarks are 0 to 3"),
        ([[-1, 0]], "products", "pseudo has the number -1"),
        ([[0.0, 1.0]], "products", "pseudo of products must be whole numbers"),
        ([0, 1], "products", r"shape \(p, 2\), not int64 of shape \(2,\)"),
        ([[0, 1, 2]], "products", r"shape \(p, 2\)"),
        (points(5, d=2), "lower", "pseudo has 2 columns and the landmarks 3"),
        ([[math.nan, 0.0, 0.0]], "upper", "pseudo has the value nan"),
    ],
)
def test_pseudo_landmarks_that_cannot_be(pseudo: Any, kind: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        PseudoLandmarks(kernel=GAUSSIAN, landmarks=points(4), pseudo=pseudo, kind=kind)


def test_points_and_coefficients_that_cannot_be() -> None:
    pseudo, X = made("products"), points(20)
    found = PseudoNystrom.of(X, pseudo)
    for wrong, says in (
        (points(4, d=2), "X has 2 columns and the landmarks 3"),
        ([[0.0, math.nan, 0.0]], "X has the value nan in row 0, column 1"),
        ([[0.0, 1e51, 0.0]], "X has the value 1e"),
        (X[0], "X must be a matrix"),
    ):
        for method in (pseudo.expand, found.transform, found.pairwise):
            with pytest.raises(InvalidInput, match=says):
                method(wrong)
        with pytest.raises(InvalidInput, match=says):
            PseudoNystrom.of(wrong, pseudo)
    with pytest.raises(InvalidInput, match="each of the 18 columns of the expansion"):
        pseudo.predict(X, np.ones(17))
    with pytest.raises(InvalidInput, match="beta has the value nan in row 2"):
        pseudo.predict(X, [0.0, 0.0, math.nan] + 15 * [1.0])
    with pytest.raises(InvalidInput, match="alpha must have a number for each of the 20 points"):
        found.weights(X, np.ones(19))
    with pytest.raises(InvalidInput, match="n_rows=0"):
        PseudoNystrom.of(X, pseudo, n_rows=0)
    with pytest.raises(InvalidInput, match="seed=-1"):
        PseudoNystrom.of(X, pseudo, seed=-1)
    with pytest.raises(InvalidInput, match="must be PseudoLandmarks"):
        PseudoNystrom.of(X, Laplacian())  # type: ignore[arg-type]
