"""Errors between streamk and the outside world."""

from __future__ import annotations


class ConnectorError(Exception):
    """Root of every error raised by a connector."""


class BadURL(ConnectorError, ValueError):
    """A source or sink address, or one of its options, cannot be understood."""


class Unavailable(ConnectorError):
    """A package, host or file that the connector needs is not there; the message names it."""


class BadRecord(ConnectorError, ValueError):
    """A record, or a description of records, that cannot be used as it is."""


class Revoked(ConnectorError):
    """A commit was refused: the group has given the partitions to another member."""


class Aborted(ConnectorError):
    """A transaction was aborted, or its outcome is unknown; its work can be done again."""


class OffsetOutOfRange(ConnectorError):
    """The wanted position, `offset` in `partition`, does not exist (any more) in the source."""

    def __init__(self, message: str, *, partition: str, offset: int) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
