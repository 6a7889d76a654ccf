"""Feature machines among the experts that rest where they are of no use."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from multi_kernel_kit import pool_alone, stream
from numpy.typing import NDArray
from state_kit import assert_same

from streamk.distributed import Sharded
from streamk.errors import StateError
from streamk.learners import FeatureMachine, MultiKernel, create, from_state
from streamk.learners.multi_kernel import external_experts, mixture, rests
from streamk.learners.multi_kernel.rests import Change, Rests

BAD, GOOD = np.array([-1.0]), np.array([1.0])


def changes(
    one: Rests, worth: NDArray[Any], reviews: int, alarms: Collection[int] = ()
) -> list[tuple[int, str]]:
    """Return after which reviews something changed, and what."""
    found = []
    for n in range(1, reviews + 1):
        found += [(n, change.action) for change in one.review(worth, alarm=n in alarms)]
    return found


def test_rests_become_longer_where_trials_fail_without_an_end() -> None:
    found = changes(Rests([True]), BAD, 65)
    assert found == [
        (3, "rest"),
        (11, "wake"),
        (14, "rest"),
        (30, "wake"),
        (33, "rest"),
        (65, "wake"),
    ]
    long = [n for n, step in changes(Rests([True]), BAD, 50_000) if step == "wake"]
    assert np.diff(long).tolist() == [3 + 8 * 2**n for n in range(1, len(long))]


def test_an_expert_of_use_stays_active_and_rests_a_short_while_at_first() -> None:
    one = Rests([True])
    assert changes(one, GOOD, 50) == []
    assert changes(one, BAD, 9) == [(1, "rest"), (9, "wake")]
    assert changes(one, GOOD, 4) == []
    assert changes(one, BAD, 9) == [(1, "rest"), (9, "wake")], "not 16 reviews later"


def test_one_that_comes_closer_from_review_to_review_stays_active() -> None:
    """As on 20,000 events of covtype from the 20,000th on, where it has 19% errors, not 21%."""
    comes: list[float] = [-3.7, -2.6, -2.2, 1.1, 6.2, 16.2]
    one = Rests([True])
    assert [one.review(np.array([worth])) for worth in comes] == [[]] * len(comes)
    one = Rests([True])
    found = [one.review(np.array([worth])) for worth in [-3.7, -2.6, -2.2, -1.9, -2.1]]
    assert found == [[], [], [], [], [Change(0, "rest")]]
    one = Rests([True])
    found = [one.review(np.array([worth])) for worth in [-3.1, -3.0, -2.9]]
    assert found[2] == [Change(0, "rest")], "by a tenth at least"
    one = Rests([True])
    assert changes(one, GOOD, 4) == []
    found = [one.review(np.array([worth])) for worth in [-3.0, -1.0]]
    assert found[0] == [Change(0, "rest")], "it was worth its time, and is no more"


def test_only_those_rest_that_can() -> None:
    one = Rests([False, True, False])
    found = [one.review(np.full(3, -1.0), alarm=True) for _ in range(3)]
    assert found == [[], [], [Change(1, "rest")]]
    assert one.active == [True, False, True]
    one.begin()
    assert one.active == [True, True, True]


def test_an_alarm_in_the_second_half_ends_a_rest_when_there_are_enough_events_since() -> None:
    assert changes(Rests([True]), BAD, 9, alarms={7}) == [(3, "rest"), (9, "begin")]
    assert changes(Rests([True]), BAD, 10, alarms={7, 8}) == [(3, "rest"), (10, "begin")]
    assert changes(Rests([True]), BAD, 11, alarms={10}) == [(3, "rest"), (11, "wake")]
    assert changes(Rests([True]), BAD, 11, alarms={4, 6}) == [(3, "rest"), (11, "wake")]
    one = Rests([True])
    assert changes(one, BAD, 8, alarms={4, 7}) == [(3, "rest")]
    assert one.review(BAD) == [Change(0, "begin", 2)]


def test_alarms_without_an_end_do_not_undo_the_doubling() -> None:
    found = changes(Rests([True]), BAD, 1_000, alarms=range(1, 1_000, 3))
    tried = [n for n, step in found if step == "begin"]
    assert tried == [9, 24, 45, 84, 153, 288, 549]


def test_an_expert_of_use_begins_anew_after_an_alarm() -> None:
    one = Rests([True])
    assert changes(one, 8.0 * GOOD, 9, alarms={7, 9}) == []
    found = [change for _ in range(8) for change in one.review(4.0 * BAD)]
    assert found == [Change(0, "begin", 2), Change(0, "rest")]
    one = Rests([True])
    assert changes(one, GOOD, 9, alarms={2}) == []
    assert changes(one, BAD, 3) == [(1, "rest")], "not because of that alarm"


@pytest.mark.parametrize("every", [1, 2, 3])
def test_alarms_without_an_end_do_not_put_off_a_new_beginning(every: int) -> None:
    one = Rests([True])
    assert changes(one, GOOD, 3) == []
    found = changes(one, 4.0 * BAD, 8, alarms=range(1, 9, every))
    assert found == [(3, "begin"), (6, "rest")]
    one = Rests([True])
    assert changes(one, 4.0 * GOOD, 9, alarms=range(1, 10)) == []
    assert one.review(8.0 * BAD, alarm=True) == []
    assert one.review(BAD, alarm=True) == []
    assert one.review(BAD, alarm=True) == [Change(0, "begin", 2)], "of the last alarm while of use"


def test_states_go_on_and_are_checked() -> None:
    one, again = Rests([True, False]), Rests([True, False])
    for n in range(8):
        one.review(np.array([-1.0, 0.0]), alarm=n == 6)
    again.restore(one.arrays(), "this")
    assert again.active == [False, True]
    both = [[each.review(np.array([-0.5, 0.0])) for _ in range(20)] for each in (one, again)]
    assert both[0] == both[1]
    for place, value in (((0, 0), 0.0), ((1, 0), 1.0), ((0, 0), 5.0), ((0, 1), -1.0)):
        arrays = one.arrays()
        arrays["rests"][place] = value
        with pytest.raises(StateError, match="rests"):
            again.restore(arrays, "this")
    for found in ({}, {"rests": one.arrays()["rests"][:, :4]}):
        with pytest.raises(StateError, match="rests"):
            again.restore(found, "this")


def test_the_documentation_has_these_numbers() -> None:
    stretch, text = rests.REST_REVIEW_EVERY, " ".join((MultiKernel.__doc__ or "").split())
    shortest, trial = int(rests._SHORTEST) * stretch, rests._TRIAL * stretch
    assert f"less than {external_experts._SPARED:.0%} above" in text
    assert f"after each {stretch:,} events, rests for {shortest:,} at first" in text
    assert f"tried again for {trial:,}." in text


# --- among the experts ---------------------------------------------------------------------------


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reviews after each 64 events, and rests of three."""
    for module in (mixture, external_experts):
        monkeypatch.setattr(module, "REST_REVIEW_EVERY", 64)
    monkeypatch.setattr(rests, "_SHORTEST", 3)


