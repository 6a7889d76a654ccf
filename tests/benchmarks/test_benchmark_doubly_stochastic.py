"""The benchmark of doubly stochastic gradients on generated data: parts run, tables are made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="some rivals are scikit-learn's: pip install scikit-learn")

from benchmarks.doubly_stochastic import __main__ as doubly_stochastic
from benchmarks.doubly_stochastic import race, rate, virtual
from benchmarks.doubly_stochastic.methods import METHODS
from benchmarks.doubly_stochastic.problems import Problem
from benchmarks.doubly_stochastic.steps import decreasing, inverse_time


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)


@pytest.mark.nightly
@pytest.mark.parametrize("part", list(doubly_stochastic.PARTS))
def test_a_part_runs(part: str, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    doubly_stochastic.run(["--quick", "--only", part, "--out", str(out)])
    document = json.loads(out.read_text())
    assert document["results"][part]
    text = doubly_stochastic.render(document)
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.nightly
def test_figure1_has_every_method_at_both_ends(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    doubly_stochastic.run(["--quick", "--only", "figure1", "--out", str(out)])
    found = json.loads(out.read_text())["results"]["figure1"]
    assert set(found["methods"]) == set(METHODS)
    for one in found["methods"].values():
        for run in one["runs"]:
            assert run["pass"][0] == found["events"]
            assert run["budget"][1] >= found["budget"] or run["budget"][0] >= found["events"]
            assert all(0.0 <= error <= 100.0 for _, _, error in run["curve"])


def test_a_rule_of_steps_is_the_one_that_is_named() -> None:
    assert inverse_time(3.0).size(6) == 0.5
    assert inverse_time(3.0, 2.0).size(4) == 0.5
    rule = decreasing(8.0, 1000.0)
    np.testing.assert_allclose(rule.size(1000), 8.0 / 11.0)
    np.testing.assert_array_equal(rule.sizes(3, 4), [rule.size(t) for t in range(3, 7)])


def test_the_optimum_of_the_rate_is_stationary() -> None:
    """The optimum's gradient, ``mean (f - y) k(x, .) + nu f``, vanishes at other points."""
    nu = 0.1
    X, y, other, optimum = rate.target(nu)
    K = np.exp(-rate.GAMMA * ((X[:, None] - X) ** 2).sum(axis=2))
    across = np.exp(-rate.GAMMA * ((other[:, None] - X) ** 2).sum(axis=2))
    f = K @ np.linalg.solve(K + len(X) * nu * np.eye(len(X)), y)
    gradient = across @ (f - y) / len(X) + nu * optimum
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)


def test_a_slope_is_that_of_a_power() -> None:
    t = np.array([10, 100, 1000])
    assert rate.slope(t, 5.0 / t) == pytest.approx(-1.0)


def test_a_molecule_in_another_order_has_the_same_numbers() -> None:
    random = np.random.default_rng(0)
    size = virtual.ATOMS
    rows, columns = np.triu_indices(size)
    M = random.random((3, size, size)) * 5.0
    M = M + M.transpose(0, 2, 1)
    M[:, 20:] = M[:, :, 20:] = 0.0
    found = virtual.molecules(M[:, rows, columns], random)
    for one, before in zip(found, M, strict=True):
        after = np.zeros((size, size))
        after[rows, columns] = after[columns, rows] = one
        np.testing.assert_allclose(np.linalg.eigvalsh(after), np.linalg.eigvalsh(before), atol=1e-9)
        assert not after[20:].any()
    sorted_ones = virtual.molecules(M[:, rows, columns], random, noise=0.0)
    again = virtual.molecules(sorted_ones, random, noise=0.0)
    np.testing.assert_array_equal(again, sorted_ones)


def test_images_are_bent_a_little_and_never_alike() -> None:
    picture = np.zeros((virtual.WIDTH, virtual.WIDTH), np.float32)
    picture[8:20, 12:16] = 1.0
    X = np.tile(picture.ravel(), (40, 1))
    ((made, labels),) = virtual.images(X, np.zeros(40), 40, 1)
    assert made.shape == X.shape
    assert made.dtype == np.float32
    assert len(labels) == 40
    assert len(np.unique(made, axis=0)) == 40
    assert 0.0 < np.abs(made - X).mean() < 0.2
    np.testing.assert_allclose(made.sum(axis=1).mean(), picture.sum(), rtol=0.15)
    ((again, _),) = virtual.images(X, np.zeros(40), 40, 1)
    np.testing.assert_array_equal(again, made)


def test_no_turn_and_no_field_leave_images_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "TURN", 0.0)
    images = np.random.default_rng(0).random((3, virtual.WIDTH, virtual.WIDTH)).astype(np.float32)
    found = virtual.bent(images, np.random.default_rng(1), bend=0.0)
    np.testing.assert_allclose(found, images, atol=1e-5)


def test_options_are_chosen_on_training_events_alone() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 3)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    never = np.full((5, 3), np.nan, np.float32)
    problem = Problem("some", X, y, never, np.ones(5), 2.0)
    inner = race.held_out(problem)
    assert len(inner.X) == 400
    np.testing.assert_array_equal(np.vstack([inner.X, inner.test]), X)
    chosen = race.choose(METHODS["k-SDCA"], problem)
    assert chosen["held_out"] == min(one["error"] for one in chosen["tried"])
    assert chosen["held_out"] < 25.0


def test_the_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the pictures are drawn by matplotlib")
    from benchmarks.doubly_stochastic import plots

    document = json.loads((plots.common.RESULTS / "doubly_stochastic.json").read_text())
    paths = plots.draw(document, tmp_path)
    assert len(paths) == 1 + sum(
        part in document["results"] for part in ("rate", "qm7", "mnist_hour")
    )
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")
