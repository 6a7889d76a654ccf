"""Learners by the types of their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamk.errors import StateError
from streamk.learners.doubly_stochastic.learner import DoublyStochastic
from streamk.learners.eigenpro.learner import EigenPro
from streamk.learners.kernel_ridge.learner import OnlineKernelRidge
from streamk.learners.meka.learner import StreamingMeka
from streamk.learners.multi_kernel.learner import MultiKernel
from streamk.learners.nystrom.learner import OnlineNystrom
from streamk.learners.scaled.learner import Scaled
from streamk.state import State

LEARNERS: dict[str, Any] = {
    learner.TYPE: learner
    for learner in (
        MultiKernel,
        DoublyStochastic,
        OnlineNystrom,
        StreamingMeka,
        OnlineKernelRidge,
        EigenPro,
    )
}
"""Learners by the names of their types."""
TYPES: dict[str, Any] = {**LEARNERS, Scaled.TYPE: Scaled}
"""Those, and what is around one."""


def type_of(state: State, types: Mapping[str, Any] = TYPES) -> Any:
    """Return the type of the learner whose state this is.

    Raises
    ------
    StateError
        If no learner of that type is known here.
    """
    if state.type not in types:
        raise StateError(
            f"no learner is registered as {state.type!r}; there are {', '.join(types)}"
        )
    return types[state.type]
