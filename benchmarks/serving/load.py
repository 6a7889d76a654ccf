"""Requests to a server, from a process of their own: python -m benchmarks.serving.load.

Each connection sends a request, reads its answer and sends the next one, at once or, with a rate,
when it is due: then a time is counted from when the request was due, so that a server that falls
behind cannot hide it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import msgspec


def request(host: str, event: bytes) -> bytes:
    """Return the bytes of a request for a prediction."""
    head = (
        f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(event)}\r\n\r\n"
    )
    return head.encode() + event


async def _answer(reader: asyncio.StreamReader) -> None:
    """Read an answer. Raises `RuntimeError` unless its status is 200."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    length = next(
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length")
    )
    await reader.readexactly(length)


async def _connection(
    host: str, port: int, requests: list[bytes], first: float, until: float, every: float
) -> list[float]:
    """Return the seconds of each request of a connection."""
    reader, writer = await asyncio.open_connection(host, port)
    found, due, n = [], first, 0
    while due < until:
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        writer.write(requests[n % len(requests)])
        await _answer(reader)
        now = time.perf_counter()
        found.append(now - due)
        due = due + every if every else now
        n += 1
    writer.close()
    return found


async def measure(
    host: str, port: int, events: list[bytes], connections: int, seconds: float, rate: float
) -> list[float]:
    """Return the seconds of all requests; `rate` is that of all connections, 0 for no bound."""
    requests = [request(f"{host}:{port}", event) for event in events]
    every = connections / rate if rate else 0.0
    began = time.perf_counter() + 0.1
    spread = every / connections
    parts = await asyncio.gather(
        *(
            _connection(host, port, requests, began + i * spread, began + seconds, every)
            for i in range(connections)
        )
    )
    return [one for part in parts for one in part]


def main() -> None:
    """Take what to do from stdin as JSON, write the times to stdout."""
    asked = json.load(sys.stdin)
    asked["events"] = [msgspec.json.encode(event) for event in asked["events"]]
    print(json.dumps(asyncio.run(measure(**asked))))


if __name__ == "__main__":
    main()
