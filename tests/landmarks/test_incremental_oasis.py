"""Landmarks on a stream against the oracle; their factor, their state, and a long life."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from reference import landmarks as naive_landmarks
from reference import naive

from streamk.errors import InvalidInput, StateError
from streamk.kernels import (
    NTK,
    Cauchy,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    PowerExponential,
    RationalQuadratic,
)
from streamk.landmarks import Admission, IncrementalOasis, Removal, carried
from streamk.landmarks.incremental import GrowingCholesky
from streamk.state import State


def normal(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def drifting(n: int, d: int, seed: int = 0) -> np.ndarray:
    return normal(n, d, seed) * 0.3 + np.linspace(0.0, 8.0, n)[:, None]


def arrays(landmarks: IncrementalOasis) -> dict[str, np.ndarray]:
    return landmarks.state().arrays


def same(a: IncrementalOasis, b: IncrementalOasis) -> bool:
    """Whether two are in the same state, bit for bit."""
    first, second = a.state(), b.state()
    return first.header == second.header and all(
        np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays
    )


def schur(kernel: Kernel, points: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Schur complements of X given the points, by the textbook."""
    K = kernel.pairwise(points, X)
    return 1.0 - (K * np.linalg.solve(kernel.pairwise(points), K)).sum(axis=0)


def named(change: Admission | Removal, n_landmarks: int) -> tuple[str, int]:
    """A change as the oracle tells it."""
    if isinstance(change, Removal):
        return "removal", change.position
    return "admission", n_landmarks


# --- the choice -----------------------------------------------------------------------------

CASES = {
    "gaussian": (Gaussian(bandwidth=1.5), naive.Kernel("gaussian", 1.5), {}),
    "every gain counts": (Gaussian(bandwidth=1.5), naive.Kernel("gaussian", 1.5), {"margin": 0.0}),
    "a high tolerance": (Laplacian(bandwidth=3.0), naive.Kernel("laplacian", 3.0), {"tol": 0.3}),
    "forgetting": (
        Matern(nu=1.5, bandwidth=2.0),
        naive.Kernel("matern", 2.0, 1.5),
        {"half_life": 40.0, "margin": 0.5},
    ),
    "neural tangents": (NTK(depth=2, bandwidth=0.5), naive.Kernel("ntk", 0.5, 2), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_choice_is_the_oracles_event_by_event(case):
    kernel, plain_kernel, options = CASES[case]
    X = np.vstack([normal(100, 3), drifting(150, 3)])
    ours = IncrementalOasis(kernel, max_landmarks=20, **options)
    oracle = naive_landmarks.Incremental(
        lambda a, b: naive_landmarks.kernel_matrix(plain_kernel, a, b),
        20,
        **{"margin": 0.5, **options},
    )
    removals = 0
    for x in X:
        before = ours.n_landmarks
        told = [named(change, before) for change in ours.learn_one(x)]
        assert told == oracle.learn_one(x)
        removals += len(told) == 2
    assert np.array_equal(ours.points, np.array(oracle.points))
    assert removals > 5
    assert ours.n_events == 250
    assert ours.n_removed == removals
    assert ours.n_admitted == removals + ours.n_landmarks


@pytest.mark.parametrize("half_life", [None, 100.0])
def test_however_a_stream_is_cut_and_gone_on_with_the_bits_are_the_same(half_life):
    X = drifting(350, 4, seed=3)

    def after(cuts: list[int]) -> IncrementalOasis:
        landmarks = IncrementalOasis(
            Gaussian(bandwidth=2.0), max_landmarks=37, half_life=half_life, margin=0.1
        )
        for start, stop in itertools.pairwise([0, *cuts, len(X)]):
            landmarks.learn_many(X[start:stop])
            landmarks = IncrementalOasis.from_state(landmarks.state())
        return landmarks

    whole = after([])
    assert whole.n_removed > 20
    by_one = after(list(range(1, 350)))
    assert same(whole, by_one)
    assert np.array_equal(whole.transform(X), by_one.transform(X))
    random = np.random.default_rng(1)
    for _ in range(3):
        assert same(whole, after(sorted(random.integers(0, 350, 15).tolist())))


@pytest.mark.parametrize("d", [0, 1, 8])
@pytest.mark.parametrize(("tol", "room"), [(0.0, 300), (0.01, 20)])
def test_a_beginning_is_that_of_events_one_after_the_other(d, tol, room):
    options = {"max_landmarks": room, "tol": tol, "margin": None}
    X = normal(120, d)
    X[60:] = X[:60] + 1e-7 * normal(60, d, seed=1)
    for n in (0, 1, 50, 120):
        begun, followed = (IncrementalOasis(Gaussian(bandwidth=0.5), **options) for _ in "ab")
        taken = begun.begin(X[:n])
        admitted = [some.start for some, changes, *_ in followed.follow(X[:n]) if changes]
        assert taken.tolist() == admitted
        assert begun.state().header == followed.state().header
        for name, array in arrays(followed).items():
            # Inverses of what is near rounding have few digits.
            digits = 1e-3 if name == "inverse_diagonal" else 1e-6
            np.testing.assert_allclose(arrays(begun)[name], array, rtol=digits, atol=1e-9)
        probe = normal(30, d, seed=2)
        assert begun.learn_many(probe) == followed.learn_many(probe)


@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(),
        Laplacian(),
        PowerExponential(),
        Matern(nu=2.5),
        Cauchy(),
        RationalQuadratic(alpha=1.5),
        NTK(),
    ],
    ids=lambda kernel: kernel.name,
)
def test_points_and_coordinates_of_every_kernel_are_those_of_its_matrix(kernel):
    X, Y, half_life = drifting(300, 3), normal(50, 3, seed=1), 60.0
    landmarks = IncrementalOasis(kernel, max_landmarks=30, half_life=half_life, margin=0.5)
    landmarks.learn_many(X)
    oracle = naive_landmarks.Incremental(kernel.pairwise, 30, half_life=half_life, margin=0.5)
    for x in X:
        oracle.learn_one(x)
    assert np.array_equal(landmarks.points, np.array(oracle.points))
    Phi, inverse = landmarks.transform(Y), np.linalg.inv(kernel.pairwise(landmarks.points))
    K = kernel.pairwise(Y, landmarks.points)
    np.testing.assert_allclose(Phi @ Phi.T, K @ inverse @ K.T, atol=1e-10)
    found = arrays(landmarks)["inverse_diagonal"]
    np.testing.assert_allclose(found, np.diag(inverse), rtol=1e-9)


