"""`streamk serve` and the page of a job: times of requests beside a job that learns.

paced  so many requests a second, while the job learns what is written to its standard input at a
       steady rate

A request has one event of elec2. The server, the client and the job are a process each. Times are
to the end of the answer, at the client: from when the request was due.
"""

from __future__ import annotations

import contextlib
import heapq
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import Directory
from benchmarks.engine import LABEL, Event, encoded, load_events

# --- load -----------------------------------------------------------------------------------------
#
# Requests to a server, from a process of their own.
#
# Each connection sends a request, reads its answer and sends the next one, at once or, with a rate,
# when it is due: then a time is counted from when the request was due, so that a server that falls
# behind cannot hide it. One thread waits for all connections, without a library for HTTP or for
# coroutines: it shares the cores with what is measured.

_PATIENCE = 30.0
"""Seconds without an answer after which the server is given up."""


def request(host: str, path: str, event: bytes | None) -> bytes:
    """Return the bytes of a request: of a prediction with an event, else of a path."""
    head = f"{'GET' if event is None else 'POST'} {path} HTTP/1.1\r\nHost: {host}\r\n"
    if event is None:
        return f"{head}\r\n".encode()
    about = f"Content-Type: application/json\r\nContent-Length: {len(event)}\r\n\r\n"
    return f"{head}{about}".encode() + event


def is_whole(answer: bytes) -> bool:
    """Return whether an answer is there as a whole. Raises `RuntimeError` unless its status is 200.

    >>> is_whole(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{")
    False
    """
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(answer.decode())
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return len(body) >= int(length)


class _Connection:
    """A connection, and when its request was due."""

    def __init__(self, host: str, port: int, due: float) -> None:
        self.due, self.count, self._answer = due, 0, b""
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fileno = self._socket.fileno
        self.close = self._socket.close

    def send(self, asked: bytes) -> None:
        """Send a request."""
        self._answer = b""
        self.count += 1
        self._socket.sendall(asked)

    def read(self) -> bool:
        """Read of the answer what is there; return whether that is all of it."""
        some = self._socket.recv(1 << 16)
        if not some:
            raise RuntimeError("the server has closed a connection")
        self._answer += some
        return is_whole(self._answer)


def load_of(
    host: str,
    port: int,
    path: str,
    events: Sequence[Mapping[str, Any]],
    connections: int,
    seconds: float,
    rate: float,
) -> dict[str, list[float]]:
    """Return the seconds of all requests, and by how many each was sent late.

    Parameters
    ----------
    host, port, path
    events : sequence of dict
        To be predicted, taken in turn by each connection; without any a path alone is asked for.
    connections : int
    seconds : float
    rate : float
        Requests a second of all connections, 0 for no bound.
    """
    bodies = [msgspec.json.encode(event) for event in events] or [None]
    requests = [request(f"{host}:{port}", path, body) for body in bodies]
    every = connections / rate if rate else 0.0
    began = time.perf_counter() + 0.1
    all_of_them = [
        _Connection(host, port, began + i * every / connections) for i in range(connections)
    ]
    until = began + seconds
    times: list[float] = []
    late: list[float] = []
    idle = [(one.due, i) for i, one in enumerate(all_of_them)]
    heapq.heapify(idle)
    waiting: set[int] = set()
    while idle or waiting:
        now = time.perf_counter()
        while idle and idle[0][0] <= now:
            due, i = heapq.heappop(idle)
            one = all_of_them[i]
            one.send(requests[one.count % len(requests)])
            waiting.add(i)
            now = time.perf_counter()
            late.append(now - due)
        wait = max(0.0, idle[0][0] - now) if idle else _PATIENCE
        answered = select.select([all_of_them[i] for i in waiting], [], [], wait)[0]
        if not answered and not idle:
            raise RuntimeError(f"no answer for {_PATIENCE} s")
        for one in answered:
            if one.read():
                now = time.perf_counter()
                times.append(now - one.due)
                one.due = one.due + every if every else now
                i = all_of_them.index(one)
                waiting.remove(i)
                if one.due < until:
                    heapq.heappush(idle, (one.due, i))
    for one in all_of_them:
        one.close()
    return {"times": times, "late": late}


# --- processes ------------------------------------------------------------------------------------
#
# The processes of a measurement: a server, a job, and a client.

