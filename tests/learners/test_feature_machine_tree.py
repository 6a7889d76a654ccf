"""Functions in the leaves of a tree: how it divides, learns, grows, and goes through its state."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from feature_machine_kit import same
from numpy.typing import NDArray
from reference import feature_machine as oracle
from reference import naive
from threadpoolctl import ThreadpoolController

from streamk.errors import StateError
from streamk.kernels import Gaussian, Matern
from streamk.learners.common.supervised import Asked
from streamk.learners.rfm import metric_ridge, metric_tree, search
from streamk.learners.rfm import ridge as solved_part
from streamk.learners.rfm.metric import Metric
from streamk.learners.rfm.metric_ridge import RidgeSettings
from streamk.learners.rfm.metric_tree import MetricTree
from streamk.learners.rfm.search import (
    Family,
    Fold,
    SearchStart,
    best_in_leaves,
    cross_validated,
    refine,
    rounds_in_leaves,
    solved_in_leaves,
)
from streamk.learners.rfm.splits import EventMap, Splits, halves
from streamk.state import State

Numbers = NDArray[Any]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_tree, "SPLITS", (320, 256))
    monkeypatch.setattr(metric_tree, "_FEW_LEAVES", 3)
    monkeypatch.setattr(metric_ridge, "_QUICK", 64)
    monkeypatch.setattr(metric_ridge, "_LARGE", (192, 128))
    monkeypatch.setattr(solved_part, "PART", 192)
    monkeypatch.setattr(solved_part, "SHARED", 64)


def events(n: int, seed: int = 0) -> tuple[Numbers, Numbers]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [3.0, 1.0, 1.0]
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.01 * rng.normal(size=n)


def empty(*, capacity: int = 4_096, **options: Any) -> MetricTree:
    options = {"task": "regression", **options}
    made = MetricTree(Gaussian(bandwidth=0.2), capacity=capacity, seed=1, **options)
    made.extend(3)
    return made


def tree(n: int, *, capacity: int = 4_096) -> MetricTree:
    made = empty(capacity=capacity)
    made.begin(RidgeSettings(Gaussian(bandwidth=2.0), 0.01, np.array([0.5])), *events(n))
    return made


# --- where it divides -----------------------------------------------------------------------------


def test_halves_are_at_the_median_of_the_largest_variance() -> None:
    X = events(401)[0].astype(np.float32)
    found = halves(X)
    assert found is not None
    direction, threshold, right = found
    first = np.linalg.eigh(np.cov(X.T))[1][:, -1]
    assert abs(first @ direction) == pytest.approx(1.0, abs=1e-4)
    assert right.sum() in (200, 201)
    assert np.array_equal(right, X.astype(np.float64) @ direction.astype(np.float64) > threshold)


def test_equal_points_stay_together() -> None:
    X = np.zeros((300, 2), np.float32)
    assert halves(X) is None
    X[:20] = 1.0
    assert halves(X) is None, "too few on one side"
    X[:100] = 1.0
    found = halves(X)
    assert found is not None
    assert found[2].sum() in (100, 200)


@pytest.mark.parametrize(("n", "solved"), [(1_000, 832), (256, 320)])
def test_of_many_equal_points_a_leaf_takes_the_last_ones(n: int, solved: int) -> None:
    """Up to 320 + 512 at once, and of those that come later up to 320."""
    y = np.sin(np.arange(n + 400.0))
    X, made = np.ones((len(y), 3)), empty()
    made.begin(RidgeSettings(Gaussian(bandwidth=2.0), 0.01, np.zeros(1)), X[:n], y[:n])
    again = MetricTree.from_state(made.state())
    for one in (made, again):
        one.learn(X[n:], y[n:])
        assert (len(one._leaves), one.n_solved, one.grows) == (1, solved, False)
    assert same(again.state(), made.state())
    last = made._leaves[0].solved[1][: solved - 64 * (n == 256)]
    assert np.array_equal(last, y[max(0, n - 832) :][: len(last)])
    assert np.abs(made.decide(X)).max() < 2.0


def test_leaves_of_points() -> None:
    rng = np.random.default_rng(0)
    splits, X = Splits.none(3), rng.normal(size=(200, 3)).astype(np.float32)
    assert (splits.leaves_of(X) == 0).all()
    for leaf in (0, 0, 1, 2, 1):
        splits.divide(leaf, rng.normal(size=3).astype(np.float32), float(rng.normal()) / 3)
    found = splits.leaves_of(X)
    assert set(found) == set(range(6))
    parts = splits.directions, splits.thresholds, splits.children
    assert found.tolist() == [oracle.leaf(*parts, x) for x in X]
    assert found.tolist() == [splits.leaves_of(X[i : i + 1])[0] for i in range(200)]
    again = Splits.of(splits.arrays(), 5, 3, "this")
    assert np.array_equal(again.leaves_of(X), found)
    for children in ([[1, 1]], [[0, -1]], [[-1, -1]]):
        wrong = {**splits.arrays(), "children": splits.children.copy()}
        wrong["children"][:1] = children
        with pytest.raises(StateError, match="children"):
            Splits.of(wrong, 5, 3, "this")


# --- what it learns -------------------------------------------------------------------------------


def shared(made: MetricTree) -> list[int]:
    """How many events the last part of each leaf shares with the one before."""
    parts = [leaf._base for leaf in made._leaves]
    return [0 if part is None else part.header()["shared"] for part in parts]


@pytest.mark.parametrize(("n", "leaves"), [(256, 1), (448, 2), (640, 4)])
def test_each_leaf_is_ridge_regression_on_its_events(n: int, leaves: int) -> None:
    made, (X, y), (Z, _) = tree(n), events(n), events(50, seed=5)
    assert len(made._leaves) == leaves
    assert shared(made) == ([64, 64][:leaves] if leaves < 4 else 4 * [0])
    P, Q = X.astype(np.float32), Z.astype(np.float32)
    mine, asked = made._splits.leaves_of(P), made._splits.leaves_of(Q)
    k = Gaussian(bandwidth=2.0)
    for leaf in range(len(made._leaves)):
        rows = np.flatnonzero(mine == leaf)
        rows = rows[: len(rows) - len(rows) % 64]  # the others are learned one by one
        A = np.linalg.solve(k.pairwise(P[rows]) + 0.01 * np.eye(len(rows)), y[rows] - 0.5)
        F = k.pairwise(Q[asked == leaf], P[rows]) @ A + 0.5
        # Until there are errors, nothing is learned beside.
        assert made.decide(Z[asked == leaf])[:, 0] == pytest.approx(F, abs=2e-3)


def test_it_grows_by_leaves_up_to_its_capacity() -> None:
    made, (X, y) = tree(256, capacity=1_024), events(3_000, seed=1)
    counts = []
    for start in range(0, 3_000, 50):
        made.learn(X[start : start + 50], y[start : start + 50])
        counts.append((len(made._leaves), made.n_solved))
    leaves, solved = zip(*counts, strict=True)
    assert sorted(leaves) == list(leaves)
    assert leaves[0] == 1 < 4 <= leaves[-1]
    assert not made.grows
    assert 1_024 <= solved[-1] <= 1_024 + 256
    before = made.n_centers
    made.learn(*events(3_000, seed=2))
    assert made.n_centers <= before + 4_096
    assert np.abs(made.decide(X)[:, 0] - y).mean() < 0.05


@pytest.mark.parametrize("asked", [False, True])
def test_any_cut_and_any_restart_is_the_same(asked: bool) -> None:
    X, y = events(1_700, seed=1)
    others = X + 0.3  # as they are predicted, some in another leaf

    def run(cuts: list[int], *, restart: bool = False) -> tuple[MetricTree, Numbers]:
        made, said = tree(256, capacity=1_280), []
        for first, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
            some = slice(first, stop)
            given = others[some] if asked else None
            made.learn(X[some], y[some], Asked(given, said.append))
            if restart:
                again = MetricTree.from_state(made.state())
                assert same(again.state(), made.state())
                made = again
        return made, np.concatenate(said)

    whole, said = run([])
    assert len(whole._leaves) > 4
    assert any(shared(whole)), "parts of a leaf, too, go on out of a state"
    cuts = [1, 60, 63, 64, 300, 301, 450, 777, 1_100, 1_101, 1_500]
    for found in (run(cuts, restart=True), run(list(range(7, 1_700, 7)))):
        assert same(found[0].state(), whole.state())
        assert np.array_equal(found[1], said)
    if not asked:
        alone = tree(256, capacity=1_280)
        alone.learn(X, y)
        assert same(alone.state(), whole.state())


def test_what_is_asked_is_what_the_tree_knew() -> None:
    X, y = events(150, seed=3)
    one, other, said = tree(640), tree(640), []
    one.learn(X, y, Asked(X + 0.4, said.append))
    for i in range(150):
        row = slice(i, i + 1)
        assert np.array_equal(np.concatenate(said)[row], other.decide(X[row] + 0.4))
        other.learn(X[row], y[row])


def test_columns_and_classes_reach_all_leaves() -> None:
    X, y = events(640)
    made = empty(task="classification", classes=["a", "b"])
    made.begin(
        RidgeSettings(Gaussian(bandwidth=2.0), 0.01, np.zeros(1)), X, (y > 0.0).astype(float)
    )
    before = made.decide(X)[:, 0]
    made.extend(2)
    made.add_classes(["a", "b", "c"])
    wide = np.pad(X, ((0, 0), (0, 2)))
    F = made.decide(wide)
    assert F.shape == (640, 3)
    assert F[:, 1] == pytest.approx(before, abs=1e-5)
    made.learn(wide[:70], np.full(70, 2.0))
    assert same(MetricTree.from_state(made.state()).state(), made.state())
    assert made.probabilities(F).sum(axis=1) == pytest.approx(np.ones(640))


def test_damaged_states() -> None:
    made = tree(640)
    state = made.state()
    header: Any = state.header
    with pytest.raises(StateError, match="leaves"):
        MetricTree.from_state(State({**header, "leaves": 0}, state.arrays))
    root = {**state.arrays, "tree.root": np.ones(2)}
    with pytest.raises(StateError, match="root"):
        MetricTree.from_state(State(header, root))
    for name in ("max_centers", "room"):
        for size in (4_096, 4_097, 10**13):
            leaf = {**header["parts"]["leaf1"], name: size}
            damaged = State({**header, "parts": {**header["parts"], "leaf1": leaf}}, state.arrays)
            if size == 4_096:
                MetricTree.from_state(damaged)
                continue
            with pytest.raises(StateError, match="capacity is 4096"):
                MetricTree.from_state(damaged)
    wide = tree(640)
    wide._leaves[1].extend(1)
    with pytest.raises(StateError, match="differ"):
        MetricTree.from_state(wide.state())


# --- how it is chosen -----------------------------------------------------------------------------


def test_cross_validation_leaves_parts_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "RIDGES", (0.1,))
    X, y = events(40)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    family = Family("standard", Gaussian(bandwidth=1.5), True)
    chosen, found = cross_validated([family], X, y[:, None], 0, np.abs)
    assert (chosen, found.ridge) == (family, 0.1)
    assert np.array_equal(found.metric.root, [1.0, 1.0, 1.0])
    expected = np.empty(40)
    for part in np.array_split(np.arange(40), 3):  # the scale is that of the others
        rest = np.setdiff1d(np.arange(40), part)
        scaled = (X - X[rest].mean(axis=0)) / (X[rest].std(axis=0) * np.sqrt(3.0))
        expected[part] = oracle.left_out(naive.Kernel("gaussian", 1.5), 0.1, scaled, y, 3)[part]
    assert found.margins[:, 0] == pytest.approx(expected, abs=1e-4)
    assert found.error == pytest.approx(np.abs(expected - y).mean(), abs=1e-4)


def test_rounds_in_one_leaf_are_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "RIDGES", (0.01,))
    monkeypatch.setattr(search, "_IN_A_LEAF", 150)
    X, y = events(200)
    family = Family("standard", Matern(nu=0.5, bandwidth=1.5), False)
    fold = Fold.of(X, y[:, None], np.arange(150), np.arange(150, 200), "standard", np.abs)
    plain = refine(family, [fold], 1)
    start = SearchStart(family, fold, family.identity(X.shape[1]), 0.01)
    found = rounds_in_leaves(start, 1)
    for one, other in zip(found, plain, strict=True):
        assert one.metric.matrix == pytest.approx(other.metric.matrix, rel=1e-3, abs=1e-4)
        assert one.margins == pytest.approx(other.margins, abs=1e-3)
    monkeypatch.setattr(search, "LEAF", 140)
    parts = rounds_in_leaves(start, 1)
    assert parts[0].margins != pytest.approx(found[0].margins, abs=1e-3)


def test_rounds_go_on_from_the_best_metric_and_follow_the_regularization(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "RIDGES", (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0))
    X, y = events(300)
    fold = Fold.of(X, y[:, None], np.arange(200), np.arange(200, 300), "standard", np.square)
    family, d = Family("standard", Matern(nu=0.5, bandwidth=1.5), True), X.shape[1]
    good = SearchStart(family, fold, family.identity(d), 100.0)
    poor = SearchStart(family, fold, Metric(np.full(d, 1e3)), 100.0)
    assert best_in_leaves([poor, good]) is good
    found = rounds_in_leaves(good, 3)
    assert found[0].metric is good.metric
    assert found[0].ridge == 10.0, "a step down, since that has less error"
    assert all(one.ridge >= other.ridge for one, other in pairwise(found))
    better = [one.error > other.error for one, other in pairwise(found)]
    assert all(better[:-1]), "no more rounds after one without less error"


def test_a_value_that_overflows_on_its_scale_is_a_point() -> None:
    identity = EventMap.identity(2)
    flat = EventMap(identity.columns, Metric(np.array([[1.0, 0.0], [0.0, 0.0]])))
    for one in (identity, flat, EventMap(identity.columns, Metric(np.array([1.0, 0.0])))):
        assert np.isfinite(one.points(np.array([[1.5e308, -1.5e308]]))).all()


def test_what_leaves_predict_does_not_depend_on_the_threads_of_blas() -> None:
    rng, found = np.random.default_rng(0), []
    X = rng.normal(size=(1_151, 3))
    Y = np.stack([np.sin((k + 1) * X[:, 0]) for k in range(7)], axis=1)
    family = Family("standard", Matern(nu=0.5, bandwidth=1.5), True)
    fold = Fold.of(X, Y, np.arange(921), np.arange(921, 1_151), "standard", np.square)
    start = SearchStart(family, fold, family.identity(3), 0.1)
    for threads in (1, 2):
        with ThreadpoolController().limit(limits=threads, user_api="blas"):
            found.append(solved_in_leaves(start, (0,))[0].margins)
    assert np.array_equal(*found)


def test_rounds_of_equal_events_take_no_more_than_a_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[int] = []
    real = search.SingleRidge

    def counted(kernel: Any, P: Any, Y: Any) -> Any:
        solved.append(len(P))
        return real(kernel, P, Y)

    monkeypatch.setattr(search, "SingleRidge", counted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(650, 3))
    X[:600][rng.random(600) < 0.95] = 1.0
    family = Family("standard", Matern(nu=0.5, bandwidth=1.5), True)
    fold = Fold.of(X, X[:, :1], np.arange(600), np.arange(600, 650), "standard", np.square)
    monkeypatch.setattr(search, "LEAF", 128)
    start = SearchStart(family, fold, family.identity(3), 0.1)
    found = rounds_in_leaves(start, 1)
    assert max(solved) <= 128
    assert np.isfinite([one.error for one in found]).all()
