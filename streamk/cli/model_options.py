"""Making a model from what was written on the command line.

The options of a model are words and numbers there; kernels, losses and step sizes are put together
from them here.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamk.cli.arguments import (
    UsageError,
    named_value,
    nearest,
    nearest_name,
    number,
    one_of,
    whole,
)
from streamk.cli.parts import Header
from streamk.errors import BackendUnavailable, InvalidInput
from streamk.kernels import ALIASES, KERNELS, by_name
from streamk.learners import (
    MODELS,
    AdaGrad,
    Constant,
    FeatureMachine,
    InverseTime,
    Ladder,
    MultiKernel,
    Scaled,
    create,
    registry,
)
from streamk.learners.common.base import Learner
from streamk.learners.multi_kernel.external_experts import EFFORT, WIDEST
from streamk.learners.scaled import TYPES
from streamk.losses import KINDS, LOSSES, loss
from streamk.options import Choice, Flag, Option, Whole

NO_EXPERT = "none"
"""Among external experts: there are none."""

STEPS = ("constant", "inverse-time", "adagrad")
"""Rules with a size; `LADDER` has none."""
LADDER = "ladder"


@dataclass(frozen=True)
class Setting:
    """One option as it is set: how its text is read, and a line about it."""

    read: Callable[[str], Any]
    about: str


def _kernel(text: str) -> str:
    return ALIASES.get(text) or one_of(*KERNELS)(text)


def _step(text: str) -> Any:
    """Read a number, RULE:NUMBER, or the rule without a number."""
    if text == LADDER:
        return Ladder()
    if text in STEPS:
        raise argparse.ArgumentTypeError(f"{text!r} needs a size: {text}:SIZE")
    rule, colon, size = text.rpartition(":")
    makers = dict(zip(STEPS, (Constant, InverseTime, AdaGrad), strict=True))
    if rule == LADDER:
        raise argparse.ArgumentTypeError(f"{LADDER!r} finds its sizes by itself; leave out :{size}")
    maker = makers[one_of(*STEPS)(rule) if colon else "constant"]
    try:
        return maker(number(size))
    except InvalidInput:
        raise argparse.ArgumentTypeError(f"the size {size} must be a positive number") from None


def _flag(text: str) -> bool:
    return one_of("true", "false")(text.lower()) == "true"


def _class_weight(text: str) -> Any:
    """Read "balanced", or pairs; a label that is JSON is its number or boolean, else a text."""
    if text == "balanced":
        return text
    found = {}
    for pair in text.split(","):
        label, colon, weight = pair.rpartition(":")
        if not colon:
            raise argparse.ArgumentTypeError(f"{pair!r} is neither balanced nor LABEL:WEIGHT")
        try:
            found[json.loads(label)] = number(weight)
        except (json.JSONDecodeError, TypeError):
            found[label] = number(weight)
    return found


_OF_KERNEL = {
    "gamma": Setting(number, "instead: gaussian 1 / (2 bandwidth²), laplacian 1 / bandwidth"),
    "nu": Setting(number, "smoothness of matern: 0.5, 1.5 or 2.5 (1.5)"),
    "alpha": Setting(number, "of rational_quadratic: a multiple of 0.5 up to 32 (1)"),
    "depth": Setting(whole(1), "hidden layers of ntk, up to 12 (3)"),
}
_OF_FEATURES = {
    "degree": Setting(whole(1), "of polynomial: up to 16 (2)"),
    "offset": Setting(number, "of polynomial: what is added to x·y, at least 0 (1)"),
    "order": Setting(whole(0), "of arc_cosine: 0 steps, 1 ramps, 2 their squares (1)"),
    "weights": Setting(
        lambda text: tuple(map(number, text.split(","))),
        "of zonal: of degrees 0, 1, ... (1,1,1,1)",
    ),
}
"""Options of kernels that only doubly stochastic learning has."""
_OF_LOSS = {
    kind.parameter: Setting(number, f"of {code.name.lower()}, {kind.meaning} ({kind.default:g})")
    for code, kind in KINDS.items()
    if kind.parameter
}
_OF_POOLS = {
    "delta": Setting(number, "of huber, in units of the label's spread (1)"),
    "q": _OF_LOSS["q"],
}
"""Those of the losses of many kernels."""
_READ = {"kernel": _kernel, "loss": one_of(*LOSSES), "step": _step, "class_weight": _class_weight}
"""Readers of options that are put together from words."""


@functools.cache
def options_of(model: str) -> Mapping[str, Setting]:
    """Return the options of a model: those of its learner, its kernel and its loss."""
    found: dict[str, Setting] = {}
    declared: Mapping[str, Any] = registry.options_of(model)
    for name, option in declared.items():
        if not option.about:
            continue
        default, about = option.default, option.about
        if default is not None and not about.endswith(")"):
            about += f" ({default:g})" if isinstance(default, float) else f" ({default})"
        found[name] = Setting(_READ.get(name) or _reader(option), about)
        if name == "bandwidth":
            found |= _OF_KERNEL | (_OF_FEATURES if model == "doubly-stochastic" else {})
            if "ntk" not in declared["kernel"].names:
                del found["depth"]
        elif name == "loss":
            found |= _OF_POOLS if model == "multi-kernel" else _OF_LOSS
    return found


def _reader(option: Option) -> Callable[[str], Any]:
    """Return the reader of an option's texts, by its domain."""
    read: Callable[[str], Any] = number
    if isinstance(option, Whole):
        read = whole(option.least)
    elif isinstance(option, Choice):
        read = one_of(*option.choices)
    elif isinstance(option, Flag):
        read = _flag
    return functools.partial(_or_none, read) if option.optional else read


