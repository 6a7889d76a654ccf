"""Kernel ridge regression that is solved for exactly as events come, and its factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamk.declared import FINITE
from streamk.errors import StateError
from streamk.kernels import Matern
from streamk.learners.rfm import ridge as solved_part
from streamk.learners.rfm.ridge import (
    ExactRidge,
    RidgeFactor,
    SingleRidge,
    SolvedPart,
    kernel_rows,
    nbytes_of,
)

KERNEL = Matern(nu=0.5, bandwidth=1.5)


def points(n: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32)


def part(capacity: int = 512, outputs: int = 2) -> SolvedPart:
    return SolvedPart(KERNEL, 0.1, capacity, n_columns=3, n_outputs=outputs)


def targets(labels: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([labels, np.sin(labels)], axis=1)


def grown(Z: NDArray[Any], sizes: tuple[int, ...]) -> RidgeFactor:
    factor, at = RidgeFactor(sum(sizes)), 0
    for size in sizes:
        factor.append(kernel_rows(KERNEL, Z, at, at + size), 1.1)
        at += size
    return factor


@pytest.mark.parametrize("sizes", [(40,), (256, 256, 75), (64,) * 9, (256, 256, 88), (32, 224, 64)])
@pytest.mark.parametrize("outputs", [1, 3, 7, 40])
def test_a_factor_is_that_of_the_whole_matrix(sizes: tuple[int, ...], outputs: int) -> None:
    n = sum(sizes)
    Y = np.random.default_rng(1).normal(size=(n, outputs))
    factor = grown(points(n), sizes)
    assert n <= len(factor) < n + 32
    found = factor.solved(Y.astype(np.float32))
    assert found.dtype == np.float32
    K = KERNEL.pairwise(points(n)) + 0.1 * np.eye(n)
    assert found == pytest.approx(np.linalg.solve(K, Y), abs=1e-3)


def test_how_rows_come_changes_no_bit_of_a_factor() -> None:
    Y = np.random.default_rng(1).normal(size=(576, 2)).astype(np.float32)
    said = [
        grown(points(576), sizes).solved(Y)
        for sizes in ((256, 256, 64), (64,) * 9, (192, 64, 32, 224, 64))
    ]
    assert np.array_equal(said[1], said[0])
    assert np.array_equal(said[2], said[0])


@pytest.mark.parametrize("outputs", [2, 7])
def test_what_was_solved_before_changes_no_bit(outputs: int) -> None:
    """Of rows whose right-hand sides are those of the last call a half of the work is known."""
    Y = np.random.default_rng(1).normal(size=(576, outputs)).astype(np.float32)
    factor = RidgeFactor(576)
    for at in range(0, 576, 64):
        factor.append(kernel_rows(KERNEL, points(576), at, at + 64), 1.1)
        some = Y[: at + 64]
        expected = grown(points(576), (64,) * (at // 64 + 1)).solved(some)
        assert np.array_equal(factor.solved(some), expected)
    for other in (Y[:100], 2.0 * Y, Y[:, :1]):  # what is known is of others
        assert np.array_equal(factor.solved(other), grown(points(576), (64,) * 9).solved(other))
    factor.clear()
    factor.append(kernel_rows(KERNEL, points(576), 0, 64), 1.1)
    assert np.array_equal(factor.solved(Y[:64]), grown(points(576), (64,)).solved(Y[:64]))


def test_a_factor_takes_the_memory_that_is_told() -> None:
    assert grown(points(300), (256, 44))._room.nbytes == nbytes_of(300)


def test_a_factor_stays_as_it_was_where_a_matrix_is_not_definite() -> None:
    Z, Y = points(128), np.ones((96, 1), np.float32)
    factor = grown(Z, (64, 64))
    factor._count = 64  # room for more
    wrong = np.ones((1, 96, 32), np.float32)
    with pytest.raises(np.linalg.LinAlgError):
        factor.append(wrong, 0.5)
    assert len(factor) == 64
    factor.append(kernel_rows(KERNEL, Z, 64, 96), 1.1)
    assert np.array_equal(factor.solved(Y), grown(Z, (64, 32)).solved(Y))


def test_coefficients_in_single_precision_are_near_the_exact_ones() -> None:
    P, Y = points(300).astype(np.float64), np.random.default_rng(2).normal(size=(300, 2))
    single = SingleRidge(KERNEL, P, Y)
    for ridge in (0.01, 1.0):  # each from the matrix, not from what the last one left of it
        exact = ExactRidge(KERNEL, P, Y).solve(ridge)
        assert single.solve(ridge) == pytest.approx(exact, rel=1e-3, abs=1e-3 / ridge**0.5)


def test_a_part_is_full_or_closed() -> None:
    one = part(capacity=150)
    assert (one.grows, one.room) == (True, 150)
    one.add(points(128), np.zeros(128), targets)
    assert (one.grows, one.room) == (False, 22)
    other = part()
    other.add(points(64), np.ones(64), targets)
    said = other.outputs(points(5))
    other.close()
    assert (other.grows, other.room) == (False, 0)
    assert np.array_equal(other.outputs(points(5)), said)


def test_rounding_closes_a_part_with_the_events_that_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = part()
    one.add(points(64), np.ones(64), targets)
    said = one.outputs(points(5))

    def fails(*_: Any) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(RidgeFactor, "append", fails)
    one.add(points(64, seed=1), np.zeros(64), targets)
    assert (len(one), one.grows) == (64, False)
    assert np.array_equal(one.outputs(points(5)), said)
    with pytest.raises(np.linalg.LinAlgError):
        part().add(points(64), np.ones(64), targets)


def read(header: Any, arrays: Any, capacity: int = 512) -> SolvedPart:
    sizes = {"columns": 3, "outputs": 2}
    options: Any = {"capacity": capacity, "sizes": sizes, "labels": FINITE, "owner": "this"}
    return SolvedPart.of(header, arrays, **options)


def test_states_are_checked() -> None:
    one = part()
    one.add(points(64), np.ones(64), targets)
    with pytest.raises(StateError, match="ridge"):
        read({**one.header(), "ridge": -1.0}, one.arrays())
    with pytest.raises(StateError, match="64 points"):
        read(one.header(), one.arrays(), capacity=32)
    few = {name: array[:40] for name, array in one.arrays().items()}
    with pytest.raises(StateError, match="40 points"):
        read(one.header(), few)
    assert not read({**one.header(), "closed": True}, few).grows


# --- more events than a part has -----------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 256 events, of which the next one has the last 128."""
    monkeypatch.setattr(solved_part, "PART", 256)
    monkeypatch.setattr(solved_part, "SHARED", 128)


