"""From the options of an estimator to its learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamk import learners
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.learners import Learner

OF_ONE_KERNEL: dict[str, Any] = {
    "bandwidth": 0.5,
    "loss": None,
    "step": None,
    "regularization": 0.0,
    "batch_size": 1,
    "block_size": 2048,
    "max_features": 2048,
    "sampler": "iid",
}
"""Options of a learner of a single kernel, and their defaults; of numbers, many take a loss too."""

OF_LANDMARKS = (
    *("kernel", "bandwidth", "loss", "optimizer", "step", "regularization", "forgetting"),
    *("max_landmarks", "tol", "half_life"),
)
"""Options of a learner on landmarks, as estimators have them."""
OF_CLUSTERS = (
    *("kernel", "bandwidth", "loss", "optimizer", "step", "regularization", "forgetting"),
    *("rank", "n_clusters", "buffer", "buffer_size", "first", "every", "lag"),
    *("max_error", "max_shift", "growth", "tol"),
)
"""Options of a learner on clusters, as estimators have them."""


def make_learner(
    task: str,
    kernel: str | Kernel | None,
    chosen: Mapping[str, Any],
    class_weight: Any,
    guests: Sequence[Any] | None,
    seed: int,
    **options: Any,
) -> Learner:
    """Return a learner of the kernel, or one of many.

    Parameters
    ----------
    task : {"classification", "regression"}
    kernel : str or Kernel, optional
    chosen : dict
        The options `OF_ONE_KERNEL`.
    class_weight : "balanced" or dict of label to float, optional
    guests : sequence of learners of one kernel, optional
    seed : int
    **options
        Those of any learner.

    Raises
    ------
    InvalidInput
        If an option is for the other kind of learner, or out of its domain.

    Examples
    --------
    >>> type(make_learner("regression", None, OF_ONE_KERNEL, None, None, seed=1)).__name__
    'MultiKernel'
    """
    if kernel is not None:
        if class_weight is not None:
            raise InvalidInput(
                f"class_weight={class_weight!r} is for many kernels: leave kernel= out, "
                "or weigh the probabilities of predict_proba_one"
            )
        if guests:
            raise InvalidInput("guests= join many kernels: leave kernel= out")
        return learners.create(
            "doubly-stochastic", task=task, kernel=kernel, seed=seed, **chosen, **options
        )
    for name, value in chosen.items():
        if name == "loss" and task == "regression":
            options["loss"] = value
        elif value != OF_ONE_KERNEL[name]:
            raise InvalidInput(
                f"{name}={value!r} is for a learner of one kernel: give kernel='gaussian', "
                "say, or leave it out"
            )
    if class_weight is not None:
        options["class_weight"] = class_weight
    options["guests"] = guests
    return learners.create("multi-kernel", task=task, seed=seed, **options)
