"""The benchmark of the multi-kernel learner runs, and what it leaves out is left out, then back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    # The benchmarks are run from the repository's root, they are not installed.
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.delenv("STREAMK_DATA", raising=False)


def stream(name: str, n: int = 150) -> Any:
    from benchmarks.river_battery.streams import load

    return load(name, None, quick=True, events=n)


def variant(name: str) -> Any:
    from benchmarks.multi_kernel.variants import AGAINST

    return next(v for whole, less in AGAINST for v in (whole, *less) if v.name == name)


def learned(name: str, found: Any) -> Any:
    """A variant's model after all events of a stream."""
    from benchmarks.multi_kernel import direct

    one = variant(name)
    with one.constants():
        model = direct.Direct(found, one.make)
        direct.run(model, found, one.delay)
    return model.model


# --- variants -------------------------------------------------------------------------------------


def test_patches_are_undone() -> None:
    from benchmarks.multi_kernel.variants import AGAINST

    def fail_with(one: Any) -> None:
        with one.constants():
            for owner, name, value in one.patches:
                assert getattr(owner, name) == value
            raise InterruptedError

    patches = [p for whole, less in AGAINST for one in (whole, *less) for p in one.patches]
    before = [getattr(owner, name) for owner, name, _ in patches]
    for whole, less in AGAINST:
        for one in (whole, *less):
            with pytest.raises(InterruptedError):
                fail_with(one)
    assert len(patches) == 3
    after = [getattr(owner, name) for owner, name, _ in patches]
    assert all(a is b for a, b in zip(before, after, strict=True))


def test_a_patch_is_of_something_that_is_there() -> None:
    from benchmarks.multi_kernel.variants import Variant
    from streamk.learners.multi_kernel import upkeep

    missing = Variant("", "", patches=((upkeep, "_NONE", 0),))
    with pytest.raises(AttributeError), missing.constants():
        pass


@pytest.mark.parametrize("bank", range(5))
def test_a_bank_without_a_say_sleeps(bank: int) -> None:
    from streamk.learners.multi_kernel.tables import BANKS

    model = learned(f"no {BANKS[bank]}", stream("Waveform"))
    asleep = ~model._mixture.pool.arrays["ACTIVE"]
    assert asleep.tolist() == [n == bank for n in range(5)]
    said = model.decision_one(np.zeros(len(model.columns)))
    assert model.shares(np.zeros(len(model.columns)))[BANKS[bank]] == 0
    assert said.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", ["elec2", "Waveform", "ChickWeights"])
def test_the_constant_kernel_without_a_say_prefers_nothing(name: str) -> None:
    model = learned("no constant", stream(name))
    level = model._mixture.pool.arrays["LEVEL"]
    assert len(np.unique(level)) == 1
    assert level.sum(axis=1) == pytest.approx(0 if name == "ChickWeights" else 1)
    assert len(np.unique(learned("all", stream(name))._mixture.pool.arrays["LEVEL"])) > 1


def halves(*, alike: bool) -> Any:
    """A stream of which one column matters; unless its halves are alike, that turns round."""
    from benchmarks.river_battery.streams import Stream

    X = np.random.default_rng(1).standard_normal((4000, 2))
    y = (X[:, 0] > 0) ^ (not alike and np.arange(4000) >= 2000)
    return Stream("halves", X, y, ("a", "b"))


def test_no_restarts() -> None:
    assert learned("all", halves(alike=False))._mixture.upkeep.alarms > 0
    assert learned("no restarts", halves(alike=False))._mixture.upkeep.alarms == 0


def test_no_sleeping() -> None:
    assert not learned("all", halves(alike=True))._mixture.pool.arrays["ACTIVE"].all()
    assert learned("no sleeping", halves(alike=True))._mixture.pool.arrays["ACTIVE"].all()


def test_no_forgetting() -> None:
    alphas = learned("no forgetting", stream("elec2"))._mixture.pool.arrays["ALPHAS"]
    assert alphas.max() < 1e-200
    assert learned("all", stream("elec2"))._mixture.pool.arrays["ALPHAS"].min() > 1e-4


def test_judged_at_the_label() -> None:
    found = stream("elec2")
    for name, kept in (("all, late", 48), ("judged at the label", 1)):
        model = learned(name, found)
        model._mixture.settle()  # what is said of the last event
        assert len(model._mixture.pending._kept) == kept


# --- calibration ----------------------------------------------------------------------------------


def test_calibration_error() -> None:
    from benchmarks.multi_kernel.calibration import calibration_error

    p = np.array([0.9, 0.91, 0.52, 0.55, 1.0])
    right = np.array([True, False, True, True, True])
    # 0.9 and 0.91 share a bin, 0.52 another one with 0.55's neighbour left alone, 1 is the last.
    expected = (abs(0.9 + 0.91 - 1) + abs(0.52 - 1) + abs(0.55 - 1) + 0.0) / 5
    assert calibration_error(p, right) == pytest.approx(expected)
    rng = np.random.default_rng(1)
    p = rng.uniform(0.5, 1, 100_000)
    assert calibration_error(p, rng.random(len(p)) < p) < 0.01


