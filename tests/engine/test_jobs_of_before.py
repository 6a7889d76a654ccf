"""Jobs that an older streamk began go on with the same options, and with no others."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from engine_kit import events, learner, same_model

from connectors.memory import MemorySource
from streamk.engine import Engine
from streamk.engine.recovery.older_headers import in_format_of
from streamk.errors import StateError
from streamk.kernels import Gaussian
from streamk.learners import (
    Contest,
    FeatureMachine,
    MultiKernel,
    OnlineKernelRidge,
    Sharded,
    create,
)
from streamk.learners.multi_kernel.external_experts import ExternalExperts
from streamk.state import State

EVENTS = events(160, seed=1)
MODELS: dict[str, Any] = {
    "machine": lambda **options: create("feature-machine", task="classification", **options),
    "ridge": lambda **options: MultiKernel(
        external_experts=[OnlineKernelRidge(Gaussian())], **options
    ),
    "experts": lambda **options: MultiKernel(external_experts=[FeatureMachine()], **options),
    "shards": lambda **options: Sharded(
        MultiKernel(external_experts=[FeatureMachine()], **options), shards=2, round_events=16
    ),
}


def run(model: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stream = MemorySource(EVENTS)
        return Engine(stream, model, label="y", ignore=("id",), **options).run().model


def without(state: State, *names: str, written: int) -> State:
    """A state of another format, whose header lacks some names."""
    header = {name: value for name, value in state.header.items() if name not in names}
    return State({**header, "format": written}, state.arrays)


@contextmanager
def older_formats() -> Iterator[None]:
    """States are written as before machines had a bound, and rests alarms."""
    machine, experts = FeatureMachine.state, ExternalExperts.state

    def of_machine(self: FeatureMachine) -> State:
        return without(machine(self), "start", "max_width", written=1)

    def of_experts(self: ExternalExperts) -> State:
        state = without(experts(self), "alarms", written=2)
        arrays = {**state.arrays, "rests": state.arrays["rests"][:, :4]}
        return State(state.header, arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FeatureMachine, "state", of_machine)
        patch.setattr(ExternalExperts, "state", of_experts)
        yield


@pytest.mark.parametrize("name", MODELS)
def test_a_job_goes_on(name: str, tmp_path: Path) -> None:
    with older_formats():
        run(MODELS[name](), checkpoint=tmp_path, max_events=90)
    for stop in (130, None):
        found = run(MODELS[name](), checkpoint=tmp_path, max_events=stop)
    assert same_model(found, run(MODELS[name]()))


@pytest.mark.parametrize("name", ["machine", "experts"])
def test_a_job_goes_on_beside_challengers(name: str, tmp_path: Path) -> None:
    def contest(**options: Any) -> Contest:
        return Contest({"own": MODELS[name](**options), "other": learner()})

    with older_formats():
        run(contest(), checkpoint=tmp_path, max_events=90)
    with pytest.raises(StateError, match="model max_classes=1000, this run has 9"):
        run(contest(max_classes=9), checkpoint=tmp_path)
    for stop in (130, None):
        found = run(contest(), checkpoint=tmp_path, max_events=stop)
    assert same_model(found, run(contest()))
    shards = run(Sharded(MODELS[name](), shards=2), start_from=tmp_path)
    assert shards.n_events == 2 * len(EVENTS)


@pytest.mark.parametrize("name", MODELS)
def test_a_job_of_other_options_is_refused(name: str, tmp_path: Path) -> None:
    with older_formats():
        run(MODELS[name](), checkpoint=tmp_path, max_events=90)
    with pytest.raises(StateError, match="model max_classes=1000, this run has 9"):
        run(MODELS[name](max_classes=9), checkpoint=tmp_path)


def test_an_option_that_there_was_not_has_its_default(tmp_path: Path) -> None:
    with older_formats():
        run(MODELS["machine"](), checkpoint=tmp_path, max_events=90)
    with pytest.raises(StateError, match="model max_width=None, this run has 9"):
        run(MODELS["machine"](max_width=9), checkpoint=tmp_path)


def test_options_of_models_around_others_are_not_guessed() -> None:
    older = {"type": "sharded", "format": 1}
    newer = {"type": "sharded", "format": 2, "staleness": 0, "other": 3}
    assert in_format_of(older, newer) == {"type": "sharded", "format": 2, "staleness": 0}
    assert in_format_of(newer, older) == newer
