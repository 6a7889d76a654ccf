"""The cases that have goals once more, without AVX-512: in processes of their own.

numba is told of a processor without it (`NUMBA_CPU_FEATURES`); in the second process NumPy and
BLAS do without it, too, as they would on such a machine. The goals are half of the others, and that
both predict what this process predicts, after a step of learning.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding

from benchmarks import common, hot
from benchmarks.features import batch, one
from benchmarks.hot import SAMPLERS, Case, Clock, Machine

OURS, ALL = "numba without AVX-512", "numba, NumPy and BLAS without AVX-512"
TOLERANCE = 1e-4
"""Difference of two predictions, relative to the largest one."""
CASES = (Case(4096, 54, batch.EVENTS), Case(4096, 784, batch.EVENTS))
"""What is predicted to be compared."""


def has_avx512() -> bool:
    """Whether this processor has what is to be left out."""
    return bool(binding.get_host_cpu_features().get("avx512f"))


def measure(clock: Clock, *, quick: bool) -> dict[str, Any]:
    """Goals and differences of both processes; what is lacking where there is no AVX-512."""
    if not has_avx512():
        return {"skipped": "this processor has no AVX-512: the other tables are without it"}
    found: dict[str, Any] = {"goals": {}, "difference": {}, "tolerance": TOLERANCE}
    expected = answers(quick=quick)
    for name, environment in ((OURS, _numba()), (ALL, _numba() | _numpy())):
        common.note(name)
        with tempfile.TemporaryDirectory() as directory:
            there = Path(directory) / "answers.npz"
            done = subprocess.run(
                [sys.executable, "-m", __name__, str(there), str(clock.rounds), *["quick"] * quick],
                cwd=common.ROOT,
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            with np.load(there) as file:
                differences = [_difference(file[key], F) for key, F in expected.items()]
        found["goals"][name] = json.loads(done.stdout)
        found["difference"][name] = float(f"{max(differences):.3g}")
    return found


def _difference(F: Any, expected: Any) -> float:
    return float(np.abs(F - expected).max() / np.abs(expected).max())


def _numba() -> dict[str, str]:
    features = binding.get_host_cpu_features()
    for name in features:
        if name.startswith(("avx512", "evex", "avx10")):
            features[name] = False
    return {"NUMBA_CPU_FEATURES": features.flatten()}


def _numpy() -> dict[str, str]:
    from numpy._core._multiarray_umath import __cpu_dispatch__ as found

    without = [name for name in found if name.startswith(("AVX512", "X86_V4"))]
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(without), "OPENBLAS_CORETYPE": "Haswell"}


def answers(*, quick: bool) -> dict[str, Any]:
    """What our models predict of each case."""
    found = {}
    for number, given in enumerate(CASES):
        case = given.quick() if quick else given
        for sampler in SAMPLERS:
            model = hot.model(sampler, case)
            found[f"{sampler} {number}"] = model.decision_many(hot.numbers(case).X)
    return found


def _child(path: str, rounds: str, *quick: str) -> None:
    """Measure here; the answers go to a file and the goals to the standard output."""
    np.savez(path, **answers(quick=bool(quick)))
    clock = hot.QUICK if quick else Clock(int(rounds), 0.02)
    machine = Machine(clock, 64 if quick else 2048)
    goals = []
    for part in (one, batch):
        goals += part.measure(clock, machine, quick=bool(quick), share=0.5)["goals"]
    print(json.dumps(goals))


def render(found: Mapping[str, Any]) -> str:
    """The tables of this part."""
    if "skipped" in found:
        return f"Without AVX-512: {found['skipped']}."
    tables = [hot.goals_table(goals, name) for name, goals in found["goals"].items()]
    differences = max(found["difference"].values())
    same = "yes" if differences <= found["tolerance"] else "no"
    return "\n\n".join(tables) + (
        f"\n\nThe same predictions without AVX-512, but for {found['tolerance']:g} of the largest: "
        f"{same},\nthe difference is {differences:g}."
    )


if __name__ == "__main__":
    _child(*sys.argv[1:])
