"""The streaming feature machine: what it solves for, when it takes over, and how it goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from feature_machine_kit import same
from numpy.typing import NDArray
from reference import feature_machine as oracle
from reference import naive

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.kernels import Gaussian, Laplacian, Matern
from streamk.learners import FeatureMachine, OnlineKernelRidge
from streamk.learners.common.supervised import Asked
from streamk.learners.rfm import metric_ridge, metric_tree, search, solving
from streamk.learners.rfm.metric import Metric
from streamk.learners.rfm.metric_ridge import MetricRidge, RidgeSettings
from streamk.learners.rfm.metric_tree import MetricTree
from streamk.learners.rfm.search import Family
from streamk.learners.rfm.solving import MetricRecipe, TrainingEvents
from streamk.learners.rfm.splits import EventMap
from streamk.scaling.fixed import ColumnScale
from streamk.state import State

SMALL: dict[str, Any] = {"buffer_size": 128, "reservoir_size": 64, "first": 64, "swap_delay": 40}


def stream(n: int, d: int = 6, *, seed: int = 0) -> tuple[NDArray[np.float64], list[str]]:
    """Events whose class is a product of two columns, the others being noise."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, np.where(X[:, 1] * X[:, 4] > 0, "same", "other").tolist()


def begun(X: NDArray[np.float64], y: NDArray[np.float64]) -> TrainingEvents:
    return TrainingEvents(X, y, y[:, None], (), "regression", seed=2)


def snapshot(n: int) -> TrainingEvents:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 4))
    return begun(X, np.sin(2.0 * X[:, 0]) + 0.02 * X[:, 2] + 0.02 * rng.normal(size=n))


def recipe(capacity: int, metric: str = "diagonal", most: int = 2**62) -> MetricRecipe:
    return MetricRecipe(Matern(nu=0.5, bandwidth=1.5), metric, 2, capacity, 2, most=most)


def small(monkeypatch: pytest.MonkeyPatch, **others: float) -> None:
    """Compare functions by few events."""
    sizes = {"_CROSSED": 40, "FEW_EVENTS": 40, **others}
    for name, size in sizes.items():
        monkeypatch.setattr(solving, name, size)


# --- the function that is solved for --------------------------------------------------------------


@pytest.mark.parametrize("metric", ["diagonal", "full"])
def test_a_new_function_is_ridge_regression_in_its_metric(metric: str) -> None:
    now = snapshot(150)
    made = now.fit(recipe(128, metric, most=128))
    assert made.n_solved == 128
    P = made.map.metric.mapped(made.map.columns.scaled(now.X[-128:]))
    new = np.random.default_rng(5).normal(size=(7, 4))
    Q = made.map.metric.mapped(made.map.columns.scaled(new))
    k = naive.Kernel("matern", 1.5, 0.5)
    K = np.array([[naive.kernel(k, p, q) for q in P] for p in P])
    errors = []
    for power in np.arange(-3.0, 2.0, 0.5):  # of the regularizations the one that was chosen
        A = np.linalg.solve(K + 10.0**power * np.eye(len(P)), now.y[-128:] - now.y.mean())
        f = [sum(naive.kernel(k, q, p) * a for p, a in zip(P, A, strict=True)) for q in Q]
        errors.append(np.abs(made.decide(new)[:, 0] - now.y.mean() - f).max())
    assert min(errors) < 1e-4


def test_the_metric_is_the_gradients_outer_product() -> None:
    """One round of the paper's algorithm, from the identity, up to a factor."""
    now = snapshot(64)
    made = now.fit(MetricRecipe(Gaussian(bandwidth=1.5), "full", 1, 128, 2))
    k, found, y = naive.Kernel("gaussian", 1.5), [], now.y - now.y.mean()
    for points in (ColumnScale.of(now.X, scale).scaled(now.X) for scale in ("standard", "ranks")):
        K = np.array([[naive.kernel(k, p, q) for q in points] for p in points])
        for power in np.arange(-3.0, 2.0, 0.5):
            A = np.linalg.solve(K + 10.0**power * np.eye(len(points)), y)[:, None]
            M = oracle.agop([oracle.gradient(k, np.eye(4), points, A, p) for p in points])
            found.append(M / np.trace(M))
    own = made.map.metric.matrix / np.trace(made.map.metric.matrix)
    assert min(np.abs(own - M).max() for M in found) < 1e-4


