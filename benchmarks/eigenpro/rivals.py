"""Time to equal accuracy on MNIST, beside other libraries, on the same cores and in turn.

The rivals are fitted to all 60,000 images; ours learn them once, in random order, and the test
accuracy after each 2,048 events gives the seconds after which they reached that of each rival. Time
to test is not counted, nor to compile ours once. scikit-learn's Nyström approximation has as many
components as ours have centers and the Gaussian kernel (it has no Euclidean Laplace one) with gamma
0.02, which one of ours has, too; LightGBM has its defaults, 100 trees. The authors' PyTorch code
runs where ``--pytorch PYTHON CODE`` names an interpreter that has torch and a copy of their
repository (`authors_code`); it is given the same events, in the same order, and the same 1,000
centers. Its seconds count from the start of its setup.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.eigenpro.table2 import KERNEL, compile_loops
from benchmarks.intervals import cell, mean
from streamk.kernels import Gaussian
from streamk.learners import EigenPro

AUTHORS = "PyTorch code, 1,000 centers"
STEP = 2048
ROUNDS = 3
GAUSSIAN = Gaussian(bandwidth=5.0)
OURS: dict[str, dict[str, Any]] = {
    "direct, 500 centers": {"n_centers": 500, "solver": "direct"},
    "direct, 1,000 centers": {"n_centers": 1000, "solver": "direct"},
    "eigenpro, 1,000 centers": {"n_centers": 1000, "solver": "eigenpro"},
    "direct, 1,000, Gaussian": {"n_centers": 1000, "solver": "direct", "kernel": GAUSSIAN},
}


def measure(
    data: Directory, *, quick: bool, pytorch: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Accuracies and seconds of the rivals, and the curves of ours.

    With `pytorch`, an interpreter and a copy of the authors' repository, theirs too.
    """
    stream = load("mnist", data, quick=quick)
    rivals, ours = _rivals(), dict(OURS)
    compile_loops()
    found: dict[str, Any] = {"rivals": {name: [] for name in rivals}, "ours": {}}
    curves: dict[str, list[list[list[float]]]] = {name: [] for name in ours}
    for seed in range(1 if quick else ROUNDS):
        for name, options in ours.items():
            curves[name].append(_curve(stream, options, seed, quick=quick))
            common.note(f"  {name}: {curves[name][-1][-1]}")
        for name, make in rivals.items():
            found["rivals"][name].append(_fitted(stream, make(seed)))
            common.note(f"  {name}: {found['rivals'][name][-1]}")
        if pytorch:
            theirs = found["rivals"].setdefault(AUTHORS, [])
            theirs.append(_authors(stream, seed, pytorch, quick=quick))
            common.note(f"  PyTorch code: {theirs[-1]}")
    found["ours"] = curves
    return found


def _rivals() -> dict[str, Callable[[int], Any]]:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline

    def nystroem(seed: int) -> Any:
        points = Nystroem(gamma=0.02, n_components=1000, random_state=seed)
        return make_pipeline(points, RidgeClassifier())

    found: dict[str, Callable[[int], Any]] = {"Nystroem and RidgeClassifier": nystroem}
    if importlib.util.find_spec("lightgbm"):
        import lightgbm

        found["LightGBM"] = lambda seed: lightgbm.LGBMClassifier(random_state=seed, verbose=-1)
    return found


def _fitted(stream: Dataset, model: Any) -> dict[str, float]:
    assert stream.test is not None
    X, test = stream.X / np.float32(255), stream.test[0] / np.float32(255)
    began = time.perf_counter()
    model.fit(X, stream.y)
    seconds = time.perf_counter() - began
    right = float(np.mean(np.asarray(model.predict(test)) == stream.test[1]))
    return {"accuracy": right, "seconds": seconds}


def _ordered(stream: Dataset, seed: int, n: int) -> tuple[Any, Any]:
    """Return the order in which a seed has the events, and n of them that are centers."""
    random = np.random.default_rng(seed)
    return random.permutation(len(stream)), random.permutation(len(stream))[:n]


def _authors(
    stream: Dataset, seed: int, pytorch: tuple[str, str], *, quick: bool
) -> dict[str, Any]:
    """Return accuracy, seconds and curve of the authors' code, in a process of its own."""
    assert stream.test is not None
    python, code = pytorch
    X, (test, labels) = stream.X / np.float32(255), stream.test
    order, picks = _ordered(stream, seed, 20 if quick else 1000)
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "events.npz"
        np.savez(
            path,
            X=X[order],
            y=stream.y[order].astype(np.int64),
            centers=X[picks],
            test_X=test / np.float32(255),
            test_y=labels.astype(np.int64),
        )
        command = [python, "-m", "benchmarks.eigenpro.authors_code", code, str(path)]
        done = subprocess.run(command, cwd=common.ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _curve(
    stream: Dataset, options: Mapping[str, Any], seed: int, *, quick: bool
) -> list[list[float]]:
    """Return seconds of learning and test accuracy after each step, the centers given."""
    assert stream.test is not None
    X, test = stream.X / np.float32(255), stream.test[0] / np.float32(255)
    order, picks = _ordered(stream, seed, 20 if quick else options["n_centers"])
    found, step = [], 64 if quick else STEP
    began = time.perf_counter()
    kernel = options.get("kernel", KERNEL)
    model = EigenPro(kernel, centers=X[picks], solver=options["solver"])
    seconds = time.perf_counter() - began
    for at in range(0, len(X), step):
        rows = order[at : at + step]
        began = time.perf_counter()
        model.learn_many(X[rows], stream.y[rows])
        seconds += time.perf_counter() - began
        right = float(np.mean(np.asarray(model.predict_many(test)) == stream.test[1]))
        found.append([round(seconds, 3), right])
    return found


def render(found: Mapping[str, Any]) -> str:
    """The rivals, and for each of ours the seconds to reach them."""
    of = {
        name: {key: float(np.mean([run[key] for run in runs])) for key in ("accuracy", "seconds")}
        for name, runs in found["rivals"].items()
    }
    rows = [[name, f"{one['accuracy']:.4f}", f"{one['seconds']:.1f}"] for name, one in of.items()]
    for name, curves in found["ours"].items():
        accuracy = mean([curve[-1][1] for curve in curves])
        rows.append([name, cell(accuracy), cell(mean([curve[-1][0] for curve in curves]), 1)])
    texts = [common.table(["MNIST", "accuracy", "s"], rows)]
    rows = []
    for rival, one in of.items():
        for name, curves in found["ours"].items():
            times = [reached(curve, one["accuracy"]) for curve in curves]
            if None in times:
                rows.append([f"{rival}: {name}", f"{one['seconds']:.1f}", "not reached", ""])
                continue
            kept = mean([float(seconds or 0.0) for seconds in times])
            ratio = one["seconds"] / kept["mean"]
            rows.append(
                [f"{rival}: {name}", f"{one['seconds']:.1f}", cell(kept, 1), f"{ratio:.1f}"]
            )
    header = ["time to equal accuracy", "theirs, s", "ours, s", "times as fast"]
    return "\n\n".join([*texts, common.table(header, rows)])


def reached(curve: list[list[float]], accuracy: float) -> float | None:
    """Return the seconds after which a curve stays at an accuracy or above; None if it does not."""
    below = [place for place, (_, right) in enumerate(curve) if right < accuracy]
    first = below[-1] + 1 if below else 0
    return curve[first][0] if first < len(curve) else None
