"""Shards learned by Ray actors, of which some die, and machines with them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from ray_kit import Fake, faking, two_raylets

from streamk.distributed import RayWorkers, Sharded, TaskDivision, actors, command
from streamk.errors import InvalidInput, WorkerLost
from streamk.packing import fingerprint
from tests.rounds_kit import events, model

N, SHARDS, LENGTH = 300, 4, 6
LIMITS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    return faking(monkeypatch, actors)


def learned(workers: TaskDivision | None, strikes: Any = None) -> str:
    """Return a digest of a model after all events; `strikes` is called between two calls."""
    X, y = events(N, "classification")
    sharded = Sharded(
        model("doubly-stochastic", "classification"),
        shards=SHARDS,
        round_events=LENGTH,
        workers=workers,
    )
    sharded.add_columns(range(4))
    for first in range(0, N, 50):
        sharded.learn_many(X[first : first + 50], y[first : first + 50])
        if strikes is not None:
            strikes(first)
    return fingerprint(sharded.state())


def test_actors_that_die_do_their_shards_again(fake: Fake) -> None:
    expected = learned(None)
    ray = fake(lambda call, _: {1: "before", 4: "after"}.get(call, ""))
    workers = RayWorkers(2)
    assert learned(TaskDivision(workers)) == expected
    assert workers.restarts == 2
    assert [options["num_cpus"] for options, _ in ray.hired] == [1] * 4
    workers.close()
    with pytest.raises(InvalidInput, match="closed"):
        workers.answer(0, b"")


def test_an_actor_that_dies_too_often(fake: Fake) -> None:
    fake(lambda call, _: "before" if call > 1 else "")
    with pytest.raises(WorkerLost, match="replaced 3 times"):
        learned(TaskDivision(RayWorkers(2)))


def test_actors_that_are_closed_at_work_are_not_replaced(fake: Fake) -> None:
    def closing(*_: Any) -> str:
        workers.close()
        return "before"

    ray = fake(closing)
    workers = RayWorkers(2)
    with pytest.raises(InvalidInput, match="closed"):
        learned(TaskDivision(workers))
    assert len(ray.hired) == 2
    assert workers.restarts == 0


def test_there_is_an_actor_at_least(fake: Fake) -> None:
    fake()
    with pytest.raises(InvalidInput, match="count=0"):
        RayWorkers(0)


def test_actors_take_one_thread_unless_told_otherwise(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in LIMITS:
        monkeypatch.delenv(name, raising=False)
    ray = fake()
    RayWorkers(1)
    chosen = {"env_vars": {"OMP_NUM_THREADS": "4"}, "pip": ["some"]}
    RayWorkers(1, options={"num_gpus": 1, "runtime_env": chosen})
    (one, _), (two, _) = ray.hired
    assert one["runtime_env"] == {"env_vars": dict.fromkeys(LIMITS, "1")}
    assert two["num_gpus"] == 1
    variables = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "4"}
    assert two["runtime_env"] == {"env_vars": variables, "pip": ["some"]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with two_raylets() as found:
        yield found


@pytest.mark.nightly
@pytest.mark.parametrize("placing", [{"backend": "cupy"}, {"placings": [{"backend": "cupy"}]}])
def test_actors_of_a_model_on_gpus_have_one_each(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, placing: dict[str, Any]
) -> None:
    """Ray shows each actor its own, and the model computes on the first that it sees."""
    for name in LIMITS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(command, "_connect", lambda *_: None)

    def ask(_: Any) -> tuple[Any, ...]:
        return tuple(os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", *LIMITS))

    with ExitStack() as stack:
        model = SimpleNamespace(placing=placing)
        division = command._workers(2, "auto", model, stack)
        actors = division._workers._workers
        found = [cluster.ray.get(actor.__ray_call__.remote(ask)) for actor in actors]
    assert sorted(found) == [("0", *["1"] * 4), ("1", *["1"] * 4)]


@pytest.mark.nightly
def test_a_real_machine_is_lost(cluster: Any) -> None:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    place = NodeAffinitySchedulingStrategy(cluster.second.node_id, soft=True)
    workers = RayWorkers(2, options={"num_cpus": 1, "scheduling_strategy": place})

    def ask(_: Any) -> int:
        return os.getpid()

    def strike(first: int) -> None:
        processes = [cluster.ray.get(w.__ray_call__.remote(ask)) for w in workers._workers]
        if first == 200:
            os.kill(processes[0], signal.SIGKILL)
        if first == 250:
            cluster.both.remove_node(cluster.second, allow_graceful=False)
            for process in processes:  # which a machine takes with it
                os.kill(process, signal.SIGKILL)

    def struck(first: int) -> None:
        if first in (200, 250):
            strike(first)

    expected = learned(None)
    with TaskDivision(workers) as division:
        assert learned(division, struck) == expected
    assert workers.restarts >= 1