def _or_none(read: Callable[[str], Any], text: str) -> Any:
    if text == "none":
        return None
    try:
        return read(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error} (or none)") from None


def task_of(settings: Sequence[tuple[str, str]]) -> str:
    """The task that the chosen loss is for: "regression" if it can do nothing else."""
    name = dict(settings).get("loss")
    return "regression" if name in LOSSES and not loss(name).classifies else "classification"


def learner_header(header: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the header of the learner itself in that of a saved model with things around it."""
    while "learner" in header.get("parts", {}):
        header = header["parts"]["learner"]
    return header


def saved_experts(header: Mapping[str, Any]) -> list[tuple[Header, Header]]:
    """Return the headers of the external experts of a learner: as they begin, and as they are."""
    kept = header.get("parts", {}).get("external_experts", {}).get("parts", {})
    places = (n for n in range(len(kept)) if f"fresh-{n}" in kept)
    return [(kept[f"fresh-{n}"], kept[f"learner-{n}"]) for n in places]


def experts_of(
    header: Mapping[str, Any], named: Sequence[str] | None = None
) -> Sequence[str] | None:
    """Return the external experts of a job that goes on with a saved model, as texts.

    Where none are named they are of the types that the learner has whose header it is, and none if
    it has none, as one that was learned in shards.
    """
    if header["type"] != "multi-kernel" or named is not None:
        return named
    return [fresh["type"] for fresh, _ in saved_experts(header)] or [NO_EXPERT]


def build(
    name: str,
    *,
    task: str,
    seed: int,
    settings: Sequence[tuple[str, str]],
    experts: Sequence[str] | None = None,
) -> Learner:
    """Return the model of that name with these options, as text.

    Raises `UsageError` if there is no such model or option, or a value cannot be read,
    `InvalidInput` if it is out of its domain, which begins with the setting as it is written after
    ``--set``, and `BackendUnavailable` if there is no device for a model or an expert.

    Parameters
    ----------
    settings : sequence of (str, str)
        Names and values of options.
    experts : sequence of str, optional
        External experts of many kernels: a model, or "model:name=value,name=value"; `NO_EXPERT`
        alone, or an empty sequence, for none. None is for those by default.
    """
    if name not in MODELS:
        raise UsageError(
            f"no model {name!r}{nearest(name, MODELS)} (there are {', '.join(MODELS)})"
        )
    options = _read(name, settings)
    if experts is not None:
        if name != MultiKernel.TYPE:
            raise UsageError(f"--expert is for --model {MultiKernel.TYPE}, not {name}")
        effort = options.get("effort", EFFORT)
        learners = options["external_experts"] = _experts(experts, task, seed, effort)
        is_used = effort == 0 or any(one.TYPE == FeatureMachine.TYPE for one in learners)
        if "effort" in options and not is_used:
            raise UsageError(
                f"--set effort is for a {FeatureMachine.TYPE}, and this model has none"
            )
    try:
        _make_parts(name, options)
        return create(name, task=task, seed=seed, **options)
    except InvalidInput as error:
        raise InvalidInput(f"{_named_in(str(error), settings)}{error}") from error


def _make_parts(name: str, options: dict[str, Any]) -> None:
    """Put loss and kernel together, instead of their options."""
    loss_options = _taken(options, tuple(_OF_LOSS))
    if loss_options:
        if "loss" not in options:
            option = next(iter(loss_options))
            having = next(code for code, kind in KINDS.items() if kind.parameter == option)
            raise UsageError(f"--set {option} needs a loss: --set loss={having.name.lower()}")
        options["loss"] = loss(options["loss"], **loss_options)
    if options.keys() & {"bandwidth", *_OF_KERNEL, *_OF_FEATURES}:
        options["kernel"] = _made_kernel(name, options)


def _named_in(message: str, settings: Sequence[tuple[str, str]]) -> str:
    """Return the beginning of a message that names the settings it is about, as they were given.

    Examples
    --------
    >>> _named_in("kernel 'ntk' has no gradients", [("kernel", "ntk"), ("rounds", "2")])
    '--set kernel=ntk: '
    >>> _named_in("rank=-1.0 must be above 0", [("rank", "-1")])
    '--set '
    """
    if any(message.startswith(f"{key}=") for key, _ in settings):
        return "--set "
    named = [
        f"--set {key}={text}"
        for key, text in settings
        if re.search(rf"\b{key}(=|,| '| gives)|\bno {key}\b", message)
    ]
    return f"{' '.join(named)}: " if named else ""


def _experts(texts: Sequence[str], task: str, seed: int, effort: float | None) -> list[Learner]:
    """External experts, as they are named; `effort` is that of the model."""
    if NO_EXPERT not in texts:
        return [_expert(text, task, seed, effort) for text in texts]
    if len(texts) > 1:
        raise UsageError(f"--expert {NO_EXPERT} cannot be combined with other experts")
    return []


def _expert(text: str, task: str, seed: int, effort: float | None) -> Learner:
    """A learner of one kernel for an external expert, which is given scaled columns."""

    def made(name: str, settings: Sequence[tuple[str, str]]) -> Learner:
        if name == FeatureMachine.TYPE:  # the one by default, but for what is chosen
            own = [("max_width", str(WIDEST)), ("effort", str(effort).lower())]
            settings = [*own, *settings]
        return build(name, task=task, seed=seed, settings=settings)

    option, name = f"--expert {text}", text.partition(":")[0]
    there = f"(there are {', '.join(TYPES)}, options follow a colon; {NO_EXPERT}, alone, for none)"
    if name not in MODELS:
        raise UsageError(f"{option}: no model {name!r}{nearest(name, (*TYPES, NO_EXPERT))} {there}")
    found = described(text, option, made)
    if not isinstance(found, Scaled):
        raise UsageError(f"{option}: {name} is not a model of one kernel {there}")
    return found.learner


def described(text: str, option: str, made: Callable[..., Learner]) -> Learner:
    """Return the model of a text: its name, or "name:option=value,option=value".

    Raises `UsageError` if there is no such model or option, or a value is not usable, and
    `BackendUnavailable` if there is no device for it.

    Parameters
    ----------
    option : str
        The option as it was given, for messages.
    made : callable
        `build` with what is not in the text.
    """
    name, _, options = text.partition(":")
    try:
        settings = [named_value(one) for one in options.split(",")] if options else []
        return made(name, settings=settings)
    except (argparse.ArgumentTypeError, UsageError, InvalidInput) as error:
        # Of `build` the cause is what it says without the setting, which the option shows.
        said = str(error.__cause__ or error).removeprefix("--set ").replace("--model", "the model")
        raise UsageError(f"{option}: {said}") from None
    except BackendUnavailable as error:  # no fault of the command line
        raise BackendUnavailable(f"{option}: {error}") from None


def _read(model: str, settings: Sequence[tuple[str, str]]) -> dict[str, Any]:
    known, found = options_of(model), {}
    for key, text in settings:
        if key not in known:
            hint = _hint(model, key, text)
            raise UsageError(f"--set {key}: {model} has no such option{hint}")
        try:
            found[key] = known[key].read(text)
        except (argparse.ArgumentTypeError, InvalidInput) as error:
            raise UsageError(f"--set {key}: {error}") from None
    return found


_OF_COMMAND = {
    "seed": "--seed",
    "task": "--task",
    **dict.fromkeys(("expert", "experts", "external_experts", "guests"), "--expert"),
}
"""Options that the command has of its own, which are none of a model's."""


def _hint(model: str, key: str, text: str) -> str:
    """Return a hint: the command's own option, another model that has it, or a similar one."""
    if key in _OF_COMMAND:
        return f"; it is an option by itself: {_OF_COMMAND[key]} {text}"
    others = {name: other for other in reversed(MODELS) for name in options_of(other)}
    if key in others:
        return f"; --model {others[key]} has it"
    if near := nearest(key, options_of(model)):
        return near
    if found := nearest_name(key, others):
        return f"; did you mean {found!r}? It is for --model {others[found]}"
    return f"; there are {', '.join(options_of(model))}"


def _made_kernel(model: str, options: dict[str, Any]) -> Any:
    """The kernel, taking its options out of the others."""
    default = registry.options_of(model)
    chosen = _taken(options, ("bandwidth", *_OF_KERNEL, *_OF_FEATURES))
    kernel = options.pop("kernel", default["kernel"].default)
    if kernel is None:  # a feature machine's own, of this bandwidth
        kernel, chosen = "matern", {"nu": 0.5} | chosen
    if kernel != "linear" and not chosen.keys() & {"bandwidth", "gamma"}:
        chosen["bandwidth"] = default["bandwidth"].default or registry.OF_METRIC
    return by_name(kernel, **chosen)


def _taken(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: options.pop(name) for name in names if name in options}