def swept(Z: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    """Coefficients after a sweep of block Gauss-Seidel, of blocks that overlap by a half."""
    K, A = KERNEL.pairwise(Z) + 0.1 * np.eye(len(Z)), np.zeros_like(Y)
    for start in range(0, max(1, len(Z) - 128), 128):
        some = slice(start, min(start + 256, len(Z)))
        A[some] += np.linalg.solve(K[some, some], (Y - K @ A)[some])
    return A


@pytest.mark.parametrize("n", [64, 256, 320, 384, 640])
@pytest.mark.usefixtures("small")
def test_parts_are_solved_for_one_after_the_other(n: int) -> None:
    Z, labels, X = points(n), np.linspace(-1.0, 1.0, n), points(9, seed=3)
    one = part(capacity=1024)
    one.add(Z, labels, targets)
    assert len(one) == n
    Q = Z.astype(np.float64)
    expected = KERNEL.pairwise(X.astype(np.float64), Q) @ swept(Q, targets(labels))
    assert one.outputs(X) == pytest.approx(expected, abs=1e-4)


@pytest.mark.usefixtures("small")
def test_the_factor_is_that_of_the_last_part() -> None:
    one, sizes = part(capacity=640), []
    for n in range(10):
        one.add(points(64, seed=n), np.zeros(64), targets)
        sizes.append(one.n_last)
    assert sizes == [64, 128, 192, 128, 192, 128, 192, 128, 192, 0]
    assert (len(one), one.grows) == (640, False)


@pytest.mark.parametrize("n", [192, 256, 320, 448])
@pytest.mark.usefixtures("small")
def test_a_state_of_parts_goes_on_bit_for_bit(n: int) -> None:
    Z, labels = points(512), np.linspace(-1.0, 1.0, 512)
    one, other = part(), part()
    one.add(Z[:n], labels[:n], targets)
    again = read(one.header(), one.arrays())
    assert len(again) == n
    assert again.nbytes == one.nbytes or n > 320  # a factor is as large as its part
    assert np.array_equal(again.outputs(Z), one.outputs(Z))
    for each in (one, again):
        each.add(Z[n:], labels[n:], targets)
    for start in range(0, 512, 64):
        some = slice(start, start + 64)
        other.add(Z[some], labels[some], targets)
    for each in (again, other):
        for name, array in each.arrays().items():
            assert np.array_equal(array, one.arrays()[name]), name


@pytest.mark.usefixtures("small")
def test_classes_that_come_later_reach_all_parts() -> None:
    one = part(outputs=1)
    one.add(points(320), np.ones(320), lambda labels: labels[:, None])
    said = one.outputs(points(5))
    one.fit_outputs(lambda A: np.hstack([A, 0.0 * A]))
    assert np.array_equal(one.outputs(points(5)), np.hstack([said, 0.0 * said]))
    one.add(points(64, seed=1), np.zeros(64), targets)
    assert len(one) == 384


@pytest.mark.parametrize(
    "change",
    [{"shared": 64}, {"shared": 0}, {"shared": -1}, {"shared": "x"}],
)
@pytest.mark.usefixtures("small")
def test_shared_events_are_checked(change: Any) -> None:
    one = part()
    one.add(points(320), np.ones(320), targets)
    with pytest.raises(StateError, match="shared"):
        read({**one.header(), **change}, one.arrays())
    arrays = one.arrays()
    arrays["added"] = arrays["added"][:5]
    with pytest.raises(StateError, match="added"):
        read(one.header(), arrays)
