"""Workers in processes of this machine, which are replaced when they die."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import socket
import threading
from typing import Any

import numpy as np

from streamk.distributed.actors import Closing
from streamk.distributed.messages import Message, answered
from streamk.distributed.thread_limits import limited_threads
from streamk.errors import InvalidInput, WorkerLost

_SIZE = 8
"""Bytes of the size of a message."""


class Processes(Closing):
    """Processes that each do one task of a round.

    A process knows nothing but the task that it is sent. One that dies is replaced by another,
    which is sent the task again, so the result is the same. They live until `close`, or the end of
    a ``with`` statement, and end with the process that started them. Each takes one thread, unless
    `OMP_NUM_THREADS` or a variable of one library, such as `NUMBA_NUM_THREADS`, says otherwise.

    Parameters
    ----------
    count : int
        Processes.
    max_restarts : int, default 3
        Times that each of them is replaced before it answers again.

    Raises
    ------
    InvalidInput
        If there are none, or `max_restarts` is negative.

    Attributes
    ----------
    restarts : int
        Processes that were replaced so far.

    Examples
    --------
    >>> Processes(0)
    Traceback (most recent call last):
        ...
    streamk.errors.InvalidInput: count=0 must be an int of at least 1
    """

    def __init__(self, count: int, *, max_restarts: int = 3) -> None:
        for name, value, least in (("count", count, 1), ("max_restarts", max_restarts, 0)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidInput(f"{name}={value!r} must be an int of at least {least}")
        # A fork would copy locks that other threads hold, and the state of compiled loops.
        self._context = multiprocessing.get_context("spawn")
        self._max_restarts = max_restarts
        self._deaths = [0] * count
        self.restarts = 0
        self._lock, self._is_closed = threading.Lock(), False
        self._workers: list[tuple[Any, socket.socket]] = []
        try:
            for _ in range(count):
                self._workers.append(self._start())
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._deaths)

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [process.pid for process, _ in self._workers]

    def answer(self, place: int, message: bytes) -> Message:
        """Return what a process makes of a message; threads may wait for several at once.

        Raises
        ------
        WorkerLost
            If the process and those in its place die more often than `max_restarts`.
        InvalidInput
            If the processes are closed.
        """
        while True:
            with self._lock:
                if self._is_closed:
                    raise InvalidInput("the processes are closed; start others")
                connection = self._workers[place][1]
            with contextlib.suppress(EOFError, OSError):
                _send(connection, message)
                found = _received(connection)
                self._deaths[place] = 0
                return found
            self._replace(place)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            self._is_closed = True
            for process, _ in self._workers:
                process.kill()
                process.join()
                process.close()
            self._workers = []  # a connection is closed when no thread waits for it any more

    def _start(self) -> tuple[Any, socket.socket]:
        here, there = socket.socketpair()
        process = self._context.Process(target=_serve, args=(there,), daemon=True)
        with limited_threads():
            process.start()
        there.close()  # else its end would not be seen here
        return process, here

    def _replace(self, place: int) -> None:
        """Start another process in place of one that died."""
        with self._lock:
            if self._is_closed:
                return
            process, connection = self._workers[place]
            connection.close()
            process.kill()
            process.join()
            status = process.exitcode
            if self._deaths[place] == self._max_restarts:
                raise WorkerLost(
                    f"process {place} of {len(self)} died and was replaced "
                    f"{self._max_restarts} times without an answer, as often as max_restarts "
                    f"allows; the last time with exit status {status}"
                )
            self._deaths[place] += 1
            self.restarts += 1
            process.close()
            self._workers[place] = self._start()


def _serve(connection: socket.socket) -> None:
    """Do the tasks that come, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends its processes by itself
    with contextlib.suppress(EOFError, OSError):
        while True:
            _send(connection, answered(_received(connection)))


def _send(connection: socket.socket, message: bytes) -> None:
    """Send a message, its size before it."""
    connection.sendall(len(message).to_bytes(_SIZE, "little"))
    connection.sendall(message)


def _received(connection: socket.socket) -> memoryview:
    """Return the next message. Raises `EOFError` if the other end is closed."""
    return _filled(connection, int.from_bytes(_filled(connection, _SIZE), "little"))


def _filled(connection: socket.socket, size: int) -> memoryview:
    # Read into one place: a connection of multiprocessing makes room for all that is missing at
    # each read, by which 50 MB take five times as long.
    whole = np.empty(size, np.uint8).data
    rest = whole
    while rest:
        n = connection.recv_into(rest)
        if not n:
            raise EOFError
        rest = rest[n:]
    return whole
