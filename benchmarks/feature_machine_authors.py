"""The authors' package xrfm (pypi.org/project/xrfm), for `rivals`.

It runs in an interpreter that has xrfm and torch: ``PYTHON -m
benchmarks.feature_machine_authors DATA``, with an npz file of X, y, test_X and the
validation rows. It prints JSON: the predictions for test_X, seconds of processor time and bytes
beyond what torch itself takes. Options are the package's defaults; columns and numbers are
standardized, and a fifth of the rows is its validation set.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from pathlib import Path
from typing import Any


def run(data: Path) -> dict[str, Any]:
    """Fit and predict once."""
    import numpy as np
    import torch
    from xrfm import xRFM

    torch.manual_seed(0)
    with np.load(data) as arrays:
        X, y, test, held = (arrays[name] for name in ("X", "y", "test_X", "held"))
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    X, test = (((part - mean) / deviation).astype(np.float32) for part in (X, test))
    numbers = y.dtype.kind == "f"
    center, unit = (float(y.mean()), float(y.std())) if numbers else (0.0, 1.0)
    targets = ((y - center) / unit).astype(np.float32)[:, None] if numbers else y
    model = xRFM(device="cpu", tuning_metric="mse" if numbers else "brier", n_threads=1)
    Path("/proc/self/clear_refs").write_text("5")
    before, began = _resident("VmRSS"), time.process_time()
    model.fit(X[~held], targets[~held], X[held], targets[held])
    fitted = time.process_time() - began
    said = np.asarray(model.predict(test)).reshape(len(test), -1)[:, 0]
    return {
        "said": (said * unit + center).tolist() if numbers else said.tolist(),
        "seconds": fitted,
        "predict_seconds": time.process_time() - began - fitted,
        "bytes": _resident("VmHWM") - before,
    }


def _resident(line: str) -> int:
    found = re.search(rf"^{line}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        answer = run(Path(sys.argv[1]))
    print(json.dumps(answer))
