"""Start a real Apache Kafka broker on this machine, for trying streamk and for its tests.

    python demos/local_kafka.py --topic events --topic predictions:4

makes those topics on it (with one partition, and with four). It needs Java 17 or newer and Maven,
nothing else; making topics needs kafka-python, which comes with streamk. The first start puts the
broker together from Maven Central into a cache directory (43 MB); later starts take a few seconds
and no network.
The broker is one KRaft node that listens on loopback only, on free ports; it prints its address
and runs until Ctrl-C or SIGTERM, and takes its data with it when it goes.

From Python, and so in the tests::

    with LocalKafka() as broker:
        print(broker.address)          # 127.0.0.1:PORT

Environment: ``STREAMK_LOCAL_KAFKA_DIR`` is the directory to keep the broker's files in
(default ``~/.cache/streamk/kafka-VERSION``).
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

KAFKA_VERSION = "4.2.0"
SLF4J_VERSION = "1.7.36"  # the slf4j-api that Kafka 4.2 depends on
JAVA_MINIMUM = 17  # Kafka 4 brokers do not run on less

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streamk</groupId>
  <artifactId>local-kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>{SLF4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


class LocalKafkaError(RuntimeError):
    """The broker could not be put together or started; the message says why and what to do."""


def java_version() -> int | None:
    """Return the major version of ``java`` on the path, None when there is none."""
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found.group(1)) if found else None


def kafka_dir() -> Path:
    """Where the broker's files are kept between runs."""
    given = os.environ.get("STREAMK_LOCAL_KAFKA_DIR")
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "streamk" / f"kafka-{KAFKA_VERSION}"


def missing() -> list[str]:
    """List what this machine lacks to run a broker, in words; empty when nothing is missing."""
    lacks = []
    version = java_version()
    if version is None:
        lacks.append(f"Java {JAVA_MINIMUM} or newer (no `java` on the path)")
    elif version < JAVA_MINIMUM:
        lacks.append(f"Java {JAVA_MINIMUM} or newer (`java` on the path is {version})")
    if shutil.which("mvn") is None and not (kafka_dir() / "lib").is_dir():
        lacks.append("Maven (no `mvn` on the path)")
    return lacks


