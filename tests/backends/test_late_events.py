"""How much an event counts to the mixing where its label comes late."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from streamk.backends import LATE
from streamk.backends.numba_backend.experts import two_stage
from streamk.learners import MultiKernel


@njit(error_model="numpy")
def of_errors(known, errors, lags):
    out = np.empty(len(errors))
    for n in range(len(errors)):
        out[n] = two_stage.late_weight(known, errors[n], lags[n])
    return out


def weights_of(errors, lags):
    return of_errors(np.zeros(5), errors, lags)


def plain(errors, lags):
    """Return the weights by sums over all late errors before."""
    out, mean, late = [], 0.0, []
    for error, lag in zip(errors, lags, strict=True):
        mean += (lag - mean) / 32
        if mean < LATE:
            out.append(1.0)
            continue
        late.append(error)
        e, age = np.array(late), 0.999 ** np.arange(len(late) - 1, -1, -1)
        known = age.sum()
        r = (age[1:] * e[1:] * e[:-1]).sum() / (age * e * e).sum()
        r = (known * min(max(r, 0.0), 1.0) + 8.0) / (known + 8.0)
        out.append(max(1.0 / mean, (1.0 - r) / (1.0 + r)))
    return np.array(out)


@pytest.mark.parametrize("together", [1, 4, 24])
def test_errors_that_go_together_count_less(together: int) -> None:
    rng = np.random.default_rng(together)
    noise = rng.normal(size=3_000 + together)
    errors = np.convolve(noise, np.ones(together), "valid")[:3_000]
    lags = rng.integers(0, 100, 3_000)
    found = weights_of(errors, lags)
    np.testing.assert_allclose(found, plain(errors, lags), rtol=1e-9)
    r = 1.0 - 1.0 / together
    first = np.flatnonzero(found < 1.0)[0]
    assert found[first] < 0.13, "until more are known they count as equal"
    assert found[-500:].mean() == pytest.approx(max(0.02, (1 - r) / (1 + r)), rel=0.3)


def test_no_event_counts_less_than_its_part_of_the_lag() -> None:
    errors, lags = np.ones(2_000), np.full(2_000, 10)
    assert weights_of(errors, lags)[-1] == pytest.approx(0.1)
    assert weights_of(-errors * (-1.0) ** np.arange(2_000), lags)[-1] > 0.8


def test_events_count_in_full_again_where_labels_come_at_once_again() -> None:
    lags = np.repeat([100, 0], 500)
    found = weights_of(np.ones(1_000), lags)
    assert found[499] < 0.1
    assert (found[-400:] == 1.0).all()


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("lag", [0, LATE - 1, 2 * LATE])
def test_labels_that_are_not_late_count_in_full(task: str, lag: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + X[:, 1] if task == "regression" else (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0)
    model = MultiKernel(task=task, seed=1, columns=range(3))
    for n in range(200):
        model.predict_held_many(X[n : n + 1], [n])
        if n >= lag:
            model.learn_held_many(X[n - lag : n - lag + 1], [y[n - lag]], [n - lag])
    known = model._mixture.pool.arrays["LATE_ERRORS"]
    assert known[:-1].any() == (lag > LATE)
    assert (known[-1] > 0.0) == (lag > 0)


@pytest.mark.parametrize("factor", [0.0, 0.25, 500.0])
def test_errors_of_late_labels_follow_the_unit(factor: float) -> None:
    errors, lags = np.random.default_rng(2).normal(size=300), np.full(300, 50)
    pool = MultiKernel(task="regression", seed=1, columns=range(3))._mixture.pool
    known, expected = np.zeros(5), np.zeros(5)
    of_errors(known, errors, lags)
    of_errors(expected, factor * errors, lags)
    pool.arrays["LATE_ERRORS"][...] = known
    pool.shift_labels(factor, 0.5)
    expected[:-1] *= factor > 0.0
    np.testing.assert_allclose(pool.arrays["LATE_ERRORS"], expected)
