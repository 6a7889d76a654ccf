"""Learners on Hadamard features: what must change nothing, and what columns may do."""

import math

import numpy as np
import pytest
from learners_kit import SQUARES_TOO
from reference import naive
from state_kit import assert_same, reopened, through_json

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.features.samplers import extended
from streamk.kernels import composed
from streamk.learners import (
    Constant,
    DoublyStochastic,
    EigenPro,
    OnlineKernelRidge,
    OnlineNystrom,
    StreamingMeka,
)

BANDWIDTH = 0.8


# --- what must change nothing ---------------------------------------------------------------


def model(**options):
    options = {
        "loss": "logistic",
        "task": "classification",
        "seed": 11,
        "step": Constant(0.3),
        "regularization": 0.01,
        "batch_size": 8,
        "block_size": 100,
        "sampler": "hadamard",
        **options,
    }
    return DoublyStochastic(options.pop("kernel", kernels.Gaussian(bandwidth=BANDWIDTH)), **options)


def stream(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, size=(n, d)) / math.sqrt(d)
    return X, np.where(X[:, 0] + X[:, -1] ** 2 > 0.1, "yes", "no")


def grown(d=70, n=200, **options):
    X, y = stream(n, d)
    learner = model(**options)
    learner.learn_many(X, y)
    return learner


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kernel", [kernels.Gaussian(), kernels.Matern(nu=1.5), kernels.Linear()])
@pytest.mark.parametrize("sizes", [{}, {"max_features": 700}], ids=["growing", "revisiting"])
def test_the_cache_changes_nothing(sizes, kernel):
    """A cache for some of the features, too: the widths are 128, so a period is two chunks."""
    options = {"kernel": kernel, **sizes}
    kept, chunk = grown(**options), 64 * 2 * 4 + 24
    least = grown(cache_bytes=0, **options).nbytes
    X, _ = stream(40, 70, seed=9)
    for cache_bytes in (0, chunk, 2 * chunk, 7 * chunk + 7):
        other = grown(cache_bytes=cache_bytes, **options)
        np.testing.assert_array_equal(other.coefficients, kept.coefficients)
        np.testing.assert_array_equal(other.decision_many(X), kept.decision_many(X))
        assert other.nbytes - least <= cache_bytes
        assert (other.nbytes > least) == (cache_bytes >= 2 * chunk)


# --- columns --------------------------------------------------------------------------------


