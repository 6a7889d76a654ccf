"""What every learner refuses, naming it, so that nothing of it stays; and what it says at first."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from learners_kit import GAUSSIAN, OF_ANY_LOSS, OF_ONE_KERNEL, SIZES, made, scaled, stream
from state_kit import assert_same, reopened, through_json

from streamk.encoding.labels import LARGEST_LABEL
from streamk.errors import InvalidInput, NotLearned, StateError
from streamk.kernels import Gaussian, Laplacian
from streamk.landmarks import IncrementalOasis
from streamk.learners import (
    AdaGrad,
    Constant,
    DoublyStochastic,
    EigenPro,
    FeatureMachine,
    Ladder,
    MultiKernel,
    OnlineNystrom,
    Scaled,
    StreamingMeka,
    create,
)
from streamk.learners.common.classes import LARGEST_NUMBER
from streamk.learners.common.options import GIVEN
from streamk.options import Choice, Flag, Made, Option, Real, Whole, shared
from streamk.packing import fingerprint
from streamk.state import State

TASKS = ("classification", "regression")
KINDS = tuple(SIZES)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TYPE)
each_task = pytest.mark.parametrize("task", TASKS)


def learned(kind: Any, task: str, n: int = 120, seed: int = 0, **options: Any) -> Any:
    """A learner of the columns a, b and c."""
    model = made(kind, task, **{"columns": ["a", "b", "c"], **options})
    events = stream("two" if task == "classification" else "numbers", n, seed)
    model.learn_many(events.X, events.y)
    return model


# --- events and labels ----------------------------------------------------------------------------


def message(function: Callable[..., Any], *given: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        function(*given)
    return str(caught.value)


@each_task
@pytest.mark.parametrize("make", [made, scaled])
@each_kind
def test_a_bad_event_is_named_and_nothing_is_learned(kind: Any, make: Any, task: str) -> None:
    events = stream("two" if task == "classification" else "numbers", 120, seed=3)
    model = make(kind, task, columns=["a", "b", "c"])
    model.learn_many(events.X, events.y)
    before, (some, y) = model.state(), (events.X[:20], events.y[:20])
    values = [math.inf, -math.inf]
    values += [1e200] if model.takes_missing or kind is DoublyStochastic else []
    values += [] if model.takes_missing else [math.nan]
    for value in values:
        X = some.copy()
        X[13, 1] = value
        for learn in (model.learn_many, model.predict_then_learn_many):
            for labels in (y, ["new"] * 20 if task == "classification" else y):
                with pytest.raises(InvalidInput, match=r"row 13.*column 'b'"):
                    learn(X, labels)
        for ask in (model.decision_many, model.predict_many):
            with pytest.raises(InvalidInput, match=r"row 13.*column 'b'"):
                ask(X)
        said = message(model.learn_one, X[13], y[0])
        assert "row 0" in said
        assert said == message(model.learn_many, X[13:14], y[:1])
        assert message(model.decision_one, X[13]) == message(model.decision_many, X[13:14])
    for bad in (some[0], some[:, :2], some[None], [["a", "b", "c"]], 3.0):
        for call in (model.decision_many, lambda X: model.learn_many(X, y)):
            with pytest.raises(InvalidInput):
                call(bad)
    assert "2 columns and the model has 3" in message(model.learn_one, some[0, :2], y[0])
    assert "shape" in message(model.decision_one, some)
    assert "20 events came with 19 labels" in message(model.learn_many, some, y[:19])
    model.learn_many(some[:0], [])
    assert_same(model, type(model).from_state(before))


NO_CLASSES = [math.nan, 0.25, ["a"], 1 << 64, -(1 << 63) - 1, -(10**400), 10**5000, 1e30, -1e300]
NO_NUMBERS = [
    *("high", math.nan, math.inf, -math.inf, np.nextafter(LARGEST_NUMBER, math.inf), -1e20, 1e38),
    *(1e154, -1e300, 10**30, 10**400, 10**5000, [1.0]),
]


@each_task
@each_kind
def test_a_bad_label_is_named_and_nothing_is_learned(kind: Any, task: str) -> None:
    model = scaled(kind, task)
    events = stream("two" if task == "classification" else "numbers", 60)
    model.learn_many(events.X, events.y)
    before, X, y = fingerprint(model.state()), events.X[:3], events.y[:3]
    for label in NO_CLASSES if task == "classification" else NO_NUMBERS:
        said = message(model.learn_many, X, [*y[:2], label])
        assert isinstance(label, list) or "row 2" in said or "range" in said, said
        assert message(model.learn_one, X[0], label) == message(model.learn_many, X[:1], [label])
        message(model.predict_then_learn_many, X, [None, y[1], label])
    message(model.learn_many, X, [*y[:2], None])
    message(model.learn_many, X, np.zeros((3, 2)))
    assert fingerprint(model.state()) == before
    fresh = made(kind, task)
    message(fresh.learn_many, X, [*y[:2], [1.0]])
    assert (fresh.n_events, fresh.columns) == (0, None), "a refused first batch fixes no columns"
    if task == "regression":
        assert message(model.learn_many, X, [1.0, "high", 10**400]).endswith(
            "'high' of row 1 is not a number; to learn classes choose classification"
        )
    else:
        assert "64 bits" in message(model.learn_one, X[0], 10**30)
        assert "'0.25'" not in message(model.learn_one, X[0], 0.25)


@each_kind
def test_the_range_of_labels_is_that_of_streams(kind: Any) -> None:
    """Numbers reach to 1.8e19, whole numbers as classes to 64 bits (docs/streams.md)."""
    assert LARGEST_NUMBER == LARGEST_LABEL
    assert 1.8e19 < LARGEST_LABEL < 1.9e19
    events = stream("numbers", 100)
    model = scaled(kind)
    labels = [(1 << 64) - 1, -(1 << 63), 2**53 + 1, np.uint64((1 << 64) - 1)]
    model.learn_many(events.X[:4], labels)
    assert model.classes == reopened(model).classes == tuple(labels[:3])
    for sign in (1, -1):
        model = scaled(kind, "regression")
        model.learn_many(events.X[:50], events.y[:50])
        model.learn_one(events.X[50], sign * LARGEST_NUMBER)
        some = [sign * LARGEST_NUMBER, -sign * LARGEST_NUMBER, *events.y[53:70]]
        model.learn_many(events.X[51:70], some)
        assert np.isfinite(model.predict_many(events.X)).all()
        assert not any(np.isinf(array).any() for array in model.state().arrays.values())


@each_kind
def test_labels_keep_their_type(kind: Any) -> None:
    """In states, too; whatever else a label is equal to."""
    X = stream("two", 60).X
    for labels in ([False, True], [3, -7], ["3", "x"], [0, 1, 2], ["x", 5, "y"]):
        y = [labels[n] for n in np.digitize(X[:, 0], np.linspace(-1, 1, len(labels) + 1)[1:-1])]
        given, found = made(kind, classes=labels), made(kind)
        for model in (given, found):
            model.learn_many(X, y)
            again = reopened(model)
            said = again.predict_many(X).tolist()
            assert {type(label) for label in said} <= {type(label) for label in labels}
            assert again.classes == model.classes
            assert list(again.predict_proba_one(X[0])) == list(model.classes)
        assert given.classes == tuple(labels)
        assert [type(label) for label in given.classes] == [type(label) for label in labels]
        assert set(found.classes) == set(labels)
    one, many = made(kind, classes=[0, 1]), made(kind, classes=[0, 1])
    for x, label in zip(X, [0, True, 1.0, np.int64(1), False, np.float64(0.0), 7], strict=False):
        one.learn_one(x, label)
        many.learn_many([x], [label])
    assert one.classes == many.classes == (0, 1, 7)
    assert_same(one, many)
    one, many = made(kind, "regression"), made(kind, "regression")
    for x, label in zip(X, (1, True, 0.5, np.float32(2.0), np.int64(3)), strict=False):
        one.learn_one(x, label)
        many.learn_many([x], [float(label)])
    assert_same(one, many)


@each_kind
def test_classes_have_a_bound(kind: Any) -> None:
    model = made(kind, max_classes=3)
    model.learn_many([[0.0], [1.0], [2.0]], ["a", "b", "c"])
    said = message(model.learn_many, [[0.0], [3.0]], ["a", "d"])
    assert "row 1, 'd', " in said
    assert "max_classes=3; drop the event, raise" in said
    assert "max_classes=3" in message(model.learn_one, np.array([3.0]), "d")
    assert (model.n_events, model.classes) == (3, ("a", "b", "c"))
    found = model.predict_then_learn_many([[0.0], [1.0]], [None, "b"])
    assert found.predictions[1] is not None
    assert reopened(model).max_classes == 3
    assert scaled(kind, max_classes=3).max_classes == 3
    model = made(kind, max_classes=2)  # an event without a label is no class
    model.predict_then_learn_many([[0.0], [1.0], [2.0]], [None, "a", "b"])
    assert model.classes == ("a", "b")
    model = made(kind, max_classes=2, classes=["a", "b", "c"])  # these are all there may be
    model.learn_many([[0.0]], ["c"])
    assert "max_classes=2" in message(model.learn_many, [[0.0]], ["d"])


# --- at first -------------------------------------------------------------------------------------


@each_kind
def test_before_anything_is_learned(kind: Any) -> None:
    for model in (made(kind), scaled(kind)):
        assert (model.n_events, model.classes, model.columns) == (0, (), None)
        for call in (model.predict_many, model.predict_proba_many):
            with pytest.raises(NotLearned):
                call([[1.0, 2.0]])
        with pytest.raises(NotLearned):
            model.predict_proba_one([1.0, 2.0])
        assert repr(model).endswith(" for classification: 0 events, 0 columns>" + ")" * (
            type(model) is Scaled
        ))  # fmt: skip
        model.learn_many(np.empty((0, 3)), [])
        assert model.n_events == 0
    number = scaled(kind, "regression")
    assert number.predict_one([1.0, 2.0]) == 0.0
    assert number.predict_many([[1.0, 2.0]]).tolist() == [0.0]
    assert number.predict_many([[1.0, 2.0]]).dtype == np.float64
    assert "no class probabilities" in message(number.predict_proba_many, [[1.0]])
    number.learn_many([[1.0, 2.0]] * 3, [1.0, 2.0, 3.0])
    assert "for regression: 3 events, 2 columns>" in repr(number)
    for classes in (["x", "y"], ["x", "y", "z"]):
        named = reopened(made(kind, columns=["a", "b"], classes=classes))
        even = pytest.approx(dict.fromkeys(classes, 1 / len(classes)))
        assert named.predict_proba_one([1.0, 2.0]) == even
        assert made(kind, classes=classes).predict_proba_one(np.zeros(4)) == even
        assert (named.columns, named.classes) == (("a", "b"), tuple(classes))


@each_kind
def test_one_class_is_certain(kind: Any) -> None:
    X = stream("two", 60).X
    for name in ("softmax", "logistic", "hinge", "squared_hinge", "squared"):
        model = made(kind, **({"loss": name} if kind in OF_ANY_LOSS else {}))
        model.learn_many(X, ["only"] * 60)
        assert model.predict_proba_many(X).tolist() == [[1.0]] * 60
        assert set(model.predict_many(X)) == {"only"}
        assert model.predict_proba_one(X[0]) == {"only": 1.0}


@each_task
@each_kind
def test_columns_that_come_late_were_zero(kind: Any, task: str) -> None:
    """What is learned then is what one learns whose columns were there, and zero."""
    events = stream("two" if task == "classification" else "numbers", 160)
    X, y = events.X, events.y
    zero, late = np.pad(X, ((0, 0), (0, 1))), np.column_stack([X, X[:, 0] ** 2])
    model, wide = (made(kind, task, columns=names) for names in ("abc", ["a", "b", "c", "late"]))
    model.learn_many(X[:120], y[:120])
    before = model.decision_many(X)
    model.add_columns(["late"])
    if kind is not MultiKernel:  # whose tables begin anew with the columns that they get
        np.testing.assert_allclose(model.decision_many(zero), before, rtol=1e-6, atol=1e-6)
    if kind not in (MultiKernel, FeatureMachine):  # whose scales are of the columns so far
        wide.learn_many(zero[:120], y[:120])
        for one in (model, wide):
            one.learn_many(late[120:], y[120:])
        np.testing.assert_allclose(model.decision_many(late), wide.decision_many(late), atol=1e-6)
    assert model.columns == ("a", "b", "c", "late")
    for twice in (["a"], ["d", "d"], ["d", "b"]):
        assert re.search("twice|there already", message(model.add_columns, twice))
    assert model.columns == ("a", "b", "c", "late")
    assert "3 columns and the model has 4" in message(model.predict_many, X)
    unnamed = made(kind, task)
    unnamed.learn_many(X[:2], [1, 2])
    assert unnamed.columns == (0, 1, 2)
    assert reopened(unnamed).columns == (0, 1, 2)


# --- states ---------------------------------------------------------------------------------------


MAY_LACK = ("error", "next")
"""What a function without an error, or without a new one, does not have."""


OTHERS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    **{f"{kind.TYPE}, {task}": (kind, task, {}) for kind in KINDS for task in TASKS},
    "sums of squares": (DoublyStochastic, "classification", {"step": AdaGrad(0.2)}),
    "several steps": (DoublyStochastic, "regression", {"step": Ladder()}),
    "averages": (
        DoublyStochastic,
        "classification",
        {"preconditioner": "block", "averaging": True, "step": None, "batch_size": 50},
    ),
    **{
        f"{kind.TYPE} by newton": (kind, "regression", {"optimizer": "newton"})
        for kind in (OnlineNystrom, StreamingMeka)
    },
    "steps of centers": (EigenPro, "classification", {"solver": "eigenpro"}),
    "quantile": (MultiKernel, "regression", {"loss": "quantile"}),
    "balanced": (MultiKernel, "classification", {"class_weight": "balanced"}),
    "experts": (
        MultiKernel,
        "classification",
        {"external_experts": [made(OnlineNystrom), made(DoublyStochastic, batch_size=7)]},
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("kind", "task", "options"), OTHERS.values(), ids=list(OTHERS))
def test_a_state_without_a_part_or_of_other_shapes_is_refused(
    kind: Any, task: str, options: dict[str, Any]
) -> None:
    """Of the shape of nothing else, and of numbers that are not finite, naming the array."""
    state = through_json(learned(kind, task, **options).state())

    def opened(header: Any, arrays: Any) -> None:
        kind.from_state(State(header, arrays))

    opened(state.header, state.arrays)
    for entry in ({"type": "another"}, {"format": 2}):
        with pytest.raises(StateError):
            opened({**state.header, **entry}, state.arrays)
    for name in state.header.keys() - {"type", "format", *MAY_LACK}:
        with pytest.raises(StateError):
            opened({k: v for k, v in state.header.items() if k != name}, state.arrays)
        for value in ([], "x", -3) if name not in ("classes", "columns") else ("x", -3, 3):
            if name not in ("scale", "averages_scale", "widths", "choosing"):
                with pytest.raises(StateError):
                    opened({**state.header, name: value}, state.arrays)
    for name, array in state.arrays.items():
        own = name.rpartition(".")[2].partition("_")[2] or name.rpartition(".")[2]
        with pytest.raises(StateError, match=f"{own}|center|inverse|coefficients"):
            opened(state.header, {k: v for k, v in state.arrays.items() if k != name})
        others = [np.zeros(19, array.dtype), np.zeros((2, 5, 1), array.dtype)]
        if array.dtype.kind == "f" and array.size and not name.endswith((".sample", ".events")):
            others.append(np.full_like(array, np.nan))
            others += [] if name.endswith("squares") else [np.full_like(array, np.inf)]
        for other in others[name.rpartition(".")[2] in ("recent", "leaned", "shares") :]:
            with pytest.raises(StateError, match=r"array '"):
                opened(state.header, {**state.arrays, name: other})


# --- options --------------------------------------------------------------------------------------


def outside(option: Option) -> Iterator[Any]:
    """Values that are not in the domain of an option."""
    if isinstance(option, Whole):
        yield from (option.least - 1, option.least + 0.5, True, "1")
        yield from [] if option.most is None else [option.most + 1]
    elif isinstance(option, Real):
        yield from (math.nan, -math.inf, "much", True, option.least - 1.0)
        yield from [option.least] if option.open_below else []
        yield from [] if option.most == math.inf else [option.most + 0.1]
        yield from [option.most] if option.open_above else []
    elif isinstance(option, Choice):
        yield from ("none of them", 3)
    elif isinstance(option, Flag):
        yield from (1, "yes")
    elif isinstance(option, Made):
        yield from (3, 0.5)
    if not option.optional and isinstance(option, Whole | Real | Flag):
        yield None


@each_kind
def test_an_option_out_of_its_domain_is_named(kind: Any) -> None:
    for name, option in {**kind.OPTIONS, "task": GIVEN["task"]}.items():
        by_default = inspect.signature(kind).parameters[name].default
        for value in outside(option):
            if value is None is by_default:
                continue
            said = message(lambda given: made(kind, **given), {name: value})
            assert f"{name}=" in said, (name, value, said)
    for options, said in (
        ({"task": "regression", "classes": ["a"]}, "classes= is for classification"),
        ({"columns": ["a", "a"]}, "twice: a"),
        ({"columns": [1.5]}, "1.5"),
        ({"classes": [1.5]}, "1.5"),
    ):
        assert said in message(lambda given: made(kind, **given), options)
    if kind is not MultiKernel:
        assert "must be a streamk Kernel" in message(kind, "gaussian")


@pytest.mark.parametrize("name", OF_ONE_KERNEL)
def test_a_model_takes_a_bandwidth_beside_the_name_of_a_kernel_only(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"leave out bandwidth: kernel=Gaussian\(bandwidth=2\.0"):
        create(name, task="regression", kernel=Gaussian(bandwidth=2.0), bandwidth=1.0)
    with pytest.raises(InvalidInput, match="'linear' takes no bandwidth"):
        create(name, task="regression", kernel="linear", bandwidth=1.0)
    with pytest.raises(InvalidInput, match=r"has no option 'width'; there are .*bandwidth"):
        create(name, task="classification", width=1.0)


# --- merging --------------------------------------------------------------------------------------


def another(name: str, option: Option, model: Any) -> Any:
    """Another value of an option than a model has, None if there is none by itself."""
    value = getattr(model, name)
    if isinstance(option, Whole):
        return (value or option.least) + 64
    if isinstance(option, Real):
        return 0.5 if value != 0.5 else 0.25
    if isinstance(option, Choice):
        return next((one for one in option.choices if one != value), None)
    if isinstance(option, Flag):
        return not value
    return {
        "kernel": Laplacian(bandwidth=3.0),
        "loss": "huber",
        "step": Constant(0.125),
        "class_weight": "balanced",
        "clock": "when",
    }.get(name)


@each_task
@each_kind
def test_learners_that_differ_do_not_merge(kind: Any, task: str) -> None:
    model, seen = learned(kind, task, 64), set()
    before = model.state()
    for name in shared(kind.OPTIONS):
        try:
            other = made(kind, task, **{name: another(name, kind.OPTIONS[name], model)})
        except InvalidInput:  # what is for another optimizer or solver, or for classes
            continue
        assert name in message(model.merge, other)
        seen.add(name)
    assert len(seen) >= 1
    assert "seed" in seen or "seed" not in kind.OPTIONS
    assert message(model.merge, made(kind, TASKS[task == TASKS[0]]))
    for common in (-1, 65):
        assert "common_events=" in message(
            lambda n: model.merge(made(kind, task), common_events=n), common
        )
    for other in (3, None, IncrementalOasis(GAUSSIAN, max_landmarks=5)):
        said = message(model.merge, other)
        assert said.startswith(f"cannot merge a '{kind.TYPE}' learner and a '")
    if kind is not MultiKernel:
        around = scaled(kind, task)
        other = scaled(
            OF_ONE_KERNEL["online-nystrom"] if kind is DoublyStochastic else DoublyStochastic, task
        )
        assert f"a '{kind.TYPE}' learner and a '" in message(around.merge, other)
    assert_same(model, kind.from_state(before))


@each_kind
def test_columns_and_classes_are_merged_by_their_names(kind: Any) -> None:
    other = learned(kind, "classification", classes=["same", "other"])
    names = ("b", "c", "a") if kind is MultiKernel else ("b", "late", "c", "a")
    one, X = made(kind, columns=names, classes=["other", "same"]), stream("two", 120).X
    one.merge(other)
    assert (one.columns, one.classes) == (names, ("other", "same"))
    moved = np.column_stack([np.zeros(120) if n == "late" else X[:, "abc".index(n)] for n in names])
    P, expected = one.predict_proba_many(moved), other.predict_proba_many(X)
    if kind in (StreamingMeka, FeatureMachine):  # which learn the events that the other has kept
        assert np.mean(P.argmax(axis=1) != expected.argmax(axis=1)) > 0.6
    else:
        np.testing.assert_allclose(P[:, ::-1], expected, atol=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "logistic", "hinge"])
@pytest.mark.parametrize("kind", [DoublyStochastic, OnlineNystrom], ids=lambda kind: kind.TYPE)
def test_a_function_of_two_classes_merges_into_one_of_three(kind: Any, loss: str) -> None:
    two, three = (made(kind, loss=loss, classes=names) for names in (["b", "a"], ["a", "c", "b"]))
    X = stream("two", 120).X
    two.learn_many(X, np.where(X[:, 0] > 0.0, "a", "b"))
    three.merge(two)
    assert three.classes == ("a", "c", "b")
    F, f = three.decision_many(X), two.decision_many(X)
    apart = f[:, 1] - f[:, 0] if loss == "softmax" else f[:, 0] * (1.0 if loss == "hinge" else 2.0)
    np.testing.assert_allclose(F[:, 0] - F[:, 2], apart, rtol=1e-4, atol=1e-4)


@each_task
@each_kind
def test_merging_leaves_the_other_alone_and_goes_on_from_its_state(kind: Any, task: str) -> None:
    X, y = (events := stream("two" if task == "classification" else "numbers")).X, events.y
    base = learned(kind, task, 100)
    mine, other = reopened(base), reopened(base)
    mine.learn_many(X[100:150], y[100:150])
    other.learn_many(X[150:], y[150:])
    before, there = mine.state(), other.state()
    mine.merge(reopened(base), common_events=100)  # of which there is nothing new
    if kind is not MultiKernel:  # which takes the mean of weights anew
        assert_same(mine, kind.from_state(before))
    mine.merge(other, common_events=100)
    assert_same(other, kind.from_state(there))
    assert mine.n_events == len(X)
    again = reopened(mine)
    for model in (mine, again):
        model.learn_many(X[:50], y[:50])
        assert np.isfinite(model.decision_many(X)).all()
    assert_same(mine, again)
    fresh, expected = made(kind, task), reopened(other)
    fresh.merge(other)
    if kind is DoublyStochastic:
        expected.finish()  # as merging does with a copy
    assert (fresh.classes, fresh.columns) == (other.classes, other.columns)
    np.testing.assert_allclose(
        fresh.decision_many(X), expected.decision_many(X), rtol=1e-5, atol=1e-5
    )
    assert fresh.n_events == other.n_events
    other.merge(made(kind, task))
    expected = kind.from_state(there)
    np.testing.assert_allclose(
        other.decision_many(X), expected.decision_many(X), rtol=1e-5, atol=1e-5
    )
