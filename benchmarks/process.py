"""Measurements in a fresh process, which holds nothing else: memory above all."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import common

COUNTERS = ("resident", "tracemalloc")
"""What the system counts, and what NumPy allocates (not what compiled code does for itself)."""


def fresh(module: str, order: Mapping[str, Any]) -> Any:
    """What a module prints as JSON, run as a program of its own that is given the order."""
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(order)],
        cwd=common.ROOT,
        # Whatever is large goes back to the system once it is free, and is not there to be found.
        env=os.environ | {"MALLOC_MMAP_THRESHOLD_": str(1 << 16)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def peak(work: Callable[[], Any], counter: str) -> dict[str, Any]:
    """What the work returns, its seconds, and bytes: its peak beyond what the process held before.

    Counted as resident, the peak of all of the process too.
    """
    gc.collect()
    if counter == "tracemalloc":
        tracemalloc.start()
        began = time.perf_counter()
        found = work()
        seconds = time.perf_counter() - began
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return {"found": found, "seconds": seconds, "bytes": most}
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before = resident("VmRSS")
    began = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - began
    most = resident("VmHWM")
    return {"found": found, "seconds": seconds, "bytes": most - before, "process_bytes": most}


def resident(line: str) -> int:
    """Bytes of a line of /proc/self/status: VmRSS now, VmHWM at most so far."""
    found = re.search(rf"^{line}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])
