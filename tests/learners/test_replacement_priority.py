"""The thread that makes functions anew yields to those that others wait for."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from streamk.backends import threads
from streamk.learners.renewal import REPLACEMENTS, Background, begun

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities")


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_blocks_and_events_do_not_yield_as_replacements_do() -> None:
    own = niceness()
    of_replacements = begun(REPLACEMENTS, niceness).result()
    of_blocks = begun(REPLACEMENTS, lambda: Background(niceness)).result().result()
    assert (niceness(), of_blocks) == (own, own)
    assert of_replacements == min(19, own + threads._NICENESS)


def test_threads_that_share_work_yield_as_the_one_does_that_has_it() -> None:
    def shared() -> set[int]:
        found: list[int] = []
        threads.divide(8, 10**9, lambda _: found.append(niceness()), 4)
        return set(found)

    own = niceness()
    assert begun(REPLACEMENTS, shared).result() == {min(19, own + threads._NICENESS)}
    assert shared() == {own}


def test_a_system_that_does_not_allow_it_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refused)
    threads.yield_to_others()
    assert not getattr(threads._own, "yields", False)
