"""What a first use compiles, how it is said, and that several processes share the work."""

from __future__ import annotations

import io
import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streamk.backends.first_use import FIRST_USE, FirstUse

_PREPARE = """
import json, os, sys
from streamk.backends.first_use import FIRST_USE
from streamk.learners import create
from streamk.learners.warming import preparing
lines = []
with FIRST_USE.shown(lines.append), preparing(create("multi-kernel", task="classification")):
    pass
from streamk.backends.numba_backend.experts import ahead
try:
    left = os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    left = None
missing = [one.name for one in ahead.missing("classification", with_feature_machine=True)]
done, model = FIRST_USE.done, create("multi-kernel", task="classification")
for n in range(400):  # beyond the first functions of a feature machine
    several = n % 6 if n > 200 else n % 13 > n % 17
    model.learn_one([0.1 * (n % 13), 0.1 * (n % 17)], str(several))
    model.predict_one([0.3, 0.4])
assert "feature-machine" in model.shares([0.3, 0.4])
print(json.dumps([lines, done, missing, left, FIRST_USE.done - done]))
"""


def prepared(cache: Path | None, **environment: str) -> tuple[list[str], int]:
    """Learn in a process of its own, with the loops of a cache or those that all have."""
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, "-c", _PREPARE],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    lines, loops, missing, left, later = json.loads(done.stdout)
    assert missing == []
    assert left is None
    assert later == 0, "an event has waited for a loop"
    return lines, loops


@pytest.mark.nightly
@pytest.mark.slow
def test_a_first_use_says_how_far_it_is_and_the_next_one_nothing(tmp_path: Path) -> None:
    lines, loops = prepared(tmp_path)
    assert lines[0] == "compiling for this processor, once: 0 of 32 loops"
    assert lines[-2:] == ["compiling for this processor, once: 32 of 32 loops", ""]
    assert loops == 32
    assert prepared(tmp_path) == ([], 0)


@pytest.mark.slow
def test_where_all_is_compiled_nothing_is_said_and_no_event_waits() -> None:
    prepared(None)
    assert prepared(None) == ([], 0)


def test_a_loop_outside_of_a_larger_work_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    first, lines = FirstUse(), []
    with caplog.at_level(logging.INFO, "streamk.compiling"), first.shown(lines.append):
        with first.loop("one"), first.loop("of_one"):
            pass
        with first.loop("two"):
            pass
    assert [text.partition(" in ")[0] for text in caplog.messages] == [
        "compiling for this processor, once",
        "compiled one",
        "compiled two",
    ]
    assert lines == [
        "compiling for this processor, once: 0 loops done",
        "",
        "compiling for this processor, once: 1 loops done",
        "",
    ]
    assert first.done == 2


def test_a_larger_work_is_logged_at_its_start_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    first = FirstUse()
    with caplog.at_level(logging.INFO, "streamk.compiling"), first.expecting(2):
        first.ended()
        with first.loop("two"):
            assert first.line() == "compiling for this processor, once: 1 of 2 loops"
    start, end = caplog.messages
    assert start == "compiling 2 loops for this processor, once"
    assert end.startswith("compiled 2 loops in ")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_one_line_which_goes() -> None:
    first, screen, file = FirstUse(), Terminal(), io.StringIO()
    with first.shown_on(screen), first.shown_on(file), first.expecting(1), first.loop("one"):
        pass
    assert screen.getvalue().split("\r")[-2].strip() == ""
    assert "1 of 1 loops" in screen.getvalue()
    assert "\n" not in screen.getvalue()
    assert file.getvalue() == ""


def compiled_one(first: FirstUse) -> None:
    with first.loop("one"):
        pass


