"""Fixtures that several test files share: a real Kafka broker, and topics on it."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import importlib.util
import itertools
import logging
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import certificates
import pytest
from local_kafka import LocalKafka, missing

# A developer's machine may set these; a user's does not. Programs must not need the first, and
# without bytecode each of the hundreds of processes that tests start compiles all modules.
os.environ.pop("PYTHONUNBUFFERED", None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# There are more workers than cores. Threads of OpenBLAS spin while they wait for each other: where
# others have the cores, a small product takes a hundred times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_configure(config: pytest.Config) -> None:
    """Where warnings are errors, let pass what kafka-python 3.0 does by itself."""
    # It reads its schemas so when it is imported, and leaves sockets of lost connections to the
    # garbage collector, which may come upon them in any later test.
    for line in (
        "ignore:(read_text|open_text) is deprecated:DeprecationWarning",
        "ignore:unclosed <(socket.socket|ssl.SSLSocket):ResourceWarning",
    ):
        config.addinivalue_line("filterwarnings", line)


_COMPILER = pytest.StashKey[subprocess.Popen[bytes]]()
_COMPILING = """
from streamk.learners import create
from streamk.learners.warming import preparing
for task in ("classification", "regression"):
    with preparing(create("multi-kernel", task=task)):
        pass
"""


def pytest_xdist_auto_num_workers() -> int:
    """Return a worker more than cores: tests of brokers and processes wait most of the time."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile loops that most tests need while tests are collected, and none in two workers.

    Workers share numba's cache, but in a new environment they would all begin with the same loops.
    """
    if hasattr(session.config, "workerinput"):
        _compile_in_turn(Path(tempfile.gettempdir()) / f"streamk-compiling-{os.getuid()}")
    elif session.config.getoption("numprocesses", None):
        session.config.stash[_COMPILER] = subprocess.Popen(
            [sys.executable, "-c", _COMPILING], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Free what the last test has left, its sockets of lost connections too; end the compiler."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "unclosed <(socket.socket|ssl.SSLSocket)")
        gc.collect()
    if _COMPILER in session.config.stash:
        session.config.stash[_COMPILER].kill()
        session.config.stash[_COMPILER].wait()


def _compile_in_turn(folder: Path) -> None:
    """Have one process at a time compile a function for some types; the others then load it."""
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    folder.mkdir(exist_ok=True)
    compiled, held = Dispatcher.compile, set()

    def compile_(self: Any, signature: Any) -> Any:
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}{signature}"
        path = folder / hashlib.sha256(name.encode()).hexdigest()[:32]
        # The lock among threads first: who holds a file's could else wait for it.
        with global_compiler_lock:
            if path in held:  # another function of the same name, which this one calls
                return compiled(self, signature)
            with path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                held.add(path)
                try:
                    return compiled(self, signature)
                finally:
                    held.remove(path)

    Dispatcher.compile = compile_


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave parts of grids, and slow tests of one Kafka client, to the night.

    Files of slow and of other tests alternate.

    Slow tests mostly wait, others compute: side by side they use the cores.
    """
    slow = set()
    for item in _left_to_the_night(items):
        item.add_marker(pytest.mark.nightly)
    for item in items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if item.get_closest_marker("slow"):
            slow.add(item.path)
            if parameters.get("kafka_client") == "confluent":
                item.add_marker(pytest.mark.nightly)
    files = list(dict.fromkeys(item.path for item in items))
    parts = [path for path in files if path in slow], [path for path in files if path not in slow]
    turns = [path for pair in itertools.zip_longest(*parts) for path in pair if path is not None]
    place = {path: turn for turn, path in enumerate(turns)}
    items.sort(key=lambda item: place[item.path])


