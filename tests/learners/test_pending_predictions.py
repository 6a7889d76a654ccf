"""What was said of events whose labels are still to come."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import KINDS, losses_of, make, opinions_of, stream
from numpy.typing import NDArray
from reference import naive

from streamk.learners import MultiKernel
from streamk.learners.multi_kernel.mixture import PendingPredictions
from streamk.learners.multi_kernel.tables import ALPHAS, BANKS, GRADIENT_RATE


def opinion(value: float, n: int = 4) -> np.ndarray:
    return np.full(n, value, np.float32)


def test_each_opinion_is_given_once() -> None:
    said = PendingPredictions(1 << 20)
    said.keep(b"a", opinion(1.0))
    said.keep(b"b", opinion(2.0))
    assert said.nbytes == 2 * 17
    found = said.take(b"a")
    assert found is not None
    assert found.tolist() == [1.0] * 4
    assert said.take(b"a") is None
    assert said.take(b"c") is None
    assert said.nbytes == 17
    said.clear()
    assert said.take(b"b") is None
    assert said.nbytes == 0


def test_the_last_opinion_on_an_event_counts() -> None:
    said = PendingPredictions(1 << 20)
    said.keep(b"a", opinion(1.0))
    said.keep(b"a", opinion(2.0, 8))
    assert said.nbytes == 33
    found = said.take(b"a")
    assert found is not None
    assert found.tolist() == [2.0] * 8
    assert said.nbytes == 0


def test_the_oldest_are_forgotten() -> None:
    said = PendingPredictions(5 * 17)
    for name in range(20):
        said.keep(bytes([name]), opinion(name))
        assert said.nbytes <= 5 * 17
    said.keep(bytes([15]), opinion(99.0))  # now the youngest
    said.keep(bytes([20]), opinion(20.0))
    kept = [name for name in range(21) if said.take(bytes([name])) is not None]
    assert kept == [15, 17, 18, 19, 20]


def test_one_is_kept_whatever_its_size() -> None:
    said = PendingPredictions(0)
    said.keep(b"a", opinion(1.0))
    said.keep(b"b", opinion(2.0))
    assert said.take(b"a") is None
    assert said.take(b"b") is not None


def test_opinions_follow_the_unit_of_the_labels() -> None:
    said = PendingPredictions(1 << 20)
    said.keep(b"a", opinion(3.0))
    said.shift(0.5, -1.0)
    said.keep(b"b", opinion(3.0))
    (a, b) = (said.take(name) for name in (b"a", b"b"))
    assert a is not None
    assert b is not None
    assert (a.tolist(), b.tolist()) == ([0.5] * 4, [3.0] * 4)


def slopes_of(model: MultiKernel, w: NDArray[Any], L: NDArray[Any], label: Any) -> NDArray[Any]:
    """The gradient of the loss of a product of opinions on a class in its weights."""
    number, total = model.classes.index(label), w @ L
    if len(model.classes) == 2:
        return naive.product_slopes("binary", L, 1.0 / (1.0 + np.exp(-total)), number)
    p = np.exp(total - total.max())
    return naive.product_slopes("classes", L, p / p.sum(), number)


def after_gradient(model: MultiKernel, w: NDArray[Any], L: NDArray[Any], label: Any) -> Any:
    """The weights of the product of experts that moves along gradients; NaN counts as 0."""
    L = np.nan_to_num(L)
    if not model.is_classifier:
        L = (L - model._labels.center) * model._labels.inverse * (L != 0.0)
        y = (label - model._labels.center[0]) * model._labels.inverse[0]
        slope = np.clip(w @ L[:, 0] - y, -3.0, 3.0) * L[:, 0]
        return w - GRADIENT_RATE * slope / (1e-3 + L[:, 0] @ L[:, 0])
    return w - GRADIENT_RATE * slopes_of(model, w, L, label)


def as_sure(kind: str, model: MultiKernel, said: NDArray[Any], factors: NDArray[Any]) -> Any:
    """Opinions times factors, of classes as logarithms of probabilities."""
    if kind == "numbers":
        center = model._labels.center
        return (said - center) * factors[:, None] + center
    if kind == "two":
        return said * factors[:, None]
    both = zip(said, factors, strict=True)
    return np.log([naive.calibrated("classes", row, factor) for row, factor in both])


@pytest.mark.parametrize("kind", KINDS)
def test_who_slept_at_the_prediction_counts_as_asleep(kind: str) -> None:
    """Whoever sleeps when the label comes."""
    X, y = stream(kind, 300)
    model = make(kind, classes=() if kind == "numbers" else sorted(set(y)))
    model.learn_many(X[:130], y[:130])
    rng, waiting = np.random.default_rng(0), deque[tuple[int, Any, Any]]()
    active = model._mixture.pool.arrays["ACTIVE"]
    for i in range(130, 250):  # in which the scales stay as they are
        active[1:] = rng.random(len(BANKS) - 1) < 0.5
        flags = np.array(
            [active[BANKS.index(b)] if b in BANKS else True for b in model._mixture.pool.banks]
        )
        said = opinions_of(model, X[i]).astype(float)
        if kind == "numbers":
            said = said / model._labels.inverse + model._labels.center
        model.decision_one(X[i])
        waiting.append((i, said, flags))
        if len(waiting) <= 40:
            continue
        n, said, flags = waiting.popleft()
        active[1:] = rng.random(len(BANKS) - 1) < 0.5
        before = model.state().arrays
        louder = as_sure(kind, model, said, before["pool.inverse_temperatures"])
        shares = [
            naive.fixed_share(w, losses_of(model, opinions, y[n]) / 4.0, flags, alpha)
            for w, opinions, alpha in zip(
                before["pool.shares"], (said, louder), ALPHAS, strict=True
            )
        ]
        product = after_gradient(model, before["pool.products"][0], said, y[n])
        model.learn_one(X[n], y[n])
        after = model.state().arrays
        np.testing.assert_allclose(after["pool.shares"], shares, rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(after["pool.products"][0], product, rtol=1e-4, atol=1e-6)
        changed = after["pool.inverse_temperatures"] != before["pool.inverse_temperatures"]
        assert not changed[~flags].any()