def made(task: str) -> MultiKernel:
    machine = FeatureMachine(
        task=task, first=64, swap_delay=40, buffer_size=128, reservoir_size=128, rounds=1
    )
    return pool_alone(task=task, seed=1, external_experts=[machine], threads=1)


def noise(task: str, n: int = 700) -> tuple[NDArray[Any], Any]:
    """Return events that tell nothing of their labels."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 4)), rng.normal(size=n)
    return X, y if task == "regression" else np.where(y > 0, "a", "b").tolist()


TASKS = ("classification", "regression")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.usefixtures("often")
def test_it_says_nothing_and_keeps_events_while_it_rests(task: str) -> None:
    model, (X, y) = made(task), noise(task, 1_280)
    n = 64
    while model._mixture.external.active[0]:
        model.learn_many(X[n - 64 : n], y[n - 64 : n])
        n += 64
    machine: Any = model._mixture.external._learners[0]
    assert np.isnan(model._mixture.external.outputs(X[:3], 1)).all()
    assert model.shares(X[0])["feature-machine"] == 0.0
    seen, takeovers, function = machine._recent.seen, machine.n_takeovers, machine._function
    learned = function.n_events
    model.learn_many(X[n : n + 50], y[n : n + 50])
    assert (machine._recent.seen, machine.n_takeovers) == (seen + 50, takeovers)
    assert machine._function is function
    assert function.n_events == learned
    assert not machine.is_solving


def test_a_machine_that_is_woken_makes_a_function_of_what_it_kept() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X[:, 0] * X[:, 1]
    machine = FeatureMachine(task="regression", first=64, swap_delay=50, every=10_000)
    machine.learn_many(X[:100], y[:100])
    machine.rest()
    machine.learn_many(X[100:500], y[100:500])
    assert machine.n_events == 500
    again = FeatureMachine.from_state(machine.state())
    for each in (machine, again):
        each.wake()
        assert each.is_solving
        each.learn_many(X[500:], y[500:])
        assert each.n_takeovers == 2, "of all 500, and better than what was learned of 100"
    assert np.array_equal(machine.decision_many(X), again.decision_many(X))


def test_a_machine_that_is_woken_makes_its_function_of_the_last_events() -> None:
    X = np.random.default_rng(0).normal(size=(600, 3))
    y = X[:, 0] * X[:, 1]
    machine = FeatureMachine(
        task="regression", first=64, swap_delay=1, every=10_000, buffer_size=100
    )
    machine.learn_many(X[:100], y[:100])
    machine.rest()
    machine.learn_many(X[100:500], y[100:500])
    machine.wake()
    machine.learn_many(X[500:514], y[500:514])
    assert machine.n_takeovers > 0
    assert machine.n_features < 150


@pytest.mark.parametrize("n", [30, 200])
def test_first_events_that_are_learned_again(n: int) -> None:
    """One function is made, after them, and taken over with the next event."""
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = X[:, 0] * X[:, 1]
    machine = FeatureMachine(task="regression", first=64, columns=range(3))
    machine.learn_again(X[:n], y[:n])
    assert (machine.n_events, machine.last_beginning) == (n, 0)
    for stop in (n + 1, 66, 202, 400):
        again = FeatureMachine.from_state(machine.state())
        for each in (machine, again):
            each.learn_many(X[each.n_events : stop], y[each.n_events : stop])
        assert again.n_takeovers == machine.n_takeovers
        assert np.array_equal(machine.decision_many(X), again.decision_many(X))
        if stop == 202 == n + 2:
            assert (machine.last_beginning, machine.n_takeovers) == (201, 1)
    assert machine.last_beginning == (201 if n == 200 else 256)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.usefixtures("often")
def test_after_an_alarm_it_begins_anew_with_the_events_since(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bool] = []

    def review(*_: Any, alarm: bool) -> list[Change]:
        heard.append(alarm)
        return [Change(0, "begin", 2)] if len(heard) % 12 == 0 else []

    monkeypatch.setattr(Rests, "review", review)
    (X, y), cuts = noise(task, 900), ((64,) * 14, (1,) * 896)
    models: list[MultiKernel] = []
    for sizes in cuts:
        model, at, changed = made(task), 0, 0
        heard.clear()
        for size in sizes:
            before: Any = model._mixture.external._learners[0]
            model.learn_many(X[at : at + size], y[at : at + size])
            at += size
            machine: Any = model._mixture.external._learners[0]
            if at >= 640 and machine is not before:
                assert at == 768
                assert (machine.n_events, machine.is_solving, machine.rests) == (128, False, False)
                changed += 1
            if at == 640:
                model._mixture.upkeep.alarms += 1
            if at == 768:
                model = MultiKernel.from_state(model.state(), threads=1)
        assert changed == 1
        assert len(heard) == 14
        assert heard[10:] == [True, False, False, False]
        models.append(model)
    assert_same(*models)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether there was an alarm, of each review from now on."""
    found: list[bool] = []

    def review(*_: Any, alarm: bool) -> list[Change]:
        found.append(alarm)
        return []

    monkeypatch.setattr(Rests, "review", review)
    return found


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(("ahead", "alike"), [(True, False), (False, True)])
def test_alarms_that_another_has_had_are_not_new_after_a_merge(
    heard: list[bool], ahead: bool, alike: bool
) -> None:
    X, y = noise("regression", 600)
    one, other = made("regression"), made("regression")
    one.learn_many(X[:64], y[:64])
    other.learn_many(X[:64], y[:64])
    other._mixture.upkeep.alarms += 3
    n = 384 if ahead else 128
    other.learn_many(X[64:n] * (1.0 if alike else 9.0), y[64:n])
    one.learn_many(X[64:256], y[64:256])
    one.merge(other, common_events=64)
    assert one._mixture.upkeep.alarms >= 3
    heard.clear()
    one.learn_many(X[384:], y[384:])
    assert not any(heard)
    assert heard


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("ahead", [True, False])
def test_of_merged_models_the_one_that_learned_more_decides(ahead: bool) -> None:
    X, y = noise("regression", 600)
    one, other = made("regression"), made("regression")
    n = 64
    while other._mixture.external.active[0]:
        other.learn_many(X[n - 64 : n], y[n - 64 : n])
        n += 64
    one.learn_many(X[: 100 if ahead else 2 * n], X[: 100 if ahead else 2 * n, 0])
    active = one._mixture.external.active
    one.merge(other)
    assert one._mixture.external.active == ([False] if ahead else active)
    machine: Any = one._mixture.external._learners[0]
    assert machine.rests is not one._mixture.external.active[0]
    one.learn_many(X, y)
    assert np.isfinite(one.predict_many(X)).all()


