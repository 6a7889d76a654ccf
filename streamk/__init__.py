"""Kernel learning on streams: predict, then learn, one event at a time, and resume exactly.

Importing this package is cheap. Each part is imported where it is used::

    from streamk.kernels import Gaussian
    from streamk.learners import MultiKernel
    from streamk.adapters.river import KernelClassifier
"""

from __future__ import annotations

import os

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
    "load",
    "warm_up",
]

TYPE_CHECKING = False  # typing, whose own it is, would take longer to import than all else here
if TYPE_CHECKING:
    from streamk.trained import TrainedModel

__version__ = "0.1.0"


def load(
    directory: str | os.PathLike[str],
    *,
    follow: float | None = None,
    key: str | os.PathLike[str] | None = None,
) -> TrainedModel:
    """Open the newest model that a job has saved, to predict with: `streamk.trained.load`.

    Parameters
    ----------
    directory : path or str
        The one given to ``streamk run --checkpoint``, a path or an address in an object store.
    follow : float, optional
        Seconds after which a prediction looks for a newer checkpoint first.
    key : path, optional
        File with the key that checkpoints must be signed with, that of ``--state-key``.

    Raises
    ------
    InvalidInput, StateError
        If there is no checkpoint there, or none that can be used.
    OSError
        If an object store is away.
    """
    from streamk import trained

    return trained.load(directory, follow=follow, key=key)


def warm_up() -> None:
    """Compile what the default models need, or load it from numba's cache.

    The compiled loops are made when they are first called, which takes seconds the very first time
    on a machine and about one in each process after that. Call this before a stream begins, so
    that its first event does not wait. Models of few columns learn and predict a few events, one
    and several at a time: two classes, three, and numbers; many kernels, whose loops are compiled
    in as many processes as there are cores, and one kernel with either sampler. A terminal shows
    how far it is; elsewhere the logger ``streamk.compiling`` tells at INFO what is compiled.

    Examples
    --------
    >>> import streamk
    >>> streamk.warm_up()
    """
    from streamk.learners import warming

    warming.warm_up()