def test_a_program_that_watches_nothing_is_told_on_its_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, screen = FirstUse(), Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with first.expecting(1):
        compiled_one(first)
    _, *lines, empty, end = screen.getvalue().split("\r")
    assert lines[0] == "streamk: compiling for this processor, once: 0 of 1 loops"
    assert lines[-1] == "streamk: compiling for this processor, once: 1 of 1 loops"
    assert (empty.strip(), end) == ("", "")


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_a_program_without_a_terminal_is_told_by_the_log_alone(
    stream: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    compiled_one(FirstUse())
    assert stream is None or stream.getvalue() == ""


def test_a_terminal_is_left_alone_where_the_log_is_shown_or_it_would_disturb(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, screen = FirstUse(), Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with caplog.at_level(logging.INFO, "streamk.compiling"):
        compiled_one(first)
    with first.hidden():
        compiled_one(first)
    thread = threading.Thread(target=compiled_one, args=[first])
    thread.start()
    thread.join()
    with monkeypatch.context() as patch:
        patch.setattr(multiprocessing, "parent_process", object)
        compiled_one(first)
    assert screen.getvalue() == ""
    compiled_one(first)
    assert "4 loops done" in screen.getvalue()


def test_the_line_is_there_while_the_main_thread_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    first, screen = FirstUse(), Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    begun, may_end = threading.Event(), threading.Event()

    def compile_for_long() -> None:
        with first.loop("long"):
            begun.set()
            assert may_end.wait(60)

    with first.loop("one"):  # another thread begins later and ends later
        thread = threading.Thread(target=compile_for_long)
        thread.start()
        assert begun.wait(60)
    print("result", file=sys.stderr)
    with first.loop("two"), first.loop("of_two"):  # another thread began before
        assert "compiling" in screen.getvalue().partition("\n")[2]
    print("result", file=sys.stderr)
    after = screen.getvalue()
    may_end.set()
    thread.join()
    assert screen.getvalue() == after
    for text in after.split("\n")[:2]:
        _, line, empty, result = text.split("\r")
        assert line == "streamk: compiling for this processor, once: 0 loops done"
        assert (empty.strip(), result) == ("", "result")


@pytest.mark.parametrize("ends_first", ["main", "other"])
def test_work_of_another_thread_leaves_the_line_to_the_main_thread(
    ends_first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, screen = FirstUse(), Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    begun, may_end = threading.Event(), threading.Event()

    def compile_two() -> None:
        with first.expecting(2):
            begun.set()
            assert may_end.wait(60)

    thread = threading.Thread(target=compile_two)
    thread.start()
    assert begun.wait(60)
    assert screen.getvalue() == ""
    with first.loop("one"):
        assert screen.getvalue() == "\rstreamk: compiling for this processor, once: 0 of 2 loops"
        if ends_first == "other":
            may_end.set()
            thread.join()
            assert screen.getvalue().count("\r") == 1
    after = screen.getvalue()
    may_end.set()
    thread.join()
    assert screen.getvalue() == after
    assert after.split("\r")[-2].strip() == ""


_FORK = """
import io, os, sys
from streamk.backends.first_use import FirstUse
class Terminal(io.StringIO):
    def isatty(self):
        return True
sys.stderr = Terminal()
first = FirstUse()
with first.loop("one"):
    before = sys.stderr.getvalue()
    child = os.fork()
if child:
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert before and sys.stderr.getvalue() != before  # cleared
else:
    with first.loop("two"), FirstUse().loop("two"):
        pass
    os._exit(sys.stderr.getvalue() != before)
sys.exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_process_leaves_the_terminal_to_the_first() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", _FORK], check=True, timeout=60)


def test_a_terminal_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    compiled_one(FirstUse())
    closed = Terminal()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    compiled_one(FirstUse())


def test_a_quiet_job_shows_nothing_of_a_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamk.cli.run import display

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with ExitStack() as stack:
        display({"quiet": True}, {}, stack)
        compiled_one(FIRST_USE)
    assert screen.getvalue() == ""


def test_what_compiled_functions_alone_call_refuses_python() -> None:
    from streamk.backends.numba_backend.experts import mixture

    with pytest.raises(TypeError, match="mix can be called by compiled functions only"):
        mixture.mix(None)


COMMAND = (sys.executable, "-m", "streamk", "run", "river:Phishing", "--label", "label", "--json")


def started(cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        COMMAND,
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("program", ["pass", "print(); input()", "print(); input(); print('x')"])
def test_processes_that_die_leave_nobody_waiting(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamk.backends.numba_backend.experts import ahead

    start, ended = subprocess.Popen, 0

    def count() -> None:
        nonlocal ended
        ended += 1

    def dying(command: list[str], **options: Any) -> subprocess.Popen[str]:
        return start([command[0], "-c", program], **options)

    monkeypatch.setattr(ahead.Loop, "is_cached", False)
    monkeypatch.setattr(subprocess, "Popen", dying)
    monkeypatch.setattr(ahead, "_cores", lambda: 2)
    monkeypatch.setattr(FIRST_USE, "ended", count)
    wanted = ahead.missing("regression", with_feature_machine=True)
    assert len(wanted) > 20
    with ahead.compiling(wanted, "regression"):
        pass
    assert ended == len(wanted) + (2 if "x" in program else 0)  # the others are compiled here


@pytest.mark.nightly
def test_an_interrupted_first_use_leaves_no_process_and_can_be_repeated(tmp_path: Path) -> None:
    running = started(tmp_path)
    assert running.stderr is not None
    with running:
        assert "compiling" in running.stderr.readline()
        while not any(tmp_path.rglob("*.nbc")):
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=60) == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)
    lines, loops = prepared(tmp_path)
    assert 0 < loops < 32
    assert lines[-1] == ""


@pytest.mark.nightly
def test_two_first_uses_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    pair = [started(tmp_path) for _ in range(2)]
    outcomes = [running.communicate(timeout=300) for running in pair]
    assert [running.returncode for running in pair] == [0, 0]
    one, other = (json.loads(out.splitlines()[-1]) for out, _ in outcomes)
    assert one["whole"] == other["whole"]
