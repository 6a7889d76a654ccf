"""The transactions in which the sinks of a run write."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.base import Sink, Source, Transactional, Transactions
from streamk.errors import InvalidInput

__all__ = ["LONGEST_SECONDS", "SHORTEST_SECONDS", "transactions_of"]

SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 60.0
"""Between two commits; readers of the outputs wait so long, and brokers bound it."""


def transactions_of(
    source: Source, sinks: Iterable[Sink], seconds: float | None, *, saved: bool
) -> Transactions | None:
    """Return the transactions of all sinks that can write in one; None without `seconds`.

    Parameters
    ----------
    source : Source
    sinks : iterable of Sink
    seconds : float, optional
        Time in which each is to be committed.
    saved : bool
        Whether there are checkpoints.

    Raises
    ------
    InvalidInput
        If no sink can, or without checkpoints.
    BadURL
        If they, or the group of the source, cannot be in one.
    """
    if seconds is None:
        return None
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (number and SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS):
        raise InvalidInput(
            f"transactions={seconds!r} must be seconds between {SHORTEST_SECONDS:g} and"
            f" {LONGEST_SECONDS:g}"
        )
    if not saved:
        raise InvalidInput("transactions= needs checkpoint=: one is committed with each checkpoint")
    able = [sink for sink in sinks if isinstance(sink, Transactional)]
    if not able:
        raise InvalidInput(
            "transactions need a sink that can write in them: kafka://HOST:PORT/TOPIC"
        )
    first, *others = able
    return first.transact(source, others, seconds)