def _left_to_the_night(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return all but one of n cases of those grids that are marked so, chosen by their names."""
    grids: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("one_in") and not item.get_closest_marker("nightly"):
            grids.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = []
    for cases in grids.values():
        usual = _usual(cases, cases[0].get_closest_marker("one_in").args[0])  # type: ignore[union-attr]
        left += [item for item in cases if item not in usual]
    return left


def _usual(cases: list[pytest.Item], n: int) -> list[pytest.Item]:
    """Return one case of n, and of values that none of these has one each.

    A parameter with more values than that has some of them only.
    """
    drawn = sorted(cases, key=lambda item: zlib.crc32(item.name.encode()))
    usual = [item for item in drawn if not zlib.crc32(item.name.encode()) % n] or drawn[:1]
    for name in cases[0].callspec.params:  # type: ignore[attr-defined]
        values = [repr(item.callspec.params[name]) for item in drawn]  # type: ignore[attr-defined]
        if len(set(values)) <= len(cases) / n:
            had = {repr(item.callspec.params[name]) for item in usual}  # type: ignore[attr-defined]
            for item, value in zip(drawn, values, strict=True):
                if value not in had:
                    had.add(value)
                    usual.append(item)
    return usual


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Search for garbage between tests alone (`_as_it_was`, `_collected`).

    There is little of it while thousands of tests are collected. What is left of one test is then
    finalized at its end, not amid a later one: a finalizer that warns imports modules, and amid
    another import Python 3.11 fails by that (gh-106176).
    """
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave all that was collected out of every later search: it would take most of a second."""
    gc.collect()
    gc.freeze()


def _process_wide() -> dict[str, Any]:
    """What a test that changes it must put back: others of its process would go on with it."""
    log = logging.getLogger("streamk")
    return {
        "the log": (log.level, log.propagate, log.disabled, log.handlers[:], log.filters[:]),
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "signals": [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)],
        "the directory": Path.cwd(),
    }


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Fail a test that leaves what belongs to the process changed."""
    before = _process_wide()
    yield
    gc.collect(1)
    after = _process_wide()
    changed = [
        f"{name}: {was} became {after[name]}" for name, was in before.items() if after[name] != was
    ]
    assert not changed, f"the test has left something changed: {'; '.join(changed)}"


@pytest.fixture(autouse=True, scope="module")
def _collected() -> Iterator[None]:
    """Free what the tests of a file have left in cycles."""
    yield
    gc.collect()


@pytest.fixture
def many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have threads share work however little it is."""
    monkeypatch.setattr("streamk.backends.threads.PARALLEL_FLOPS", 1_000)


SASL_USERS = {"ada": "correct horse battery staple"}


def _no_broker(reason: str) -> None:
    """Skip, or fail where a broker is required: there a skip would hide untested code."""
    if os.environ.get("STREAMK_REQUIRE_KAFKA") == "1":
        pytest.fail(f"STREAMK_REQUIRE_KAFKA=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of certificates, see `certificates.make`."""
    lack = certificates.missing()
    if lack:
        _no_broker(f"the certificates for TLS need {lack}")
    return certificates.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def local_kafka(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """A LocalKafka that the tests may stop and start.

    It admits SASL_USERS on a second port and, where there are certificates, TLS on two more.
    """
    lacks = missing()
    if lacks:
        _no_broker(
            "STREAMK_TEST_KAFKA (host:port) is not set; a local Kafka needs " + " and ".join(lacks)
        )
    tls = None if certificates.missing() else request.getfixturevalue("tls_files")
    with LocalKafka(users=SASL_USERS, tls=tls) as broker:
        yield broker


@pytest.fixture
def restarted(local_kafka: Any) -> Iterator[Any]:
    """A broker that runs again afterwards, whatever became of the test."""
    yield local_kafka
    if local_kafka.pid is None:
        local_kafka.start()


@pytest.fixture(scope="session")
def kafka_address(request: pytest.FixtureRequest) -> str:
    """``host:port`` of a Kafka broker: STREAMK_TEST_KAFKA, or a local one by Java and Maven."""
    given = os.environ.get("STREAMK_TEST_KAFKA")
    return given or request.getfixturevalue("local_kafka").address


@pytest.fixture(params=["kafka-python", "confluent"])
def kafka_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a client, which is the one that sources and sinks of this process use."""
    if request.param == "confluent" and importlib.util.find_spec("confluent_kafka") is None:
        pytest.skip("confluent-kafka is not installed: pip install 'streamk[confluent]'")
    from connectors.kafka import client

    name: str = request.param
    monkeypatch.setattr(client, "CLIENTS", (name,))
    return name


@pytest.fixture
def kafka_topic(kafka_address: str) -> Callable[..., str]:
    """Make a new topic: ``kafka_topic(partitions=4, **{"max.message.bytes": "1000"}) -> name``."""
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"t-{secrets.token_hex(6)}"
        admin = KafkaAdminClient(bootstrap_servers=kafka_address)
        try:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
        finally:
            admin.close()
        return name

    return make
