"""A multi-kernel learner whose classes and columns come late, come in another order, or meet those
of another learner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import KINDS, assert_sound, learned, make, pool_alone, stream
from numpy.typing import NDArray
from state_kit import assert_same

from streamk.backends import CLASSES
from streamk.backends.banks import BANKS, WINDOW
from streamk.learners import MultiKernel
from streamk.learners.multi_kernel import binning_tables
from streamk.learners.multi_kernel.joining import InScale, lines, rescale
from streamk.learners.multi_kernel.pool_growth import successor

# --- classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_bets_stand_when_a_third_class_comes(order: list[int]) -> None:
    old = learned("two", 500)._mixture.pool
    new = successor(old, old.keys, CLASSES, 3, order=order[:2])
    first, second, third = order
    A, was = new.arrays["LINEAR_A"], old.arrays["LINEAR_A"][:, 0]
    np.testing.assert_allclose(A[:, second], was / 2, rtol=1e-6)
    np.testing.assert_allclose(A[:, first], -was / 2, rtol=1e-6)
    for name, sign in (("BETS", -1), ("GAINS", 1), ("LARGEST", 1)):
        found, before = new.arrays[f"LINEAR_{name}"], old.arrays[f"LINEAR_{name}"][0]
        np.testing.assert_array_equal(found[second], before)
        np.testing.assert_array_equal(found[first], sign * before)
        assert not found[third].any()
        assert before.any()
    # What a coefficient stakes of its wealth is what it is.
    bets, gains, largest = (
        new.arrays[f"LINEAR_{name}"][[first, second]] for name in ("BETS", "GAINS", "LARGEST")
    )
    stakes = new.arrays["LINEAR_RATES"][-1] * bets * (1 + gains) * largest[:, -1:] / largest
    np.testing.assert_allclose(A[-1, [first, second]], stakes, rtol=1e-3)


# --- columns --------------------------------------------------------------------------------------


def test_many_columns_come_one_by_one() -> None:
    model = pool_alone(seed=1)
    rng = np.random.default_rng(0)
    for d in range(1, 90):
        model.add_columns([f"column {d}"])
        X = rng.uniform(-1, 1, (4, d))
        model.learn_many(X, X[:, 0] > 0)
    assert len(model.columns or ()) == 89
    assert_sound(model)
    again = MultiKernel.from_state(model.state())
    assert_same(model, again)
    X = rng.uniform(-1, 1, (20, 89))
    np.testing.assert_array_equal(model.decision_many(X), again.decision_many(X))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_in_the_room_of_a_pool_are_restored(kind: str) -> None:
    """It has the cells and rates of a pool made of all its columns at once."""
    d = 4
    X, y = stream(kind, 400, d=d + 2)
    model = make(kind, columns=[f"column {n}" for n in range(d)])
    model.learn_many(X[:200, :d], y[:200])
    for n in (d, d + 1):  # the first makes room for the second
        model.add_columns([f"column {n}"])
        model.learn_many(X[200 : 201 + n, : n + 1], y[200 : 201 + n])
    again = MultiKernel.from_state(model.state())
    for learner in (model, again):
        learner.learn_many(X[300:], y[300:])
    assert_same(model, again)


def test_a_learner_without_columns() -> None:
    for task, label in (("classification", "a"), ("regression", 3.0)):
        model = pool_alone(task=task, columns=[])
        model.learn_many(np.zeros((40, 0)), [label] * 40)
        assert model.predict_one([]) == pytest.approx(label)
        model.add_columns(["a"])
        model.learn_one([1.0], label)
        assert model.predict_one([1.0]) == pytest.approx(label)
        assert_sound(model)


# --- merging --------------------------------------------------------------------------------------


def error_of(model: MultiKernel, X: NDArray[Any], y: Any) -> float:
    if not model.is_classifier:
        return float(np.abs(model.predict_many(X) - y).mean() / np.std(y))
    return float((model.predict_many(X) != y).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_merging_a_copy_changes_no_prediction(kind: str) -> None:
    model = learned(kind, 500)
    X, _ = stream(kind, 100, seed=5)
    expected = model.decision_many(X)
    copy = MultiKernel.from_state(model.state())
    model.merge(copy)
    np.testing.assert_allclose(model.decision_many(X), expected, rtol=1e-6, atol=1e-6)
    assert model.n_events == 1000


@pytest.mark.parametrize("mine", [300, 700])
@pytest.mark.parametrize("kind", KINDS)
def test_merging_columns_and_classes_in_another_order(kind: str, mine: int) -> None:
    """As if the other learner had been told the columns and classes in this one's order."""
    X, y = stream(kind, 1000)
    order, labels = [2, 0, 1], () if kind == "numbers" else tuple(sorted(set(y)))
    names = ["a", "b", "c"]

    def pair(columns: list[int], classes: tuple[str, ...]) -> MultiKernel:
        one = make(kind, columns=names, classes=labels)
        one.learn_many(X[:mine], y[:mine])
        other = make(kind, columns=[names[n] for n in columns], classes=classes)
        other.learn_many(X[mine:][:, columns], y[mine:])
        one.merge(other)
        return one

    one, other = pair([0, 1, 2], labels), pair(order, labels[::-1])
    assert one.columns == other.columns == ("a", "b", "c")
    assert one.classes == other.classes == labels
    unit = 1.0 if kind != "numbers" else float(np.std(y))
    np.testing.assert_allclose(
        one.decision_many(X), other.decision_many(X), rtol=0, atol=2e-3 * unit
    )