def test_what_is_known_already_is_refused():
    X = np.repeat(normal(30, 3), 5, axis=0)
    landmarks = IncrementalOasis(Gaussian(bandwidth=0.5), max_landmarks=100, tol=0.0)
    landmarks.learn_many(X)
    assert landmarks.n_landmarks == 30
    assert landmarks.learn_many(X[::-1]) == []
    assert landmarks.n_events == 300


@pytest.mark.parametrize("half_life", [None, 20.0])
def test_a_tolerance_below_rounding_ends_at_rounding(half_life):
    # So smooth a kernel has far fewer dimensions in double precision than there is room for.
    landmarks = IncrementalOasis(
        Gaussian(bandwidth=8.0), max_landmarks=200, tol=0.0, half_life=half_life, margin=0.0
    )
    landmarks.learn_many(normal(3000, 2))
    assert landmarks.n_landmarks < 100
    Phi = landmarks.transform(normal(40, 2, seed=5))
    assert np.isfinite(Phi).all()
    assert abs(Phi @ Phi.T - Gaussian(bandwidth=8.0).pairwise(normal(40, 2, seed=5))).max() < 1e-8


def test_a_beginning_that_is_all_rounding_does_not_spoil_what_follows():
    # The first events are so close together that their kernels are one to double precision.
    X = normal(1200, 2) * np.geomspace(1e-3, 3.0, 1200)[:, None]
    kernel = Gaussian(bandwidth=1.0)
    landmarks = IncrementalOasis(kernel, max_landmarks=30, tol=0.0)
    worst = []
    for part in np.array_split(X, 40):
        landmarks.learn_many(part)
        W = kernel.pairwise(landmarks.points)
        worst.append(np.linalg.eigvalsh(W)[0])
        left = 1.0 - np.square(landmarks.transform(X)).sum(axis=1)
        assert left.min() > -1e-6
    assert landmarks.n_landmarks == 30
    assert min(worst) > 1e-14  # the kernel matrix stays one that double precision can tell of
    assert worst[-1] > 0.1
    np.testing.assert_allclose(left, schur(kernel, landmarks.points, X), atol=1e-12)


