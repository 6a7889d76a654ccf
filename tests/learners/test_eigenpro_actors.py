"""EigenPro's centers on Ray actors, whichever of them die.

Most tests take the place of Ray within this process, where every death can be tried; the last ones
kill real processes.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from eigenpro_kit import (
    TASKS,
    assert_alike,
    assert_it_goes_on_exactly,
    learner,
    life_of_a_model,
    stream,
)
from ray_kit import Fake, faking, real_ray
from state_kit import assert_same

from streamk.backends import select
from streamk.distributed import ActorShards, actors
from streamk.distributed import actors as module
from streamk.errors import BackendUnavailable, InvalidInput, WorkerLost
from streamk.learners import EigenPro
from streamk.learners.eigenpro import centered
from streamk.learners.eigenpro.shards import DeviceShards


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    return faking(monkeypatch, actors)


def outputs(shards: Any) -> Any:
    """What a small model gives, after choices of centers and projections."""
    X, y = stream("regression", 130)
    model = learner("regression", {"shards": shards}, n_centers=40, batch_size=24)
    model.learn_many(X[:100], y[:100])
    model.add_columns(["late"])
    model.add_centers(np.c_[X[100:104], np.ones((4, 1))])
    return model.decision_many(np.c_[X, X[:, 0]])


@pytest.mark.parametrize("large", [0, 1 << 30])
def test_actors_give_the_bits_of_shards_in_this_process(
    fake: Fake, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake()
    monkeypatch.setattr(module, "LARGE", large)
    monkeypatch.setattr(centered, "BYTES", 1)
    expected = outputs(DeviceShards([select()] * 2))
    with ActorShards(2) as shards:
        np.testing.assert_array_equal(outputs(shards), expected)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_actor_may_die_at_any_call(
    fake: Fake, when: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By day at the first call of each kind, the last of all, and each so many."""
    monkeypatch.setattr(centered, "BYTES", 1)
    ray = fake()
    expected = outputs(ActorShards(2))
    calls = ray.calls
    assert len(calls) > 50
    firsts = {calls.index(one) for one in {*calls}}
    for fatal in sorted({*firsts, *range(0, len(calls), step), len(calls) - 1}):
        fake(lambda number, _, fatal=fatal: when if number == fatal else "")
        shards = ActorShards(2)
        np.testing.assert_array_equal(outputs(shards), expected)
        assert shards.restarts <= 1  # none where it died over what was dropped


def test_actors_may_die_again_and_again(fake: Fake) -> None:
    fake()
    expected = outputs(ActorShards(2))
    # At ever longer intervals: a new actor is told more or less, by what garbage was collected.
    deaths = {n * (n + 1) // 2 for n in range(50)}
    fake(lambda number, _: "after" if number in deaths else "")
    shards = ActorShards(2, max_restarts=99)
    np.testing.assert_array_equal(outputs(shards), expected)
    assert shards.restarts > 8


def test_an_actor_that_keeps_dying_is_given_up_and_the_state_goes_on(fake: Fake) -> None:
    fake()
    X, y = stream("classification", 500)
    model = learner("classification", {"shards": ActorShards(2)})
    model.learn_many(X, y)
    state, expected = model.state(), model.decision_many(X)
    ray = fake()
    shards = ActorShards(2, max_restarts=1)
    model = EigenPro.from_state(state, shards=shards)
    ray.death = lambda *_: "before"
    with pytest.raises(WorkerLost, match=r"shard 0 died.*1 times.*max_restarts"):
        model.decision_many(X)
    assert_alike([EigenPro.from_state(state).decision_many(X)], [expected])


def test_a_model_of_closed_actors_has_a_state_and_says_how_to_go_on(fake: Fake) -> None:
    ray = fake()
    X, y = stream("classification", 500)
    with ActorShards(3) as shards:
        model = learner("classification", {"shards": shards})
        model.learn_many(X, y)
        expected = model.decision_many(X)
    assert not any(actor.alive for _, actor in ray.hired)
    with pytest.raises(InvalidInput, match=r"closed; open its state with new ones: from_state"):
        model.decision_many(X)
    with ActorShards(3) as shards:
        again = EigenPro.from_state(model.state(), shards=shards)
        np.testing.assert_array_equal(again.decision_many(X), expected)
        assert_same(again, model)


def test_actors_forget_what_is_gone(fake: Fake) -> None:
    ray = fake()
    shards = ActorShards(2)
    outputs(shards)
    for _, actor in ray.hired:
        assert not actor.inside._shard._parts


def test_errors_of_an_actor_are_its_own(fake: Fake) -> None:
    fake()

    def none(_: str) -> Any:
        raise BackendUnavailable("backend 'cupy' needs a GPU")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.backends, "select", none)
        with pytest.raises(BackendUnavailable, match="shard 0: backend 'cupy'"):
            outputs(ActorShards(2, backend="cupy"))


