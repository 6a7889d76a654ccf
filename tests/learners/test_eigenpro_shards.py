"""EigenPro's centers on several shards of the host, and on devices; see `cuda_kit`."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_kit import FORWARDS, GPU_LACKS, backend_at
from eigenpro_kit import (
    TASKS,
    Place,
    assert_alike,
    assert_it_goes_on_exactly,
    learner,
    life_of_a_model,
    stream,
)
from state_kit import assert_same

from streamk import backends
from streamk.backends import select
from streamk.cli.model_options import build
from streamk.errors import BackendUnavailable, InvalidInput
from streamk.kernels import NTK, Cauchy, Gaussian, Kernel, Laplacian, PowerExponential
from streamk.learners import EigenPro
from streamk.learners.eigenpro import centered as solving
from streamk.learners.eigenpro import projection as projecting
from streamk.learners.eigenpro import shards as sharded
from streamk.learners.eigenpro.shards import BLOCK, DeviceShards, HostCenters, ShardedCenters

Places = Callable[[int], Place]


def shards(count: int) -> DeviceShards:
    return DeviceShards([select()] * count)


@pytest.fixture(params=["shards", *FORWARDS])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Options for so many shards, or devices, all of which a GPU stands for where there is one."""
    if request.param == "shards":
        return lambda count: {"shards": shards(count)}
    found = [backend_at(request.param) for _ in range(3)]
    monkeypatch.setattr(backends, "select_devices", lambda count=None: found[: count or 3])
    return lambda count: {"backend": "cupy", "devices": count}


