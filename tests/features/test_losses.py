"""Loss values and subgradients against scalar formulas, and the gradients against the values."""

import math

import numpy as np
import pytest
from reference import naive

from streamk.backends import select
from streamk.errors import InvalidInput
from streamk.losses import LOSSES, loss

BINARY = ["squared", "hinge", "squared_hinge", "logistic"]
MULTICLASS = [*BINARY, "softmax"]
REGRESSION = [
    ("squared", {}),
    ("huber", {}),
    ("huber", {"delta": 0.3}),
    ("epsilon_insensitive", {}),
    ("epsilon_insensitive", {"epsilon": 0.0}),
    ("epsilon_insensitive", {"epsilon": 0.7}),
    ("quantile", {}),
    ("quantile", {"q": 0.9}),
]


def outputs(n, k, seed=0, spread=3.0):
    return spread * np.random.default_rng(seed).normal(size=(n, k))


def gradients(ours, F, y):
    """The gradient of the loss, checked to be that of the loops at any weight."""
    G = ours.gradient(F, y)
    classes = np.issubdtype(y.dtype, np.integer)
    for dtype, rtol in (("float64", 1e-13), ("float32", 1e-6)):
        out = np.full(F.shape, np.nan, dtype=dtype)
        select().loss_gradient(
            int(ours.code), ours.parameter, classes, F, y.astype(np.float64), 0.25, out
        )
        np.testing.assert_allclose(4.0 * out, G, rtol=rtol, atol=1e-15)
    return G


def values(ours, F, y):
    """The losses, checked to be those that the loops add to others."""
    found = ours.value(F, y)
    classes = np.issubdtype(y.dtype, np.integer)
    sums = np.array([3.0, np.inf])
    both = np.stack([F, np.full_like(F, np.nan)], axis=1)
    labels = y.astype(np.float64)
    select().score(int(ours.code), ours.parameter, classes, both, labels, 0.5, 1e9, sums)
    np.testing.assert_allclose(sums, [1.5 + found.sum(), 1e9], rtol=1e-12)
    return found


@pytest.mark.parametrize(
    ("name", "options", "classes"),
    [*((name, {}, True) for name in BINARY), *((*case, False) for case in REGRESSION)],
)
def test_one_output(name, options, classes):
    F = outputs(80, 1)
    y = np.arange(80) % 2 if classes else outputs(80, 1, seed=1)[:, 0]
    ours = loss(name, **options)
    pairs = list(zip(F[:, 0], 2.0 * y - 1.0 if classes else y, strict=True))
    expected = [naive.loss_value(name, f, t, **options) for f, t in pairs]
    np.testing.assert_allclose(values(ours, F, y), expected, rtol=1e-13, atol=1e-15)
    slopes = [[naive.loss_slope(name, f, t, **options)] for f, t in pairs]
    np.testing.assert_allclose(gradients(ours, F, y), slopes, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("name", "k"), [*((name, 7) for name in MULTICLASS), ("softmax", 1), ("softmax", 2)]
)
def test_several_classes(name, k):
    F = outputs(60, k)
    y = np.arange(60) % k
    ours = loss(name)
    assert ours.n_outputs(k) == k
    expected = [naive.multiclass_value(name, f, label) for f, label in zip(F, y, strict=True)]
    np.testing.assert_allclose(values(ours, F, y), expected, rtol=1e-12)
    slopes = [naive.multiclass_slopes(name, list(f), label) for f, label in zip(F, y, strict=True)]
    np.testing.assert_allclose(gradients(ours, F, y), slopes, rtol=1e-12, atol=1e-15)


def test_the_subgradient_at_a_kink_is_zero():
    def one(name, f, y, **options):
        return gradients(loss(name, **options), np.array([[f]]), np.array([y]))[0, 0]

    assert one("hinge", 1.0, 1) == 0.0
    assert one("hinge", -1.0, 0) == 0.0
    assert one("quantile", 2.5, 2.5, q=0.9) == 0.0
    assert one("epsilon_insensitive", 2.75, 2.5, epsilon=0.25) == 0.0
    assert one("epsilon_insensitive", 2.25, 2.5, epsilon=0.25) == 0.0
    assert one("epsilon_insensitive", 2.5, 2.5, epsilon=0.0) == 0.0
    G = gradients(loss("hinge"), np.array([[1.5, 0.5, 0.0]]), np.array([0]))
    np.testing.assert_array_equal(G, np.zeros((1, 3)))


