"""Recursive feature machines: rounds beside the oracle, what is chosen, and their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from feature_machine_kit import friedman
from reference import feature_machine as plain
from reference import naive

from streamk.errors import InvalidInput
from streamk.kernels import NTK, Gaussian, Kernel, Laplacian, Matern, PowerExponential
from streamk.learners.rfm import machine, search
from streamk.learners.rfm.machine import rfm
from streamk.learners.rfm.metric import Columns, Metric, mean, rescaled
from streamk.learners.rfm.ridge import ExactRidge, NormalRidge, by_eigenvalues, predicted
from streamk.learners.rfm.search import Family, Fold, descended, moved
from streamk.learners.rfm.solving import inverse_temperature, probabilities

# --- rounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
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
def test_rounds_are_the_oracles(
    kernel: Kernel, k: naive.Kernel, diagonal: bool, weighted: bool
) -> None:
    random = np.random.default_rng(1)
    X = random.normal(size=(24, 3)) * [1.0, 5.0, 0.1]
    w = random.integers(1, 5, 24).astype(np.float64) if weighted else None
    S = Columns.of(X, "standard", w).scaled(X)
    Y = np.column_stack([np.sin(3.0 * S[:, 0]), S[:, 1] ** 2])
    ridges, family = (0.1, 0.3, 0.1), Family("standard", kernel, diagonal)
    metric, targets = family.identity(3), Y - mean(Y, w)
    for turn, (A, M) in enumerate(plain.rounds(k, S, Y, ridges, diagonal=diagonal, weights=w)):
        # Gradients are taken in single precision.
        np.testing.assert_allclose(metric.matrix, M, rtol=1e-4, atol=1e-4)
        P = metric.mapped(S)
        found = ExactRidge(kernel, P, targets, w).solve(ridges[turn])
        np.testing.assert_allclose(found, A, rtol=1e-3, atol=1e-3)
        several = by_eigenvalues(kernel, P, targets, [1.0, ridges[turn]], w)
        np.testing.assert_allclose(several[1], found, rtol=1e-3, atol=1e-3)
        metric = search.sharpened(family, metric, S, found, w)


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


# --- solvers --------------------------------------------------------------------------------------


def test_all_events_as_centers_are_the_same_function() -> None:
    X, Y = friedman(120)
    kernel = Matern(nu=0.5, bandwidth=2.0)
    K = kernel.pairwise(X)
    expected = K @ np.linalg.solve(K + 0.1 * np.eye(120), Y)
    A = NormalRidge(kernel, X, Y, X).solve(0.1)
    np.testing.assert_allclose(predicted(kernel, X[:7], X, A), expected[:7], atol=1e-5)


@pytest.mark.parametrize("selection", search.SELECTIONS)
def test_centers_are_events(selection: str) -> None:
    X, Y = friedman(230)
    made, exact = (
        search.SearchLimits(0, centers, selection, 0, "absolute").solver(Gaussian(), X, Y)
        for centers in (30, 230)
    )
    rows = {tuple(x) for x in X.tolist()}
    assert len(made.centers) == 30
    assert all(tuple(z) in rows for z in made.centers.tolist())
    assert isinstance(exact, ExactRidge)


def test_a_ladder_is_descended_to_where_errors_rise() -> None:
    asked = []

    def error(k: int) -> float:
        asked.append(k)
        return abs(k - 2.0)

    assert descended(error, 5, 9) == 2
    assert max(asked) == 5  # on the way down nothing above is tried
    assert descended(error, 0, 9) == 2
    assert descended(error, 2, 9) == 2
    assert descended(lambda _: 0.0, 4, 9) == 4
    assert [moved(error, 5, 9, step) for step in (-1, 1)] == [2, 5]


# --- columns --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["standard", "ranks"])
def test_two_events_are_as_far_apart_on_every_scale(scale: str) -> None:
    X = np.random.default_rng(0).lognormal(size=(500, 4)) * [1.0, 1e6, 1e-6, 0.0]
    S = Columns.of(X, scale).scaled(X)
    assert np.square(S[:, None] - S).sum(axis=2).mean() == pytest.approx(2.0)
    assert not S[:, 3].any()


@pytest.mark.parametrize("scale", ["standard", "ranks"])
def test_missing_values_are_medians(scale: str) -> None:
    X = np.array([[1.0, np.nan], [np.nan, np.nan], [3.0, np.nan], [8.0, np.nan]])
    columns = Columns.of(X, scale)
    assert np.array_equal(columns.scaled(X)[1], columns.scaled(np.array([[3.0, 7.0]]))[0])


def test_ranks_do_not_depend_on_the_unit() -> None:
    X = np.random.default_rng(0).normal(size=(3_000, 2))
    found = [Columns.of(f(X), "ranks").scaled(f(X)) for f in (np.array, np.exp)]
    np.testing.assert_allclose(*found, atol=2e-3)  # between knots they are interpolated


# --- choices --------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"kernel": "matern", "bandwidth": 2.0, "metric": "diagonal"}


def test_it_finds_the_columns_that_matter() -> None:
    X, Y = friedman(500)
    new, truth = friedman(500, seed=1, noise=0.0)
    found, before = rfm(X, Y, **SMALL), rfm(X, Y, rounds=0, **SMALL)
    assert found.round > 0
    assert before.round == 0
    assert found.metric.shares[:3].sum() > 0.95
    np.testing.assert_allclose(before.metric.shares, 1.0 / 6.0)
    errors = [np.square(one.predict(new) - truth).mean() for one in (found, before)]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize("n", [300, 1_050])
def test_the_round_kept_is_that_of_least_error(n: int) -> None:
    X, Y = friedman(n, noise=1.0)
    found = rfm(X, Y, rounds=3, **SMALL)
    if n > 1_000:
        assert found.round == int(np.argmin(found.errors))
        assert len(found.errors) <= 4
    own = np.abs(found.margins - Y[found.held]).sum() / len(found.held)
    assert min(found.errors) == pytest.approx(own)


@pytest.mark.parametrize(("single", "steps"), [(True, [1, -1, 1]), (False, [])])
def test_regularizations_after_the_first_round(
    single: bool, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are tried upwards and downwards by turns, or searched both ways."""
    asked, moves = [], search.moved

    def noted(error: Any, place: int, count: int, step: int) -> int:
        asked.append(step)
        return moves(error, place, count, step)

    monkeypatch.setattr(search, "moved", noted)
    monkeypatch.setattr(search, "descended", lambda *_: 5)
    X, Y = friedman(300, noise=1.0)
    fold = Fold.of(X, Y, np.arange(200), np.arange(200, 300), "standard")
    family, rounds = Family("standard", Matern(nu=0.5, bandwidth=1.5), diagonal=True), []
    for n_gradients in (200, 100):
        limits = search.SearchLimits(
            3,
            200,
            "random",
            0,
            "absolute",
            9,
            single=single,
            n_gradients=n_gradients,
        )
        asked.clear()
        rounds.append(search.refine(family, fold, limits, search.RIDGES, search.RIDGES[-1]))
        assert asked == steps
    found, fewer = rounds
    assert len(found) == 4
    assert found[0].ridge == search.RIDGES[5]
    assert fewer[1].metric.shares == pytest.approx(found[1].metric.shares, abs=0.05)
    assert not np.array_equal(fewer[1].metric.root, found[1].metric.root)


