"""Clients that send without end, or not at all: each costs little, and the others are answered."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import queue
import re
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from live_page_kit import serving

pytest.importorskip("starlette", reason="requests come by Starlette: pip install streamk[serve]")
pytest.importorskip("uvicorn", reason="the server is uvicorn: pip install streamk[serve]")

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.server import ServerState

from streamk.serving import server as protocol
from streamk.serving.pages import Guard
from streamk.serving.server import Server, listening

Address = tuple[str, int]

SENT = 1 << 25
"""Bytes that an attack sends, unless it is cut before."""
COST = 1 << 25
"""Bytes of memory that it may take."""
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = (
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
TRAILERS = CHUNKED + b"2\r\n{}\r\n0\r\n"
UPGRADE = GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"

ATTACKS: dict[str, tuple[bytes, bytes]] = {
    "headers": (GET, b"a: b\r\n"),
    "a header's value": (GET + b"a: ", b"x" * 1000),
    "a header's name": (GET, b"x" * 1000),
    "a header of blanks": (GET + b"a:", b" " * 1000),
    "an address": (b"GET /", b"x" * 1000),
    "a query": (b"GET /healthz?", b"x=1&"),
    "blank lines": (b"", b"\r\n" * 500),
    "a chunk's extension": (CHUNKED + b"2;", b"x" * 1000),
    "extensions of chunks": (CHUNKED, b"1;" + b"x" * 1000 + b"\r\n \r\n"),
    "the last chunk's extension": (CHUNKED + b"0;", b"x" * 1000),
    "trailers": (TRAILERS, b"a: b\r\n"),
    "a trailer": (TRAILERS + b"a: ", b"x" * 1000),
    "a chunked body": (CHUNKED, b"a\r\n0123456789\r\n"),
    "a body that nobody reads": (GET + b"Content-Length: 99999999999\r\n\r\n", b"x" * 1000),
    "requests": (b"", GET + b"\r\n"),
    "a websocket": (UPGRADE, b"\x81\x05hello"),
}
HEAD_TOO_LARGE = set(ATTACKS) - {
    *("extensions of chunks", "a chunked body", "a body that nobody reads"),
    *("requests", "a websocket"),
}


def sent(address: Address, beginning: bytes, unit: bytes) -> bytes:
    """What is answered to a beginning and units without an end, until the server hangs up."""
    found = bytearray()
    with socket.create_connection(address, timeout=60) as connection:

        def read() -> None:
            with contextlib.suppress(OSError):
                while part := connection.recv(1 << 16):
                    found.extend(part[: (1 << 20) - len(found)])

        reader = threading.Thread(target=read)
        reader.start()
        with contextlib.suppress(OSError):
            connection.sendall(beginning)
            units = unit * (1 + (1 << 16) // len(unit))
            for _ in range(SENT // len(units)):
                connection.sendall(units)
            connection.shutdown(socket.SHUT_WR)
        reader.join(90)
        assert not reader.is_alive(), "the connection stays open"
    return bytes(found)


def peak(process: forked_kit.Popen) -> int:
    """Bytes of memory that a process has had at most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    assert found
    return 1024 * int(found[1])


Started = tuple[forked_kit.Popen, Address]


@pytest.fixture(scope="module")
def started(state: Path) -> Iterator[Started]:
    with serving(state.parent, checkpoint=str(state)) as (process, url):
        host, _, port = url.removeprefix("http://").rpartition(":")
        yield process, (host, int(port))


@contextlib.contextmanager
def usual_client(address: Address) -> Iterator[None]:
    """Have a client ask again and again, on one connection, and be answered."""
    ended, answers = threading.Event(), list[Any]()

    def ask() -> None:
        client, sockets = http.client.HTTPConnection(*address, timeout=60), set()
        while True:
            client.request("GET", "/healthz")
            answer = client.getresponse()
            answers.append((answer.status, answer.read()))
            sockets.add(client.sock)
            if ended.wait(0.05):
                break
        answers.append(len(sockets))
        client.close()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
    assert answers.pop() == 1
    assert set(answers) == {(200, b'{"status":"ok"}')}


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_has_no_end_costs_little_and_harms_nobody(started: Started, attack: str) -> None:
    process, address = started
    before = peak(process)
    with usual_client(address):
        answer = sent(address, *ATTACKS[attack])
    assert peak(process) - before < COST
    if attack in HEAD_TOO_LARGE and not answer.startswith(b"HTTP/1.1 404"):
        assert answer.startswith(b"HTTP/1.1 431 "), answer[:200]
        assert b"16384 bytes and 100 headers at most" in answer


# --- a server in this process, of short times and few connections ---------------------------------

CONNECTIONS = 3


class App:
    """Says what it was asked, waits, or has a large answer."""

    def __init__(self) -> None:
        self.at_work = threading.Semaphore(0)
        self.may_end = threading.Event()

    async def echo(self, request: Request) -> Response:
        body = await request.body()
        return Response(b"%s of %d" % (body, len(request.scope["headers"])))

    async def wait(self, _: Request) -> Response:
        self.at_work.release()
        await asyncio.to_thread(self.may_end.wait, 60)
        return Response("waited")

    async def large(self, _: Request) -> Response:
        return Response(b"x" * (1 << 25))