MODELS: dict[str, tuple[str, ...]] = {
    "multi-kernel": (),
    "multi-kernel, no metric": ("--expert", "none"),
    "doubly-stochastic": ("--model", "doubly-stochastic"),
}
"""Options of a job, by what the tables call it; "no metric" is without a feature machine."""
CONNECTIONS = 16
"""Of a client that asks at a rate."""


def streamk(*arguments: str) -> list[str]:
    """Return a command of streamk."""
    return [sys.executable, "-m", "streamk", *arguments]


def port_of(line: str) -> int:
    """Return the port in the line that says where something listens."""
    found = re.search(r":(\d+)/?$", line.strip())
    assert found is not None, line
    return int(found[1])


@contextlib.contextmanager
def serving(state: Path) -> Iterator[int]:
    """Serve a checkpoint; yield the port."""
    process = subprocess.Popen(
        streamk("serve", str(state), "--http", ":0"), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        yield port_of(process.stderr.readline())
    finally:
        process.terminate()
        process.communicate()


def asked(
    port: int,
    events: Sequence[Event],
    connections: int,
    *,
    seconds: float,
    rate: float = 0.0,
    path: str = "/predict",
) -> dict[str, Any]:
    """Return what a client measured, in milliseconds; without events it asks for a path alone."""
    given = {
        "host": "127.0.0.1",
        "port": port,
        "path": path,
        "events": [x for x, _ in events],
        "connections": connections,
        "seconds": seconds,
        "rate": rate,
    }
    found = common.fresh(load_of, given)
    times, late = (1e3 * np.array(found[name]) for name in ("times", "late"))
    p50, p99, p999 = np.quantile(times, [0.5, 0.99, 0.999]).tolist()
    return {
        "requests": len(times),
        "p50": p50,
        "p99": p99,
        "p999": p999,
        "late_p99": float(np.quantile(late, 0.99)),
        "a_second": len(times) / seconds,
    }


def asked_in_rounds(
    told: Path,
    port: int,
    events: Sequence[Event],
    *,
    seconds: float,
    rate: int,
    rounds: int,
    path: str = "/predict",
) -> dict[str, Any]:
    """Return the medians of rounds, the p99 of each, and the events a second of a job meanwhile.

    `told` is the file of the job's progress.
    """
    first, began = events_of(told), time.monotonic()
    each = [
        asked(port, events, CONNECTIONS, seconds=seconds, rate=float(rate), path=path)
        for _ in range(rounds)
    ]
    learned_then, took = events_of(told) - first, time.monotonic() - began
    found: dict[str, Any] = {
        name: float(np.median([one[name] for one in each])) for name in each[0]
    }
    found["p99_of_rounds"] = [one["p99"] for one in each]
    found["learned_a_second"] = learned_then / took
    return found


def events_of(progress: Path) -> int:
    """Return the events that the last line of a job's progress tells of."""
    found = re.findall(rb'"events": (\d+)', progress.read_bytes())
    return int(found[-1]) if found else 0


# --- paced ----------------------------------------------------------------------------------------
#
# Requests beside a job that is held to so many events a second, by who writes to its input.
#
# serve   `streamk serve` answers predictions, and follows the checkpoints of the job (one in five
#         seconds)
# page    `streamk run --http` says that the job is alive, from a thread of the job's process
#
# A round of requests is as long as the time between two checkpoints. The figures are medians of
# those of the rounds: the machine may have other work.

PACE, SLOWER = 20_000, {"multi-kernel": 8_000}
"""Events a second, and those of models that cannot learn as many."""
STEP = 0.005
"""Seconds between two writes of events."""
LEARNED, ASKED = 40_000, 500
SECONDS, ROUNDS, RATES = 5.0, 6, (500, 2000)
WARM_UP = 4.0
"""Seconds before requests begin."""
EVERY = 100_000
"""Events between two checkpoints."""
PATIENCE = 120.0
"""Seconds in which the job begins, and writes a checkpoint."""


class Feeder(threading.Thread):
    """Writes lines to a pipe at a steady rate, in turn and without end."""

    def __init__(self, pipe: IO[bytes], lines: Sequence[bytes], pace: int) -> None:
        super().__init__(daemon=True)
        self._pipe, self._ended = pipe, threading.Event()
        size = max(1, round(pace * STEP))
        self._blocks = [b"".join(lines[i : i + size]) for i in range(0, len(lines), size)]
        self._every = size / pace

    def run(self) -> None:
        """Write until `end`, or the reader has gone."""
        due, n = time.monotonic(), 0
        with contextlib.suppress(BrokenPipeError, ValueError):
            while not self._ended.wait(max(0.0, due - time.monotonic())):
                self._pipe.write(self._blocks[n % len(self._blocks)])
                due, n = due + self._every, n + 1

    def end(self) -> None:
        """Write no more."""
        self._ended.set()


@contextlib.contextmanager
def _job(home: Path, model: str, lines: Sequence[bytes], every: int, *more: str) -> Iterator[Path]:
    """Have a job learn lines at the pace, with checkpoints; yield the file of what it tells."""
    told, state = home / "told.ndjson", home / "job"
    often = ("--checkpoint-every", str(every))
    options = ("--label", LABEL, *MODELS[model], "--json", *often, *more)
    command = streamk("run", "stdin:", *options)
    with told.open("wb") as log, contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, state, ignore_errors=True)
        process = subprocess.Popen(
            [*command, "--checkpoint", str(state)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            bufsize=0,
        )
        assert process.stdin is not None
        stack.callback(process.stdin.close)
        feeder = Feeder(process.stdin, lines, SLOWER.get(model, PACE))
        feeder.start()
        # It may be writing to a pipe that is full, until nobody reads any more.
        stack.callback(feeder.join)
        stack.callback(process.wait)
        stack.callback(process.kill)
        stack.callback(feeder.end)
        yield told


def paced(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Times by model, who answers, and requests a second."""
    events = load_events("elec2", data, 500 if quick else LEARNED, quick=quick)
    lines = [line + b"\n" for line in encoded(events)]
    questions = {"serve": ("/predict", events[:ASKED]), "page": ("/healthz", [])}
    seconds, rounds, warm_up = (0.5, 1, 0.5) if quick else (SECONDS, ROUNDS, WARM_UP)
    every = EVERY // 100 if quick else EVERY
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for model in MODELS:
            found[model] = {}
            for who, (path, asking) in questions.items():
                of_rate = found[model][who] = {}
                with _answering(who, Path(directory), model, lines, every) as (told, port):
                    time.sleep(warm_up)
                    for rate in RATES:
                        how = {"seconds": seconds, "rounds": rounds, "rate": rate, "path": path}
                        one = asked_in_rounds(told, port, asking, **how)
                        of_rate[str(rate)] = one
                        common.note(f"  {model}, {who}, {rate}: {one}")
    return {"pace": PACE, "slower": SLOWER, "models": found}


@contextlib.contextmanager
def _answering(
    who: str, home: Path, model: str, lines: Sequence[bytes], every: int
) -> Iterator[tuple[Path, int]]:
    """Have a job learn, and somebody answer; yield the file of what the job tells, and the port."""
    if who == "serve":
        with _job(home, model, lines, every) as told:
            # The first checkpoint is of before the first event.
            _until(lambda: len(list((home / "job").glob("*/*/manifest.json"))) > 1)
            with serving(home / "job") as port:
                yield told, port
    else:
        url = re.compile(rb'"url": "[^"]*:(\d+)"')
        with _job(home, model, lines, every, "--http", ":0") as told:
            _until(lambda: url.search(told.read_bytes()) is not None)
            yield told, int(url.findall(told.read_bytes())[0])


def _until(there: Callable[[], bool]) -> None:
    """Wait for a job to come so far."""
    deadline = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the job was not ready within {PATIENCE:g} s")
        time.sleep(0.1)


def render_paced(found: Mapping[str, Any]) -> str:
    """The table of the times."""
    rows = []
    for model, by in found["models"].items():
        for who, rates in by.items():
            for rate, one in rates.items():
                times = (f"{one[name]:.2f}" for name in ("p50", "p99", "p999"))
                learned = f"{one['learned_a_second']:,.0f}"
                rows.append([f"{model}, {who}", learned, f"{int(rate):,}", *times])
    header = ["beside a job that is fed", "events/s", "requests/s", "p50 ms", "p99", "p99.9"]
    return common.table(header, rows)


# --- the parts ------------------------------------------------------------------------------------

NAME = "serving"


PARTS = {
    "paced": Part(lambda o: paced(o.data, quick=o.quick), render_paced),
}

render, run = common.topic(NAME, __doc__, PARTS)


if __name__ == "__main__":
    sys.exit(common.main(run))
