"""Seconds of learners at two commits: both are checked out and asked, a table is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import common, revisions


@pytest.mark.nightly
@pytest.mark.slow
def test_two_commits_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (common.ROOT / ".git").exists():
        pytest.skip("needs the repository with its history")
    monkeypatch.delenv("STREAMK_DATA", raising=False)
    monkeypatch.setattr(revisions, "EVENTS", {"doubly-stochastic": {"batch": 9, "single": 9}})
    out = tmp_path / "found.json"
    revisions.run(["HEAD", "HEAD~0", "--quick", "--out", str(out)])
    document = json.loads(out.read_text())
    times = document["results"]["doubly-stochastic, single, elec2"]
    assert times.keys() == {"HEAD", "HEAD~0"}
    text = revisions.render(document)
    assert max(map(len, text.splitlines())) <= 100
