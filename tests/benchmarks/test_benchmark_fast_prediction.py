"""The benchmark of fast prediction on generated data: its parts run, their tables are made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.fast_prediction import __main__ as fast_prediction

pytest.importorskip("sklearn", reason="the rivals are scikit-learn's: pip install scikit-learn")


@pytest.mark.parametrize("part", ["classes", "numbers", "ablation"])
def test_a_part_runs(part: str, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    fast_prediction.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    assert document["results"][part]
    assert fast_prediction.render(document)
