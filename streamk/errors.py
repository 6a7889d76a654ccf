"""The exceptions of streamk, all under one root.

Every message names what was wrong, where (topic, partition, offset, row, column) and the fix,
so that ``except StreamkError as error: print(error)`` is enough to act on. The package
`connectors` has a root of its own, `connectors.errors.ConnectorError`, because it can be used
without streamk.
"""

from __future__ import annotations

__all__ = [
    "BackendUnavailable",
    "EngineError",
    "InvalidInput",
    "NotLearned",
    "StateError",
    "StreamkError",
    "WorkerLost",
]


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
