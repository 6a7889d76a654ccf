"""A learner around another one that knows what entities did: what it sees of each event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from learners_kit import made, scaled
from reference.clocks import NaiveClock
from reference.entities import Entities
from state_kit import assert_same, reopened

from streamk.errors import InvalidInput, StateError
from streamk.learners import EntityMemory, MultiKernel, OnlineNystrom, from_state, remembering
from streamk.learners.remembering import FAR, NUMBERS
from streamk.memory.entities import LABEL_CLASSES

SPANS = [3600.0]
COLUMNS = ["amount", "when", "user", "kind=a"]


def stream(labels: str = "two", n: int = 300, users: int = 12) -> tuple[Any, list[Any]]:
    """Amounts of users, of which each has its usual one; labels are by what is unusual for it."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, users, n)
    usual = rng.normal(size=users) * 10.0
    unusual = rng.normal(size=n)
    X = np.column_stack([usual[user] + unusual, np.cumsum(rng.exponential(600.0, n)), user, user])
    X[:, 3] = rng.random(n) > 0.5
    X[rng.random(X.shape) < 0.02] = np.nan
    if labels == "numbers":
        return X, (unusual + 5.0).tolist()
    if labels == "many":
        return X, [str(c) for c in np.minimum(rng.integers(0, 2 + np.arange(n) // 20), 10)]
    return X, np.where(np.abs(unusual) > 0.7, "odd", "usual").tolist()


def model(labels: str = "two", kind: Any = MultiKernel, **options: Any) -> Any:
    task = "regression" if labels == "numbers" else "classification"
    given: dict[str, Any] = {"entities": ["user"], "time": "when", "spans": SPANS, **options}
    one = EntityMemory(scaled(kind, task), **given)
    one.add_columns(COLUMNS)
    return one


def seen(X: Any, y: list[Any], labels: str = "two") -> Any:
    """Events as the learner inside is to see them, by the plain law."""
    plain = Entities(1, SPANS, classes=2 if labels == "two" else 0)
    classes = list(dict.fromkeys(label for label in y if label is not None))
    code: Callable[[Any], float] = classes.index if labels == "two" else float
    made = [
        plain.follow(x[2], x[1], [x[0]], np.nan if label is None else code(label))
        for x, label in zip(X.tolist(), y, strict=True)
    ]
    return np.column_stack([X[:, [0, 3]], made])


# --- what it sees ---------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["two", "numbers"])
def test_the_learner_inside_sees_the_plain_law(labels: str) -> None:
    """Events without a label count, and their labels do not."""
    X, y = stream(labels)
    y = [None if n % 7 == 0 else label for n, label in enumerate(y)]
    one = model(labels)
    inside = MultiKernel.from_state(one.learner.state())
    found = one.predict_then_learn_many(X, y)
    expected = inside.predict_then_learn_many(seen(X, y, labels), y)
    np.testing.assert_array_equal(found.predictions, expected.predictions)
    assert_same(one.learner, inside)
    assert len(inside.columns or ()) == 2 + len(one.tables[0].columns)
    assert {"user", "when"}.isdisjoint(inside.columns or ())


def with_broken_clocks(X: Any) -> Any:
    """Events of which some come in 2099, alone or several in a row, and all from the 220th on."""
    X = X.copy()
    X[40, 1] = X[42, 1] = 4.1e9
    X[100:115, 1] += 4.1e9 + np.arange(15)[::-1] * 1e7
    X[150, 1] = 1e13  # no time before the year 10,000
    X[220:, 1] += 3.0 * FAR
    return X


def believed(times: Any) -> Any:
    """Times as they count, by the plain rule of clocks."""
    clock, found = NaiveClock(int(1000 * FAR)), times.copy()
    for n, time in enumerate(times.tolist()):
        if abs(time) < 1e11 and (at := clock.record(round(1000.0 * time))) is not None:
            found[n] = time if round(1000.0 * time) <= at else at / 1000.0
    return found


def test_a_time_far_ahead_is_not_believed_until_sixteen_are() -> None:
    """And any cut, restart and look sees the same."""
    X, y = stream("numbers")
    X = with_broken_clocks(X)
    times = believed(X[:, 1])
    other_times = ~((times == X[:, 1]) | np.isnan(X[:, 1]))
    assert np.flatnonzero(other_times).tolist() == [40, 42, *range(100, 115), *range(220, 235)]
    one, other = model("numbers"), model("numbers")
    inside = MultiKernel.from_state(one.learner.state())
    plain = X.copy()
    plain[:, 1] = times
    inside.predict_then_learn_many(seen(plain, y, "numbers"), y)
    one.learn_many(X, y)
    assert_same(one.learner, inside)
    for first in range(0, 300, 7):
        some = slice(first, first + 7)
        looked = other.looked(X[some][:1])[0] if first else None
        if looked is not None:
            np.testing.assert_array_equal(looked, seen(plain, y, "numbers")[first])
        other.learn_many(X[some], y[some])
        other = EntityMemory.from_state(other.state())
    assert_same(one, other)
    assert one.notes == ()
    jobs = EntityMemory(MultiKernel(task="regression"), entities=["u@entity"], time="ts@elapsed")
    jobs.add_columns(["u@entity", "ts@elapsed"])
    jobs.learn_many([[1.0, 1.7e9], [1.0, 4.1e9], [2.0, 1.7e9 + 60.0]], [1.0, 2.0, 3.0])
    (note,) = jobs.notes
    assert "the times 'ts' of 1 events were far ahead of earlier ones" in note
    assert jobs.tables[0].row(1.0)["time"] == 1.7e9


def test_what_is_only_predicted_is_no_part_of_the_past() -> None:
    X, y = stream()
    one, other = model(), model()
    for model_ in (one, other):
        model_.predict_then_learn_many(X[:200], y[:200])
    said = one.predict_many(X[200:])
    assert one.predict_many(X[200:][::-1]).tolist() == said[::-1].tolist()
    assert [one.predict_one(x) for x in X[200:]] == said.tolist()
    with one.aside():
        one.predict_then_learn_many(X[200:], [None] * 100)
        one.predict_held_many(X[200:210], range(10))
    for table, its in zip(one.tables, other.tables, strict=True):
        assert_same(table, its)


def test_the_future_changes_no_prediction() -> None:
    X, y = stream()
    before = model().predict_then_learn_many(X, y)
    for row in (5, 120, 250):
        order = np.arange(300)
        order[row + 1 :] = row + 1 + np.random.default_rng(row).permutation(299 - row)
        labels = [y[n] if n < row else "odd" for n in order]
        found = model().predict_then_learn_many(X[order], labels)
        np.testing.assert_array_equal(found.predictions[: row + 1], before.predictions[: row + 1])
        P = before.probabilities
        assert P is not None
        assert found.probabilities is not None
        np.testing.assert_array_equal(found.probabilities[: row + 1], P[: row + 1])


def test_classes_that_come_late_have_shares_from_then_on() -> None:
    X, y = stream("many")
    one, other = model("many"), model("many")
    one.predict_then_learn_many(X, y)
    for first in range(0, 300, 37):
        other.learn_many(X[first : first + 37], y[first : first + 37])
    assert_same(one, other)
    names = [name for name in one.learner.columns if "label=" in name and name.endswith(".mean")]
    assert names == [f"user.label={label}.mean" for label in one.classes[2:LABEL_CLASSES]]
    assert len(one.classes) > LABEL_CLASSES
    row = one.tables[0].row(3.0)
    assert row is not None
    known = [label for x, label in zip(X, y, strict=True) if x[2] == 3.0]
    third = one.classes[2]
    assert row[f"label={third}.mean"] == pytest.approx(known.count(third) / len(known))
    assert row["label.mean"] == pytest.approx(known.count(one.classes[1]) / len(known))


def test_it_pays_where_users_differ() -> None:
    X, y = stream(n=1500, users=60)
    one, alone = model(), made(MultiKernel)
    knows = one.predict_then_learn_many(X, y).predictions[500:]
    not_ = alone.predict_then_learn_many(X, y).predictions[500:]
    hits = [float(np.mean(said == np.array(y[500:]))) for said in (knows, not_)]
    assert hits[0] > hits[1] + 0.1


def test_intervals_and_shares_are_those_of_the_learner_inside() -> None:
    X, y = stream("numbers")
    one = model("numbers")
    one.predict_then_learn_many(X, y)
    Z = one.tables[0].look(X[:, 2], X[:, 1], X[:, :1])
    Z = np.column_stack([X[:, [0, 3]], Z])
    inside = one.learner
    np.testing.assert_array_equal(one.predict_interval_many(X), inside.predict_interval_many(Z))
    np.testing.assert_array_equal(
        one.predict_quantile_many(X, [0.3]), inside.predict_quantile_many(Z, [0.3])
    )
    assert one.shares(X[0]) == inside.shares(Z[0])
    assert one.mixes_experts
    assert one.innermost is inside


def test_which_numbers_have_statistics() -> None:
    assert model().tables[0].numbers == ("amount",)
    assert model(numbers=["kind=a"]).tables[0].numbers == ("kind=a",)
    one = EntityMemory(made(MultiKernel), entities=[0, "card"])
    one.add_columns([*range(30), "label", "x"])
    assert one.tables[0].numbers == tuple(map(str, range(1, NUMBERS + 1)))
    assert one.tables[1].name == "card"
    assert one.spans == ()
    one.learn_many(np.ones((1, 32)), ["a"])
    one.add_columns(["card"])  # whose events so far had none
    one.learn_many(np.ones((2, 33)), ["a", "b"])
    assert [len(table) for table in one.tables] == [1, 1]
    assert one.tables[1].row(1.0)["count"] == 2.0  # type: ignore[index]
    assert_same(one, from_state(one.state()))


# --- held events ----------------------------------------------------------------------------------


def step(one: Any, X: Any, y: list[Any], n: int, delay: int = 30) -> None:
    """Have an event held, and one learned for which so many later ones were predicted."""
    if n < len(X):
        one.predict_held_many(X[n : n + 1], [n])
    if n >= delay:
        late = n - delay
        one.learn_held_many(X[late : late + 1], y[late : late + 1], [late])


@pytest.mark.parametrize("kind", [MultiKernel, OnlineNystrom])
@pytest.mark.parametrize("labels", ["two", "many", "numbers"])
def test_held_events_are_learned_as_they_were_seen(labels: str, kind: Any) -> None:
    """Through restarts, too: what is held is in arrays beside the state."""
    X, y = stream(labels, 200)
    one, other = model(labels, kind), model(labels, kind)
    for n in range(230):
        step(one, X, y, n)
        step(other, X, y, n)
        if n % 41 == 0:
            held = {name: array.copy() for name, array in other.held_predictions().items()}
            other = reopened(other)
            other.restore_held_predictions(held)
    assert_same(one, other)
    assert one.n_events == 200
    assert len(one.held_predictions()["entities_of"]) == 0
    assert one.tables[0].row(3.0)["count"] == np.sum(X[:, 2] == 3.0)
    assert one.tables[0].row(3.0)["label.weight"] == np.sum(X[:, 2] == 3.0)


def test_what_is_learned_late_is_what_was_seen() -> None:
    """And not what is known of the entity by then."""
    X, y = stream("numbers", 200)
    one = model("numbers")
    inside = MultiKernel.from_state(one.learner.state())
    one.predict_held_many(X, list(range(200)))
    one.learn_held_many(X[::-1], y[::-1], list(range(200))[::-1])
    Z = seen(X, [None] * 200, "numbers")
    inside.predict_held_many(Z, list(range(200)))
    inside.learn_held_many(Z[::-1], y[::-1], list(range(200))[::-1])
    assert_same(one.learner, inside)
    row = one.tables[0].row(3.0)
    assert row["label_time"] == np.nanmax(X[:, 1])
    late = model("numbers")
    late.learn_held_many(X, y, list(range(200)))  # of which nothing is held
    assert late.n_events == 200
    assert len(late.tables[0]) == 0


def test_what_is_learned_again_is_no_second_past() -> None:
    X, y = stream("numbers", 60)
    one = model("numbers")
    one.predict_held_many(X, range(60))
    one.learn_held_many(X, y, range(60))
    before = [table.state() for table in one.tables]
    one.learn_held_many(X[:5], [9.0] * 5, [-1] * 5)
    for table, state in zip(one.tables, before, strict=True):
        for name, array in table.state().arrays.items():
            np.testing.assert_array_equal(array, state.arrays[name], err_msg=name)
    assert one.n_events == 65


def test_what_held_events_were_seen_with_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = stream("numbers", 200)
    one = model("numbers")
    monkeypatch.setattr(remembering, "MOST_SEEN", 50 * 8 * len(one._seen_at))
    one.predict_held_many(X, range(200))
    assert one.held_predictions()["entities_of"].tolist() == [*range(150, 200)]
    one.learn_held_many(X, y, range(200))
    assert one.n_events == 200
    assert not len(one.held_predictions()["entities_of"])


def test_one_time_that_is_wrong_does_not_stay() -> None:
    X, _ = stream("numbers", 60)
    X[:, 1] = np.arange(60) * 60.0
    X[10, 1] = 1e12
    one = model("numbers")
    one.predict_held_many(X, range(60))
    (table,) = one.tables
    assert table.now == X[-1, 1]


def test_held_predictions_that_do_not_fit_are_refused() -> None:
    X, _ = stream("two", 50)
    one = model()
    one.predict_held_many(X, list(range(50)))
    held = one.held_predictions()
    for name in held:
        with pytest.raises(StateError):
            model().restore_held_predictions({n: a for n, a in held.items() if n != name})
    for damage in (
        {"entities_seen": np.zeros((50, 99))},
        {"entities_seen": np.full_like(held["entities_seen"], np.inf)},
        {"entities_of": -1 - held["entities_of"]},
        {"numbers": held["numbers"][1:]},
    ):
        with pytest.raises(StateError):
            model().restore_held_predictions({**held, **damage})


# --- states, merging, and what is refused ---------------------------------------------------------


def test_what_one_learned_of_a_user_the_other_knows_after_merging() -> None:
    X, y = stream("many", 400)
    base = model("many")
    base.learn_many(X[:100], y[:100])
    one, other = reopened(base), reopened(base)
    only = np.array([9.0, X[-1, 1], 77.0, 0.0])
    one.learn_many(X[100:200], y[100:200])
    other.add_columns(["late"])
    other.learn_many(np.column_stack([X[200:], X[200:, 0]]), y[200:])
    other.learn_one(np.append(only, 1.0), y[0])
    one.merge(other, common_events=100)
    assert one.columns == other.columns
    assert one.tables[0].row(77.0)["amount.last"] == 9.0
    assert one.tables[0].row(77.0)["late.last"] == 1.0
    again = reopened(one)
    for each in (one, again):
        each.predict_then_learn_many(np.column_stack([X[:50], X[:50, 0]]), y[:50])
    assert_same(one, again)
    fresh = model("many")
    fresh.merge_replica(other, 0, lambda: model("many"))
    assert len(fresh.tables[0]) == len(other.tables[0])
    with pytest.raises(InvalidInput, match="spans"):
        one.merge(model("many", spans=[60.0]))
    turned = EntityMemory(
        MultiKernel(classes=["1", "0"], external_experts=(), seed=1),
        entities=["user"],
        time="when",
        spans=SPANS,
    )
    turned.merge(other)  # whose labels are of classes in another order
    row = turned.tables[0].row(77.0)
    assert row is not None
    assert (row["count"], row["label.weight"]) == (1.0, 0.0)
    turned.learn_many(np.column_stack([X[:50], X[:50, 0]]), y[:50])
    assert_same(turned, reopened(turned))


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("entities", ["card"]),
        ("entities", []),
        ("entities", ["user", "user"]),
        ("columns", ["amount", "when", "user", "other"]),
        ("columns", None),
        ("columns", 3),
        ("numbers", 3),
        ("time", ["when"]),
    ],
)
def test_damaged_states_are_refused(change: str, value: Any) -> None:
    X, y = stream()
    one = model()
    one.learn_many(X, y)
    state = one.state()
    with pytest.raises(StateError):
        EntityMemory.from_state(replace(state, header={**state.header, change: value}))


def test_options_that_are_refused() -> None:
    inside = made(MultiKernel, columns=["a"])
    for options, match in (
        ({"learner": inside, "entities": ["u"]}, "no columns yet"),
        ({"learner": made(OnlineNystrom), "entities": ["u"]}, "Scaled"),
        ({"entities": []}, "names no column"),
        ({"entities": ["u", "u"]}, "twice"),
        ({"entities": ["u"], "time": "u"}, "twice"),
        ({"entities": ["u"], "spans": [60.0]}, "time="),
        ({"entities": ["u"], "max_entities": 0}, "max_entities"),
    ):
        with pytest.raises(InvalidInput, match=match):
            EntityMemory(**{"learner": made(MultiKernel), **options})
    one = model()
    before = one.state()
    for names in (["amount"], ["x", "x"]):
        with pytest.raises(InvalidInput):
            one.add_columns(names)
    assert one.columns == tuple(COLUMNS)
    X, y = stream()
    for bad in (X[:, :2], X[0], np.full((2, 4), np.inf)):
        with pytest.raises(InvalidInput):
            one.learn_many(bad, y[: len(bad)])
    with pytest.raises(InvalidInput):
        one.predict_then_learn_many(X[:3], ["a", None, 0.5])
    with pytest.raises(InvalidInput, match="only a MultiKernel"):
        model("numbers", OnlineNystrom).predict_interval_many(X)
    with pytest.raises(InvalidInput):
        one.learn_many(X[:2], ["a", None])
    assert_same(one, EntityMemory.from_state(before))


def test_fields_may_have_the_names_of_statistics() -> None:
    X, y = stream("numbers", 120)
    one = model("numbers")
    more = ["user.count", "user.amount.mean", "amount.mean", "event:user.count"]
    one.learn_many(X[:60], y[:60])
    one.add_columns(more)
    wide = np.column_stack([X, np.ones((len(X), len(more)))])
    one.predict_then_learn_many(wide[60:], y[60:])
    assert_same(reopened(one), one)
    inside = one.learner.columns
    assert {"user.count", "event:user.count", "event:event:user.count"} <= {*inside}