def test_the_second_part_learns_what_labels_differ_from_the_first() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    Z, labels = rng.normal(size=(64, 3)).astype(np.float32), rng.normal(size=64)
    narrow, broad = Gaussian(bandwidth=0.5), Gaussian(bandwidth=2.0)
    both = MetricRidge(narrow, task="regression", max_centers=64, columns=range(3))

    def begin(errors: list[float] | None) -> None:
        both.begin(RidgeSettings(broad, 1.0, np.array([0.3]), errors), 64, Z, labels)

    begin(None)
    assert both.chosen_regularization == np.inf, "until there are errors"
    begin([0.0, 1e9])
    A = np.linalg.solve(broad.pairwise(Z) + np.eye(64), labels - 0.3)
    first = broad.pairwise(X.astype(np.float32), Z) @ A + 0.3
    plain = OnlineKernelRidge(
        narrow, task="regression", regularization=0.5, max_centers=64, columns=range(3)
    )
    plain._settled = 0  # its constant stays 0
    found: list[Any] = []
    F = both.learn_points(X.astype(np.float32), y, Asked(None, found.append))
    assert np.array_equal(F, np.concatenate(found))
    expected = plain.predict_then_learn_many(X.astype(np.float32), y - first).predictions
    assert np.concatenate(found)[:, 0] == pytest.approx(expected + first, abs=1e-4)


def test_the_first_part_takes_blocks_until_it_is_full() -> None:
    now = snapshot(150)
    made = now.fit(recipe(256, most=128))
    assert (made.n_solved, made.n_centers) == (128, 128)
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 4)), rng.normal(size=300)
    made.learn(X[:100], y[:100])
    assert (made.n_solved, made.n_centers) == (192, 228)
    made.learn(X[100:], y[100:])
    assert (made.n_solved, made.n_centers) == (256, 428)
    assert not made.grows
    part = made._leaves[0]._base
    assert part is not None
    assert np.array_equal(part.arrays()["labels"][128:], y[:128])
    made.close()
    made.learn(X, y)
    assert made.n_solved == 256


@pytest.mark.parametrize(
    ("few_leaves", "expected"),
    [(0, [128, 192, 448, 512]), (4, [128, 192, 320, 448, 512])],
    ids=["no factor is kept", "a factor is kept"],
)
def test_blocks_are_larger_where_the_first_part_is(
    monkeypatch: pytest.MonkeyPatch, few_leaves: int, expected: list[int]
) -> None:
    monkeypatch.setattr(metric_ridge, "_LARGE", (192, 128))
    monkeypatch.setattr(metric_tree, "_FEW_LEAVES", few_leaves)
    now = snapshot(150)
    made = now.fit(recipe(512, most=128))
    rng = np.random.default_rng(1)
    X, y, sizes = rng.normal(size=(600, 4)), rng.normal(size=600), []
    for n in range(600):
        made.learn(X[n : n + 1], y[n : n + 1])
        sizes.append(made.n_solved)
    assert sorted(set(sizes)) == expected  # no room for another large one
    again = MetricTree.from_state(made.state())
    assert same(again.state(), made.state())
    state = made._leaves[0].state()
    with pytest.raises(StateError, match="'block'"):
        MetricRidge.from_state(State({**state.header, "block": 100}, state.arrays))


def test_more_events_that_do_not_pay_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of noise, and of older ones, before the 80 that families are compared on, of another kind."""
    small(monkeypatch, _SMALL=64)
    rng = np.random.default_rng(3)
    X, noise = rng.normal(size=(400, 4)), rng.normal(size=150)
    changed = X[:, 0] + np.where(np.arange(400) < 200, 2.0 * X[:, 1] ** 2, 0.0)
    for now, n_solved in (
        (snapshot(150), 128),
        (begun(X[:150], noise), 64),
        (begun(X, X[:, 0]), 384),
        (begun(X, changed), 64),
    ):
        made = now.fit(recipe(1_000))
        assert (made.n_solved, made.grows) == (n_solved, n_solved > 64)


def test_noise_does_not_end_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most events may have a slightly larger error than those before them, by chance."""
    small(monkeypatch, _PAYS=9.0, _SMALL=64)
    rounds, solved, errors = solving.rounds_in_leaves, solving.solved_in_leaves, list[float]()

    def noted(*given: Any, **more: Any) -> Any:
        found = rounds(*given, **more)
        errors.append(min(one.error for one in found))
        return found

    monkeypatch.setattr(solving, "rounds_in_leaves", noted)
    for factor, grows in ((1.005, True), (1.5, False)):

        def better(*given: Any, factor: float = factor) -> Any:
            turn, *more = solved(*given)
            return turn._replace(error=errors[-1] / factor), *more

        monkeypatch.setattr(solving, "solved_in_leaves", better)
        assert snapshot(400).fit(recipe(1_000)).grows is grows


