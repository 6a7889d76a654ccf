"""Wrong options of models: each message names the option as it was given, and what to do."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streamk.cli.arguments import UsageError
from streamk.cli.model_options import build
from streamk.errors import InvalidInput
from streamk.learners import FeatureMachine, MultiKernel, create


def of_command(model: str, *settings: str, expert: str | None = None) -> str:
    """Return the message of a command line."""
    pairs = [(key, text) for key, _, text in (one.partition("=") for one in settings)]
    experts = None if expert is None else [expert]
    with pytest.raises((UsageError, InvalidInput)) as raised:
        build(model, task="classification", seed=0, settings=pairs, experts=experts)
    return str(raised.value)


@pytest.mark.parametrize(
    ("model", "option", "hint"),
    [
        ("multi-kernel", "max_widht=9", "'max_width'? It is for --model feature-machine"),
        ("feature-machine", "max_widht=9", "did you mean 'max_width'?"),
        ("feature-machine", "depth=2", "; --model online-nystrom has it"),
        ("multi-kernel", "max_features=9", "; --model doubly-stochastic has it"),
        ("multi-kernel", "rank=9", "; --model streaming-meka has it"),
        ("multi-kernel", "seed=9", "; it is an option by itself: --seed 9"),
        ("feature-machine", "task=regression", "by itself: --task regression"),
        ("multi-kernel", "external_experts=none", "by itself: --expert none"),
    ],
)
def test_the_hint_is_at_the_option_that_was_meant(model: str, option: str, hint: str) -> None:
    said = of_command(model, option)
    assert said.startswith(f"--set {option.partition('=')[0]}: {model} has no such option")
    assert said.endswith(hint)


@pytest.mark.parametrize(
    ("settings", "begins"),
    [
        (["kernel=linear"], "--set kernel=linear: kernel 'linear' has no closed form"),
        (["first=64", "bandwidth=-1"], "--set bandwidth=-1.0 of Matern must be a positive"),
        (["rounds=2", "gamma=1"], "--set gamma=1: kernel 'matern' takes no gamma"),
        (["kernel=laplacian", "metric=full"], "--set kernel=laplacian --set metric=full: kernel"),
        (["max_width=0"], "--set max_width: 0 is too small; the minimum is 1"),
    ],
)
def test_a_value_that_the_model_refuses_is_named_as_it_was_set(
    settings: list[str], begins: str
) -> None:
    assert of_command("feature-machine", *settings).startswith(begins)


def test_a_weight_and_a_size_are_named_as_they_were_set() -> None:
    said = of_command("multi-kernel", "class_weight=a:-1")
    assert said.startswith("--set class_weight=a:-1: class_weight gives 'a' the weight")
    said = of_command("doubly-stochastic", "step=-1")
    assert said == "--set step: the size -1 must be a positive number"


@pytest.mark.parametrize(
    ("expert", "said"),
    [
        ("feature-machine:max_width=0", "max_width: 0 is too small; the minimum is 1"),
        ("feature-machine:kernel=linear", "kernel 'linear' has no closed form"),
        ("feature-machine:seed=3", "it is an option by itself: --seed 3"),
        ("feature-machine:rank=3", "the model streaming-meka has it"),
        ("feature-machine,max_width=3", "did you mean 'feature-machine'?"),
        ("multi-kernel", "not a model of one kernel (there are doubly-stochastic, "),
    ],
)
def test_an_expert_that_cannot_be_made_is_named_as_it_was_given(expert: str, said: str) -> None:
    message = of_command("multi-kernel", expert=expert)
    assert message.startswith(f"--expert {expert}: ")
    assert said in message
    assert message.count("kernel=linear") <= 1


def test_python_is_told_the_options_there_are() -> None:
    with pytest.raises(InvalidInput, match="'multi-kernel' has no option 'max_width'; there are"):
        create("multi-kernel", task="regression", max_width=1)
    said = "'online-nystrom' has no option 'ranks'; there are bandwidth, .*kernel, "
    with pytest.raises(InvalidInput, match=said):
        create("online-nystrom", task="regression", kernel="laplacian", ranks=1)


def test_an_expert_without_a_loss_is_told_of_its_task() -> None:
    machine = FeatureMachine(task="regression")
    said = r"external_experts\[0\] learns numbers.* make it with task='classification', or"
    with pytest.raises(InvalidInput, match=said):
        MultiKernel(external_experts=[machine])


@pytest.mark.parametrize("loss", ["softmax", "foo"])
def test_a_loss_of_classes_is_not_said_to_be_one_of_numbers(loss: str) -> None:
    said = f"loss={loss!r}: this option is for numbers; leave it out"
    with pytest.raises(InvalidInput, match=re.escape(said)):
        MultiKernel(loss=loss)


@pytest.mark.parametrize("library", ["river", "sklearn"])
def test_estimators_tell_which_expert_has_an_option(library: str) -> None:
    adapters: Any = pytest.importorskip(f"streamk.adapters.{library}")
    for estimator in (adapters.KernelClassifier, adapters.KernelRegressor):
        with pytest.raises(InvalidInput, match=r"external_experts=.*FeatureMachine\(max_width="):
            estimator(max_width=1)
        with pytest.raises(InvalidInput, match="many kernels need none"):
            estimator(bandwidth=1.0)
