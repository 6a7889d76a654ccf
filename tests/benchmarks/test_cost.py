"""Errors by cost: what is scored, what is kept, and the benchmark on a few events."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="a rival: pip install scikit-learn")

from benchmarks import cost
from benchmarks import river_battery as battery
from benchmarks.data import DataError
from benchmarks.rivals import VW, VW_PAIRS, Contestant
from benchmarks.streams import load
from streamk.learners import MultiKernel


@pytest.mark.parametrize("name", ["ImageSegments", "Bananas", "ChickWeights"])
def test_batches_are_scored_as_single_events(name: str) -> None:
    class Single:
        def __init__(self, task: str) -> None:
            task = "regression" if task == "regression" else "classification"
            self.model = MultiKernel(task=task, effort=0.0, seed=cost.SEED)

        def predict_proba_one(self, x: Any) -> Any:
            return self.model.predict_proba_one(list(x.values())) if self.model.n_events else None

        def predict_one(self, x: Any) -> Any:
            return self.model.predict_one(list(x.values()))

        def learn_one(self, x: Any, y: Any) -> None:
            self.model.learn_one(list(x.values()), y)

    stream = load(name, None, quick=True, events=200)
    contestant = Contestant("single", lambda s: Single(s.task), "streamk", "", none=True)
    clock = cost.StartClock(50)
    single = battery.run_loop(contestant, stream, 0, math.inf, clock)
    assert single.ended == ""
    assert 0 < clock.first < single.cpu_seconds
    many = cost.ours(stream, 0.0, cost.StartClock(50), 50)
    np.testing.assert_allclose(many.guess, single.guess, rtol=1e-9)
    np.testing.assert_allclose(many.p, single.p, rtol=1e-6, atol=1e-12)


def test_means_are_of_runs_that_came_to_the_end() -> None:
    def found(error: float, rate: float, **more: Any) -> dict[str, Any]:
        figures = {"error": error, "first_error": error, "loss": error, "rate": rate}
        return figures | {"start_s": 1.0, "peak_mib": 9, "revision": "a"} | more

    runs = {
        "elec2": {"no bound": found(0.1, 100.0), "effort 0": found(0.2, 900.0)},
        "letter": {"effort 0": found(0.2, 400.0), "no bound": found(0.4, 400.0)},
        "gmsc": {"effort 0": found(0.2, 100.0), "SRP, 10": found(0.1, 9.0, ended="too slow")},
    }
    said = cost.summary(runs)
    assert list(said) == ["effort 0", "no bound"]
    assert said["no bound"]["streams"] == 2
    assert said["no bound"]["error"] == pytest.approx(1.0)
    assert said["no bound"]["rate"] == pytest.approx(200.0)
    assert said["effort 0"]["error"] == 1.0
    assert cost.contestants_of(runs) == ["effort 0", "no bound", "SRP, 10"]


@pytest.mark.parametrize("value", [1e-4, 0.98765432, 9.8765432, 999.87654, 98_765.432])
def test_tables_of_all_streams_and_contestants_are_narrow(value: float) -> None:
    keys = ("error", "first_error", "loss", "rate", "start_s", "peak_mib")
    one = dict.fromkeys(keys, value) | {"revision": "abcdef01"}
    names = [*(f"effort {effort:g}" for effort in (0, 0.5, 1, 2)), cost.UNBOUND, *cost.RIVALS]
    document = {
        "results": {
            "streams": {name: {"task": "regression"} for name in cost.ALL},
            "runs": {name: dict.fromkeys(names, one) for name in cost.ALL},
        },
        "settings": {"packages": {"lightgbm": "4.6.0"}},
        "date": "2026-11-28",
        "machine": {"cpu": "CPU", "cores": 2, "vectors": ["avx2"]},
        "versions": cost.common.versions(),
    }
    lines = cost.render(document).splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) > 6 * len(cost.ALL)


def test_runs_that_are_there_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[tuple[str, str]] = []

    def fresh(_work: Any, order: Any, _environment: Any) -> dict[str, Any]:
        made.append((order["name"], order["contestant"]))
        scores = dict.fromkeys(("error", "first_error", "loss"), 0.5)
        return scores | {"rate": 10.0, "start_s": 1.0, "peak_mib": 9}

    monkeypatch.setattr(cost.common, "fresh", fresh)
    out = tmp_path / "found.json"
    given = ["--quick", "--out", str(out), "--no-rivals", "--streams"]
    cost.run([*given, "elec2", "--efforts", "0"])
    cost.run([*given, "elec2,letter", "--efforts", "0,none"])
    warm = {name: (name, cost.UNBOUND) for name in ("elec2", "letter")}
    assert made == [
        *(warm["elec2"], ("elec2", "effort 0")),
        *(warm["elec2"], ("elec2", "no bound")),
        *(warm["letter"], ("letter", "effort 0"), ("letter", "no bound")),
    ]
    cost.run([*given, "elec2,letter", "--efforts", "0,none"])
    assert len(made) == 7
    document = json.loads(out.read_text(encoding="utf-8"))
    assert cost.render(document) in capsys.readouterr().out
    with pytest.raises(DataError, match="other events of elec2"):
        cost.run([*given, "elec2", "--events", "100"])
    with pytest.raises(SystemExit):
        cost.run([*given, "elec3"])


@pytest.mark.nightly
def test_a_quick_run_has_all_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    out = tmp_path / "found.json"
    cost.run(["--quick", "--out", str(out), "--efforts", "0,1"])
    document = json.loads(out.read_text(encoding="utf-8"))
    there = {name for name, one in cost.RIVALS.items() if one.version is not None}
    for found in document["results"]["runs"].values():
        assert found.keys() == {"effort 0", "effort 1"} | there
        assert all(one["rate"] > 0 for one in found.values())
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines()[:-1])) <= 100
    assert ("lightgbm not installed" in said) == ("LightGBM" not in there)


@pytest.mark.parametrize("name", ["elec2", "letter", "cpusmall", "airlines_h2o_44k"])
@pytest.mark.parametrize("contestant", [VW, VW_PAIRS])
def test_a_file_is_learned_as_single_events(contestant: Contestant, name: str) -> None:
    pytest.importorskip("vowpalwabbit", reason="a rival: pip install vowpalwabbit")
    stream = load(name, None, quick=True, events=200)
    single = battery.run_loop(contestant, stream, 0, math.inf)
    clock = cost.StartClock(50)
    many = cost.from_file(contestant, stream, clock, 50)
    assert 0 < clock.first < many.cpu_seconds
    assert single.ended == many.ended == ""
    if stream.task == "regression":
        # VW keeps a prediction within the labels so far, of a file with the event's own.
        close = np.isclose(many.guess, single.guess, rtol=1e-4, atol=1e-4)
        assert close.mean() > 0.98
    else:
        np.testing.assert_allclose(many.p, single.p, atol=1e-5)
        assert (many.guess == single.guess).mean() > 0.98, "but for ties of six digits"
