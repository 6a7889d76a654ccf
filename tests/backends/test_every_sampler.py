"""Features of every kernel by every sampler: the oracle's, the kernel's, and the same in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from reference import features as naive_features
from reference import naive

from streamk import kernels
from streamk.backends import CHUNK, select
from streamk.errors import InvalidInput
from streamk.features import RandomFeatures, column_keys
from streamk.features.random_features import FeatureBlocks
from streamk.features.samplers import extended

SEED = 2**63 + 9
WEIGHTS = (0.1, 0.0, 0.4, 0.3, 0.0, 0.2)


class Case(NamedTuple):
    """A kernel and a sampler, and the same by the oracles."""

    kernel: Any
    sampler: str
    value: Callable[[Any, Any], float]
    feature: Callable[[int], naive_features.Feature]
    """Of so many columns."""
    dimensions: tuple[int, ...]
    single: float = 2e-5
    """What single precision may change, as a part of the largest feature."""


def waves() -> dict[str, tuple[Any, naive.Kernel]]:
    return {
        "gaussian": (kernels.Gaussian(bandwidth=0.8), naive.Kernel("gaussian", 0.8)),
        "laplacian": (kernels.Laplacian(bandwidth=0.8), naive.Kernel("laplacian", 0.8)),
        "matern-0.5": (kernels.Matern(nu=0.5, bandwidth=0.8), naive.Kernel("matern", 0.8, 0.5)),
        "matern-1.5": (kernels.Matern(nu=1.5, bandwidth=0.8), naive.Kernel("matern", 0.8, 1.5)),
        "matern-2.5": (kernels.Matern(nu=2.5, bandwidth=0.8), naive.Kernel("matern", 0.8, 2.5)),
        "rational_quadratic": (
            kernels.RationalQuadratic(alpha=1.5, bandwidth=0.8),
            naive.Kernel("rational_quadratic", 0.8, 1.5),
        ),
        "cauchy": (kernels.Cauchy(bandwidth=0.8), naive.Kernel("cauchy", 0.8)),
        "linear": (kernels.Linear(), naive.Kernel("linear")),
    }


def of_waves(sampler: str, name: str, kernel: Any, plain: naive.Kernel) -> Case:
    def hadamard(seed: int, i: int, x: Any, _: Any) -> float:
        return naive.hadamard_feature(plain, seed, i, x, extended((), len(x)))

    feature: Callable[[int], naive_features.Feature]
    if sampler == "iid":
        feature = lambda _: lambda *given: naive.feature(plain, *given)  # noqa: E731
    elif sampler == "hadamard":
        feature = lambda _: hadamard  # noqa: E731
    else:
        feature = lambda d: naive_features.orthogonal_feature(plain, extended((), d, 256))  # noqa: E731
    return Case(
        kernel,
        sampler,
        lambda x, y: naive.kernel(plain, x, y),
        feature,
        {"iid": (1, 5, 54), "hadamard": (2, 65), "orthogonal": (5, 70)}[sampler],
        # The phases of a heavy tail are long.
        5e-3 if name in ("laplacian", "matern-0.5") else 2e-4,
    )


def cases() -> dict[str, Case]:
    found = {}
    for sampler in ("iid", "hadamard", "orthogonal"):
        for name, (kernel, plain) in waves().items():
            if sampler == "iid" or name not in ("laplacian", "cauchy"):
                found[f"{sampler} {name}"] = of_waves(sampler, name, kernel, plain)
    for degree, offset, bandwidth in ((1, 0.0, 0.8), (2, 1.0, 1.5), (3, 0.5, 2.0)):
        given = degree, offset, bandwidth
        found[f"polynomial-{degree}"] = Case(
            kernels.Polynomial(degree=degree, offset=offset, bandwidth=bandwidth),
            "iid",
            lambda x, y, given=given: naive_features.polynomial(*given, x, y),
            lambda _, given=given: naive_features.polynomial_feature(*given),
            (1, 2, 5),
        )
    for order in (0, 1, 2):
        found[f"arc_cosine-{order}"] = Case(
            kernels.ArcCosine(order=order, bandwidth=0.7),
            "iid",
            lambda x, y, order=order: naive_features.arc_cosine(order, 0.7, x, y),
            lambda _, order=order: naive_features.arc_cosine_feature(order, 0.7),
            (1, 2, 5),
        )
    found["zonal"] = Case(
        kernels.Zonal(weights=WEIGHTS, bandwidth=0.9),
        "iid",
        lambda x, y: naive_features.zonal(WEIGHTS, 0.9, x, y),
        lambda _: naive_features.zonal_feature(WEIGHTS, 0.9),
        (1, 2, 5),
    )
    return found


CASES = cases()
every_case = pytest.mark.parametrize("case", CASES)


def made(case: str, **options: Any) -> RandomFeatures:
    kernel, sampler, *_ = CASES[case]
    return RandomFeatures(kernel, **{"seed": SEED, "sampler": sampler, **options})


def points(n: int, d: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(n, d)) / math.sqrt(d)


@pytest.mark.parametrize(
    ("case", "d"), [(name, d) for name, case in CASES.items() for d in case.dimensions]
)
def test_features_are_the_oracle_s(case: str, d: int) -> None:
    """At both sides of the edges of chunks, of transforms, and of their periods."""
    X, span = points(2, d), 64 if d <= 64 else 128
    some = [0, 1, CHUNK - 5, CHUNK + 6, span - 1, span, span + 1, 2 * span, 4 * span - 1]
    feature = CASES[case].feature(d)
    Z = made(case, dtype="float64").transform(X, 0, 4 * span)[:, some]
    expected = [[feature(SEED, i, x, range(d)) for i in some] for x in X]
    np.testing.assert_allclose(Z, expected, rtol=0, atol=1e-8)


@every_case
def test_single_precision(case: str) -> None:
    X, d = points(40, 5), 5
    exact = made(case, dtype="float64").transform(X, 0, 300)
    Z = made(case).transform(X, 0, 300)
    assert (Z.dtype, exact.dtype) == (np.float32, np.float64)
    if case == "arc_cosine-0":  # a projection near 0 may be rounded to the other side
        assert (np.abs(Z - exact) > 1e-4).mean() < 1e-4
    else:
        most = CASES[case].single * np.abs(exact).max() * math.sqrt(d)
        np.testing.assert_allclose(Z, exact, rtol=0, atol=most)


@every_case
def test_products_of_features_are_unbiased(case: str) -> None:
    """Means over independent pieces, in their own standard errors, are standard normal numbers."""
    value = CASES[case].value
    X, Y = points(60, 8), points(60, 8, seed=1)
    expected = [value(x, y) for x, y in zip(X, Y, strict=True)]
    Z = made(case, seed=2).transform(np.vstack([X, Y]), 0, 128 * 512).astype(np.float64)
    means = (Z[:60] * Z[60:]).reshape(60, 128, 512).mean(axis=2)
    z = (means.mean(axis=1) - expected) / np.maximum(means.std(axis=1) / math.sqrt(128), 1e-6)
    assert np.abs(z).max() < 5.0
    assert np.sqrt(np.mean(z**2)) < 1.7


@every_case
def test_pieces_equal_the_whole(case: str) -> None:
    X = points(21, 3)  # a tile of rows, and some
    features = made(case)
    whole = features.transform(X, 0, 1000)
    cuts = [0, 1, 10, 63, 64, 65, 200, 200, 999, 1000]
    pieces = [features.transform(X, a, b) for a, b in pairwise(cuts)]
    np.testing.assert_array_equal(np.hstack(pieces), whole)
    rows = [features.transform(x[None, :], 0, 1000) for x in X]
    np.testing.assert_array_equal(np.vstack(rows), whole)


@pytest.mark.parametrize("case", [case for case in CASES if case != "zonal"])
def test_columns_are_known_by_name_and_zero_before_they_come(case: str) -> None:
    X, features = points(5, 3), made(case, dtype="float64")
    before = features.transform(X, 0, 200)
    after = features.transform(np.hstack([X, np.zeros((5, 1))]), 0, 200)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-9)
    if CASES[case].sampler == "iid":
        named = features.transform(X, 0, 200, columns=["a", 7, "größe"])
        turned = features.transform(X[:, [2, 0, 1]], 0, 200, columns=["größe", "a", 7])
        np.testing.assert_allclose(turned, named, atol=1e-9)
        other = features.transform(X, 0, 200, columns=["A", 7, "größe"])
        assert np.abs(other - named).max() > 0.1


@every_case
@pytest.mark.usefixtures("many_threads")
def test_sums_of_kept_and_of_regenerated_features_are_the_same(case: str) -> None:
    kernel, sampler, *_ = CASES[case]
    X = points(21, 4)
    blocks = [
        FeatureBlocks(
            kernel, column_keys(range(4)), seed=1, backend=select(), dtype=np.dtype("float32"),
            cache_bytes=budget, sampler=sampler, threads=threads,
        )
        for budget, threads in ((0, 1), (1 << 24, 1), (1 << 12, 2))
    ]  # fmt: skip
    A = np.random.default_rng(0).normal(size=(40, 2, CHUNK)).astype(np.float32)
    U = kernel.mapped(X.astype(np.float32))
    found = [each.decide(U, A, 0.5) for each in blocks]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    single = [blocks[1].decide(u[None], A, 0.5)[0] for u in U]
    np.testing.assert_array_equal(single, found[1])
    Z = made(case, seed=1, dtype="float64").transform(X, 0, 40 * CHUNK)
    plain = 0.5 * Z @ A.transpose(0, 2, 1).reshape(-1, 2)
    most = max(2e-4, CASES[case].single) * np.abs(Z).max() * math.sqrt(2560)
    np.testing.assert_allclose(found[0], plain, atol=most)


WITHOUT_FREQUENCIES = [case for case in CASES if " " not in case]


@pytest.mark.parametrize("case", WITHOUT_FREQUENCIES)
@pytest.mark.parametrize("d", [1, 5, 54])
def test_pairwise_is_the_closed_form(case: str, d: int) -> None:
    kernel, _, closed, *_ = CASES[case]
    X, Y = 2.0 * points(9, d), 2.0 * points(7, d, seed=1)
    expected = np.array([[closed(x, y) for y in Y] for x in X])
    np.testing.assert_allclose(kernel.pairwise(X, Y), expected, rtol=1e-11, atol=1e-12)
    K = kernel.pairwise(X)
    # Near equal points an angle of order 0 is the root of a rounding error.
    np.testing.assert_allclose(kernel.diagonal(X), [closed(x, x) for x in X], atol=3e-8)
    np.testing.assert_array_equal(np.diag(K), kernel.diagonal(X))
    assert np.linalg.eigvalsh(K).min() > -1e-7
    V = np.random.default_rng(2).normal(size=(7, 2))
    for dtype, most in (("float64", 1e-12), ("float32", 2e-5)):
        F = kernel.product(X, Y, V, dtype=dtype)
        np.testing.assert_allclose(F, kernel.pairwise(X, Y) @ V, atol=most * np.abs(K).max())
        np.testing.assert_array_equal(kernel.product(X[3:4], Y, V, dtype=dtype), F[3:4])


@pytest.mark.parametrize("case", WITHOUT_FREQUENCIES)
def test_no_columns_leave_the_constant(case: str) -> None:
    kernel = CASES[case].kernel
    Z = made(case, dtype="float64").transform(np.zeros((2, 0)), 0, 2**14)
    np.testing.assert_array_equal(Z[0], Z[1])
    expected = kernel.pairwise(np.zeros((1, 0)))[0, 0]
    assert np.mean(Z[0] ** 2) == pytest.approx(expected, abs=0.1 * expected)


@pytest.mark.parametrize("case", WITHOUT_FREQUENCIES)
def test_json_round_trip(case: str) -> None:
    kernel = CASES[case].kernel
    assert kernels.from_json(kernel.to_json()) == kernel
    with pytest.raises(InvalidInput, match=kernel.name):
        _ = kernel.code
