"""Rounds of a family beside the oracle, what is chosen of families, and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from feature_machine_kit import friedman
from reference import feature_machine as plain
from reference import naive

from streamk.errors import InvalidInput
from streamk.kernels import NTK, Gaussian, Kernel, Laplacian, Matern, PowerExponential
from streamk.learners.rfm import search
from streamk.learners.rfm.metric import Metric, rescaled
from streamk.learners.rfm.ridge import SingleRidge
from streamk.learners.rfm.search import Family, Fold, descended, moved
from streamk.scaling.fixed import ColumnScale

# --- rounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "k", "diagonal"),
    [
        (Matern(nu=0.5, bandwidth=2.0), naive.Kernel("matern", 2.0, 0.5), True),
        (Matern(nu=0.5, bandwidth=2.0), naive.Kernel("matern", 2.0, 0.5), False),
        (Gaussian(bandwidth=1.5), naive.Kernel("gaussian", 1.5), False),
        (Laplacian(bandwidth=3.0), naive.Kernel("laplacian", 3.0), True),
        (PowerExponential(bandwidth=9.0), naive.Kernel("power_exponential", 9.0), True),
    ],
    ids=str,
)
def test_rounds_are_the_oracles(kernel: Kernel, k: naive.Kernel, diagonal: bool) -> None:
    random = np.random.default_rng(1)
    X = random.normal(size=(24, 3)) * [1.0, 5.0, 0.1]
    S = ColumnScale.of(X, "standard").scaled(X)
    Y = np.column_stack([np.sin(3.0 * S[:, 0]), S[:, 1] ** 2])
    ridges, family = (0.1, 0.3, 0.1), Family("standard", kernel, diagonal)
    metric, targets = family.identity(3), Y - Y.mean(axis=0)
    for turn, (A, M) in enumerate(plain.rounds(k, S, Y, ridges, diagonal=diagonal)):
        # All is computed in single precision.
        np.testing.assert_allclose(metric.matrix, M, rtol=1e-4, atol=1e-4)
        found = SingleRidge(kernel, metric.mapped(S), targets).solve(ridges[turn])
        np.testing.assert_allclose(found, A, rtol=1e-3, atol=1e-3)
        metric = search.sharpened(family, metric, S, found)


def test_a_metric_keeps_the_mean_distance() -> None:
    random = np.random.default_rng(2)
    X = random.normal(size=(400, 3)) * [1.0, 2.0, 0.5]
    G = np.diag([5.0, 0.1, 0.3]) + 0.1
    of_all = [np.square(X[:, None] - X).sum(axis=2).mean()]
    for M in (G, np.diag(G)):
        P = Metric.of(rescaled(M, X)).mapped(X)
        of_all.append(np.square(P[:, None] - P).sum(axis=2).mean())
    np.testing.assert_allclose(of_all, of_all[0])
    for power in (1.0, 0.5):
        P = Metric.of(rescaled(np.diag(G), X, power=power)).mapped(X)
        found, aim = ((Z.std(axis=0) ** power).sum() for Z in (P, X))
        assert found == pytest.approx(aim)


@pytest.mark.parametrize("power", [2.0, 1.0, 0.5])
def test_where_nothing_matters_the_metric_is_the_identity(power: float) -> None:
    X = np.random.default_rng(0).normal(size=(9, 3))
    assert rescaled(np.zeros(3), X, power=power).tolist() == [1.0, 1.0, 1.0]
    assert np.array_equal(rescaled(np.zeros((3, 3)), X), np.eye(3))
    assert Metric(np.zeros(4)).shares.tolist() == [0.25] * 4


def test_gradients_are_mapped_back_by_the_metric() -> None:
    random = np.random.default_rng(3)
    G = random.normal(size=(3, 3))
    G, full = G @ G.T, Metric.of(np.diag([1.0, 4.0, 9.0]))
    diagonal = Metric.of(np.array([1.0, 4.0, 9.0]))
    np.testing.assert_allclose(full.unmapped(G), diagonal.unmapped(G))
    np.testing.assert_allclose(np.diag(full.unmapped(G)), diagonal.unmapped(np.diag(G)))
    np.testing.assert_allclose(full.matrix, diagonal.matrix)
    np.testing.assert_allclose(full.shares, diagonal.shares)
    X = random.normal(size=(5, 3))
    np.testing.assert_allclose(full.mapped(X), diagonal.mapped(X))


def test_a_ladder_is_descended_to_where_errors_rise() -> None:
    asked = []

    def error(k: int) -> float:
        asked.append(k)
        return abs(k - 2.0)

    assert descended(error, 5) == 2
    assert max(asked) == 5  # on the way down nothing above is tried
    assert descended(error, 0) == 2
    assert descended(error, 2) == 2
    assert descended(lambda _: 0.0, 4) == 4
    assert [moved(error, 5, step) for step in (-1, 1)] == [2, 5]
    assert moved(lambda k: -k, 5, 1) == len(search.RIDGES) - 1


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["standard", "ranks"])
def test_two_events_are_as_far_apart_on_every_scale(scale: str) -> None:
    X = np.random.default_rng(0).lognormal(size=(500, 4)) * [1.0, 1e6, 1e-6, 0.0]
    S = ColumnScale.of(X, scale).scaled(X)
    assert np.square(S[:, None] - S).sum(axis=2).mean() == pytest.approx(2.0)
    assert not S[:, 3].any()


@pytest.mark.parametrize("scale", ["standard", "ranks"])
def test_missing_values_are_medians(scale: str) -> None:
    X = np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, np.nan], [8.0, np.nan]])
    columns = ColumnScale.of(X, scale)
    assert np.array_equal(columns.scaled(X)[1], columns.scaled(np.array([[3.0, 7.0]]))[0])


def test_ranks_do_not_depend_on_the_unit() -> None:
    X = np.random.default_rng(0).normal(size=(3_000, 2))
    found = [ColumnScale.of(f(X), "ranks").scaled(f(X)) for f in (np.array, np.exp)]
    np.testing.assert_allclose(*found, atol=2e-3)  # between knots they are interpolated


# --- choices --------------------------------------------------------------------------------------


def rounds(X: Any, Y: Any, n_folds: int = 1, rounds: int = 1) -> tuple[Fold, Any]:
    """A fold of all but the last fifth, and rounds of a kernel with a diagonal metric."""
    n = len(X)
    fold = Fold.of(X, Y, np.arange(n - n // 5), np.arange(n - n // 5, n), "standard", np.abs)
    family = Family("standard", Matern(nu=0.5, bandwidth=2.0), diagonal=True)
    return fold, search.refine(family, [fold] * n_folds, rounds)


def test_rounds_find_the_columns_that_matter() -> None:
    fold, (before, found) = rounds(*friedman(500))
    np.testing.assert_allclose(before.metric.shares, 1.0 / 6.0)
    assert found.metric.shares[:3].sum() > 0.9
    assert found.error < 0.9 * before.error
    for one in (before, found):
        assert one.error == pytest.approx(np.abs(one.margins - fold.labels).sum() / 100)


@pytest.mark.parametrize(("n_folds", "steps"), [(1, [1, 1]), (2, [])])
def test_regularizations_after_the_first_round(
    n_folds: int, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are tried upwards alone, or searched both ways where there are several folds."""
    asked, moves = [], search.moved

    def noted(error: Any, place: int, step: int) -> int:
        asked.append(step)
        return moves(error, place, step)

    monkeypatch.setattr(search, "moved", noted)
    monkeypatch.setattr(search, "descended", lambda *_: 4)
    _, found = rounds(*friedman(300, noise=1.0), n_folds, rounds=2)
    assert asked == steps
    assert len(found) == 3
    assert found[0].ridge == search.RIDGES[4]


