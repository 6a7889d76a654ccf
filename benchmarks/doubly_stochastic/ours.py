"""The learner with the block preconditioner, where the learner has it."""

from __future__ import annotations

import inspect
from typing import Any

from streamk.learners import DoublyStochastic

OPTION = "preconditioner"
ABSENT = "no figures with preconditioner: this DoublyStochastic has no such option"


def has_preconditioner() -> bool:
    """Whether `DoublyStochastic` has the option."""
    return OPTION in inspect.signature(DoublyStochastic.__init__).parameters


def preconditioned(kernel: Any, **options: Any) -> DoublyStochastic:
    """Return the learner with the preconditioner "block"."""
    made: Any = DoublyStochastic
    return made(kernel, **{OPTION: "block"}, **options)  # type: ignore[no-any-return]
