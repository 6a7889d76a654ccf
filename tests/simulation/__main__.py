"""Run seeds of the simulator: ``python -m tests.simulation --seeds 10000``."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from .runs import Verdict, simulate


def main() -> int:
    """Run seeds, count the faults they met, and list those that fail. 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=300, help="how many (300)")
    parser.add_argument("--first", type=int, default=0, help="the first one (0)")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--trace", action="store_true", help="print each step")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--transactions", action="store_true", help="jobs write in transactions")
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    if chosen.seed is not None:
        seeds = range(chosen.seed, chosen.seed + 1)
    faults: Counter[str] = Counter()
    kinds: dict[str, list[int]] = {}
    failed, began = 0, time.monotonic()
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as root:
        one = partial(_simulated, Path(root), chosen.trace, chosen.transactions)
        for verdict in _all(one, seeds, chosen.jobs):
            faults += verdict.faults
            if verdict.problems:
                failed += 1
                print(verdict, flush=True)
                for kind in {problem.kind for problem in verdict.problems}:
                    kinds.setdefault(kind, []).append(verdict.seed)
    seconds = time.monotonic() - began
    print(f"{len(seeds)} seeds in {seconds:.0f} s, {1000 * seconds / len(seeds):.0f} ms each")
    print("faults met:", ", ".join(f"{kind} {n:,}" for kind, n in faults.most_common()))
    for kind, found in sorted(kinds.items()):
        print(f"{kind}: {len(found)} seeds, such as {', '.join(map(str, found[:8]))}")
    print(f"{failed} of {len(seeds)} seeds failed")
    return 1 if failed else 0


def _simulated(root: Path, trace: bool, transactions: bool, seed: int) -> Verdict:
    told = print if trace else None
    return simulate(seed, root / str(seed), trace=told, transactions=transactions)


def _all(one: Callable[[int], Verdict], seeds: range, jobs: int) -> Iterator[Verdict]:
    """Run all seeds, in their order, by so many processes."""
    if jobs == 1:
        yield from map(one, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(one, seeds, chunksize=8)


if __name__ == "__main__":
    sys.exit(main())
