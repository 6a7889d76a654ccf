"""Running quantiles against the plain oracle, and what they promise of a stream."""

import math

import numpy as np
import pytest
from numba import njit
from reference import naive
from state_kit import assert_same, reopened

from streamk.backends.numba_backend.experts.columns import rank_row
from streamk.errors import StateError
from streamk.scaling.quantiles import KNOTS, Reservoir, RunningQuantiles
from streamk.scaling.running import RunningScale
from streamk.state import State

BUDGET = 8 << 20
SMALL = 16  # bytes: the sample then has its fewest rows, 16
NAMES = ("center", "inverse", "knots", "indicator")


def events(n, seed=0, missing=0.1):
    """Spread out, tiny, far out, 0/1, a rare 1, constant, heavy tails, sparse, mostly constant,
    few values, never there."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=n),
            1e-6 * rng.normal(size=n),
            1e4 + rng.normal(size=n),
            rng.integers(0, 2, size=n),
            rng.uniform(size=n) < 0.03,
            np.full(n, 7.3),
            rng.standard_cauchy(size=n) * 100.0,
            rng.exponential(size=n) * (rng.uniform(size=n) < 0.06),
            np.where(rng.uniform(size=n) < 0.004, -5.0, 0.1),
            rng.integers(0, 4, size=n) / 10.0,
            np.full(n, np.nan),
        ]
    )
    X[rng.uniform(size=X.shape) < missing] = np.nan
    return X


def moments(n):
    return [m for m in [2**k for k in range(14)] + list(range(16384, n + 1, 8192)) if m <= n]


def by_the_oracle(X, *, seed, capacity):
    oracle = naive.Quantiles(X.shape[1], seed, capacity)
    for moment in moments(len(X)):
        oracle.estimate(X[:moment].tolist())
    return oracle


def observed(X, **options):
    quantiles = RunningQuantiles(X.shape[1], **options)
    quantiles.observe(X)
    return quantiles


def in_use(quantiles):
    return [getattr(quantiles, name).copy() for name in NAMES] + [quantiles.distance]


def is_sound(quantiles):
    finite = all(np.isfinite(getattr(quantiles, name)).all() for name in NAMES)
    ordered = (np.diff(quantiles.knots, axis=1) >= 0.0).all()
    return finite and ordered and (quantiles.inverse > 0.0).all() and 0.0 < quantiles.distance < 1e9


# --- estimates --------------------------------------------------------------------------------


@pytest.mark.parametrize(("budget", "capacity"), [(BUDGET, 2048), (SMALL, 16), (4400, 50)])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_estimates_are_the_oracles(budget, capacity, missing):
    n = 300 if capacity == 2048 else 1100
    X = events(n, seed=capacity, missing=missing)
    mine, oracle = observed(X, seed=9, budget=budget), by_the_oracle(X, seed=9, capacity=capacity)
    for name in NAMES:
        expected = np.array(getattr(oracle, name))
        np.testing.assert_allclose(getattr(mine, name), expected, rtol=1e-9, atol=1e-15)
    assert mine.distance == pytest.approx(oracle.distance, rel=1e-6)
    assert mine.version == oracle.version
    assert is_sound(mine)


def test_more_columns_than_a_block():
    X = np.tile(events(300), (1, 40))
    wide, narrow = (
        observed(X, seed=2, budget=50 * 8 * 440),
        observed(X[:, :11], seed=2, budget=4400),
    )
    for name in NAMES:
        expected = np.concatenate([getattr(narrow, name)] * 40)
        np.testing.assert_array_equal(getattr(wide, name), expected)
    assert wide.distance == pytest.approx(narrow.distance * math.sqrt(40), rel=0.17)


@pytest.mark.parametrize("budget", [SMALL, BUDGET])
def test_how_events_are_divided_and_restarts_change_nothing(budget):
    X = events(2500)
    alone, pairs = (RunningQuantiles(11, seed=4, budget=budget) for _ in range(2))
    changes = [alone.observe(x[None]) for x in X]
    for first in range(0, 2500, 2):
        changed = pairs.observe(X[first : first + 2])
        assert changed == any(changes[first : first + 2])
    whole = observed(X, seed=4, budget=budget)
    assert_same(whole, alone)
    assert_same(pairs, alone)
    assert sum(changes) == alone.version > 5
    assert {i + 1 for i, changed in enumerate(changes) if changed} <= set(moments(2500))
    ragged = RunningQuantiles(11, seed=4, budget=budget)
    for part in np.split(X, [0, 1, 2, 5, 37, 1000, 1023, 1025, 2049]):
        ragged.observe(part)
        until = ragged.until_change()
        ragged = reopened(ragged)
        assert ragged.until_change() == until
    assert_same(ragged, alone)
    assert not ragged.observe(X[:0])
    assert_same(ragged, alone)


def test_events_that_may_be_observed_at_once_share_their_estimates():
    X = events(20_000)
    alone, at_once = RunningQuantiles(11, budget=SMALL), RunningQuantiles(11, budget=SMALL)
    first, sizes = 0, []
    while first < 20_000:
        n = min(at_once.until_change(), 20_000 - first)
        sizes.append(n)
        at_once.observe(X[first : first + n])
        for x in X[first : first + n]:
            alone.observe(x[None])
            assert alone.version == at_once.version
        for a, b in zip(in_use(alone), in_use(at_once), strict=True):
            np.testing.assert_array_equal(a, b)
        first += n
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 3617]
    part = RunningQuantiles(1)
    part.observe(X[:5, :1])
    assert part.until_change() == 2
    part.observe(X[:2, :1])
    assert part.until_change() == 8


# --- streams ----------------------------------------------------------------------------------


def test_what_has_not_moved_far_stays_in_every_bit():
    """Even values from 0 to 15, and then as many others: what is estimated is that of both."""
    base = np.linspace(0.0, 15.0, 1024)
    scale = 12.0 / 2.563
    for shift, stretch, center_moves, knots_move in [
        (0.0, 1.0, False, False),
        (0.05 * scale, 1.0, False, False),
        (0.2 * scale, 1.0, False, True),
        (2.0 * scale, 1.0, True, True),
        (0.0, 2.0, True, True),
    ]:
        X = np.concatenate([base, (base - 7.5) * stretch + 7.5 + shift])[:, None]
        once = RunningQuantiles(1)
        once.observe(X[:1024])
        center, inverse, knots = (a.copy() for a in (once.center, once.inverse, once.knots))
        version = once.version
        moved = once.observe(X[1024:])
        assert (once.inverse != inverse).any() == center_moves
        assert center_moves or once.center == center
        assert (once.knots != knots).any() == knots_move
        assert moved == (once.version > version) == (center_moves or knots_move)


def test_the_first_other_number_ends_an_indicator():
    X = np.zeros((16, 2))
    X[::2] = 1.0
    quantiles = observed(X)
    assert quantiles.indicator.all()
    version = quantiles.version
    late = np.tile(X, (2, 1))[:15]
    late[3, 1] = 1.0 + 1e-12
    assert not quantiles.observe(late)
    assert quantiles.indicator.all()
    assert quantiles.observe(X[:1])
    assert quantiles.indicator.tolist() == [True, False]
    assert quantiles.version == version + 1
    for _ in range(400):  # the number has left the sample, which is not forgotten
        quantiles.observe(np.tile(X, (20, 1)))
    assert quantiles.indicator.tolist() == [True, False]


def test_zeros_and_ones_in_another_share_are_no_change():
    rng = np.random.default_rng(0)
    quantiles = observed((rng.uniform(size=(64, 1)) < 0.5).astype(float))
    knots, version = quantiles.knots.copy(), quantiles.version
    quantiles.observe(np.zeros((192, 1)))
    np.testing.assert_array_equal(quantiles.knots, knots)
    assert quantiles.distance == 1.0  # most pairs are equal by now
    assert quantiles.version <= version + 2


def test_a_column_without_a_value_keeps_what_it_had():
    X = np.random.default_rng(0).normal(size=(24_576, 2)) * 3.0 + 5.0
    X[1024:, 1] = np.nan
    quantiles = observed(X[:8192], budget=SMALL)
    assert np.isnan(quantiles.state().arrays["sample"][:, 1]).all()
    assert quantiles.inverse[1] != 1.0
    before = in_use(quantiles)
    quantiles.observe(X[8192:])
    for a, b in zip(before[:4], in_use(quantiles)[:4], strict=True):
        np.testing.assert_array_equal(a[1], b[1])


# --- values at the edge -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e30, -1e150, 1.7e308, 1e-310])
def test_bursts_of_huge_values(size):
    X = events(600, missing=0.05)
    calm = observed(X, budget=4400)
    X[200:206, :3] = size
    X[300, :] = -size
    with np.errstate(all="raise", under="ignore"):
        quantiles = observed(X, budget=4400)
    assert is_sound(quantiles)
    np.testing.assert_allclose(quantiles.center[:3], calm.center[:3], rtol=0.2, atol=1.0)
    np.testing.assert_allclose(quantiles.inverse[:3], calm.inverse[:3], rtol=0.8)
    with np.errstate(all="raise", under="ignore"):
        nothing_else = observed(np.full((40, 2), size) * [1.0, -1.0])
        both = observed(np.resize([size, -size, 0.0, np.nan], (64, 3)))
    assert is_sound(nothing_else)
    assert is_sound(both)


def test_one_row_equal_rows_and_missing_rows():
    for rows in ([[2.0, 0.0, np.nan]], [[2.0, 0.0, np.nan]] * 40, [[np.nan] * 3] * 5):
        with np.errstate(all="raise"):
            quantiles = observed(np.array(rows))
        assert is_sound(quantiles)
        assert quantiles.distance == 1.0
        assert quantiles.center[2] == 0.0
        assert quantiles.inverse[2] == 1.0
        assert not quantiles.knots[2].any()
        if not math.isnan(rows[0][0]):
            assert quantiles.center.tolist() == [2.0, 0.0, 0.0]
            assert quantiles.inverse.tolist() == [1.0, 2.0, 1.0]
            assert quantiles.indicator.tolist() == [False, True, False]


def test_no_column_at_all():
    quantiles = RunningQuantiles()
    assert len(quantiles) == 0
    quantiles.observe(np.empty((20, 0)))
    assert quantiles.distance == 1.0
    quantiles.add_columns(2)
    assert quantiles.indicator.all()
    assert_same(reopened(quantiles), quantiles)


def test_the_sample_keeps_to_its_budget():
    for d, rows in [(1, 2048), (100, 256), (2000, 16)]:
        quantiles = RunningQuantiles(d, budget=100 * 8 * 256)
        quantiles.observe(np.zeros((3000, d)))
        assert len(quantiles.state().arrays["sample"]) == rows
        own = quantiles.nbytes - rows * d * 8
        assert own == d * (8 + 8 + 8 * KNOTS + 1 + 1)


# --- columns and state --------------------------------------------------------------------------


def test_columns_that_come_late_were_zero_before():
    X = events(500, missing=0.0)
    X[:300, 7:] = 0.0
    late, always = RunningQuantiles(7, budget=BUDGET), RunningQuantiles(11, budget=BUDGET)
    late.observe(X[:300, :7])
    always.observe(X[:300])
    version = late.version
    late.add_columns(0)
    assert late.version == version
    late.add_columns(4)
    assert late.version == version + 1
    for name in ("center", "inverse", "indicator"):
        np.testing.assert_array_equal(getattr(late, name), getattr(always, name))
    late.observe(X[300:])
    always.observe(X[300:])
    for name, array in late.state().arrays.items():
        np.testing.assert_array_equal(array, always.state().arrays[name], err_msg=name)


def test_more_columns_leave_room_for_fewer_rows():
    """They are those of a quantiles that had all columns from the start."""
    X = np.zeros((900, 40))
    X[:, :10] = np.random.default_rng(0).normal(size=(900, 10))
    late, always = RunningQuantiles(10, budget=32_000), RunningQuantiles(40, budget=32_000)
    late.observe(X[:500, :10])
    assert len(late.state().arrays["sample"]) == 400
    late.add_columns(30)
    always.observe(X[:500])
    late.observe(X[500:])
    always.observe(X[500:])
    sample = late.state().arrays["sample"]
    assert sample.shape == (100, 40)
    np.testing.assert_array_equal(sample, always.state().arrays["sample"])
    assert_same(reopened(late), late)


def test_selecting_columns():
    X = events(700)
    quantiles = observed(X, seed=1, budget=16_000)
    before = reopened(quantiles)
    some = quantiles.select([6, None, 0])
    assert_same(quantiles, before)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(some, name)[[0, 2]], getattr(quantiles, name)[[6, 0]])
    assert some.indicator[1]
    assert some.inverse[1] == 2.0
    assert len(some) == 3
    assert_same(reopened(some), some)
    # It cannot hold more rows than before; the same rows are sampled from now on.
    more = events(3000, seed=8)
    quantiles.observe(more)
    some.observe(np.column_stack([more[:, 6], np.zeros(3000), more[:, 0]]))
    sample = some.state().arrays["sample"]
    np.testing.assert_array_equal(sample[:, [0, 2]], quantiles.state().arrays["sample"][:, [6, 0]])
    np.testing.assert_array_equal(some.center[[0, 2]], quantiles.center[[6, 0]])
    assert len(quantiles.select([])) == 0


def test_a_state_of_something_else_is_refused():
    with pytest.raises(StateError, match="running-scale"):
        RunningQuantiles.from_state(RunningScale(2).state())
    for name in RunningQuantiles(2).state().arrays:
        state = observed(events(20)).state()
        state.arrays[name] = state.arrays[name][1:]
        with pytest.raises(StateError, match="array"):
            RunningQuantiles.from_state(state)
    for name, value in [
        ("events", -1),
        ("events", 3),
        ("capacity", 0),
        ("seed", 2**64),
        ("seed", "7"),
        ("budget", None),
        ("version", True),
        ("distance", 0.0),
        ("distance", "far"),
    ]:
        state = observed(events(20)).state()
        with pytest.raises(StateError):
            RunningQuantiles.from_state(State({**state.header, name: value}, state.arrays))


@pytest.mark.parametrize("far", [1e8, -1e12])
def test_values_far_from_0_are_scaled_and_ranked_as_near_it(far):
    X = np.random.default_rng(0).normal(size=(3000, 3))
    X[:, 1] = np.where(X[:, 1] > 1.5, 5.0, 2.0)  # mostly one value
    X[:, 2] = np.round(X[:, 2])
    X[np.random.default_rng(1).uniform(size=X.shape) < 0.1] = np.nan
    far_away = X + far
    X = far_away - far
    near, away = (observed(V, budget=SMALL * 600) for V in (X, far_away))
    np.testing.assert_allclose(away.center, near.center + far, rtol=0, atol=1e-3)
    np.testing.assert_allclose(away.inverse, near.inverse, rtol=1e-3)
    np.testing.assert_allclose(away.knots, near.knots + far, rtol=0, atol=1e-3)
    for x, there in zip(X[:200], far_away, strict=False):
        for a, b in zip(ranked(there, away), ranked(x, near), strict=True):
            np.testing.assert_allclose(a, b, atol=2e-3)


# --- the compiled row ---------------------------------------------------------------------------


@njit
def compiled_row(x, center, inverse, knots, indicator, z, r):
    rank_row(x, center, inverse, knots, indicator, z, r)


def ranked(x, quantiles):
    z, r = np.full(len(x), 9.0, np.float32), np.full(len(x), 9.0, np.float32)
    compiled_row(
        x, quantiles.center, quantiles.inverse, quantiles.knots, quantiles.indicator, z, r
    )  # fmt: skip
    return z, r


def test_a_row_is_scaled_and_ranked_as_by_the_oracle():
    X = events(400)
    quantiles = observed(X)
    others = np.concatenate([X, 10.0 * X, X * 1e200, -X, np.zeros((1, 11)), quantiles.knots.T])
    for x in others:
        z, r = ranked(x, quantiles)
        for j, value in enumerate(x.tolist()):
            if math.isnan(value):
                assert (z[j], r[j]) == (0.0, -1.0)
                continue
            scaled = (value - quantiles.center[j]) * quantiles.inverse[j]
            assert z[j] == pytest.approx(min(max(scaled, -8.0), 8.0), rel=1e-6)
            expected = naive.rank(naive.bounded(value), quantiles.knots[j].tolist())
            if quantiles.indicator[j]:
                expected = 0.25 if value < 0.5 else 0.75
            assert r[j] == pytest.approx(expected, abs=1e-6)
            assert 0.0 <= r[j] < 1.0


def test_ranks_of_equal_knots():
    quantiles = RunningQuantiles(3)
    quantiles.knots[0] = 4.0
    quantiles.knots[1] = np.repeat([0.0, 1.0], [24, 8])
    quantiles.knots[2] = np.arange(32.0)
    for x, expected in [
        ([4.0, 0.0, 0.0], [0.5, 11.5 / 31, 0.0]),
        ([3.9, 1.0, 31.0], [0.0, 27.5 / 31, 0.999]),
        ([4.1, 0.5, 30.99], [0.999, 23.5 / 31, 0.999]),
        ([1e308, -1e308, 7.25], [0.999, 0.0, 7.25 / 31]),
    ]:
        np.testing.assert_allclose(ranked(np.array(x), quantiles)[1], expected, rtol=1e-6)


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
