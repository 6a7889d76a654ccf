"""HTTP by uvicorn, with the head of an answer and its body in one piece."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["WholeAnswers"]

_HEAD = b"HTTP/1.1 "
"""The beginning of all heads."""


class WholeAnswers(HttpToolsProtocol):
    """uvicorn's protocol, which writes head and body one after the other, on another transport.

    Two writes are two calls of the system and two packets, and the first of them wakes a client
    that cannot go on without the second.
    """

    def connection_made(  # type: ignore[override] # the transports of loops have no common type
        self, transport: asyncio.Transport
    ) -> None:
        """Begin with a connection."""
        super().connection_made(_Transport(transport, self.loop))  # type: ignore[arg-type]


class _Transport:
    """A transport that holds the head of an answer until the body comes, or the loop goes on."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._head = transport, loop, b""

    def write(self, data: bytes) -> None:
        """Write, or hold a head."""
        if not self._head and data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        data, self._head = self._head + data, b""
        self._transport.write(data)

    def _flush(self) -> None:
        """Write a head whose body is not there yet, unless the connection has gone meanwhile."""
        if self._head and not self._transport.is_closing():
            self.write(b"")

    def close(self) -> None:
        """Close, once what is held is written."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
