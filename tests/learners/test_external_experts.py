"""Learners of one kernel among the experts of a multi-kernel learner."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import KINDS, assert_sound, learned, make, pool_alone, stream
from numpy.typing import NDArray

from streamk.adapters.river import KernelClassifier
from streamk.errors import InvalidInput, StateError
from streamk.kernels import Gaussian
from streamk.learners import (
    DoublyStochastic,
    MultiKernel,
    OnlineNystrom,
    Scaled,
)
from streamk.learners.common.steps import Constant
from streamk.learners.multi_kernel.external_experts import ExternalExperts
from streamk.state import State


def nystrom(kind: str, **options: Any) -> OnlineNystrom:
    loss = "squared" if kind == "numbers" else "softmax"
    return OnlineNystrom(Gaussian(bandwidth=0.7), **{"loss": loss, "max_landmarks": 16, **options})


def random(kind: str) -> DoublyStochastic:
    loss = "huber" if kind == "numbers" else "logistic"
    sizes = {"max_features": 128, "block_size": 128}
    return DoublyStochastic(Gaussian(bandwidth=0.7), loss=loss, seed=2, dtype="float32", **sizes)


def external_experts(kind: str) -> list[Any]:
    """Of both kinds, one in single precision and one of second order."""
    return [nystrom(kind), random(kind), nystrom(kind, optimizer="newton", forgetting=0.999)]


def said_by_guests(model: MultiKernel, x: NDArray[Any]) -> NDArray[Any]:
    """Outputs (external experts, outputs) on an event."""
    return model._mixture.external.outputs(x[None], model._mixture.pool.outputs)[0]


# --- what external experts see, and what they say -------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_guest_learns_as_it_would_by_itself(kind: str) -> None:
    X, y = stream(kind, 400)
    X[::7, 2] = np.nan
    names = sorted(set(y)) if kind != "numbers" else []
    model = make(kind, external_experts=[nystrom(kind)], classes=names)
    model.learn_many(X[:256], y[:256])  # from here on the scale stays up to event 512
    alone = OnlineNystrom.from_state(model._mixture.external._learners[0].state())
    scale, labels = model._mixture.external._scale, model._targets.label_scale
    for x, label in zip(X[256:], y[256:], strict=True):
        z = np.clip((x - scale.center) * scale.inverse, -8.0, 8.0)
        z = np.nan_to_num(z, nan=0.0) * np.sqrt(2.0) / scale.distance
        F = alone.decision_one(z)
        if kind == "numbers":
            expected, label = F, (label - labels.center[0]) * labels.inverse[0]
            factor, shift = model._mixture.external._unit
            expected, seen = F * factor + shift, (label - shift) / factor
        else:
            P = np.array(list(alone.predict_proba_one(z).values()))
            expected = np.log(P) if kind == "four" else np.log(P[1:] / P[:1])
            seen = label
        np.testing.assert_allclose(said_by_guests(model, x)[0], expected, rtol=1e-4, atol=1e-5)
        opinion = opinions_after(model, x)[-1]
        np.testing.assert_allclose(opinion, np.maximum(expected, -9.2103406), rtol=1e-4, atol=1e-5)
        model.learn_one(x, y[model.n_events])
        alone.learn_one(z, seen)


def opinions_after(model: MultiKernel, x: NDArray[Any]) -> NDArray[Any]:
    """What is kept of the experts' opinions on an event."""
    model.decision_one(x)
    kept: NDArray[Any] = model._mixture.pool.arrays["FORECAST"][
        : model._mixture.pool.experts
    ].copy()
    return kept


def test_what_is_without_bounds_is_bounded() -> None:
    model = make("numbers", external_experts=[nystrom("numbers")])
    model.learn_many(*stream("numbers", 100))
    learner: Any = model._mixture.external._learners[0]
    learner._optimizer.W *= 1e200
    learner._served = None
    X, _ = stream("numbers", 5)
    assert np.abs(model._mixture.external.outputs(X, 1)).max() == 20.0
    assert np.isfinite(model.predict_many(X)).all()


# --- the scale of columns -------------------------------------------------------------------------