# --- coordinates ----------------------------------------------------------------------------


def test_a_row_has_the_same_coordinates_in_any_batch():
    landmarks = IncrementalOasis(RationalQuadratic(alpha=0.5), max_landmarks=45)
    landmarks.learn_many(normal(500, 5))
    Y = normal(101, 5, seed=2)
    Phi = landmarks.transform(Y)
    assert np.array_equal(Phi[7:50], landmarks.transform(Y[7:50]))
    for y, phi in zip(Y, Phi, strict=True):
        assert np.array_equal(landmarks.transform_one(y), phi)


@pytest.mark.parametrize("half_life", [None, 100.0])
def test_who_follows_a_stream_gets_coordinates_of_the_landmarks_there_are(half_life):
    X = drifting(1400, 4, seed=3)
    landmarks = IncrementalOasis(Gaussian(bandwidth=2.0), max_landmarks=37, half_life=half_life)
    seen = 0
    for some, _, Phi, _ in landmarks.follow(X):
        assert some.start == seen
        assert np.array_equal(Phi, landmarks.transform(X[some]))
        seen = some.stop
    assert seen == len(X)
    assert landmarks.n_removed > 5


def carried_all(W: np.ndarray, changes: list) -> np.ndarray:
    for change in changes:
        W = carried(W, change)
    return W


def test_carried_coefficients_are_the_projection_of_the_function():
    kernel, Y = Gaussian(bandwidth=1.5), normal(40, 3, seed=9) * 2.0
    landmarks = IncrementalOasis(kernel, max_landmarks=12, margin=0.05)
    random = np.random.default_rng(0)
    admissions = removals = 0
    for x in normal(300, 3):
        points, Phi = landmarks.points, landmarks.transform(Y)
        W = random.standard_normal((landmarks.n_landmarks, 2))
        changes = landmarks.learn_one(x)
        predictions = landmarks.transform(Y) @ carried_all(W, changes)
        if len(changes) == 1:
            admissions += 1
            np.testing.assert_allclose(predictions, Phi @ W, atol=1e-12)
        if len(changes) == 2:
            removals += 1
            j = changes[1].position
            with_x = np.vstack([points, x])
            G, rest = kernel.pairwise(with_x), np.delete(with_x, j, axis=0)
            # What the coefficients of the landmarks' kernels were; the newcomer's are 0.
            L = np.linalg.cholesky(kernel.pairwise(points))
            a = np.vstack([np.linalg.solve(L.T, W), np.zeros((1, 2))])
            b = np.column_stack([naive_landmarks.projected(G, a[:, o], j) for o in range(2)])
            np.testing.assert_allclose(predictions, kernel.pairwise(Y, rest) @ b, atol=1e-10)
            lost = schur(kernel, rest, points[j : j + 1])[0]
            bound = np.abs(a[j]) * np.sqrt(lost)
            assert (np.abs(predictions - Phi @ W) <= bound + 1e-10).all()
    assert admissions == 12
    assert removals > 10