@pytest.fixture
def app() -> Iterator[App]:
    found = App()
    yield found
    found.may_end.set()


@pytest.fixture
def address(app: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[Address]:
    monkeypatch.setattr(protocol, "_LOOK_SECONDS", 0.02)
    routes = [
        Route("/echo", app.echo, methods=["GET", "POST"]),
        Route("/wait", app.wait),
        Route("/large", app.large),
    ]
    with listening("127.0.0.1", 0) as listener:
        server = Server(Starlette(routes=routes), connections=CONNECTIONS)
        server._config.timeout_keep_alive = 600
        server.start(listener)
        yield listener.getsockname()


def until_cut(connection: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            found += part
    return found


def answered(address: Address, request: bytes) -> bytes:
    """What is answered until the server hangs up."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(request)
        return until_cut(connection)


def head(size: int, headers: int) -> bytes:
    """A request whose head has so many bytes and headers."""
    lines = [b"GET /echo HTTP/1.1", *(b"h%d: v" % n for n in range(headers - 2))]
    lines += [b"Connection: close", b"filler: "]
    lines[-1] += b"x" * (size - len(b"\r\n".join([*lines, b"", b""])))
    return b"\r\n".join([*lines, b"", b""])


@pytest.mark.parametrize("piece", [1, 1000, 1 << 20])
def test_a_head_has_its_bounds_however_it_comes(address: Address, piece: int) -> None:
    for size, headers, status in (
        (1 << 14, 100, b"200"),
        ((1 << 14) + 1, 10, b"431"),
        (5000, 101, b"431"),
    ):
        request, answer = head(size, headers), b""
        assert len(request) == size
        with socket.create_connection(address, timeout=60) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):
                for at in range(0, size, piece):
                    connection.sendall(request[at : at + piece])
            while part := connection.recv(1 << 16):
                answer += part
        assert answer.startswith(b"HTTP/1.1 %s " % status), (size, headers, answer)


def test_trailers_are_no_headers(address: Address) -> None:
    request = b"POST /echo HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailers = b"".join(b"t%d: v\r\n" % n for n in range(99))
    answer = answered(address, request + b"2\r\n{}\r\n0\r\n" + trailers + b"\r\n")
    assert answer.endswith(b"{} of 2")


def test_another_protocol_is_not_taken_up(address: Address) -> None:
    request = b"GET /echo HTTP/1.1\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    answer = answered(address, request + b"\x81\x05hello")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b" of 2")


STATUS = re.compile(rb"HTTP/1.1 (\d+) ")
WRONG_BODY = b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"


def echo(text: bytes, *, last: bool = False) -> bytes:
    connection = b"close" if last else b"keep-alive"
    request = b"POST /echo HTTP/1.1\r\nConnection: %b\r\nContent-Length: %d\r\n\r\n%b"
    return request % (connection, len(text), text)


def test_requests_that_come_at_once_are_answered_in_turn(address: Address) -> None:
    texts = [b"<%d>" % n for n in range(16)]
    requests = [echo(text, last=text is texts[-1]) for text in texts]
    assert re.findall(rb"<\d+>", answered(address, b"".join(requests))) == texts


@pytest.mark.parametrize(
    "wrong", [b"no request\r\n\r\n", b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n\r\n"]
)
def test_what_is_wrong_is_no_answer_to_what_came_before(address: Address, wrong: bytes) -> None:
    answer = answered(address, echo(b"<1>") + echo(b"<2>") + wrong)
    found = re.findall(rb"<\d>|HTTP/1.1 \d+", answer)
    assert found == [b"HTTP/1.1 200", b"<1>", b"HTTP/1.1 200", b"<2>"]


@pytest.mark.parametrize("wrong", [b"no request\r\n\r\n", WRONG_BODY])
def test_what_is_wrong_waits_for_what_is_at_work(address: Address, app: App, wrong: bytes) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(b"GET /wait HTTP/1.1\r\n\r\n")
        assert app.at_work.acquire(timeout=60)
        connection.sendall(wrong)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(60)
        app.may_end.set()
        answer = until_cut(connection)
    assert STATUS.findall(answer) == [b"200"]
    assert answer.endswith(b"waited")


def test_what_was_refused_has_no_other_answer(address: Address, app: App) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(WRONG_BODY.replace(b"/echo", b"/wait"))
        app.may_end.set()
        answer = until_cut(connection)
    assert STATUS.findall(answer) == [b"400"]


def test_what_is_whole_does_not_count_against_what_follows(address: Address) -> None:
    """Be it a request, or a chunk of a body."""
    usual = http.client.HTTPConnection(*address, timeout=60)
    sockets = set()
    for _ in range(200):
        usual.request("GET", "/echo", headers={"filler": "x" * 100})
        assert usual.getresponse().read() == b" of 3"
        sockets.add(usual.sock)
    assert len(sockets) == 1
    usual.request("POST", "/echo", (b"x" for _ in range(10_000)), encode_chunked=True)
    assert usual.getresponse().read().startswith(b"x" * 10_000)
    usual.close()


def test_too_many_requests_at_once_are_not_all_answered(address: Address) -> None:
    texts = [b"<%d>" % n for n in range(40)]
    answer = answered(address, b"".join(map(echo, texts)))
    assert re.findall(rb"<\d+>", answer) == texts[:17]


@pytest.mark.parametrize(
    ("part", "begun", "says"),
    [
        ("next request", b"", b""),
        ("next request", b"\r\n\r\n", b""),
        ("head", b"GET /echo HTTP/1.1\r\na: b\r\n", b"HTTP/1.1 408 "),
        ("head", echo(b"x") + b"GET", b"HTTP/1.1 408 "),
        ("body", b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nx", b"HTTP/1.1 408 "),
        ("body", b"POST /none HTTP/1.1\r\nContent-Length: 9\r\n\r\nx", b"HTTP/1.1 404 "),
    ],
)
def test_a_client_that_stops_is_cut(
    address: Address, monkeypatch: pytest.MonkeyPatch, part: str, begun: bytes, says: bytes
) -> None:
    monkeypatch.setitem(protocol._SECONDS, part, 0.05)
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(begun)
        answer = until_cut(connection)
    assert says in answer
    assert (says == b"") == (answer == b"")


def test_a_client_that_does_not_read_is_cut(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_UNREAD_SECONDS", 0.2)
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:  # nothing is taken: what is asked more is refused by the system at last
                connection.sendall(b"\r\n")
        assert len(until_cut(connection)) < 1 << 25


class Wire(asyncio.Transport):
    """A transport to a client that takes all there is."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_work_takes_the_time_that_it_takes() -> None:
    """As long as that may be, the client has its time after it."""

    async def run() -> None:
        may_end = asyncio.Event()

        async def wait(_: Request) -> Response:
            await may_end.wait()
            return Response("waited")

        now, loop = 0.0, asyncio.get_running_loop()
        loop.time = lambda: now  # type: ignore[method-assign]
        server = Server(Starlette(routes=[Route("/", wait)]))
        wire, one = Wire(), protocol.HTTPConnection(server._config, ServerState(), {}, loop)
        one.connection_made(wire)
        one.data_received(b"GET / HTTP/1.1\r\n\r\n")
        await turns()
        now = 1000.0
        one._look()
        may_end.set()
        await turns()
        assert wire.written.endswith(b"waited")
        now += protocol._SECONDS["next request"]
        one._look()
        assert not wire.closed
        now += 0.1
        one._look()
        assert wire.closed
        one.connection_lost(None)
        assert one._timer.cancelled()

    asyncio.run(run())


def test_what_came_too_late_is_not_taken() -> None:
    async def run() -> None:
        now, loop = 0.0, asyncio.get_running_loop()
        loop.time = lambda: now  # type: ignore[method-assign]
        wire = Wire()
        one = protocol.HTTPConnection(Server(Starlette())._config, ServerState(), {}, loop)
        one.connection_made(wire)
        one.data_received(b"GET / HTTP/1.1\r\n")
        now = 1000.0
        one._look()
        one.data_received(b"\r\n")
        await turns()
        assert STATUS.findall(wire.written) == [b"408"]
        one.connection_lost(None)

    asyncio.run(run())


@pytest.mark.parametrize(
    "begun", [b"", b"GET /", b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
)
def test_those_who_let_wait_give_way(address: Address, begun: bytes) -> None:
    with contextlib.ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(address, timeout=60))
            for _ in range(CONNECTIONS)
        ]
        for connection in idle:
            connection.sendall(begun)
        assert answered(address, echo(b"<1>", last=True)).endswith(b"<1> of 2")
        cut, _, _ = select.select(idle, [], [], 60)
        assert [until_cut(connection) for connection in cut] == [b""]


def test_where_all_are_at_work_a_new_one_is_refused(address: Address, app: App) -> None:
    with contextlib.ExitStack() as stack:
        busy = [
            stack.enter_context(socket.create_connection(address, timeout=60))
            for _ in range(CONNECTIONS)
        ]
        for connection in busy:
            connection.sendall(b"GET /wait HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert app.at_work.acquire(timeout=60)
        for _ in range(2):
            assert answered(address, echo(b"x", last=True)).startswith(b"HTTP/1.1 503 ")
        app.may_end.set()
        assert all(until_cut(connection).endswith(b"waited") for connection in busy)


def test_a_client_that_leaves_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    statuses: queue.Queue[int] = queue.Queue()

    async def read(request: Request) -> Response:
        return Response(await request.body())

    guarded = Guard(None, lambda _, status: statuses.put(status)).of(read)
    with listening("127.0.0.1", 0) as listener:
        Server(Starlette(routes=[Route("/", guarded, methods=["POST"])])).start(listener)
        with socket.create_connection(listener.getsockname(), timeout=60) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Type: application/json\r\n")
            connection.sendall(b"Host: localhost\r\nContent-Length: 9\r\n\r\nx")
        assert statuses.get(timeout=60) == 400
    assert not caplog.records
