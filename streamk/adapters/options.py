"""The options of estimators: which a learner takes, which are shown, which belong to another."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from streamk.errors import InvalidInput

OF_ONE_KERNEL = (
    *("kernel", "bandwidth", "loss", "step", "regularization"),
    *("batch_size", "block_size", "max_features", "sampler"),
)
"""Options of a doubly stochastic learner, as estimators have them."""
OF_LANDMARKS = (
    *("kernel", "bandwidth", "loss", "optimizer", "step", "regularization", "forgetting"),
    *("max_landmarks", "tol", "half_life"),
)
"""Options of a learner on landmarks, as estimators have them."""
OF_CLUSTERS = (
    *("kernel", "bandwidth", "loss", "optimizer", "step", "regularization", "forgetting"),
    *("rank", "n_clusters", "buffer", "buffer_size", "first", "every", "swap_delay"),
    *("max_error", "max_shift", "growth", "tol"),
)
"""Options of a learner on clusters, as estimators have them."""

GAMMA = {
    "gamma": "give bandwidth=1/sqrt(2*gamma) (laplacian: 1/gamma), in units of the scaled columns"
}
"""What to give in the place of scikit-learn's `gamma`."""
MANY = dict.fromkeys(
    [*OF_ONE_KERNEL, "gamma", "optimizer", "max_landmarks"],
    "many kernels need none, leave it out; an estimator of a single kernel is DoublyStochastic{0}",
)
"""What to do with the options of a single kernel."""

Init = TypeVar("Init", bound=Callable[..., None])


def advising(advice: Mapping[str, str]) -> Callable[[Init], Init]:
    """Return a decorator of `__init__` that says what to give in the place of other options.

    Raises
    ------
    InvalidInput
        From `__init__`, if it does not take one of the options that there is advice on.

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
    """

    def decorate(init: Init) -> Init:
        known = inspect.signature(init).parameters

        @functools.wraps(init)
        def advised(self: Any, *arguments: Any, **options: Any) -> None:
            for name, value in options.items():
                if name not in known and name in advice:
                    made = type(self).__name__
                    task = "Regressor" if made.endswith("Regressor") else "Classifier"
                    say = advice[name].format(task)
                    raise InvalidInput(f"{made} has no option {name}={value!r}: {say}")
            init(self, *arguments, **options)

        return cast("Init", advised)

    return decorate


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
