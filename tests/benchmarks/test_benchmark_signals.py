"""The benchmark of coverage and alarms: its parts run on a few events, their tables are made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("river", reason="the rivals are River's: pip install river")

from benchmarks.signals import __main__ as signals
from benchmarks.signals import alarms, coverage, jobs, rules


@pytest.mark.parametrize("part", list(signals.PARTS))
def test_a_part_runs(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ("SEA", "FriedmanDrift")
    monkeypatch.setattr(coverage, "STREAMS", {name: coverage.STREAMS[name] for name in kept})
    monkeypatch.setattr(alarms, "CHANGING", kept[:1])
    monkeypatch.setattr(jobs, "LAWS", (jobs.easy, jobs.tails))
    out = tmp_path / "found.json"
    signals.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    assert document["results"][part]
    said = {
        "coverage": "48 late: DtACI",
        "alarms": "10% to 25%: streamk",
        "jobs": "covtype, other classes: doubly-stochastic",
    }
    assert said[part] in signals.render(document)


@pytest.mark.parametrize("delay", [0, 48])
@pytest.mark.parametrize("name", list(rules.RULES))
def test_rules_hold_the_level_where_nothing_changes(name: str, delay: int) -> None:
    scores = np.abs(np.random.default_rng(1).normal(size=6000))
    given = rules.thresholds(rules.RULES[name](), scores.tolist(), delay)
    assert np.mean(scores[500:] <= given[500:]) == pytest.approx(rules.LEVEL, abs=0.02)


def test_a_rule_learns_no_score_before_its_time() -> None:
    scores = np.abs(np.random.default_rng(2).normal(size=300))
    for name, rule in rules.RULES.items():
        changed = scores.copy()
        changed[200:] = 9.0
        one, other = (rules.thresholds(rule(), some.tolist(), 48) for some in (scores, changed))
        np.testing.assert_array_equal(one[:248], other[:248], err_msg=name)


@pytest.mark.parametrize("kind", alarms.KINDS)
def test_streams_change_where_they_are_to(kind: str) -> None:
    one, other = (alarms.changed(kind, 2000, before, seed=1) for before in (1000, 2000))
    np.testing.assert_array_equal(one[:1000], other[:1000])
    assert one[1000:].mean() > other[1000:].mean()


def test_the_lowest_coverage_is_of_successive_events() -> None:
    held = np.ones(5000)
    held[1000:2000] = 0.5
    assert coverage.lowest(held) == 0.5
    assert coverage.lowest(np.array([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])) == 0.0
