"""The benchmark of pseudo landmarks on generated data: its tables say what it found."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from benchmarks.fast_prediction import approximation, meka_basis
from benchmarks.meka import problems
from streamk.factorization import meka


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAMK_DATA", raising=False)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("STREAMK_DATA", raising=False)
        return approximation.measure(None, quick=True)


def test_every_set_has_every_method(found: dict[str, Any]) -> None:
    assert {one["set"] for one in found["sets"]} == set(approximation.SETS)
    methods = {approximation.NYSTROM, approximation.WEIGHTED, *approximation.KINDS}
    for one in found["sets"]:
        assert set(one["lines"]) == methods
        for line in one["lines"].values():
            assert all(0.0 < of["error"]["mean"] < 1.0 for of in line.values())
    for one in found["meka"]["problems"]:
        assert set(one["bases"]) == {*meka_basis.BASES, *meka_basis.PSEUDO}


def test_tables(found: dict[str, Any]) -> None:
    text = approximation.render(found)
    assert text.count("m, errors") == text.count("m, cost") == len(approximation.SETS)
    assert text.count("k=8, c=3") == len(meka_basis.PROBLEMS)


def test_costs_are_of_one_distance(found: dict[str, Any]) -> None:
    lines = found["sets"][1]["lines"]  # 16 columns
    assert lines[approximation.NYSTROM]["5"]["cost"]["mean"] == 5 * 17 / 16
    assert lines["products"]["5"]["cost"]["mean"] == (5 * 16 + 15 + 20) / 16
    assert lines["lower"]["5"]["cost"]["mean"] == (5 * 16 + 25 * 5 + 30) / 16


def test_an_equal_error_at_equal_cost_is_1() -> None:
    nystrom = {m: {"cost": float(m), "error": 1.0 / m} for m in (2, 4, 8)}
    others = {method: {2: {"cost": 4.0, "error": 0.25}} for method in approximation.KINDS}
    weighted = {2: {"cost": 2.0 * np.sqrt(2.0), "error": 0.5}}
    lines = {approximation.NYSTROM: nystrom, approximation.WEIGHTED: weighted, **others}
    approximation._compare(lines)
    assert lines["lower"][2]["ratio"] == pytest.approx(1.0)
    assert lines[approximation.WEIGHTED][2]["ratio"] == pytest.approx(np.sqrt(2.0))


def test_without_products_the_basis_is_that_of_meka() -> None:
    problem = problems.problem("pendigits", None, 0.5, quick=True)
    problem = dataclasses.replace(problem, rank=10, clusters=3)
    ours, size = meka_basis.pseudo_meka(problem, 20, 0, 1)
    theirs = meka(problem.X, problem.kernel, basis="k_means", seed=1, **problem.options)
    assert ours.error() == pytest.approx(theirs.error(), rel=0.05)
    assert ours.nbytes == theirs.nbytes
    assert size == theirs.map_nbytes
    more, larger = meka_basis.pseudo_meka(problem, 20, 40, 1)
    assert more.error() < ours.error()
    assert more.nbytes == ours.nbytes
    assert larger == size + 3 * 40 * (8 * 10 + 4)
