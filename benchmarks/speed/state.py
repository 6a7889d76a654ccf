"""Bytes of a model's state that keeps no frequencies, and seconds of importing streamk."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import common
from streamk.learners import InverseTime, create

COLUMNS, OUTPUTS = 784, 10
BLOCK, BLOCKS = 4096, (1, 4, 16)
IMPORTS = (
    "import streamk",
    "from streamk.learners import create",
    "from streamk.engine import Engine",
    "from streamk.adapters.river import KernelClassifier",
)
IMPORT_GOAL = 0.5
"""Seconds."""


def measure(rounds: int, *, quick: bool) -> dict[str, Any]:
    """State of a growing model, and imports in fresh processes."""
    blocks = BLOCKS[:2] if quick else BLOCKS
    seconds = {line: common.spread(_import(line) for _ in range(rounds)) for line in IMPORTS}
    return {"columns": COLUMNS, "outputs": OUTPUTS, "state": grow(blocks), "imports": seconds}


def grow(blocks: tuple[int, ...], **options: Any) -> list[dict[str, Any]]:
    """Bytes at several numbers of features: one event is one step, one more block.

    The model has one size of steps: of a ladder it would keep coefficients for each.
    """
    rng = np.random.default_rng(1)
    model = create(
        "doubly-stochastic",
        task="classification",
        classes=range(OUTPUTS),
        seed=1,
        cache_bytes=0,
        batch_size=1,
        block_size=BLOCK,
        max_features=BLOCK * max(blocks),
        step=InverseTime(1.0),
        **options,
    )
    found = []
    for step in range(1, max(blocks) + 1):
        model.learn_many(rng.random((1, COLUMNS), dtype=np.float32), [step % OUTPUTS])
        if step in blocks:
            state = model.learner.state()  # without the scale around it
            arrays = {name: array.nbytes for name, array in state.arrays.items()}
            coefficients = max(arrays.values())
            found.append(
                {
                    "features": model.n_features,
                    "coefficients": coefficients,
                    "bytes_a_feature_and_output": coefficients / model.n_features / OUTPUTS,
                    "other_arrays": sum(arrays.values()) - coefficients,
                    "header": len(json.dumps(state.header)),
                    "nbytes": model.learner.nbytes,
                }
            )
    return found


def _import(line: str) -> float:
    """Seconds of an import in a fresh process, the start of Python left out."""
    code = f"import time; t = time.perf_counter(); {line}; print(time.perf_counter() - t)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=common.ROOT, capture_output=True, text=True, check=True
    )
    time.sleep(0.05)
    return float(done.stdout)


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    state = common.table(
        [
            f"state, d={found['columns']}, {found['outputs']} outputs, cache_bytes=0",
            "bytes",
            "a feature and output",
            "other arrays",
            "header",
        ],
        [
            [
                f"{row['features']:,} features",
                f"{row['coefficients']:,}",
                f"{row['bytes_a_feature_and_output']:g}",
                f"{row['other_arrays']:,}",
                f"{row['header']:,}",
            ]
            for row in found["state"]
        ],
    )
    rows = [[line, *common.ranged(figure, 3)] for line, figure in found["imports"].items()]
    return f"{state}\n\n{common.table(['fresh process, seconds', 'median', 'range'], rows)}"