def test_a_merge_keeps_what_an_expert_was_worth_so_far() -> None:
    """Also where the banks were looked at just before, and their own costs are none."""
    X, y = noise("regression", 128)
    one, other = made("regression"), made("regression")
    for model in (one, other):
        model.learn_many(X, y)
    costs = one._mixture.pool.arrays["BANK_COSTS"]
    before = costs[-1]
    assert before != 0.0
    assert not costs[:-1].any()
    one.merge(other)
    assert one._mixture.pool.arrays["BANK_COSTS"][-1] == pytest.approx(before)


# --- the feature machine that a learner of many kernels has by default: where it is,  -------------


def default(kind: str, **options: Any) -> MultiKernel:
    task = "regression" if kind == "numbers" else "classification"
    return MultiKernel(**{"task": task, "seed": 3, **options})


def machine(model: MultiKernel) -> FeatureMachine:
    (found,) = model._mixture.external._learners
    assert isinstance(found, FeatureMachine)
    return found


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_it_is_a_machine_of_the_models_task_and_seed(task: str) -> None:
    for model in (MultiKernel(task=task, seed=3), create("multi-kernel", task=task, seed=3)):
        (one,) = model.external_experts
        assert (one["type"], one["task"], one["seed"]) == ("feature-machine", task, 3)
        assert one["max_width"] == 256
        given = FeatureMachine(task=task, seed=3, max_width=256, effort=1.0)
        assert one == MultiKernel(task=task, seed=3, external_experts=[given]).external_experts[0]