def test_options_reach_ray(fake: Fake) -> None:
    ray = fake()
    ActorShards(2, options={"num_gpus": 1})
    assert [chosen for chosen, _ in ray.hired] == [{"num_gpus": 1, "max_restarts": 0}] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count=0"),
        ({"threads": 0}, "threads=0"),
        ({"max_restarts": -1}, "max_restarts=-1"),
        ({"backend": "torch"}, "backend='torch' must be auto or cupy"),
        ({"options": [{}]}, "1 mappings for 2 shards"),
    ],
)
def test_options_out_of_their_domain(fake: Fake, options: dict[str, Any], message: str) -> None:
    fake()
    with pytest.raises(InvalidInput, match=message):
        ActorShards(**{"count": 2} | options)


def test_ray_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendUnavailable, match=r"pip install 'streamk\[ray\]'"):
        ActorShards(2)


# --- real processes -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray on this machine."""
    with real_ray() as ray:
        ray.init(
            num_cpus=3,
            object_store_memory=80 << 20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
        )
        yield ray


@pytest.mark.slow
@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    "task", [TASKS[0], *(pytest.param(task, marks=pytest.mark.nightly) for task in TASKS[1:])]
)
def test_real_actors_give_what_the_host_gives(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centered, "BYTES", 1)
    with ActorShards(2) as shards:
        assert_alike(life_of_a_model(task, {"shards": shards}), life_of_a_model(task, {}))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.usefixtures("ray")
def test_a_learner_on_real_actors_goes_on_exactly() -> None:
    with ActorShards(3) as shards:
        assert_it_goes_on_exactly(lambda: {"shards": shards})


@pytest.mark.nightly
@pytest.mark.slow
def test_real_processes_are_killed_while_a_model_learns(
    ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a batch, between steps of a projection, and before a prediction."""
    monkeypatch.setattr(centered, "BYTES", 1)
    X, y = stream("classification", 1500)

    def learned(killing: bool) -> tuple[int, Any]:
        with ActorShards(2) as shards:

            def kill(s: int) -> None:
                if killing:
                    worker = shards._workers[s]
                    process = ray.get(worker.__ray_call__.remote(lambda _: os.getpid()))
                    os.kill(process, signal.SIGKILL)

            model = learner("classification", {"shards": shards})
            model.learn_many(X[:800], y[:800])
            kill(0)
            model.learn_many(X[800:1000], y[800:1000])
            solve, seen = shards.ask, [0]

            def ask(method: str, each: Any) -> Any:
                seen[0] += method == "share"
                if method == "outputs" and seen[0] == 1:
                    seen[0] += 1
                    kill(1)
                return solve(method, each)

            with monkeypatch.context() as patch:
                patch.setattr(shards, "ask", ask)
                model.learn_many(X[1000:], y[1000:])
            assert seen[0] > 2
            kill(1)
            answer = model.decision_many(X[:100])
            return shards.restarts, answer

    (none, expected), (deaths, found) = learned(False), learned(True)
    assert (none, deaths) == (0, 3)
    np.testing.assert_array_equal(found, expected)
