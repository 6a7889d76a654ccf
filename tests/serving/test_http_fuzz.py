"""Requests that nobody should send, to a real server: it refuses them and goes on as before."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_page_kit import serving

pytest.importorskip("starlette", reason="requests come by Starlette: pip install streamk[serve]")
pytest.importorskip("uvicorn", reason="the server is uvicorn: pip install streamk[serve]")

pytestmark = pytest.mark.slow

ASKED = json.dumps([{"a": 0.5, "b": -1.0, "c": "x"}, {}]).encode()
MOST = 150_000
"""Bytes of a body that are taken."""
INSIDE = re.compile(rb"Traceback|File \"|site-packages|\.py\b")
"""Texts that tell a client of our inside."""


class Raw(bytes):
    """Bytes that are shown in short where a request fails."""

    def __repr__(self) -> str:
        shown = bytes(self) if len(self) < 200 else bytes(self[:100])
        return f"{shown!r} of {len(self)} bytes"


class Served:
    """The command in a process of its own, which serves."""

    USUAL = ((b"POST", b"/predict", ASKED), (b"GET", b"/model", b""))
    """Requests of the usual kind, to which the answers stay the same."""

    def __init__(self, process: Any, address: str) -> None:
        self._process = process
        self._address = "127.0.0.1", int(address.rpartition(":")[2])
        self.first = self.well_formed()

    def send(self, request: bytes) -> bytes:
        """Send bytes on a connection of their own; what comes back until its end."""
        with socket.create_connection(self._address, timeout=60) as connection:
            answer = b""
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(1 << 16):
                    answer += part
            except TimeoutError:
                pytest.fail(f"no answer and no end after {request[:200]!r}")
            except OSError:  # it may hang up before it has all
                pass
            return answer

    def ask(self, method: bytes, path: bytes, headers: list[bytes], body: bytes) -> bytes:
        lines = [
            method + b" " + path + b" HTTP/1.1",
            b"Host: localhost",
            b"Connection: close",
            *headers,
        ]
        lines.append(b"Content-Length: %d" % len(body))
        return self.send(b"\r\n".join([*lines, b"", body]))

    def well_formed(self) -> list[bytes]:
        """What is answered to requests of the usual kind, but for ages."""
        found = []
        for method, path, body in self.USUAL:
            answer = self.ask(method, path, [b"Content-Type: application/json"], body)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            found.append(re.sub(rb'"age":[^,]*', b"", answer.partition(b"\r\n\r\n")[2]))
        return found

    def end(self) -> bytes:
        """What it has logged, after a well-behaved end."""
        self._process.terminate()
        _, log = self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        return log


FUZZED: list[Served] = []

TOKENS = st.sampled_from(
    [
        *(b"Content-Type", b"Content-Length", b"Transfer-Encoding", b"Authorization", b"Cookie"),
        *(b"Expect", b"Upgrade", b"Connection", b"Host", b"Accept-Encoding", b"X-Forwarded-For"),
    ]
)
VALUES = st.one_of(
    st.sampled_from(
        [
            *(b"application/json", b"application/json; charset=utf-16", b"text/plain"),
            *(b"chunked", b"gzip, chunked", b"-1", b"0", b"5", b"99999999999999999999"),
            *(b"Bearer ", b"Bearer \xff\xfe", b"streamk_token=\xe9", b"100-continue", b"h2c"),
            b"A" * 70_000,
        ]
    ),
    st.binary(max_size=20),
)
HEADERS = st.lists(
    st.one_of(
        st.tuples(TOKENS, VALUES).map(lambda pair: Raw(pair[0] + b": " + pair[1])),
        st.binary(max_size=20),
    ),
    max_size=4,
)
METHODS = st.sampled_from([b"GET", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"TRACE", b"get", b"\x00"])
PATHS = st.one_of(
    st.sampled_from(
        [
            *(b"/predict", b"/predict?interval=nan", b"/predict?interval=1e999&reasons=true"),
            *(b"/predict?interval=-1", b"/predict?reasons=%00", b"/predict?reasons=true&reasons=1"),
            *(b"/model", b"/metrics", b"/healthz", b"/readyz", b"/openapi.json", b"*"),
            *(b"/", b"/?token=%E2%82%AC", b"/?token=%0d%0aa:b", b"/points", b"/page/../x"),
            *(b"/page/page.js", b"/page/%00", b"/events?after=x", b"/events?after=" + b"9" * 5000),
            *(b"/status", b"/status?x", b"/events?rows=-", b"/events?rows=" + b"9" * 5000),
            *(b"/../../etc/passwd", b"/%2e%2e/state", b"//predict", b"http://there/predict"),
            *(b"/predict?" + b"a" * 70_000, b"/predict?\xff=%ff"),
        ]
    ),
    st.binary(max_size=20).map(lambda text: b"/" + text),
).map(Raw)
BODIES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            *(b"", b"{}", b"[]", b"[" * 50_000, b'{"a":' * 20_000, b'{"a": 1e400}', b"[null]"),
            *(b'{"a": "\\ud800"}', b'{"": {"": {"": 1}}}', b"5\r\n{\x00}\r\n0\r\n\r\n"),
            *(b'{"y": "other", "a": NaN}', b'{"a": ' + b"9" * 5000 + b"}", b"\xef\xbb\xbf{}"),
            b"[" + b",".join([b"{}"] * 1001) + b"]",
            b'{"text": "' + b"x" * MOST + b'"}',
        ]
    ),
).map(Raw)


def check(answer: bytes) -> None:
    """A request may be left without an answer, where the connection is; not with an inside."""
    assert not INSIDE.search(answer), answer
    if answer:
        status = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
        assert status, answer
        assert not status[1].startswith(b"5"), answer


@settings(max_examples=250, deadline=None, derandomize=True)
@given(METHODS, PATHS, HEADERS, BODIES)
def _no_request_makes_it_fail(
    method: bytes, path: bytes, headers: list[bytes], body: bytes
) -> None:
    check(FUZZED[0].ask(method, path, headers, body))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.one_of(st.binary(max_size=200), st.tuples(METHODS, st.binary(max_size=80)).map(b" ".join))
)
def _no_bytes_make_it_fail(request: bytes) -> None:
    check(FUZZED[0].send(request))


def test_it_goes_on_as_before(state: Path) -> None:
    with serving(state.parent, "--max-body", str(MOST), checkpoint=str(state)) as found:
        FUZZED[:] = [served := Served(*found)]
        _no_request_makes_it_fail()
        _no_bytes_make_it_fail()
        assert served.well_formed() == served.first
        log = served.end()
    assert b"Traceback" not in log, log[-4000:]
