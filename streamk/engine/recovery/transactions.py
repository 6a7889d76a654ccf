"""The transactions in which the sinks of a run write."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.base import Sink, Source, Transactional
from streamk.engine.checkpoints.reading import Checkpoint
from streamk.errors import InvalidInput

__all__ = ["SinkTransactions"]


class SinkTransactions:
    """Transactions of all sinks of a run that can write in one.

    Parameters
    ----------
    source : Source
    sinks : mapping of name to Sink
    seconds : float
        Time in which each is to be committed.

    Raises
    ------
    InvalidInput
        If no sink can.
    BadURL
        If they, or the group of the source, cannot be in one.
    """

    def __init__(self, source: Source, sinks: Mapping[str, Sink], seconds: float) -> None:
        able = {name: sink for name, sink in sinks.items() if isinstance(sink, Transactional)}
        if not able:
            raise InvalidInput(
                "transactions= needs a sink that can write in one: kafka://HOST:PORT/TOPIC"
            )
        self._name, *rest = able
        others = [able[name] for name in rest]
        self._transactions = able[self._name].transact(source, others, seconds)

    def settle(self, found: Checkpoint) -> None:
        """Have an end of what this process, or the one that left a checkpoint, has begun."""
        self._transactions.settle(found.body["marks"].get(self._name))