def test_groups_of_columns():
    assert extended((), 0) == extended((), 1) == extended((), 64) == (64,)
    assert extended((), 65) == (128,)
    assert extended((), 1024) == (1024,)
    assert extended((), 3000) == (1024,) * 3
    assert extended((128,), 128) == (128,)
    assert extended((64, 64), 300) == (64, 64, 256)
    widths = (64,)
    for d in range(1, 5000):
        widths = extended(widths, d)
        assert sum(widths) >= d
    assert widths == (64, 64, 128, 256, 512) + (1024,) * 4
    for wrong in ((32,), (2048,), (96,), (64, 0)):
        with pytest.raises(InvalidInput, match="power of two"):
            extended(wrong, 10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("cache_bytes", [0, 2**22])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_that_come_late_were_always_zero(dtype, cache_bytes):
    """Bit for bit: within the spare room, in a new group, and in a wider one."""
    X, y = stream(200, 60)
    learner = model(dtype=dtype, cache_bytes=cache_bytes)
    learner.add_columns([f"c{j}" for j in range(60)])
    learner.learn_many(X, y)
    before = learner.decision_many(X)
    for d in (61, 64, 65, 129, 600):
        learner.add_columns([f"c{j}" for j in range(len(learner.columns), d)])
        wider = np.hstack([X, np.zeros((200, d - 60))])
        np.testing.assert_array_equal(learner.decision_many(wider), before)
        moved = wider.copy()
        moved[:, -1] = 1.0
        assert np.abs(learner.decision_many(moved) - before).max() > 1e-3
    assert learner.state().header["widths"] == [64, 64, 128, 512]


def test_a_learner_whose_columns_come_late_is_the_oracle():
    X, y = stream(60, 70)
    k = naive.Kernel("gaussian", BANDWIDTH)
    oracle = naive.DoublyStochastic(
        k, "logistic", 11, ("constant", 0.3), nu=0.01, columns=range(70), widths=(64, 64),
        block_size=100, max_features=250,
    )  # fmt: skip
    options = {"dtype": "float64", "max_features": 250, "batch_size": 6}
    learner = model(classes=["no", "yes"], **options)
    learner.add_columns(range(50))
    for first in range(0, 60, 6):
        some = slice(first, first + 6)
        if first == 12:
            learner.add_columns(range(50, 64))
        if first == 30:
            learner.add_columns(range(64, 70))
        Z = X[some].copy()
        Z[:, len(learner.columns) :] = 0.0
        learner.learn_many(Z[:, : len(learner.columns)], y[some])
        oracle.learn(Z, (y[some] == "yes").astype(int))
    np.testing.assert_allclose(learner.coefficients, oracle.alpha, rtol=1e-7, atol=1e-9)
    expected = [oracle.decision(x) for x in X[:5]]
    np.testing.assert_allclose(learner.decision_many(X[:5]), expected, rtol=1e-7, atol=1e-9)


def test_an_event_without_columns_fixes_no_groups():
    learner = model()
    learner.add_columns([])
    learner.learn_many(np.zeros((8, 0)), ["a", "b"] * 4)
    before = learner.decision_many(np.zeros((1, 0)))
    learner.add_columns(range(100))
    assert learner.state().header["widths"] == [128]
    np.testing.assert_allclose(learner.decision_many(np.zeros((1, 100))), before, rtol=1e-6)


# --- state and merging ----------------------------------------------------------------------


def late_columns(d=70):
    """A model whose groups are not those that its columns would get at once."""
    learner = model()
    X, y = stream(120, d)
    learner.add_columns(range(60))
    learner.learn_many(X[:40, :60], y[:40])
    learner.add_columns(range(60, d))
    learner.learn_many(X[40:80], y[40:80])
    return learner, X, y


def test_a_restart_finds_every_column_in_its_place():
    straight, X, y = late_columns()
    resumed = reopened(straight)
    assert resumed.state().header["widths"] == [64, 64]
    np.testing.assert_array_equal(resumed.decision_many(X), straight.decision_many(X))
    for learner in (straight, resumed):
        learner.learn_many(X[80:], y[80:])
    assert_same(resumed, straight)


@pytest.mark.parametrize("sampler", ["hadamard", "orthogonal"])
@pytest.mark.parametrize("widths", [[], [128, 64, 3], [64], [96], [2048], [64.0], ["a"], None, 5])
def test_a_state_whose_groups_do_not_fit_is_refused(widths, sampler):
    state = grown(sampler=sampler).state()
    assert state.header["widths"] == [128]
    state.header["widths"] = widths
    with pytest.raises(StateError, match="header"):
        DoublyStochastic.from_state(state)


def test_merging_needs_the_columns_in_the_same_places():
    X, y = stream(80, 3)
    mine, same, turned = (
        model(columns=names) for names in (["a", "b", "c"], ["a", "b", "c"], ["c", "b", "a"])
    )
    for learner in (mine, same, turned):
        learner.learn_many(X, y)
    before = DoublyStochastic.from_state(mine.state())
    with pytest.raises(InvalidInput, match=r"'hadamard'.*columns: 'a' and 'c' in place 0.*iid"):
        mine.merge(turned)
    assert_same(mine, before)
    mine.merge(same)
    np.testing.assert_allclose(mine.decision_many(X), same.decision_many(X), atol=1e-5)


def test_merging_needs_the_same_groups():
    (late, X, y), at_once = late_columns(), model(columns=range(70))
    at_once.learn_many(X, y)
    with pytest.raises(InvalidInput, match="groups of columns: 64 and 128 in place 0"):
        late.merge(at_once)


@pytest.mark.parametrize("turn", [False, True])
def test_merging_with_one_that_has_met_more_columns(turn):
    (late, X, y), few = late_columns(), model(columns=range(60))
    few.learn_many(X[80:, :60], y[80:])
    Z = X.copy()
    Z[:, 60:] = 0.0
    w = late.n_events / (late.n_events + few.n_events)
    expected = w * late.decision_many(Z) + (1 - w) * few.decision_many(Z[:, :60])
    mine, others = (few, late) if turn else (late, few)
    mine.merge(others)
    assert mine.columns == tuple(range(70))
    assert mine.state().header["widths"] == [64, 64]
    np.testing.assert_allclose(mine.decision_many(Z), expected, atol=1e-5)


# --- the doubly stochastic learner with kernels without a Fourier law -----------------------------


LABELS = np.array(["no", "yes", "maybe"], dtype=object)
COLUMNS = ["x", "größe", 5]


CASES = {
    "polynomial": kernels.Polynomial(bandwidth=1.5),
    "arc_cosine-1": kernels.ArcCosine(),
    "zonal": kernels.Zonal(weights=(0.2, 0.5, 0.3)),
    "composed": kernels.Composed(kernel=kernels.Gaussian(bandwidth=1.5), map=SQUARES_TOO),
}


def three_classes(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, 3))
    y = (np.sin(2.0 * X[:, 0]) + X[:, 2] ** 2 > 0.8).astype(int)
    y[:2] = 0, 1
    y[(np.arange(n) > n // 3) & (X[:, 0] * X[:, 2] > 0.5)] = 2
    return X, y


def of_case(case, **options):
    options = {"step": Constant(0.2), "columns": COLUMNS, "max_features": 200, **options}
    return DoublyStochastic(CASES[case], seed=3, **options)


# --- columns that come late, merging ----------------------------------------------------------


@pytest.mark.parametrize("case", ["zonal", "composed"])
def test_late_columns_are_refused_where_features_depend_on_all(case):
    X, y = three_classes(60)
    learner = of_case(case, columns=COLUMNS[:2])
    learner.add_columns(["in time"])
    learner.learn_many(X, LABELS[y])
    before = learner.state()
    with pytest.raises(InvalidInput, match=f"'late'.*{case}.*columns="):
        learner.add_columns(["late"])
    assert learner.state().header == before.header
    learner.learn_many(X, LABELS[y])
    assert learner.columns == ("x", "größe", "in time")


def test_maps_merge_in_one_order_of_columns_only():
    X, y = three_classes(80)
    one, other = of_case("composed"), of_case("composed", columns=COLUMNS[::-1])
    one.learn_many(X, LABELS[y])
    other.learn_many(X[:, ::-1], LABELS[y])
    with pytest.raises(InvalidInput, match="order"):
        one.merge(other)
    mine, theirs = of_case("zonal"), of_case("zonal", columns=[*COLUMNS, "more"])
    mine.learn_many(X, LABELS[y])
    theirs.learn_many(np.hstack([X, X[:, :1]]), LABELS[y])
    with pytest.raises(InvalidInput, match=r"more.*zonal"):
        mine.merge(theirs)


# --- states -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("polynomial", {"degree": 0}),
        ("polynomial", {"degree": 10**9}),
        ("polynomial", {"offset": -1.0}),
        ("polynomial", {"offset": "1"}),
        ("polynomial", {"order": 1}),
        ("arc_cosine-1", {"order": 3}),
        ("arc_cosine-1", {"order": [1]}),
        ("zonal", {"weights": []}),
        ("zonal", {"weights": [1.0] * 1000}),
        ("zonal", {"weights": [None]}),
        ("zonal", {"weights": {}}),
        ("zonal", {"bandwidth": 0}),
        ("composed", {"map": "os.system"}),
        ("composed", {"map": ["squares_too"]}),
        ("composed", {"of": {"kernel": "ntk"}}),
        ("composed", {"of": {"kernel": "composed", "of": {}, "map": "squares_too"}}),
        ("composed", {"of": None}),
    ],
)
def test_a_damaged_kernel_is_refused(case, change):
    X, y = three_classes(60)
    learner = of_case(case)
    learner.learn_many(X, LABELS[y])
    state = through_json(learner.state())
    state.header["kernel"].update(change)
    with pytest.raises(StateError):
        DoublyStochastic.from_state(state)


def test_a_state_holds_the_name_of_its_map_and_no_code(monkeypatch):
    X, y = three_classes(60)
    learner = of_case("composed")
    learner.learn_many(X, LABELS[y])
    state = through_json(learner.state())
    assert state.header["kernel"]["map"] == "squares_too"
    monkeypatch.setattr(composed, "_MAPS", {})
    with pytest.raises(StateError, match=r"squares_too.*register_map"):
        DoublyStochastic.from_state(state)


# --- others refuse them -----------------------------------------------------------------------


@pytest.mark.parametrize("learner", [OnlineNystrom, OnlineKernelRidge, EigenPro, StreamingMeka])
@pytest.mark.parametrize("kernel", CASES.values(), ids=list(CASES))
def test_learners_of_kernel_values_refuse_them(learner, kernel):
    with pytest.raises(InvalidInput, match=f"{kernel.name}|{type(kernel).__name__}"):
        learner(kernel)
