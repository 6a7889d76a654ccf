"""Each benchmark runs on a few generated events; what it measures is not looked at."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import common, page, revisions

ROOT = Path(__file__).parents[2]
QUICK = (("memory", "budget"), ("meka", "table7"), ("multi_kernel", "calibration"))
"""Runs of every day; all others are of the night."""
ELSEWHERE = {
    *("gpu", "mutation", "revisions", "river_battery", "retrained", "soak", "engine"),
    *("cost", "stream_arena"),
}
"""Those that need more than events, or have a test of their own."""


def module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.{name}")


def runs() -> list[Any]:
    found = []
    for name in page.TOPICS:
        for part in getattr(module(name), "PARTS", [None]) if name not in ELSEWHERE else ():
            marks = () if (name, part) in QUICK else (pytest.mark.nightly, pytest.mark.slow)
            found.append(pytest.param(name, part, marks=marks, id=f"{name}-{part or 'all'}"))
    return found


@pytest.fixture(autouse=True)
def from_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some run programs of their own."""
    monkeypatch.chdir(ROOT)


def quick(name: str, part: str | None, out: Path, *more: str) -> Any:
    """The document of a quick run, whose tables can be made again."""
    only = ["--only", part] if part else []
    module(name).run(["--quick", "--out", str(out), *only, *more])
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["quick"]
    assert document["versions"]["river"]
    assert module(name).render(document)
    return document["results"]


@pytest.mark.parametrize(("name", "part"), runs())
def test_a_part_runs(name: str, part: str | None, tmp_path: Path) -> None:
    if name == "serving":
        pytest.importorskip("uvicorn", reason="the server is uvicorn: pip install streamk[serve]")
    if name == "feature_machine":
        pytest.importorskip("lightgbm", reason="a rival: pip install lightgbm")
    found = quick(name, part, tmp_path / "out.json")
    assert list(found) == [part] if part else found


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.parametrize("part", ["rates", "latency"])
def test_the_engine_runs(part: str, tmp_path: Path, kafka_address: str) -> None:
    found = quick("engine", part, tmp_path / "out.json", "--kafka", kafka_address)[part]
    if part == "latency":
        for case in found["cases"]:
            for figures in case["figures"].values():
                assert 0 < figures["p50_ms"]["low"] <= figures["p99_ms"]["low"]
    else:
        # Of a broker that was not started here the share of the processor is not known.
        assert all(list(used) == ["process"] for used in found["cores"].values())


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.slow
def test_seconds_of_the_soak(kafka_address: str) -> None:
    soak = module("soak")
    found = soak.soak(module("engine").Broker(kafka_address), 3.0, "doubly-stochastic")
    assert found["events"] == found["predictions_in_topic"] > 20_000
    assert found["bad"] == found["dead_letters"]
    assert found["fates"]["joined"] > 0
    assert found["lost"] == []


@pytest.mark.nightly
@pytest.mark.slow
def test_two_commits_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (common.ROOT / ".git").exists():
        pytest.skip("needs the repository with its history")
    monkeypatch.setattr(revisions, "EVENTS", {"doubly-stochastic": {"batch": 9, "single": 9}})
    out = tmp_path / "found.json"
    revisions.run(["HEAD", "HEAD~0", "--quick", "--out", str(out)])
    document = json.loads(out.read_text())
    times = document["results"]["doubly-stochastic, single, elec2"]
    assert times.keys() == {"HEAD", "HEAD~0"}
    assert max(map(len, revisions.render(document).splitlines())) <= 100


def test_parts_of_an_earlier_run_keep_their_origin(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    quick("memory", None, out)
    document = json.loads(out.read_text(encoding="utf-8"))
    (part,) = common.kept(out).values()
    assert part["origin"]["date"] == document["date"]
    assert part["rows"] == document["results"]["budget"]["rows"]
    assert common.kept(tmp_path / "none.json") == {}
