"""Trees that are trained anew: what they know, and when; the benchmark on a few events."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="a rival: pip install scikit-learn")

from benchmarks import retrained
from benchmarks import river_battery as battery
from benchmarks.streams import Stream, load

EVERY = 20


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(retrained, "EVERY", EVERY)


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
@pytest.mark.parametrize("every", [0, 2 * EVERY])
def test_every_batch_is_answered_by_trees_of_the_labels_known_when_it_came(
    delay: int, last: int, every: int
) -> None:
    def known(start: int) -> Any:
        return found.y[: max(start - max(delay - 1, 0), 0)]

    def training(t: int) -> int:
        return t - t % (every if every and t >= every else EVERY)

    found = stream("cpusmall", 95)
    contestant = retrained._contestant(
        "sums", lambda *_: Sums(), "streamk", "", last=last, every=every
    )
    outcome = battery.run_loop(contestant, found, delay, math.inf)
    expected: list[float] = []
    for t in range(95):
        trained = known(training(t))
        before = known(t if t < EVERY else t - t % EVERY)
        if len(trained):
            expected.append(trained[-last:].sum())
        else:
            expected.append(before.mean() if len(before) else math.nan)
    np.testing.assert_allclose(outcome.guess, expected)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("Waveform", retrained.lightgbm),
        ("cpusmall", retrained.histogram),
        pytest.param("airlines_h2o_44k", retrained.lightgbm, marks=pytest.mark.nightly),
    ],
)
def test_answers_are_those_of_trees_fitted_by_hand(name: str, make: Any) -> None:
    if make is retrained.lightgbm:
        pytest.importorskip("lightgbm", reason="a rival: pip install lightgbm")
    found = stream(name, 5 * EVERY)
    contestant = retrained._contestant("trees", make, "scikit-learn", "", last=3 * EVERY)
    outcome = battery.run_loop(contestant, found, 0, math.inf)
    assert outcome.ended == ""
    for start in range(EVERY, len(found), EVERY):
        first = max(0, start - 3 * EVERY)
        X = found.table().astype(np.float64)
        by_hand = make(found.task).fit(X[first:start], found.y[first:start])
        said = by_hand.predict(X[start : start + EVERY])
        np.testing.assert_allclose(
            outcome.guess[start : start + EVERY].astype(float), said.astype(float)
        )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("part", "rivals"),
    [
        ("late", retrained.RIVALS),
        ("labels_late", retrained.INFORMED),
    ],
)
def test_a_quick_run_has_all_tables(
    part: str, rivals: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.json"
    given = ["--quick", "--out", str(out), "--streams", "elec2", "ChickWeights", "--only", part]
    field = (retrained.OURS, retrained.PLAIN, *retrained.RIVALS[:2], *rivals)
    given += ["--contestants", *(one.name for one in field)]
    retrained.run(given)
    said = capsys.readouterr()
    document = json.loads(out.read_text())
    found = document["results"][part]
    assert set(found["contestants"]) == {one.name for one in field if one.version is not None}
    assert found["against_log"][retrained.OURS.name].keys() == {"elec2"}
    assert [line for line in said.out.splitlines()[:-1] if len(line) > 100] == []
    for one in retrained.CONTESTANTS.values():
        assert (f"{one.package} not installed" in said.out) == (one.version is None)
    capsys.readouterr()
    retrained.run([*given, "--cached"])
    said = capsys.readouterr()
    assert said.err.splitlines() == [part], "all runs were kept, those of ours too"
    assert {"late": "HGB, all before", "labels_late": "HGB all + labels"}[part] in said.out
    assert "ours: % loss, 48 late" in said.out
