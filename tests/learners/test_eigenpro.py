"""EigenPro: the paper's algorithms, the normal equations, and centers that come with the stream."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest
from learners_kit import product_of_columns as stream
from learners_kit import targets
from reference import eigenpro as naive

from streamk import kernels
from streamk.errors import BackendUnavailable, InvalidInput, StateError
from streamk.learners import EigenPro
from streamk.learners.eigenpro import centered
from streamk.learners.eigenpro.centered import ProjectedGradient
from streamk.learners.eigenpro.direct import NormalEquations
from streamk.learners.eigenpro.projection import Preconditioner, apart, interpolated
from streamk.learners.eigenpro.selection import METHODS
from streamk.learners.eigenpro.shards import HostCenters
from streamk.state import State

LAPLACE = kernels.Matern(nu=0.5, bandwidth=2.0)
ROUGH = kernels.PowerExponential(bandwidth=9.0)
SMOOTH = kernels.Gaussian(bandwidth=1.0)
TASKS = ("two", "three", "numbers")
SOLVERS = ("direct", "eigenpro")


def learner(task: str, kernel: kernels.Kernel = LAPLACE, **options: Any) -> EigenPro:
    if task == "numbers":
        return EigenPro(kernel, task="regression", **options)
    return EigenPro(kernel, classes=["a", "b", "c"][: 2 + (task == "three")], **options)


def points(n: int, outputs: int = 1, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
    return X, np.sin(3 * X @ rng.normal(size=(2, outputs))) + 0.1 * rng.normal(size=(n, outputs))


# --- the paper's algorithms -----------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [LAPLACE, ROUGH, SMOOTH, kernels.Cauchy(), kernels.NTK()])
@pytest.mark.parametrize("q", [0, 1, 7])
def test_preconditioner_is_the_oracle_s(kernel: kernels.Kernel, q: int) -> None:
    S, _ = points(40)
    X, G = points(25, 3, seed=1)
    one = Preconditioner(kernel, S, batch_size=25, level=q)
    K, K_sample = kernel.pairwise(X), kernel.pairwise(X, S)
    expected = naive.correction(kernel.pairwise, S, q, X, G)
    assert np.allclose(one.corrected(K_sample, G), expected, rtol=1e-7, atol=1e-9)
    step = naive.step_size(kernel.pairwise, S, q, X)
    assert one.step_size(K, K_sample) == pytest.approx(step, rel=1e-8)


def test_level_is_the_least_whose_steps_a_batch_can_use() -> None:
    S, _ = points(200)
    of = [Preconditioner(LAPLACE, S, batch_size=m) for m in (1, 16, 64, 4096)]
    assert [one.level for one in of] == sorted(one.level for one in of)
    assert of[0].level == 0 < of[2].level
    assert all(one.critical_batch >= m for one, m in zip(of[:3], (1, 16, 64), strict=True))
    one_less = Preconditioner(LAPLACE, S, batch_size=64, level=of[2].level - 1)
    assert one_less.critical_batch < 64


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("centers", [20, 100])
def test_projected_gradient_is_algorithm_2(centers: int, outputs: int) -> None:
    m = 16
    X, T = points(12 * m, outputs)
    Z = points(centers, seed=7)[0]
    K, A = LAPLACE.pairwise(Z), np.zeros((centers, 2 * outputs))
    placed = HostCenters(LAPLACE, centers, n_columns=Z.shape[1], n_outputs=2 * outputs)
    placed.add(Z, A)
    ours = ProjectedGradient(LAPLACE, Z, A, batch_size=m, seed=0, K=K, centers=placed)
    every = ours.project_every
    assert every == {20: 1, 100: 2 if outputs == 1 else 4}[centers]
    batches = [(X[at : at + m], T[at : at + m]) for at in range(0, len(X), m)]
    expected = naive.eigenpro3(
        LAPLACE.pairwise, batches, Z, np.arange(centers), ours.preconditioner.level, every
    )
    found = []
    for batch, T in batches:
        F = LAPLACE.pairwise(batch, Z) @ ours.coefficients
        ours.add_outputs(batch, F)
        ours.learn(batch, LAPLACE.pairwise(batch), F[:, :outputs] - T)
        if ours.n_temporary == 0:
            found.append(ours.coefficients[:, :outputs].copy())
    assert len(found) == len(expected) == 12 // every
    for one, other in zip(found, expected, strict=True):
        functions = (K @ one, K @ other)
        assert np.allclose(*functions, rtol=1e-4, atol=1e-5)
    assert not np.allclose(K @ found[0], K @ found[-1], atol=1e-2)


def test_inexact_projection_is_algorithm_3_and_goes_to_the_solution() -> None:
    Z, h = points(150, 2)
    sample = np.arange(0, 150, 3)
    preconditioner = Preconditioner(SMOOTH, Z[sample], batch_size=32)
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([3, 5])))
    orders = [random.permutation(150) for _ in range(2)]
    start, level = np.zeros_like(h), preconditioner.level
    found = interpolated(SMOOTH, Z, sample, preconditioner, start, h, orders, batch_size=32)
    expected = naive.eigenpro2(SMOOTH.pairwise, Z, h, sample, level, orders, 32)
    K = SMOOTH.pairwise(Z)
    assert np.allclose(K @ found, K @ expected, rtol=1e-4, atol=1e-5)
    assert np.mean((K @ found - h) ** 2) < 0.2 * np.mean(h**2)


# --- normal equations -----------------------------------------------------------------------------


@pytest.mark.parametrize("forgetting", [1.0, 0.97])
def test_equations_have_the_oracle_s_solution(forgetting: float) -> None:
    X, T = points(200, 2)
    Z, constant = X[:15], np.array([0.3, -0.2])
    ours = NormalEquations(LAPLACE.pairwise(Z), n_outputs=2, forgetting=forgetting)
    for at in range(0, 200, 25):
        ours.add(LAPLACE.pairwise(X[at : at + 25], Z), T[at : at + 25])
        for ridge in (0.1, 2.0):
            expected = naive.ridge_regression(
                LAPLACE.pairwise, Z, X[: at + 25], T[: at + 25], constant, ridge, forgetting
            )
            found = ours.solve((0.5, ridge), constant, keep=0)[:, 2:]
            assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_gradients_between_two_factors_follow_the_solution() -> None:
    X, T = points(400)
    Z, constant = X[:40], np.zeros(1)
    ours = NormalEquations(LAPLACE.pairwise(Z), n_outputs=1)
    ours.add(LAPLACE.pairwise(X[:320], Z), T[:320])
    A = ours.solve((0.5,), constant, keep=0)
    assert not ours.due
    ours.add(LAPLACE.pairwise(X[320:], Z), T[320:])
    expected = naive.ridge_regression(LAPLACE.pairwise, Z, X, T, constant, 0.5, 1.0)
    apart_before = np.abs(A - expected).max()
    for part in (0.05, 1e-3, 1e-4):
        A = ours.refine(A, constant)
        assert np.abs(A - expected).max() < part * apart_before


def test_centers_in_the_span_of_others_are_left_out() -> None:
    X, _ = points(30)
    K = LAPLACE.pairwise(np.concatenate([X, X[:5], X[7:9]]))
    assert len(apart(K)) == 30
    assert len(apart(kernels.Gaussian(bandwidth=100.0).pairwise(X))) < 6


# --- on a stream ----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("ridge", [0.1, 2.0])
def test_direct_gives_ridge_regression_of_all_events(task: str, ridge: float) -> None:
    X, y = stream(task, 512)
    Z = stream(task, 30, seed=5)[0]
    model = learner(task, centers=Z, regularization=ridge, batch_size=64)
    model.learn_many(X, y)
    T = targets(task, y)
    c = T.mean(axis=0)
    A = naive.ridge_regression(LAPLACE.pairwise, Z, X, T, c, ridge, 1.0)
    test = stream(task, 50, seed=9)[0]
    expected = LAPLACE.pairwise(test, Z) @ A + c
    found = model.decision_many(test).reshape(50, -1)
    assert np.allclose(found, expected, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("task", "solver", "selection"),
    [
        (task, SOLVERS[n % 2], selection)
        for n, (selection, task) in enumerate(zip(METHODS, itertools.cycle(TASKS)))
    ],
)
def test_learns_with_centers_of_its_own(task: str, solver: str, selection: str) -> None:
    X, y = stream(task, 2000)
    model = learner(task, n_centers=100, solver=solver, selection=selection, batch_size=32)
    model.learn_many(X, y)
    test, labels = stream(task, 500, seed=1)
    assert len(model.centers) == 100
    if task == "numbers":
        assert np.mean((model.predict_many(test) - labels) ** 2) < 0.25 * np.var(labels)
    else:
        assert np.mean(np.array(model.predict_many(test)) == labels) > 0.8


def test_steps_learn_the_first_events_again_with_the_centers_chosen_among_them() -> None:
    """The first batch takes the step that it would with the centers given."""
    X, y = stream("numbers", 64)
    model = learner("numbers", n_centers=16, batch_size=32, solver="eigenpro")
    model.learn_many(X[:32], y[:32])
    given = learner("numbers", centers=model.centers, batch_size=32, solver="eigenpro")
    c = y[:32].mean()
    given.learn_many(X[:32], y[:32] - c)
    np.testing.assert_allclose(
        model.decision_many(X), given.decision_many(X) + c, rtol=1e-4, atol=1e-5
    )
    before = np.square(model.decision_many(X[:32])[:, 0] - y[:32]).mean()
    model.learn_many(X[32:], y[32:])
    assert np.square(model.decision_many(X[:32])[:, 0] - y[:32]).mean() < before
    assert before < y[:32].var()


def test_noise_decides_on_the_ridge() -> None:
    chosen = []
    for noise in (0.02, 5.0):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(3000, 2))
        y = np.sin(2 * X[:, 0]) + noise * rng.normal(size=3000)
        model = EigenPro(LAPLACE, task="regression", n_centers=200, batch_size=64)
        model.learn_many(X, y)
        chosen.append(model.chosen_regularization)
    assert chosen[0] < 1.0 < chosen[1]


# --- centers that are added -----------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_added_centers_leave_predictions_and_help_later(solver: str) -> None:
    X, y = stream("numbers", 3000)
    test, labels = stream("numbers", 500, seed=1)
    options: dict[str, Any] = {"centers": X[:10], "solver": solver, "batch_size": 50}
    plain, grown = learner("numbers", **options), learner("numbers", **options)
    for model in (plain, grown):
        model.learn_many(X[:1500], y[:1500])
    before = grown.decision_many(test)
    assert grown.add_centers(X[100:220]) == 120
    tolerance = 0.0 if solver == "direct" else 0.2  # the last batches are projected
    assert np.abs(grown.decision_many(test) - before).max() <= tolerance
    for model in (plain, grown):
        model.learn_many(X[1500:], y[1500:])
    errors = [np.mean((model.predict_many(test) - labels) ** 2) for model in (plain, grown)]
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("forgetting", [1.0, 0.999])
def test_normal_equations_grow_twice_and_join(forgetting: float) -> None:
    """Sums of events on all centers, of the projections on those that were there."""
    X, y = stream("numbers", 300)
    kernel, T = kernels.Matern(nu=0.5, bandwidth=2.0), y[:, None].astype(float)
    some, K = slice(0, 10), kernel.pairwise(X[:30])
    equations = NormalEquations(K[some, some], n_outputs=1, forgetting=forgetting)
    gram = np.zeros((10, 10))
    for p, more, events in ((10, 20, 100), (20, 30, 200), (30, 30, 300)):
        blocks = kernel.pairwise(X[events - 100 : events], X[:p])
        equations.add(blocks, T[events - 100 : events])
        w = forgetting ** np.arange(99, -1, -1.0)
        gram = forgetting**100 * gram + blocks.T @ (w[:, None] * blocks)
        if more > p:
            B = np.linalg.solve(K[:p, :p], K[:p, p:more])
            equations.grow(K[:more, :more], B)
            C = np.concatenate([np.eye(p), B], axis=1)
            gram = C.T @ gram @ C
    A = np.linalg.solve(gram + 0.5 * K, equations.moments)
    np.testing.assert_allclose(equations.solve((0.5,), np.zeros(1), keep=0), A, rtol=1e-5)
    other = NormalEquations(kernel.pairwise(X[50:90]), n_outputs=1)
    other.join(equations, kernel.pairwise(X[:30], X[50:90]), 1.0)
    other.join(equations, kernel.pairwise(X[:30], X[50:90]), 1.0)
    C = np.linalg.solve(K, kernel.pairwise(X[:30], X[50:90]))
    both = 2.0 * C.T @ gram @ C + 0.5 * kernel.pairwise(X[50:90])
    A = np.linalg.solve(both, other.moments)
    np.testing.assert_allclose(other.solve((0.5,), np.zeros(1), keep=0), A, rtol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_center_in_the_span_of_others_is_not_added(solver: str) -> None:
    X, y = stream("two", 400)
    model = learner("two", centers=X[:50], solver=solver, batch_size=50)
    model.learn_many(X, y)
    assert model.add_centers(X[:50]) == 0
    with pytest.raises(InvalidInput, match="nan"):
        model.add_centers(np.full((2, 3), np.nan))
    assert model.add_centers(np.concatenate([X[60:62], X[60:62], X[:3]])) == 2
    assert len(model.centers) == 52


@pytest.mark.parametrize("solver", SOLVERS)
def test_centers_added_before_the_choice_stay(solver: str) -> None:
    X, y = stream("two", 2000)
    mine = stream("two", 7, seed=8)[0]
    model = learner("two", n_centers=100, solver=solver, batch_size=32)
    assert model.add_centers(mine) == 7
    model.learn_many(X, y)
    assert len(model.centers) == 107
    assert (model.centers[:, None] == mine).all(axis=2).any(axis=0).all()


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selection": "oasis", "n_centers": 20_000}, "choose 'random' or 'k-means'"),
        ({"regularization": 1.0, "solver": "eigenpro"}, "leave it out"),
        ({"forgetting": 0.9, "n_centers": 20_000}, "n_centers=20000"),
        ({"centers": [[0.0, np.nan]]}, "nan"),
        ({"centers": [[0.0], [1.0]], "n_centers": 9}, "centers= gives 2; leave n_centers out"),
        ({"centers": [[0.0], [1.0]], "selection": "oasis"}, "leave selection out"),
        ({"centers": [[0.0, 1.0], [0.0, 1.0]]}, "center 1 of 2 lies in the span of the others"),
        ({"centers": [[0.0], [1e-9], [1.0]]}, "center 0 is nearest"),
    ],
)
def test_options_out_of_their_domain(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        EigenPro(LAPLACE, **options)


def test_repeated_centers_beyond_the_budget_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centered, "BYTES", 1)
    with pytest.raises(InvalidInput, match="same"):
        EigenPro(LAPLACE, centers=[[0.0], [1.0], [0.0]])


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("centers", np.zeros((50, 3), np.float32)),
        ("factor_diagonal", np.full(50, -1.0)),
        ("weights", np.array([-1.0, 0.0, 0.5])),
        ("coefficients", np.zeros((50, 3))),
        ("system", lambda old: old - 1.7e308 * np.eye(50)),
        ("weights", lambda old: np.array([*old[:2], 1.7e308])),
    ],
)
def test_a_damaged_state_is_refused(name: str, array: Any) -> None:
    X, y = stream("two", 500)
    model = learner("two", n_centers=50, batch_size=32)
    model.learn_many(X, y)
    state = model.state()
    array = array(state.arrays[name]) if callable(array) else array
    with pytest.raises(StateError, match=name):
        EigenPro.from_state(State(state.header, {**state.arrays, name: array}))
    for entry in ({"classes": []}, {"columns": None}):
        with pytest.raises(StateError, match="learned events without columns or classes"):
            EigenPro.from_state(State({**state.header, **entry}, state.arrays))


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Gaussian(bandwidth=100.0),
        kernels.Matern(nu=2.5, bandwidth=100.0),
    ],
)
def test_smooth_kernels_do_not_diverge(
    kernel: kernels.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of inexact projections, whose kernels and coefficients are float32."""
    monkeypatch.setattr(centered, "BYTES", 1)
    X, y = stream("numbers", 2000)
    model = learner("numbers", kernel, centers=X[:200], solver="eigenpro", batch_size=64)
    found = model.predict_then_learn_many(X, y).predictions
    assert np.abs(model.state().arrays["coefficients"]).max() < 1e7
    assert np.mean((found[1000:] - y[1000:]) ** 2) < 3.0 * np.var(y)


def test_a_single_prediction_knows_what_was_merged() -> None:
    X, y = stream("numbers", 1280)
    one, two = (learner("numbers", centers=X[:30], batch_size=64) for _ in range(2))
    one.learn_many(X[:128], y[:128])
    two.learn_many(X, y)
    one.predict_one(X[5])
    one.merge(two)
    assert np.allclose(one.decision_one(X[5]), one.decision_many(X[5:7])[0])


def test_k_means_without_scikit_learn_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = stream("two", 500)
    model = learner("two", n_centers=20, batch_size=32, selection="k-means")
    model.learn_many(X, y)
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    assert EigenPro.from_state(model.state()).n_events == 500, "its centers are chosen"
    with pytest.raises(BackendUnavailable, match=r"streamk\[sklearn\]"):
        learner("two", batch_size=32, selection="k-means").learn_many(X[:32], y[:32])