@pytest.fixture(params=["exact", "inexact"])
def projection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether a matrix of centers by centers is stored."""
    if request.param == "inexact":
        monkeypatch.setattr(solving, "BYTES", 1)
    return str(request.param)


# --- the learner ----------------------------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("projection")
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("count", [1, 3])
def test_outputs_are_those_of_the_host(task: str, count: int, place: Places) -> None:
    assert_alike(life_of_a_model(task, place(count)), life_of_a_model(task, {}))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(bandwidth=1.0),
        Laplacian(bandwidth=3.0),
        PowerExponential(bandwidth=9.0),
        Cauchy(),
        NTK(),
    ],
)
def test_other_kernels(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "BYTES", 1)
    there = {"shards": shards(2)}
    found = [life_of_a_model("regression", at, kernel=kernel) for at in (there, {})]
    assert_alike(*found)


def test_the_direct_solver_predicts_by_shards() -> None:
    there = {"shards": shards(3)}
    found = [life_of_a_model("classification", at, solver="direct") for at in (there, {})]
    assert_alike(*found)


@pytest.mark.usefixtures("projection")
def test_a_run_gives_the_same_bits_again(place: Places) -> None:
    found = [life_of_a_model("classification", place(3)) for _ in range(2)]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("projection")
def test_a_restored_learner_goes_on_exactly(place: Places) -> None:
    assert_it_goes_on_exactly(lambda: place(3))


def test_an_output_is_the_same_in_whatever_batch(place: Places) -> None:
    X, y = stream("regression", 1000)
    model = learner("regression", place(3))
    model.learn_many(X, y)
    every = model.decision_many(X[:70])
    for at in (0, 33, 69):
        np.testing.assert_array_equal(model.decision_many(X[at : at + 1]), every[at : at + 1])
        np.testing.assert_array_equal(model.decision_one(X[at]), every[at])


@pytest.mark.usefixtures("projection")
def test_a_state_does_not_say_where_the_centers_were(place: Places) -> None:
    """A model of the host goes on in other places, and one of this place on the host and there."""
    X, y = stream("classification", 1010)
    host, there = learner("classification", {}), learner("classification", place(3))
    for model in (host, there):
        model.learn_many(X, y)
    assert there.state().header == host.state().header
    for model, count in ((there, None), (host, 1), (there, 2)):
        options = place(count) if count else {}
        opened = EigenPro.from_state(model.state(), **options)
        assert_same(opened, model)
        assert_alike([opened.decision_many(X)], [model.decision_many(X)])
        opened.learn_many(X[:200], y[:200])
        assert opened.n_events == 1210


@pytest.mark.parametrize("place", FORWARDS, indirect=True)
@pytest.mark.usefixtures("place")
def test_the_command_chooses_devices() -> None:
    settings = [("backend", "cupy"), ("devices", "2"), ("solver", "eigenpro")]
    made: Any = build("eigenpro", task="regression", seed=0, settings=settings)
    X, y = stream("regression", 40)
    made.learn_many(X, y)
    assert (made.learner.backend, made.learner.devices) == ("cupy", 2)
    assert "backend" not in made.learner.state().header


@pytest.mark.skipif(GPU_LACKS is not None, reason=f"nothing here runs on a GPU: {GPU_LACKS}")
@pytest.mark.parametrize("task", TASKS)
def test_all_gpus_that_there_are(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "BYTES", 1)
    assert len(backends.select_devices()) >= 1
    assert_alike(life_of_a_model(task, {"backend": "cupy"}), life_of_a_model(task, {}))


def test_a_shard_has_its_part_alone_and_forgets_what_is_gone() -> None:
    X, y = stream("classification", 1500)
    there = shards(3)
    model = learner("classification", {"shards": there}, n_centers=300)
    model.learn_many(X, y)
    for shard in there._shards:
        sizes = sorted(len(part.X) for part in shard._parts.values())
        assert len(sizes) <= 2  # the centers, and the temporary ones, if there are such
        assert 300 / 3 - BLOCK <= sizes[-1] <= 300 / 3 + BLOCK
    del model
    gc.collect()
    assert not any(shard._parts for shard in there._shards)


def test_two_models_may_have_the_same_shards() -> None:
    both = {"shards": shards(2)}
    X, y = stream("regression", 900)
    models = [learner("regression", both, seed=seed) for seed in (0, 1)]
    for at in range(0, 900, 90):
        for model in models:
            model.learn_many(X[at : at + 90], y[at : at + 90])
    for seed, model in enumerate(models):
        alone = learner("regression", {"shards": shards(2)}, seed=seed)
        alone.learn_many(X, y)
        np.testing.assert_array_equal(model.decision_many(X), alone.decision_many(X))


def test_no_matrix_of_events_by_centers_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 6,000 centers a projection takes less than a fifth of a batch's rows of the matrix."""
    monkeypatch.setattr(solving, "BYTES", 1)
    monkeypatch.setattr(projecting, "LARGEST", 100)
    p, m = 6_000, 256
    Z, y = stream("regression", p + m)
    model = EigenPro(Gaussian(), task="regression", centers=Z[:p], batch_size=m, shards=shards(3))
    model.learn_many(Z[p:], y[p:])
    solver: Any = model._centered.solver
    assert solver.n_temporary == m
    tracemalloc.start()
    try:
        model.decision_many(Z[:m])
        solver.projected(np.ones((p, 1)), np.zeros((p, 1)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < m * p * 8 / 5


# --- centers --------------------------------------------------------------------------------------


def centers_of(maker: Any, pieces: tuple[int, ...]) -> Any:
    """Some centers, appended in pieces."""
    rng = np.random.default_rng(0)
    n = sum(pieces)
    Z, A = rng.normal(size=(n, 4)).astype(np.float32), rng.normal(size=(n, 3))
    centers, at = maker(Laplacian(), n, n_columns=4, n_outputs=3), 0
    for size in pieces:
        centers.add(Z[at : at + size], A[at : at + size])
        at += size
    return centers


def of_shards(count: int) -> Any:
    return lambda *some, **options: ShardedCenters(shards(count), *some, **options)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("pieces", [(1,), (64,), (10, 54, 1), (300, 1, 200), (64,) * 9 + (5,)])
def test_centers_on_shards_do_as_those_on_the_host(count: int, pieces: tuple[int, ...]) -> None:
    rng, n = np.random.default_rng(1), sum(pieces)
    host, there = centers_of(HostCenters, pieces), centers_of(of_shards(count), pieces)
    X, W = rng.normal(size=(37, 4)).astype(np.float32), rng.normal(size=(37, 2))

    def check(X: Any) -> None:
        assert len(there) == len(host) == n
        assert (there.n_outputs, there.capacity) == (host.n_outputs, host.capacity)
        np.testing.assert_array_equal(there.points, host.points)
        slots = np.arange(0, n, 3)
        np.testing.assert_array_equal(there.coefficients(slots), host.coefficients(slots))
        np.testing.assert_allclose(there.outputs(X), host.outputs(X), atol=2e-5)
        for dtype, atol in ((np.float32, 1e-5), (np.float64, 1e-12)):
            values = (centers.values(X, W, dtype=dtype) for centers in (there, host))
            np.testing.assert_allclose(*values, atol=atol)

    check(X)
    slots = rng.permutation(n)[: n // 2 + 1]
    A = rng.normal(size=(len(slots), 3))
    for centers in (host, there):
        centers.set_coefficients(slots, A)
        centers.set_coefficients(slots[:1], 2.0 * A[:1])
    check(X)
    theta = rng.normal(size=(n, 2))
    one, other = host.with_coefficients(theta), there.with_coefficients(theta)
    for expansion in (one, other):
        expansion.set_coefficients(slots[:5], -theta[:1])
    np.testing.assert_allclose(other.outputs(X), one.outputs(X), atol=2e-5)
    for centers in (host, there):
        centers.set_coefficients(slots[:3], A[:3])
        centers.add_columns(2)
    wide = np.c_[X, X[:, :2]]
    check(wide)
    for centers in (host, there):
        centers.set_coefficients(slots[:3], -A[:3])
        centers.set_outputs(theta[:, [0, 1, 1, 0]])
    check(wide)


@pytest.mark.parametrize("count", [1, 3])
def test_pieces_and_order_of_calls_change_no_bit(count: int) -> None:
    X = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    first = centers_of(of_shards(count), (500,))
    for pieces in ((1, 499), (64, 64, 372), (100,) * 5):
        centers = centers_of(of_shards(count), pieces)
        np.testing.assert_array_equal(centers.outputs(X), first.outputs(X))


def test_events_go_to_the_shards_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    centers = centers_of(of_shards(2), (130,))
    at_once = centers.outputs(X)
    monkeypatch.setattr(sharded, "BYTES", 7 * (4 * 4 + 8 * 2 * 3))
    np.testing.assert_array_equal(centers.outputs(X), at_once)


def test_nothing_of_nothing_is_zero() -> None:
    centers = ShardedCenters(shards(2), Laplacian(), 5, n_columns=3, n_outputs=0)
    X = np.zeros((4, 3), np.float32)
    assert centers.outputs(X).shape == (4, 0)
    assert centers.values(X, np.ones((4, 2))).shape == (0, 2)
    centers.set_outputs(np.zeros((0, 2)))
    np.testing.assert_array_equal(centers.outputs(X), np.zeros((4, 2)))
    centers.add(X[:2], np.ones((2, 2)))
    assert centers.outputs(X[:0]).shape == (0, 2)
    np.testing.assert_array_equal(centers.values(X[:0], np.ones((0, 2))), np.zeros((2, 2)))
    none = ShardedCenters(shards(2), Laplacian(), 5, n_columns=0, n_outputs=1)
    none.add(np.zeros((2, 0), np.float32), np.ones((2, 1)))
    np.testing.assert_array_equal(none.outputs(np.zeros((3, 0), np.float32)), np.full((3, 1), 2.0))


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "torch"}, "backend='torch' must be one of auto, cupy"),
        ({"devices": 0, "backend": "cupy"}, "devices=0"),
        ({"devices": 2}, "devices=2 is for backend='cupy'"),
        ({"backend": "cupy", "shards": shards(1)}, "leave one of the two out"),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        EigenPro(Laplacian(), **options)
    state = EigenPro(Laplacian()).state()
    with pytest.raises(InvalidInput, match=message):
        EigenPro.from_state(state, **options)


def test_a_gpu_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: int | None) -> Any:
        raise BackendUnavailable("backend 'cupy' needs a GPU")

    monkeypatch.setattr(sharded.backends, "select_devices", none)
    with pytest.raises(BackendUnavailable, match="cupy"):
        EigenPro(Laplacian(), backend="cupy")
