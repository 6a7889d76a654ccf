"""Making a model from what was written on the command line.

The options of a model are words and numbers there; kernels, losses and step sizes are put together
from them here.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamk.cli.arguments import UsageError, nearest, number, one_of, whole
from streamk.errors import InvalidInput
from streamk.learners.base import Learner

__all__ = ["OPTIONS", "Option", "build", "learner_header", "task_of"]

STEPS = ("constant", "inverse-time", "adagrad")


@dataclass(frozen=True)
class Option:
    """One option of a model: how it is read, and what it is, in a line."""

    read: Callable[[str], Any]
    what: str


def _kernel(text: str) -> str:
    from streamk.kernels import ALIASES, KERNELS

    return ALIASES.get(text) or one_of(*KERNELS)(text)


def _loss(text: str) -> str:
    from streamk.losses import LOSSES

    return one_of(*LOSSES)(text)


def _step(text: str) -> Any:
    """Read a number, or RULE:NUMBER."""
    from streamk.learners import AdaGrad, Constant, InverseTime

    if text in STEPS:
        raise argparse.ArgumentTypeError(f"{text!r} needs a size: {text}:SIZE")
    rule, colon, size = text.rpartition(":")
    makers = dict(zip(STEPS, (Constant, InverseTime, AdaGrad), strict=True))
    return makers[one_of(*STEPS)(rule) if colon else "constant"](number(size))


def _unless_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text == "none" else read(text)


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


_MAX_CLASSES = Option(whole(2), "labels past so many classes are bad events (1000)")
_THREADS = Option(whole(1), "all cores by default; results are the same")

_DOUBLY_STOCHASTIC: dict[str, Option] = {
    "kernel": Option(_kernel, "one of the kernels below (gaussian)"),
    "bandwidth": Option(number, "of the kernel; two events are 1.4 apart on average (0.5)"),
    "gamma": Option(number, "instead of it: 1 / (2 bandwidth²), laplacian 1 / bandwidth"),
    "nu": Option(number, "smoothness of matern: 0.5, 1.5 or 2.5 (1.5)"),
    "alpha": Option(number, "of rational_quadratic: a multiple of 0.5 up to 32 (1)"),
    "loss": Option(_loss, "one of the losses below (softmax; regression: squared)"),
    "delta": Option(number, "of huber, in standard deviations of the label (1)"),
    "epsilon": Option(number, "of epsilon_insensitive, likewise (0.1)"),
    "q": Option(number, "of quantile: which one, between 0 and 1 (0.5)"),
    "step": Option(_step, "SIZE or RULE:SIZE, see below (1; regression: 0.5)"),
    "regularization": Option(number, "how fast old coefficients shrink, at least 0 (0)"),
    "batch_size": Option(whole(1), "events a step of the learner (1)"),
    "block_size": Option(whole(1), "random features a step (2048)"),
    "max_features": Option(whole(1), "where the model stops growing (2048)"),
    "max_classes": _MAX_CLASSES,
    "cache_bytes": Option(whole(0), "memory to keep random features in (268435456)"),
    "sampler": Option(one_of("iid", "hadamard"), "iid; hadamard is faster for many columns (iid)"),
    "dtype": Option(one_of("float32", "float64"), "float32 or float64 (float32)"),
    "threads": _THREADS,
    "backend": Option(
        one_of("auto", "numba", "numpy", "cupy"), "auto, numba, numpy or cupy (auto)"
    ),
}

_LIKEWISE = (
    *("kernel", "bandwidth", "gamma", "nu", "alpha"),
    *("loss", "delta", "epsilon", "q"),
)
_ONLINE_NYSTROM: dict[str, Option] = {
    **{name: _DOUBLY_STOCHASTIC[name] for name in _LIKEWISE},
    "kernel": Option(_kernel, "one of the kernels below but linear (gaussian)"),
    "optimizer": Option(one_of("sgd", "newton"), "sgd, or newton where nothing drifts (sgd)"),
    "step": Option(_step, "of sgd, see below, not adagrad (1; regression: 0.5)"),
    "regularization": Option(number, "weight of the function's norm (0; newton: 0.1)"),
    "forgetting": Option(number, "of newton: what an event counts after the next (1)"),
    "max_landmarks": Option(whole(1), "events that carry the function (512)"),
    "tol": Option(number, "least squared distance from the others, below 1 (0.001)"),
    "half_life": Option(number, "events until an idle landmark counts half (never)"),
    "max_classes": _MAX_CLASSES,
}

_STREAMING_MEKA: dict[str, Option] = {
    **{name: _ONLINE_NYSTROM[name] for name in (*_LIKEWISE, "kernel")},
    **{name: _ONLINE_NYSTROM[name] for name in ("optimizer", "regularization", "forgetting")},
    "step": Option(_step, "of sgd, see below, not adagrad (1; regression: 0.1)"),
    "rank": Option(whole(1), "directions of a cluster (256)"),
    "n_clusters": Option(whole(1), "clusters (4)"),
    "buffer": Option(one_of("recent", "reservoir"), "recent events, or of all a (reservoir)"),
    "buffer_size": Option(whole(1), "how many (4096)"),
    "first": Option(whole(1), "events before the first factorization (2048)"),
    "every": Option(_unless_none(whole(1)), "events between two of them, or none (16384)"),
    "swap_delay": Option(whole(1), "events after which it takes over (2048)"),
    "max_error": Option(_unless_none(number), "earlier if errors grow so much, or none (1.5)"),
    "max_shift": Option(_unless_none(number), "earlier if clusters' shares do, or none (0.3)"),
    "growth": Option(whole(0), "landmarks that clusters may gain (256)"),
    "tol": Option(number, "least squared distance from the others, below 1 (0.1)"),
    "max_classes": _MAX_CLASSES,
}

OPTIONS: dict[str, dict[str, Option]] = {
    "multi-kernel": {
        "loss": Option(
            one_of("squared", "huber", "quantile"),
            "of numbers: squared, huber, quantile (mixed by absolute errors)",
        ),
        "delta": Option(number, "of huber, in units of the label's spread (1)"),
        "q": _DOUBLY_STOCHASTIC["q"],
        "class_weight": Option(_class_weight, "balanced, or LABEL:WEIGHT,...; the rest 1 (all 1)"),
        "max_classes": _MAX_CLASSES,
        "pending_bytes": Option(whole(0), "memory for predictions without a label yet (8388608)"),
        "threads": _THREADS,
    },
    "doubly-stochastic": _DOUBLY_STOCHASTIC,
    "online-nystrom": _ONLINE_NYSTROM,
    "streaming-meka": _STREAMING_MEKA,
}
"""The options of each model."""

_KERNEL_OPTIONS = ("bandwidth", "gamma", "nu", "alpha")
_LOSS_OPTIONS = {"delta": "huber", "epsilon": "epsilon_insensitive", "q": "quantile"}
"""Options of a loss, and which one has it."""


def task_of(settings: Sequence[tuple[str, str]]) -> str:
    """The task that the chosen loss is for: "regression" if it can do nothing else."""
    from streamk.losses import LOSSES, loss

    name = dict(settings).get("loss")
    return "regression" if name in LOSSES and not loss(name).classifies else "classification"


def learner_header(header: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a saved model's header that of the learner itself, without the scaling around it."""
    found: Mapping[str, Any] = header.get("parts", {}).get("learner", header)
    return found


