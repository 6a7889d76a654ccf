"""Kernel learning on streams: predict, then learn, one event at a time, and resume exactly.

Importing this package is cheap. Each part is imported where it is used::

    from streamk.kernels import Gaussian
    from streamk.learners import MultiKernel
    from streamk.adapters.river import KernelClassifier
"""

from __future__ import annotations

from streamk.errors import (
    BackendUnavailable,
    EngineError,
    InvalidInput,
    NotLearned,
    StateError,
    StreamkError,
    WorkerLost,
)

__all__ = [
    "BackendUnavailable",
    "EngineError",
    "InvalidInput",
    "NotLearned",
    "StateError",
    "StreamkError",
    "WorkerLost",
    "__version__",
    "warm_up",
]

__version__ = "0.1.0"


def warm_up() -> None:
    """Compile what the default models need, or load it from numba's cache.

    The compiled loops are made when they are first called, which takes half a minute the very first
    time on a machine and about a second in each process after that. Call this before a stream
    begins, so that its first event does not wait. Models of few columns learn and predict a few
    events, one and several at a time: two classes, three, and numbers; many kernels, and one kernel
    with either sampler.

    Examples
    --------
    >>> import streamk
    >>> streamk.warm_up()
    """
    from streamk.learners import warming

    warming.warm_up()
