"""The benchmark of oASIS runs; its rivals choose what the oracle chooses."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import landmarks as naive_landmarks

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    # The benchmarks are run from the repository's root, they are not installed.
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.delenv("STREAMK_DATA", raising=False)


# --- problems -----------------------------------------------------------------------------------


def test_two_moons_and_borg() -> None:
    from benchmarks.oasis import problems

    X = problems.two_moons(2000)
    np.testing.assert_array_equal(X, problems.two_moons(2000))
    upper, lower = X[:1000], X[1000:]
    assert abs(np.hypot(*upper.T) - 1).max() < 6 * problems.NOISE
    assert abs(np.hypot(*(lower - (1.0, 0.5)).T) - 1).max() < 6 * problems.NOISE
    assert (upper[:, 1] > -0.3).all()
    assert (lower[:, 1] < 0.8).all()
    B = problems.borg()
    assert B.shape == (7680, 8)
    apart = B.reshape(256, 30, 8)
    near = np.round(apart.mean(axis=1) / problems.SIDE)
    assert len(np.unique(near, axis=0)) == 256
    assert apart.var(axis=1, ddof=1).mean() == pytest.approx(problems.VARIANCE, rel=0.02)


@pytest.mark.parametrize("columns", [2, 300])
def test_the_largest_distance(columns: int) -> None:
    from benchmarks.oasis.problems import largest_distance

    X = 5 + np.random.default_rng(1).standard_normal((1500, columns))
    assert largest_distance(X) == pytest.approx(naive_landmarks.largest_distance(X), rel=1e-6)


def test_matrices_are_the_papers() -> None:
    from benchmarks.oasis.problems import Problem, two_moons

    X, sigma = two_moons(50), 0.3
    N = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / sigma**2)
    np.testing.assert_allclose(Problem("", X, sigma).matrix(), N, rtol=1e-12)
    diffusion = Problem("", X, sigma, "diffusion").matrix()
    np.testing.assert_allclose(diffusion, naive_landmarks.diffusion_matrix(N), rtol=1e-12)
    i, j = np.random.default_rng(1).integers(0, 50, (2, 99))
    np.testing.assert_allclose(Problem("", X, sigma).entries(i, j), N[i, j], rtol=1e-12)


def test_errors() -> None:
    from benchmarks.oasis import accuracy
    from benchmarks.oasis.problems import Problem, two_moons

    problem = Problem("", two_moons(700), 0.3)
    G, F = problem.matrix(), np.random.default_rng(1).standard_normal((700, 3))
    expected = naive_landmarks.relative_error(F @ F.T, G)
    assert accuracy.relative(G, F) == pytest.approx(expected)
    sample = accuracy.Sample(problem)
    sampled = sample.relative(lambda i, j: (F[i] * F[j]).sum(axis=1))
    assert sampled == pytest.approx(expected, rel=0.03)
    assert [accuracy.text(e) for e in (2.14e-3, 0.9, 1e-16)] == ["2.1e-3", "9.0e-1", "1.0e-16"]


def test_entries_by_features_are_those_of_the_factor() -> None:
    from benchmarks.oasis import million
    from streamk.landmarks import oasis

    problem = million.moons(500, unit=True)
    landmarks = oasis(problem.X, problem.kernel, max_landmarks=10)
    i, j = np.random.default_rng(1).integers(0, 500, (2, 20_001))
    by_features = million._by_features(problem.X, landmarks.transform, i, j)
    np.testing.assert_allclose(by_features, landmarks.approximate(i, j), rtol=1e-9, atol=1e-12)


# --- rivals -------------------------------------------------------------------------------------


def test_rivals_choose_as_the_oracle_does() -> None:
    from benchmarks.oasis import rivals, speed
    from benchmarks.oasis.problems import share, two_moons

    problem = share("", two_moons(300), 0.1)
    G, column = problem.matrix(), partial(speed.column, problem.X, problem.sigma)
    oracle = naive_landmarks.oasis(G, 60, [7])
    for running in (False, True):
        ours = rivals.in_place(column, np.ones(300), 60, 7, running=running)
        assert ours.indices == oracle.indices
        np.testing.assert_allclose(ours.C, oracle.C, rtol=1e-12)
        np.testing.assert_allclose(ours.W_inverse, oracle.W_inverse, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(ours.R, oracle.C @ oracle.W_inverse, rtol=1e-5, atol=1e-7)
    indices, F = rivals.cholesky(column, np.ones(300), 60, 7)
    assert indices == oracle.indices
    np.testing.assert_allclose(F.T @ F, oracle.C @ oracle.W_inverse @ oracle.C.T, atol=1e-10)


def test_rivals_work_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.oasis import rivals

    kept: list[Any] = []

    def watched(alpha: float, x: Any, y: Any, *, a: Any, **overwrite: int) -> Any:
        changed = dger(alpha, x, y, a=a, **overwrite)
        kept.append(np.shares_memory(changed, a))
        return changed

    dger = rivals.dger
    monkeypatch.setattr(rivals, "dger", watched)
    G = np.eye(20) + 0.1
    rivals.in_place(lambda i: G[i], np.diag(G), 5, 0)
    assert kept == [True] * 10


def test_work_is_counted() -> None:
    from benchmarks.oasis import work

    n, count = 10, 4
    assert work.cholesky(n, count) == (n * count**2, 4 * n * count**2)
    assert work.paper(n, count) == (3 * n * count**2, 20 * n * count**2)
    assert work.running(n, count) == (2 * n * count**2, 12 * n * count**2)


# --- streams ------------------------------------------------------------------------------------


def test_a_reservoir_is_uniform() -> None:
    from benchmarks.oasis.streams import Reservoir
    from streamk.kernels import Gaussian

    reservoir = Reservoir(Gaussian(), 400)
    for batch in np.split(np.arange(4000.0)[:, None], 40):
        reservoir.learn_many(batch)
    kept = np.sort(reservoir.points[:, 0])
    assert len(np.unique(kept)) == 400
    # The greatest distance of the distribution from the uniform one; 1.95 / sqrt(400) is 0.1%.
    assert abs((kept + 0.5) / 4000 - (np.arange(400) + 0.5) / 400).max() < 1.95 / math.sqrt(400)


def test_admission_only() -> None:
    from benchmarks.oasis.streams import AdmissionOnly
    from streamk.kernels import Gaussian

    kernel, X = Gaussian(bandwidth=0.5), np.random.default_rng(1).random((300, 2)) * 3
    G, chosen = kernel.pairwise(X), [0]
    for i in range(1, len(X)):
        if len(chosen) < 20 and naive_landmarks.schur_complement(G, chosen, i) > 0.1:
            chosen.append(i)
    for size in (1, 64, 300):
        keeper = AdmissionOnly(kernel, 20, 0.1)
        for first in range(0, len(X), size):
            keeper.learn_many(X[first : first + size])
        np.testing.assert_array_equal(keeper.points, X[chosen])
    assert len(chosen) == 20


# --- all of it ----------------------------------------------------------------------------------


def quick(part: str, directory: Path, *arguments: object) -> Any:
    out = directory / "out.json"
    given = ["--quick", "--out", out, "--only", part, *arguments]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.oasis", *map(str, given)],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "STREAMK_DATA"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 100
    return json.loads(out.read_text(encoding="utf-8"))["results"][part]


@pytest.mark.nightly
def test_table_1(tmp_path: Path) -> None:
    found = quick("table1", tmp_path)
    assert len(found["problems"]) == 6
    for one in found["problems"]:
        errors = {name: figures["error"] for name, figures in one["methods"].items()}
        assert errors["the oracle"] == pytest.approx(errors["oASIS"], rel=0.5)
        assert all(0 < error < 1 for error in errors.values())


@pytest.mark.nightly
def test_speed(tmp_path: Path) -> None:
    found = quick("speed", tmp_path)
    assert set(found["alike"].values()) == {found["landmarks"]}
    assert len(found["seconds"]) == 12
    assert len(found["ratios"]) == 6
    assert len(found["goals"]) == 2


@pytest.mark.nightly
def test_memory(tmp_path: Path) -> None:
    found = quick("memory", tmp_path)
    assert [row["dtype"] for row in found["rows"]] == ["float64", "float32"]
    double, single = (row["nbytes"] for row in found["rows"])
    assert single == pytest.approx(double / 2, rel=0.1)
    assert found["large"]["process_bytes"] > found["large"]["bytes"]
    assert len(found["goals"]) == 3


@pytest.mark.nightly
def test_table_2(tmp_path: Path) -> None:
    found = quick("table2", tmp_path)
    assert {one["landmarks"] for one in found["methods"].values()} == {found["landmarks"]}


@pytest.mark.nightly
def test_table_3(tmp_path: Path) -> None:
    found = quick("table3", tmp_path)
    lines = found["lines"]
    assert lines["oASIS"]["landmarks"] == found["landmarks"]
    if importlib.util.find_spec("ray") is not None:
        parallel = lines["oASIS-P, two shards"]
        assert parallel["error"] == pytest.approx(lines["oASIS"]["error"], rel=1e-3)


@pytest.mark.nightly
def test_curves_and_figures(tmp_path: Path) -> None:
    found = quick("curves", tmp_path, "--figures", tmp_path / "figures")
    exact = found["recovery"]["oASIS"]
    assert exact["ranks"] == [0, 1, 2, 3]
    assert exact["errors"][-1] < 1e-14
    assert len(found["recovery"]["uniform"]) == 5
    for one in found["errors"].values():
        for curve in one["methods"].values():
            assert len(curve["errors"]) == len(curve["seconds"]) == len(one["landmarks"])
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == ["oasis_errors.png", "oasis_recovery.png", "oasis_seconds.png"]


@pytest.mark.nightly
def test_incremental(tmp_path: Path) -> None:
    from benchmarks.oasis.streams import BAR, KEEPERS, PREFIXES, SETS

    found = quick("incremental", tmp_path)
    assert list(found["sets"]) == list(SETS)
    for one in found["sets"].values():
        assert len(one["prefixes"]) == len(PREFIXES)
        for row in one["prefixes"]:
            assert list(row["errors"]) == [BAR, *KEEPERS]
            assert all(0 < figures["trace"] <= 1 for figures in row["errors"].values())
    assert len(found["goals"]) >= 4
