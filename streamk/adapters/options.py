"""The options of estimators, and the advice where one belongs to another."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar, cast, dataclass_transform

from streamk.errors import InvalidInput, shown
from streamk.kernels import Kernel
from streamk.learners import Step
from streamk.losses import Loss

Kind = TypeVar("Kind", bound=type)
Init = TypeVar("Init", bound=Callable[..., None])


def advising(advice: Mapping[str, str]) -> Callable[[Init], Init]:
    """Return a decorator of `__init__` that says what to give in the place of other options.

    Raises
    ------
    InvalidInput
        From `__init__`, if it does not take one of the options that there is advice on.
    TypeError
        From it, for another one that it does not take, naming the one that is meant.

    Examples
    --------
    >>> class Model:
    ...     @advising({"gamma": "give bandwidth"})
    ...     def __init__(self, *, bandwidth=1.0):
    ...         self.bandwidth = bandwidth
    >>> Model(gamma=2)
    Traceback (most recent call last):
    ...
    streamk.errors.InvalidInput: Model has no option gamma=2: give bandwidth
    >>> Model(bandwith=2)
    Traceback (most recent call last):
    ...
    TypeError: Model has no option bandwith=2: did you mean bandwidth?
    """

    def decorate(init: Init) -> Init:
        """Return an `__init__` that gives advice and then does as this one."""
        known = [*inspect.signature(init).parameters][1:]

        @functools.wraps(init)
        def advised(self: Any, *arguments: Any, **options: Any) -> None:
            for name, value in options.items():
                if name in known:
                    continue
                made = type(self).__name__
                said = f"{made} has no option {name}={shown(value)}: "
                if name in advice:
                    task = "Regressor" if made.endswith("Regressor") else "Classifier"
                    raise InvalidInput(said + advice[name].format(task))
                raise TypeError(said + _meant(name, known))
            init(self, *arguments, **options)

        return cast("Init", advised)

    return decorate


_SEEDS = {"seed": "random_state", "random_state": "seed"}
"""The names of one option in River and scikit-learn."""


def _meant(name: str, known: Sequence[str]) -> str:
    """Return what to say of an option that is not among those known."""
    other = _SEEDS.get(name, "")
    if other and other not in known:
        return "leave it out, nothing in it is random"
    near = [other] if other else difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(advice: Mapping[str, str] | None = None) -> Callable[[Kind], Kind]:
    """Return a decorator of a class whose annotated attributes are the options of an estimator.

    Its ``__init__`` takes them by their names and keeps them as they are, as scikit-learn and
    River want it; a subclass adds options, or gives them other defaults.

    Parameters
    ----------
    advice : mapping of str to str, optional
        What to give in the place of options that other libraries have, see `advising`.

    Examples
    --------
    >>> @estimator({"gamma": "give bandwidth"})
    ... class Model:
    ...     kernel: str = "gaussian"
    ...     bandwidth: float = 1.0
    >>> Model(bandwidth=0.5).kernel
    'gaussian'
    """

    def decorate(kind: Kind) -> Kind:
        """Return the class, with an `__init__` of its options."""
        made: Any = dataclass(kw_only=True, eq=False, repr=False)(kind)
        made.__init__ = advising(advice or {})(made.__init__)
        found: Kind = made
        return found

    return decorate


def chosen(made: Any) -> dict[str, Any]:
    """Return the options of an estimator that are those of its learner.

    The default bandwidth is none beside a kernel that has its own, or needs none; another one is,
    and `streamk.learners.create` refuses it.

    Examples
    --------
    >>> chosen(OneKernel(bandwidth=2.0))["bandwidth"]
    2.0
    >>> "bandwidth" in chosen(OneKernel(kernel="linear"))
    False
    """
    defaults = {option.name: option.default for option in fields(made)}
    found = {name: getattr(made, name) for name in defaults if name not in _OF_ESTIMATORS}
    kernel = found.get("kernel")
    needs_none = isinstance(kernel, Kernel) or kernel == "linear"
    if needs_none and found["bandwidth"] == defaults["bandwidth"]:
        del found["bandwidth"]
    return found


def written(made: Any) -> str:
    """Return how an estimator is made, without the options that are as they are by default.

    Examples
    --------
    >>> class Model:
    ...     def __init__(self, *, kernel="gaussian", bandwidth=1.0):
    ...         self.kernel, self.bandwidth = kernel, bandwidth
    >>> written(Model(bandwidth=0.5))
    'Model(bandwidth=0.5)'
    """
    options = [
        f"{name}={getattr(made, name)!r}"
        for name, parameter in inspect.signature(type(made).__init__).parameters.items()
        if name != "self" and repr(getattr(made, name)) != repr(parameter.default)
    ]
    return f"{type(made).__name__}({', '.join(options)})"


_OF_ESTIMATORS = ("seed", "random_state", "n_epochs")
"""Options that are no learner's."""


@estimator()
class OneKernel:
    """Options of a doubly stochastic learner, as estimators have them."""

    kernel: str | Kernel = "gaussian"
    bandwidth: float = 0.5
    loss: str | Loss | None = None
    step: float | Step | None = None
    regularization: float = 0.0
    preconditioner: str | None = None
    batch_size: int | None = None
    block_size: int = 2048
    max_features: int = 2048
    sampler: str = "iid"


@estimator()
class OnLandmarks:
    """Options of a learner on landmarks, as estimators have them."""

    kernel: str | Kernel = "gaussian"
    bandwidth: float = 0.5
    loss: str | Loss | None = None
    optimizer: str = "sgd"
    step: float | Step | None = None
    regularization: float | None = None
    forgetting: float = 1.0
    max_landmarks: int = 512
    tol: float = 1e-3
    half_life: float | None = None


@estimator()
class OnEvents:
    """Options of kernel ridge regression on the last events, as estimators have them."""

    kernel: str | Kernel = "laplacian"
    bandwidth: float = 1.0
    regularization: float | None = None
    max_centers: int = 32_768
    corrections: int = 1


@estimator()
class OnCenters:
    """Options of a kernel model with centers of its own, as estimators have them."""

    kernel: str | Kernel = "laplacian"
    bandwidth: float = 2.0
    n_centers: int = 2000
    selection: str = "random"
    solver: str = "auto"
    regularization: float | None = None
    forgetting: float = 1.0
    batch_size: int = 256


@estimator()
class WithMetric:
    """Options of a recursive feature machine on a stream, as estimators have them."""

    kernel: str | Kernel | None = None
    bandwidth: float | None = None
    metric: str = "auto"
    rounds: int = 4
    buffer_size: int = 4096
    reservoir_size: int = 28_672
    first: int = 64
    every: int = 16_384
    swap_delay: int = 256


GAMMA = {
    "gamma": "give bandwidth=1/sqrt(2*gamma) (laplacian: 1/gamma), in units of the scaled columns"
}
"""Advice on scikit-learn's `gamma`."""
_OF_EXPERT = (*(option.name for option in fields(WithMetric)), "max_width")
MANY = {
    name: f"an expert has it: external_experts=[streamk.learners.FeatureMachine({name}=...)]"
    for name in _OF_EXPERT
} | dict.fromkeys(
    [*(option.name for option in fields(OneKernel)), "gamma", "optimizer", "max_landmarks"],
    "many kernels need none, leave it out; an estimator of a single kernel is DoublyStochastic{0}",
)
"""Advice on options of a single kernel, and on those of the feature machine among the experts."""
