"""The battery's own arithmetic, loop and kept runs; a small run of it all."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import river_battery as battery
from benchmarks.battery_tables import mean_places, paired, ranks
from benchmarks.rivals import CONTESTANTS, SEED, Contestant
from benchmarks.streams import load

STREAM = "letter"


def stream(name: str, n: int = 0) -> Any:
    return load(name, None, quick=True, events=n)


# --- the loop -----------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delay", [0, 1, 48])
@pytest.mark.parametrize("name", ["River linear", "River naive Bayes", "no change"])
def test_the_loop_is_rivers_progressive_validation(name: str, delay: int) -> None:
    from river import evaluate, metrics

    contestant, found = CONTESTANTS[name], stream(STREAM)
    outcome = battery.run_loop(contestant, found, delay, math.inf)
    assert outcome.ended == ""
    metric = metrics.Accuracy()
    evaluate.progressive_val_score(
        iter(found.events()), contestant.make(found), metric, delay=delay or None
    )
    answered = outcome.guess >= 0
    assert answered.sum() == metric.cm.n_samples
    assert (outcome.guess == found.y)[answered].mean() == pytest.approx(metric.get())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delay", [0, 1, 5, 48])
@pytest.mark.parametrize("batch", [0, 16])
def test_what_is_known_before_an_event(batch: int, delay: int) -> None:
    class Counts:
        learned = 0

        def learn_one(self, x: Any, y: Any) -> None:
            self.learned += 1

        def predict_proba_one(self, x: Any) -> dict[int, float]:
            return {self.learned: 1.0}

        def learn_many(self, events: list[Any], labels: list[Any]) -> None:
            assert len(events) == len(labels)
            self.learned += len(events)

        def predict_many(self, events: list[Any]) -> list[dict[int, float]]:
            return [{self.learned: 1.0}] * len(events)

    contestant = Contestant("counts", lambda _: Counts(), "river", "", batch=batch)
    outcome = battery.run_loop(contestant, stream(STREAM), delay, math.inf)
    starts = [t - t % (batch or 1) for t in range(280)]
    assert outcome.guess.tolist() == [max(t - max(delay, 1) + 1, 0) for t in starts]


def test_a_run_that_fails_or_is_too_slow_keeps_its_answers() -> None:
    class Fails:
        answers = 0

        def predict_proba_one(self, x: Any) -> dict[int, float]:
            self.answers += 1
            if self.answers > 9:
                raise ZeroDivisionError("no more")
            return {0: 0.5, 1: math.nan}

        def learn_one(self, x: Any, y: Any) -> None:
            pass

    contestant = Contestant("fails", lambda _: Fails(), "river", "")
    failed = battery.run_loop(contestant, stream(STREAM), 0, math.inf)
    assert failed.ended == "failed: ZeroDivisionError: no more"
    assert failed.guess.tolist() == [0] * 9
    assert set(failed.p.tolist()) <= {0.0, 0.5}
    slow = battery.run_loop(contestant, stream(STREAM), 0, -1)
    assert (slow.ended, len(slow.guess)) == ("too slow", 1)


# --- scores -------------------------------------------------------------------------------------


def outcome(guess: Any, p: Any = (), ended: str = "") -> Any:
    return battery.Outcome(np.array(guess), np.array(p), 2.0, 1.0, ended)


def test_scores_are_those_of_scikit_learn() -> None:
    from sklearn import metrics

    rng = np.random.default_rng(2)
    for name in ("gmsc", STREAM):
        found = stream(name)
        y = found.y.astype(int)
        guess = np.where(rng.random(280) < 0.6, y, rng.permutation(y))
        p = np.round(rng.random(280), 1)
        got = battery.figures_of(outcome(guess, p), found, 48)
        y, guess, p = y[48:], guess[48:], p[48:]
        assert got["accuracy"] == pytest.approx(metrics.accuracy_score(y, guess))
        assert got["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, guess))
        assert got["log_loss"] == pytest.approx(-np.log(np.maximum(p, 1e-15)).mean())
        if name == "gmsc":
            score = np.where(y, p, 1 - p)
            assert got["auc"] == pytest.approx(metrics.roc_auc_score(y, score))


def test_errors_of_numbers() -> None:
    found = stream("cpusmall", 5)
    y = found.y
    got = battery.figures_of(outcome([math.nan, y[1] + 3, y[2] - 4, y[3], y[4]]), found, 0)
    assert (got["mae"], got["rmse"]) == pytest.approx((7 / 4, 5 / 2))
    assert "mae" not in battery.figures_of(outcome([0.0, y[1], math.nan]), found, 0)


@pytest.mark.parametrize(
    ("guess", "delay", "first"),
    [([3, 3, 3], 0, 1), ([-1, -1, 3, -1, 3], 0, 2), ([3] * 9, 4, 4), ([-1, -1], 0, 2)],
)
def test_events_count_from_the_first_answer(guess: list[int], delay: int, first: int) -> None:
    assert battery.counted(outcome(guess), delay) == slice(first, len(guess))


# --- comparisons --------------------------------------------------------------------------------


def test_ranks() -> None:
    scores = {"a": 0.5, "b": 0.9, "c": 0.5, "d": -math.inf}
    assert ranks(scores, most=True) == {"b": 1, "a": 2.5, "c": 2.5, "d": 4}
    places = mean_places({"x": {"a": 1.0, "b": 2.0}, "y": {"a": 1.0, "b": 1.0}}, most=False)
    assert places == {"a": 1.25, "b": 1.75}


def test_the_bootstrap_is_that_of_pairs() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.random(50) < 0.7).astype(float), (rng.random(50) < 0.5).astype(float)
    draws = np.random.default_rng(SEED)
    means = sorted(
        sum(a[i] - b[i] for i in draws.integers(0, 50, 50).tolist()) / 50 for _ in range(201)
    )
    got = paired(a, b, rounds=201)
    assert got["difference"] == pytest.approx(a.mean() - b.mean())
    # Percentiles of 201 sorted values: the sixth from each end.
    assert (got["low"], got["high"]) == pytest.approx((means[5], means[-6]))
    assert paired(a, a)["low"] == paired(a, a)["high"] == 0


# --- kept runs ----------------------------------------------------------------------------------


def test_a_kept_run_comes_back(tmp_path: Path) -> None:
    contestant, found = CONTESTANTS["River linear"], stream(STREAM)
    key = contestant.key(found, 0)
    assert battery.kept(tmp_path, key, 9) is None
    run = outcome([3, -1, 2], [0.5, 0.0, 0.25], "too slow")
    battery.keep(tmp_path, key, 9, run)
    back = battery.kept(tmp_path, key, 9)
    assert (back.guess.tolist(), back.p.tolist()) == ([3, -1, 2], [0.5, 0.0, 0.25])
    assert (back.seconds, back.cpu_seconds, back.ended) == (2.0, 1.0, "too slow")
    assert battery.kept(tmp_path, key, 10) is None, "with more time it may get further"
    others = [
        contestant.key(found, 48),
        contestant.key(found.first(100), 0),
        contestant.key(stream("elec2"), 0),
        replace(contestant, settings="others").key(found, 0),
        CONTESTANTS["River HAT"].key(found, 0),
    ]
    assert len({battery.path(tmp_path, other) for other in (key, *others)}) == 6
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]
