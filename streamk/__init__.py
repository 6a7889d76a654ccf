"""Kernel learning on streams: predict, then learn, one event at a time, and resume exactly.

Importing this package is cheap. Each part is imported where it is used::

    from streamk.kernels import Gaussian
    from streamk.learners import DoublyStochastic
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
)

__all__ = [
    "BackendUnavailable",
    "EngineError",
    "InvalidInput",
    "NotLearned",
    "StateError",
    "StreamkError",
    "__version__",
]

__version__ = "0.1.0"
