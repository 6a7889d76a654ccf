"""A checkpoint that was made by another command line: the options are named as they are given."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from streamk.cli.model_options import build
from streamk.cli.run import told_by_options
from streamk.engine.recovery.job import AnotherJob
from streamk.errors import StateError


def told(name: str, theirs: Any, mine: Any) -> str:
    """Return what the command says of a difference that the engine has found."""
    eigenpro = ["eigenpro:n_centers=20"]
    model = build("multi-kernel", task="regression", seed=0, settings=[], experts=eigenpro)
    error = AnotherJob("state/0", name, theirs, mine, model.state().header)
    with pytest.raises(StateError) as raised, told_by_options():
        raise error
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "theirs", "mine", "said"),
    [
        ("external_experts", "feature-machine", None, "--expert feature-machine|--expert none"),
        ("external_experts", None, "a, b", "--expert none|--expert a --expert b"),
        ("external_experts.learners", 1, 2, "1 external expert (--expert)|2 external experts"),
        ("external_experts.0.type", "a", "eigenpro", "--expert a|--expert eigenpro"),
        ("external_experts.0.n_centers", 9, 20, "--expert eigenpro:n_centers=9|--expert eigenpro:"),
        ("external_experts.0.kernel.kernel", "ntk", "b", "--expert eigenpro:kernel=ntk|--expert"),
    ],
)
def test_external_experts_are_named_by_their_option(
    name: str, theirs: Any, mine: Any, said: str
) -> None:
    found = told(f"model {name}", theirs, mine)
    one, other = said.split("|")
    assert found.startswith(f"the checkpoint state/0 was made with {one}, this run with {other}")
    assert ("; leave out --expert" in found) == ("--expert eigenpro:" not in said)
    assert ("; give --expert with the options it had" in found) == ("--expert eigenpro:" in said)
    assert found.endswith(", or begin in another checkpoint directory")


@pytest.mark.parametrize(
    ("name", "theirs", "mine", "said"),
    [
        (
            "model type",
            "eigenpro",
            "kernel-ridge",
            "--model eigenpro, this run with --model kernel-",
        ),
        (
            "model task",
            "regression",
            "classification",
            "--task regression, this run with --task cl",
        ),
        (
            "model kernel.bandwidth",
            0.5,
            2.0,
            "--set bandwidth=0.5, this run with --set bandwidth=2",
        ),
        (
            "model loss.name",
            "huber",
            "squared",
            "--set loss=huber, this run with --set loss=squared",
        ),
        ("label", "y", "z", "--label y, this run with --label z"),
        ("max_skew", None, 60.0, "--max-skew inf, this run with --max-skew 60;"),
        ("ignore", [], ["x1", "x2"], "no --ignore, this run with --ignore x1 --ignore x2; use"),
        ("schema", "open", "strict", "--schema open, this run with --schema strict; use the same"),
        ("schema", "open", {"columns": ["a"]}, "--schema open, this run with --schema FILE; use"),
        ("schema", {"columns": ["a"]}, {"columns": []}, "--schema FILE, this run with another;"),
        ("delimiter", ";", "\t", "delimiter=;, this run with delimiter=tab; give it in the addr"),
    ],
)
def test_other_options_are_named_as_they_are_given(
    name: str, theirs: Any, mine: Any, said: str
) -> None:
    assert f"was made with {said}" in told(name, theirs, mine)


@pytest.mark.parametrize("name", ["encoding", "model type", "model external_experts.born"])
def test_options_that_the_command_has_not_are_named_by_the_engine(name: str) -> None:
    assert f"was made with {name}='a', this run has 'b'" in told(name, "a", "b")


def test_what_the_engine_found_can_be_pickled_and_copied() -> None:
    error = AnotherJob("state/0", "label", "y", 1, {"type": "eigenpro"})
    error.add_note("of the first job")
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is AnotherJob
        assert str(same) == str(error)
        assert vars(same) == vars(error)
