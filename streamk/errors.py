"""The exceptions of streamk, all under one root.

Every message names what was wrong, where (topic, partition, offset, row, column) and the fix,
so that ``except StreamkError as error: print(error)`` is enough to act on. The package
`connectors` has a root of its own, `connectors.errors.ConnectorError`, because it can be used
without streamk.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BackendUnavailable",
    "EngineError",
    "InvalidInput",
    "NotLearned",
    "StateError",
    "StreamkError",
    "WorkerLost",
]


def shown(value: Any) -> str:
    """Return how a message shows a value: NumPy's numbers, texts and arrays as Python's own.

    Examples
    --------
    >>> import numpy as np
    >>> shown(np.float64(-1.0)), shown([np.str_("a"), "b"]), shown({np.int64(1): "a"})
    ('-1.0', "['a', 'b']", "{1: 'a'}")
    """
    return repr(_plain(value))


def _plain(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {_plain(key): _plain(one) for key, one in value.items()}
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    return value


class StreamkError(Exception):
    """Root of every error that streamk raises on purpose."""


class InvalidInput(StreamkError, ValueError):
    """An argument or an event that cannot be used: a NaN, a wrong shape, an unknown name.

    It is a `ValueError` too, because callers of numerical code, scikit-learn's checks among
    them, look for that.
    """


class NotLearned(StreamkError):
    """A prediction was asked of a model that has not seen the events it needs for one."""


class StateError(StreamkError):
    """A state or a checkpoint that is damaged, of another type, or of an unknown format."""


class BackendUnavailable(StreamkError):
    """A backend was chosen by name but its package or its device is missing here."""


class EngineError(StreamkError):
    """The engine cannot go on: its policy forbids it, or its input or output is gone."""


class WorkerLost(StreamkError):
    """A worker on another machine died, and more often than it may be replaced."""
