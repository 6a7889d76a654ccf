"""A broker, its topics, and its share of the processor."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import common


@dataclass(frozen=True)
class Broker:
    """A broker that answers at an address; `pid` is known of one that was started here."""

    address: str
    pid: int | None = None

    def new_topic(self, partitions: int = 1, **configs: str) -> str:
        """Make a topic."""
        from kafka import KafkaAdminClient
        from kafka.admin import NewTopic

        name = f"benchmark-{secrets.token_hex(6)}"
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
        finally:
            admin.close()
        return name

    def cpu_seconds(self) -> float | None:
        """Seconds of one core that the broker has used so far; None of one started elsewhere."""
        return None if self.pid is None else cpu_seconds(self.pid)


def cpu_seconds(pid: int) -> float:
    """Seconds of one core that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def broker(address: str | None) -> Iterator[Broker | None]:
    """The broker at the address given, else one of demos/local_kafka.py; None if there can be none.

    Why there is none is noted.
    """
    if address:
        yield Broker(address)
        return
    path = common.ROOT / "demos" / "local_kafka.py"
    spec = importlib.util.spec_from_file_location("local_kafka", path)
    assert spec is not None
    assert spec.loader is not None
    local = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(local)
    lacks = local.missing()
    if lacks:
        common.note(f"no Kafka figures: needs {' and '.join(lacks)}, or --kafka HOST:PORT")
        yield None
        return
    with local.LocalKafka() as running:
        yield Broker(running.address, running.pid)
