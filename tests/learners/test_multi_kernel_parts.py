"""Parts of the learner of many kernels, each by itself: columns, targets and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import KINDS, learned
from state_kit import assert_same

from streamk.errors import InvalidInput
from streamk.learners import MultiKernel
from streamk.learners.common.classes import Classes
from streamk.learners.multi_kernel.intervals import ErrorQuantiles, checked_levels, ends
from streamk.learners.multi_kernel.joining import Parts, aligned
from streamk.learners.multi_kernel.units import (
    ClassTargets,
    NumberTargets,
    ScaledColumns,
    unit_change,
)
from streamk.scaling.labels import LabelQuantiles
from streamk.scaling.quantiles import RunningQuantiles

# --- columns --------------------------------------------------------------------------------------


def columns(*names: str) -> ScaledColumns:
    found = ScaledColumns(RunningQuantiles())
    found.add(names, found.new_keys(names))
    return found


def test_a_column_that_is_there_is_refused() -> None:
    found = columns("a", "b")
    with pytest.raises(InvalidInput, match="column 'b' is there already"):
        found.new_keys(["c", "b"])
    assert found.names == ("a", "b")
    assert len(found.scale) == len(found.keys) == 2


@pytest.mark.parametrize(
    ("x", "fresh", "same"),
    [
        (np.array([1.0, 2.0]), False, True),
        (np.array([1.0, np.nan]), False, True),
        (np.array([1e200, 0.0]), True, True),
        (np.array([1.0, 2.0], np.float32), False, False),
        (np.zeros(4)[::2], False, False),
        ([1.0, 2.0], False, False),
    ],
)
def test_an_event_that_the_loops_can_take_is_no_copy(x: Any, fresh: bool, same: bool) -> None:
    found = columns("a", "b").event(x, lambda _: fresh)
    assert (found is x) == same
    np.testing.assert_array_equal(found, np.asarray(x, np.float64))


@pytest.mark.parametrize("x", [np.array([1e200, 0.0]), np.array([-np.inf, 0.0]), np.zeros(3)])
def test_an_event_of_no_use_is_refused(x: Any) -> None:
    with pytest.raises(InvalidInput):
        columns("a", "b").event(x, lambda _: False)


def test_columns_go_on_from_their_state() -> None:
    found = columns("a", "b")
    found.scale.observe(np.arange(20.0).reshape(10, 2))
    again = ScaledColumns.from_state(found.scale.state(), ["a", "b"])
    np.testing.assert_array_equal(again.keys, found.keys)
    assert_same(again.scale, found.scale)
    np.testing.assert_array_equal(again.scale_of(["b"]).center, found.scale.center[1:])
    for names in (None, ["a"]):
        with pytest.raises(ValueError, match="2 columns have a scale"):
            ScaledColumns.from_state(found.scale.state(), names)


# --- targets --------------------------------------------------------------------------------------


def test_a_new_class_is_on_its_own() -> None:
    classes = Classes(["a"])
    targets = ClassTargets(classes, LabelQuantiles())
    labels = np.array(["a", "a", "b", "a", "c"], object)
    assert targets.until_change(labels) == 2
    assert not targets.observe(labels[:2])
    assert targets.observe(labels[2:])
    assert targets.until_change(labels[2:]) == 2  # the first is new whatever comes
    assert targets.known("b") is None
    assert targets.encode(labels[:3]).tolist() == [0.0, 0.0, 1.0]
    assert targets.even(2).tolist() == [[0.5], [0.5]]
    assert targets.encode(labels[4:]).tolist() == [2.0]
    assert classes.labels == ("a", "b", "c")
    np.testing.assert_allclose(targets.even(1), 1.0 / 3.0)


def test_numbers_are_in_units_of_their_spread() -> None:
    targets = NumberTargets(LabelQuantiles(1))
    y = 100.0 + 10.0 * np.random.default_rng(0).normal(size=63)
    assert targets.observe(y)
    unit = targets.unit
    assert unit[0] == pytest.approx(100.0, abs=5.0)
    encoded = targets.encode(y)
    np.testing.assert_allclose(targets.restored(encoded), y)
    np.testing.assert_allclose(targets.restored(encoded, (0.0, 1.0)), encoded)
    assert targets.encode(np.array([1e9])).tolist() == [20.0]
    assert targets.known("3") is targets.known(None) is targets.known(float("nan")) is None
    assert targets.known(3) is not None


def test_a_unit_changes_as_labels_do() -> None:
    old, new, label = (5.0, 0.5), (2.0, 0.25), 9.0
    factor, shift = unit_change(old, new)
    assert factor * (label - old[0]) * old[1] + shift == (label - new[0]) * new[1]
    assert unit_change((0.0, 1.0), (0.0, 1.0)) == (1.0, 0.0)
    assert unit_change((0.0, 1.0), (1e4, 1.0)) == (0.0, 0.0)  # noise from then on


# --- intervals ------------------------------------------------------------------------------------


def test_levels_and_ends() -> None:
    np.testing.assert_allclose(ends(0.9), [0.05, 0.95])
    assert checked_levels([0.1, 0.9]).tolist() == [0.1, 0.9]
    for level in (0.0, 1.0, float("nan"), "0.5"):
        with pytest.raises(InvalidInput, match="level="):
            ends(level)  # type: ignore[arg-type]
    for levels in (0.0, [0.5, 1.0], [[0.5]]):
        with pytest.raises(InvalidInput, match="levels="):
            checked_levels(levels)


def test_quantiles_of_errors_follow_them() -> None:
    errors, weights = ErrorQuantiles(), np.zeros(1, np.float32)
    scores = np.zeros((1, 1), np.float32)
    for error in np.random.default_rng(0).normal(size=3000) * 5.0:
        errors.update(float(error), scores, weights)
    found = errors.quantiles(scores[None], weights, checked_levels([0.1, 0.5, 0.9]))[0]
    np.testing.assert_allclose(found, [-6.4, 0.0, 6.4], atol=0.8)
    assert_same(errors, ErrorQuantiles.from_state(errors.state()))
    errors.rescale(2.0)
    doubled = errors.quantiles(scores[None], weights, checked_levels([0.1, 0.5, 0.9]))[0]
    np.testing.assert_allclose(doubled, 2.0 * found, rtol=0.05, atol=0.1)


# --- merging --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_is_aligned_as_a_copy(kind: str) -> None:
    model = learned(kind, 150)
    other = MultiKernel.from_state(model.state())

    def parts(one: MultiKernel) -> Parts:
        return Parts(one._mixture, one._inputs, one._targets, Classes(one.classes))

    new = aligned(parts(other), parts(model))
    assert new is not other._mixture.pool
    for name, array in other._mixture.pool.learned().items():
        if not name.startswith("window"):  # whose rows begin anew
            np.testing.assert_allclose(new.learned()[name], array, rtol=1e-6, err_msg=name)


def test_a_lent_state_shares_the_cells_and_a_state_does_not() -> None:
    model = MultiKernel(task="classification", seed=1)
    X = np.random.default_rng(0).normal(size=(200, 3))
    model.learn_many(X, [*"abcb" * 50])
    cells = model._mixture.pool.arrays["BINNING_CELLS"]
    assert np.shares_memory(model.lent_state().arrays["pool.binning_cells"], cells)
    assert not np.shares_memory(model.state().arrays["pool.binning_cells"], cells)
