"""The doubly stochastic learner with kernels without a Fourier law, and orthogonal frequencies."""

import numpy as np
import pytest
from learners_kit import SQUARES_TOO
from reference import features as naive_features
from reference import naive
from state_kit import through_json

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.kernels import composed
from streamk.learners import (
    Constant,
    DoublyStochastic,
    EigenPro,
    OnlineKernelRidge,
    OnlineNystrom,
    StreamingMeka,
)

LABELS = np.array(["no", "yes", "maybe"], dtype=object)
COLUMNS = ["x", "größe", 5]


def gaussian_of_squares(seed, i, x, columns):
    assert len(columns) == len(x)
    psi = [*map(float, x), *(float(v) ** 2 for v in x)]
    return naive.feature(naive.Kernel("gaussian", 1.5), seed, i, psi, range(len(psi)))


CASES = {
    "polynomial": (
        kernels.Polynomial(bandwidth=1.5),
        "iid",
        naive_features.polynomial_feature(2, 1.0, 1.5),
    ),
    "arc_cosine-0": (
        kernels.ArcCosine(order=0, bandwidth=0.7),
        "iid",
        naive_features.arc_cosine_feature(0, 0.7),
    ),
    "arc_cosine-1": (kernels.ArcCosine(), "iid", naive_features.arc_cosine_feature(1, 1.0)),
    "arc_cosine-2": (kernels.ArcCosine(order=2), "iid", naive_features.arc_cosine_feature(2, 1.0)),
    "zonal": (
        kernels.Zonal(weights=(0.2, 0.5, 0.3)),
        "iid",
        naive_features.zonal_feature((0.2, 0.5, 0.3), 1.0),
    ),
    "composed": (
        kernels.Composed(kernel=kernels.Gaussian(bandwidth=1.5), map=SQUARES_TOO),
        "iid",
        gaussian_of_squares,
    ),
    "gaussian-orthogonal": (
        kernels.Gaussian(bandwidth=1.5),
        "orthogonal",
        naive_features.orthogonal_feature(naive.Kernel("gaussian", 1.5), (64,)),
    ),
    "matern-orthogonal": (
        kernels.Matern(nu=0.5, bandwidth=1.5),
        "orthogonal",
        naive_features.orthogonal_feature(naive.Kernel("matern", 1.5, 0.5), (64,)),
    ),
    "arc_cosine-hadamard": (kernels.ArcCosine(), "hadamard", None),
    "arc_cosine-orthogonal": (kernels.ArcCosine(order=2), "orthogonal", None),
}
SELDOM = {"arc_cosine-0", "arc_cosine-2", "matern-orthogonal", "arc_cosine-orthogonal"}
"""Each kernel has loops of its own, which take seconds to compile; of these nightly."""


def seldom(case):
    return pytest.param(case, marks=pytest.mark.nightly if case in SELDOM else ())


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, 3))
    y = (np.sin(2.0 * X[:, 0]) + X[:, 2] ** 2 > 0.8).astype(int)
    y[:2] = 0, 1
    y[(np.arange(n) > n // 3) & (X[:, 0] * X[:, 2] > 0.5)] = 2
    return X, y


def model(case, **options):
    kernel, sampler, _ = CASES[case]
    options = {
        "seed": 2**63 + 11, "step": Constant(0.2), "regularization": 0.01, "columns": COLUMNS,
        "block_size": 70, "max_features": 200, "sampler": sampler, **options,
    }  # fmt: skip
    return DoublyStochastic(kernel, **options)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][2] is not None])
def test_coefficients_are_the_oracle_s(case):
    X, y = stream(160)
    oracle = naive_features.DoublyStochastic(
        CASES[case][2], "softmax", 2**63 + 11, ("constant", 0.2), nu=0.01, columns=COLUMNS,
        block_size=70, max_features=200,
    )  # fmt: skip
    learner = model(case, dtype="float64")
    for first in range(0, 160, 8):
        some = slice(first, first + 8)
        oracle.learn(X[some], y[some])
        learner.learn_many(X[some], LABELS[y[some]])
    np.testing.assert_allclose(learner.coefficients, oracle.alpha, rtol=1e-6, atol=1e-9)
    expected = [oracle.decision(x) for x in X[:5]]
    np.testing.assert_allclose(learner.decision_many(X[:5]), expected, rtol=1e-6, atol=1e-7)


