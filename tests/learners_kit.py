"""Learners of every kind with small sizes, and streams on which all happens that can happen."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk import kernels
from streamk.learners import (
    AdaGrad,
    Constant,
    DoublyStochastic,
    EigenPro,
    EntityMemory,
    FeatureMachine,
    InverseTime,
    Ladder,
    MultiKernel,
    OnlineKernelRidge,
    OnlineNystrom,
    Scaled,
    StreamingMeka,
)
from streamk.losses import loss

GAUSSIAN = kernels.Gaussian(bandwidth=0.8)
SQUARES_TOO = "squares_too"
kernels.register_map(SQUARES_TOO, lambda x: np.concatenate([x, x * x]))

SIZES: dict[type, dict[str, Any]] = {
    MultiKernel: {"external_experts": (), "seed": 1},
    DoublyStochastic: {"seed": 3, "block_size": 128, "max_features": 128, "step": Constant(0.5)},
    OnlineNystrom: {"max_landmarks": 12},
    StreamingMeka: {
        "rank": 4,
        "n_clusters": 2,
        "first": 60,
        "swap_delay": 25,
        "every": 90,
        "growth": 6,
        "buffer_size": 64,
        "max_error": None,
        "tol": 0.05,
    },
    OnlineKernelRidge: {"max_centers": 128},
    EigenPro: {"n_centers": 40, "batch_size": 32},
    FeatureMachine: {
        "every": 100,
        "buffer_size": 70,
        "reservoir_size": 40,
        "first": 64,
        "swap_delay": 30,
        "rounds": 2,
    },
}
"""Options by which each of them is quick, and does within few events what it does at all."""
OF_ANY_LOSS = (DoublyStochastic, OnlineNystrom, StreamingMeka)
BY_NAME = {kind.TYPE: kind for kind in SIZES}
OF_ONE_KERNEL = {name: kind for name, kind in BY_NAME.items() if kind is not MultiKernel}


def made(kind: type, task: str = "classification", **options: Any) -> Any:
    """A small learner; of the kernel GAUSSIAN, unless another is given."""
    kernel = () if kind is MultiKernel else (options.pop("kernel", GAUSSIAN),)
    if task == "regression" and kind in OF_ANY_LOSS:
        options.setdefault("loss", "squared")
    return kind(*kernel, task=task, **{**SIZES[kind], **options})


def scaled(kind: type, task: str = "classification", **options: Any) -> Any:
    """The same, which scales columns and numbers by itself, as all of many kernels do."""
    model = made(kind, task, **options)
    return model if kind is MultiKernel else Scaled(model)


# --- streams --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """Events, their labels, and those of them that are known at once; the others are None."""

    X: NDArray[np.float64]
    y: list[Any]
    shown: list[Any]


def stream(labels: str, n: int = 240, seed: int = 0, *, missing: bool = False) -> Stream:
    """A stream that drifts, whose events come again, and of whose classes some come late.

    Labels are of "two" classes, of "five", "booleans", or "numbers".
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    g = X[:, 0] * np.sign(X[:, 1]) + 0.1 * rng.normal(size=n)
    g[n // 2 :] *= -1.0
    X[:, 1] += np.where(np.arange(n) < n // 2, 0.0, 0.3)
    if missing:
        X *= (1.0, 50.0, 0.01)
        X[rng.random(X.shape) < 0.05] = np.nan
    again = np.flatnonzero(rng.random(n - 9) < 0.1)
    X[again + 9] = X[again]
    if labels == "numbers":
        y = ((100.0 if missing else 0.0) + (1.0 + 0.003 * np.arange(n)) * g).tolist()
    elif labels == "two":
        y = np.where(g > 0, "same", "other").tolist()
    elif labels == "booleans":
        y = (g > 0.3).tolist()
    else:
        late = np.arange(n) > 0.55 * n
        y = np.array([*"abcde"])[np.where(late & (g > 1), 4, 2 * (g > 0) + (X[:, 0] > 0))].tolist()
    hidden = rng.random(n) < np.where(np.arange(n) // 50 % 3 == 0, 0.5, 0.05)
    return Stream(X, y, [None if h else label for h, label in zip(hidden, y, strict=True)])


def product_of_columns(task: str, n: int, seed: int = 0) -> tuple[Any, Any]:
    """Events whose product of columns is a number, or one of "two" or "three" classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n)
    if task == "numbers":
        return X, y
    return X, [*np.array(["a", "b", "c"])[np.digitize(y, [0.0] if task == "two" else [-0.3, 0.3])]]


def targets(task: str, y: Any) -> Any:
    """The same labels as learners of squared loss have them, (n, outputs)."""
    if task == "numbers":
        return np.asarray(y, float)[:, None]
    if task == "two":
        return np.where(np.asarray(y) == "b", 1.0, -1.0)[:, None]
    return np.where(np.asarray(y)[:, None] == np.array(["a", "b", "c"]), 1.0, -1.0)


# --- learners and what tells them apart -----------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A learner with the options that lead it along ways of its own, and its labels."""

    make: Callable[..., Any]
    labels: str = "two"
    widens: bool = True
    """Whether columns may come late."""
    nightly: bool = False

    def __call__(self, **more: Any) -> Any:
        task = "regression" if self.labels == "numbers" else "classification"
        return self.make(task=task, **more)

    def stream(self, n: int = 240, seed: int = 0) -> Stream:
        return stream(self.labels, n, seed, missing=self().takes_missing)


def of(kind: type, labels: str = "two", *, alone: bool = False, **options: Any) -> Variant:
    return Variant(partial(made if alone else scaled, kind, **options), labels)


CLASSES = ("softmax", "logistic", "hinge", "squared_hinge", "squared")
NUMBERS = ("squared", "huber", "epsilon_insensitive", "quantile")
NEWTON = ("squared", "squared_hinge", "logistic", "softmax", "huber")
FEATURES: dict[str, dict[str, Any]] = {
    "matern": {"kernel": kernels.Matern(nu=1.5)},
    "linear": {"kernel": kernels.Linear(), "step": Constant(0.1)},
    "hadamard": {"sampler": "hadamard"},
    "orthogonal": {"sampler": "orthogonal"},
    "polynomial": {"kernel": kernels.Polynomial(bandwidth=1.5), "step": Constant(0.05)},
    "arc cosine": {"kernel": kernels.ArcCosine(), "step": Constant(0.05)},
    "zonal": {"kernel": kernels.Zonal(weights=(0.2, 0.5, 0.3))},
    "composed": {"kernel": kernels.Composed(kernel=GAUSSIAN, map=SQUARES_TOO)},
}
"""Ways to random features."""


_USUAL = {
    "mini-batches": ("softmax", "huber"),
    "landmarks": ("hinge", "quantile"),
    "clusters": ("logistic", "squared"),
    "landmarks, newton": ("softmax", "huber"),
    "clusters, newton": ("squared_hinge",),
}
"""Losses of what takes more than a step an event; the others nightly."""


def _of_losses() -> dict[str, Variant]:
    """Each loss of classes and numbers, once of each learner that takes it."""
    found = {}
    newton = {"optimizer": "newton", "forgetting": 0.99}
    parts: dict[str, tuple[type, dict[str, Any]]] = {
        "a step an event": (DoublyStochastic, {"batch_size": 1}),
        "mini-batches": (DoublyStochastic, {"batch_size": 7}),
        "landmarks": (OnlineNystrom, {}),
        "clusters": (StreamingMeka, {}),
        "landmarks, newton": (OnlineNystrom, newton),
        "clusters, newton": (StreamingMeka, newton),
    }
    for labels, losses in (("five", CLASSES), ("numbers", NUMBERS)):
        for part, name in itertools.product(parts, losses):
            kind, options = parts[part]
            if "newton" not in part or name in NEWTON:
                found[f"{part}, {name} of {labels}"] = replace(
                    of(kind, labels, loss=name, **options),
                    nightly=name not in _USUAL.get(part, (name,)),
                )
    return found


def _of_experts(labels: str, *which: str, **options: Any) -> Variant:
    task = "regression" if labels == "numbers" else "classification"
    kinds: dict[str, Any] = {
        "landmarks": lambda: made(OnlineNystrom, task, max_landmarks=8),
        "newton": lambda: made(OnlineNystrom, task, max_landmarks=8, optimizer="newton"),
        "features": lambda: made(DoublyStochastic, task),
        "clusters": lambda: made(StreamingMeka, task),
        "ridge": lambda: made(OnlineKernelRidge, task, kernel=kernels.Laplacian()),
        "machine": lambda: made(FeatureMachine, task, kernel=None),
    }
    return Variant(
        lambda **more: MultiKernel(
            external_experts=[kinds[name]() for name in which], seed=1, **{**options, **more}
        ),
        labels,
    )


@dataclass(frozen=True)
class OfEntities(Variant):
    """A learner around another one, with few entities and times that go on, of known labels.

    An event whose label comes late would be another one, as it is learned with what is known then.
    """

    def stream(self, n: int = 240, seed: int = 0) -> Stream:
        events = stream(self.labels, n, seed)
        X, rng = events.X, np.random.default_rng(seed)
        X[:, 1] = np.cumsum(rng.exponential(900.0, n))
        X[:, 2] = np.round(2.0 * X[:, 2])
        X[rng.random(X.shape) < 0.03] = np.nan
        return Stream(X, events.y, list(events.y))


def _of_entities(kind: type, labels: str, **options: Any) -> OfEntities:
    def make(*, task: str, **more: Any) -> EntityMemory:
        options_of = {"entities": [2], "time": 1, **options}
        return EntityMemory(scaled(kind, task, **more), **options_of)

    return OfEntities(make, labels)


VARIANTS: dict[str, Variant] = {
    "many kernels, two": of(MultiKernel),
    "many kernels, five": of(MultiKernel, "five"),
    "many kernels, booleans": of(MultiKernel, "booleans"),
    "many kernels, numbers": of(MultiKernel, "numbers"),
    "classes known": of(MultiKernel, "five", classes=["d", "b", "x"]),
    "columns known": of(MultiKernel, columns=["p", "q", "r"]),
    "balanced": of(MultiKernel, "five", class_weight="balanced"),
    "balanced booleans": of(MultiKernel, "booleans", class_weight="balanced"),
    "weights": of(MultiKernel, class_weight={"other": 3.0}),
    "squared": of(MultiKernel, "numbers", loss="squared"),
    "huber": of(MultiKernel, "numbers", loss=loss("huber", delta=0.5)),
    "quantile": of(MultiKernel, "numbers", loss=loss("quantile", q=0.9)),
    "little memory": of(MultiKernel, pending_bytes=20_000),
    "no memory": of(MultiKernel, "numbers", pending_bytes=0),
    "experts that take steps": _of_experts("five", "landmarks", "newton", "features"),
    "experts of numbers": _of_experts("numbers", "landmarks", "features"),
    "an expert of clusters": _of_experts("numbers", "clusters"),
    "experts in batches": _of_experts("five", "ridge", "landmarks", "machine"),
    "experts in batches, numbers": _of_experts("numbers", "ridge", "machine"),
    "the experts by default": Variant(lambda **more: MultiKernel(seed=1, **more)),
    "the experts by default, numbers": Variant(
        lambda **more: MultiKernel(seed=1, **more), "numbers"
    ),
    **{f"{name}, alone": of(kind, alone=True) for name, kind in OF_ONE_KERNEL.items()},
    **{
        f"{name}, alone, numbers": of(kind, "numbers", alone=True)
        for name, kind in OF_ONE_KERNEL.items()
    },
    **_of_losses(),
    "adagrad": of(DoublyStochastic, step=AdaGrad(0.2), regularization=0.01, batch_size=1),
    "inverse time, blocks in turn": of(
        DoublyStochastic,
        batch_size=1,
        step=InverseTime(5.0, offset=0),
        regularization=0.5,
        block_size=50,
        max_features=130,
    ),
    "a scale that is renewed": of(
        DoublyStochastic, batch_size=1, step=Constant(1.0), regularization=0.9
    ),
    "growing": of(DoublyStochastic, "five", batch_size=3, block_size=16, max_features=1 << 12),
    "growing by events": of(
        DoublyStochastic, "numbers", batch_size=1, block_size=16, max_features=1 << 12
    ),
    "double": of(DoublyStochastic, "five", batch_size=1, dtype="float64", classes=["b", "x"]),
    "nothing kept": of(DoublyStochastic, batch_size=1, cache_bytes=0),
    "several steps": of(DoublyStochastic, "five", step=Ladder(), batch_size=1),
    "several steps, mini-batches": of(DoublyStochastic, "numbers", step=Ladder(), batch_size=8),
    **{
        f"{name}{', mini-batches' if size > 1 else ''}": replace(
            of(DoublyStochastic, "five", batch_size=size, **options),
            widens=name not in ("zonal", "composed"),
            nightly=size > 1,
        )
        for name, options in FEATURES.items()
        for size in (1, 7)
    },
    **{
        f"blocks, {name}": of(
            DoublyStochastic,
            labels,
            **{"preconditioner": "block", "batch_size": 100, "step": None, **options},
        )
        for name, labels, options in (
            ("classes", "five", {}),
            ("averages", "numbers", {"averaging": True}),
            ("averages, logistic", "five", {"averaging": True, "loss": "logistic"}),
            ("inverse time", "numbers", {"step": InverseTime(2.0)}),
            ("hadamard", "numbers", {"sampler": "hadamard"}),
        )
    },
    "one ridge": of(OnlineKernelRidge, "five", regularization=0.3),
    "ridges": of(OnlineKernelRidge, "numbers"),
    "normal equations": of(EigenPro, "five", solver="direct", forgetting=0.999),
    "normal equations, numbers": of(EigenPro, "numbers", solver="direct"),
    "projected steps": of(EigenPro, "five", solver="eigenpro"),
    "projected steps, numbers": of(EigenPro, "numbers", solver="eigenpro"),
    "entities, two": _of_entities(MultiKernel, "two"),
    "entities, five": _of_entities(MultiKernel, "five", max_entities=5),
    "entities, numbers": _of_entities(MultiKernel, "numbers", time=None, entities=[2, "card"]),
    "entities, one kernel": _of_entities(OnlineNystrom, "five", spans=[3600.0], numbers=[0]),
    "a metric": of(FeatureMachine, "five", kernel=None),
    "a metric, numbers": of(FeatureMachine, "numbers", kernel=None),
    **{
        f"a {metric} metric, {labels}": of(
            FeatureMachine,
            labels,
            alone=True,
            kernel=kernels.Matern(nu=0.5, bandwidth=1.5),
            metric=metric,
        )
        for metric, labels in (("diagonal", "five"), ("full", "numbers"))
    },
}
"""Learners that are not the same code; the rules of all learners are tested on each."""


# --- what they answer -----------------------------------------------------------------------------

ANSWERS = Path(__file__).with_name("backends") / "answers.json"
"""Of each learner to which rounding makes no difference; `python tests/learners_kit.py` writes it
anew, where a change of answers is meant."""


def has_answers(variant: Variant) -> bool:
    """Whether rounding makes no difference to a learner: it chooses among no kinds of metrics."""
    model = variant()
    inner = getattr(model, "learner", model)
    experts = [one["type"] for one in getattr(inner, "external_experts", ())]
    return getattr(inner, "metric", "") != "auto" and FeatureMachine.TYPE not in experts


def answers(variant: Variant) -> list[float | None]:
    """What is said of a stream whose labels, and a column, come late, and after a merge."""
    model = variant()
    n = 720 if isinstance(model, MultiKernel | FeatureMachine) else 240
    events, third = variant.stream(n), n // 3
    X, labels = events.X, events.shown
    found = model.predict_then_learn_many(X[:third], labels[:third])
    said = [found.predictions if found.probabilities is None else found.probabilities]
    late = [row for row in range(third) if labels[row] is None]
    model.learn_many(X[late], [events.y[row] for row in late])
    said.append(model.decision_many(X))
    other, common = type(model).from_state(model.state()), model.n_events
    other.predict_then_learn_many(X[third : third + 40], labels[third : third + 40])
    if variant.widens:
        model.add_columns(["late"])
        X = np.column_stack([X, X[:, 0] ** 2])
    for some in (slice(third + 40, 2 * third), slice(2 * third, n)):
        model.predict_then_learn_many(X[some], labels[some])
        said.append(model.decision_many(X))
        if some.stop < n:
            model.merge(other, common_events=common)
            said.append(model.decision_many(X))
    numbers = [np.asarray(some, float)[30 :: third // 2].ravel() for some in said]
    return [None if math.isnan(v) else float(f"{v:.8g}") for v in np.concatenate(numbers).tolist()]


if __name__ == "__main__":
    lines = [
        f"{json.dumps(name)}: {json.dumps(answers(variant))}"
        for name, variant in VARIANTS.items()
        if has_answers(variant)
    ]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
