"""Where simulated processes write: a file that is cut back, and a topic that gets things twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from connectors.base import Output
from connectors.files.sinks import NDJSONSink

from .broker import Broker
from .world import World


class FileSink(NDJSONSink):
    """The real sink for files, with steps at which its process may die."""

    def __init__(self, path: Path, world: World) -> None:
        self._world = world
        try:
            super().__init__(path)
        except BaseException:
            if hasattr(self, "_file"):
                self._file.close()  # as the system does
            raise

    def write(self, outputs: Sequence[Output]) -> None:
        self._world.step("write")
        super().write(outputs)

    def mark(self) -> int:
        self._world.step("mark")
        return super().mark()


class TopicSink:
    """A sink that delivers what was written at the latest when it is flushed.

    A process that dies has delivered some of the rest, or nothing.
    """

    address = "topic:out"

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker, self._world, self._name = broker, broker.world, name
        self._waiting: list[Output] = []

    def write(self, outputs: Sequence[Output]) -> None:
        self._world.step("write")
        self._waiting += outputs
        self._deliver(self._world.random.randint(0, len(self._waiting)))

    def flush(self) -> None:
        self._world.step("mark")
        self._deliver(len(self._waiting))

    def mark(self) -> None:
        self.flush()

    def rewind(self, mark: object) -> None:
        pass

    def close(self) -> None:
        if not self._world.gone():
            self._deliver(len(self._waiting))

    def _deliver(self, n: int) -> None:
        self._broker.written += [(self._name, output) for output in self._waiting[:n]]
        del self._waiting[:n]