@pytest.mark.parametrize("name", ["hinge", "squared_hinge"])
def test_a_tie_among_rivals_goes_to_the_first(name):
    G = gradients(loss(name), np.array([[0.5, 0.5, 0.0, 0.5]]), np.array([2]))
    assert G[0, 0] > 0
    np.testing.assert_array_equal(G[0, [1, 3]], 0.0)
    np.testing.assert_allclose(G.sum(), 0.0, atol=1e-15)


@pytest.mark.parametrize("name", ["logistic", "softmax"])
@pytest.mark.parametrize("size", [40.0, 800.0, 1e6])
def test_large_outputs_neither_overflow_nor_lose_the_small_end(name, size):
    F = np.array([[size, -size, 0.0], [-size, size, 0.0], [-size, -size, -size]])
    y = np.array([0, 0, 0])
    ours = loss(name)
    value, gradient, p = ours.value(F, y), gradients(ours, F, y), ours.probabilities(F)
    expected = [naive.multiclass_value(name, list(f), 0) for f in F]
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    assert np.isfinite(gradient).all()
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    tail = loss("logistic").value(np.array([[30.0]]), np.array([1]))[0]
    assert tail == pytest.approx(math.exp(-30.0), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "k"),
    [("logistic", 1), ("logistic", 3), ("softmax", 1), ("softmax", 2), ("softmax", 6)],
)
def test_probabilities_are_the_model_s_own(name, k):
    F = outputs(50, k, seed=6)
    p = loss(name).probabilities(F)
    assert p.dtype == np.float64
    np.testing.assert_allclose(p, [naive.probabilities(name, list(f)) for f in F], rtol=1e-12)


@pytest.mark.parametrize(("name", "k"), [(n, 3) for n in MULTICLASS] + [(n, 1) for n in BINARY])
def test_probabilities_sum_to_one_and_agree_with_the_decision(name, k):
    F = outputs(50, k, seed=7)
    p = loss(name).probabilities(F)
    assert p.shape == (50, max(k, 2))
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    decided = (F[:, 0] > 0).astype(int) if k == 1 else F.argmax(axis=1)
    np.testing.assert_array_equal(p.argmax(axis=1), decided)


@pytest.mark.parametrize("name", BINARY)
def test_what_was_learned_of_two_classes_survives_a_third(name):
    """Splitting f leaves the margin between the first two, and so their gradients, in place."""
    ours = loss(name)
    f = outputs(30, 1, seed=8)
    F = np.column_stack([ours.split_binary(f[:, 0]), np.full(30, -1e9)])
    y = np.arange(30) % 2
    before, after = ours.gradient(f, y), ours.gradient(F, y)
    np.testing.assert_allclose(after[:, 1], before[:, 0], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(after[:, 0], -before[:, 0], rtol=1e-12, atol=1e-15)


def test_what_each_loss_is_for():
    assert set(LOSSES) == {*MULTICLASS, *(name for name, _ in REGRESSION)}
    for name in LOSSES:
        assert loss(name).classifies == (name in MULTICLASS)
        assert loss(name).regresses == (name in {r for r, _ in REGRESSION})
        assert loss(name).name == name


@pytest.mark.parametrize(("name", "options"), [("logistic", {}), *REGRESSION])
def test_json_round_trip(name, options):
    ours = loss(name, **options)
    assert loss(**ours.to_json()) == ours


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("hing", {}, ["hing", "hinge", "softmax", "quantile"]),
        ("huber", {"delta": -1.0}, ["delta=-1.0", "huber", "positive"]),
        ("huber", {"delta": 0.0}, ["delta=0.0", "huber", "positive"]),
        ("huber", {"delta": math.nan}, ["delta=nan", "huber"]),
        ("huber", {"q": 0.5}, ["huber", "delta", "q"]),
        ("epsilon_insensitive", {"epsilon": -0.1}, ["epsilon=-0.1", "epsilon_insensitive"]),
        ("epsilon_insensitive", {"epsilon": math.inf}, ["epsilon=inf", "epsilon_insensitive"]),
        ("quantile", {"q": 0.0}, ["q=0.0", "between 0 and 1"]),
        ("quantile", {"q": 1.0}, ["q=1.0", "between 0 and 1"]),
        ("quantile", {"q": math.nan}, ["q=nan", "between 0 and 1"]),
        ("squared", {"delta": 1.0}, ["squared", "no parameter", "delta"]),
    ],
)
def test_errors_name_what_was_wrong_and_the_fix(name, options, words):
    with pytest.raises(InvalidInput) as error:
        loss(name, **options)
    for word in words:
        assert word in str(error.value)