def build(name: str, *, task: str, seed: int, settings: Sequence[tuple[str, str]]) -> Learner:
    """The model of that name with these options, as text.

    Raises
    ------
    UsageError
        If there is no such model or option, or a value cannot be read.
    InvalidInput
        If a value is out of its domain.
    """
    from streamk.learners import MODELS, create

    if name not in MODELS:
        raise UsageError(
            f"no model {name!r}{nearest(name, MODELS)} (there are {', '.join(MODELS)})"
        )
    options = _read(name, settings)
    loss_options = _taken(options, tuple(_LOSS_OPTIONS))
    if loss_options:
        from streamk.losses import loss

        if "loss" not in options:
            option = next(iter(loss_options))
            raise UsageError(f"--set {option} needs a loss: --set loss={_LOSS_OPTIONS[option]}")
        options["loss"] = loss(options["loss"], **loss_options)
    if options.keys() & set(_KERNEL_OPTIONS):
        options["kernel"] = _made_kernel(options)
    return create(name, task=task, seed=seed, **options)


def _read(model: str, settings: Sequence[tuple[str, str]]) -> dict[str, Any]:
    known, found = OPTIONS[model], {}
    for key, text in settings:
        if key not in known:
            raise UsageError(f"--set {key}: {model} has no such option{_hint(model, key)}")
        try:
            found[key] = known[key].read(text)
        except (argparse.ArgumentTypeError, InvalidInput) as error:
            raise UsageError(f"--set {key}: {error}") from None
    return found


def _hint(model: str, key: str) -> str:
    """What was probably meant: another option, or another model."""
    near = nearest(key, OPTIONS[model])
    for other, options in OPTIONS.items():
        if not near and key in options:
            near = f"; --model {other} has it"
        elif not near and nearest(key, options):
            near = f"{nearest(key, options)} It is for --model {other}"
    return near or f"; there are {', '.join(OPTIONS[model])}"


def _made_kernel(options: dict[str, Any]) -> Any:
    """The kernel, taking its options out of the others."""
    from streamk.kernels import by_name
    from streamk.learners.registry import BANDWIDTH

    kernel, chosen = options.pop("kernel", "gaussian"), _taken(options, _KERNEL_OPTIONS)
    if kernel != "linear" and not chosen.keys() & {"bandwidth", "gamma"}:
        chosen["bandwidth"] = BANDWIDTH
    return by_name(kernel, **chosen)


def _taken(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: options.pop(name) for name in names if name in options}