def test_gradients_are_taken_at_some_events(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = friedman(300)
    _, (_, all_of_them) = rounds(X, Y)
    monkeypatch.setattr(search, "_GRADIENTS", 120)
    _, (_, fewer) = rounds(X, Y)
    assert fewer.metric.shares == pytest.approx(all_of_them.metric.shares, abs=0.05)
    assert not np.array_equal(fewer.metric.root, all_of_them.metric.root)


def families(kernel: Kernel | None = None, metric: str = "auto", d: int = 4) -> list[str]:
    return [f"{type(f.kernel).__name__} {f.diagonal}" for f in search.families(kernel, metric, d)]


def test_which_families_are_compared() -> None:
    products = ["Laplacian True", "PowerExponential True"]  # by ranks alone
    both = 2 * (2 * ["Matern True"] + 2 * ["Matern False"])
    assert families() == products + both
    assert families(d=128) == products + both
    assert families(d=129) == families(d=1) == products + 4 * ["Matern True"]
    assert families(metric="diagonal") == products + 4 * ["Matern True"]
    assert families(metric="full") == 4 * ["Matern False"]
    assert families(Laplacian()) == 2 * ["Laplacian True"]
    assert families(Gaussian(), "diagonal") == 2 * ["Gaussian True"]
    assert len(families(Gaussian())) == 4


def test_kernels_that_no_metric_is_learned_for() -> None:
    with pytest.raises(InvalidInput, match="'laplacian' is a product over the columns"):
        families(Laplacian(), "full")
    with pytest.raises(InvalidInput, match="no closed form"):
        families(NTK())
