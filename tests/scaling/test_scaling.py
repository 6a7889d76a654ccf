"""Online scaling against plain two-pass statistics, and a learner behind it."""

import numpy as np
import pytest
from reference import naive
from state_kit import assert_same, reopened

from streamk import kernels
from streamk.errors import InvalidInput
from streamk.learners import DoublyStochastic, Scaled
from streamk.scaling.running import RunningScale

FLOAT64 = np.dtype("float64")


def events(n, seed=0, missing=0.1):
    """Columns of every kind: spread out, tiny, far from zero, 0/1, a rare 1, constant."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(size=n),
            1e-6 * rng.normal(size=n),
            1e6 + rng.normal(size=n),
            rng.integers(0, 2, size=n),
            rng.uniform(size=n) < 0.03,
            np.full(n, 7.3),
            rng.exponential(size=n) * 100.0,
        ]
    )
    X[rng.uniform(size=X.shape) < missing] = np.nan
    return X


def by_the_formula(seen, X):
    means, factors = naive.column_scaling(seen)
    return np.where(np.isnan(X), 0.0, (X - means) * np.array(factors))


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("pieces", [[400], [1] * 60, [1, 2, 100, 0, 7, 290]])
def test_the_running_statistics_are_those_of_all_events(pieces, missing):
    X = events(sum(pieces), missing=missing)
    scale, seen = RunningScale(X.shape[1]), 0
    for n in pieces:
        scale.update(X[seen : seen + n])
        seen += n
    # The column at 1e6 has lost six digits before it is scaled.
    np.testing.assert_allclose(scale.transform(X, FLOAT64), by_the_formula(X, X), atol=1e-7)


@pytest.mark.parametrize("far", [1e9, 1e12])
@pytest.mark.parametrize("parts", [1, 3000])
def test_far_from_zero_the_variance_does_not_cancel(far, parts):
    X = far + np.random.default_rng(0).normal(size=(3000, 1))
    scale = RunningScale(1)
    for x in np.array_split(X, parts):
        scale.update(x)
    Z = scale.transform(X, FLOAT64)
    assert Z.std() == pytest.approx(1.0, abs=1e-4)
    assert Z.mean() == pytest.approx(0.0, abs=1e-2)


@pytest.mark.parametrize("value", [0.1, 1e12 + 0.1, 1e150 / 3.0])
def test_equal_values_have_no_spread_in_any_bit(value):
    X = np.full((20_000, 1), value)
    X[::7] = np.nan
    scale = RunningScale(1)
    for part in np.array_split(X, [0, 1, 2, 3, 10_000]):
        scale.update(part)
    state = scale.state().arrays
    assert (state["mean"], state["squares"]) == (value, 0.0)


def test_what_is_missing_is_the_mean_and_what_never_came_is_zero():
    scale = RunningScale(2)
    scale.update(np.array([[1.0, np.nan], [5.0, np.nan]]))
    Z = scale.transform(np.array([[np.nan, np.nan], [3.0, 0.0]]), FLOAT64)
    np.testing.assert_array_equal(Z, np.zeros((2, 2)))
    assert np.isfinite(scale.transform(np.array([[9.0, 1e6]]), FLOAT64)).all()


def test_one_event_and_equal_events_are_no_division_by_zero():
    for rows in ([[2.0, 0.0, -3.5]], [[2.0, 0.0, -3.5]] * 5, [[0.1 + 0.2]] * 3 + [[0.3]]):
        X = np.array(rows)
        scale = RunningScale(X.shape[1])
        for x in X:
            scale.update(x[None, :])
        assert np.isfinite(scale.transform(X + 1.0, FLOAT64)).all()
        np.testing.assert_allclose(scale.transform(X, FLOAT64), 0.0, atol=1e-9)


@pytest.mark.parametrize("size", [3.4e38, -1e140])
@pytest.mark.parametrize("name", ["gaussian", "laplacian", "linear"])
def test_an_event_unlike_all_before_is_predicted(name, size):
    """Scaled by what was usual before it, it is out of the range of single precision."""
    X = events(50, missing=0.0)
    scaled = Scaled(DoublyStochastic(kernels.by_name(name), seed=3, max_features=256))
    scaled.learn_many(X, labels(X))
    far = X.copy()
    far[7, 1] = size
    decided, others = scaled.decision_many(far), np.arange(50) != 7
    assert np.isfinite(decided).all()
    np.testing.assert_array_equal(decided[others], scaled.decision_many(X)[others])


# --- a learner behind it --------------------------------------------------------------------


def labels(X):
    return np.where(np.nan_to_num(X[:, 0]) > 0.2, "high", "low").astype(object)


def learner(**options):
    options = {"seed": 5, "batch_size": 8, "block_size": 20, "max_features": 500, **options}
    return DoublyStochastic(kernels.Gaussian(bandwidth=0.8), **options)


def model(**options):
    return Scaled(learner(**options))


def test_it_is_the_learner_on_scaled_events():
    """Each event is taken into the statistics first, and then learned."""
    X = events(160)
    scaled, plain = model(dtype="float64"), learner(dtype="float64")
    scaled.learn_many(X, labels(X))
    oracle = naive.RobustScaling(7, 5)
    for x in X:
        oracle.take(x)
        plain.learn_many([oracle.scaled(x)], labels(x[None]))
    Z = np.array([oracle.scaled(x) for x in X])
    np.testing.assert_allclose(scaled.decision_many(X), plain.decision_many(Z), atol=1e-6)
    np.testing.assert_allclose(scaled.predict_proba_many(X), plain.predict_proba_many(Z), atol=1e-6)
    assert (scaled.predict_many(X) == plain.predict_many(Z)).all()
    assert scaled.classes == plain.classes
    assert (scaled.n_events, scaled.n_features) == (plain.n_events, plain.n_features)
    assert scaled.columns == tuple(range(7))
    assert scaled.is_classifier
    assert plain.nbytes <= scaled.nbytes <= plain.nbytes + 8 * 7 * (256 + 40)


def test_numbers_are_learned_in_deviations_and_given_back_in_their_unit():
    X = events(160)
    y = 5e4 + 300.0 * np.sin(2.0 * np.nan_to_num(X[:, 0]))
    scaled = Scaled(learner(loss="squared", dtype="float64"))
    plain = learner(loss="squared", dtype="float64")
    scaled.learn_many(X, y)
    oracle = naive.RobustScaling(7, 5)
    for i in range(160):
        oracle.take(X[i])
        mean, factor = naive.column_scaling(y[: i + 1, None])
        number = (y[i] - mean[0]) * factor[0]
        plain.learn_many([oracle.scaled(X[i])], [number])
    Z = plain.decision_many([oracle.scaled(x) for x in X])
    np.testing.assert_allclose(scaled.decision_many(X), Z / factor[0] + mean[0], rtol=1e-8)
    np.testing.assert_array_equal(scaled.predict_many(X), scaled.decision_many(X)[:, 0])
    parts = [scaled.predict_many(X[i : i + 7]) for i in range(0, 160, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), scaled.predict_many(X))
    assert_same(reopened(scaled), scaled)
    other = reopened(scaled)
    other.learn_many(X, y + 100.0)
    scaled.merge(other, common_events=160)
    np.testing.assert_allclose(scaled.decision_many(X), other.decision_many(X), rtol=1e-12)


def test_merging():
    X = events(400)
    base = model(dtype="float64")
    base.learn_many(X[:100], labels(X[:100]))
    mine, others = reopened(base), reopened(base)
    mine.learn_many(X[100:150], labels(X[100:150]))
    others.learn_many(X[150:], labels(X[150:]))
    expected = mine.learner.coefficients[:, 0] * 50 / 300
    expected = expected + others.learner.coefficients[: len(expected), 0] * 250 / 300
    scaling = others.state().arrays["scale.quantiles.center"]
    mine.merge(others, common_events=100)
    assert mine.n_events == 400
    np.testing.assert_allclose(mine.learner.coefficients[: len(expected), 0], expected, atol=1e-12)
    np.testing.assert_array_equal(mine.state().arrays["scale.quantiles.center"], scaling)
    assert np.isfinite(mine.decision_many(X)).all()
    mine.learn_many(X, labels(X))


def test_a_learner_that_has_learned_cannot_be_scaled_afterwards():
    plain = learner()
    plain.learn_many([[0.0, 1.0]], ["a"])
    with pytest.raises(InvalidInput, match="learned"):
        Scaled(plain)