@pytest.mark.parametrize("none", [[], ()])
def test_no_external_experts_are_none(none: Any) -> None:
    X, y = stream("two", 100)
    model = default("two", external_experts=none)
    model.learn_many(X, y)
    assert model.external_experts == []
    assert "external_experts" not in model.state().header["parts"]


def test_a_state_without_external_experts_opens_as_one() -> None:
    X, y = stream("two", 200)
    model = default("two", external_experts=[])
    model.learn_many(X[:100], y[:100])
    opened = from_state(model.state())
    assert opened.external_experts == []
    assert opened.for_shards() is opened
    model.learn_many(X[100:], y[100:])
    opened.learn_many(X[100:], y[100:])
    assert_same(model, opened)


# --- shards ---------------------------------------------------------------------------------------


def test_in_shards_there_is_none_by_default() -> None:
    model = Sharded(MultiKernel(seed=3, class_weight="balanced", classes=["a", "b"]))
    assert model.learner.external_experts == []
    alone = MultiKernel(seed=3, class_weight="balanced", classes=["a", "b"], external_experts=())
    assert_same(model.learner, alone)


@pytest.mark.parametrize(("kind", "columns"), [("two", None), ("numbers", ("a", "b", "c"))])
def test_shards_learn_as_one_without_the_experts_by_default(kind: str, columns: Any) -> None:
    X, y = stream(kind, 600)
    assert X.shape[1] == 3
    given = default(kind, columns=columns)
    none = {"memory": False} if kind == "numbers" else {}
    alone = default(kind, columns=columns, external_experts=(), **none)
    if columns:
        given.decision_many(X[:5])
    models = [Sharded(each, shards=1) for each in (given, alone)]
    assert models[1].learner is alone
    said = [each.predict_then_learn_many(X, y).predictions for each in models]
    assert (given.n_events, alone.n_events) == (0, 600), "in its place there is one without it"
    np.testing.assert_array_equal(*said)
    assert_same(models[0].learner, alone)


