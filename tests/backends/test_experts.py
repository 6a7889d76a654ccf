"""The experts of a pool and their mixing, each against plain code."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest
from numba import njit
from numba.core.registry import CPUDispatcher
from reference import naive

from streamk.backends import BINARY, CLASSES, NUMBERS, pool_arrays
from streamk.backends.banks import ADAGRAD, APART, NORMALIZED, RULES, WIDTH
from streamk.backends.numba_backend import experts
from streamk.backends.numba_backend.experts import reviews
from streamk.learners.multi_kernel.upkeep import ALARM, TRIAL


class Called:
    """A module whose compiled functions Python may call: each is called by one that is compiled."""

    def __init__(self, name):
        self._module = importlib.import_module(f"{experts.__name__}.{name}")

    def __getattr__(self, name):
        found = getattr(self._module, name)
        if isinstance(found, CPUDispatcher):
            found = called(found)
        setattr(self, name, found)
        return found


def called(function):
    @njit(error_model="numpy")
    def call(*arguments):
        return function(*arguments)

    return call


binning, expert_predictions, gaussian, linear, newton, reliability, spread, two_stage, window = map(
    Called,
    (
        *("binning", "expert_predictions", "gaussian", "linear", "newton"),
        *("reliability", "spread", "two_stage", "window"),
    ),
)

TASKS = {"binary": BINARY, "classes": CLASSES, "numbers": NUMBERS}
OUTPUTS = {"binary": 1, "classes": 5, "numbers": 1}
DEFAULT = (pool_arrays.DEFAULT, 0.0)
LOSSES = {
    None: pool_arrays.DEFAULT,
    "squared": pool_arrays.SQUARED,
    "huber": pool_arrays.HUBER,
    "quantile": pool_arrays.QUANTILE,
}
NAMED = [
    *((None, 0.0), ("squared", 0.0), ("huber", 0.3), ("huber", 1.0), ("huber", 7.0)),
    *(("quantile", 0.1), ("quantile", 0.5), ("quantile", 0.98)),
]


def single(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def close(found, expected, tolerance=2e-5):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("outputs", [1, 5])
def test_step_rules(outputs):
    rng = np.random.default_rng(0)
    d, kinds, rates = 19, ("adagrad", "normalized"), (0.3, 0.05)
    A = np.zeros((2, outputs, d), np.float32)
    squares, F = np.zeros_like(A), np.zeros((2, outputs), np.float32)
    a, s = A.astype(float), squares.astype(float)
    numbers = np.array([ADAGRAD, NORMALIZED])
    for _ in range(50):
        phi, G = single(rng, d), single(rng, 2, outputs)
        G[0, 0] = 0.0
        linear.forecast_linear(phi, A, F)
        close(F, a @ phi, 1e-4)
        linear.update_linear(phi, A, squares, np.array(rates), numbers, G)
        for rule, kind in enumerate(kinds):
            for k in range(outputs):
                if G[rule, k]:
                    a[rule, k], s[rule, k] = naive.rule_step(
                        kind, phi, a[rule, k], s[rule, k], rates[rule], G[rule, k]
                    )
        close(A, a, 1e-4)


def betting(d, outputs, dtype=np.float64):
    """Coefficients and what they bet: squares, bets, gains, largest slopes."""
    return [np.zeros((outputs, d), dtype) for _ in range(5)]


@pytest.mark.parametrize(("outputs", "dtype"), [(1, np.float64), (5, np.float32)])
def test_coefficients_that_bet(outputs, dtype):
    rng = np.random.default_rng(10)
    d, wealth = 19, 2.0
    arrays = betting(d, outputs, dtype)
    bettors = [[naive.Bettor(wealth) for _ in range(d)] for _ in range(outputs)]
    for n in range(300):
        phi, G = rng.normal(size=d).astype(dtype), rng.normal(0.2, 1.0, size=outputs).astype(dtype)
        phi[-1], phi[3], G[0] = 1.0, 0.0, G[0] * (n % 3 > 0)
        G *= 2 if n > 100 else 1
        if n == 200:  # as where labels get another unit
            arrays[0] *= dtype(0.5)
            for bettor in (one for row in bettors for one in row):
                bettor.elsewhere -= 0.5 * (bettor.elsewhere + bettor.part * (1.0 + bettor.gain))
        linear.update_bets(phi, *arrays, wealth, G)
        for k in range(outputs):
            for i in range(d):
                bettors[k][i].learn(float(G[k]), float(phi[i]))
        found = [[bettor.coefficient for bettor in row] for row in bettors]
        close(arrays[0], found, 1e-9 if dtype is np.float64 else 5e-4)
    assert (arrays[0][:, 3] == 0.0).all()
    assert np.abs(arrays[0]).max() > 1.0


@pytest.mark.parametrize("size", [1e-20, 1.0, 8.0])
def test_slopes_that_never_turn_leave_bets_finite(size):
    """As where predictions end at a bound and labels lie beyond it."""
    arrays = betting(2, 1, np.float32)
    phi, g = np.array([size, 1.0], np.float32), np.array([-3.0], np.float32)
    for _ in range(2000):
        linear.update_bets(phi, *arrays, 1.0, g)
    assert all(np.isfinite(array).all() for array in arrays)
    assert (arrays[0] @ phi > 1e6).all()
    for _ in range(100):  # and once they turn, the prediction does too
        linear.update_bets(phi, *arrays, 1.0, -g)
    assert (arrays[0] @ phi < 0).all()


def test_bets_outlast_slopes_that_single_precision_hardly_holds():
    phi, G = np.array([-8.0, 1.0], np.float32), np.array([1e-39], np.float32)
    A, squares, bets, gains, largest = np.zeros((5, 1, 2), np.float32)
    for size in (1e-39, -1e-39, 9.0, -9.0, 9.0):
        G[0] = size
        linear.update_bets(phi, A, squares, bets, gains, largest, 1.0, G)
        for array in (A, squares, bets, gains, largest):
            assert np.isfinite(array).all()
    assert largest[0, 1] == 9.0


def test_the_ladder_takes_one_projection_to_many_bandwidths():
    rng = np.random.default_rng(1)
    z, W, b = single(rng, 7), single(rng, 7, 48), rng.uniform(size=48).astype(np.float32)
    z[2] = 0.0
    u, scales = np.empty(48, np.float32), np.array([0.25, 1.0, 4.0])
    phi = np.empty((3, 48), np.float32)
    gaussian.project(z, W, u)
    gaussian.cosines(u, b, scales, phi)
    close(u, z.astype(float) @ W)
    close(phi, np.cos(2 * np.pi * (scales[:, None] * u.astype(float) + b)), 3e-5)


@pytest.mark.parametrize("of_all", [False, True])
def test_cells_are_counted_or_hashed(of_all):
    rng = np.random.default_rng(2)
    bins, size, bits = np.resize(np.array([2, 4, 8], np.float32), 48), 3, 6
    columns = rng.integers(0, 5, size=(size, 48)).astype(np.int32)
    if of_all:
        columns[:] = np.arange(size)[:, None]
    shifts = rng.uniform(size=(size, 48)).astype(np.float32)
    factors = (bins.astype(int) + 2) ** np.arange(size)[:, None]
    factors[:, 2::3] = rng.integers(0, 2**32, size=(size, 16))
    factors = factors.astype(np.uint32).view(np.int32)
    first, down = (1000 * np.arange(48)).astype(np.int32), np.zeros(48, np.int32)
    down[2::3] = 32 - bits
    for _ in range(50):
        r = np.where(rng.uniform(size=5) < 0.2, -1.0, rng.uniform(size=5) * 0.999)
        r, found = r.astype(np.float32), np.empty(48, np.int32)
        binning.locate(r, columns, shifts, factors, bins, found)
        if of_all:
            same = np.empty_like(found)
            binning.locate_all(r, shifts, factors, bins, same)
            assert (same == found).all()
        binning.number_cells(found, first, down)
        for t, cell in enumerate(found.tolist()):
            places = naive.bins_of(r[columns[:, t]], shifts[:, t], int(bins[t]))
            if down[t]:
                own = naive.hashed_cell(places, factors[:, t].tolist(), bits)
            else:
                own = naive.exact_cell(places, int(bins[t]))
            assert cell == 1000 * t + own


def grid_arrays(tables, slots, outputs, rates, paces):
    shape = (tables, RULES)
    full = [np.zeros(shape, np.float32) for _ in range(2)]
    for array, values in zip(full, (rates, paces), strict=True):
        array[:, : len(values)] = values
    A = np.zeros((tables * slots, pool_arrays.line(outputs)), np.float32)
    return A, *full, np.ones(shape, np.float32), np.full(shape, 1e-3, np.float32)


@pytest.mark.parametrize("outputs", [1, 3, 5])
def test_grids_learn_cells_and_factors(outputs):
    rng = np.random.default_rng(3)
    tables, slots, rates, paces = 12, 4, (0.02, 0.1, 0.5), (0.1, 0.1, 0.03)
    A, rate, pace, factors, spread = grid_arrays(tables, slots, outputs, rates, paces)
    oracles = [naive.Grids(tables, outputs, *v) for v in zip(rates, paces, strict=True)]
    found, slopes, squares, steps = (np.zeros_like(factors) for _ in range(4))
    taken = np.zeros(RULES, np.float32)
    side, q = np.zeros(A.shape[1], np.float32), RULES
    for _ in range(120):
        own = rng.integers(0, slots, size=tables)
        cells = (own + slots * np.arange(tables)).astype(np.int32)
        if outputs == 1:
            binning.gather(cells, A, 0, found)
            binning.sum_one(factors, found, side)
        else:
            binning.sum_all(cells, factors, A, side)
        F = side[: q * outputs].reshape(outputs, q).T[:3]
        close(F, [o.forecast(own) for o in oracles], 1e-3)
        G = single(rng, 3, outputs)
        binning.lay(G, side)
        binning.gather(cells, A, q * outputs, squares)
        binning.take_in(G, taken, squares)
        if outputs == 1:
            binning.slopes_one(found, side, slopes)
        else:
            binning.slopes(cells, A, side, slopes)
        flat = (v.ravel() for v in (rate, pace, slopes, squares, factors, spread, steps))
        binning.move(*flat)
        if outputs == 1:
            binning.step_one(cells, steps, squares, side, A)
        else:
            binning.step_all(cells, steps, squares, side, A, q * outputs)
        for oracle, g in zip(oracles, G, strict=True):
            oracle.learn(own, g.astype(float))
    close(factors[:, :3].T, [o.factors for o in oracles], 1e-3)
    assert (factors[:, 3] == 1.0).all()
    assert not A[:, q * (outputs + 1) :].any()


@pytest.mark.parametrize("d", [1, 4, 6])
def test_smoothers_weigh_the_events_of_the_window(d):
    rng = np.random.default_rng(4)
    n, classes = 37, 4
    Z, z = single(rng, d, n + 5), single(rng, d)
    Z[:, 3] = z
    D, W = np.empty(n, np.float32), np.empty((2, n + 5), np.float32)
    window.distances(z, Z, D)
    expected = ((z[:, None].astype(float) - Z[:, :n]) ** 2).sum(0)
    close(D, expected)
    weights = np.array(naive.smoother_weights(D, 1.5))
    labels = rng.integers(0, classes, size=n + 5).astype(np.float32)
    sums = np.empty((APART, classes, WIDTH), np.float32)
    window.totals(D, labels, 1.5, sums[0])
    close(sums[0, :2, :7], [weights.sum(axis=1), weights @ labels[:n]], 1e-4)
    window.by_class(D, labels, 1.5, W, sums)
    of_class = labels[:n] == np.arange(classes)[:, None]
    close(sums[0, :, :7], of_class.astype(float) @ weights.T, 1e-4)
    share = window.PRIOR / classes
    out = np.empty(classes, np.float32)
    window.log_probabilities(sums[0, :, 0], out)
    close(np.exp(out), (of_class @ weights[0] + share) / (weights[0].sum() + window.PRIOR), 1e-4)
    half = window.PRIOR / 2
    expected = math.log((2.0 + half) / (1.0 + half))
    assert window.logit(np.float32(2.0), np.float32(3.0)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("outputs", [1, 5])
def test_second_order_steps_are_least_squares(outputs):
    rng = np.random.default_rng(5)
    p, forget = 6, 0.99
    X, Y = single(rng, 80, p), single(rng, 80, outputs)
    P, A, step = np.eye(p, dtype=np.float32), np.zeros((outputs, p), np.float32), single(rng, p)
    for phi, y in zip(X, Y, strict=True):
        before = A @ phi
        newton.newton_gain(phi, P, np.float32(forget), step)
        for k in range(outputs):
            newton.update_newton(step, A, k, y[k] - before[k])
    for k in range(outputs):
        close(A[k], naive.least_squares(X, Y[:, k], forget), 2e-3)
    np.testing.assert_allclose(P, P.T, atol=1e-5)


def test_fixed_share_with_experts_asleep():
    rng = np.random.default_rng(6)
    weights = np.full(6, 1 / 6)
    expected = weights.copy()
    for _ in range(200):
        losses, active = rng.exponential(size=6), rng.uniform(size=6) < 0.7
        if not active.any():
            continue
        beliefs, out = rng.uniform(size=(6, 3)), np.empty(3)
        two_stage.share(weights, beliefs, active.astype(float), np.empty(len(weights)), out)
        on = expected * active
        close(out, on @ beliefs / on.sum(), 1e-12)
        two_stage.reweigh(weights, np.exp(-losses), active.astype(float), 0.01)
        expected = naive.fixed_share(expected, losses, active, 0.01)
        close(weights, expected, 1e-10)


def said(task, rng, experts=6):
    F = single(rng, experts, OUTPUTS[task])
    L, P = np.empty_like(F), np.empty_like(F)
    expert_predictions.to_scores(TASKS[task], F, L, P)
    return F.astype(float), L, P


@pytest.mark.parametrize("task", TASKS)
def test_opinions_and_slopes(task):
    rng = np.random.default_rng(8)
    F, L, P = said(task, rng)
    beliefs = np.empty(F.shape)
    expert_predictions.to_probabilities(TASKS[task], L, beliefs)
    y = {"binary": 1.0, "classes": 3.0, "numbers": 0.2}[task]
    if task == "numbers":
        expected, slopes = F, np.clip(F - y, -3, 3)
    elif task == "binary":
        expected = 1 / (1 + np.exp(-F))
        slopes = expected - y
    else:
        expected = np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
        slopes = expected - (np.arange(F.shape[1]) == y)
        close(L, np.log(expected))
    close(beliefs, expected)
    expert_predictions.slopes(TASKS[task], y, DEFAULT, P)
    close(P, slopes)


@pytest.mark.parametrize("task", TASKS)
def test_opinions_are_kept_with_who_slept(task):
    _, L, _ = said(task, np.random.default_rng(8))
    on = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    kept = np.empty_like(L)
    expert_predictions.store(L, on, kept)
    assert np.isnan(kept).all(axis=1).tolist() == (on == 0.0).tolist()
    assert not expert_predictions.differ(kept, L, on)
    back, active = np.full_like(L, 9.0), np.full(len(on), 9.0)
    expert_predictions.load(kept, back, active)
    assert active.tolist() == on.tolist()
    assert (back == np.where(on[:, None] > 0.0, L, 0.0)).all()
    for e in range(len(on)):
        others = on.copy()
        others[e] = 1.0 - on[e]
        assert expert_predictions.differ(kept, L, others)
    other = L.copy()
    other[4] += 1.0  # whoever sleeps
    assert not expert_predictions.differ(kept, other, on)
    other[-1, -1] += 1.0
    assert expert_predictions.differ(kept, other, on)


@pytest.mark.parametrize("task", TASKS)
def test_opinions_have_bounds(task):
    F = np.full((2, OUTPUTS[task]), -300.0, np.float32)
    F[0, 0] = 300.0
    L, P = np.empty_like(F), np.empty_like(F)
    expert_predictions.to_scores(TASKS[task], F, L, P)
    least = math.log(two_stage.LEAST)
    low, high = {"binary": (least, -least), "classes": (least, 0.0), "numbers": (-20.0, 20.0)}[task]
    assert L.min() >= low - 1e-5
    assert L.max() <= high + 1e-5


@pytest.mark.parametrize("part", [1.0, 0.1])
@pytest.mark.parametrize("task", TASKS)
def test_products_learn_along_gradients_and_by_newton_steps(task, part):
    rng = np.random.default_rng(9)
    number, outputs, experts, forget, start = TASKS[task], OUTPUTS[task], 6, 0.99, 0.1
    w, v = np.full(experts, 1 / experts), np.full(experts, 1 / experts)
    plain_w, plain_v = w.copy(), v.copy()
    P, G = np.eye(experts) * start, np.eye(experts) / start
    sums, out, g, room = np.empty(outputs), np.empty(outputs), np.empty(experts), np.empty(experts)
    for _ in range(60):
        _, L, _ = said(task, rng)
        y = float(rng.integers(0, max(2, outputs))) if task != "numbers" else rng.normal()
        for weights, plain in ((w, plain_w), (v, plain_v)):
            two_stage.pool(number, L, weights, sums, out)
            total = plain @ L
            if task == "binary":
                total = 1 / (1 + np.exp(-total))
            elif task == "classes":
                total = np.exp(total) / np.exp(total).sum()
            close(out, total, 1e-6)
            residual = out[0] - y if task == "numbers" else 1.0
            if task == "numbers":
                g[:] = L[:, 0]
            else:
                two_stage.slopes(number, L, out, y, g)
                close(g, naive.product_slopes(task, L, total, y), 1e-6)
            if weights is w:
                two_stage.gradient_step(w, g, residual, 2e-3, task == "numbers")
                plain_w -= 2e-3 * residual * g / (1e-3 + g @ g if task == "numbers" else 1.0)
            else:
                grown = np.trace(P) >= experts * start  # then P is not divided by the discount
                two_stage.newton_step(v, P, g.copy(), residual, forget, start, room, part)
                G = forget**part * G + part * np.outer(g, g)
                G = G / forget**part if grown else G
                plain_v -= part * residual * np.linalg.solve(G, g)
    close(w, plain_w, 1e-6)
    close(v, plain_v, 1e-6)
    close(P @ G, np.eye(experts), 1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_factors_make_opinions_as_sure_as_they_may_be(task):
    rng = np.random.default_rng(14)
    number, experts = TASKS[task], 6
    factors, curvatures, active = np.ones(experts), np.zeros(experts), np.ones(experts)
    active[2] = 0.0
    plain = [(1.0, 0.0)] * experts
    for _ in range(300):
        F, L, _ = said(task, rng)
        L *= np.array([0.1, 0.5, 1.0, 2.0, 5.0, 1.0], np.float32)[:, None]
        p = np.array([naive.calibrated(task, row, 1.5) for row in F]).mean(axis=0)
        y = p[0] + rng.normal() if task == "numbers" else float(rng.uniform() < p[0])
        if task == "classes":
            y = float(rng.choice(len(p), p=p))
        out = np.empty(L.shape)
        expert_predictions.to_calibrated(number, L, factors, out)
        close(out, [naive.calibrated(task, row, f) for row, f in zip(L, factors, strict=True)])
        expert_predictions.calibrate(number, L, out, y, DEFAULT, 1.0, active, factors, curvatures)
        for e in np.flatnonzero(active):
            plain[e] = naive.calibration_step(task, L[e], *plain[e], y)
        close(np.c_[factors, curvatures], plain, 1e-4)
    assert factors[2] == 1.0
    assert factors[0] > factors[1] > factors[3] > factors[4]


@pytest.mark.parametrize("task", TASKS)
def test_predictions_become_opinions_again(task):
    rng = np.random.default_rng(15)
    _, L, _ = said(task, rng)
    predictions, sums = np.empty(L.shape), np.empty(OUTPUTS[task])
    for row, out in zip(L, predictions, strict=True):
        sums[:] = row
        two_stage.normalize(TASKS[task], sums, out)
    found = np.empty_like(L)
    two_stage.to_scores(TASKS[task], predictions, found)
    close(found, L, 1e-5)
    certain = np.tile([1.0, 0.0, 0.0, 0.0, 0.0][: OUTPUTS[task]], (6, 1))
    two_stage.to_scores(TASKS[task], certain, found)
    assert np.isfinite(found).all()


def test_likelihoods():
    p, one = np.array([0.2, 0.0, 0.8]), np.array([0.3])
    assert two_stage.likelihood(CLASSES, p, 2.0, DEFAULT) == 0.8
    assert two_stage.likelihood(CLASSES, p, 1.0, DEFAULT) == two_stage.LEAST
    assert two_stage.likelihood(BINARY, one, 0.0, DEFAULT) == 0.7
    assert two_stage.loss(BINARY, one, 1.0, DEFAULT) == pytest.approx(-math.log(0.3))
    assert two_stage.loss(NUMBERS, one, 0.5, DEFAULT) == pytest.approx(0.4)
    assert two_stage.loss(NUMBERS, one, 1e9, DEFAULT) == pytest.approx(16.0)


@pytest.mark.parametrize(("name", "parameter"), NAMED)
def test_what_errors_of_numbers_cost(name, parameter):
    how, number = (LOSSES[name], parameter), NUMBERS
    errors = np.concatenate([np.linspace(-30, 30, 241), np.linspace(-1, 1, 81), [-1e9, 1e9]])
    expected = [naive.number_cost(name, parameter, error) for error in errors]
    likely = np.empty(len(errors))
    two_stage.likelihoods(number, errors[:, None] + 0.7, 0.7, how, likely)
    close(-np.log(likely), expected, 1e-6)
    close([two_stage.loss(number, np.array([v + 0.7]), 0.7, how) for v in errors], expected, 1e-6)
    for size in (1e-3, 0.4, 1.0, 50.0):
        slopes = [naive.number_slope(name, parameter, error, size) for error in errors]
        close([two_stage.slope(error, how, size) for error in errors], slopes, 1e-12)
        assert np.abs(slopes).max() <= (20.0 if name in ("squared", "huber") else 3.0)
    if name == "quantile":
        return
    P = errors[:-2, None].astype(np.float32)
    expert_predictions.slopes(number, 0.7, how, P)
    close(P[:, 0], [naive.number_slope(name, parameter, v - 0.7) for v in errors[:-2]])


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_offsets_take_experts_to_the_quantile(q):
    rng = np.random.default_rng(10)
    experts, how = 5, (pool_arrays.QUANTILE, q)
    plain, tracked = naive.Offsets(experts, q), np.zeros((2, experts + 1))
    tracked[1] = 1.0
    pinball = np.array([True, False, True, False, False])
    spreads, below = np.array([0.1, 0.3, 0.5, 1.0, 2.0]), np.zeros(experts)
    for t in range(3000):
        active = rng.uniform(size=experts) < 0.9
        on, y, error = active.astype(float), rng.normal(), rng.normal()
        F = (y + spreads * rng.normal(size=experts)).astype(np.float32)[:, None] * on[:, None]
        F = F.astype(np.float32)
        L, P = F.copy(), F.copy()
        expert_predictions.add_offsets(tracked, on, L, P)
        close(L[:, 0], F[:, 0] + on * plain.offsets, 1e-4)
        close(P, L)
        if t >= 1000:
            below += active & (y <= P[:, 0])
        expert_predictions.learn_offsets(error, y, how, F, on, pinball, tracked, P)
        if t < 300:
            slopes = plain.learn(error, y, F[:, 0].astype(float), active, pinball)
            close(P[:, 0], slopes, 1e-3)
            close(tracked, [[*plain.offsets, 0.0], [*plain.sizes, plain.mixture]], 1e-4)
        else:  # rounding would tell them apart at a label that is just hit
            plain.offsets = tracked[0, :-1].copy()
    close(below / (2000 * 0.9), np.full(experts, q), 0.04)
    far = np.full((experts, 1), 100.0, np.float32)
    expert_predictions.add_offsets(tracked, np.ones(experts), L, far)
    assert L.max() == two_stage.ENDS


@pytest.mark.parametrize("damaged", [False, True])
def test_newton_steps_outlast_rounding(damaged: bool) -> None:
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(3, 12))  # the others are never excited
    P, w = np.eye(12) * 0.1, np.zeros(12)
    small, step = np.eye(12, dtype=np.float32), np.zeros(12, np.float32)
    room = np.zeros(12)
    for n, mix in enumerate(rng.normal(size=(10_000, 3))):
        g = mix @ directions
        if damaged and n % 2_500 == 2_499:
            P[...], small[...] = -P, -small
        two_stage.newton_step(w, P, g, 0.01, 0.999, 0.1, room, 1.0)
        newton.newton_gain(g.astype(np.float32), small, np.float32(0.999), step)
        assert np.isfinite(w).all()
        assert np.isfinite(step).all()
    for matrix, most in ((P, 0.1 * 12), (small, 100.0 * 12)):
        values = np.linalg.eigvalsh((matrix + matrix.T) / 2.0)
        assert values.min() > -1e-4 * values.max()
        assert np.trace(matrix) < 1.1 * most


@pytest.mark.parametrize("n", [4, 13])
def test_inverses_stay_symmetric(n: int) -> None:
    """What is not would grow as forgetting makes inverses grow, and no event would shrink it."""
    rng = np.random.default_rng(0)
    P, w, room = np.eye(n) * 0.1, np.zeros(n), np.zeros(n)
    small, step = np.eye(n, dtype=np.float32), np.zeros(n, np.float32)
    for g in rng.normal(size=(5_000, n)):
        two_stage.newton_step(w, P, g, 0.01, 0.999, 0.1, room, 1.0)
        newton.newton_gain(g.astype(np.float32), small, np.float32(0.999), step)
    np.testing.assert_array_equal(P, P.T)
    np.testing.assert_array_equal(small, small.T)


def test_disagreement_takes_a_sleeper_at_the_center():
    L, w = np.array([[1.0], [np.nan], [3.0]], np.float32), np.array([0.5, 0.2, 0.3])
    said = np.nan_to_num(L[:, 0])
    expected = math.sqrt(w @ said**2 - (w @ said) ** 2)
    assert spread.disagreement(L, w) == pytest.approx(expected)


def test_the_loops_find_arrays_as_they_are_declared():
    from streamk.backends.numba_backend.experts.view import array_of
    from streamk.learners.multi_kernel.expert_pool import ExpertPool

    names = (
        "linear_a",
        "active",
        "mixer_scores",
        "window_sums",
        "binning_member_starts",
        "binning_group_starts",
    )
    linear_a, active_banks, mixer_scores, sums_of, starts_of, group = map(array_of, names)

    @njit(error_model="numpy")
    def found(table):
        linear_a(table)[0, 0, -1] = 3.0
        active_banks(table)[1] = False
        mixer_scores(table)[-1, -1] = 5.0
        lengths = linear_a(table).shape, mixer_scores(table).shape, sums_of(table).shape
        return lengths, (starts_of(table).shape, active_banks(table).shape, group(table)[-1])

    keys = np.arange(3, dtype=np.uint64)
    pool = ExpertPool(keys, task=CLASSES, classes=5, seed=1, capacity=4, class_room=8)
    a = pool.arrays
    (linear, said, sums), (starts, active, last) = found(pool.table)
    assert [linear, said, sums] == [
        a[name].shape for name in ("LINEAR_A", "MIXER_SCORES", "WINDOW_SUMS")
    ]
    assert [starts, active] == [a[name].shape for name in ("BINNING_MEMBER_STARTS", "ACTIVE")]
    assert last == a["BINNING_GROUP_STARTS"][-1]
    assert (a["LINEAR_A"][0, 0, -1], a["ACTIVE"][1], a["MIXER_SCORES"][-1, -1]) == (3.0, False, 5.0)
    assert pool.output_room == 8


# --- reviews of a pool of experts: drift, and sleep -----------------------------------------------


@pytest.mark.parametrize("seed", range(2))
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


@pytest.mark.parametrize("seed", range(2))
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


@pytest.mark.parametrize("task", ["binary", "classes"])
def test_probabilities_are_corrected_by_how_often_such_ones_came_true(task):
    """Early, late and of any size, and by events that count in part."""
    random, outputs = np.random.default_rng(4), OUTPUTS[task]
    curve, expected = np.zeros((2, pool_arrays.RELIABILITY_KNOTS)), naive.Reliability()
    out = np.empty(outputs)
    for n in range(400):
        said = random.dirichlet(np.full(max(outputs, 2), 0.3))[:outputs]
        if n % 50 == 0:
            said[:] = 0.0
            said[0] = 1.0
        y = int(random.random() < said[0]) if outputs == 1 else int(random.integers(outputs))
        reliability.correct(curve, said, out)
        close(out, expected.corrected(said.tolist()), 1e-9)
        weight = 1.0 if n % 3 else random.random()
        reliability.learn(curve, TASKS[task], said, float(y), weight)
        expected.learn(said.tolist(), y, weight)
    knots = np.arange(-14.0, 14.5, 0.5)
    close(curve[0], [expected.seen.get(knot, 0.0) for knot in knots], 1e-9)
    close(curve[1], [expected.true.get(knot, 0.0) for knot in knots], 1e-9)
