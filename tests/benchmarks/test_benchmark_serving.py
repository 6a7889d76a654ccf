"""The benchmark of serving on generated data: its parts run, its tables are made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the server is uvicorn: pip install streamk[serve]")

from benchmarks.serving import __main__ as serving


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [
        "alone",
        pytest.param("beside", marks=pytest.mark.nightly),
        pytest.param("paced", marks=pytest.mark.nightly),
    ],
)
def test_a_part_runs(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)
    monkeypatch.setattr(serving, "MODELS", {"multi-kernel": serving.MODELS["multi-kernel"]})
    monkeypatch.setattr(serving, "CONNECTIONS", (1, 16))
    out = tmp_path / "found.json"
    serving.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    assert document["results"][part]["models"]["multi-kernel"]
    text = serving.render(document)
    assert max(map(len, text.splitlines())) <= 100