@pytest.mark.parametrize("far", [False, True])
def test_later_a_scale_stays_unless_it_is_far_off(far: bool) -> None:
    model = learned("two", 600, external_experts=external_experts("two"))
    x = stream("two", 1, seed=6)[0][0]
    guest, pool = model._mixture.external._scale, model._inputs.scale
    before, center = said_by_guests(model, x), guest.center.copy()
    pool.center[0] = center[0] + (1.5 if far else 0.5) / guest.inverse[0]
    pool.inverse[1] = guest.inverse[1] * (2.5 if far else 0.6)
    pool.distance = float(guest.distance[0]) * (0.4 if far else 0.6)
    model._mixture.external.adapt(pool)
    if far:
        np.testing.assert_array_equal(guest.center[:1], pool.center[:1])
        np.testing.assert_array_equal(guest.inverse[:2], pool.inverse[:2])
        assert guest.distance[0] == pool.distance
    else:
        np.testing.assert_array_equal(guest.center, center)
        np.testing.assert_array_equal(said_by_guests(model, x), before)


# --- the unit of numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 700])
def test_another_unit_of_labels_changes_no_prediction(n: int) -> None:
    model = learned("numbers", n, external_experts=[nystrom("numbers"), nystrom("numbers")])
    X, _ = stream("numbers", 50, seed=5)
    before = model._mixture.external.outputs(X, 1)
    model._mixture.external.shift_labels(0.5, 0.25, n)
    after = model._mixture.external.outputs(X, 1)
    if n < 512:  # what was learned is learned anew, as labels of that unit
        assert model._mixture.external._unit.tolist() == [1.0, 0.0]
        assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.99
    else:
        np.testing.assert_allclose(after, 0.5 * before + 0.25, rtol=1e-5, atol=1e-6)
    assert [learner.n_events for learner in model._mixture.external._learners] == [n, n]


@pytest.mark.parametrize(("factor", "n"), [(0.0, 300), (0.0, 700), (0.01, 700), (50.0, 700)])
def test_guests_begin_anew_in_quite_another_unit(factor: float, n: int) -> None:
    model = learned("numbers", n, external_experts=external_experts("numbers"))
    model._mixture.external.shift_labels(factor, 0.25, n)
    assert [learner.n_events for learner in model._mixture.external._learners] == [0, 0, 0]
    X, y = stream("numbers", 300)
    assert not model._mixture.external.outputs(X, 1).any()
    model.learn_many(X, y)
    assert_sound(model)


# --- states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"type": "scaled"}, {"format": 4}, {"alarms": -1}, {"learners": 4}, {"learners": "x"},
     {"learners": 0}, {"born": None}],
    ids=str,
)  # fmt: skip
def test_damaged_guests_are_refused(change: dict[str, Any]) -> None:
    state = learned("two", 50, external_experts=external_experts("two")).state()
    parts: Any = state.header["parts"]
    header = {
        **state.header,
        "parts": {**parts, "external_experts": {**parts["external_experts"], **change}},
    }
    with pytest.raises(StateError):
        MultiKernel.from_state(State(header, state.arrays))


@pytest.mark.parametrize("part", ["fresh-0", "learner-0"])
def test_guests_of_no_known_type_are_refused(part: str) -> None:
    state = ExternalExperts([nystrom("two")], is_classifier=True).state()
    parts: Any = state.header["parts"]
    header = {**state.header, "parts": {**parts, part: {"type": "perceptron", "format": 1}}}
    with pytest.raises(StateError, match="perceptron"):
        ExternalExperts.from_state(State(header, state.arrays), is_classifier=True)


def test_guests_of_other_columns_are_refused() -> None:
    state = learned("two", 50, external_experts=external_experts("two")).state()
    other = learned("two", 50, d=4, external_experts=external_experts("two")).state()
    theirs: Any = other.header["parts"]
    mine: Any = state.header["parts"]
    header = {**state.header, "parts": {**mine, "external_experts": theirs["external_experts"]}}
    arrays = {
        name: a for name, a in state.arrays.items() if not name.startswith("external_experts.")
    }
    arrays |= {name: a for name, a in other.arrays.items() if name.startswith("external_experts.")}
    with pytest.raises(StateError, match="external_experts know columns"):
        MultiKernel.from_state(State(header, arrays))


