"""EigenPro with its centers on devices, against the one on the host; see `cuda_kit`."""

from __future__ import annotations

from typing import Any

import pytest
from cuda_kit import FORWARDS, GPU_LACKS, backend_at
from eigenpro_kit import (
    TASKS,
    Place,
    assert_a_run_gives_the_same_bits_again,
    assert_a_state_does_not_say_where_the_centers_were,
    assert_alike,
    assert_an_output_is_the_same_in_whatever_batch,
    assert_it_goes_on_exactly,
    life_of_a_model,
    stream,
)

from streamk import backends
from streamk.cli.model_options import build
from streamk.learners.eigenpro import centered


@pytest.fixture(params=FORWARDS)
def devices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three devices, which a GPU stands for where there is one."""
    found = [backend_at(request.param) for _ in range(3)]
    monkeypatch.setattr(backends, "select_devices", lambda count=None: found[: count or 3])


def place(count: int | None) -> Place:
    return {"backend": "cupy", "devices": count}


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("projection", ["exact", "inexact"])
@pytest.mark.parametrize("count", [1, 3])
def test_outputs_are_those_of_the_host(
    task: str, projection: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if projection == "inexact":
        monkeypatch.setattr(centered, "BYTES", 1)
    assert_alike(life_of_a_model(task, place(count)), life_of_a_model(task, {}))


@pytest.mark.usefixtures("devices")
def test_a_run_gives_the_same_bits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centered, "BYTES", 1)
    assert_a_run_gives_the_same_bits_again(lambda: place(None))


@pytest.mark.usefixtures("devices")
def test_a_restored_learner_goes_on_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centered, "BYTES", 1)
    assert_it_goes_on_exactly(lambda: place(3))


@pytest.mark.usefixtures("devices")
def test_an_output_is_the_same_in_whatever_batch() -> None:
    assert_an_output_is_the_same_in_whatever_batch(place(3))


@pytest.mark.usefixtures("devices")
def test_a_model_goes_on_in_another_place() -> None:
    assert_a_state_does_not_say_where_the_centers_were(place(3), place(1))


@pytest.mark.usefixtures("devices")
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
    monkeypatch.setattr(centered, "BYTES", 1)
    assert len(backends.select_devices()) >= 1
    assert_alike(life_of_a_model(task, place(None)), life_of_a_model(task, {}))
