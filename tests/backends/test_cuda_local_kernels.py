"""Prediction by trees of small kernel models on CuPy, against the model; see `cuda_kit`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cuda_host import HostDevice
from cuda_kit import PLACES, backend_at
from local_kernels_kit import Made, events, made

from streamk.backends import LANES, LEAF
from streamk.backends.cupy_backend import functions
from streamk.backends.cupy_backend.device import CudaDevice, source

SHAPES: list[dict[str, Any]] = [
    {"d": 1, "leaves": 1, "n_outputs": 1, "landmarks": 1},
    {"d": 3, "leaves": 2, "n_outputs": 1, "landmarks": 15, "products": 5},
    {"d": 16, "leaves": 9, "n_outputs": 26, "landmarks": 40, "trees": 2},
    {"d": 2, "leaves": 1, "n_outputs": 1, "landmarks": 9, "trees": 3},
    {"d": 33, "leaves": 5, "n_outputs": 17, "landmarks": 16, "products": 18},
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> Any:
    """A device to run on."""
    backend_at(request.param)  # skips where something is missing
    if request.param == "gpu":
        return CudaDevice()
    return HostDevice(backwards=request.param == "host backwards")


def scores(place: Any, model: Made, X: Any) -> tuple[int, Any]:
    out = place.xp.zeros((len(X), model.n_outputs), np.float32)
    n = functions.Evaluator(model.kernels, place).scores(place.put(X), out)
    return n, place.get(out)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n", [1, 255, 600])
def test_scores_are_those_of_the_model(place: Any, shape: dict[str, Any], n: int) -> None:
    model = made(**shape, seed=n)
    X = events(n, shape["d"], seed=n)
    count, found = scores(place, model, X)
    assert count == n
    sure = ~model.beside_planes(X)
    expected = model.scores(X)[sure]
    np.testing.assert_allclose(found[sure], expected, rtol=1e-6, atol=model.tolerance)


def test_pieces_are_one_batch(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = made(), events(700, 5)
    expected = scores(place, model, X)[1]
    monkeypatch.setattr(functions, "_ROWS", 300)
    monkeypatch.setattr(functions, "SCRATCH", 0)
    np.testing.assert_array_equal(scores(place, model, X)[1], expected)


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
def test_an_infinite_value_is_told_by_its_row(place: Any, infinity: float) -> None:
    model, X = made(), events(300, 5)
    X[280, 0] = X[260, 4] = infinity
    assert scores(place, model, X)[0] == 260
    assert scores(place, model, X[:260])[0] == 260
    assert scores(place, model, X[:0])[0] == 0


def test_constants_are_the_same_on_both_sides() -> None:
    text = dict(re.findall(r"^#define (\w+) (\w+)", source("local_kernels"), re.MULTILINE))
    assert (text["LEAF"], text["LANES"]) == (str(LEAF), str(LANES))
