"""Settings of the interpreter that a run changes, and gives back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from streamk.engine.interpreter import settled_objects, short_turns


def test_turns_are_short_in_the_block_alone() -> None:
    before = sys.getswitchinterval(), gc.get_threshold()
    with short_turns():
        assert sys.getswitchinterval() < 1e-3
        assert gc.get_threshold()[0] >= 50_000
        with short_turns():
            assert sys.getswitchinterval() < 1e-3
    assert (sys.getswitchinterval(), gc.get_threshold()) == before


def test_blocks_that_overlap_leave_no_trace() -> None:
    """As those of two runs in threads, of which the first ends first."""
    before = sys.getswitchinterval(), gc.get_threshold()
    one, other = ExitStack(), ExitStack()
    one.enter_context(short_turns())
    other.enter_context(short_turns())
    one.close()
    assert sys.getswitchinterval() < 1e-3
    other.close()
    assert (sys.getswitchinterval(), gc.get_threshold()) == before


def test_who_wants_shorter_turns_or_no_searches_has_them() -> None:
    before = sys.getswitchinterval(), gc.get_threshold()
    try:
        sys.setswitchinterval(1e-6)
        gc.set_threshold(0)
        with short_turns():
            assert sys.getswitchinterval() < 1e-5
            assert gc.get_threshold()[0] == 0
    finally:
        sys.setswitchinterval(before[0])
        gc.set_threshold(*before[1])


@pytest.fixture
def _none_left_out() -> Iterator[None]:
    """The tests themselves are left out: see tests/conftest.py."""
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.mark.usefixtures("_none_left_out")
def test_what_is_there_is_left_out_of_searches_for_garbage() -> None:
    assert gc.get_freeze_count() == 0
    with settled_objects():
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("_none_left_out")
def test_objects_that_were_left_out_before_stay_so() -> None:
    gc.freeze()
    with settled_objects():
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() > 1000
