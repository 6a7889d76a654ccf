"""oASIS-P: the landmarks of one machine, on several, whichever of them die.

Most tests take the place of Ray within this process, where every death can be tried; the last ones
kill real processes.
"""

from __future__ import annotations

import os
import signal
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from ray_kit import Fake, faking, two_raylets

from streamk.distributed import ShardedLandmarks, actors, oasis_parallel
from streamk.distributed import oasis as worker_pool
from streamk.distributed.oasis import OasisRun, Worker
from streamk.errors import BackendUnavailable, InvalidInput, WorkerLost
from streamk.kernels import Gaussian, Kernel, Laplacian, Linear
from streamk.landmarks import Diffusion, oasis

Matrix = NDArray[np.float64]

X = np.random.default_rng(0).normal(size=(1200, 3)) * [1.0, 2.0, 0.5]
SMALL = X[:90]
KERNEL = Gaussian(bandwidth=1.5)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    return faking(monkeypatch, actors, worker_pool)


def cut(points: Matrix, *edges: int) -> list[Matrix]:
    return np.split(points, edges)


def whole_factor(found: ShardedLandmarks) -> Matrix:
    return np.concatenate([found.factor(s) for s in range(len(found.offsets) - 1)])


def assert_alike(found: ShardedLandmarks, points: Matrix, kernel: Kernel, **options: Any) -> None:
    """Everything that both have is equal, bit for bit."""
    alone = oasis(points, kernel, **options)
    assert np.array_equal(found.indices, alone.indices)
    assert np.array_equal(found.schur, alone.schur)
    assert np.array_equal(found.points, alone.points)
    assert (found.n, found.stopped, len(found)) == (alone.n, alone.stopped, len(alone))
    assert np.array_equal(whole_factor(found), alone.factor)
    assert whole_factor(found).dtype == alone.factor.dtype
    assert np.array_equal(found.transform(points[:7]), alone.transform(points[:7]))
    assert np.array_equal(found.W_inverse, alone.W_inverse)


@pytest.mark.parametrize("edges", [(400, 401, 900), tuple(range(40, 400, 40))])
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (KERNEL, {"max_landmarks": 80}),
        (KERNEL, {"max_landmarks": 60, "n_init": 7, "seed": 5, "dtype": "float32"}),
        (KERNEL, {"max_landmarks": 400, "tol": 1e-3, "n_init": 0}),
        (Laplacian(bandwidth=1.0), {"max_landmarks": 90}),
        (Linear(), {"max_landmarks": 10}),
    ],
    ids=["count", "single", "tolerance", "laplacian", "rank"],
)
def test_landmarks_are_those_of_one_machine(
    fake: Fake, kernel: Kernel, options: dict[str, Any], edges: tuple[int, ...]
) -> None:
    fake()
    with oasis_parallel(cut(X, *edges), kernel, **options) as found:
        assert_alike(found, X, kernel, **options)


def test_of_equal_complements_the_first_row_counts(fake: Fake) -> None:
    fake()
    grid = np.stack(np.meshgrid(range(8), range(8)), axis=-1).reshape(-1, 2)
    twins = np.concatenate([grid, grid[::-1], grid]).astype(float)
    for n_init in (0, 1, 150):
        options = {"max_landmarks": 200, "n_init": n_init}
        found = oasis_parallel(cut(twins, 30, 100, 130), KERNEL, **options)
        assert_alike(found, twins, KERNEL, **options)
        assert len(found) == 64


def test_shards_are_files_functions_and_arrays(fake: Fake, tmp_path: Path) -> None:
    fake()
    np.save(tmp_path / "first.npy", X[:300])
    np.save(tmp_path / "second.npy", X[300:500])
    shards = [
        str(tmp_path / "first.npy"),
        tmp_path / "second.npy",
        lambda: X[500:900],
        X[900:].tolist(),
    ]
    found = oasis_parallel(shards, KERNEL, max_landmarks=30)
    assert_alike(found, X, KERNEL, max_landmarks=30)
    assert found.offsets.tolist() == [0, 300, 500, 900, 1200]
    with pytest.raises(InvalidInput, match="shard=4 must be from 0 to 3"):
        found.factor(4)


def test_only_points_that_are_chosen_travel(fake: Fake) -> None:
    ray = fake()
    oasis_parallel(cut(X, 500), KERNEL, max_landmarks=40)
    assert ray.calls.count("points") == 40
    assert ray.calls.count("extend") == 2 * 40
    assert set(ray.calls) == {"load", "begin", "points", "extend"}


OPTIONS: dict[str, Any] = {"max_landmarks": 12, "n_init": 2}


def calls_of(fake: Fake, **options: Any) -> int:
    ray = fake()
    oasis_parallel(cut(SMALL, 20, 50), KERNEL, **options)
    return len(ray.calls)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_may_die_at_any_call(fake: Fake, when: str) -> None:
    for fatal in range(calls_of(fake, **OPTIONS)):
        fake(lambda number, _, fatal=fatal: when if number == fatal else "")
        found = oasis_parallel(cut(SMALL, 20, 50), KERNEL, **OPTIONS)
        assert found.restarts == 1
        assert_alike(found, SMALL, KERNEL, **OPTIONS)


