"""What was said of events whose labels are still to come."""

from __future__ import annotations

import numpy as np

from streamk.learners.recollection import Recollection


def opinion(value: float, n: int = 4) -> np.ndarray:
    return np.full(n, value, np.float32)


def test_each_opinion_is_given_once() -> None:
    said = Recollection(1 << 20)
    said.keep(b"a", opinion(1.0))
    said.keep(b"b", opinion(2.0))
    assert said.nbytes == 2 * 17
    found = said.take(b"a")
    assert found is not None
    assert found.tolist() == [1.0] * 4
    assert said.take(b"a") is None
    assert said.take(b"c") is None
    assert said.nbytes == 17
    said.clear()
    assert said.take(b"b") is None
    assert said.nbytes == 0


def test_the_last_opinion_on_an_event_counts() -> None:
    said = Recollection(1 << 20)
    said.keep(b"a", opinion(1.0))
    said.keep(b"a", opinion(2.0, 8))
    assert said.nbytes == 33
    found = said.take(b"a")
    assert found is not None
    assert found.tolist() == [2.0] * 8
    assert said.nbytes == 0


def test_the_oldest_are_forgotten() -> None:
    said = Recollection(5 * 17)
    for name in range(20):
        said.keep(bytes([name]), opinion(name))
        assert said.nbytes <= 5 * 17
    said.keep(bytes([15]), opinion(99.0))  # now the youngest
    said.keep(bytes([20]), opinion(20.0))
    kept = [name for name in range(21) if said.take(bytes([name])) is not None]
    assert kept == [15, 17, 18, 19, 20]


def test_one_is_kept_whatever_its_size() -> None:
    said = Recollection(0)
    said.keep(b"a", opinion(1.0))
    said.keep(b"b", opinion(2.0))
    assert said.take(b"a") is None
    assert said.take(b"b") is not None


def test_opinions_follow_the_unit_of_the_labels() -> None:
    said = Recollection(1 << 20)
    said.keep(b"a", opinion(3.0))
    said.shift(0.5, -1.0)
    said.keep(b"b", opinion(3.0))
    (a, b) = (said.take(name) for name in (b"a", b"b"))
    assert a is not None
    assert b is not None
    assert (a.tolist(), b.tolist()) == ([0.5] * 4, [3.0] * 4)
