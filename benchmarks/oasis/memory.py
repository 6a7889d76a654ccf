"""Memory of choosing landmarks, against the 8 n l bytes of a factor in double precision.

The peak is that of a fresh process which has done the same with fewer points, beyond what it held
before: points and all that was compiled are there. It is counted as the system does, and in another
process as tracemalloc does (arrays of NumPy); `nbytes` is what the result keeps. The last line is
the goal for n=1,000,000: the peak of all of the process. Points are Two Moons.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from benchmarks import common, hot, process
from benchmarks.oasis.problems import Problem, share, two_moons
from streamk.landmarks import oasis

CASES = ((4177, 450), (100_000, 450))
LARGE, LARGE_BYTES = (1_000_000, 500), 6e9
QUICK, QUICK_LARGE = ((2000, 32),), (4000, 32)
DTYPES = ("float64", "float32")
ALLOWED = 1.15
"""Goal: peak over n l numbers."""
WARM = (3000, 40)
ROUNDS = 3


def measure(*, quick: bool) -> dict[str, Any]:
    """Peaks by case and precision, and the large one."""
    rows, goals = [], []
    for n, count in QUICK if quick else CASES:
        for dtype in DTYPES:
            rows.append(_row(n, count, dtype, rounds=1 if quick else ROUNDS))
            goals.append(_goal(rows[-1]))
    n, count = QUICK_LARGE if quick else LARGE
    large = process.fresh(__name__, _order(n, count, "float64", "resident"))
    common.note(f"  n={n:,}: {large['process_bytes'] / 1e9:.2f} GB in {large['seconds']:.1f} s")
    goals.append(
        hot.goal(
            f"n={n:,}, {count} landmarks: the process at its peak",
            [large["process_bytes"] / 1e9],
            " GB",
            most=LARGE_BYTES / 1e9,
        )
    )
    return {"rows": rows, "large": {"n": n, "landmarks": count, **large}, "goals": goals}


def _order(n: int, count: int, dtype: str, counter: str) -> dict[str, Any]:
    return {"n": n, "landmarks": count, "dtype": dtype, "counter": counter}


def _row(n: int, count: int, dtype: str, *, rounds: int) -> dict[str, Any]:
    row: dict[str, Any] = {"n": n, "landmarks": count, "dtype": dtype, "peak_bytes": {}}
    for counter in process.COUNTERS:
        found = [process.fresh(__name__, _order(n, count, dtype, counter)) for _ in range(rounds)]
        row["peak_bytes"][counter] = common.spread(one["bytes"] for one in found)
        row |= {"nbytes": found[0]["nbytes"], "chosen": found[0]["chosen"]}
        common.note(f"  n={n:,}, {dtype}, {counter}: {found[0]['bytes'] / 1e6:.2f} MB")
    return row


def _goal(row: Mapping[str, Any]) -> dict[str, Any]:
    numbers = 8 * row["n"] * row["landmarks"]
    half = 1.0 if row["dtype"] == "float64" else 0.5
    case = f"n={row['n']:,}, {row['landmarks']} landmarks, {row['dtype']}: peak / 8 n l bytes"
    values = [value / numbers for value in row["peak_bytes"]["resident"]["values"]]
    return hot.goal(case, values, "x", most=ALLOWED * half)


def _child(order: Mapping[str, Any]) -> dict[str, Any]:
    """Choose landmarks and look at the memory."""
    options = {"dtype": order["dtype"], "seed": 0}
    _chosen(share("warm", two_moons(WARM[0]), 0.05), WARM[1], options)
    X = two_moons(order["n"])
    some = X[:: max(1, len(X) // 10_000)]  # whose largest distance is nearly that of all
    problem = Problem("Two Moons", X, share("", some, 0.05).sigma)
    found = process.peak(partial(_chosen, problem, order["landmarks"], options), order["counter"])
    landmarks = found.pop("found")
    return {**found, "nbytes": landmarks.nbytes, "chosen": len(landmarks)}


def _chosen(problem: Problem, count: int, options: Mapping[str, Any]) -> Any:
    return oasis(problem.X, problem.kernel, max_landmarks=count, **options)


def render(found: Mapping[str, Any]) -> str:
    """Peaks over 8 n l, then the goals."""
    rows = []
    for row in found["rows"]:
        unit = 8 * row["n"] * row["landmarks"]
        cells = [f"{row['peak_bytes'][c]['median'] / 1e6:,.2f}" for c in process.COUNTERS]
        name = f"n={row['n']:,}, {row['landmarks']} landmarks, {row['dtype']}"
        rows.append([name, f"{unit / 1e6:,.2f}", *cells, f"{row['nbytes'] / 1e6:,.2f}"])
    header = ["memory, MB", "8 n l", *process.COUNTERS, "nbytes"]
    large = found["large"]
    text = (
        f"n={large['n']:,}, {large['chosen']} landmarks: {large['seconds']:.1f} s, "
        f"{large['bytes'] / 1e9:.2f} GB beyond the process's,\n"
        f"which is at most {large['process_bytes'] / 1e9:.2f} GB."
    )
    return "\n\n".join([common.table(header, rows), text, hot.goals_table(found["goals"])])


if __name__ == "__main__":
    print(json.dumps(_child(json.loads(sys.argv[1]))))
