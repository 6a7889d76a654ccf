"""States of pools of experts that were changed: refused, or a model that works."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import pool_alone
from numpy.typing import NDArray

from streamk.backends import CLASSES, NUMBERS, pool_arrays
from streamk.errors import InvalidInput, StateError
from streamk.kernels import Gaussian
from streamk.learners import MultiKernel, OnlineNystrom
from streamk.learners.multi_kernel.upkeep import Upkeep
from streamk.losses import loss
from streamk.state import State

KINDS = ("two", "three", "numbers", "quantile", "external")
COLUMNS = ("a", "b", "c")


def events(kind: str, n: int, seed: int = 0) -> tuple[NDArray[np.float64], list[Any]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(COLUMNS)))
    g = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n)
    if kind in ("two", "external"):
        return X, (g > 0).tolist()
    if kind == "three":
        return X, np.digitize(g, [-0.3, 0.3]).tolist()
    return X, (1e6 + 1e3 * g).tolist()


@cache
def trained(kind: str) -> State:
    """The state of a learner that has learned 150 events."""
    number = kind not in ("two", "three", "external")
    external = [OnlineNystrom(Gaussian(bandwidth=1.0), loss="softmax", max_landmarks=4)]
    model = pool_alone(
        task="regression" if number else "classification",
        seed=1,
        columns=COLUMNS,
        loss=loss("quantile", q=0.8) if kind == "quantile" else None,
        external_experts=external if kind == "external" else (),
    )
    model.learn_many(*events(kind, 150))
    return model.state()


def with_array(state: State, name: str, array: Any) -> State:
    return State(state.header, {**state.arrays, f"pool.{name}": array})


def with_header(state: State, where: tuple[str, ...], value: Any) -> State:
    """The state with another value at a place in its header."""

    def at(header: Any, path: tuple[Any, ...]) -> Any:
        if not path:
            return value
        copy = header.copy()
        copy[path[0]] = at(header[path[0]], path[1:])
        return copy

    return State(at(state.header, where), state.arrays)


def assert_harmless(state: State, kind: str) -> None:
    """Assert that a state is refused, or predicts and learns finite numbers."""
    try:
        model = MultiKernel.from_state(state)
    except (StateError, InvalidInput):
        return
    X, y = events(kind, 60, seed=1)
    for n in range(0, 50, 25):
        assert np.isfinite(model.decision_many(X)).all()
        model.learn_many(X[n : n + 25], y[n : n + 25])
    model.learn_one(X[50], y[50])
    assert np.isfinite(model.decision_one(X[51])).all()


# --- what a state says of labels ------------------------------------------------------------------


@pytest.mark.parametrize("label", [1e9, 2000.0, 3.0, -1.0, 0.5, np.nan])
def test_a_label_that_is_no_class_is_refused(label: float) -> None:
    """The compiled loops write to the place that it says."""
    labels = trained("three").arrays["pool.window_y"].copy()
    labels[5] = label
    with pytest.raises(StateError, match="array 'window_y' of a pool of experts"):
        MultiKernel.from_state(with_array(trained("three"), "window_y", labels))


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("shares", (0, 3), 0.9),
        ("mixer_weights", (0,), 0.0),
        ("reliability", (1, 20), 1e6),
        ("reliability", (0, 3), -1.0),
        ("linear_squares", (0, 0, 0), -1.0),
        ("binning_cells", (0, 7), -1.0),
        ("linear_bets", (0, 0), 0.6),
        ("linear_gains", (0, 0), -1.0),
        ("binning_weights", (0, 0), 0.0),
        ("binning_weight_squares", (0, 0), -1.0),
        ("inverses", (1, 0, 1), 0.5),
        ("newton_p", (0, 1), 9.0),
        ("last_inverse", (0, 0), 1e9),
        ("inverse_temperatures", (0,), -1.0),
        ("constant_levels", (0, 0), 2.0),
        ("drift", (2,), -1.0),
        ("trials", (1, 2), -1.0),
        ("alarms", (0,), 0.5),
    ],
)
def test_what_the_loops_could_not_have_learned_is_refused(
    name: str, place: tuple[int, ...], value: float
) -> None:
    array = trained("two").arrays[f"pool.{name}"].copy()
    array[place] = value
    with pytest.raises(StateError, match=f"array '{name}' of a pool of experts"):
        MultiKernel.from_state(with_array(trained("two"), name, array))


def test_bets_that_would_leave_single_precision_are_refused() -> None:
    state = trained("numbers")
    largest, a = (state.arrays[f"pool.linear_{name}"].copy() for name in ("largest", "a"))
    largest[:], a[-1] = 1e-20, 1e20
    state = with_array(with_array(state, "linear_largest", largest), "linear_a", a)
    with pytest.raises(StateError, match="array 'linear_a' of a pool of experts"):
        MultiKernel.from_state(state)


# --- what a header claims -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("capacity", 10**9),
        ("capacity", 2**60),
        ("capacity", 4),
        ("capacity", 2),
        ("capacity", 3.0),
        ("classes", 10**9),
        ("classes", 2),
        ("classes", 4),
        ("window", [10**9, 0]),
        ("window", [149, 3]),
        ("window", [150]),
        ("window", [150.0, 150]),
        ("window", "no"),
        ("window", [-1, 0]),
        ("window", 3),
        ("capacity", "x"),
        ("classes", None),
    ],
)
def test_no_memory_is_taken_for_what_a_header_claims(key: str, value: Any) -> None:
    state = with_header(trained("three"), ("parts", "pool", key), value)
    tracemalloc.start()
    try:
        with pytest.raises(StateError, match=key if key != "capacity" else "capacity|linear_a"):
            MultiKernel.from_state(state)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_columns_and_classes_are_those_of_the_learner() -> None:
    state = trained("three")
    for columns in (["a", "b", "c", "d"], ["a", "b"], ["a", "a", "b"]):
        with pytest.raises(StateError):
            MultiKernel.from_state(with_header(state, ("columns",), columns))
    with pytest.raises(StateError, match="'classes' of a pool of experts is 3, but there are 4"):
        MultiKernel.from_state(with_header(state, ("classes",), [0, 1, 2, 3]))


def test_tables_have_one_of_their_sizes() -> None:
    cells = trained("two").arrays["pool.binning_cells"]
    with pytest.raises(StateError, match="array 'binning_cells' of a pool of experts has"):
        MultiKernel.from_state(with_array(trained("two"), "binning_cells", cells[:-1]))


# --- any change -----------------------------------------------------------------------------------


def test_all_arrays_of_a_state_are_declared() -> None:
    upkeep = set(Upkeep().arrays())
    for kind in KINDS:
        found = {
            name.partition(".")[2] for name in trained(kind).arrays if name.startswith("pool.")
        }
        stored = pool_arrays.learned_of(
            {
                "LOSS": pool_arrays.QUANTILE if kind == "quantile" else pool_arrays.DEFAULT,
                "EXTERNAL": int(kind == "external"),
                "TASK": NUMBERS if kind in ("numbers", "quantile") else CLASSES,
            }
        )
        assert found - upkeep == {each.name for each in stored}


def changes_of(array: NDArray[Any], rng: np.random.Generator) -> Iterator[NDArray[Any]]:
    """Arrays as damage or somebody's hand would leave them."""
    values: tuple[Any, ...] = (-1.0, 0.0, 1e9, -1e9)
    for value in values if array.dtype.kind == "f" else (False, True):
        one = array.copy()
        one.flat[rng.integers(array.size, size=1 + array.size // 100)] = value
        yield one
        yield np.full_like(array, value)
    yield np.concatenate([array, array])
    yield array.astype(np.float64) * 2


@pytest.mark.parametrize("kind", ["quantile", "external"])
def test_a_changed_array_does_no_harm(kind: str) -> None:
    state, rng = trained(kind), np.random.default_rng(0)
    for name, array in state.arrays.items():
        if name.startswith("pool."):
            for changed in changes_of(array, rng):
                assert_harmless(with_array(state, name.partition(".")[2], changed), kind)