def families(**options: Any) -> list[str]:
    given = {"kernel": "auto", "bandwidth": None, "metric": "auto", "d": 4} | options
    return [f"{type(f.kernel).__name__} {f.diagonal}" for f in machine.families(**given)]


def test_which_families_are_compared() -> None:
    of_columns = {"Laplacian True", "PowerExponential True"}
    assert set(families()) == {*of_columns, "Matern True", "Matern False"}
    assert len(families()) == len(families(bandwidth=2.0)) + 4 == 12
    assert "Matern False" not in families(d=129)
    assert "Matern False" not in families(d=1)
    assert set(families(metric="full")) == {"Matern False"}
    assert set(families(kernel="laplacian")) == {"Laplacian True"}
    assert len(families(kernel="power_exponential")) == 4
    assert len(families(kernel=Gaussian(), metric="diagonal")) == 2


def test_families_are_compared_whatever_regularization_is_given() -> None:
    X = np.random.default_rng(0).normal(size=(1_100, 2))
    Y = X[:, :1]
    first = rfm(X, Y, kernel=Gaussian(bandwidth=1.5), regularization=0.1, rounds=0)
    best = rfm(X, Y, kernel="gaussian", regularization=0.1, rounds=0)
    assert best.family.kernel == Gaussian(bandwidth=6.0)
    assert best.errors[0] < first.errors[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "other"}, "metric='other' must be one of auto, diagonal, full"),
        ({"kernel": "laplacian", "metric": "full"}, "'laplacian' is a product over the columns"),
        ({"kernel": NTK()}, "no closed form"),
        ({"kernel": "linear"}, "linear"),
        ({"kernel": Gaussian(), "bandwidth": 2.0}, "leave out bandwidth"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"regularization": 0.0}, "regularization=0.0"),
        ({"rounds": -1}, "rounds=-1"),
        ({"rounds": 1.5}, "rounds=1.5"),
        ({"n_centers": 0}, "n_centers=0"),
        ({"selection": "best"}, "selection='best'"),
        ({"error": "other"}, "error='other' must be one of absolute, squared"),
    ],
)
def test_options_out_of_their_domain(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rfm(*friedman(20), **options)


def test_shapes_that_do_not_fit() -> None:
    X, Y = friedman(20)
    for wrong in ((X, Y[:, 0]), (X[:5], Y), (X[:1], Y[:1]), (X[0], Y)):
        with pytest.raises(InvalidInput, match="at least 2"):
            rfm(*wrong)


# --- probabilities --------------------------------------------------------------------------------


def test_the_temperature_is_that_of_least_log_loss() -> None:
    random = np.random.default_rng(0)
    F = random.normal(size=(2_000, 3))
    true = probabilities(F, 1.7)
    classes = (random.uniform(size=(2_000, 1)) > np.cumsum(true, axis=1)).sum(axis=1)

    def loss(factor: float) -> float:
        P = probabilities(F, factor)
        return float(-np.log(P[np.arange(2_000), classes]).mean())

    found = inverse_temperature(F, classes)
    assert found == pytest.approx(1.7, abs=0.15)
    assert loss(found) < min(loss(found * 1.05), loss(found / 1.05))


def test_events_that_are_all_right_leave_room_for_an_error() -> None:
    """Of n events, all right by the same margin f, the probability becomes (n + 1) / (n + 2)."""
    for n, f in ((10, 1.0), (1_000, 0.5)):
        F, classes = np.full((n, 1), f), np.ones(n)
        P = probabilities(F, inverse_temperature(F, classes))
        np.testing.assert_allclose(P[:, 1], (n + 1) / (n + 2))


def test_the_temperature_has_limits() -> None:
    F = np.array([[1e-3], [-1e-3]])
    assert inverse_temperature(F, np.array([1, 0])) == pytest.approx(100.0)
    assert inverse_temperature(F, np.array([0, 1])) == pytest.approx(0.01)
    assert np.array_equal(probabilities(F, 3.0).sum(axis=1), [1.0, 1.0])
