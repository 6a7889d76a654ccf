"""Requests to a server, from a process of their own: python -m benchmarks.serving.load.

Each connection sends a request, reads its answer and sends the next one, at once or, with a rate,
when it is due: then a time is counted from when the request was due, so that a server that falls
behind cannot hide it. One thread waits for all connections, without a library for HTTP or for
coroutines: it shares the cores with what is measured.
"""

from __future__ import annotations

import heapq
import json
import select
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

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


def measure(
    host: str, port: int, requests: Sequence[bytes], connections: int, seconds: float, rate: float
) -> dict[str, list[float]]:
    """Return the seconds of all requests, and by how many each was sent late.

    Parameters
    ----------
    host, port
    requests : sequence of bytes
        Taken in turn by each connection.
    connections : int
    seconds : float
    rate : float
        Requests a second of all connections, 0 for no bound.
    """
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


def asked_of(given: Mapping[str, Any]) -> list[bytes]:
    """Return the requests that are wanted: predictions of events, or a path."""
    host = f"{given['host']}:{given['port']}"
    events = [msgspec.json.encode(event) for event in given["events"]]
    return [request(host, given["path"], event) for event in events or (None,)]


def main() -> None:
    """Take what to do from stdin as JSON, write the times to stdout."""
    given = json.load(sys.stdin)
    how = {name: given[name] for name in ("host", "port", "connections", "seconds", "rate")}
    print(json.dumps(measure(requests=asked_of(given), **how)))


if __name__ == "__main__":
    main()
