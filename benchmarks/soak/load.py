"""Events and their labels, written to topics as fast as a job takes them."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.engine import clients
from benchmarks.engine.broker import Broker
from connectors.kafka import KafkaSource

DELAY = 20_000
"""Events between one and its label."""
LABELLED = 50
"""Of so many events one has no label."""
BAD = 1000
"""Of so many events one is no JSON."""
BACKLOG = 60_000
"""Events that the job is behind, at most: enough for it never to wait."""
_AT_ONCE = 2000
_BODIES = 4096
_KEPT = {"retention.bytes": str(1 << 29), "segment.bytes": str(1 << 25)}


@dataclass(frozen=True)
class Topics:
    """Names of the topics."""

    events: str
    labels: str
    predictions: str

    @classmethod
    def made(cls, broker: Broker) -> Topics:
        """Make them; the broker keeps half a gigabyte of each."""
        return cls(*(broker.new_topic(**_KEPT) for _ in range(3)))


class Load:
    """Keeps topics ahead of a job.

    Attributes
    ----------
    written : int
        Events.
    """

    def __init__(self, address: str, topics: Topics) -> None:
        self.written = 0
        self._topics = topics
        client = clients.installed()[0]
        self._events = clients.writer(client, address, topics.events)
        self._labels = clients.writer(client, address, topics.labels)
        self._predictions = KafkaSource((address,), topics.predictions)
        self._bodies = _bodies()

    @classmethod
    @contextlib.contextmanager
    def of(cls, address: str, topics: Topics) -> Iterator[Load]:
        """Open one, and close it."""
        load = cls(address, topics)
        try:
            yield load
        finally:
            load.close()

    def predicted(self) -> int:
        """Predictions in their topic."""
        return self._predictions.end(f"{self._topics.predictions}:0") or 0

    def ahead(self, predicted: int) -> int:
        """Events in their topic that are to be predicted, after so many that are."""
        return self.written - self.written // BAD - predicted

    def step(self) -> None:
        """Write some events and labels, or rest where there are enough."""
        if self.ahead(self.predicted()) > BACKLOG:
            time.sleep(0.01)
            return
        for n in range(self.written, self.written + _AT_ONCE):
            body = "?" if n % BAD == BAD - 1 else self._bodies[n % _BODIES][0]
            self._events.send(b'{"id": %d, %s' % (n, body.encode()), [])
            late = n - DELAY
            if late >= 0 and late % LABELLED and late % BAD != BAD - 1:
                label = self._bodies[late % _BODIES][1].encode()
                self._labels.send(b'{"id": %d, "y": %s}' % (late, label), [])
        self.written += _AT_ONCE

    def close(self) -> None:
        """Wait until everything is delivered."""
        self._events.close()
        self._labels.close()
        self._predictions.close()


def _bodies() -> list[tuple[str, str]]:
    """Fields of events behind their key, each with its label."""
    rng = random.Random(0)
    found = []
    for _ in range(_BODIES):
        values = [rng.gauss(0.0, 1.0) for _ in range(8)]
        device = rng.choice(("phone", "tablet", "desktop"))
        fields = ", ".join(f'"x{i}": {value:.4f}' for i, value in enumerate(values))
        label = values[0] * values[1] + values[2] > 0 or device == "tablet"
        found.append((f'{fields}, "device": "{device}"}}', "true" if label else "false"))
    return found