def test_rounds_leave_the_learner_that_they_are_given_as_it_is() -> None:
    given = default("two", columns=("a", "b"))
    assert given.for_shards().external_experts == []
    assert len(given.external_experts) == 1
    assert_same(given.for_shards(), default("two", columns=("a", "b"), external_experts=()))


# --- wide tables ----------------------------------------------------------------------------------


def test_columns_that_come_late_have_it_rest_for_good() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 300))
    y = np.where(X[:, 0] > 0.0, "a", "b")
    one, many = MultiKernel(seed=3), MultiKernel(seed=3)
    for model in (one, many):
        model.learn_many(X[:170, :200], y[:170])
        assert machine(model).n_takeovers > 0
        assert not machine(model).is_too_wide
        model.add_columns([f"late {n}" for n in range(100)])
        assert machine(model).is_too_wide
    kept = machine(many).nbytes
    many.learn_many(X[170:], y[170:])
    for x, label in zip(X[170:], y[170:], strict=True):
        one.learn_one(x, label)
    assert_same(one, many)
    assert machine(many).nbytes == kept < 100_000
    assert many._mixture.external._early.events.size == 0
    assert not any(many._mixture.external.active)
    again = from_state(many.state())
    assert machine(again).is_too_wide
    again.learn_many(X[:50], y[:50])
    many.learn_many(X[:50], y[:50])
    assert_same(again, many)


def test_a_wide_table_is_learned_as_without_it() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1_300, 260)), rng.choice(["a", "b"], 1_300)
    said = [
        MultiKernel(seed=3, external_experts=external).predict_then_learn_many(X, y).probabilities
        for external in ([], None)
    ]
    np.testing.assert_array_equal(said[0], said[1])


def test_many_classes_have_it_rest_for_good() -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    y = [str(n) for n in np.arange(400) * 254 // 400]
    model = MultiKernel(seed=3)
    model.learn_many(X[:390], y[:390])
    assert not machine(model).is_too_wide
    model.learn_many(X[390:], [f"late {n}" for n in range(10)])
    assert machine(model).is_too_wide
    model.predict_many(X)
