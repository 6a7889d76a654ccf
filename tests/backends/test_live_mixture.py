"""The compiled loops of the live mixture against the oracle, and on streams of no good."""

from __future__ import annotations

from typing import Any

import naive_live_mixture as naive
import numpy as np
import pytest

from streamk.backends import live_loops, live_mixture
from streamk.backends.live_mixture import LiveMixture

Numbers = np.ndarray[Any, Any]

N = 400


def follow(
    Z: Numbers, given: Numbers, labels: Numbers, mixture: LiveMixture | None = None
) -> tuple[Numbers, LiveMixture]:
    """Return the predictions (n, K), and the mixture afterwards."""
    classes = labels.dtype == np.int64
    mixture = mixture or live_mixture.begin(Z.shape[1], given.shape[1], classes=classes)
    out = np.empty_like(given)
    loops = live_loops.loops()
    run = loops.follow_classes if classes else loops.follow_numbers
    # Of classes the loops take scores, whose logarithmic probabilities are these and a constant.
    scores = np.log(np.maximum(given, 1e-300)) + 3.0 if classes else given
    run(mixture, Z, scores, labels, out)
    return out, mixture


def sound(mixture: LiveMixture) -> bool:
    """Return whether all of a mixture is finite, and its shares are shares."""
    sums = [mixture.shares.sum(), mixture.mixers.sum()]
    return all(np.isfinite(array).all() for array in mixture) and np.allclose(sums, 1.0)


