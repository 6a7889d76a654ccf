"""Large kernel models on centers of their own, beside their paper and other learners.

table2   MNIST and FashionMNIST beside the paper, both solvers: accuracy, seconds, memory
large    the same with 10,000 centers and solver "eigenpro", of one seed
direct   the same with 10,000 random centers and solver "direct", of one seed
rivals   time to equal accuracy on MNIST, beside scikit-learn, LightGBM and the authors' code
experts  kernel-ridge and eigenpro as external experts of the default model, by the command

How each figure is taken stands above its part.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import common
from benchmarks.common import Part, cell, mean
from benchmarks.data import Dataset, Directory, load
from streamk.kernels import Gaussian, Matern
from streamk.landmarks.methods import ITERATIONS, centers_of
from streamk.learners import EigenPro

# --- experts --------------------------------------------------------------------------------------
#
# External experts of the default model, by the command: `streamk run --expert`.
#
# Without the option ("default") there is a feature machine, which the experts that are named take
# the place of. Each stream is written to a file of CSV and run as a user would. Accuracy is of all
# events predicted before they were learned, "last tenth" that of the last tenth of the predictions
# written; of numbers these are the part of the variance that is explained.

EXPERTS_SETS = (
    "covtype_subset93k",
    "letter",
    "cadata_california_housing",
    "house_16H",
    "elec2",
    "rialto",
)
EXPERTS: dict[str, tuple[str, ...]] = {
    "none": ("--expert", "none"),
    "default": (),
    "kernel-ridge": ("--expert", "kernel-ridge"),
    "kernel-ridge, all events": ("--expert", "kernel-ridge:max_centers=131072,corrections=3"),
    "eigenpro": ("--expert", "eigenpro"),
}


def measure_experts(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Scores and seconds by stream and expert."""
    found: dict[str, Any] = {}
    for name in EXPERTS_SETS:
        stream = load(name, data, quick=quick)
        if stream.y.dtype.kind == "f":
            order = np.random.default_rng(0).permutation(len(stream))
            stream = Dataset(name, stream.X[order], stream.y[order], stream.columns)
        found[name] = {"events": len(stream), "experts": {}}
        for expert, options in EXPERTS.items():
            with tempfile.TemporaryDirectory() as home:
                found[name]["experts"][expert] = _run(stream, options, Path(home))
            common.note(f"  {name}: {expert}: {found[name]['experts'][expert]}")
    return found


