"""alibi-detect's online MMD, in a Python of its own: it asks for an older NumPy than streamk's.

It is compared where STREAMK_ALIBI names that Python:

$ python -m venv alibi && alibi/bin/pip install alibi-detect torch
$ STREAMK_ALIBI=alibi/bin/python python -m benchmarks.drift --data DIR

It compares a window of the last 50 events with a reference, the first 500 of a stream. Its
thresholds are simulated for an expected run of 5,000 events without a false alarm. After an alarm
its window begins anew, the reference stays.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
from numpy.typing import NDArray

NAME = "MMDDriftOnline"
REFERENCE, WINDOW, EXPECTED, BOOTSTRAPS = 500, 50, 5_000, 10_000


def alarms(X: NDArray[np.float64], seed: int) -> list[int]:
    """Return the alarms of the detector, run by the Python that STREAMK_ALIBI names."""
    given = io.BytesIO()
    np.save(given, X)
    done = subprocess.run(
        [os.environ["STREAMK_ALIBI"], __file__, str(seed)],
        input=given.getvalue(),
        stdout=subprocess.PIPE,
        check=True,
    )
    found: list[int] = json.loads(done.stdout)
    return found


def main() -> None:
    """Write the alarms of the events that stdin has, by a seed, as JSON."""
    import torch
    from alibi_detect.cd import MMDDriftOnline

    X = np.load(io.BytesIO(sys.stdin.buffer.read()))
    torch.set_num_threads(1)
    torch.manual_seed(int(sys.argv[1]))
    reference = min(REFERENCE, len(X) // 2)
    detector = MMDDriftOnline(
        X[:reference].astype(np.float32),
        ert=EXPECTED,
        window_size=WINDOW,
        backend="pytorch",
        n_bootstraps=BOOTSTRAPS,
        device="cpu",
        verbose=False,
    )
    found = []
    for i in range(reference, len(X)):
        if detector.predict(X[i].astype(np.float32), return_test_stat=False)["data"]["is_drift"]:
            found.append(i)
            detector.reset_state()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