@pytest.mark.parametrize("kind", KINDS)
def test_joining_takes_a_share_of_all_that_was_learned(kind: str) -> None:
    mine, theirs = (learned(kind, 400, seed=seed)._mixture.pool for seed in (0, 1))
    names = [name for name in mine.learned_names if name not in ("WINDOW_Z", "WINDOW_Y", "ACTIVE")]
    before = {name: mine.arrays[name].copy() for name in names}
    mine.join(theirs, 0.25)
    assert "GAUSSIAN_A" in names
    for name in names:
        expected = 0.75 * before[name] + 0.25 * theirs.arrays[name]
        np.testing.assert_allclose(mine.arrays[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_window_that_another_wakes_begins_anew() -> None:
    asleep, other = (learned("two", 100, seed=seed) for seed in (0, 1))
    window = BANKS.index(WINDOW)
    asleep._mixture.pool.arrays["ACTIVE"][window] = False
    asleep.merge(other)
    assert asleep._mixture.pool.arrays["ACTIVE"][window]
    assert asleep._mixture.pool.count == 0


# --- merging in other scales ----------------------------------------------------------------------


def wider(kind: str, times: float, n: int, seed: int) -> tuple[NDArray[np.float64], Any]:
    """Events of one law of labels whose columns are wider, and lie elsewhere."""
    rng = np.random.default_rng(seed)
    X = times * rng.normal(size=(n, 4)) + np.array([0.0, 0.5 * times, 0.0, 0.0])
    score = X @ np.array([1.0, -1.0, 0.5, 0.25])
    if kind == "numbers":
        return X, score + 0.1 * rng.normal(size=n)
    if kind == "two":
        return X, score > 0.0
    return X, np.array(["a", "b", "c", "d"])[2 * (score > 0) + (X[:, 0] > X[:, 3])]


@pytest.mark.parametrize("sizes", [(1_500, 1_000), (1_000, 1_500)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_learners_of_other_scales_are_merged(kind: str, sizes: tuple[int, int]) -> None:
    """One half's columns are ten times the other's; what is known of both is no worse.

    A number that the scale kept has no room for, 20 deviations off, is out of reach for the mean.
    """
    one, other = make(kind), make(kind)
    for model, times, n in zip((one, other), (1.0, 10.0), sizes, strict=True):
        model.learn_many(*wider(kind, times, n, seed=n))
    halves = [wider(kind, times, 500, seed=9) for times in (1.0, 10.0)]

    def errors(model: MultiKernel) -> float:
        return float(np.mean([error_of(model, X, y) for X, y in halves]))

    before = errors(one), errors(other)
    one.merge(other)
    narrow = kind == "numbers" and sizes[0] > sizes[1]
    assert errors(one) <= (before[0] if narrow else min(before)) + 0.015
    assert_sound(one)
    one.learn_many(*halves[0])
    assert_sound(one)


@pytest.mark.parametrize("kind", KINDS)
def test_linear_experts_are_converted_exactly(kind: str) -> None:
    """Where nothing is bounded, what is said in another scale is the same."""
    X, y = stream(kind, 400)
    near = learned(kind, 400)
    far = make(kind)
    far.learn_many(3.0 * X + 1.0, y)
    Z = {}
    for name, model in (("near", near), ("far", far)):
        scale = model._inputs.scale
        Z[name] = np.c_[((X - scale.center) * scale.inverse), np.ones(len(X))]
    guest, host = (
        InScale(model._mixture.pool, model._inputs.scale, model._targets.label_scale)
        for model in (far, near)
    )
    before = {key: guest.pool.arrays[key].copy() for key in ("LINEAR_A", "NEWTON_A", "NEWTON_P")}
    factor, shift = 1.0, 0.0
    if kind == "numbers":
        factor = host.labels.inverse[0] / guest.labels.inverse[0]
        shift = (guest.labels.center[0] - host.labels.center[0]) * host.labels.inverse[0]
    rescale(guest, host, np.ones(3, dtype=bool))
    for key in ("LINEAR_A", "NEWTON_A"):
        expected = factor * (before[key] @ Z["far"].T) + shift
        np.testing.assert_allclose(guest.pool.arrays[key] @ Z["near"].T, expected, atol=1e-3)
    # What the inverse of P says of a direction: G of the one is that of the other in its terms.
    a, b = lines(host.scale, guest.scale)
    T = np.block([[np.diag(a), b[:, None]], [np.zeros(3), 1.0]])
    expected = T.T @ before["NEWTON_P"] @ T
    np.testing.assert_allclose(guest.pool.arrays["NEWTON_P"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(Z["near"] @ T.T, Z["far"], atol=1e-5)
    for key in ("GAUSSIAN_A", "GAUSSIAN_SQUARES", "BINNING_CELLS", "BINNING_WEIGHTS"):
        np.testing.assert_array_equal(guest.pool.arrays[key], host.pool.arrays[key])


# --- the cells of tables --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_begins_small_and_grows_with_its_events(kind: str) -> None:
    X, y = stream(kind, 200, d=8)
    model, sizes = make(kind), []
    for x, label in zip(X, y, strict=True):
        model.learn_one(x, label)
        sizes.append(model.nbytes)
    assert sizes[0] < 2 << 20
    assert model._mixture.pool.most_cells == binning_tables.MOST_CELLS
    assert max(size / events for events, size in enumerate(sizes, start=1)) < 2 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_with_more_cells_a_model_says_what_it_said(kind: str) -> None:
    X, y = stream(kind, 300, d=7)
    model = make(kind)
    model.learn_many(X[:100], y[:100])
    assert model._mixture.pool.most_cells < binning_tables.MOST_CELLS
    before = model.decision_many(X)
    first = model._mixture.pool.arrays["BINNING_STARTS"].copy()
    model._mixture.pool.add_cells(binning_tables.MOST_CELLS)
    assert model._mixture.pool.arrays["BINNING_STARTS"][-1] > first[-1]
    np.testing.assert_array_equal(model.decision_many(X), before)
    # As the state of a version before tables grew: with all cells after few events.
    opened = MultiKernel.from_state(model.state())
    np.testing.assert_array_equal(opened.decision_many(X), before)
    for one in (model, opened):
        one.learn_many(X[100:], y[100:])
    assert_same(model, opened)
