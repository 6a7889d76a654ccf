"""What experts said of events is kept until their labels come."""

from __future__ import annotations

import numpy as np
import pytest

from streamk.errors import StateError
from streamk.learners.multi_kernel.pending import (
    HeldPredictions,
    Kept,
    PendingPredictions,
    unequal,
)


def opinion(value: float, n: int = 4) -> np.ndarray:
    return np.full(n, value, np.float32)


def test_each_opinion_is_given_once() -> None:
    said = PendingPredictions(1 << 20)
    said.keep(b"a", Kept(opinion(1.0)))
    said.keep(b"b", Kept(opinion(2.0)))
    assert said.nbytes == 2 * 17
    found = said.take(b"a")
    assert found is not None
    assert found.scores.tolist() == [1.0] * 4
    assert said.take(b"a") is None
    assert said.take(b"c") is None
    assert said.nbytes == 17
    said.clear()
    assert said.take(b"b") is None
    assert said.nbytes == 0


def test_the_last_opinion_on_an_event_counts() -> None:
    said = PendingPredictions(1 << 20)
    said.keep(b"a", Kept(opinion(1.0)))
    said.keep(b"a", Kept(opinion(2.0, 8)))
    assert said.nbytes == 33
    found = said.take(b"a")
    assert found is not None
    assert found.scores.tolist() == [2.0] * 8
    assert said.nbytes == 0


def test_of_equal_events_each_has_its_own_opinion() -> None:
    said = PendingPredictions(1 << 20)
    for learned in (10, 20, 30, 40):
        said.keep(b"a", Kept(opinion(learned), learned))
    said.keep(b"a", Kept(opinion(41.0), 40))  # nothing was learned between the two
    usual = 21.0, 9.0, 1e9
    found = [said.take(b"a", each) for each in usual]
    assert [one.scores[0] for one in found if one is not None] == [20.0, 10.0, 41.0]
    assert b"a" in said
    assert said.nbytes == 17
    last = said.take(b"a")
    assert last is not None
    assert (last.learned, said.nbytes, len(said)) == (30, 0, 0)
    assert b"a" not in said


def test_the_oldest_are_forgotten() -> None:
    said = PendingPredictions(5 * 17)
    for name in range(20):
        said.keep(bytes([name]), Kept(opinion(name)))
        assert said.nbytes <= 5 * 17
    said.keep(bytes([15]), Kept(opinion(99.0)))  # now the youngest
    said.keep(bytes([20]), Kept(opinion(20.0)))
    kept = [name for name in range(21) if said.take(bytes([name])) is not None]
    assert kept == [15, 17, 18, 19, 20]


def test_one_is_kept_whatever_its_size() -> None:
    said = PendingPredictions(0)
    said.keep(b"a", Kept(opinion(1.0)))
    said.keep(b"b", Kept(opinion(2.0)))
    assert said.take(b"a") is None
    assert said.take(b"b") is not None


def test_opinions_follow_the_unit_of_the_labels() -> None:
    said = PendingPredictions(1 << 20)
    said.keep(b"a", Kept(opinion(3.0)))
    said.shift(0.5, -1.0)
    said.keep(b"b", Kept(opinion(3.0)))
    (a, b) = (said.take(name) for name in (b"a", b"b"))
    assert a is not None
    assert b is not None
    assert (a.scores.tolist(), b.scores.tolist()) == ([0.5] * 4, [3.0] * 4)


# --- held events, by their numbers ----------------------------------------------------------------


def held(*values: float) -> HeldPredictions:
    """Predictions of equal events, with numbers from 0 on."""
    found = HeldPredictions(1 << 20)
    for number, value in enumerate(values):
        said = PendingPredictions(1 << 20)
        said.keep(np.zeros(2).tobytes(), Kept(opinion(value).reshape(2, 2)))
        found.keep([number], np.zeros((1, 2)), said)
    return found


def test_equal_events_have_predictions_of_their_own() -> None:
    found = held(1.0, 2.0)
    for number, value in ((1, 2.0), (0, 1.0)):
        ((event, said),) = found.take([number], np.zeros((1, 2))).items()
        assert event == np.zeros(2).tobytes()
        assert said.scores.tolist() == [[value] * 2] * 2
    assert not found.take([0], np.zeros((1, 2)))


def test_what_is_held_is_a_copy_that_follows_the_unit() -> None:
    said, found = PendingPredictions(1 << 20), HeldPredictions(1 << 20)
    said.keep(np.zeros(2).tobytes(), Kept(opinion(3.0)))
    found.keep([7], np.zeros((1, 2)), said)
    said.shift(0.0, 0.0)
    found.kept.shift(0.5, -1.0)
    ((_, kept),) = found.take([7], np.zeros((1, 2))).items()
    assert kept.scores.tolist() == [0.5] * 4


def test_held_predictions_are_restored() -> None:
    kept = held(1.0, 2.0).arrays()
    again = HeldPredictions(1 << 20)
    again.restore(kept, (2, 2), (0, 0), 0)
    for name, array in again.arrays().items():
        np.testing.assert_array_equal(array, kept[name])
    with pytest.raises(StateError, match="shape"):
        again.restore(kept, (2, 3), (0, 0), 0)
    with pytest.raises(StateError, match="shape"):
        again.restore(kept, (2, 2), (0, 0), 12)
    with pytest.raises(StateError, match="forecasts"):
        again.restore(kept | {"forecasts": kept["forecasts"] + np.inf}, (2, 2), (0, 0), 0)


def test_a_slice_has_no_two_equal_events() -> None:
    events = np.array([1.0, 2.0, 2.0, 1.0, 2.0])[:, None]
    assert list(unequal(events)) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert not list(unequal(events[:0]))
