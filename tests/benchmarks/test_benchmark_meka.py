"""The benchmark of MEKA runs; its rivals are what their papers say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import meka as naive_meka

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    # The benchmarks are run from the repository's root, they are not installed.
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.delenv("STREAMK_DATA", raising=False)


def plane(n: int = 120) -> Any:
    return np.random.default_rng(1).random((n, 2))


def nearest(X: Any, rows: Any) -> Any:
    """Numbers of some rows among X."""
    return np.abs(X[None] - rows[:, None]).sum(axis=2).argmin(axis=1)


# --- problems and errors ------------------------------------------------------------------------


def test_points_are_scaled_and_whole() -> None:
    from benchmarks.meka import problems

    found = problems.problem("pendigits", None, 2.0, 128, 5, quick=True)
    assert (found.rank, found.clusters, len(found)) == (8, 3, problems.QUICK)
    assert found.X.min() == 0.0
    assert found.X.max() == 1.0
    as_it_is = problems.points("ijcnn1", None, quick=True)
    assert as_it_is.min() < -2.0
    np.testing.assert_array_equal(
        problems.unit(np.array([[1.0, 5.0], [3.0, 5.0]])), [[0, 0], [1, 0]]
    )


def test_errors_are_on_the_rows_of_meka() -> None:
    from benchmarks.meka import accuracy
    from streamk.factorization import meka
    from streamk.kernels import Gaussian

    X, kernel = plane(), Gaussian(gamma=3.0)
    found = meka(X, kernel, rank=4, n_clusters=3, dtype="float64")
    G = kernel.pairwise(X)
    every = np.arange(len(X))
    approximation = found.approximate(every[:, None], every)
    drawn = accuracy.rows(len(X), 40, 7)
    expected = np.linalg.norm((approximation - G)[drawn]) / np.linalg.norm(G[drawn])
    assert found.error(40, 7) == pytest.approx(expected)
    F = np.random.default_rng(2).random((len(X), 3))
    missed = np.linalg.norm((F @ F.T - G)[drawn]) / np.linalg.norm(G[drawn])
    assert accuracy.relative(X, kernel, F, 40, 7) == pytest.approx(missed)


# --- rivals -------------------------------------------------------------------------------------


def test_nystrom_rivals_are_the_oracles() -> None:
    from benchmarks.meka import rivals
    from streamk.kernels import Gaussian

    X, kernel, rank = plane(), Gaussian(gamma=3.0), 6
    G = kernel.pairwise(X)

    def columns(count: int, seed: Any) -> Any:
        return nearest(X, rivals._drawn(X, count, seed))

    drawn = columns(2 * rank, 1)
    C, M = G[:, drawn], G[np.ix_(drawn, drawn)]
    expected = {
        "Nys": naive_meka.nystrom(C, M, rank),
        "RNys": naive_meka.nystrom(C, M, rank),
        rivals.LATER: naive_meka.truncated_nystrom(C, M, rank),
    }
    for name, basis in expected.items():
        F = rivals.RIVALS[name](X, kernel, rank, 1).factor.astype(np.float64)
        # RNys finds leading vectors up to how far the next value is.
        tolerance = 3e-3 if name == "RNys" else 1e-5
        np.testing.assert_allclose(F @ F.T, basis.W @ basis.L @ basis.W.T, atol=tolerance)
    samples = [columns(4, [1, expert]) for expert in range(3)]
    ensemble = naive_meka.ensemble_nystrom(G, samples, rank // 3)
    F = rivals.enys(X, kernel, rank, 1).factor.astype(np.float64)
    np.testing.assert_allclose(F @ F.T, ensemble, atol=1e-5)


def test_rivals_have_the_memory_and_features_of_new_points() -> None:
    from benchmarks.meka import rivals
    from streamk.kernels import Gaussian

    X, Y, kernel, rank = plane(), plane(300)[120:], Gaussian(gamma=3.0), 12
    for name, rival in rivals.RIVALS.items():
        found = rival(X, kernel, rank, 1)
        assert found.factor.dtype == np.float32, name
        assert found.nbytes == 4 * len(X) * rank, name
        np.testing.assert_allclose(found.features(X), found.factor, atol=1e-5, err_msg=name)
        few = 0.06 if "Nys" in name else 0.9
        approximate = found.features(Y) @ found.factor.T
        assert abs(approximate - kernel.pairwise(Y, X)).mean() < few, name
    assert rivals.rank(4 * len(X) * rank + 5, len(X)) == rank


def test_random_features_are_of_the_kernel() -> None:
    from benchmarks.meka import rivals
    from streamk.kernels import Gaussian

    X, kernel = plane(), Gaussian(gamma=3.0)
    for name in ("RKS", "Fastfood"):
        F = rivals.RIVALS[name](X, kernel, 20_000, 1).factor
        assert abs(F @ F.T - kernel.pairwise(X)).mean() < 0.02, name


# --- parts --------------------------------------------------------------------------------------


def test_steps_add_up() -> None:
    from benchmarks.meka import problems, stages
    from streamk.factorization import meka

    problem = problems.Problem("", plane(), 3.0, 4, 3)
    found = stages.timed(problem, 1)
    assert min(found[step] for step in stages.STEPS) > 0
    assert stages._MODULE.meka is meka
    assert not isinstance(stages._MODULE._Plan.links, stages._Timed)


def test_ranks_of_blocks() -> None:
    from benchmarks.meka import ranks

    X = np.repeat([[0.0, 0.0], [9.0, 9.0], [9.0, 0.0]], [4, 3, 2], axis=0)
    X[0, 0] = 1.0
    found = ranks.block_ranks(X, np.repeat([0, 1], [4, 5]))
    assert found == [[2, 1], [1, 2]]
    assert ranks._ordered([[5, 1], [1, 2]]) == [[2, 1], [1, 5]]


def test_what_blocks_leave_out() -> None:
    from benchmarks.meka import structure

    G, labels = np.random.default_rng(1).random((30, 30)), np.arange(30) % 4
    expected = naive_meka.relative_error(naive_meka.block_kernel(G, labels), G)
    assert structure.outside(G, labels) == pytest.approx(expected, rel=1e-4)


def test_products_are_the_same() -> None:
    from benchmarks.meka import vectors
    from streamk.factorization import meka
    from streamk.kernels import Gaussian

    found = meka(plane(), Gaussian(gamma=3.0), rank=4, n_clusters=3)
    order = np.concatenate([found.rows(s) for s in range(3)])
    v = np.random.default_rng(1).standard_normal(len(order))
    for dtype in (np.float32, np.float64):
        product = vectors.numpy_product(found, dtype)(v[order].astype(dtype))
        np.testing.assert_allclose(product, found.matvec(v)[order], rtol=1e-3, atol=1e-3)
    W, L = 120 * 4 * 4, (3 * 16 + 3 * 16) * 4
    assert vectors.counted(found) == 2 * W + L + 16 * 120


def test_jitter_keeps_binary_columns() -> None:
    from benchmarks.meka import headline

    X = np.random.default_rng(1).random((50, 14))
    X[:, headline.NUMERIC :] = np.eye(50, 4)
    found = headline.jittered(X, 400)
    assert found.shape == (400, 14)
    assert set(np.unique(found[:, headline.NUMERIC :])) == {0.0, 1.0}
    assert len(np.unique(found[:, 0])) == 400


def test_nystrom_goes_on_until_the_error_is_reached() -> None:
    from benchmarks.meka import headline

    found = headline.reach(lambda s: lambda seed: {"error": seed * 10 / s[0]}, (1, 2, 3), 0.4, 32)
    assert [one["rank"] for one in found] == [32, 38, 45, 54]
    assert found[-1]["error"] == pytest.approx(20 / 54, rel=1e-4)
    with pytest.raises(RuntimeError, match="no rank up to"):
        headline.reach(lambda _: lambda _: {"error": 1.0}, (1,), 0.4, 32)


def test_ridge_regression_is_that_of_the_features() -> None:
    from benchmarks.meka import ridge
    from streamk.kernels import Gaussian

    X, Y = plane(), plane(150)[120:]
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    predict = ridge.with_rival("Nys", X, y, 3.0, 1, 20).path(0.1)
    found = ridge.rivals.nys(X, Gaussian(gamma=3.0), 20, 1)
    F = found.factor.astype(np.float64)
    alpha = naive_meka.ridge(F @ F.T, 0.1, y)
    np.testing.assert_allclose(predict(Y), found.features(Y) @ (F.T @ alpha), atol=1e-4)
    fit = ridge.with_meka(X, y, 3.0, 1, rank=20, clusters=2)
    exact = Gaussian(gamma=3.0).pairwise(Y, X) @ naive_meka.ridge(
        Gaussian(gamma=3.0).pairwise(X), 0.1, y
    )
    np.testing.assert_allclose(fit.path(0.1)(Y), exact, atol=0.02)


def test_what_is_chosen_is_the_best_of_the_grid() -> None:
    from benchmarks.meka import ridge

    def method(_X: Any, _y: Any, gamma: float, _seed: int) -> ridge.Fit:
        return ridge.Fit(lambda lam: lambda Y: np.full(len(Y), gamma + lam), 0)

    found = ridge.choose(method, plane(50), np.zeros(50), (-1.0, 2.0, 5.0), (-2.25, 0.5))
    assert found == {"gamma": 2.0, "lambda": -2.25, "rmse": 0.25}


def test_memory_of_the_rivals_in_ridge_regression_is_that_of_meka() -> None:
    from benchmarks.meka import ridge

    task = ridge.Task("", plane(), plane()[:, 0], 5, 3)
    X, y, *_ = task.split(1)
    found = {name: make(X, y, 3.0, 1) for name, make in ridge.methods(task, len(X)).items()}
    ours = found["MEKA"].nbytes
    for name, one in found.items():
        assert 0.5 * ours < one.nbytes <= ours, name


# --- all of it ----------------------------------------------------------------------------------


def quick(part: str, directory: Path, *arguments: object) -> Any:
    out = directory / "out.json"
    given = ["--quick", "--out", out, "--only", part, *arguments]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.meka", *map(str, given)],
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
def test_table_7(tmp_path: Path) -> None:
    from benchmarks.meka.errors import NAMES

    found = quick("table7", tmp_path)
    for one in found["problems"]:
        assert tuple(one["methods"]) == NAMES
        ours = one["methods"]["MEKA"]["nbytes"]["median"]
        assert all(m["nbytes"]["median"] <= ours for m in one["methods"].values())
    assert len(found["goals"]) == 6


@pytest.mark.nightly
def test_tables_3_and_5(tmp_path: Path) -> None:
    assert len(quick("table5", tmp_path)["problems"]) == 3
    ranks = quick("table3", tmp_path)["ranks"]
    assert [np.array(one).shape for one in ranks.values()] == [(5, 5), (5, 5)]


@pytest.mark.nightly
def test_headline(tmp_path: Path) -> None:
    found = quick("headline", tmp_path)
    (case,) = found["cases"]
    assert set(case["raced"]) == {"MEKA", *case["sequences"]}
    assert all(one[-1]["error"] <= case["aim"] for one in case["sequences"].values())
    assert len(found["goals"]) >= 8


@pytest.mark.nightly
def test_table_8(tmp_path: Path) -> None:
    found = quick("table8", tmp_path)
    assert len(found["tasks"]) == len(found["goals"]) == 5


@pytest.mark.nightly
def test_table_2(tmp_path: Path) -> None:
    found = quick("table2", tmp_path)
    assert all("LIBSVM" in one["methods"] for one in found["tasks"])


@pytest.mark.nightly
def test_matvec(tmp_path: Path) -> None:
    found = quick("matvec", tmp_path)
    assert len(found["cases"]) == 3
    assert len(found["goals"]) == 6


@pytest.mark.nightly
def test_curves_and_figures(tmp_path: Path) -> None:
    found = quick("curves", tmp_path, "--figures", tmp_path / "figures")
    assert list(found) == ["1c", "2", "3", "4", "5", "6", "7", "9", "10", "13"]
    drawn = sorted(path.stem for path in (tmp_path / "figures").iterdir())
    names = ("blocks", "choices", "clusters", "features", "gamma", "memory", "psd", "seconds")
    assert drawn == [f"meka_{name}" for name in names]


@pytest.mark.nightly
def test_streaming_and_pauses(tmp_path: Path) -> None:
    from benchmarks.meka.streaming import LEARNERS, STEPS

    found = quick("streaming", tmp_path)
    assert all(set(one["learners"]) == set(LEARNERS) for one in found["streams"].values())
    for one in found["streams"]["elec2"]["learners"].values():
        best = one["score"]["mean"]
        assert best == max(one["scores"]) == one["scores"][STEPS.index(one["step"])]
    assert len(found["goals"]) == 9
    paused = quick("pauses", tmp_path)
    assert paused["batches"] > 0
    assert paused["longest_ms"] > 0.0
