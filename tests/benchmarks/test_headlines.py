"""The table of a dozen figures has every row, but for those that wait for theirs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import headlines

RESULTS = Path(headlines.__file__).parent / "results"


def documents() -> dict[str, Any]:
    names = {one.results for one in headlines.HEADLINES}
    return {name: json.loads((RESULTS / f"{name}.json").read_text("utf-8")) for name in names}


def test_every_row_is_there_or_waits() -> None:
    table = headlines.render(documents())
    for one in headlines.HEADLINES:
        assert one.is_pending or f"| {one.what} |" in table


@pytest.mark.parametrize("waits", [True, False])
def test_a_row_without_figures(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    one = replace(headlines.HEADLINES[0], ours=lambda r: str(r["no such"]), is_pending=waits)
    monkeypatch.setattr(headlines, "HEADLINES", (one,))
    if waits:
        assert len(headlines.render(documents()).splitlines()) == 2
        return
    with pytest.raises(KeyError, match="no such"):
        headlines.render(documents())
