"""The sample of events against the oracle, and what it is a sample of."""

import numpy as np
import pytest
from reference import naive

from streamk.scaling.quantiles import Reservoir


@pytest.mark.parametrize("seed", [0, 2**63 + 12345])
@pytest.mark.parametrize(("capacity", "n"), [(16, 15), (16, 700), (40, 1000)])
def test_the_sample_is_the_oracles(seed, capacity, n):
    X = np.arange(float(n))[:, None]
    sample = Reservoir(1, capacity=capacity, seed=seed)
    for first, stop in [(0, 10), (10, 13), (13, n)]:
        sample.plan(first, stop)
        sample.take(X[first : first + 1], first)
        sample.take(X[first + 1 : stop], first + 1)
    assert sample.rows[:, 0].tolist() == naive.sampled(n, capacity, seed)


def test_the_first_rows_are_the_sample_of_a_smaller_one():
    n = 16 * 20  # its window
    large, small = naive.sampled(n, 50, 3), naive.sampled(n, 20, 3)
    assert large[:20] == small
    X = np.arange(float(n))[:, None]
    sample = Reservoir(1, capacity=50, seed=3)
    for first, stop, capacity in [(0, 130, 20), (130, n, 20)]:
        sample.plan(first, stop)
        sample.take(X[first:stop], first)
        sample.shrink(capacity)
    assert sample.rows[:, 0].tolist() == small


def test_far_event_numbers_have_words_of_their_own():
    first = 2**34 - 2
    sample = Reservoir(1, capacity=2048, seed=1)
    sample.plan(first, first + 4)
    sample.rows = np.zeros((2048, 1), np.float32)
    expected = [i for i in range(first, first + 4) if naive.place(1, i, 2048) < 2048]
    assert sample.next() == (expected[0] if expected else None)
    numbers = [i for i in range(first, first + 4096) if naive.place(1, i, 2048) < 2048]
    sample.plan(first, first + 4096)
    X = np.arange(4096.0)[:, None]
    assert sample.take(X, first)[:, 0].tolist() == [i - first for i in numbers]
