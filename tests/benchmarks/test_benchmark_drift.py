"""The benchmark of drift detectors: its parts run on a few events, their tables are made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("river", reason="the rivals are River's: pip install river")

from benchmarks.drift import __main__ as drift
from benchmarks.drift import blocks, delays


@pytest.mark.parametrize("part", list(drift.PARTS))
def test_a_part_runs(part: str, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    drift.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    assert document["results"][part]
    assert {"events": "lists of texts"}.get(part, "MMDDrift") in drift.render(document)


@pytest.mark.parametrize("kind", delays.KINDS)
def test_streams_change_where_they_are_to(kind: str) -> None:
    one, other = (delays.changed(kind, 400, before, seed=1) for before in (200, 400))
    np.testing.assert_array_equal(one[:200], other[:200])
    assert (one[200:] != other[200:]).any()


def test_blocks_stay_together() -> None:
    places = blocks.shuffled(103, 10)
    assert sorted(places) == list(range(103))
    assert np.mean(np.diff(places) == 1) > 0.85
