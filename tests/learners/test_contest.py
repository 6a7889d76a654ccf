"""Champion and challengers: what each model gives alone, tests that hold, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from engine_kit import same_model
from multi_kernel_kit import pool_alone
from reference import contest as naive_contest
from rounds_kit import TASKS, events, model

from streamk.contest import Contest
from streamk.contest.entries import ERROR_RATE, evidence, needed
from streamk.distributed import Sharded
from streamk.errors import InvalidInput, StateError
from streamk.learners import MultiKernel, create
from streamk.learners.registry import from_state
from streamk.packing import fingerprint
from streamk.state import State

N = 240
NAMES = ("doubly-stochastic", "online-nystrom", "eigenpro")


# --- the test -------------------------------------------------------------------------------------


def test_evidence_is_the_mean_wealth_of_all_bets() -> None:
    for wins in range(12):
        for losses in range(12):
            plain = naive_contest.mean_wealth(wins, losses)
            if wins > losses:
                assert math.isclose(math.exp(evidence(wins, losses)), plain, rel_tol=1e-12)
            else:
                assert plain <= 1
                assert evidence(wins, losses) == 0.0


def test_the_evidence_of_many_events_is_finite() -> None:
    assert evidence(10**7, 0) == pytest.approx(10**7 * math.log(2.0), rel=1e-5)
    assert 0.0 < evidence(5_010_000, 4_990_000) < math.inf


def test_all_tests_of_a_job_share_the_error_rate() -> None:
    shares = [Fraction(math.exp(-needed(j))) for j in range(1, 10_001)]
    assert ERROR_RATE * 0.999 < sum(shares) < ERROR_RATE


def test_equal_challengers_are_seldom_promoted() -> None:
    """Play the rule on fair coins, in tests of 200 events each."""
    rng, promoted = np.random.default_rng(0), 0
    for _ in range(400):
        wins = rng.binomial(200, 0.5, size=50).tolist()
        promoted += any(evidence(w, 200 - w) >= needed(j + 1) for j, w in enumerate(wins))
    assert promoted <= 400 * ERROR_RATE


# --- against the oracle ---------------------------------------------------------------------------


def worse(task: str) -> Any:
    """A model that learns next to nothing."""
    size = {"block_size": 64, "max_features": 64}
    return create("doubly-stochastic", task=task, kernel="linear", step=1e-6, **size)


def several(task: str) -> dict[str, Any]:
    return {"first": worse(task), **{name: model(name, task) for name in NAMES}}


def stream(task: str) -> tuple[Any, list[Any]]:
    X, y = events(N, task)
    if task == "classification":  # what no line tells apart; the third class comes late
        y = np.where(np.abs(X[:, 0]) > 0.7, "far", "near").tolist()
        y[150], y[170] = "odd", "odd"
    for row in (0, 7, 33, 34, *range(120, 131)):
        y[row] = None
    return X, y


def followed(contest: Contest, X: Any, y: list[Any], cut: int) -> list[Any]:
    said: list[Any] = []
    for first in range(0, len(X), cut):
        part = slice(first, first + cut)
        said += contest.predict_then_learn_many(X[part], y[part]).predictions.tolist()
    return said


def with_columns(models: dict[str, Any]) -> dict[str, Any]:
    for each in models.values():
        each.add_columns(range(4))
    return models


@pytest.mark.one_in(2)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("promote_after", [0, 40, 64])
def test_it_is_as_the_models_alone_and_the_plain_rule_say(task: str, promote_after: int) -> None:
    X, y = stream(task)
    plain = naive_contest.contest(with_columns(several(task)), X, y, promote_after)
    if promote_after:
        assert plain.promoted, "or nothing is tested"
    states = set()
    for cut in (1, 37, N):
        contest = Contest(several(task), promote_after=promote_after, window=50)
        contest.add_columns(range(4))
        assert followed(contest, X, y, cut) == plain.said
        assert [(p.events, p.champion) for p in contest.promotions] == plain.promoted
        for name, learner in contest.models.items():
            assert same_model(learner, plain.models[name]), name
        states.add(fingerprint(contest.state()))
    assert len(states) == 1


@pytest.mark.parametrize("task", TASKS)
def test_figures_are_those_of_each_model(task: str) -> None:
    X, y = stream(task)
    contest = Contest(several(task), window=50)
    contest.add_columns(range(4))
    followed(contest, X, y, 60)
    for name, learner in with_columns(several(task)).items():
        answers = learner.predict_then_learn_many(X, y).predictions.tolist()
        pairs = [(a, b) for a, b in zip(answers, y, strict=True) if b is not None is not a]
        figures = contest.standings["models"][name]
        assert figures["events"] == len(pairs)
        if task == "classification":
            hits = [a == b for a, b in pairs]
            assert figures["whole"]["accuracy"] == pytest.approx(np.mean(hits))
            assert figures["window"]["accuracy"] == pytest.approx(np.mean(hits[-50:]))
        else:
            errors = np.array([a - b for a, b in pairs])
            assert figures["whole"]["mae"] == pytest.approx(np.abs(errors).mean())
            assert figures["window"]["rmse"] == pytest.approx(np.sqrt((errors[-50:] ** 2).mean()))


@pytest.mark.parametrize("task", TASKS)
def test_resumes_in_the_midst_of_a_test(task: str) -> None:
    X, y = stream(task)
    whole = Contest(several(task), promote_after=40)
    part = Contest(several(task), promote_after=40)
    whole.predict_then_learn_many(X, y)
    part.predict_then_learn_many(X[:110], y[:110])
    resumed = Contest.from_state(part.state(), **part.placing)
    resumed.predict_then_learn_many(X[110:], y[110:])
    assert fingerprint(resumed.state()) == fingerprint(whole.state())
    assert whole.promotions == resumed.promotions != []
    again = from_state(whole.state())
    assert again.predict_many(X).tolist() == whole.predict_many(X).tolist()
    assert again.predict_one(X[0]) == whole.predict_one(X[0])


def test_another_number_of_events_begins_another_test() -> None:
    X, y = stream("regression")
    contest = Contest(several("regression"), promote_after=1000)
    contest.predict_then_learn_many(X[:100], y[:100])
    other = Contest.from_state(contest.state(), promote_after=60)
    other.predict_then_learn_many(X[100:150], y[100:150])
    assert not other.promotions
    other.predict_then_learn_many(X[150:200], y[150:200])
    (promotion,) = other.promotions
    assert promotion.events == 100 - y[:100].count(None) + 60
    assert promotion.by == "rule"
    assert 60 >= promotion.wins > promotion.losses


# --- the champion ---------------------------------------------------------------------------------


def learned(cut: int = 100) -> tuple[Contest, Any, list[Any]]:
    X, y = events(N, "classification")
    contest = Contest({"a": model("doubly-stochastic", "classification"), "b": pool_alone()})
    contest.predict_then_learn_many(X[:cut], y[:cut])
    return contest, X, y


def test_the_champion_predicts() -> None:
    contest, X, _ = learned()
    alone = contest.models["a"]
    assert contest.predict_many(X).tolist() == alone.predict_many(X).tolist()
    contest.promote("b")
    alone = contest.models["b"]
    assert contest.predict_many(X).tolist() == alone.predict_many(X).tolist()
    np.testing.assert_array_equal(contest.predict_proba_many(X), alone.predict_proba_many(X))
    assert contest.predict_proba_one(X[0]) == alone.predict_proba_one(X[0])
    assert contest.decision_one(X[0]).tolist() == alone.decision_one(X[0]).tolist()
    assert contest.n_features == alone.n_features
    assert contest.champion == "b"


def test_promotions_are_rolled_back_one_by_one() -> None:
    contest, _, _ = learned()
    with pytest.raises(InvalidInput, match="no promotion to roll back"):
        contest.roll_back()
    contest.begin("c", model("eigenpro", "classification"))
    contest.promote("b")
    contest.promote("c")
    contest.roll_back()
    assert contest.champion == "b"
    contest.roll_back()
    assert contest.champion == "a"
    with pytest.raises(InvalidInput, match="no promotion to roll back"):
        contest.roll_back()
    said = [(p.champion, p.former, p.by) for p in contest.promotions]
    assert said[2:] == [("b", "c", "rollback"), ("a", "b", "rollback")]
    assert Contest.from_state(contest.state()).promotions == contest.promotions
    contest.promote("c")
    contest.promote("b")
    contest.drop("c")
    with pytest.raises(InvalidInput, match="'c' is no model here; the challengers are a"):
        contest.roll_back()


def test_who_cannot_be_promoted() -> None:
    contest, _, _ = learned()
    with pytest.raises(InvalidInput, match="'a' is the champion; the challengers are b"):
        contest.promote("a")
    with pytest.raises(InvalidInput, match="'x' is no model here"):
        contest.promote("x")


def test_a_later_challenger_learns_from_then_on() -> None:
    contest, X, y = learned(50)
    contest.begin("later", model("online-nystrom", "classification"))
    for first in range(50, N, 19):
        part = slice(first, min(N, first + 19))
        contest.predict_then_learn_many(X[part], y[part])
    alone = model("online-nystrom", "classification")
    alone.add_columns(range(4))
    alone.predict_then_learn_many(X[50:], y[50:])
    assert same_model(contest.models["later"], alone)
    assert contest.standings["models"]["later"]["began"] == 50
    before = contest.classes
    contest.promote("later")
    assert contest.classes == before
    P = contest.predict_proba_many(X[:9])
    assert P.shape == (9, len(before))
    labels = [before[n] for n in contest.choices(P)]
    assert labels == contest.predict_many(X[:9]).tolist() == alone.predict_many(X[:9]).tolist()
    found = contest.predict_then_learn_many(X[:9], [None] * 9)
    assert found.probabilities is not None
    np.testing.assert_array_equal(np.nan_to_num(found.probabilities), P)


def test_drifts_are_counted_from_the_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = events(N, "classification")
    contest = Contest({"a": worse("classification"), "b": worse("classification")})
    contest.predict_then_learn_many(X[:40], y[:40])
    contest.begin("c", pool_alone())
    monkeypatch.setattr(MultiKernel, "drifts", (3,))
    assert contest.drifts == ()
    contest.promote("c")
    assert contest.drifts == (43,)


# --- merging --------------------------------------------------------------------------------------


def test_contests_merge_model_by_model() -> None:
    X, y = events(N, "classification")
    one = Contest({"a": model("doubly-stochastic", "classification"), "b": pool_alone()})
    one.add_columns(range(4))
    one.predict_then_learn_many(X[:100], y[:100])
    other = Contest.from_state(one.state())
    plain, its = (from_state(one.models["a"].state()) for _ in range(2))
    one.predict_then_learn_many(X[100:150], y[100:150])
    plain.predict_then_learn_many(X[100:150], y[100:150])
    other.predict_then_learn_many(X[150:], y[150:])
    its.predict_then_learn_many(X[150:], y[150:])
    one.begin("late", model("online-nystrom", "classification"))
    one.merge(other, common_events=100)
    plain.merge(its, common_events=100)
    assert same_model(one.models["a"], plain)
    assert one.n_events == N
    assert one.models["late"].n_events == 0
    assert from_state(one.state()).n_events == N


def test_models_that_began_apart_have_nothing_in_common() -> None:
    contest, X, y = learned(100)
    other = Contest.from_state(contest.state())
    for each, cut in ((contest, 110), (other, 120)):
        each.predict_then_learn_many(X[100:cut], y[100:cut])
        each.begin("c", model("doubly-stochastic", "classification"))
        each.predict_then_learn_many(X[cut:200], y[cut:200])
    contest.merge(other, common_events=100)
    assert contest.models["c"].n_events == 90 + 80


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("models", "says"),
    [
        (lambda: {"a": pool_alone()}, "at least two models, not 1"),
        (lambda: {"a": pool_alone(), "b.c": pool_alone()}, "'b.c' cannot be the name"),
        (lambda: {"a": pool_alone(), "": pool_alone()}, "letters, digits, - and _"),
        (lambda: {"a": pool_alone(), "b": pool_alone(task="regression")}, "the same task"),
        (lambda: {"a": pool_alone(), "b": Sharded(pool_alone())}, "cannot be in a contest"),
        (lambda: {"a": pool_alone(), "b": learned()[0].models["a"]}, "b has learned 100 events"),
        (
            lambda: {"a": pool_alone(), "b": pool_alone(columns=("x", "y"))},
            "b and a must have the same columns, or none yet",
        ),
        (
            lambda: {"a": pool_alone(classes=[*"xyz"]), "b": pool_alone(max_classes=2)},
            "with b there are 3 classes, but one of the models allows 2",
        ),
    ],
)
def test_models_that_make_no_contest(models: Callable[[], Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Contest(models())


def test_options_out_of_their_domain() -> None:
    for options in ({"promote_after": -1}, {"window": 0}):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            Contest({"a": pool_alone(), "b": pool_alone()}, **options)
    contest, _, _ = learned()
    with pytest.raises(InvalidInput, match="called 'b' already"):
        contest.begin("b", pool_alone())
    with pytest.raises(InvalidInput, match="b is the last challenger; go on with the champion"):
        contest.drop("b")
    with pytest.raises(InvalidInput, match="with few there are 4 classes"):
        contest.begin("few", pool_alone(max_classes=2, classes=[*"xy"]))
    assert list(contest.models) == ["a", "b"]


def test_events_that_no_model_can_have() -> None:
    contest, X, _ = learned()
    with pytest.raises(InvalidInput, match="is inf"):
        contest.predict_then_learn_many([[math.inf] * 4], ["same"])
    small = Contest({"a": pool_alone(), "b": pool_alone(max_classes=2)})
    with pytest.raises(InvalidInput, match="max_classes=2"):
        small.learn_many(X[:3], ["x", "y", "z"])
    assert small.n_events == 0


def changed(change: Callable[[dict[str, Any]], None]) -> State:
    contest, _, _ = learned()
    state = contest.state()
    header: Any = {**state.header, "models": [dict(each) for each in state.header["models"]]}  # type: ignore[union-attr,arg-type]
    change(header)
    return State(header, state.arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.update(champion="b"),
        lambda header: header.update(champion="x"),
        lambda header: header["models"].pop(),
        lambda header: header["models"][0].update(name="../a"),
        lambda header: header["models"][0].update(wins=10**6),
        lambda header: header["models"][0].update(began=10**6),
        lambda header: header["models"][1].update(test=3),
        lambda header: header.update(promote_after=10**6),
        lambda header: header["models"][0].update(initial=3),
        lambda header: header["models"].append(3),
        lambda header: header.update(events=3),
        lambda header: header.update(window=0),
        lambda header: header.update(classes=["same"]),
        lambda header: header.update(promotions=[{"events": 1}]),
        lambda header: header.update(promote_after="many"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change: Callable[[dict[str, Any]], None]) -> None:
    with pytest.raises(StateError):
        from_state(changed(change))
