"""A checkpoint that another command line has made: its options, as they are written there."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from streamk.engine.recovery.job import AnotherJob
from streamk.errors import StateError
from streamk.learners import MODELS

__all__ = ["told_by_options"]

_FLAGS = {
    "model type": "--model",
    "model task": "--task",
    "model seed": "--seed",
    "label": "--label",
    "absent": "--absent",
    "schema": "--schema",
}
"""Options of the command by the names that the engine has for them."""
_WORDS = {"\t": "tab", " ": "space"}
"""Delimiters that cannot be read in a message."""
OptionsOf: TypeAlias = Callable[[str], Container[str]]
_EXPERTS = "model external_experts"
_NO_EXPERT = "none"
_OF_PARTS = {"kernel.kernel": "kernel", "loss.name": "loss"}
"""Options that are the names of a kernel and of a loss in a saved model."""


@contextmanager
def told_by_options(options_of: OptionsOf) -> Iterator[None]:
    """Name the options of the command where a checkpoint is found to be of another job.

    Parameters
    ----------
    options_of : callable
        The names of the options of a model, by its name.

    Raises
    ------
    StateError
        In the place of an `AnotherJob` that is raised inside.
    """
    try:
        yield
    except AnotherJob as error:
        kinds = _kinds(error.model)
        theirs, mine = (
            _written(error.name, one, kinds, options_of) for one in (error.theirs, error.mine)
        )
        if theirs is None or mine is None:
            raise
        if theirs == mine:  # two files
            mine = "another"
        raise StateError(
            f"the checkpoint {error.path} was made with {theirs}, this run with {mine};"
            f" {_fix(error.name)}, or begin in another checkpoint directory"
        ) from error


def _kinds(model: Mapping[str, Any]) -> list[str]:
    """Return the types of the external experts of a model by its header."""
    while "learner" in model.get("parts", {}):
        model = model["parts"]["learner"]
    parts = model.get("parts", {}).get("external_experts", {}).get("parts", {})
    return [parts[f"fresh-{n}"]["type"] for n in range(len(parts)) if f"fresh-{n}" in parts]


def _fix(name: str) -> str:
    kind = name.rpartition(".")[2]
    if name.startswith(_EXPERTS) and kind in (_EXPERTS, "learners", "type"):
        return "leave out --expert to go on with the experts that are there"
    if name.startswith(_EXPERTS):  # left out it would be one without options
        return "give --expert with the options it had (`streamk inspect` shows them)"
    if name == "model type":
        return "leave out --model to go on with the model that is there"
    if name == "delimiter":
        return "give it in the address of the events (csv:PATH?delimiter=...)"
    return "use the same, and the same options of the model"


def _written(name: str, value: Any, kinds: Sequence[str], options_of: OptionsOf) -> str | None:
    """Return how a value is given on the command line; None if it is not known here.

    Examples
    --------
    >>> _written("model seed", 3, [], lambda model: ()), _experts("", None, [], lambda model: ())
    ('--seed 3', '--expert none')
    """
    if name == "model type" and value not in MODELS:  # of something around a learner
        return None
    if name == "max_skew":
        return f"--max-skew {'inf' if value is None else f'{value:g}'}"
    if name == "ignore":
        return " ".join(f"--ignore {field}" for field in value) or "no --ignore"
    if name == "delimiter":
        return f"delimiter={_WORDS.get(value, value)}"
    if name in _FLAGS:
        return f"{_FLAGS[name]} {'FILE' if isinstance(value, Mapping) else value}"
    if name.startswith(_EXPERTS):
        return _experts(name.removeprefix(_EXPERTS).lstrip("."), value, kinds, options_of)
    if name == "model weights":
        return f"{'no' if value is None else 'a'} --set class_weight"
    part, _, option = name.partition(" ")
    option = _plain(option)
    if part == "model" and any(option in options_of(model) for model in MODELS):
        return f"--set {option}={value}"
    return None


def _experts(path: str, value: Any, kinds: Sequence[str], options_of: OptionsOf) -> str | None:
    """Return how external experts are given, of which the headers differ in that path."""
    place, _, option = path.partition(".")
    if not path:
        found = [_NO_EXPERT] if value is None else str(value).split(", ")
        return " ".join(f"--expert {kind}" for kind in found)
    if path == "learners":
        return f"{value} external {'expert' if value == 1 else 'experts'} (--expert)"
    if option == "type":
        return f"--expert {value}"
    if not place.isdigit() or int(place) >= len(kinds):
        return None
    kind, option = kinds[int(place)], _plain(option)
    return f"--expert {kind}:{option}={value}" if option in options_of(kind) else None


def _plain(path: str) -> str:
    """Return the name of an option of a model by its path in a header."""
    return _OF_PARTS.get(path, path.removeprefix("kernel.").removeprefix("loss."))