# --- imbalance ------------------------------------------------------------------------------------


def test_both_decisions_are_scored() -> None:
    from benchmarks.multi_kernel.imbalance import measure, render
    from benchmarks.river_battery.streams import Stream

    rng = np.random.default_rng(1)
    X = rng.standard_normal((2000, 2))
    rare = Stream("rare", X, X[:, 0] + rng.standard_normal(2000) > 2.5, ("a", "b"))
    found = measure([rare])
    one = found["streams"]["rare"]
    assert one["rarest"] == rare.y.sum() == round(2000 * (1 - one["commonest"]))
    assert one["balanced"]["balanced_accuracy"] > one["default"]["balanced_accuracy"] + 0.1
    assert one["balanced"]["accuracy"] < one["default"]["accuracy"]
    assert len(render(found).splitlines()) == 3


# --- endurance ------------------------------------------------------------------------------------


def test_stretches_of_trouble() -> None:
    from benchmarks.multi_kernel import trouble
    from benchmarks.multi_kernel.trouble import Moving, Plan

    plan = Plan(6_000, every=1_000, length=100, around=400, batch=256)
    assert plan.stretches() == [
        (1000 * (k + 1), trouble.TROUBLES[k % len(trouble.TROUBLES)]) for k in range(5)
    ]
    whole, parts = Moving(plan, 1), Moving(plan, 1)
    X, y = whole.take(6_000)
    assert (np.abs(X[1000:1100]) == np.float64(1e30)).all()
    assert (X[2000:2100, 0] == 1).all()
    assert y[3000:3100].all()
    assert 0.4 < np.isnan(X[4000:4100]).mean() < 0.6
    clean = np.ones(6_000, dtype=bool)
    for start, _ in plan.stretches():
        clean[start : start + 100] = False
    assert np.abs(X[clean]).max() < 6
    assert 0.4 < y[clean].mean() < 0.6
    parts.take(1_010)
    assert np.abs(parts.take(90)[0]).min() == 1e30
    assert np.abs(parts.take(10)[0]).max() < 6


# --- all of it ------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_quick_run(tmp_path: Path) -> None:
    from benchmarks.multi_kernel.calibration import LEVELS
    from benchmarks.multi_kernel.variants import AGAINST

    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.multi_kernel", "--quick", "--out", out],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "STREAMK_DATA"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 100
    found = json.loads(out.read_text(encoding="utf-8"))["results"]
    names = {v.name for whole, less in AGAINST for v in (whole, *less)}
    for figures in found["ablation"]["scores"].values():
        assert set(figures) == names
    for late in found["calibration"]["numbers"].values():
        assert all(
            list(one["intervals"]) == [f"{level:g}" for level in LEVELS] for one in late.values()
        )
    (of_chicks,) = found["losses"]["streams"].values()
    assert list(of_chicks["errors"]) == ["default", "squared", "huber"]
    for one in of_chicks["quantiles"].values():
        assert all(figure > 0 for said in one.values() for figure in said.values())
    for one in found["imbalance"]["streams"].values():
        assert 0 <= one["balanced"]["balanced_accuracy"] <= 1
    endured = found["endurance"]
    assert endured["probabilities"]["not_finite"] == 0
    assert 0 < endured["probabilities"]["smallest"] < endured["probabilities"]["largest"] < 1
    assert [look["events"] for look in endured["tenths"]][-1] == endured["events"]
    assert len(endured["tenths"]) == 11


def test_parts_of_an_earlier_run_keep_their_origin(tmp_path: Path) -> None:
    from benchmarks.parts import kept

    origin = {"date": "a", "revision": "b", "machine": {}, "versions": {}}
    older = {"origin": origin | {"date": "older"}}
    file = tmp_path / "results.json"
    file.write_text(json.dumps(origin | {"results": {"ablation": {"x": 1}, "calibration": older}}))
    assert kept(file) == {"ablation": {"origin": origin, "x": 1}, "calibration": older}
    assert kept(tmp_path / "none.json") == {}


def test_every_part_may_come_from_a_run_of_its_own() -> None:
    from benchmarks.common import RESULTS
    from benchmarks.multi_kernel import __main__ as multi_kernel

    document = json.loads((RESULTS / "multi_kernel.json").read_text(encoding="utf-8"))
    origin = {key: document[key] for key in ("date", "revision", "machine", "versions")}
    for part in document["results"].values():
        part["origin"] = origin
    assert len(document["results"]) == len(multi_kernel.PARTS)
    assert multi_kernel.render(document)
