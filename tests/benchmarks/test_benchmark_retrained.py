"""Trees that are trained anew: what they know, and when; the benchmark on a few events."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="a rival: pip install scikit-learn")

from benchmarks import common
from benchmarks.retrained import __main__ as retrained
from benchmarks.retrained import last_tenth, progressive, trees
from benchmarks.retrained.contestants import CONTESTANTS, of_seed
from benchmarks.river_battery import loop, scores
from benchmarks.river_battery.ours import OURS, PLAIN
from benchmarks.river_battery.streams import STREAMS, Stream, load

EVERY = 20
EVENTS = 90


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(trees, "EVERY", EVERY)


def stream(name: str, n: int = 0) -> Stream:
    return load(name, None, quick=True, events=n)


class Sums:
    """Answers with the sum of the labels that it was trained on."""

    def fit(self, X: Any, y: Any) -> Sums:
        assert len(X) == len(y)
        self.sum = float(np.sum(y))
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.sum)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("delay", [0, 1, 7, 48])
@pytest.mark.parametrize("last", [0, 30])
def test_every_batch_is_answered_by_trees_of_the_labels_known_when_it_came(
    delay: int, last: int
) -> None:
    def known(start: int) -> Any:
        return found.y[: max(start - max(delay - 1, 0), 0)]

    found = stream("cpusmall", 95)
    contestant = trees.contestant("sums", lambda _: Sums(), "streamk", "", last=last)
    outcome = loop.run(contestant, found, delay, math.inf)
    expected: list[float] = []
    for t in range(95):
        trained = known(t - t % EVERY)
        if len(trained):
            expected.append(trained[-last:].sum())
        else:
            expected.append(known(t).mean() if t < EVERY and len(known(t)) else math.nan)
    np.testing.assert_allclose(outcome.guess, expected)


def test_before_the_first_training_classes_have_their_shares() -> None:
    found = stream("letter", EVERY)
    contestant = trees.contestant("HGB", trees.histogram, "scikit-learn", "")
    model = contestant.make(found)
    assert model.predict_many([{}]) == [None]
    events = found.events()
    model.learn_many([x for x, _ in events[:4]], [3, 5, 3, 3])
    assert model.predict_many([events[4][0]]) == [{3: 0.75, 5: 0.25}]


@pytest.mark.parametrize("make", [trees.lightgbm, trees.histogram])
@pytest.mark.parametrize(
    "name",
    ["Waveform", "cpusmall", pytest.param("airlines_h2o_44k", marks=pytest.mark.nightly)],
)
def test_answers_are_those_of_trees_fitted_by_hand(name: str, make: Any) -> None:
    if make is trees.lightgbm:
        pytest.importorskip("lightgbm", reason="a rival: pip install lightgbm")
    found = stream(name, 6 * EVERY)
    contestant = trees.contestant("trees", make, "scikit-learn", "", last=3 * EVERY)
    outcome = loop.run(contestant, found, 0, math.inf)
    assert outcome.ended == ""
    for start in range(EVERY, len(found), EVERY):
        first = max(0, start - 3 * EVERY)
        X = found.table().astype(np.float64)
        by_hand = make(found.task).fit(X[first:start], found.y[first:start])
        said = by_hand.predict(X[start : start + EVERY])
        np.testing.assert_allclose(
            outcome.guess[start : start + EVERY].astype(float), said.astype(float)
        )


def test_words_are_rows_of_a_sparse_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stream("spam_sparse", 30)
    index = {column: j for j, column in enumerate(found.columns)}
    events = [x for x, _ in found.events(none=True)]
    dense = trees.rows(events, index)
    monkeypatch.setattr(trees, "DENSE", 10)
    halves = [trees.rows(events[:11], index), trees.rows(events[11:], index)]
    np.testing.assert_array_equal(trees.stacked(halves).toarray(), dense)
    np.testing.assert_array_equal(dense, found.table())


def test_ours_of_another_seed_is_the_same_stream_otherwise_learned() -> None:
    found = stream("elec2", 60)
    runs = [loop.run(of_seed(OURS, seed), found, 0, math.inf).p.tolist() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] == loop.run(OURS, found, 0, math.inf).p.tolist()
    assert runs[2] != runs[0]


def test_what_is_said_of_a_label_that_was_never_learned() -> None:
    class Model:
        classes_ = np.array([1, 4])

        def predict_proba(self, X: Any) -> Any:
            return np.array([[0.2, 0.8], [0.7, 0.3], [0.6, 0.4]])

    guess, p = last_tenth._said(Model(), np.zeros((3, 1)), np.array([4, 2, 9]), numbers=False)
    assert guess.tolist() == [4, 1, 1]
    assert p.tolist() == [0.8, 0.0, 0.0]


def test_the_last_tenth_is_scored_alone() -> None:
    pytest.importorskip("lightgbm", reason="a rival: pip install lightgbm")
    found = last_tenth.measure(None, quick=True, cached=False, names=["elec2", "ChickWeights"])
    for name, one in found.items():
        whole = stream(name)
        start = len(whole) - len(whole) // 10
        assert one["scored"] == len(whole) - start
        assert set(one["methods"]) == set(last_tenth.METHODS)
        ours = loop.run(OURS, whole, 0, math.inf)
        lost = scores.losses(ours, whole)[start:].mean()
        figure = one["methods"][OURS.name]
        assert figure.get("mae", 1 - figure.get("accuracy", 0)) == pytest.approx(lost)
        limits = {m: one["methods"][m] for m in last_tenth.LIMITS}
        losses = {m: of.get("mae", -of.get("accuracy", 0)) for m, of in limits.items()}
        assert losses[one["against"][PLAIN.name]["rival"]] == min(losses.values())


def test_what_was_not_run_and_what_was_too_slow_is_named() -> None:
    streams = {
        "elec2": {"task": "binary", "columns": 6},
        "spam_sparse": {"task": "binary", "columns": 39_916},
        "letter": {"task": "classes", "columns": 16},
        "cpusmall": {"task": "regression", "columns": 12},
    }
    everywhere: dict[str, Any] = {name: {} for name in streams}
    found: dict[str, Any] = {
        "streams": streams,
        "contestants": {name: dict(everywhere) for name in CONTESTANTS},
    }
    del found["contestants"]["HGB, all before"]["spam_sparse"]  # too wide for it
    del found["contestants"]["CapyMOA SGBT"]["cpusmall"]  # it knows no numbers
    assert progressive.missing(found) == progressive.slow(found) == ""
    del found["contestants"]["HGB, all before"]["letter"]
    del found["contestants"]["HGB, last 10,000"]
    found["contestants"]["LightGBM, all before"] = {"elec2": {}}
    found["contestants"][OURS.name]["letter"] = {"ended": "too slow", "accuracy": 0.5}
    assert progressive.missing(found) == (
        "LightGBM, all before (all but elec2); HGB, all before (letter); HGB, last 10,000"
    )
    assert progressive.slow(found) == "streamk (letter)"


def test_the_longer_streams_are_those_of_more_events_than_the_others_have() -> None:
    kept = json.loads((common.RESULTS / "retrained.json").read_text(encoding="utf-8"))
    found = kept["results"]["last_tenth"]
    lengths = {name: found[name]["events"] for name in STREAMS}
    longer = {name for name, events in lengths.items() if events > progressive.EVENTS}
    assert set(progressive.LONGER) == longer


def test_streams_of_whole_length_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progressive, "EVENTS", EVENTS)
    monkeypatch.setattr(progressive, "RIVALS", [CONTESTANTS["no change"]])
    monkeypatch.setattr(progressive, "SEEDS", 1)
    ours = replace(PLAIN, name=OURS.name)
    some = (ours, PLAIN, *(CONTESTANTS[name] for name in ("no change", "majority, mean")))
    monkeypatch.setattr(progressive, "OURS", ours)
    monkeypatch.setattr(progressive, "CONTESTANTS", {one.name: one for one in some})
    measure = partial(progressive.measure, None, quick=True, cached=False)
    names = ["letter", "elec2", "house_16H"]
    cut, whole = (measure(names=names, whole=each) for each in (False, True))
    assert list(cut["streams"]) == names
    assert list(whole["streams"]) == names[1:], "letter has no more events"
    for name in names[1:]:
        assert cut["streams"][name]["events"] == EVENTS
        length = whole["streams"][name]["events"]
        assert length == len(stream(name)) > 2 * EVENTS
        said = loop.run(CONTESTANTS["no change"], stream(name), 0, math.inf)
        late = scores.losses(said, stream(name))[EVENTS:].mean()
        figure = whole["later"]["no change"][name]
        assert figure.get("mae", 1 - figure.get("accuracy", 0)) == pytest.approx(late)
        mine = whole["later"][PLAIN.name][name]
        against = whole["later_against"][PLAIN.name][name]
        assert against["rival"] == "no change"
        better = 1 - mine["mae"] / late if "mae" in mine else mine["accuracy"] - 1 + late
        assert against["difference"] == pytest.approx(better)
    assert whole["limit_s"] > cut["limit_s"]
    mixed = measure(names=names, shuffled=True)
    assert list(mixed["streams"]) == names[1:]
    assert mixed["streams"]["elec2"]["events"] == EVENTS
    assert mixed["streams"]["elec2"]["sha256"] != cut["streams"]["elec2"]["sha256"]
    assert "random order" in progressive.render(mixed)
    assert f"from {EVENTS}" in progressive.render(whole)


@pytest.mark.nightly
def test_a_quick_run_has_all_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progressive, "SEEDS", 2)
    monkeypatch.setattr(progressive, "_CLOSE", 1.0)
    out = tmp_path / "found.json"
    given = ["--quick", "--out", str(out), "--streams", "elec2", "ChickWeights", "--only", "late"]
    retrained.run(given)
    said = capsys.readouterr()
    document = json.loads(out.read_text())
    part = document["results"]["late"]
    there = {n for n, one in CONTESTANTS.items() if one.version is not None}
    assert set(part["contestants"]) == there
    assert len(part["seeds"]["elec2"]["values"]) == 2
    assert "2 seeds of streamk, 48 late" in said.out
    assert max(map(len, said.out.splitlines()[:-1])) <= 100
    for one in CONTESTANTS.values():
        assert (f"{one.package} not installed" in said.out) == (one.version is None)
    capsys.readouterr()
    retrained.run([*given, "--cached"])
    said = capsys.readouterr()
    assert said.err.splitlines() == ["late"], "all runs were kept, those of ours too"
    assert "HGB, all before" in said.out
