"""What is learned does not depend on whether the loops were compiled just now or long ago."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_LEARN = """
import hashlib
import numpy as np
from streamk.learners import MultiKernel

rng = np.random.default_rng(0)
digest = hashlib.sha256()
for task in ("classification", "regression"):
    X = rng.standard_normal((200, 5))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(200)
    labels = y.tolist() if task == "regression" else (y > 0).tolist()
    model = MultiKernel(task=task, seed=1)
    for x, label in zip(X, labels):
        model.decision_one(x)
        model.learn_one(x, label)
    for name, array in sorted(model.state().arrays.items()):
        digest.update(name.encode() + array.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.nightly
def test_a_process_that_compiles_learns_what_the_next_one_does(tmp_path: Path) -> None:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _LEARN]
    first, second = (subprocess.check_output(command, env=env, text=True) for _ in range(2))
    assert first == second
