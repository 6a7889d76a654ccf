"""The doubly stochastic learner with kernels without a Fourier law."""

import numpy as np
import pytest
from learners_kit import SQUARES_TOO
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


CASES = {
    "polynomial": kernels.Polynomial(bandwidth=1.5),
    "arc_cosine-1": kernels.ArcCosine(),
    "zonal": kernels.Zonal(weights=(0.2, 0.5, 0.3)),
    "composed": kernels.Composed(kernel=kernels.Gaussian(bandwidth=1.5), map=SQUARES_TOO),
}


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, 3))
    y = (np.sin(2.0 * X[:, 0]) + X[:, 2] ** 2 > 0.8).astype(int)
    y[:2] = 0, 1
    y[(np.arange(n) > n // 3) & (X[:, 0] * X[:, 2] > 0.5)] = 2
    return X, y


def model(case, **options):
    options = {"step": Constant(0.2), "columns": COLUMNS, "max_features": 200, **options}
    return DoublyStochastic(CASES[case], seed=3, **options)


# --- columns that come late, merging ----------------------------------------------------------


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
@pytest.mark.parametrize("kernel", CASES.values(), ids=list(CASES))
def test_learners_of_kernel_values_refuse_them(learner, kernel):
    with pytest.raises(InvalidInput, match=f"{kernel.name}|{type(kernel).__name__}"):
        learner(kernel)
