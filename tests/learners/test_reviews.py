"""Reviews of a pool of experts: drift, and sleep."""

from __future__ import annotations

import numpy as np
import pytest
from reference import naive

from streamk.backends.numba_backend.experts import reviews
from streamk.learners.multi_kernel.upkeep import ALARM, TRIAL


@pytest.mark.parametrize("seed", range(4))
def test_alarms_are_those_of_the_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses = np.concatenate([rng.gamma(2.0, level, 90) for level in (0.1, 0.3, 0.1, 0.12, 0.5)])
    values, plain = np.zeros(5), naive.PageHinkley(ALARM)
    found = [reviews.rises(values, loss, ALARM) for loss in losses]
    assert found == [plain.update(loss) for loss in losses]
    assert sum(found) >= 2


def test_equal_losses_are_no_alarm() -> None:
    values = np.zeros(5)
    assert not any(reviews.rises(values, 0.25, ALARM) for _ in range(1000))
    assert reviews.rises(values, 0.5, 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_banks_doze_as_each_would_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 4000
    losses = rng.uniform(0.4, 0.6, n)
    # Never of use, always, of use for a while, of use now and then.
    gains = np.column_stack(
        [
            np.zeros(n),
            np.zeros(n),
            np.full(n, 0.1),
            np.where(np.arange(n) % 1500 < 400, 0.1, 0.0),
            rng.choice([0.0, 0.06], n, p=[0.98, 0.02]),
        ]
    )
    values, active = np.zeros((6, 3)), np.ones(5, bool)
    values[:-1, 2] = TRIAL
    plain = [naive.Dozing() for _ in range(5)]
    for gain, loss in zip(gains, losses, strict=True):
        activated = reviews.schedule_banks(values, gain, loss, TRIAL, TRIAL, active)
        expected = [one.review(g, loss) for one, g in zip(plain, gain.tolist(), strict=True)]
        assert [bool(activated >> bank & 1) for bank in range(1, 5)] == expected[1:]
        assert active[1:].tolist() == [one.active for one in plain[1:]]
    assert active[0], "the first bank never sleeps"
    assert values[1, 2] > TRIAL