def test_workers_may_die_again_and_again(fake: Fake) -> None:
    ray = fake(lambda number, _: "after" if number % 9 == 8 else "")
    found = oasis_parallel(cut(SMALL, 20, 50), KERNEL, max_restarts=99, **OPTIONS)
    deaths = found.restarts
    assert deaths >= 8
    assert len(ray.hired) == 3 + deaths
    ray.death = lambda *_: ""
    assert_alike(found, SMALL, KERNEL, **OPTIONS)


def test_a_death_in_a_block_changes_nothing(fake: Fake) -> None:
    options = {**OPTIONS, "block_size": 4}
    calls = calls_of(fake, **options)
    quiet = oasis_parallel(cut(SMALL, 20, 50), KERNEL, **options)
    for fatal in range(calls):
        fake(lambda number, _, fatal=fatal: "after" if number == fatal else "")
        found = oasis_parallel(cut(SMALL, 20, 50), KERNEL, **options)
        assert found.restarts == 1
        assert np.array_equal(found.indices, quiet.indices)
        assert np.array_equal(found.schur, quiet.schur)


def test_a_factor_is_found_again_when_its_worker_is_gone(fake: Fake) -> None:
    ray = fake()
    found = oasis_parallel(cut(SMALL, 20, 50), KERNEL, **OPTIONS)
    ray.kill(ray.hired[1][1])
    assert_alike(found, SMALL, KERNEL, **OPTIONS)
    assert found.restarts == 1
    assert repr(found).endswith(f"rows in 3 shards, {found.stopped!r}>")
    found.close()
    assert not any(actor.alive for _, actor in ray.hired)
    hired = len(ray.hired)
    with pytest.raises(InvalidInput, match=r"factor of shard 1 is gone.*before close"):
        found.factor(1)
    found.close()
    assert len(ray.hired) == hired
    assert len(found.transform(SMALL)) == len(SMALL)


def test_a_shard_whose_workers_keep_dying_is_given_up(fake: Fake) -> None:
    ray = fake(lambda number, method: "before" if method == "load" and number else "")
    with pytest.raises(WorkerLost, match=r"shard 1 died.*2 times.*max_restarts.*before call"):
        oasis_parallel(cut(SMALL, 50), KERNEL, max_landmarks=5, max_restarts=2)
    assert not any(actor.alive for _, actor in ray.hired)


def test_a_shard_must_be_the_same_when_it_is_read_again(fake: Fake) -> None:
    reads: list[int] = []

    def growing() -> Matrix:
        reads.append(1)
        return X[: 50 + len(reads)]

    fake(lambda number, _: "before" if number == 9 else "")
    with pytest.raises(InvalidInput, match=r"shard 0 has changed: Size\(rows=52.*rows=51"):
        oasis_parallel([growing], KERNEL, max_landmarks=20)


@pytest.mark.parametrize("block_size", [2, 8, 32])
def test_a_block_is_an_approximation_within_a_factor_of_two(fake: Fake, block_size: int) -> None:
    ray = fake()
    shards = cut(X, 300, 310, 800)
    found = oasis_parallel(shards, KERNEL, max_landmarks=100, block_size=block_size)
    assert len(set(found.indices.tolist())) == len(found) == 100
    assert np.array_equal(found.points, X[found.indices])
    F = whole_factor(found)
    left = KERNEL.diagonal(X)[:, None] - np.cumsum(F**2, axis=1)
    for k in range(1, 100):
        assert found.schur[k] >= 0.5 * left[:, k - 1].max() - 1e-12
        assert found.schur[k] == pytest.approx(left[found.indices[k], k - 1], abs=1e-9)
    alone = oasis(X, KERNEL, max_landmarks=100)
    assert left[:, -1].sum() <= 1.5 * alone.residual.sum()
    rounds = ray.calls.count("extend") // len(shards)
    assert rounds <= {2: 60, 8: 30, 32: 20}[block_size]


def test_a_block_stops_where_one_by_one_stops(fake: Fake) -> None:
    fake()
    for options, stopped in (({"tol": 1e-2}, "tolerance"), ({}, "rounding"), ({}, "all")):
        points, kernel = (X[:15], Gaussian(bandwidth=0.05)) if stopped == "all" else (X, Linear())
        if stopped == "tolerance":
            kernel = KERNEL
        found = oasis_parallel(cut(points, 7), kernel, max_landmarks=400, block_size=16, **options)
        assert found.stopped == stopped
        largest = (kernel.diagonal(points) - (whole_factor(found) ** 2).sum(axis=1)).max()
        assert largest <= max(options.get("tol", 0.0), 1e-9)


def test_a_worker_has_the_landmarks_once() -> None:
    few, count = 20, 800
    worker = Worker(X[:few], Gaussian(bandwidth=0.1), np.dtype(np.float64), 1)
    worker.load()
    tracemalloc.start()
    try:
        worker.begin(count)
        worker.extend(X[few : few + count], [None] * count, 1)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 10 * count**2  # 8 for L


