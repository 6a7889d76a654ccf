"""Each model by the command: predictions of the learner itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import ndjson, streamk

from streamk.learners import create
from streamk.learners.registry import LEARNERS

SMALL: dict[str, dict[str, Any]] = {
    "eigenpro": {"n_centers": 100},
    "kernel-ridge": {"max_centers": 512},
    "feature-machine": {"buffer_size": 256, "first": 128, "swap_delay": 64},
    "doubly-stochastic": {"max_features": 128, "block_size": 64},
    "online-nystrom": {"max_landmarks": 40},
}


@pytest.mark.parametrize("name", LEARNERS)
def test_from_a_file(name: str, tmp_path: Path) -> None:
    X = np.random.default_rng(3).normal(size=(600, 3)) * [1.0, 50.0, 0.1]
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other").tolist()
    rows = zip(X.tolist(), y, strict=True)
    events = [{"a": a, "b": b, "c": c, "y": label} for (a, b, c), label in rows]
    (tmp_path / "events.ndjson").write_bytes(ndjson(events))
    options = SMALL.get(name, {})
    settings = [f"--set={key}={value}" for key, value in options.items()]
    job = ("run", "file:events.ndjson", "--label", "y", "--to", "file:out.ndjson", "--quiet")
    streamk(*job, "--model", name, *settings, cwd=tmp_path)
    lines = (tmp_path / "out.ndjson").read_text("utf-8").splitlines()
    model: Any = create(name, task="classification", columns=["a", "b", "c"], **options)
    expected = [str(label) for label in model.predict_then_learn_many(X, y).predictions]
    assert [str(json.loads(line)["prediction"]) for line in lines] == expected
