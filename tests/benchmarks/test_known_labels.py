"""Rivals whose events have the labels known last: which these are, and what learns from them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="a rival: pip install scikit-learn")

from benchmarks import memory_of_streams, retrained
from benchmarks import river_battery as battery
from benchmarks.rivals import CONTESTANTS, Contestant, informed
from benchmarks.streams import LABELS, Stream, labels_before, load, with_labels

NAMES = ("elec2", "letter", "spam_sparse", "airlines_h2o_44k", "cpusmall")
"""Two classes and more, words, missing values, and numbers."""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def stream(name: str, n: int = 0) -> Stream:
    return load(name, None, quick=True, events=n)


def places(found: Stream) -> list[Any]:
    """Labels as columns have them."""
    y: list[Any] = found.y.tolist()
    return y if found.task == "regression" else [found.labels.index(label) for label in y]


class Looks:
    """Compares the columns of an event with what it has learned when it is asked."""

    def __init__(self, told: Stream) -> None:
        self.told = told
        self.asked: list[Any] = []
        self.learned: list[Any] = []

    def predict_one(self, x: Any) -> None:
        last = [self.place(y) for y in self.learned[::-1][: len(LABELS)]]
        assert [x[column] for column in LABELS if column in x] == last
        assert list(x)[len(x) - len(last) :] == list(LABELS[: len(last)])
        assert set(x) <= set(self.told.columns)
        self.asked.append(dict(x))

    predict_proba_one = predict_one

    def place(self, y: Any) -> Any:
        return y if self.told.task == "regression" else self.told.labels.index(y)

    def learn_one(self, x: Any, y: Any) -> None:
        assert x == self.asked[len(self.learned)], "as it was when it was predicted"
        self.learned.append(y)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delay", [0, 1, 2, 48])
@pytest.mark.parametrize("name", NAMES)
def test_the_columns_are_the_labels_that_were_learned_last(name: str, delay: int) -> None:
    made: list[Looks] = []

    def make(told: Stream) -> Looks:
        made.append(Looks(told))
        return made[0]

    found = stream(name, 150)
    outcome = battery.run_loop(
        informed(Contestant("looks", make, "river", ""), ""), found, delay, math.inf
    )
    assert outcome.ended == ""
    assert len(made[0].learned) == 150 - delay
    assert set(made[0].told.nominal) == (set() if found.task == "regression" else set(LABELS))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delay", [0, 1, 2, 48])
@pytest.mark.parametrize("name", NAMES)
def test_events_of_batches_have_columns_of_their_own(name: str, delay: int) -> None:
    found, seen = stream(name, 150), []

    class Keeps:
        def predict_many(self, events: Any) -> list[None]:
            seen.extend(events)
            return [None] * len(events)

        def learn_many(self, events: Any, _: Any) -> None:
            first = next(n for n, event in enumerate(seen) if event is events[0])
            assert all(a is b for a, b in zip(events, seen[first:], strict=False))

    keeps = informed(Contestant("keeps", lambda _: Keeps(), "river", "", batch=40), "")
    assert battery.run_loop(keeps, found, delay, math.inf).ended == ""
    y, plain = places(found), [x for x, _ in found.events()]
    for t, event in enumerate(seen):
        known = y[: t if not delay else max(t - delay + 1, 0)]
        assert event == plain[t] | dict(zip(LABELS, known[::-1], strict=False))


@pytest.mark.parametrize("none", [False, True])
@pytest.mark.parametrize("delay", [0, 48])
@pytest.mark.parametrize("name", NAMES)
def test_labels_of_the_future_change_no_column(name: str, delay: int, none: bool) -> None:
    found, rng = stream(name, 150), np.random.default_rng(3)
    whole = [x for x, _ in with_labels(found, delay).events(none=none)]
    for t in (0, 1, 47, 48, 49, 100, 149):
        known = t - max(delay, 1) + 1
        y = found.y.copy()
        y[max(known, 0) :] = rng.permutation(y[max(known, 0) :])
        other = [x for x, _ in with_labels(replace(found, y=y), delay).events(none=none)]
        assert other[: t + 1] == whole[: t + 1]


def test_labels_before_are_shifted() -> None:
    y = np.array([5.0, 6.0, 7.0, 8.0, 9.0])
    found = labels_before(y, 2, -1.0)
    assert found.tolist() == [[-1, -1, -1], [-1, -1, -1], [5, -1, -1], [6, 5, -1], [7, 6, 5]]
    assert memory_of_streams.last_known(y, 0).tolist() == [0, 5, 6, 7, 8]
    assert np.isnan(labels_before(y, 9)).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("name", ["letter", "elec2", "cpusmall"])
@pytest.mark.parametrize("library", ["LightGBM", "HGB"])
def test_trees_learn_from_them(
    library: str, name: str, delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library == "LightGBM":
        pytest.importorskip("lightgbm", reason="a rival: pip install lightgbm")
    monkeypatch.setattr(retrained, "EVERY", 90)
    found = stream(name, 180)
    one = replace(retrained.CONTESTANTS[f"{library} all + labels"], batch=90, alone=90)
    outcome = battery.run_loop(one, found, delay, math.inf)
    assert outcome.ended == ""
    y = np.array(places(found), float)
    X = np.column_stack([found.table().astype(float), labels_before(y, max(delay, 1))])
    nominal = [] if found.task == "regression" else [X.shape[1] - n for n in (3, 2, 1)]
    make = retrained.lightgbm if library == "LightGBM" else retrained.histogram
    known = slice(90 - max(delay - 1, 0))
    trees = make(found.task)
    if library == "HGB":
        trees.set_params(categorical_features=nominal).fit(X[known], found.y[known])
    else:
        trees.fit(X[known], found.y[known], categorical_feature=nominal)
    np.testing.assert_allclose(outcome.guess[90:], trees.predict(X[90:]).astype(float))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delay", [0, 48])
@pytest.mark.parametrize("name", ["letter", "elec2", "ChickWeights"])
@pytest.mark.parametrize(
    "model", ["River ARF + labels", "River SRP + labels", "CapyMOA ARF + labels"]
)
def test_forests_learn_from_them(model: str, name: str, delay: int) -> None:
    one, found = retrained.CONTESTANTS[model], stream(name, 100)
    if one.version is None or not one.takes(found):
        pytest.skip(f"{one.package} is not installed, or of classes alone")
    outcome = battery.run_loop(one, found, delay, math.inf)
    assert (outcome.ended, len(outcome.guess)) == ("", 100)


def test_runs_of_rivals_without_labels_are_kept_as_before() -> None:
    found = stream("elec2")
    keys = [one.key(found, 48) for one in retrained.CONTESTANTS.values()]
    assert len({str(key) for key in keys}) == len(keys)
    plain = CONTESTANTS["River ARF, 10"]
    assert plain.key(found, 48)["settings"] == "n_models=10"
    assert informed(plain, plain.name).key(found, 48) != plain.key(found, 48)


def test_a_forest_uses_the_last_label() -> None:
    """Events of noise, whose label is the opposite of the one before."""
    rng = np.random.default_rng(5)
    alternating = Stream("noise", rng.normal(size=(600, 2)), np.arange(600) % 2 == 1, ("a", "b"))
    plain = CONTESTANTS["River ARF, 10"]
    for delay in (0, 48):
        outcome = battery.run_loop(informed(plain, ""), alternating, delay, math.inf)
        assert (outcome.guess == alternating.y)[300:].mean() > 0.8
    outcome = battery.run_loop(plain, alternating, 0, math.inf)
    assert (outcome.guess == alternating.y)[300:].mean() < 0.7