def test_options_reach_ray(fake: Fake) -> None:
    ray = fake()
    oasis_parallel(cut(SMALL, 50), KERNEL, max_landmarks=3, options={"num_cpus": 2})
    assert [chosen for chosen, _ in ray.hired] == [{"num_cpus": 2, "max_restarts": 0}] * 2
    ray = fake()
    oasis_parallel(cut(SMALL, 50), KERNEL, max_landmarks=3, options=[{}, {"num_cpus": 3}])
    assert [chosen.get("num_cpus") for chosen, _ in ray.hired] == [None, 3]


@pytest.mark.parametrize(
    ("shards", "options", "says"),
    [
        ([], {}, "at least one shard"),
        (X, {}, r"such as \[X\]"),
        ("points.npy", {}, "must be a list"),
        ([X, X[:, :2]], {}, "shard 1 has 2 columns and shard 0 has 3"),
        ([X, X[0]], {}, "shard 1: the shard must be a matrix"),
        ([X, X[:0]], {}, "shard 1: the shard has no points"),
        ([[[1.0]], [[np.nan]]], {}, "shard 1: the shard has the value nan in row 0, column 0"),
        (["/nowhere/points.npy"], {}, r"shard 0: .*points\.npy cannot be read where its worker"),
        ([X], {"max_landmarks": 0}, "max_landmarks=0"),
        ([X], {"block_size": 0}, "block_size=0"),
        ([X], {"threads": 0}, "threads=0"),
        ([X], {"max_restarts": -1}, "max_restarts=-1"),
        ([X], {"dtype": "float16"}, "float32 or float64"),
        ([X], {"options": [{}, {}]}, "2 mappings for 1 shards"),
        ([X], {"kernel": Diffusion(KERNEL)}, r"take streamk\.landmarks\.oasis"),
        ([X], {"kernel": "precomputed"}, "must be a streamk Kernel"),
    ],
)
def test_bad_input_is_explained(
    fake: Fake, shards: Any, options: dict[str, Any], says: str
) -> None:
    ray = fake()
    arguments: dict[str, Any] = {"kernel": KERNEL, "max_landmarks": 5, **options}
    with pytest.raises(InvalidInput, match=says):
        oasis_parallel(shards, **arguments)
    assert not any(actor.alive for _, actor in ray.hired)


def test_an_error_of_a_users_function_is_its_own(fake: Fake) -> None:
    fake()

    def broken() -> Matrix:
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user") as caught:
        oasis_parallel([X, broken], KERNEL, max_landmarks=5)
    assert caught.value.__notes__ == ["in the worker of shard 1"]


def test_ray_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'streamk\[ray\]'"):
        oasis_parallel([X], KERNEL, max_landmarks=5)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with two_raylets() as found:
        yield found


def preferably_on(node: Any) -> dict[str, Any]:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node.node_id, soft=True)}


@pytest.mark.nightly
@pytest.mark.slow
def test_real_workers_and_a_real_node_are_killed(cluster: Any, tmp_path: Path) -> None:
    ray = cluster.ray
    files = [tmp_path / "first.npy", tmp_path / "second.npy"]
    for file, points in zip(files, cut(X, 700), strict=True):
        np.save(file, points)
    dtype = np.dtype("float64")
    run = OasisRun(
        files,
        KERNEL,
        dtype=dtype,
        threads=1,
        options=[preferably_on(cluster.head), preferably_on(cluster.second)],
        max_restarts=3,
        max_landmarks=60,
        tol=0.0,
        block_size=1,
    )

    def whereabouts(s: int) -> tuple[int, str]:
        def ask(_: Any) -> tuple[int, str]:
            import ray

            return os.getpid(), ray.get_runtime_context().get_node_id()

        found: tuple[int, str] = ray.get(run._workers[s].__ray_call__.remote(ask))
        return found

    run.start(1, 0)
    for _ in range(20):
        run.step()
    process, node = whereabouts(0)
    assert node == cluster.head.node_id
    os.kill(process, signal.SIGKILL)
    run.step()
    assert run.restarts == 1
    for _ in range(10):
        run.step()
    process, node = whereabouts(1)
    assert node == cluster.second.node_id
    # A machine that is lost takes its workers with it.
    cluster.both.remove_node(cluster.second, allow_graceful=False)
    os.kill(process, signal.SIGKILL)
    run.step()
    # Ray may place the first successor where it has not missed the machine yet.
    assert 2 <= run.restarts <= 3
    assert whereabouts(1)[1] == cluster.head.node_id
    while not run.stopped:
        run.step()
    with run.result() as found:
        assert_alike(found, X, KERNEL, max_landmarks=60)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_real_worker_dies_over_its_shard(tmp_path: Path) -> None:
    def fatal_once() -> Matrix:
        if not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return X[:100]

    with oasis_parallel([X[100:200], fatal_once], KERNEL, max_landmarks=20) as found:
        assert found.restarts == 1
        assert_alike(found, np.concatenate([X[100:200], X[:100]]), KERNEL, max_landmarks=20)