# --- columns that come late, merging ----------------------------------------------------------


@pytest.mark.parametrize(
    "case", [seldom(case) for case in CASES if not case.startswith(("zonal", "composed"))]
)
def test_late_columns_change_nothing_of_what_was_learned(case):
    X, y = stream(100)
    learner, wide = (model(case, columns=COLUMNS[:2], dtype="float64") for _ in range(2))
    learner.learn_many(X[:, :2], LABELS[y])
    before = learner.decision_many(X[:, :2])
    learner.add_columns(["late"])
    wide.add_columns(["late"])
    padded = np.insert(X[:, :2], 2, 0.0, axis=1)
    np.testing.assert_allclose(learner.decision_many(padded), before, rtol=0, atol=1e-10)
    wide.learn_many(padded, LABELS[y])
    np.testing.assert_allclose(wide.coefficients, learner.coefficients, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["zonal", "composed"])
def test_late_columns_are_refused_where_features_depend_on_all(case):
    X, y = stream(60)
    learner = model(case, columns=COLUMNS[:2])
    learner.add_columns(["in time"])
    learner.learn_many(X, LABELS[y])
    before = learner.state()
    with pytest.raises(InvalidInput, match=f"'late'.*{case}.*columns="):
        learner.add_columns(["late"])
    assert learner.state().header == before.header
    learner.learn_many(X, LABELS[y])
    assert learner.columns == ("x", "größe", "in time")


def test_maps_merge_in_one_order_of_columns_only():
    X, y = stream(80)
    one, other = model("composed"), model("composed", columns=COLUMNS[::-1])
    one.learn_many(X, LABELS[y])
    other.learn_many(X[:, ::-1], LABELS[y])
    with pytest.raises(InvalidInput, match="order"):
        one.merge(other)
    mine, theirs = model("zonal"), model("zonal", columns=[*COLUMNS, "more"])
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
    X, y = stream(60)
    learner = model(case)
    learner.learn_many(X, LABELS[y])
    state = through_json(learner.state())
    state.header["kernel"].update(change)
    with pytest.raises(StateError):
        DoublyStochastic.from_state(state)


@pytest.mark.parametrize("widths", [[], [32], [64, 64], [512], [64.0], ["64"]])
def test_damaged_groups_of_columns_are_refused(widths):
    X, y = stream(60)
    learner = model("gaussian-orthogonal")
    learner.learn_many(X, LABELS[y])
    state = through_json(learner.state())
    state.header["widths"] = widths
    with pytest.raises(StateError):
        DoublyStochastic.from_state(state)


def test_a_state_holds_the_name_of_its_map_and_no_code(monkeypatch):
    X, y = stream(60)
    learner = model("composed")
    learner.learn_many(X, LABELS[y])
    state = through_json(learner.state())
    assert state.header["kernel"]["map"] == "squares_too"
    monkeypatch.setattr(composed, "_MAPS", {})
    with pytest.raises(StateError, match=r"squares_too.*register_map"):
        DoublyStochastic.from_state(state)


# --- others refuse them -----------------------------------------------------------------------


@pytest.mark.parametrize("learner", [OnlineNystrom, OnlineKernelRidge, EigenPro, StreamingMeka])
@pytest.mark.parametrize(
    "kernel", [CASES[case][0] for case in ("polynomial", "arc_cosine-1", "zonal", "composed")]
)
def test_learners_of_kernel_values_refuse_them(learner, kernel):
    with pytest.raises(InvalidInput, match=f"{kernel.name}|{type(kernel).__name__}"):
        learner(kernel)
