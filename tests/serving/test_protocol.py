"""Answers as they go out: head and body in one piece, and a head alone without waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="requests come by uvicorn: pip install streamk[serve]")
pytest.importorskip("starlette", reason="requests come by Starlette: pip install streamk[serve]")

from streamk.serving.server import _Transport


class Written:
    """A transport that keeps what is written, piece by piece."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.pieces.append(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed


HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


def pieces(*calls: tuple[str, bytes | None]) -> list[bytes]:
    """What is written by calls in one turn of the loop, and by the loop after it."""

    async def run() -> list[bytes]:
        inner: Any = Written()
        transport = _Transport(inner, asyncio.get_running_loop())
        for name, data in calls:
            if name == "wait":
                await asyncio.sleep(0)
            else:
                getattr(transport, name)(*([] if data is None else [data]))
        await asyncio.sleep(0)
        assert transport.is_closing() == inner.closed
        return inner.pieces  # type: ignore[no-any-return]

    return asyncio.run(run())


def test_head_and_body_are_one_piece() -> None:
    assert pieces(("write", HEAD), ("write", b"{}")) == [HEAD + b"{}"]
    assert pieces(("write", HEAD), ("write", b"")) == [HEAD]
    twice = [("write", HEAD), ("write", b"{}")] * 2
    assert pieces(*twice) == [HEAD + b"{}"] * 2


def test_a_head_does_not_wait_for_a_body_that_comes_later() -> None:
    assert pieces(("write", HEAD)) == [HEAD]
    assert pieces(("write", HEAD), ("wait", None), ("write", b"a")) == [HEAD, b"a"]


def test_nothing_that_is_held_is_lost_or_changes_places() -> None:
    assert pieces(("write", HEAD), ("close", None)) == [HEAD]
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    found = pieces(("write", interim), ("write", HEAD), ("write", b"{}"))
    assert b"".join(found) == interim + HEAD + b"{}"


def test_nothing_is_written_to_a_connection_that_has_gone() -> None:
    assert pieces(("write", HEAD), ("abort", None)) == []
