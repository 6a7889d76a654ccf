"""Tables of entities: their law, of which the future is no part, bounds, states and merging."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference.entities import Entities, of_the_past
from state_kit import assert_same, reopened

from streamk.backends import COUNT, HEAD, KEY, LABEL_TIME, TIME
from streamk.errors import InvalidInput, StateError
from streamk.memory import EntityTable, entity_number
from streamk.memory.entities import LABEL_CLASSES, span_name

SPANS = [60.0, 3600.0]
Events = tuple[Any, Any, Any, Any]


def events(n: int = 600, entities: int = 25, seed: int = 0, *, plain: bool = False) -> Events:
    """Keys, times, two numbers and labels; but of plain ones some are missing, or come too late."""
    rng = np.random.default_rng(seed)
    keys = rng.zipf(1.6, n) % entities * 1.0
    times = np.cumsum(rng.exponential(40.0, n))
    X = rng.normal(size=(n, 2)) * (1.0, 30.0) + keys[:, None] * (0.5, -7.0) + (0.0, 1000.0)
    y = keys % 3 + rng.normal(size=n)
    if not plain:
        keys[rng.random(n) < 0.03] = np.nan
        X[rng.random(X.shape) < 0.1] = np.nan
        y[rng.random(n) < 0.4] = np.nan
        times[rng.random(n) < 0.05] = np.nan
        times -= np.where(rng.random(n) < 0.1, 300.0, 0.0)
    return keys, times, X, y


def table(*, numbers: tuple[str, ...] = ("a", "b"), **options: Any) -> EntityTable:
    return EntityTable("user", numbers, **{"spans": SPANS, **options})


def column(found: Any, of: EntityTable, name: str) -> Any:
    return found[:, of.columns.index(f"user.{name}")]


# --- the law --------------------------------------------------------------------------------------


@pytest.mark.parametrize("spans", [SPANS, []])
def test_it_is_the_plain_recursion_to_the_last_bit(spans: list[float]) -> None:
    keys, times, X, y = events()
    one, other = table(spans=spans), Entities(2, spans)
    found = one.follow(keys, times, X, y)
    expected = [other.follow(*event) for event in zip(keys, times, X.tolist(), y, strict=True)]
    np.testing.assert_array_equal(found, expected)
    late = keys[::-1][:50], times[::-1][:50] + 5000.0, y[::-1][:50]
    one.learn_labels(*late)
    for event in zip(*late, strict=True):
        other.learn_label(*event)
    asked = [*keys[:40], 99.0], [*times[:40] + 3e4, 7.0], [*X[:40].tolist(), [1.0, np.nan]]
    np.testing.assert_array_equal(
        one.look(*asked), [other.look(*event) for event in zip(*asked, strict=True)]
    )


def test_classes_have_shares_by_the_plain_recursion() -> None:
    """Of classes that come late, too: no earlier label was one of them."""
    keys, times, X, y = events()
    y = np.where(np.arange(len(y)) < 200, np.abs(y // 1) % 2, np.abs(y // 1) % 4)
    one, other = table(classes=True), Entities(2, SPANS, classes=4)
    expected = [other.follow(*event) for event in zip(keys, times, X.tolist(), y, strict=True)]
    found = one.follow(keys[:200], times[:200], X[:200], y[:200])
    np.testing.assert_array_equal(found, np.array(expected)[:200, : found.shape[1]])
    for name in ("c", "d"):
        one.add_class(name)
    found = one.follow(keys[200:], times[200:], X[200:], y[200:])
    assert one.columns[-4:] == tuple(
        f"user.label=d.{name}" for name in ("mean", "mean_1m", "mean_1h", "last")
    )
    np.testing.assert_array_equal(found, expected[200:])
    for n in range(LABEL_CLASSES):
        one.add_class(n)
    assert sum("label" in name and name.endswith(".mean") for name in one.columns) == 7


def test_it_is_the_law_of_all_the_past() -> None:
    """Recomputed from the events before, without a recursion."""
    keys, times, X, y = events(300, plain=True)
    X[:, 1] -= 1000.0
    times[50::7] -= 500.0  # which come too late
    one = table()
    found = one.follow(keys, times, X, y)
    values = {"a": X[:, 0], "b": X[:, 1], "label": y}
    for row in [0, 1, 2, 3, *range(4, 300, 11)]:
        for name, x in values.items():
            past = list(zip(keys[:row], times[:row], x[:row], strict=True))
            expected = of_the_past(past, SPANS, keys[row], times[row])
            for kind in ("mean", "spread"):
                mine = [column(found, one, f"{name}.{kind}{s}")[row] for s in ("", "_1m", "_1h")]
                np.testing.assert_allclose(
                    mine, expected[f"{kind}s"], rtol=1e-9, atol=1e-9, err_msg=f"{row} {name}"
                )


def test_it_is_what_polars_finds_in_the_past() -> None:
    """Windows over each entity, moved on by one event."""
    pl = pytest.importorskip("polars", reason="polars is not installed: pip install polars")
    keys, times, X, y = events(400, plain=True)
    one = table()
    found = one.follow(keys, times, X, y)
    past, value = pl.col("a").shift(1), pl.col("t")
    frame = pl.DataFrame({"key": keys, "t": times, "a": X[:, 0]}).with_columns(
        count=pl.int_range(pl.len()).over("key"),
        since=(value - value.shift(1)).over("key"),
        last=past.over("key"),
        sum=past.cum_sum().over("key"),
        squares=(past * past).cum_sum().over("key"),
    )
    for name in ("count", "since"):
        np.testing.assert_allclose(column(found, one, name), frame[name].to_numpy(), atol=1e-9)
    np.testing.assert_array_equal(column(found, one, "a.last"), frame["last"].to_numpy())
    seen = frame["count"].to_numpy() > 0
    n = frame["count"].to_numpy()[seen]
    mean = frame["sum"].to_numpy()[seen] / n
    variance = frame["squares"].to_numpy()[seen] / n - mean**2
    for row, where in enumerate(np.flatnonzero(seen)):
        prefix = table()
        prefix.follow(keys[:where], times[:where], X[:where], y[:where])
        kept = prefix.row(keys[where])
        assert kept is not None
        assert kept["a.mean"] == pytest.approx(mean[row], abs=1e-9)
        assert kept["a.variance"] == pytest.approx(variance[row], abs=1e-8)
        if row > 100:
            break


@pytest.mark.parametrize("within", [0.2, 1.0, 5.0])
def test_the_ratio_of_variances_is_found(within: float) -> None:
    """One event of an entity is worth as much as its variance within entities tells."""
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2000, 30_000) * 1.0
    means = rng.normal(size=2000)
    X = means[keys.astype(int)][:, None] + rng.normal(size=(30_000, 1)) * within
    one = table(numbers=("a",))
    one.follow(keys, np.arange(30_000.0), X, np.full(30_000, np.nan))
    one.follow([1e9], [0.0], [[10.0]], [np.nan])
    share = column(one.look([1e9], [0.0], [[0.0]]), one, "a.mean")[0] / 10.0
    assert share == pytest.approx(1.0 / (1.0 + within**2), abs=0.04)


# --- the future and the cuts ----------------------------------------------------------------------


def test_the_future_is_in_no_column() -> None:
    keys, times, X, y = events()
    before = table().follow(keys, times, X, y)
    rng = np.random.default_rng(3)
    for row in (0, 1, 50, 333, 599):
        order = np.concatenate([np.arange(row + 1), row + 1 + rng.permutation(599 - row)])
        changed = [array[order].copy() for array in (keys, times, X, y)]
        changed[2][row + 1 :] *= -1e9
        changed[3][row:] = 7.0  # its own label, too
        changed[0][row + 1 :] += 1.0
        found = table().follow(*changed)
        np.testing.assert_array_equal(found[: row + 1], before[: row + 1])


@pytest.mark.parametrize("most", [5, 1000])
def test_cuts_change_nothing(most: int) -> None:
    given = events(900, entities=300)
    one = table(max_entities=most)
    expected = one.follow(*given)
    rng = np.random.default_rng(most)
    for longest in (1, 40, 700):
        other, first, found = table(max_entities=most), 0, []
        while first < 900:
            some = slice(first, first + int(rng.integers(0, longest + 1)))
            asked = other.look(*(array[some][:1] for array in given[:3]))
            found.append(other.follow(*(array[some] for array in given)))
            np.testing.assert_array_equal(found[-1][:1], asked)
            first = min(some.stop, 900)
            if rng.random() < 0.05:
                other = reopened(other)
        np.testing.assert_array_equal(np.concatenate(found), expected)
        assert_same(one, other)


# --- bounds ---------------------------------------------------------------------------------------


def test_the_coldest_entity_makes_room() -> None:
    """As in a dict in the order in which entities were seen."""
    keys, times, X, _ = events(2000, entities=60)
    one: EntityTable = table(max_entities=7)
    kept: dict[float, int] = {}
    evicted = 0
    for row in range(len(keys)):
        found = one.follow(keys[row : row + 1], times[row : row + 1], X[row : row + 1], [1.0])
        if np.isnan(keys[row]):
            continue
        count = kept.pop(keys[row], 0)
        assert found[0, 0] == count
        if len(kept) == 7:
            del kept[next(iter(kept))]
            evicted += 1
        kept[keys[row]] = count + 1
        if row % 97 == 0:
            gone = list(kept)[row % len(kept)]
            assert one.forget(gone)
            assert not one.forget(gone)
            del kept[gone]
        assert len(one) == len(kept)
    assert one.evicted == evicted > 100
    state = one.state().arrays
    assert state["rows"][state["order"], KEY].tolist() == list(kept)
    assert reopened(one).evicted == evicted
    assert one.nbytes < 5000


def test_few_entities_take_little_memory() -> None:
    one = table()
    first = one.nbytes
    for n in (64, 65, 5000):
        one.follow(np.arange(n * 1.0), np.zeros(n), np.zeros((n, 2)), np.zeros(n))
        assert n <= len(one._rows) < 2 * max(n, 64)
    assert first < 40_000


def test_an_entity_that_is_forgotten_is_an_unseen_one() -> None:
    keys, times, X, y = events()
    one = table()
    one.follow(keys, times, X, y)
    rows = {key: one.row(key) for key in range(25)}
    assert one.row(1234.0) is None
    assert one.forget(3.0)
    for key, row in rows.items():
        assert repr(one.row(key)) == repr(None if key == 3 else row)
    unseen = one.look([3.0, 555.0], [1e9, 1e9], [[1.0, 2.0]] * 2)
    np.testing.assert_array_equal(unseen[0], unseen[1])
    assert_same(one, reopened(one))


def test_what_is_large_stays_bounded() -> None:
    one = table()
    X = np.array([[1e150, -1e150], [-1e150, 1e150]] * 20)
    times = np.tile([-1e150, 1e150], 20)
    found = one.follow(np.arange(40.0) % 3, times, X, [1e19] * 40)
    assert not (np.abs(found) > 1e150).any()
    assert_same(one, reopened(one))


def test_columns_that_come_later() -> None:
    keys, times, X, y = events()
    one, wide = table(numbers=("a",)), table()
    X[:300, 1] = np.nan
    expected = wide.follow(keys, times, X, y)
    one.follow(keys[:300], times[:300], X[:300, :1], y[:300])
    one.add_columns(["b"])
    found = one.follow(keys[300:], times[300:], X[300:], y[300:])
    assert one.columns == wide.columns
    np.testing.assert_array_equal(found, expected[300:])
    assert_same(one, wide)


def test_names() -> None:
    names = table(numbers=("amount",)).columns
    for name in ("count", "since", "log_count_1h", "label.mean_1m", "amount.zscore"):
        assert f"user.{name}" in names
    assert [span_name(s) for s in (2592000.0, 7200.0, 61.0)] == ["30d", "2h", "61s"]
    assert entity_number("é\udcff") != entity_number("ada") == float(int(entity_number("ada")))


# --- states and merging ---------------------------------------------------------------------------


def changed(rows: Any, column: int, to: float) -> Any:
    """Rows with another value in a column of the second one."""
    found = rows.copy()
    found[:2, column] = to
    return found


def test_damaged_states_are_refused() -> None:
    one = table(classes=True)
    keys, times, X, y = events()
    one.follow(keys, times, X, np.where(np.isnan(y), y, y > 1))
    one.add_class("c")
    state = one.state()
    assert_same(one, reopened(one))
    arrays = state.arrays
    damages: list[dict[str, Any]] = [
        *(
            {"rows": changed(arrays["rows"], column, to)}
            for column, to in (
                *((KEY, 0.0), (KEY, np.nan), (COUNT, 0.0), (COUNT, 1.5), (TIME, np.inf)),
                *((LABEL_TIME, -np.inf), (HEAD, -1.0), (HEAD + 1, np.nan), (-10, -1.0)),
                *((-7, 1e200), (-4, -1.0), (-1, np.inf)),
            )
        ),
        {"rows": arrays["rows"][1:]},
        {"rows": arrays["rows"][:, 1:]},
        {"rows": arrays["rows"][:, 0]},
        {"order": arrays["order"][1:]},
        {"order": np.zeros_like(arrays["order"])},
        {"order": arrays["order"] + 1},
        {"order": arrays["order"] - 1},
        {"population": -1.0 - arrays["population"]},
        {"sources": arrays["sources"][::-1].copy()},
        {"sources": arrays["sources"] - 1},
        {"spans": np.array([60.0, 60.0])},
        {"spans": np.array([0.0, 60.0])},
        {"now": np.zeros(2)},
    ]
    for damage in damages:
        with pytest.raises(StateError):
            EntityTable.from_state(replace(state, arrays={**arrays, **damage}))
    for name in arrays:
        with pytest.raises(StateError):
            EntityTable.from_state(
                replace(state, arrays={other: a for other, a in arrays.items() if other != name})
            )
    for name, value in (
        *(("max_entities", 3), ("max_entities", 0), ("classes", 1), ("evicted", -1)),
        *(("names", ["label"]), ("names", ["a"] * 4), ("names", 3)),
    ):
        with pytest.raises(StateError):
            EntityTable.from_state(replace(state, header={**state.header, name: value}))


def test_merging_takes_the_row_that_knows_more() -> None:
    keys, times, X, y = events()
    base = table()
    base.follow(keys[:200], times[:200], X[:200], y[:200])
    one, other = reopened(base), table(numbers=("b", "late", "a"))
    one.follow(keys[200:260], times[200:260], X[200:260], y[200:260])
    more = np.column_stack([X[:, 1], X[:, 0], X[:, 0]])
    other.follow(keys, times, more, y)
    before, there = {key: one.row(key) for key in range(25)}, other.state()
    one.merge(other)
    assert one.numbers == ("a", "b", "late")
    for key in range(25):
        mine, theirs, found = before[key], other.row(key), one.row(key)
        if mine is None and theirs is None:
            assert found is None
            continue
        assert found is not None
        kept = theirs if mine is None or (theirs and theirs["count"] > mine["count"]) else mine
        assert kept is not None
        for name, value in kept.items():
            assert repr(found[name]) == repr(value), name
    np.testing.assert_array_equal(other.state().arrays["rows"], there.arrays["rows"])
    state = one.state().arrays
    latest = state["rows"][state["order"], TIME]
    assert (np.diff(latest[~np.isnan(latest)]) >= 0).all()
    assert_same(one, reopened(one))
    again = reopened(one)
    again.merge(one)
    assert_same(one, again)
    small = table(max_entities=4)
    small.merge(one)
    assert (len(small), small.evicted) == (4, len(one) - 4)
    fresh = table(classes=True)
    fresh.follow([1.0], [0.0], [[1.0, 2.0]], [1.0])
    without = table(classes=True)
    without.merge(fresh, with_labels=False)
    row = without.row(1.0)
    assert row is not None
    assert (row["count"], row["label.weight"], row["a.mean"]) == (1.0, 0.0, 1.0)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"spans": [0.0]}, "spans"),
        ({"spans": [math.nan]}, "spans"),
        ({"spans": [60.0, 60.0]}, "twice"),
        ({"max_entities": 0}, "max_entities"),
        ({"max_entities": 1.5}, "max_entities"),
        ({"numbers": ("a", "a")}, "twice"),
        ({"numbers": ("label",)}, "twice"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        table(**options)


def test_bad_events_are_refused() -> None:
    one = table()
    for given in (
        ([1.0], [1.0], [[1.0]], [1.0]),
        ([1.0], [1.0, 2.0], [[1.0, 2.0]], [1.0]),
        ([1.0], [1.0], [[1.0, 2.0]], []),
        ([[1.0]], [1.0], [[1.0, 2.0]], [1.0]),
    ):
        with pytest.raises(InvalidInput):
            one.follow(*given)
    with pytest.raises(InvalidInput, match="differ in spans"):
        one.merge(table(spans=[60.0]))


def test_a_table_without_rows_has_a_state() -> None:
    one, other = table(), table(numbers=("b", "c"))
    assert_same(one, reopened(one))
    one.merge(other)
    assert one.numbers == ("a", "b", "c")
    assert one.follow([], [], np.zeros((0, 3)), []).shape == (0, len(one.columns))
    assert_same(one, reopened(one))
