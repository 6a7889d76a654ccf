"""The two-sample test of events: what an event is depends on the first ones alone."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import state_fuzz
from hypothesis import given, settings
from hypothesis import strategies as st
from state_kit import assert_same, reopened

from streamk.drift import EventMMD
from streamk.errors import InvalidInput, StateError
from streamk.state import State

Cells = dict[str | int, float]
Law = Callable[[np.random.Generator], Cells]

LAWS: dict[str, Law] = {
    "ids, each once": lambda rng: {f"id={rng.integers(1 << 60)}": 1.0, "a": rng.normal()},
    "2,000 ids": lambda rng: {f"id={rng.integers(2000)}": 1.0, "a": rng.normal()},
    "200 ids": lambda rng: {f"id={rng.integers(200)}": 1.0},
    "no text": lambda rng: {"a": rng.normal(), "b": rng.normal()},
    "rare texts": lambda rng: {f"c={'odd' if rng.random() < 0.005 else 'usual'}": 1.0},
    "bags": lambda rng: dict.fromkeys([f"t={k}" for k in rng.zipf(1.5, size=6)], 1.0),
    "late fields": lambda rng: {"a": 0.5, **({"b": 7.0} if rng.random() < 0.004 else {})},
    "missing": lambda rng: {"a": math.nan if rng.random() < 0.3 else rng.normal(), "b": math.nan},
    "heavy tails": lambda rng: {"a": float(np.clip(rng.standard_cauchy() ** 3, -1e99, 1e99))},
    "kinds that change": lambda rng: (
        {"a": rng.normal()} if rng.random() < 0.5 else {"a": math.nan, f"a={rng.zipf(2)}": 1.0}
    ),
}


def drawn(law: Law, n: int, *seed: int) -> list[Cells]:
    rng = np.random.default_rng(seed)
    return [law(rng) for _ in range(n)]


def alarms(test: EventMMD, events: list[Cells], at_once: int = 1000) -> list[int]:
    """Take in all events; return after which of them there was an alarm."""
    found, at = [], 0
    while at < len(events):
        at += test.advance(events[at : at + at_once])
        if test.test.drift_detected:
            found.append(at - 1)
    return found


@pytest.mark.parametrize("law", LAWS)
def test_alarms_are_as_rare_as_promised(law: str) -> None:
    alpha, runs, found, low = 0.2, 20, 0, 0
    for seed in range(runs):
        test = EventMMD(most=64, alpha=alpha, warning=1.0, reference=64, seed=seed)
        found += bool(alarms(test, drawn(LAWS[law], 600, seed, 1)))
        low += test.test.p_value <= 0.5
    # A binomial number with that probability is larger with probability 0.001.
    assert found <= 10
    assert low <= 17


COLUMNS = st.one_of(st.integers(0, 99), st.sampled_from("abcdef"), st.text(max_size=3))
EVENTS = st.dictionaries(COLUMNS, st.sampled_from([0.0, 1.0, -3.5, 1e9, math.nan]), max_size=6)


@settings(max_examples=20, deadline=None)
@given(
    first=st.lists(EVENTS, min_size=64, max_size=64),
    later=st.lists(EVENTS, min_size=1, max_size=20),
    data=st.data(),
)
def test_a_point_does_not_depend_on_what_came_after_the_first_events(
    first: list[Cells], later: list[Cells], data: st.DataObject
) -> None:
    others = data.draw(st.permutations(later))
    found = []
    for order in (later, others):
        test = EventMMD(most=4, alpha=1e-12)
        test.advance([*first, *order])
        assert len(test.test.columns) in (0, 65, *range(5), *range(66, 70))
        found.append(test.rows(later))
    np.testing.assert_array_equal(*found)


def test_columns_are_those_that_two_of_the_first_events_have() -> None:
    often = {f"c{k}": float(k) for k in range(6)}
    first: list[Cells] = [{"once": 1.0}, *[{"c4": 2.0, "c5": 0.0}] * 3, *[often] * 60]
    test = EventMMD(most=4, alpha=1e-12)
    assert test.advance(first[:63]) == 63
    assert test.test.n_events == 0
    test.advance([often, {"once": 5.0, "c1": 3.0, "c0": 9.0}, {"other": 2.0}, {"c1": math.nan}])
    assert test.test.n_events == 67
    named = [test.name(at, first) for at in range(len(test.test.columns))]
    assert {"c4", "c5", "c0", "c1"} < set(named)
    rows = test.rows([{"once": 5.0, "c1": 3.0, "c0": 9.0}, {"other": 2.0}, {"c1": math.nan}])
    own = [named.index(column) for column in ("c0", "c1", "c4", "c5")]
    np.testing.assert_array_equal(rows[:, own], [[9, 3, 0, 0], [0, 0, 0, 0], [0, np.nan, 0, 0]])
    others = np.delete(rows, own, axis=1)
    # One of a shared column, as often as it comes; of "other" one more, that it is new.
    np.testing.assert_array_equal(others.sum(axis=1), [1.0, 2.0, 0.0])
    assert test.name(own[1], []) == "c1"
    new = len(named) - 1
    assert test.name(new, [{"other": 1.0}, {"other": 1.0}, {"more": 1.0}]) == "other"
    assert test.name(new, [{"other": 1.0}, {"more": 1.0}]) == "(new)"
    assert test.name(new, first) == "(new)"


@pytest.mark.parametrize("at", [(), (0,), (10,), (63,), (10, 40)])
def test_no_first_event_is_lost(at: tuple[int, ...]) -> None:
    events = drawn(LAWS["no text"], 70, 4)
    for i in at:
        events[i][f"id={i}"] = 1.0
    test = EventMMD(most=4)
    assert test.advance(events[:64]) == test.test.n_events == 64
    assert len(test.test.columns) == (67 if at else 2)
    test.advance(events[64:])
    assert test.test.n_events == 70


CHANGES: dict[str, tuple[Law, Law, int]] = {
    "a number beside ids": (
        LAWS["ids, each once"],
        lambda rng: {f"id={rng.integers(1 << 60)}": 1.0, "a": rng.normal() + 1.0},
        200,
    ),
    "other ids": (LAWS["200 ids"], lambda rng: {f"id={200 + rng.integers(200)}": 1.0}, 400),
    "one id of 2,000": (
        LAWS["2,000 ids"],
        lambda rng: {
            f"id={7 if rng.random() < 0.3 else rng.integers(2000)}": 1.0,
            "a": rng.normal(),
        },
        400,
    ),
    "a text becomes frequent": (
        LAWS["rare texts"],
        lambda rng: {f"c={'odd' if rng.random() < 0.3 else 'usual'}": 1.0},
        300,
    ),
    "a new field": (
        LAWS["no text"],
        lambda rng: {"a": rng.normal(), "b": rng.normal(), "new": 1.0},
        200,
    ),
    "a number that is missing": (
        LAWS["no text"],
        lambda rng: {"a": math.nan, "b": rng.normal()},
        300,
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_changes_are_found(kind: str) -> None:
    before, after, most = CHANGES[kind]
    test = EventMMD(most=64)
    found = alarms(test, [*drawn(before, 1500, 0, 5), *drawn(after, most, 0, 6)])
    assert [at for at in found if at < 1500] == []
    assert found


def test_the_next_run_has_other_columns() -> None:
    test = EventMMD(most=64)
    late = [{"a": 0.1 * (i % 7), "late": float(i % 5)} for i in range(1500)]
    early = [{"a": 0.1 * (i % 7)} for i in range(1000)]
    (found,) = alarms(test, [*early, *late])
    assert 1000 < found < 1200
    assert [test.name(at, []) for at in range(2)] == ["a", "late"]
    assert test.test.n_drifts == 1
    assert test.test.p_value > 0.01
    (again,) = alarms(test, [{"a": 0.1 * (i % 7), "late": 9.0 + i % 5} for i in range(600)])
    assert again < 300


def some(n: int) -> list[Cells]:
    events = drawn(LAWS["200 ids"], n, 9)
    for i, event in enumerate(events):
        event["a"] = math.nan if i % 9 == 0 else float(i % 11) + (5.0 if i >= 1300 else 0.0)
    return events


def same(one: EventMMD, other: EventMMD) -> None:
    """Hold that two tests are the same, bit for bit, with what their states leave out."""
    assert_same(one, other)
    runs = [test.test._sample for test in (one, other)]
    size = int(runs[0].counts[0])
    for name in ("features", "scores"):
        np.testing.assert_array_equal(*(getattr(run, name)[:, :size] for run in runs))


@pytest.mark.parametrize("n", [0, 63, 64, 400, 1023, 1100, 1600])
def test_it_goes_on_from_its_state(n: int) -> None:
    events = some(1800)
    test = EventMMD(most=8, seed=3, reference=128, alpha=0.05)
    alarms(test, events[:n])
    others = [reopened(test), copy.deepcopy(test), pickle.loads(pickle.dumps(test))]
    for other in others:
        same(test, other)
    found = alarms(test, events[n:])
    assert len(found) == (n < 1600)
    for other in others:
        assert alarms(other, events[n:]) == found
        same(test, other)


def test_any_cut_gives_the_same_bits() -> None:
    events, whole = some(1800), EventMMD(most=8, seed=3, reference=128)
    found = alarms(whole, events, 1800)
    assert found
    for at_once in (1, 7, 100):
        test = EventMMD(most=8, seed=3, reference=128)
        assert alarms(test, events, at_once) == found
        same(test, whole)


def test_damaged_states_are_refused_or_do_no_harm() -> None:
    states = []
    for n in (30, 200, 1100):
        test = EventMMD(most=8, reference=64)
        alarms(test, some(n))
        states.append(test.state())
    refused = 0
    for seed in range(120):
        try:
            damaged, said = state_fuzz.mutated(states[seed % 3], seed)
            test = EventMMD.from_state(damaged)
        except (InvalidInput, StateError):
            refused += 1
            continue
        alarms(test, some(100))
        assert 0.0 <= test.test.p_value <= 1.0, said
        assert np.isfinite(test.test._sample.wealth).all(), said
        test.state()
    assert refused > 40


@pytest.mark.parametrize(
    "damage",
    [
        {"own": ["a", "a"]},
        {"own": [1.5]},
        {"own": "a"},
        {"own": [f"c{k}" for k in range(9)]},
        {"own": []},
        {"first": [[["a", 1.0]]]},
        {"most": "x"},
    ],
)
def test_a_header_that_contradicts_its_test_is_refused(damage: dict[str, Any]) -> None:
    test = EventMMD(most=8)
    test.advance(some(200))
    state = test.state()
    EventMMD.from_state(state)
    with pytest.raises(StateError):
        EventMMD.from_state(State(state.header | damage, state.arrays))
    held = EventMMD(most=8)
    held.advance(some(20))
    for first in ([[["a", 1.0]]] * 64, [[["a", "x"]]], [[[1.5, 1.0]]], [[["a", 1e999]]]):
        with pytest.raises((InvalidInput, StateError)):
            EventMMD.from_state(State(held.state().header | {"first": first}, state.arrays))