# --- a long life ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("swaps", "size"),
    [
        (1000, 40),
        pytest.param(1_000_000, 32, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def test_replacements_without_end_leave_the_factor_sound(swaps, size):
    # Claims that fade within an event: nearly every event takes the place of another landmark.
    kernel = Gaussian(bandwidth=1.0)
    landmarks = IncrementalOasis(kernel, max_landmarks=size, tol=1e-6, half_life=0.5)
    random = np.random.default_rng(0)
    worst = 0.0
    while landmarks.n_removed < swaps:
        changes = landmarks.learn_many(random.standard_normal((min(swaps, 2000), 3)))
        assert len(changes) > 100
        worst = max(worst, landmarks.residual)
    W = kernel.pairwise(landmarks.points)
    lower, inverse = arrays(landmarks)["factor"], arrays(landmarks)["inverse_diagonal"]
    assert worst < 1e-13
    assert abs(lower @ lower.T - W).max() < 1e-13
    condition = np.linalg.cond(W)
    np.testing.assert_allclose(inverse, np.diag(np.linalg.inv(W)), rtol=1e-14 * condition)


# --- state ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["points", "leaned", "factor", "inverse_diagonal"])
def test_a_damaged_state_is_refused(name):
    landmarks = IncrementalOasis(Gaussian(), max_landmarks=5)
    landmarks.learn_many(normal(50, 2))
    state = landmarks.state()
    without = {key: array for key, array in state.arrays.items() if key != name}
    for arrays_ in (without, {**state.arrays, name: state.arrays[name][:-1]}):
        with pytest.raises(StateError, match=f"{name}|shape"):
            IncrementalOasis.from_state(State(state.header, arrays_))


# --- arguments and columns ------------------------------------------------------------------


def test_new_columns_were_zero_before():
    X = normal(300, 3)
    wide = np.hstack([X, np.zeros((300, 2))])
    grown, from_the_start = (
        IncrementalOasis(Gaussian(bandwidth=2.0), max_landmarks=15) for _ in range(2)
    )
    grown.add_columns(7)  # nothing to append to yet
    grown.learn_many(X[:150])
    grown.add_columns(2)
    grown.learn_many(wide[150:])
    from_the_start.learn_many(wide)
    assert same(grown, from_the_start)


@pytest.mark.parametrize("count", [-1, 1.5, "2", None])
def test_a_count_of_columns_that_cannot_be(count):
    landmarks = IncrementalOasis(Gaussian(), max_landmarks=5)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"count=.* must be a whole number of at least 0"):
            landmarks.add_columns(count)
        landmarks.learn_one([3.0])


def test_events_without_columns_are_all_alike():
    landmarks = IncrementalOasis(Gaussian(), max_landmarks=5)
    assert landmarks.learn_many(np.zeros((9, 0))) == [Admission()]
    assert np.array_equal(landmarks.transform(np.zeros((8, 0))), np.ones((8, 1)))
    landmarks.add_columns(1)
    assert landmarks.learn_one([3.0]) == [Admission()]


def test_before_the_first_event():
    landmarks = IncrementalOasis(Gaussian(), max_landmarks=5)
    assert landmarks.transform(normal(3, 4)).shape == (3, 0)
    assert landmarks.transform_one([1.0]).shape == (0,)
    assert landmarks.points.shape == (0, 0)
    assert landmarks.learn_many(np.zeros((0, 4))) == []
    assert landmarks.nbytes >= 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_landmarks": 0}, "max_landmarks=0 must"),
        ({"max_landmarks": 2.5}, "max_landmarks=2.5 must"),
        ({"max_landmarks": "many"}, "max_landmarks='many' must"),
        ({"max_landmarks": 10**8}, "max_landmarks=100000000 must .* at most 1000000"),
        ({"tol": -1e-9}, "tol=-1e-09 must"),
        ({"tol": float("nan")}, "tol=nan must"),
        ({"tol": 1.0}, "tol=1.0 must .* below 1"),
        ({"margin": -0.5}, "margin=-0.5 must"),
        ({"half_life": 0.0}, "half_life=0.0 must"),
        ({"half_life": "1d"}, "half_life='1d' must"),
        ({"kernel": Linear()}, r"Linear\(\)"),
        ({"kernel": "gaussian"}, "kernel='gaussian' must"),
    ],
)
def test_options_that_cannot_be(options, told):
    with pytest.raises(InvalidInput, match=told):
        IncrementalOasis(**{"kernel": Gaussian(), "max_landmarks": 5, **options})


