"""Prediction by trees of small kernel models, on the host and on CuPy, against the model itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from cuda_host import HostDevice
from cuda_kit import PLACES, backend_at
from local_kernels_kit import Made, events, made

from streamk.backends import LANES, LEAF
from streamk.backends.cupy_backend import functions
from streamk.backends.cupy_backend.device import CudaDevice, source
from streamk.backends.numba_backend import local_kernels

SHAPES: list[dict[str, Any]] = [
    {"d": 1, "leaves": 1, "n_outputs": 1, "landmarks": 1},
    {"d": 3, "leaves": 2, "n_outputs": 1, "landmarks": 15, "products": 5},
    {"d": 16, "leaves": 9, "n_outputs": 1, "landmarks": 40, "products": 33},
    {"d": 17, "leaves": 5, "n_outputs": 3, "landmarks": 16, "trees": 4},
    {"d": 2, "leaves": 1, "n_outputs": 1, "landmarks": 9, "trees": 3},
    {"d": 5, "leaves": 30, "n_outputs": 17, "landmarks": 33, "products": 20},
    {"d": 100, "leaves": 4, "n_outputs": 40, "landmarks": 64, "products": 1, "alike": True},
]
"""Sizes around multiples of a vector's."""

Scores = Callable[[Made, Any], tuple[int, Any]]
"""How many events of X have scores, and the scores."""


def compiled(model: Made, X: Any) -> tuple[int, Any]:
    out = np.full((len(X), model.n_outputs), np.nan, np.float32)
    return local_kernels.Evaluator(model.kernels).scores(X, out), out


@pytest.fixture(params=["loops", *PLACES])
def scores(request: pytest.FixtureRequest) -> Scores:
    if request.param == "loops":
        return compiled
    backend_at(request.param)  # skips where something is missing
    backwards = request.param == "host backwards"
    place: Any = CudaDevice() if request.param == "gpu" else HostDevice(backwards=backwards)

    def on_device(model: Made, X: Any) -> tuple[int, Any]:
        out = place.xp.zeros((len(X), model.n_outputs), np.float32)
        n = functions.Evaluator(model.kernels, place).scores(place.put(X), out)
        return n, place.get(out)

    return on_device


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n", [1, 300])
def test_scores_are_those_of_the_model(scores: Scores, shape: dict[str, Any], n: int) -> None:
    model = made(**shape, seed=n)
    X = events(n, shape["d"], seed=n)
    count, found = scores(model, X)
    assert count == n
    sure = ~model.beside_planes(X)
    assert sure.mean() > 0.95
    expected = model.scores(X)[sure]
    np.testing.assert_allclose(found[sure], expected, rtol=1e-6, atol=model.tolerance)


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
@pytest.mark.parametrize("n", [50, 1500])
def test_an_infinite_value_stops_at_its_row(scores: Scores, infinity: float, n: int) -> None:
    model, X = made(), events(n, 5)
    X[n - 10, 3] = X[n - 2, 0] = infinity
    assert scores(model, X)[0] == n - 10
    assert scores(model, X[: n - 10])[0] == n - 10
    assert scores(model, X[:0])[0] == 0
    X[n - 10, 3] = X[n - 2, 0] = np.nan
    assert scores(model, X)[0] == n


def test_values_at_the_ends_of_their_range_are_far_away(scores: Scores) -> None:
    model = made(d=2, leaves=1, n_outputs=1)
    X = np.array([[1.7e308, 0.0], [-1.7e308, 1e300], [1e9, -1e9]])
    np.testing.assert_allclose(scores(model, X)[1], model.models[0].bias[0], rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_leaves_of_one_class_have_its_score_alone(seed: int) -> None:
    model = made(leaves=4, n_outputs=3, trees=2, seed=seed)
    assert (model.kernels.leaves[:, 2] == 1).any()
    X = events(200, 5, seed=seed)
    sure = ~model.beside_planes(X)
    expected = model.scores(X)[sure]
    np.testing.assert_allclose(
        compiled(model, X)[1][sure], expected, rtol=1e-6, atol=model.tolerance
    )


@pytest.mark.parametrize("n", [1, 300])
def test_leaves(n: int) -> None:
    model = made(leaves=12, trees=3)
    X = events(n, 5, seed=3)
    out = np.empty((n, 3), np.int64)
    local_kernels.find_leaves(model.kernels, X, out)
    sure, Z = ~model.beside_planes(X), model.scale(X)
    for number, tree in enumerate(model.trees):
        np.testing.assert_array_equal(out[sure, number], 12 * number + tree.leaves(Z)[sure])


@pytest.mark.parametrize("n", [20, 700])
def test_a_row_has_the_same_scores_in_any_batch(n: int) -> None:
    model = made(d=7, n_outputs=5)
    X = events(n, 7)
    one_by_one = np.concatenate([compiled(model, x[None])[1] for x in X])
    np.testing.assert_array_equal(compiled(model, X)[1], one_by_one)


def test_pieces_on_a_device_are_one_batch(scores: Scores, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = made(), events(700, 5)
    expected = scores(model, X)[1]
    monkeypatch.setattr(functions, "_ROWS", 300)
    monkeypatch.setattr(functions, "SCRATCH", 0)
    np.testing.assert_array_equal(scores(model, X)[1], expected)


def test_constants_are_the_same_on_both_sides() -> None:
    text = dict(re.findall(r"^#define (\w+) (\w+)", source("local_kernels"), re.MULTILINE))
    assert (text["LEAF"], text["LANES"]) == (str(LEAF), str(LANES))


def test_threads_share_an_evaluator() -> None:
    model = made(d=9, leaves=20, n_outputs=6)
    batches = [events(n, 9, seed=n) for n in (1, 2, 100, 255, 256, 800) for _ in range(5)]
    expected = [compiled(model, X)[1] for X in batches]
    evaluator = local_kernels.Evaluator(model.kernels)

    def evaluate(X: Any) -> Any:
        out = np.empty((len(X), 6), np.float32)
        assert evaluator.scores(X, out) == len(X)
        return out

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(evaluate, batches))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_loops_with_and_without_the_lock_have_caches_of_their_own() -> None:
    """One that let go of the interpreter's lock would share its workspace among threads."""
    loops = (local_kernels._scores, local_kernels._scores_of_many)
    assert len({loop._cache._cache_file._index_path for loop in loops}) == 2
