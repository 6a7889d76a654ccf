"""The benchmark of rounds on generated data: parts run, tables are made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.scale_out import __main__ as scale_out


@pytest.mark.parametrize("part", ["doubly-stochastic", "online-nystrom"])
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