def test_events_that_cannot_be_learned_change_nothing():
    landmarks = IncrementalOasis(Gaussian(), max_landmarks=5)
    landmarks.learn_many(normal(20, 3))
    before = IncrementalOasis.from_state(landmarks.state())
    bad = normal(4, 3)
    bad[2, 1] = np.nan
    with pytest.raises(InvalidInput, match="nan in row 2, column 1"):
        landmarks.learn_many(bad)
    with pytest.raises(InvalidInput, match="4 columns, but earlier ones had 3"):
        landmarks.learn_many(normal(2, 4))
    with pytest.raises(InvalidInput, match="shape"):
        landmarks.learn_one(normal(2, 3))
    with pytest.raises(InvalidInput, match="shape"):
        landmarks.transform(normal(1, 3)[0])
    with pytest.raises(InvalidInput, match="inf in row 0"):
        landmarks.transform_one([0.0, np.inf, 0.0])
    with pytest.raises(InvalidInput, match=r"events must be an array of numbers: .*'a'"):
        landmarks.learn_many([["a", "b", "c"]])
    with pytest.raises(InvalidInput, match="event must be an array of numbers"):
        landmarks.learn_one({"a": 1.0})
    assert same(landmarks, before)


# --- a factor that grows and shrinks


def test_the_factor_of_a_matrix_that_gains_and_loses_rows():
    random = np.random.default_rng(7)
    points, factor = np.zeros((0, 4)), GrowingCholesky(20)
    kernel = Laplacian(bandwidth=4.0)
    for step in range(600):
        # It grows to about 40, beyond its capacity, shrinks to nothing and grows again.
        growing = 0.7 if step % 300 < 150 else 0.25
        if len(points) == 0 or random.random() < growing:
            x = random.standard_normal((1, 4))
            phi = factor.solve(kernel.pairwise(x, points))[0]
            factor.append(phi, 1.0 - float(phi @ phi))
            points = np.vstack([points, x])
        else:
            j = int(random.integers(len(points)))
            before, n = factor.lower, len(points)
            cosines, sines = factor.remove(j)
            rotated = np.delete(before, j, axis=0)
            for i, (c, s) in enumerate(zip(cosines, sines, strict=True), j):
                rotated[:, [i, i + 1]] = rotated[:, [i, i + 1]] @ np.array([[c, -s], [s, c]])
            np.testing.assert_allclose(rotated[:, : n - 1], factor.lower, atol=1e-13)
            np.testing.assert_allclose(rotated[:, n - 1], 0.0, atol=1e-13)
            points = np.delete(points, j, axis=0)
        W = kernel.pairwise(points)
        assert len(factor) == len(points)
        assert (np.diag(factor.lower) > 0.0).all()
        np.testing.assert_allclose(factor.lower @ factor.lower.T, W, atol=1e-13)
        np.testing.assert_allclose(
            factor.inverse_diagonal, np.diag(np.linalg.inv(W)), rtol=1e-10, atol=1e-12
        )
    assert factor.refactor(W) < 1e-13


def test_refactoring_repairs_the_factor_and_tells_how_wrong_it_was():
    W = Gaussian().pairwise(normal(20, 3))
    factor = GrowingCholesky.from_state(
        np.linalg.cholesky(W) + 1e-6 * np.eye(20), np.diag(np.linalg.inv(W)) + 1e-3
    )
    assert factor.refactor(W) == pytest.approx(2e-6, rel=0.1)
    assert factor.refactor(W) < 1e-15
    np.testing.assert_allclose(factor.inverse_diagonal, np.diag(np.linalg.inv(W)), rtol=1e-12)


def test_what_is_not_positive_definite_leaves_the_factor_as_it_is():
    factor = GrowingCholesky.from_state(np.eye(3), np.full(3, 7.0))
    assert factor.refactor(np.ones((3, 3))) == 1.0
    assert np.array_equal(factor.lower, np.eye(3))
    assert np.array_equal(factor.inverse_diagonal, np.ones(3))


@pytest.mark.parametrize("size", [1, 7, 16, 31, 32, 48])
def test_systems_solved_in_either_direction(size):
    L = np.tril(normal(size, size)) + 4.0 * np.eye(size)
    L *= np.sign(L.diagonal()) / np.linalg.norm(L, axis=1, keepdims=True)
    factor = GrowingCholesky.from_state(L, 1.0 / L.diagonal())
    K = normal(9, size, seed=1)
    np.testing.assert_allclose(factor.solve(K), np.linalg.solve(L, K.T).T, atol=1e-12)
    np.testing.assert_allclose(factor.solve_back(K), np.linalg.solve(L.T, K.T).T, atol=1e-12)