def install() -> Path:
    """Put the broker's jars together, once, and return the directory that holds them.

    Raises LocalKafkaError when Java or Maven is missing or Maven cannot download.
    """
    lacks = missing()
    if lacks:
        raise LocalKafkaError(
            "a local Kafka needs "
            + " and ".join(lacks)
            + "; on Debian or Ubuntu: apt-get install openjdk-17-jre-headless maven"
        )
    home = kafka_dir()
    lib = home / "lib"
    home.mkdir(parents=True, exist_ok=True)
    with _locked(home / "install.lock"):
        if lib.is_dir():
            return lib
        with tempfile.TemporaryDirectory(dir=home, prefix="install-") as scratch:
            (Path(scratch) / "pom.xml").write_text(POM)
            goal = "dependency:copy-dependencies"
            done = subprocess.run(
                ["mvn", "-B", "-ntp", "-q", goal, "-DoutputDirectory=lib"],
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if done.returncode != 0:
                raise LocalKafkaError(
                    f"Maven could not download Apache Kafka {KAFKA_VERSION} (is Maven Central "
                    f"reachable, is a proxy or mirror set in ~/.m2/settings.xml?):\n"
                    + _tail(done.stdout)
                )
            # Renamed whole, so that an interrupted download is never taken for a finished one.
            (Path(scratch) / "lib").rename(lib)
    return lib


class LocalKafka:
    """One Apache Kafka broker (KRaft, one node, loopback) as a child process.

    Parameters
    ----------
    users:
        user name -> password. When given, the broker has a second listener, ``sasl_address``,
        that admits these users by SASL/PLAIN without encryption.
    tls:
        a directory with ``server.pem``, the broker's private key and certificate, and ``ca.pem``,
        the certificate of who signs those of clients. When given, the broker has two more
        listeners: ``tls_address``, and ``mutual_tls_address``, which asks clients for a
        certificate.
    heap_mb:
        Java heap of the broker in MiB.
    start_timeout:
        Seconds to wait until the broker answers.
    joins:
        a running broker, whose cluster this one is to be a second node of: it keeps partitions, and
        the first alone is controller.

    The data directory lives as long as the object: :meth:`stop` followed by :meth:`start`
    is a broker restart on the same ports with the same data, :meth:`close` (or leaving the
    ``with`` block) stops the broker and deletes the data.
    """

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        tls: Path | None = None,
        heap_mb: int = 512,
        start_timeout: float = 90.0,
        joins: LocalKafka | None = None,
    ) -> None:
        self._users = dict(users or {})
        self._tls = tls
        self._heap_mb = heap_mb
        self._start_timeout = start_timeout
        self._joins = joins
        self._process: subprocess.Popen[bytes] | None = None
        self._lib = install()
        self._port, self._controller_port, self._sasl_port, *self._tls_ports = free_ports(5)
        self._home = Path(tempfile.mkdtemp(prefix="streamk-kafka-"))
        self._log = self._home / "broker.log"
        atexit.register(self.close)
        try:
            self._format()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """``host:port`` of the plaintext listener."""
        return f"127.0.0.1:{self._port}"

    @property
    def sasl_address(self) -> str:
        """``host:port`` of the SASL/PLAIN listener; needs ``users``."""
        if not self._users:
            raise LocalKafkaError("this broker has no SASL listener: start it with users={...}")
        return f"127.0.0.1:{self._sasl_port}"

    @property
    def tls_address(self) -> str:
        """``host:port`` of the TLS listener; needs ``tls``."""
        return self._tls_address(0)

    @property
    def mutual_tls_address(self) -> str:
        """``host:port`` of the TLS listener that clients show a certificate to; needs ``tls``."""
        return self._tls_address(1)

    def _tls_address(self, which: int) -> str:
        if self._tls is None:
            raise LocalKafkaError("this broker has no TLS listener: start it with tls=...")
        return f"127.0.0.1:{self._tls_ports[which]}"

    @property
    def pid(self) -> int | None:
        """Process number of the running broker, None when it is not running."""
        return None if self._process is None else self._process.pid

    def start(self) -> LocalKafka:
        """Start the broker and return when it answers.

        Raises LocalKafkaError, with the end of the broker's log, when it exits or does not answer
        in time.
        """
        if self._process is not None:
            raise LocalKafkaError(f"the broker at {self.address} is already running")
        with self._log.open("ab") as log:
            # Its own session: Ctrl-C reaches this process, which then stops the broker in order.
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._home / "server.properties")),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                start_new_session=True,
            )
        try:
            self._await_answer(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the broker in order, keeping its data; no effect when it is not running."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash would, keeping its data."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Stop the broker and delete its data; no effect the second time."""
        # The data goes with the broker, so nothing is lost by not waiting for an orderly stop.
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)
        atexit.unregister(self.close)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic on the running broker."""
        from kafka import KafkaAdminClient
        from kafka.admin import NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.create_topics([NewTopic(name, partitions, 1)])
        finally:
            admin.close()

    def log_tail(self) -> str:
        """Return the last lines of the broker's own log."""
        return _tail(self._log.read_text(errors="replace"))

    def wait(self, timeout: float) -> int | None:
        """Return the broker's exit status, or None if it still runs after timeout seconds."""
        if self._process is None:
            return 0
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def __enter__(self) -> LocalKafka:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [
            "java",
            f"-Xmx{self._heap_mb}m",
            # A broker for minutes, not months: cheap compilation and collection start faster.
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Djava.net.preferIPv4Stack=true",
            "-Djava.awt.headless=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
            "-cp",
            f"{self._lib}/*",
            main,
            *arguments,
        ]

    def _format(self) -> None:
        properties = self._home / "server.properties"
        properties.write_text(self._properties())
        properties.chmod(0o600)
        cluster = "c3RyZWFtay1sb2NhbC1rYQ"  # 16 bytes in base64, as StorageTool's random-uuid
        controllers = "--standalone" if self._joins is None else "--no-initial-controllers"
        done = subprocess.run(
            self._java(
                "kafka.tools.StorageTool",
                *("format", controllers, "-t", cluster, "-c", str(properties)),
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise LocalKafkaError(
                f"Kafka could not format its storage in {self._home}:\n{_tail(done.stdout)}"
            )

    def _properties(self) -> str:
        listeners = {"PLAINTEXT": self._port}
        if self._users:
            listeners["SASL_PLAINTEXT"] = self._sasl_port
        if self._tls is not None:
            listeners["SSL"], listeners["MUTUAL"] = self._tls_ports
        advertised = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
        first = self if self._joins is None else self._joins
        controller = f"127.0.0.1:{first._controller_port}"
        is_first = first is self
        settings = {
            "process.roles": "broker,controller" if is_first else "broker",
            "node.id": "1" if is_first else "2",
            "log.dirs": str(self._home / "data"),
            "listeners": f"{advertised},CONTROLLER://{controller}" if is_first else advertised,
            "advertised.listeners": advertised,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": controller,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            "SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,MUTUAL:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            # One node: every internal topic has one replica.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # Short waits: a group forms at once, a dead member is noticed in seconds. A broker that
            # was killed is let back in once its last life's session is over.
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "6000",
            "group.consumer.min.heartbeat.interval.ms": "500",
            "group.consumer.heartbeat.interval.ms": "1000",
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "3000",
            "num.network.threads": "2",
            "num.io.threads": "2",
            "num.recovery.threads.per.data.dir": "1",
            "log.cleaner.dedupe.buffer.size": str(8 << 20),
            "log.segment.bytes": str(64 << 20),
            # An event's own time may lie years back; it must not be too old for that.
            "log.retention.ms": "-1",
            # A transaction whose producer is gone ends when its time is up, not 10 s later.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        }
        if self._users:
            login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
            users = " ".join(f'user_{name}="{word}"' for name, word in self._users.items())
            settings["sasl.enabled.mechanisms"] = "PLAIN"
            settings["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = f"{login} {users};"
        if self._tls is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._tls / "server.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._tls / "ca.pem"),
                "listener.name.mutual.ssl.client.auth": "required",
            }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._start_timeout
        while not answers(self._port):
            status = process.poll()
            if status is not None:
                reason = f"Kafka exited with status {status} while starting"
            elif time.monotonic() > deadline:
                reason = f"Kafka did not answer at {self.address} in {self._start_timeout:g} s"
            else:
                time.sleep(0.05)
                continue
            raise LocalKafkaError(f"{reason}; the end of its log:\n{self.log_tail()}")


def answers(port: int) -> bool:
    """Tell whether a broker on the port answers an ApiVersions request, as a ready one does."""
    # Kafka's wire protocol: size, API key 18, version 0, correlation id, no client id.
    request = struct.pack(">ihhih", 10, 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(request)
            reply = connection.recv(10)
    except OSError:
        return False
    return len(reply) == 10 and struct.unpack(">iih", reply)[1:] == (1, 0)


def free_ports(count: int) -> list[int]:
    """Find ports of loopback that nothing listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _tail(text: str, lines: int = 20) -> str:
    return "\n".join(text.splitlines()[-lines:])


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, so that two processes never install at once."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.partition(":")
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or not re.fullmatch(r"|[1-9]\d*", partitions):
        raise argparse.ArgumentTypeError("it is written NAME or NAME:PARTITIONS, such as events:4")
    return name, int(partitions or 1)


def main() -> int:
    """Run a broker until it is told to stop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--topic",
        metavar="NAME[:PARTITIONS]",
        type=_topic,
        action="append",
        default=[],
        help="make this topic, with one partition unless told; may be repeated",
    )
    topics = parser.parse_args().topic
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    try:
        with LocalKafka() as broker:
            for name, partitions in topics:
                broker.create_topic(name, partitions)
            print(f"Apache Kafka {KAFKA_VERSION} at {broker.address} (Ctrl-C stops it)", flush=True)
            while not stopping.is_set():
                status = broker.wait(0.2)
                if status is not None:
                    reason = f"Kafka exited with status {status}; the end of its log:"
                    raise LocalKafkaError(f"{reason}\n{broker.log_tail()}")
    except LocalKafkaError as error:
        print(f"local_kafka: {error}", file=sys.stderr)
        return 1
    print("stopped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
