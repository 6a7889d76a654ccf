"""Models by name, for the command line and for checkpoints."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.features.random_features import check_seed
from streamk.kernels import Kernel
from streamk.learners.base import Learner
from streamk.learners.common.steps import Constant, Ladder, Step
from streamk.learners.contest.contest import Contest
from streamk.learners.doubly_stochastic.doubly_stochastic import DoublyStochastic
from streamk.learners.eigenpro.eigenpro import EigenPro
from streamk.learners.kernel_ridge import OnlineKernelRidge
from streamk.learners.kinds import KINDS, LEARNERS
from streamk.learners.meka.streaming import StreamingMeka
from streamk.learners.multi_kernel.multi_kernel import MultiKernel
from streamk.learners.nystrom import OnlineNystrom
from streamk.learners.rfm.feature_machine import FeatureMachine
from streamk.learners.scaled import Scaled
from streamk.learners.sharded.sharded import Sharded
from streamk.losses import Loss
from streamk.state import State

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


def _streaming_meka(*, task: str, step: float | Step | None = None, **options: Any) -> Scaled:
    if step is None and task == "regression" and options.get("optimizer", "sgd") == "sgd":
        step = 0.1  # what is solved for at each takeover is soon gone by larger ones
    return _on_embedded_features(StreamingMeka, task=task, step=step, **options)


def _on_embedded_features(
    learner: type[OnlineNystrom | StreamingMeka],
    *,
    task: str,
    kernel: str | Kernel = "gaussian",
    bandwidth: float = BANDWIDTH,
    loss: str | Loss | None = None,
    optimizer: str = "sgd",
    step: float | Step | None = None,
    **options: Any,
) -> Scaled:
    return Scaled(
        learner(
            _kernel(kernel, bandwidth),
            loss=loss or ("softmax" if task == "classification" else "squared"),
            task=task,
            optimizer=optimizer,
            step=_step(step, task) if step is not None or optimizer == "sgd" else None,
            **options,
        )
    )


def _online_nystrom(*, seed: int = 0, **options: Any) -> Scaled:
    check_seed(seed)  # that is all: nothing in it is random
    return _on_embedded_features(OnlineNystrom, **options)


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
    OnlineNystrom.TYPE: _online_nystrom,
    StreamingMeka.TYPE: _streaming_meka,
    OnlineKernelRidge.TYPE: partial(_on_centers, OnlineKernelRidge),
    EigenPro.TYPE: partial(_on_centers, EigenPro, bandwidth=2.0),
    FeatureMachine.TYPE: _feature_machine,
}
"""Makers of models by name; the first one is the default, which has nothing to tune."""
_TYPES: dict[str, Any] = {**KINDS, Sharded.TYPE: Sharded, Contest.TYPE: Contest}


def create(name: str, *, task: str, seed: int = 0, **options: Any) -> Learner:
    """Make a model that is ready for a raw stream: it scales the columns by itself.

    Parameters
    ----------
    name : str
        One of `MODELS`.
    task : {"classification", "regression"}
    seed : int, default 0
    **options
        For "multi-kernel" those of `MultiKernel`; it needs none, and ``external_experts=[]`` is for
        one without a feature machine. For "doubly-stochastic" ``kernel``
        (name or Kernel, "gaussian"), ``bandwidth`` (0.5), ``step`` (number or Step; `Ladder`, found
        with a preconditioner), ``loss`` (softmax, squared), ``batch_size`` (1; twice the block with
        a preconditioner), ``block_size`` and ``max_features`` (2048), and the other options of the
        learner. So every event moves every feature; with ``max_features`` above ``block_size`` the
        model grows. For "online-nystrom" ``kernel`` ("gaussian"), ``bandwidth``, ``step`` (1 for
        classes, 0.5 for numbers) and ``loss`` likewise, and the other options of `OnlineNystrom`;
        the seed is of no consequence. For "streaming-meka" these (``step`` 0.1 for numbers), and
        the other options of `StreamingMeka`. For "kernel-ridge" and "eigenpro" ``kernel``
        ("laplacian"), ``bandwidth`` (1, and 2 of "eigenpro"), and the other options of
        `OnlineKernelRidge` and of `EigenPro`. For "feature-machine" ``kernel``
        (``Matern(nu=0.5)``),
        ``bandwidth`` (1.5 or 6, compared; 1.5 of a kernel given by name), and the other options of
        `FeatureMachine`.
        A bandwidth is that of a kernel given by name.

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
        of_one = ("kernel", "bandwidth") if name != MultiKernel.TYPE else ()
        known = {*of_one, *defaults(name)}
        unknown = [option for option in options if option not in known]
        if not unknown:
            raise InvalidInput(f"options do not fit model {name!r}: {error}") from None
        there = ", ".join(sorted(known))
        raise InvalidInput(
            f"model {name!r} has no option {unknown[0]!r}; there are {there}"
        ) from None


def defaults(name: str) -> dict[str, Any]:
    """Return the defaults of the options of a model, by their names.

    Where `create` has another default than the learner has by itself, it is that of `create`.

    Examples
    --------
    >>> defaults("doubly-stochastic")["block_size"]
    2048
    """
    found = {}
    for makes in (LEARNERS[name].__init__, MODELS[name]):
        for option, parameter in inspect.signature(makes).parameters.items():
            if parameter.default is not parameter.empty:
                found[option] = parameter.default
    return found


def champion_state(state: State) -> State:
    """Return the state of the model that predicts, where there are challengers beside it.

    Examples
    --------
    >>> models = {name: create("multi-kernel", task="regression") for name in ("a", "b")}
    >>> champion_state(Contest(models).state()).type
    'multi-kernel'
    """
    return state.child("learner") if state.type == Contest.TYPE else state


def from_state(state: State, **placing: Any) -> Learner:
    """Return the learner whose state this is, whatever its type.

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
    if state.type not in _TYPES:
        raise StateError(
            f"no learner is registered as {state.type!r}; there are {', '.join(_TYPES)}"
        )
    learner: Learner = _TYPES[state.type].from_state(state, **placing)
    return learner
