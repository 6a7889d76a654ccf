"""The streaming two-sample test: what it promises, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamk.drift import StreamingMMD
from streamk.errors import InvalidInput

Numbers = np.ndarray[Any, Any]
Law = Callable[[np.random.Generator, int], Numbers]


def normal(rng: np.random.Generator, n: int) -> Numbers:
    return rng.normal(size=(n, 2))


def far(rng: np.random.Generator, n: int) -> Numbers:
    return rng.standard_cauchy(size=(n, 3)) * [1.0, 1e6, 1e-6]


def coins(rng: np.random.Generator, n: int) -> Numbers:
    return (rng.random((n, 1)) < 0.1).astype(float)


def gaps(rng: np.random.Generator, n: int) -> Numbers:
    X = rng.integers(0, 4, size=(n, 3)).astype(float)
    X[rng.random((n, 3)) < 0.3] = np.nan
    return X


def changed(kind: str, rng: np.random.Generator, n: int) -> Numbers:
    X = normal(rng, n)
    match kind:
        case "mean":
            X[:, 0] += 1.0
        case "variance":
            X[:, 1] *= 2.0
        case "correlation":
            X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    return X


# --- false alarms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [far, coins, gaps])
def test_alarms_are_as_rare_as_promised(law: Law) -> None:
    alpha, runs, alarms, low = 0.2, 30, 0, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 1])
        test = StreamingMMD(law(rng, 1).shape[1], alpha=alpha, warning=1.0, reference=64, seed=seed)
        alarms += bool(len(test.update(law(rng, 1000))))
        low += test.p_value <= 0.5
    # A binomial number with that probability is larger with probability 0.001.
    assert alarms <= 13
    assert low <= 23


# --- power ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "most"), [("mean", 300), ("variance", 500), ("correlation", 1000)]
)
def test_changes_are_found(kind: str, most: int) -> None:
    rng, before = np.random.default_rng(7), 3000
    X = np.vstack([normal(rng, before), changed(kind, rng, most)])
    found = StreamingMMD(2, seed=1).update(X)
    assert len(found) == 1
    assert found[0] > before


def test_a_run_begins_anew_after_an_alarm() -> None:
    rng = np.random.default_rng(8)
    levels = np.repeat([0.0, 3.0, -3.0], 700)
    test = StreamingMMD(2, seed=2)
    found = test.update(normal(rng, 2100) + levels[:, None])
    assert test.n_drifts == len(found) == 2
    assert 700 < found[0] < 850
    assert 1400 < found[1] < 1550
    assert test.p_value == 1.0
    assert not test.drift_detected


def test_what_it_says_of_the_last_event() -> None:
    rng, test = np.random.default_rng(9), StreamingMMD(2, seed=3)
    test.update(normal(rng, 600))
    assert not test.drift_detected
    assert not test.warning_detected
    assert test.p_value > 0.1
    warned = 0
    for x in normal(rng, 200) + 2.0:
        found = test.update(x[None])
        assert list(found) == ([0] if test.drift_detected else [])
        assert not (test.drift_detected and test.warning_detected)
        warned += test.warning_detected
        if test.drift_detected:
            assert test.p_value <= 0.01
            break
    assert test.n_drifts == 1
    assert warned > 0
    test.update(normal(rng, 1))
    assert not test.drift_detected
    assert test.p_value == 1.0


# --- cuts, states, columns ------------------------------------------------------------------------


def test_columns_come_late() -> None:
    rng = np.random.default_rng(10)
    X = np.hstack([normal(rng, 4000), rng.normal(size=(4000, 1))])
    X[2500:, 2] += 4.0
    test = StreamingMMD(["a", "b"], seed=4)
    assert not len(test.update(X[:1200, :2]))
    test.add_columns(["c"])
    assert test.columns == ("a", "b", "c")
    # The column is zero before, so that its coming is a change of its own.
    found = test.update(X[1200:])
    assert len(found) == 2
    assert 0 < found[0] < 700
    assert 1300 < found[1] < 1500


def test_features_grow_up_to_a_bound() -> None:
    rng, test = np.random.default_rng(12), StreamingMMD(1, max_features=700, reference=64)
    assert test.n_features == 192
    test.update(rng.normal(size=(1024, 1)))
    assert test.n_features == 384
    test.update(rng.normal(size=(3072, 1)))
    assert test.n_features == 576


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"alpha": 0.0}, "alpha=0.0 must be"),
        ({"alpha": 0.2, "warning": 0.1}, "warning=0.1 must be at least alpha=0.2"),
        ({"reference": 10}, "reference=10 must be a whole number of at least 64"),
        ({"columns": -1}, "columns=-1 must be"),
        ({"columns": ["a", "a"]}, "columns come twice: a"),
        ({"columns": "ab"}, "columns='ab' must be"),
    ],
)
def test_options_out_of_their_domain(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        StreamingMMD(**{"columns": 1, **options})


@pytest.mark.parametrize(
    ("X", "said"),
    [
        ([[1.0]], "1 columns and the model has 2"),
        ([1.0, 2.0], "shape"),
        ([[1.0, np.inf]], "column 1 is inf"),
        ([["a", "b"]], "array of numbers"),
    ],
)
def test_events_of_no_use_are_not_taken_in(X: Any, said: str) -> None:
    test = StreamingMMD(2)
    with pytest.raises(InvalidInput, match=said):
        test.update(X)
    assert test.n_events == 0