def _run(stream: Dataset, options: tuple[str, ...], home: Path) -> dict[str, float]:
    """What the command says, and the score of the last tenth of its predictions."""
    with (home / "events.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*stream.columns, "y"])
        for row, label in zip(stream.X.tolist(), stream.y.tolist(), strict=True):
            writer.writerow([*row, label])
    numbers = stream.y.dtype.kind == "f"
    task = ("--task", "regression" if numbers else "classification")
    job = ("run", "csv:events.csv", "--label", "y", "--to", "csv:out.csv", "--json", "--quiet")
    done = subprocess.run(
        [sys.executable, "-m", "streamk", *job, *task, *options],
        cwd=home,
        env=None,
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    with (home / "out.csv").open(newline="", encoding="utf-8") as file:
        said = [line["prediction"] for line in csv.DictReader(file)]
    last = slice(len(stream) - max(1, len(stream) // 10), None)
    return {
        "whole": _score(said, stream.y, slice(1, None), numbers=numbers),
        "last": _score(said, stream.y, last, numbers=numbers),
        "seconds": report["seconds"],
    }


def _score(said: list[str], y: Any, part: slice, *, numbers: bool) -> float:
    if numbers:
        errors = np.array([float(one) if one else 0.0 for one in said[part]]) - y[part]
        return float(1.0 - np.mean(errors**2) / np.var(y[part]))
    expected = [str(label) for label in y[part].tolist()]
    return float(np.mean([one == other for one, other in zip(said[part], expected, strict=True)]))


def render_experts(found: Mapping[str, Any]) -> str:
    """A line for each stream and expert."""
    rows = []
    for name, one in found.items():
        for expert, of in one["experts"].items():
            figures = [f"{of['whole']:.4f}", f"{of['last']:.4f}", f"{of['seconds']:,.0f}"]
            rows.append([f"{name}: {expert}", *figures])
    return common.table(["--expert", "whole", "last tenth", "s"], rows)


# --- table2 ---------------------------------------------------------------------------------------
#
# Table 2 of the paper: test accuracy on MNIST and FashionMNIST after one pass.
#
# Pixels are divided by 255, the kernel is Laplace's with bandwidth 5, which is Matérn's with nu
# 1/2, and the centers are given, as in the paper: random training images, or centres of clusters of
# all of them (30 iterations of Lloyd's for 100, 5 for more). Each training image is learned once,
# in random order. The paper's figures are of as many epochs as its authors took. Seconds are those
# of learning, and of choosing the centers apart; loops are compiled before.
#
# "chosen while it goes on" has no centers given: they are chosen among the events that came.

TABLE2_SETS = ("mnist", "fashion_mnist")
KERNEL = Matern(nu=0.5, bandwidth=5.0)
SOLVERS = ("direct", "eigenpro")
PAPER = {
    ("mnist", "random"): {100: 0.8724, 1000: 0.9496, 10_000: 0.9731},
    ("mnist", "k-means"): {100: 0.9189, 1000: 0.9596, 10_000: 0.9769},
    ("fashion_mnist", "random"): {100: 0.7624, 1000: 0.8459, 10_000: 0.8784},
    ("fashion_mnist", "k-means"): {100: 0.7866, 1000: 0.8555, 10_000: 0.8813},
}
LONG = 30
"""Iterations of k-means for few centers; for 1,000 and more there are 5."""
OWN = "chosen while it goes on"
SEEDS = 5
Numbers = NDArray[Any]


def measure_table2(
    data: Directory,
    *,
    quick: bool,
    sizes: tuple[int, ...] = (100, 1000),
    selections: tuple[str, ...] = ("random", "k-means", OWN),
    solvers: tuple[str, ...] = SOLVERS,
    seeds: int = SEEDS,
) -> dict[str, Any]:
    """Accuracy, seconds and memory by data set, selection, number of centers and solver."""
    rows = []
    compile_loops()
    for name in TABLE2_SETS:
        stream = load(name, data, quick=quick)
        assert stream.test is not None
        X, test = stream.X / np.float32(255), stream.test[0] / np.float32(255)
        for p in (12,) if quick else sizes:
            for selection in selections:
                found: dict[str, list[Mapping[str, float]]] = {solver: [] for solver in solvers}
                for seed in range(1 if quick else seeds):
                    order = np.random.default_rng(seed).permutation(len(X))
                    began = time.perf_counter()
                    Z = None if selection == OWN else _chosen(X, p, selection, seed)
                    choosing = time.perf_counter() - began
                    for solver in solvers:
                        one = _pass(X[order], stream.y[order], test, stream.test[1], Z, p, solver)
                        found[solver].append({**one, "choosing": choosing})
                for solver in solvers:
                    figures = {k: mean([f[k] for f in found[solver]]) for k in found[solver][0]}
                    row = {"set": name, "centers": p, "selection": selection, "solver": solver}
                    rows.append({**row, **figures})
                    common.note(f"  {row} {cell(figures['accuracy'])} {cell(figures['seconds'])}")
    return {"rows": rows}


def compile_loops() -> None:
    """Have every loop compiled or loaded that the models of this benchmark use."""
    X = np.random.default_rng(0).normal(size=(1024, 3)).astype(np.float32)
    for solver in SOLVERS:
        model = EigenPro(KERNEL, n_centers=100, solver=solver)
        model.learn_many(X, np.arange(1024) % 10)
        model.predict_many(X)


def _chosen(X: Numbers, p: int, selection: str, seed: int) -> Numbers:
    random = np.random.default_rng(seed + 100)
    if selection == "random":
        return X[random.permutation(len(X))[:p]]
    iterations = LONG if p < 1000 else ITERATIONS
    centers = centers_of(X.astype(np.float64), p, random, init="random", iterations=iterations)
    return centers.astype(np.float32)


def _pass(
    X: Numbers, y: Numbers, test: Numbers, expected: Numbers, Z: Numbers | None, p: int, solver: str
) -> dict[str, float]:
    centers: dict[str, Any] = {"n_centers": p} if Z is None else {"centers": Z}
    model = EigenPro(KERNEL, solver=solver, **centers)
    began = time.perf_counter()
    model.learn_many(X, y)
    model.finish()
    seconds = time.perf_counter() - began
    right = float(np.mean(np.asarray(model.predict_many(test)) == expected))
    return {"accuracy": right, "seconds": seconds, "megabytes": model.nbytes / 1e6}


def render_table2(found: Mapping[str, Any]) -> str:
    """A line for each data set, selection and number of centers, the solvers beside the paper."""
    rows: dict[tuple[str, str, int], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        key = row["set"], row["selection"], row["centers"]
        rows.setdefault(key, {})[row["solver"]] = row
    lines = []
    for (name, selection, p), of in sorted(
        rows.items(), key=lambda item: TABLE2_SETS.index(item[0][0])
    ):
        paper = PAPER.get((name, selection), {}).get(p)
        line = [f"{name} {p:,} {selection}", "" if paper is None else f"{paper:.4f}"]
        for solver in SOLVERS:
            line += (
                [
                    cell(of[solver]["accuracy"]),
                    cell(of[solver]["seconds"], 1),
                    cell(of[solver]["megabytes"], 0),
                ]
                if solver in of
                else ["", "", ""]
            )
        lines.append(line)
    header = ["one pass", "paper", "direct", "s", "MB", "eigenpro", "s", "MB"]
    return common.table(header, lines)


# --- rivals ---------------------------------------------------------------------------------------
#
# Time to equal accuracy on MNIST, beside other libraries, on the same cores and in turn.
#
# The rivals are fitted to all 60,000 images; ours learn them once, in random order, and the test
# accuracy after each 2,048 events gives the seconds after which they reached that of each rival.
# Time to test is not counted, nor to compile ours once. scikit-learn's Nyström approximation has as
# many components as ours have centers and the Gaussian kernel (it has no Euclidean Laplace one)
# with gamma 0.02, which one of ours has, too; LightGBM has its defaults, 100 trees. The authors'
# PyTorch code runs where ``--pytorch PYTHON CODE`` names an interpreter that has torch and a copy
# of their repository (`authors_code`); it is given the same events, in the same order, and the same
# 1,000 centers. Its seconds count from the start of its setup.

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


def measure_rivals(
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
        command = [python, "-m", "benchmarks.eigenpro_authors", code, str(path)]
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


def render_rivals(found: Mapping[str, Any]) -> str:
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


# --- the parts ------------------------------------------------------------------------------------

NAME = "eigenpro"


def _large(options: argparse.Namespace, solver: str, *selections: str) -> dict[str, Any]:
    """10,000 centers, one solver and one seed."""
    return measure_table2(
        options.data,
        quick=options.quick,
        sizes=(10_000,),
        selections=selections,
        solvers=(solver,),
        seeds=1,
    )


PARTS = {
    "table2": Part(lambda o: measure_table2(o.data, quick=o.quick), render_table2),
    "large": Part(lambda o: _large(o, "eigenpro", "random", "k-means"), render_table2),
    "direct": Part(lambda o: _large(o, "direct", "random"), render_table2),
    "rivals": Part(
        lambda o: measure_rivals(o.data, quick=o.quick, pytorch=o.pytorch), render_rivals
    ),
    "experts": Part(lambda o: measure_experts(o.data, quick=o.quick), render_experts),
}


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pytorch",
        nargs=2,
        metavar=("PYTHON", "CODE"),
        help="an interpreter that has torch, and a copy of github.com/EigenPro/EigenPro3",
    )


def _settings(_: argparse.Namespace) -> dict[str, Any]:
    return {"seeds": SEEDS}


render, run = common.topic(NAME, __doc__, PARTS, settings=_settings, add=_options)


if __name__ == "__main__":
    sys.exit(common.main(run))
