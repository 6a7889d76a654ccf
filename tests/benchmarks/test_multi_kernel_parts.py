"""The benchmark of the multi-kernel learner runs, and what it leaves out is left out, then back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import multi_kernel
from benchmarks.multi_kernel import AGAINST
from benchmarks.streams import Stream, load


def stream(name: str, n: int = 150) -> Any:
    return load(name, None, quick=True, events=n)


def variant(name: str) -> Any:
    return next(v for whole, less in AGAINST for v in (whole, *less) if v.name == name)


def learned(name: str, found: Any) -> Any:
    """A variant's model after all events of a stream."""
    one = variant(name)
    with one.constants():
        model = multi_kernel.Direct(found, one.make)
        multi_kernel.run_through(model, found, one.delay)
    return model.model


# --- variants -------------------------------------------------------------------------------------


def test_patches_are_undone() -> None:
    def fail_with(one: Any) -> None:
        with one.constants():
            for owner, name, value in one.patches:
                assert getattr(owner, name) == value
            raise InterruptedError

    patches = [p for whole, less in AGAINST for one in (whole, *less) for p in one.patches]
    before = [getattr(owner, name) for owner, name, _ in patches]
    for whole, less in AGAINST:
        for one in (whole, *less):
            with pytest.raises(InterruptedError):
                fail_with(one)
    assert len(patches) == 3
    after = [getattr(owner, name) for owner, name, _ in patches]
    assert all(a is b for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("bank", range(5))
def test_a_bank_without_a_say_sleeps(bank: int) -> None:
    from streamk.learners.multi_kernel.tables import BANKS

    model = learned(f"no {BANKS[bank]}", stream("Waveform"))
    asleep = ~model._mixture.pool.arrays["ACTIVE"]
    assert asleep.tolist() == [n == bank for n in range(5)]
    said = model.decision_one(np.zeros(len(model.columns)))
    assert model.shares(np.zeros(len(model.columns)))[BANKS[bank]] == 0
    assert said.sum() == pytest.approx(1)


def halves(*, alike: bool) -> Any:
    """A stream of which one column matters; unless its halves are alike, that turns round."""
    X = np.random.default_rng(1).standard_normal((4000, 2))
    y = (X[:, 0] > 0) ^ (not alike and np.arange(4000) >= 2000)
    return Stream("halves", X, y, ("a", "b"))


def test_no_restarts() -> None:
    assert learned("all", halves(alike=False))._mixture.upkeep.alarms > 0
    assert learned("no restarts", halves(alike=False))._mixture.upkeep.alarms == 0
