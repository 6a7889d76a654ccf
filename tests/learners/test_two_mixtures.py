"""With external experts there are two mixtures, and the better one is what is predicted."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import KINDS, losses_of, make, opinions_of, stream
from numpy.typing import NDArray
from reference import naive
from reference.naive import Evidence

from streamk.backends import LATE
from streamk.kernels import Gaussian
from streamk.learners import MultiKernel, OnlineNystrom
from streamk.learners.multi_kernel.expert_pool import ALPHAS, GRADIENT_RATE
from streamk.losses import loss

WEIGHTS = ("SHARES", "PRODUCTS", "INVERSES", "LAST_PRODUCT", "LAST_INVERSE", "MIXER_WEIGHTS")


def nystrom(kind: str) -> list[Any]:
    of = "squared" if kind in ("numbers", "quantile") else "softmax"
    return [OnlineNystrom(Gaussian(bandwidth=0.7), loss=of, max_landmarks=16)]


def pair(kind: str, **options: Any) -> tuple[MultiKernel, MultiKernel]:
    """A model without external experts, and one with them."""
    if kind == "quantile":
        options["loss"], kind = loss("quantile", q=0.8), "numbers"
    return make(kind, **options), make(kind, external_experts=nystrom(kind), **options)


def labels(kind: str) -> str:
    return "numbers" if kind == "quantile" else kind


def one_by_one(model: MultiKernel, X: NDArray[Any], y: Any) -> None:
    for x, label in zip(X, y, strict=True):
        model.decision_one(x)
        model.learn_one(x, label)


def in_batches(model: MultiKernel, X: NDArray[Any], y: Any) -> None:
    for n in range(0, len(X), 90):
        model.predict_then_learn_many(X[n : n + 90], y[n : n + 90])


def with_late_labels(model: MultiKernel, X: NDArray[Any], y: Any) -> None:
    for n in range(0, len(X), 30):
        model.decision_many(X[n : n + 30])
        if n:
            model.learn_many(X[n - 30 : n], y[n - 30 : n])


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *(("two", one_by_one), ("four", in_batches), ("numbers", with_late_labels)),
        *(("two", with_late_labels), ("quantile", in_batches)),
    ],
)
def test_without_external_experts_a_mixture_is_as_if_there_were_none(
    kind: str, how: Callable[[MultiKernel, NDArray[Any], Any], None]
) -> None:
    alone, both = pair(kind)
    X, y = stream(labels(kind), 1_200)
    y[700:] = y[700:][::-1]  # drift, by which experts begin anew
    for model in (alone, both):
        how(model, X, y)
    assert both.drifts == alone.drifts
    own, full = alone._mixture.pool.arrays, both._mixture.pool.arrays
    for name in (*WEIGHTS, *(["RELIABILITY"] if alone.is_classifier else [])):
        np.testing.assert_array_equal(own[name], full[f"OWN_{name}"], err_msg=name)
    for name in (
        "LINEAR_A",
        "GAUSSIAN_A",
        "BINNING_CELLS",
        "NEWTON_A",
        "ACTIVE",
        "CONSTANT_LEVELS",
        *(("CONSTANT_CHAIN",) if "CONSTANT_CHAIN" in own else ()),
    ):
        np.testing.assert_array_equal(own[name], full[name], err_msg=name)
    alone.predict_one(X[0])
    both.predict_one(X[0])
    np.testing.assert_array_equal(own["OUT"], full["OWN_OUT"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_better_one_is_predicted(kind: str) -> None:
    model = pair(kind)[1]
    X, y = stream(kind, 700)
    model.learn_many(X[:50], y[:50])
    arrays = model._mixture.pool.arrays
    known, chosen = Evidence(*arrays["EVIDENCE"][:3].tolist()), []
    for x, label in zip(X[50:], y[50:], strict=True):
        said = model.decision_one(x)
        own, full = arrays["OWN_OUT"].copy(), arrays["FULL_OUT"].copy()
        best = full if known.full_is_better else own
        np.testing.assert_array_equal(said, model._targets.restored(best))
        chosen.append(known.full_is_better)
        unit = model._targets.unit
        model.learn_one(x, label)
        if model._targets.unit != unit:  # what was said is in another one
            known = Evidence(*arrays["EVIDENCE"][:3].tolist())
        elif kind == "numbers":
            known.learn(own, full, None, model._targets.encode(np.array([label]))[0])
        else:
            known.learn(own, full, model.classes.index(label), None)
    assert np.mean(chosen) > 0.1
    found = arrays["EVIDENCE"][:3]
    np.testing.assert_allclose(found, [known.spared, known.fewer, known.apart], atol=1e-4)


@pytest.mark.parametrize(
    ("spared", "fewer", "apart", "full"),
    [
        (1.0, 0.0, 0.0, True),
        (-1.0, 5.0, 9.0, False),
        (1.0, -2.9, 9.0, True),
        (1.0, -3.1, 9.0, False),
    ],
)
def test_more_errors_tell_against_external_experts(
    spared: float, fewer: float, apart: float, full: bool
) -> None:
    model = pair("two")[1]
    X, y = stream("two", 300)
    model.learn_many(X, y)
    arrays = model._mixture.pool.arrays
    arrays["EVIDENCE"][:3] = spared, fewer, apart
    said = model.decision_one(X[0])
    np.testing.assert_array_equal(said, arrays["FULL_OUT" if full else "OWN_OUT"])
    assert arrays["FULL_OUT"] != arrays["OWN_OUT"]
    parts = model.shares(X[0])
    assert sum(parts.values()) == pytest.approx(1.0)
    assert (parts["online-nystrom"] > 0.0) == full


@pytest.mark.parametrize(
    ("spared", "fewer", "sums", "expected"),
    [
        (8.0, 0.0, [5.0, 1.0], [2.0, 1.0]),  # no more than the mixture
        (36.0, 0.0, [5.0, 1.0], [5.0, 1.0]),  # nor than alone
        (8.0, -4.0, [5.0, 1.0], [-2.0, -2.0]),  # more errors
        (36.0, 0.0, [-2.0, -1.0], [-2.0, 9.0]),  # each makes the other dispensable
        (36.0, 0.0, [-1.0, 1.0], [-1.0, 1.0]),
        (-8.0, 0.0, [-1.0, -3.0], [-2.0, -3.0]),
    ],
)
def test_what_external_experts_are_worth(
    spared: float, fewer: float, sums: list[float], expected: list[float]
) -> None:
    for several in (False, True):
        model = make("two", external_experts=nystrom("two") * (1 + several))
        model.learn_many(*stream("two", 300))
        arrays = model._mixture.pool.arrays
        arrays["OWN_RELIABILITY"][...] = 0.0  # nothing is known of the labels' noise
        joint = math.copysign(spared / 4, fewer or spared)  # of each fourth event
        for active in ([True, True], [True, False], [False, True])[: 1 + 2 * several]:
            arrays["BANK_COSTS"][-1 - several :] = sums[: 1 + several]
            arrays["EVIDENCE"][3:] = spared + 0.5 * 2.0, fewer, 9.0, 2.0, 0.0, 300.0
            found = model._mixture.pool.external_gains([0.5] * (1 + several), active[: 1 + several])
            both = several and all(active)
            assert found.tolist() == (expected if both else [joint] * (1 + several))
            assert not arrays["EVIDENCE"][3:].any()


@pytest.mark.parametrize(
    ("came_true", "events", "part"),
    [
        (90.0, 10.0, 1.0 - 10.0 * 0.3250830 / 8.0),  # a tenth of the surest labels is wrong
        (90.0, 1_000.0, 0.5),  # half of the loss counts in any case
        (100.0, 10.0, 1.0),
        (0.0, 10.0, 1.0),  # as sure of the first class
    ],
)
def test_external_experts_need_not_spare_the_noise_of_labels(
    came_true: float, events: float, part: float
) -> None:
    model = make("two", external_experts=nystrom("two"))
    model.learn_many(*stream("two", 300))
    arrays = model._mixture.pool.arrays
    arrays["OWN_RELIABILITY"][:, :] = np.array([[100.0], [50.0]])
    arrays["OWN_RELIABILITY"][1, -20] = came_true
    arrays["OWN_RELIABILITY"][:, 0] = 10.0, 0.0  # too few to tell
    arrays["BANK_COSTS"][-1] = 0.0
    arrays["EVIDENCE"][3:] = 4.0, 0.0, 9.0, 8.0, 0.0, events
    (found,) = model._mixture.pool.external_gains([0.02], [True])
    assert found == pytest.approx((4.0 - part * 0.02 * 8.0) / 4.0)


# --- what was said of events whose labels are still to come ---------------------------------------


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
        L = (
            (L - model._targets.label_scale.center)
            * model._targets.label_scale.inverse
            * (L != 0.0)
        )
        y = (label - model._targets.label_scale.center[0]) * model._targets.label_scale.inverse[0]
        slope = np.clip(w @ L[:, 0] - y, -3.0, 3.0) * L[:, 0]
        return w - GRADIENT_RATE * slope / (1e-3 + L[:, 0] @ L[:, 0])
    return w - GRADIENT_RATE * slopes_of(model, w, L, label)


def as_sure(kind: str, model: MultiKernel, said: NDArray[Any], factors: NDArray[Any]) -> Any:
    """Opinions times factors, of classes as logarithms of probabilities."""
    if kind == "numbers":
        center = model._targets.label_scale.center
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
        active[1:] = rng.random(len(active) - 1) < 0.5
        flags = np.append(active, True)[
            model._mixture.pool.arrays["BANK_OF_EXPERT"]
        ]  # and the constant one
        said = opinions_of(model, X[i]).astype(float)
        if kind == "numbers":
            said = said / model._targets.label_scale.inverse + model._targets.label_scale.center
        model.decision_one(X[i])
        waiting.append((i, said, flags))
        if len(waiting) < LATE:  # or each would count less
            continue
        n, said, flags = waiting.popleft()
        active[1:] = rng.random(len(active) - 1) < 0.5
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
