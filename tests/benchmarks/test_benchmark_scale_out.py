"""The benchmark of rounds on generated data: parts run, tables are made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scale_out import __main__ as scale_out


@pytest.mark.parametrize(
    "part", ["doubly-stochastic", pytest.param("online-nystrom", marks=pytest.mark.nightly)]
)
def test_a_part_runs(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)
    out = tmp_path / "found.json"
    scale_out.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    assert document["results"][part]["elec2"]["bytes"] > 0.0
    text = scale_out.render(document)
    assert max(map(len, text.splitlines())) <= 100


def test_shards_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)
    out = tmp_path / "found.json"
    scale_out.run(["--quick", "--only", "sharded", "--out", str(out)])
    document = json.loads(out.read_text())
    assert len(document["results"]["sharded"]["seconds"]["2"]) == 1
    text = scale_out.render(document)
    assert "4 shards, workers: 2" in text
    assert max(map(len, text.splitlines())) <= 100


def test_costs_and_many_shards_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)
    out = tmp_path / "found.json"
    parts = ["averaging", "reduction", "cost", "simulation"]
    scale_out.run(["--quick", "--only", *parts, "--out", str(out)])
    found = json.loads(out.read_text())["results"]
    assert found["averaging"]["clusters: multi-kernel"]["2"]["rounds"] == 3
    assert found["reduction"]["multi-kernel, elec2"]["2"]["merge"] > 0.0
    costs = found["cost"]["2^14 features"]["costs"]
    assert found["simulation"]["2^14 features, star"]["alone"] == 1.0 / costs["event"]
    text = scale_out.render({**json.loads(out.read_text()), "results": found})
    assert max(map(len, text.splitlines())) <= 100