@pytest.mark.parametrize("places", [[0], [1, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_families_whose_errors_are_no_numbers_come_last(
    monkeypatch: pytest.MonkeyPatch, places: list[int]
) -> None:
    small(monkeypatch)
    chosen = MetricRecipe(None, "auto", 1, 400, 2).families(4)
    bad = [chosen[place] for place in places]
    before = search.solved_round

    def overflowing(family: Family, folds: Any, *more: Any, **options: Any) -> Any:
        if family in bad:
            folds = [replace(one, labels=np.full_like(one.labels, np.nan)) for one in folds]
        return before(family, folds, *more, **options)

    monkeypatch.setattr(search, "solved_round", overflowing)
    made = snapshot(200).fit(MetricRecipe(None, "auto", 1, 400, 2))
    assert made.family is not None
    assert len(bad) == len(chosen) or made.family not in bad


def test_families_that_are_far_behind_are_not_compared_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = np.random.default_rng(0).normal(size=(240, 6))
    # Of one column: a diagonal metric is the better one.
    now, rows = begun(X, np.sin(3.0 * X[:, 0])), np.arange(240)
    for near, expected in ((1e9, {True, False}), (1.0, {True})):
        monkeypatch.setattr(solving, "_NEAR", near)
        found = now._explored(recipe(256, "auto").families(6), rows[:160], rows[160:], 1)
        assert {family.diagonal for family, _ in found} == expected


def test_shares_before_there_is_a_column() -> None:
    assert FeatureMachine().column_shares.shape == (0,)
    assert FeatureMachine(columns=["a", "b"]).column_shares.tolist() == [0.5, 0.5]


def test_maps_grow_and_go_through_their_arrays() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    for scale in ("standard", "ranks"):
        for root in (np.array([1.0, 2.0, 0.5]), np.eye(3) + 0.1):
            made = EventMap(ColumnScale.of(X, scale), Metric(root))
            again = EventMap.of_arrays(made.arrays(), 3, "this")
            assert np.array_equal(again.points(X), made.points(X))
            wide = again.extended(2)
            Y = np.hstack([X, np.full((50, 2), 0.25)])
            assert np.array_equal(wide.points(Y)[:, :3], made.points(X))
            assert (wide.points(Y)[:, 3:] == 0.25).all()
            rows = [wide.points(Y[i : i + 1])[0] for i in range(50)]
            assert np.array_equal(rows, wide.points(Y)), "row by row"


# --- takeovers ------------------------------------------------------------------------------------


def test_the_schedule_counts_events() -> None:
    X, y = stream(500)
    model = FeatureMachine(**{**SMALL, "reservoir_size": 128}, every=100)
    began, compared = [], []
    for x, label in zip(X, y, strict=True):
        before = model.is_solving
        model.learn_one(x, label)
        if model.is_solving is not before:
            (compared if before else began).append(model.n_events)
    assert began == [64, 128, 228, 342], "twice as many, and when the stream has grown by half"
    delays = np.subtract(compared, began).tolist()
    assert delays == [16, 32, 40, 40], "a quarter of the events before, up to the delay"


@pytest.mark.parametrize(
    ("events", "delay"), [(64, 16), (1_000, 250), (2_000, 256), (4_608, 576), (32_768, 4_096)]
)
def test_functions_are_compared_by_as_many_events_as_they_are_made_of_allow(
    events: int, delay: int
) -> None:
    assert FeatureMachine()._schedule.delay(events) == delay
    assert FeatureMachine(swap_delay=1)._schedule.delay(events) == events // 8
    assert FeatureMachine(swap_delay=10_000)._schedule.delay(events) == min(10_000, events // 4)


def test_finalists_are_of_different_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "_NEAR", 1e9)
    chosen, rows = MetricRecipe(None, "auto", 4, 1_000, 10).families(4), np.arange(150)
    for most in (2, 9):
        monkeypatch.setattr(solving, "_FINALISTS", most)
        found = snapshot(150)._explored(chosen, rows[:100], rows[100:], 1)
        errors = [family.handicap * kept.error for family, kept in found]
        assert errors == sorted(errors)
        kinds = {(type(family.kernel), family.diagonal) for family, _ in found}
        assert len(kinds) == len(found) == min(most, 4)


@pytest.mark.parametrize("better", [True, False])
def test_the_better_function_goes_on(better: bool) -> None:
    X, y = stream(80)
    model = FeatureMachine(**SMALL)
    model.learn_many(X[:79], y[:79])
    before = model._function
    before.missed = 1e9 if better else 0.0
    model.learn_many(X[79:], y[79:])
    assert (model._function is not before) is better
    assert model.n_takeovers == better


def test_a_function_that_cannot_be_solved_for_does_not_take_over() -> None:
    X, y = stream(200)
    model = FeatureMachine(**SMALL)
    model.learn_many(np.where(X > 0.0, 1e308, -1e308), y)  # whose sums overflow
    assert model.n_takeovers == 0
    again = FeatureMachine.from_state(model.state())
    assert again.n_takeovers == model.n_takeovers
    for one in (model, again):
        one.learn_many(X, y)
    assert same(model.state(), again.state())


# --- states, columns, classes ---------------------------------------------------------------------


def test_merging_past_the_event_of_a_takeover() -> None:
    """A new function that is due by then is compared, and none has an event twice."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = X[:, 0] * X[:, 1]
    sizes = {"first": 64, "buffer_size": 64, "reservoir_size": 400, "swap_delay": 64, "rounds": 1}
    one = FeatureMachine(task="regression", **sizes)
    one.learn_many(X[:60], y[:60])
    other = FeatureMachine.from_state(one.state())
    one.learn_many(X[60:70], y[60:70])
    other.learn_many(X[70:410], y[70:410])
    assert one.is_solving
    one.merge(other, common_events=60)
    assert one.n_events == 410
    again = FeatureMachine.from_state(one.state())
    for each in (one, again):
        each.learn_many(X[410:], y[410:])
        assert each.last_beginning > 410
    assert np.array_equal(one.decision_many(X), again.decision_many(X))
    kept = one._sample.events(until=one._recent.seen - len(one._recent))[0]
    both = np.concatenate([kept, one._recent.events()[0]])
    assert len(np.unique(both, axis=0)) == len(both)


def test_options_and_states_are_checked() -> None:
    with pytest.raises(InvalidInput, match="'laplacian' is a product over the columns"):
        FeatureMachine(Laplacian(), metric="full")
    with pytest.raises(InvalidInput, match="no closed form of its gradients"):
        FeatureMachine(kernels.by_name("ntk"))
    with pytest.raises(InvalidInput, match="buffer_size"):
        FeatureMachine(buffer_size=10)
    X, y = stream(70)
    model = FeatureMachine(**SMALL)
    model.learn_many(X, y)
    state = model.state()
    header: Any = state.header
    wrong: list[tuple[str, Any, str]] = [
        *((name, 71, f"'{name}'") for name in ("began", "origin", "changed", "looked")),
        *(
            (name, None, f"'{name}'")
            for name in ("start", "origin", "changed", "looked", "is_anew")
        ),
        *(("start", start, "'start'") for start in (0, 3, model.first - 1, 72, 10**15)),
        ("origin", 70, "'origin' .* 'began'"),
        ("next", {"at": 3, "failure": None}, "a state's next function"),
        ("buffer_size", 64, "an event buffer must have the shape"),
    ]
    for name, value, message in wrong:
        with pytest.raises(StateError, match=message):
            FeatureMachine.from_state(State({**header, name: value}, state.arrays))
    knots = {**state.arrays, "next.tree.root": np.ones(2)}
    with pytest.raises(StateError, match="root"):
        FeatureMachine.from_state(State(header, knots))