# --- merging --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_guests_of_one_scale_are_joined(kind: str) -> None:
    (X, y), mine = stream(kind, 1200), 500
    common = learned(kind, 300, external_experts=[nystrom(kind)])
    one, other = copy.deepcopy(common), copy.deepcopy(common)
    one.learn_many(X[300:mine], y[300:mine])
    other.learn_many(X[mine:], y[mine:])
    learner: Any = one._mixture.external._learners[0]
    expected = OnlineNystrom.from_state(learner.state())
    born = one._mixture.external._born
    expected.merge(other._mixture.external._learners[0], common_events=300 - born)  # type: ignore[arg-type]
    one.merge(other, common_events=300)
    np.testing.assert_array_equal(
        one._mixture.external._learners[0].coefficients, expected.coefficients
    )
    assert one.n_events == 1200
    one.learn_many(X[:50], y[:50])
    assert_sound(one)


@pytest.mark.parametrize("mine", [200, 600])
@pytest.mark.parametrize("kind", KINDS)
def test_guests_of_other_scales_stay_with_the_scale(kind: str, mine: int) -> None:
    X, y = stream(kind, 800, d=3)
    one, other = (
        make(kind, external_experts=external_experts(kind), columns=order)
        for order in ("abc", "bca")
    )
    one.learn_many(X[:mine], y[:mine])
    other.learn_many(100.0 * X[mine:][:, [1, 2, 0]], y[mine:])
    host, columns = (one, [0, 1, 2]) if mine > 400 else (other, [1, 2, 0])
    fresh, _ = stream(kind, 50, seed=5)
    fresh *= 1.0 if mine > 400 else 100.0
    before = host._mixture.external.outputs(fresh[:, columns], host._mixture.pool.outputs)
    classes = host.classes
    one.merge(other)
    after = one._mixture.external.outputs(fresh, one._mixture.pool.outputs)
    if kind == "four":
        after = after[..., [one.classes.index(label) for label in classes]]
    elif classes != one.classes:
        after = -after
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4)
    one.learn_many(*stream(kind, 50))
    assert_sound(one)


def test_learners_of_other_guests_are_not_merged() -> None:
    one = learned("two", 50, external_experts=[nystrom("two")])
    for others in ([], [nystrom("two", max_landmarks=8)], external_experts("two")):
        with pytest.raises(InvalidInput, match="external_experts"):
            one.merge(learned("two", 50, external_experts=others))


# --- who may join ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guest", "said"),
    [(pool_alone(), "is a MultiKernel"), (Scaled(nystrom("two")), "is a Scaled"),
     ("online-nystrom", "is a str"), (nystrom("numbers"), "learns numbers.*loss='softmax'"),
     (nystrom("two", columns=["a"]), "give a new"), (nystrom("two", classes=["a"]), "give a new")],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)  # fmt: skip
def test_who_cannot_join_is_told_why(guest: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=rf"external_experts\[1\] .*{said}"):
        pool_alone(external_experts=[nystrom("two"), guest])


def test_a_guest_whose_steps_are_too_long_begins_anew_and_the_others_go_on() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    wild = DoublyStochastic(Gaussian(), loss="squared", step=Constant(8.0), batch_size=1)
    alone, host = (
        pool_alone(task="regression", seed=1, external_experts=external_experts)
        for external_experts in ([], [wild])
    )
    missed = dict.fromkeys((alone, host), 0.0)
    for model in missed:
        for n in range(len(X)):
            found = model.predict_many(X[n : n + 1])[0]
            assert np.isfinite(found)
            missed[model] += abs(found - y[n])
            model.learn_many(X[n : n + 1], y[n : n + 1])
    assert missed[host] < 1.1 * missed[alone]


def test_a_guest_of_classes_among_numbers_is_told_of_losses() -> None:
    with pytest.raises(InvalidInput, match=r"learns classes.*loss='squared'"):
        pool_alone(task="regression", external_experts=[nystrom("two")])


@pytest.mark.parametrize("external_experts", [nystrom("two"), "online-nystrom", 3])
def test_guests_come_in_a_list(external_experts: Any) -> None:
    for model in (MultiKernel, KernelClassifier):
        with pytest.raises(InvalidInput, match="must be a list of learners"):
            model(external_experts=external_experts)
