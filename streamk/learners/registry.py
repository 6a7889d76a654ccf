"""Models by name, for the command line and for checkpoints."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.extensions import find, provided
from streamk.features.random_features import check_seed
from streamk.kernels import Kernel
from streamk.learners.common.base import Learner
from streamk.learners.common.steps import Constant, Ladder, Step
from streamk.learners.doubly_stochastic.doubly_stochastic import DoublyStochastic
from streamk.learners.eigenpro.eigenpro import EigenPro
from streamk.learners.kernel_ridge import OnlineKernelRidge
from streamk.learners.meka.streaming import StreamingMeka
from streamk.learners.multi_kernel.multi_kernel import MultiKernel
from streamk.learners.multi_kernel.options import GIVEN_TO_MULTI_KERNEL
from streamk.learners.nystrom import OnlineNystrom
from streamk.learners.remembering import EntityMemory
from streamk.learners.rfm.feature_machine import FeatureMachine
from streamk.learners.scaled import TYPES, Scaled
from streamk.losses import Loss
from streamk.options import Option, Real, of_parameters
from streamk.packing import fingerprint
from streamk.state import State

LEARNERS: dict[str, Any] = {MultiKernel.TYPE: MultiKernel, **TYPES}
"""Those that have options of their own."""
KINDS: dict[str, Any] = {**LEARNERS, Scaled.TYPE: Scaled, EntityMemory.TYPE: EntityMemory}


def check_kind(learner: Any, sentence: str) -> None:
    """Raise InvalidInput, which says that a learner cannot do so, unless it is one of these."""
    if getattr(learner, "TYPE", None) not in KINDS:
        raise InvalidInput(
            f"{sentence}; give one of the learners of streamk, such as MultiKernel()"
        )


def inner(state: State, placing: Mapping[str, Any] | None, owner: str) -> Any:
    """Return the learner of a state, or raise StateError for other types."""
    if state.type not in KINDS:
        raise StateError(f"{owner} cannot have a learner of the type {state.type!r}")
    return KINDS[state.type].from_state(state, **(placing or {}))


BANDWIDTH = 0.5
"""Default bandwidth on scaled columns, whose root mean squared distance is sqrt(2)."""
OF_METRIC = 1.5
"""That of a feature machine whose kernel is given by its name."""


def _kernel(kernel: str | Kernel, bandwidth: float) -> Kernel:
    if isinstance(kernel, str):
        kernel = kernels.by_name(kernel, **({} if kernel == "linear" else {"bandwidth": bandwidth}))
    return kernel


def _check_bandwidth(options: dict[str, Any]) -> None:
    """Check that a bandwidth is given only beside the name of a kernel that has one."""
    kernel, bandwidth = options.get("kernel"), options.get("bandwidth")
    if isinstance(kernel, Kernel):
        kernels.check_scales(kernel, bandwidth=bandwidth)
    elif kernel == "linear" and bandwidth is not None:
        kernels.by_name(kernel, bandwidth=bandwidth)  # which says who takes one


def _step(step: float | Step | None, task: str) -> Step:
    if step is None:
        step = 1.0 if task == "classification" else 0.5
    return Constant(step) if isinstance(step, int | float) else step


def _doubly_stochastic(
    *,
    task: str,
    kernel: str | Kernel = "gaussian",
    bandwidth: float = BANDWIDTH,
    step: float | Step | None = None,
    loss: str | Loss | None = None,
    preconditioner: str | None = None,
    batch_size: int | None = None,
    block_size: int = 2048,
    max_features: int = 2048,
    **options: Any,
) -> Scaled:
    if preconditioner is None:
        step = Ladder() if step is None else step
        batch_size = 1 if batch_size is None else batch_size
    if step is not None:
        step = _step(step, task)
    return Scaled(
        DoublyStochastic(
            _kernel(kernel, bandwidth),
            loss=loss or ("softmax" if task == "classification" else "squared"),
            task=task,
            step=step,
            preconditioner=preconditioner,
            batch_size=batch_size,
            block_size=block_size,
            max_features=max_features,
            **options,
        )
    )


def _on_embedded_features(
    learner: type[OnlineNystrom | StreamingMeka],
    *,
    task: str,
    seed: int = 0,
    kernel: str | Kernel = "gaussian",
    bandwidth: float = BANDWIDTH,
    loss: str | Loss | None = None,
    optimizer: str = "sgd",
    step: float | Step | None = None,
    **options: Any,
) -> Scaled:
    by_gradients = optimizer == "sgd"
    if learner is OnlineNystrom:
        check_seed(seed)  # that is all: nothing in it is random
    else:
        options["seed"] = seed
        if step is None and task == "regression" and by_gradients:
            step = 0.1  # what is solved for at each takeover is soon gone by larger ones
    return Scaled(
        learner(
            _kernel(kernel, bandwidth),
            loss=loss or ("softmax" if task == "classification" else "squared"),
            task=task,
            optimizer=optimizer,
            step=_step(step, task) if step is not None or by_gradients else None,
            **options,
        )
    )


def _on_centers(
    learner: type[OnlineKernelRidge | EigenPro],
    *,
    task: str,
    kernel: str | Kernel = "laplacian",
    bandwidth: float = 1.0,
    **options: Any,
) -> Scaled:
    return Scaled(learner(_kernel(kernel, bandwidth), task=task, **options))


def _feature_machine(
    *,
    task: str,
    kernel: str | Kernel | None = None,
    bandwidth: float | None = None,
    **options: Any,
) -> Scaled:
    if kernel is None and bandwidth is not None:
        kernel = kernels.Matern(nu=0.5, bandwidth=bandwidth)
    if isinstance(kernel, str):
        kernel = _kernel(kernel, OF_METRIC if bandwidth is None else bandwidth)
    return Scaled(FeatureMachine(kernel, task=task, **options))


MODELS: dict[str, Callable[..., Learner]] = {
    MultiKernel.TYPE: MultiKernel,
    DoublyStochastic.TYPE: _doubly_stochastic,
    OnlineNystrom.TYPE: partial(_on_embedded_features, OnlineNystrom),
    StreamingMeka.TYPE: partial(_on_embedded_features, StreamingMeka),
    OnlineKernelRidge.TYPE: partial(_on_centers, OnlineKernelRidge),
    EigenPro.TYPE: partial(_on_centers, EigenPro, bandwidth=2.0),
    FeatureMachine.TYPE: _feature_machine,
}
"""Makers of models by name; the first one is the default, which has nothing to tune."""


def create(name: str, *, task: str, seed: int = 0, **options: Any) -> Learner:
    """Make a model that is ready for a raw stream: it scales the columns by itself.

    Parameters
    ----------
    name : str
        One of `MODELS`.
    task : {"classification", "regression"}
    seed : int, default 0
    **options
        Those of `options_of`: the learner's, and ``kernel`` may be a name, whose ``bandwidth``
        is another option, and ``step`` a number. Doubly stochastic learning has by default blocks
        of all features, so every event moves every feature; with ``max_features`` above
        ``block_size`` the model grows.

    Raises
    ------
    InvalidInput
        If there is no such model or option, a value is out of its domain, or there is a bandwidth
        beside a Kernel, which has its own.

    Examples
    --------
    >>> create("doubly-stochastic", task="regression", loss="huber").is_classifier
    False
    """
    if name not in MODELS:
        raise InvalidInput(f"no model is called {name!r}; there are {', '.join(MODELS)}")
    _check_bandwidth(options)
    try:
        return MODELS[name](task=task, seed=seed, **options)
    except TypeError as error:
        known = {*options_of(name), *inspect.signature(LEARNERS[name]).parameters}
        unknown = [option for option in options if option not in known]
        if not unknown:
            raise InvalidInput(f"options do not fit model {name!r}: {error}") from None
        there = ", ".join(sorted(known))
        raise InvalidInput(
            f"model {name!r} has no option {unknown[0]!r}; there are {there}"
        ) from None


def options_of(name: str) -> dict[str, Option]:
    """Return the options of a model by their names: its learner's, with the defaults of `create`.

    Examples
    --------
    >>> options_of("doubly-stochastic")["block_size"].default
    2048
    """
    learner: Any = LEARNERS[name]
    declared = learner.OPTIONS | GIVEN_TO_MULTI_KERNEL
    if "kernel" in declared:
        kernel = declared["kernel"].by_name()
        bandwidth = _BANDWIDTH_OF_METRIC if kernel.optional else _BANDWIDTH
        declared = {"kernel": kernel, "bandwidth": bandwidth} | declared | {"kernel": kernel}
        if "step" in declared:
            declared["step"] = replace(declared["step"], or_by=float)
    known = of_parameters(learner, declared) | of_parameters(MODELS[name], declared)
    return {option: known[option] for option in declared if option in known}


_BANDWIDTH = Real(
    about="of the kernel; two events are 1.4 apart on average",
    doc="Of a kernel given by name, in units of the scaled columns: two events of the stream are "
    "sqrt(2) apart in the root of the mean square. ``gamma`` of ``exp(-gamma |x - y|^2)`` is "
    "``bandwidth = 1 / sqrt(2 gamma)``.",
)
_BANDWIDTH_OF_METRIC = replace(
    _BANDWIDTH,
    about=f"{_BANDWIDTH.about} (compared)",
    doc="Of ``Matern(nu=0.5)``, which then is the only one, or of a kernel given by name, 1.5 "
    "else; in units of the scaled columns: two events of the stream are sqrt(2) apart in the root "
    "of the mean square.",
)


def kind_of(state_type: object) -> Any:
    """Return the class of learners with a type of state; None if it is unknown.

    >>> kind_of("kernel-ridge").__name__
    'OnlineKernelRidge'
    """
    name = str(state_type)
    return KINDS.get(name) or find("learners", name)


def in_shards(header: Mapping[str, Any] | None) -> bool:
    """Return True if a header of a saved model is of a learner in shards; False without one."""
    kind = None if header is None else kind_of(header["type"])
    return kind is not None and bool(kind.in_shards)


def from_state(state: State, **placing: Any) -> Learner:
    """Return the learner of a state of any type.

    Parameters
    ----------
    state : State
    **placing
        Device and threads, as of `Learner.placing` of a learner of that type.

    Raises
    ------
    StateError
        If no learner of that type is known here.
    """
    kind = kind_of(state.type)
    if kind is None:
        known = ", ".join([*KINDS, *provided("learners")])
        raise StateError(f"no learner is registered as {state.type!r}; there are {known}")
    learner: Learner = kind.from_state(state, **placing)
    return learner


def initials(state: State) -> dict[str, str]:
    """Return digests of the models of a contest before they learned, by name; {} of another model.

    Raises `StateError` if they are not there.
    """
    kind = kind_of(state.type)
    return {} if kind is None else dict(kind.initials(state))


def champion_state(state: State) -> State:
    """Return the state of the model that predicts, also beside challengers."""
    kind = kind_of(state.type)
    found: State = state if kind is None else kind.champion_state(state)
    return found


class Opening:
    """Opens what checkpoints hold as the model of a run, as it begins without a checkpoint."""

    def __init__(self, model: Any) -> None:
        self._fresh = model.state()
        self.initial = champion_state(self._fresh)
        """That of the run's own model: of a contest the champion's."""
        self._digest = self._digest_of(model)
        """Of the run's own model, out of its shards."""

    def _digest_of(self, model: Any) -> str:
        return fingerprint(self.initial.child("learner") if model.in_shards else self.initial)

    def open(self, state: State, like: Any) -> Any:
        """Return the model of a state, with the challengers of this run.

        It is `like` the run's model as it is, in shards and place, if without challengers. Raises
        `StateError` if it cannot be opened, or the champion is not a model of this run.
        """
        if "champion" in state.header:
            champion = str(state.header["champion"])
            if initials(state).get(champion) != self._digest:
                raise StateError(other_champion(champion))
        state = champion_state(state)
        return like.reopened(state, kind_of(state.type))


def opening_of(model: Any) -> Opening:
    """Return what opens the models of checkpoints for a run that begins with a model."""
    made: Opening = (find("openings", model.TYPE) or Opening)(model)
    return made


def other_champion(champion: str) -> str:
    """Return the message for a champion of a checkpoint that this run does not have."""
    return (
        f"the champion of the checkpoint is {champion!r}, which is neither the model of this run "
        f"nor one of its challengers; name it (--challenger {champion}=...), give its options as "
        "those of the model, or roll the promotion back (streamk rollback)"
    )