def class_stream(K: int, d: int, seed: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return events (n, d), probabilities (n, K), and classes (n,), -1 for none."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(N, d))
    scores = Z @ rng.normal(size=(d, K)) + rng.normal(size=K)
    labels = (scores + rng.gumbel(size=(N, K))).argmax(axis=1).astype(np.int64)
    given = rng.dirichlet(np.ones(K), size=N)
    given[N // 2 :] = 0.7 * np.eye(K)[labels[N // 2 :]] + 0.3 * given[N // 2 :]
    labels[rng.random(N) < 0.3] = -1
    return Z, given, labels


def number_stream(d: int, seed: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return events (n, d), numbers given (n, 1), and labels (n,), NaN for none."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(N, d))
    labels = 5.0 + Z @ rng.normal(size=d) + rng.normal(size=N)
    labels[N // 2 :] += 30.0
    given = (labels + rng.normal(size=N))[:, None]
    labels[rng.random(N) < 0.3] = np.nan
    return Z, given, labels


def extreme_classes(K: int, kind: str) -> tuple[Numbers, Numbers, Numbers]:
    Z, given, labels = class_stream(K, 3, 1)
    if kind == "certain":
        given = np.eye(K)[np.random.default_rng(0).integers(0, K, N)]
    elif kind == "certain and right":
        given = np.eye(K)[np.maximum(labels, 0)]
    elif kind == "certain and wrong":
        given = np.eye(K)[(labels + 1) % K]
    elif kind == "zeros":
        given = np.full((N, K), 1.0 / K)
    elif kind == "constant":
        labels[labels >= 0] = K - 1
    elif kind == "far out":
        Z[::3] *= 1e6
        Z[1::3] *= 1e-6
    return Z, given, labels


def extreme_numbers(kind: str) -> tuple[Numbers, Numbers, Numbers]:
    Z, given, labels = number_stream(3, 1)
    known = ~np.isnan(labels)
    if kind == "constant":
        labels[known] = 3.0
    elif kind == "constant and huge":
        labels[known] = 1.8e19
        given[:] = -1.8e19
    elif kind == "zeros":
        labels[known] = 0.0
    elif kind == "huge at first":
        labels[known.argmax()] = 1.8e19
    elif kind == "huge at times":
        labels[::50] = np.where(known[::50], -1.8e19, np.nan)
    elif kind == "tiny":
        labels *= 1e-290
    elif kind == "far out":
        Z[::3] *= 1e6
        Z[1::3] *= 1e-6
    elif kind == "given far out":
        given[::3] = 1e30
        given[1::3] = -1e30
    return Z, given, labels


CLASS_KINDS = (
    *("as usual", "certain", "certain and right", "certain and wrong"),
    *("zeros", "constant", "far out"),
)
NUMBER_KINDS = (
    *("as usual", "constant", "constant and huge", "zeros", "huge at first", "huge at times"),
    *("tiny", "far out", "given far out"),
)


@pytest.mark.parametrize("kind", CLASS_KINDS)
@pytest.mark.parametrize("K", [1, 2, 3, 10])
def test_classes_are_those_of_the_oracle(K: int, kind: str) -> None:
    Z, given, labels = extreme_classes(K, kind)
    found, mixture = follow(Z, given, labels)
    oracle = naive.Classes(Z.shape[1], K)
    expected = [
        oracle.step(z, p, k if k >= 0 else None)
        for z, p, k in zip(Z, given, labels.tolist(), strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert sound(mixture)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.min() > 0.0
    assert mixture.seen[0] == (labels >= 0).sum()


@pytest.mark.parametrize("kind", NUMBER_KINDS)
def test_numbers_are_those_of_the_oracle(kind: str) -> None:
    Z, given, labels = extreme_numbers(kind)
    found, mixture = follow(Z, given, labels)
    oracle = naive.Number(Z.shape[1])
    expected = [
        oracle.step(z, p, None if np.isnan(y) else y)
        for z, p, y in zip(Z, given[:, 0].tolist(), labels.tolist(), strict=True)
    ]
    assert sound(mixture)
    assert np.isfinite(found).all()
    unit = max(np.nanmax(np.abs(labels)), np.abs(given).max())
    np.testing.assert_allclose(found[:, 0] / unit, np.array(expected) / unit, rtol=0, atol=1e-9)


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_columns_of_any_size(task: str) -> None:
    """Columns are scaled before; this is farther out than any scale leaves them."""
    Z, given, labels = class_stream(3, 3, 1) if task == "classes" else number_stream(3, 1)
    Z[::3] *= 1e150
    Z[1::3] *= 1e-150
    found, mixture = follow(Z, given, labels)
    assert np.isfinite(found).all()
    assert sound(mixture)


@pytest.mark.parametrize("K", [2, 10])
def test_what_was_certain_for_long_is_unlearned(K: int) -> None:
    rng = np.random.default_rng(0)
    n = 40_000
    labels = rng.integers(0, K, n)
    _, mixture = follow(rng.normal(size=(n, 2)), np.eye(K)[labels], labels)
    assert np.abs(mixture.products).max() < 4.0
    Z, labels = np.ones((n, 2)), np.zeros(n, np.int64)
    _, mixture = follow(Z, np.full((n, K), 1.0 / K), labels)
    assert np.abs(mixture.linear).max() < 20.0
    out, _ = follow(Z[:30], np.full((30, K), 1.0 / K), labels[:30] + 1, mixture)
    assert out[-1].argmax() == 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", [0, 1, 20])
def test_random_streams(seed: int, d: int) -> None:
    Z, given, labels = class_stream(4, d, seed)
    oracle = naive.Classes(d, 4)
    steps = zip(Z, given, labels.tolist(), strict=True)
    expected = [oracle.step(z, p, k if k >= 0 else None) for z, p, k in steps]
    np.testing.assert_allclose(follow(Z, given, labels)[0], expected, rtol=1e-9)
    Z, given, numbers = number_stream(d, seed)
    other = naive.Number(d)
    pairs = zip(Z, given[:, 0].tolist(), numbers.tolist(), strict=True)
    told = [other.step(z, p, None if np.isnan(y) else y) for z, p, y in pairs]
    np.testing.assert_allclose(follow(Z, given, numbers)[0][:, 0], told, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_any_cut_gives_the_same_bits(task: str) -> None:
    Z, given, labels = class_stream(3, 2, 5) if task == "classes" else number_stream(2, 5)
    whole, expected = follow(Z, given, labels)
    mixture, parts = None, []
    for part in np.split(np.arange(N), [1, 2, 50, 51, 300]):
        out, mixture = follow(Z[part], given[part], labels[part], mixture)
        parts.append(out)
    assert mixture is not None
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    for one, other in zip(mixture, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_have_no_unit_and_no_origin(seed: int) -> None:
    Z, given, labels = number_stream(3, seed)
    found, _ = follow(Z, given, labels)
    other, _ = follow(Z, 1e6 * given + 1e3, 1e6 * labels + 1e3)
    first = int((~np.isnan(labels)).argmax()) + 1  # until then the origin is all there is
    np.testing.assert_allclose(other[first:], 1e6 * found[first:] + 1e3, rtol=1e-7)


def test_events_without_labels_change_nothing() -> None:
    Z, given, labels = class_stream(3, 2, 0)
    _, mixture = follow(Z, given, labels)
    before = [array.copy() for array in mixture]
    follow(Z, given, np.full(N, -1), mixture)
    for array, then in zip(mixture, before, strict=True):
        np.testing.assert_array_equal(array, then)
    Z, given, labels = number_stream(2, 0)
    _, mixture = follow(Z, given, labels)
    before = [array.copy() for array in mixture]
    follow(Z, given, np.full(N, np.nan), mixture)
    for array, then in zip(mixture, before, strict=True):
        np.testing.assert_array_equal(array, then)


def test_the_mixture_is_about_as_good_as_its_best_expert() -> None:
    rng = np.random.default_rng(0)
    n = 4000
    Z = rng.normal(size=(n, 2))
    truth = 1.0 / (1.0 + np.exp(-2.0 * Z[:, 0]))
    labels = (rng.random(n) < truth).astype(np.int64)
    right, wrong = np.stack([1.0 - truth, truth], 1), np.stack([truth, 1.0 - truth], 1)

    def loss(P: Numbers) -> float:
        return float(-np.log(P[np.arange(n), labels])[n // 4 :].mean())

    assert loss(follow(Z, right, labels)[0]) < loss(right) + 0.03
    # Where what is given is wrong, the linear models, and products that turn it round, take over.
    assert loss(follow(Z, wrong, labels)[0]) < loss(right) + 0.06


def test_two_wrong_labels_do_not_cost_a_good_expert_its_weight() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 1000)
    Z, sure = rng.normal(size=(1000, 3)), 0.98 * np.eye(2)[labels] + 0.01
    mixture = live_mixture.begin(3, 2, classes=True)
    follow(Z, sure, labels, mixture)
    follow(Z[:2], sure[:2], 1 - labels[:2], mixture)
    said, _ = follow(Z, sure, np.full(1000, -1), mixture)
    assert said[np.arange(1000), labels].mean() > 0.95
