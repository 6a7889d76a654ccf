"""Processes that are forked from one that has imported streamk and loaded its compiled loops.

A program of Python that a test starts takes a second for that alone, whatever it then does. Here it
takes none: all else is as in a process of its own, which has its arguments, directory, environment,
standard streams and exit status, and which may be signalled and killed. Only the seed of the hashes
of strings is that of the process it is forked from. Where that is not enough (`/proc/PID/environ`
and `/proc/PID/cmdline` are those of the other), or where imports are what is tested, start a
process by `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_CAN_FORK = sys.platform == "linux"
_READ_ONCE = ("LD_", "NUMBA_", "OMP_", "OPENBLAS_", "PYTHON", "XDG_", "HOME")
"""Beginnings of variables that are read when something is imported, or once in a process."""


# --- in the process of the test -------------------------------------------------------------------


def popen(command: Sequence[str], *, env: Mapping[str, str] | None = None, **options: Any) -> Popen:
    """Start a program of Python, as `subprocess.Popen` does, with its options.

    The command is this interpreter and ``"-m", module, ...`` or ``file, ...``.
    """
    environment = dict(os.environ if env is None else env)
    kind = Forked
    if not _CAN_FORK or _read_once(environment) != _read_once(os.environ):
        kind = subprocess.Popen
    assert command[0] == sys.executable
    return kind(command, env=environment, **options)


def run(
    command: Sequence[str],
    *,
    capture_output: bool = False,
    check: bool = False,
    input: Any = None,  # noqa: A002
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program of Python until it ends, as `subprocess.run` does."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        options["stdin"] = subprocess.PIPE
    with popen(command, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def _read_once(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in environment if name.startswith(_READ_ONCE)}


class Forked(subprocess.Popen[Any]):
    """A process that was forked: only how it begins and how its end is heard of is other."""

    def _execute_child(self, args: Sequence[str], *given: Any) -> None:
        # Of what `Popen` hands on: the directory, the environment, and both ends of each stream.
        cwd, env, pipes = given[4], given[5], given[9:15]
        self._ours, theirs = socket.socketpair()
        request = {"arguments": args[1:], "cwd": str(cwd or Path.cwd()), "environment": env}
        message, theirs_of = json.dumps(request).encode(), (pipes[0], pipes[3], pipes[5])
        streams = [own if one == -1 else one for own, one in enumerate(theirs_of)]
        with theirs:
            control = _server()
            control.sendall(len(message).to_bytes(4, "big") + message)
            socket.send_fds(control, [b"!"], [theirs.fileno(), *streams])
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self.pid = int.from_bytes(self._receive(4), "big")
        self._child_created = True

    def _receive(self, size: int) -> bytes:
        received = self._ours.recv(size, socket.MSG_WAITALL)
        if len(received) < size:
            raise RuntimeError("the process that others are forked from has ended")
        return received

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if timeout is not None and not select.select([self._ours], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int.from_bytes(self._receive(4), "big", signed=True)
            self._ours.close()
        return self.returncode

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and select.select([self._ours], [], [], 0)[0]:
            self._wait(None)
        return self.returncode

    def __exit__(self, kind: object, *rest: Any) -> None:
        if kind is not None:
            self.kill()  # else its end would be waited for
        super().__exit__(kind, *rest)  # type: ignore[arg-type]


@cache
def _server() -> socket.socket:
    """Start the process that others are forked from, once in a process of tests.

    Returns what requests are sent by.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            cwd=Path(__file__).parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    started_by = os.getpid()

    def end() -> None:
        if os.getpid() == started_by:  # and not in a process that was forked from this one
            ours.close()
            server.wait()

    atexit.register(end)
    return ours


Popen = subprocess.Popen[Any]


# --- in the process that others are forked from ---------------------------------------------------


def _warm() -> None:
    """Import what programs of tests do, and load what the first events need."""
    import numpy as np

    import streamk.cli.dispatch
    import streamk.cli.inspect
    import streamk.cli.run  # noqa: F401
    from streamk.learners import create

    X = np.linspace(-1.0, 1.0, 18).reshape(9, 2)
    for task, y in (("classification", [*"ababababa"]), ("regression", X[:, 0].tolist())):
        for name, options in (
            ("multi-kernel", {"columns": ("a", "b")}),
            ("doubly-stochastic", {"block_size": 64, "max_features": 64}),
        ):
            create(name, task=task, **options).predict_then_learn_many(X, y)


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each request, and tell its sender the process and, when it ends, its status.

    A process whose sender has gone is killed. Returns the request in the process that was forked,
    and None where there will be no more.
    """
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        senders = {reply: pid for pid, reply in running.values()}
        ready, _, _ = select.select([control, *running, *senders], [], [])
        for one in ready:
            if one in senders:
                os.kill(senders[one], signal.SIGKILL)
            elif one in running:
                pid, reply = running.pop(one)
                os.close(one)
                _, status = os.waitpid(pid, 0)
                code = os.waitstatus_to_exitcode(status)
                with reply, contextlib.suppress(OSError):
                    reply.sendall(code.to_bytes(4, "big", signed=True))
        if control not in ready:
            continue
        request = _request(control)
        if request is None:
            return None
        reply = socket.socket(fileno=request["streams"].pop(0))
        pid = os.fork()
        if not pid:
            for number, (_, other) in running.items():
                os.close(number)
                other.close()
            reply.close()
            control.close()
            return request
        for stream in request["streams"]:
            os.close(stream)
        with contextlib.suppress(OSError):
            reply.sendall(pid.to_bytes(4, "big"))
        running[os.pidfd_open(pid)] = pid, reply


def _request(sender: socket.socket) -> dict[str, Any] | None:
    size = sender.recv(4, socket.MSG_WAITALL)
    if not size:
        return None
    message = sender.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    _, given, _, _ = socket.recv_fds(sender, 1, 4)
    request: dict[str, Any] = json.loads(message)
    request["streams"] = [*given]
    return request


def _become(request: dict[str, Any]) -> None:
    """Be the process that was asked for, and do what it does."""
    import runpy

    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
    for stream in request["streams"]:
        os.close(stream)
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # noqa: SIM115
        2, "w", buffering=1, errors="backslashreplace", closefd=False
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    first, *rest = request["arguments"]
    if first == "-m":
        sys.argv, sys.path[0] = rest, request["cwd"]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = [first, *rest], str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


def main() -> None:
    import gc

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the tests end this process
    with socket.socket(fileno=int(sys.argv[1])) as control:
        with (Path(tempfile.gettempdir()) / f"streamk-warming-{os.getuid()}").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # what one has compiled the next one loads
            _warm()
        gc.collect()
        gc.freeze()
        request = _serve(control)
    if request is not None:
        _become(request)


if __name__ == "__main__":
    main()
