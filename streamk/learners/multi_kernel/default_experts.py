"""The external expert that a learner of many kernels has where none are chosen."""

from __future__ import annotations

from streamk.learners.feature_machine.learner import FeatureMachine

WIDEST = 256
"""Columns and classes, together, up to which it learns: what it keeps grows with them."""


def default_experts(*, task: str, seed: int) -> list[FeatureMachine]:
    """Return the learners that join the experts by default: a feature machine.

    Parameters
    ----------
    task : {"classification", "regression"}
    seed : int
        Of the learner that they join.

    Examples
    --------
    >>> [one.max_width for one in default_experts(task="regression", seed=1)]
    [256]
    """
    return [FeatureMachine(task=task, seed=seed, max_width=WIDEST)]
