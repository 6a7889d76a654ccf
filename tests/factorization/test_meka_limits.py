"""What MEKA says of input that it cannot use, and what it makes of odd points."""

import math
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from meka_kit import EVERY, GAUSSIAN, clouds, dense

from streamk import kernels
from streamk.errors import InvalidInput, StateError
from streamk.factorization import Meka, meka
from streamk.landmarks import Diffusion
from streamk.state import State

X = clouds((30, 40, 50))
N = len(X)
METHODS = ["woodbury", "cg", "minres"]
BASES = ["uniform", "k_means", "randomized_svd", "oasis", "rpcholesky"]


def made(points=X, kernel=GAUSSIAN, rank=5, n_clusters=3, dtype="float64", **options):
    return meka(points, kernel, rank=rank, n_clusters=n_clusters, dtype=dtype, **options)


@pytest.fixture(scope="module")
def model():
    return made()


# --- what it cannot be made of --------------------------------------------------------------


@pytest.mark.parametrize(
    "kernel", [kernels.Linear(), Diffusion(GAUSSIAN), "precomputed", "gaussian", None]
)
def test_other_kernels(kernel):
    with pytest.raises(InvalidInput, match="Gaussian"):  # the message says what to take
        made(kernel=kernel)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (np.where(np.arange(3 * N).reshape(N, 3) == 22, math.nan, X), "row 7, column 1"),
        ([["a", "b"]], "numbers"),
        (np.zeros((0, 4)), "no points"),
        (np.zeros(4), "matrix|shape"),
    ],
)
def test_points_that_cannot_be(points, says):
    with pytest.raises(InvalidInput, match=says):
        made(points, rank=1, n_clusters=1)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("rank", [0, -1, 2.5, "3", None, True]),
        ("n_clusters", [0, -1, 2.5, "3", None, True]),
        ("basis", ["nystrom", None, 1]),
        ("columns", ["all", None]),
        ("rank_rule", ["equal", None]),
        ("sampling", ["random", None]),
        ("oversampling", [0.0, -1.0, 0.5, math.nan, math.inf, "2", None]),
        ("link_samples", [-1.0, math.nan, math.inf, "3", None]),
        ("threshold", [-1.0, math.nan, math.inf, "0", None]),
        ("seed", [-1, 0.5, None]),
        ("dtype", ["float16", "int32"]),
        ("threads", [0, -1, 1.5, "a", True]),
    ],
)
def test_options_that_cannot_be(option, values):
    for value in values:
        with pytest.raises(InvalidInput, match=f"{option}="):
            made(**{option: value})


# --- what cannot be asked of it -------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_a_lambda_that_is_not_positive(model, lam):
    for method in METHODS:
        with pytest.raises(InvalidInput, match="lam="):
            model.solve(lam, np.ones(N), method=method)
    with pytest.raises(InvalidInput, match="lam="):
        model.is_definite(lam)


@pytest.mark.parametrize("shape", [(N - 1,), (N + 1, 2), (), (N, 2, 2), (1, N)])
def test_vectors_of_another_length(model, shape):
    for call in (model.matvec, lambda v: model @ v, model.weights, lambda y: model.solve(1.0, y)):
        with pytest.raises(InvalidInput, match=str(N)):
            call(np.ones(shape))


@pytest.mark.parametrize(
    "bad",
    [
        np.where(np.arange(N) == 11, math.nan, 1.0),
        ["a"] * N,
        np.ones(N, complex),
        scipy.sparse.csr_array(np.ones((N, 1))),
    ],
)
def test_vectors_that_are_no_numbers(model, bad):
    for call in (model.matvec, model.weights, lambda y: model.solve(1.0, y)):
        with pytest.raises(InvalidInput, match=r"number|complex|sparse|row 11"):
            call(bad)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # in the test's norm
@pytest.mark.parametrize("method", ["woodbury", "cg", "minres"])
@pytest.mark.parametrize("lam", [1e-6, 1e-300])
def test_a_lambda_so_small_that_rounding_is_all(method, lam):
    """What is returned solves the system, or an error says that it cannot be solved."""
    m, y = made().psd(), np.sin(X[:, 0])
    try:
        alpha = m.solve(lam, y, method=method)
    except InvalidInput:
        return
    assert np.linalg.norm(m.matvec(alpha) + lam * alpha - y) < 1e-5 * np.linalg.norm(y)


@pytest.mark.parametrize("method", ["woodbury", "minres"])
def test_psd_is_no_advice_where_it_was_taken(model, method):
    y = np.sin(X[:, 0])
    with pytest.raises(InvalidInput, match="larger lam, or psd"):
        model.solve(1e-300, y, method=method)
    clear = model.psd()
    for m in (clear, model.psd("shift"), Meka.from_state(clear.state())):
        with pytest.raises(InvalidInput, match=r"larger lam$"):
            m.solve(1e-300, y, method=method)


def test_clusters_counted_from_the_end(model):
    """As Python counts, or not at all: never another block."""
    for call in (model.basis, model.rows, lambda s: model.link(0, s), lambda s: model.link(s, 1)):
        try:
            found = call(-1)
        except (InvalidInput, IndexError):
            continue
        np.testing.assert_array_equal(found, call(2))
        with pytest.raises((InvalidInput, IndexError)):
            call(3)


def test_what_needs_the_points_that_are_gone(model):
    small = model.compact()
    for call in (
        small.error,
        lambda: small.solve(1.0, np.zeros(0)),
        lambda: small.eigh(1),
        lambda: small.is_definite(1.0),
        lambda: small.psd("shift"),
        lambda: small.approximate([0], [0]),
    ):
        with pytest.raises(InvalidInput, match="compact"):
            call()


def test_names_that_there_are_not(model):
    with pytest.raises(InvalidInput, match="method="):
        model.solve(1.0, np.ones(N), method="lu")
    with pytest.raises(InvalidInput, match="method="):
        model.psd("drop")


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (np.zeros((2, 2)), "columns"),
        (np.zeros(3), "matrix|shape"),
        ([[0.0, math.nan, 0.0]], "row 0, column 1"),
        ([["a", "b", "c"]], "numbers"),
    ],
)
def test_new_points_that_cannot_be(model, points, says):
    beta = model.weights(np.ones((N, 1)))
    for call in (model.coordinates, model.features, lambda Y: model.predict(Y, beta)):
        with pytest.raises(InvalidInput, match=says):
            call(points)


def test_no_new_points(model):
    none = np.zeros((0, 3))
    labels, w = model.coordinates(none)
    assert (labels.shape, w.shape) == ((0,), (0, model.ranks.max()))
    assert model.features(none).shape == (0, model.rank)
    assert model.predict(none, model.weights(np.ones((N, 2)))).shape == (0, 2)


def test_weights_that_cannot_be(model):
    for beta, says in ((np.ones((model.rank + 1, 1)), str(model.rank)), ([math.nan] * 15, "nan")):
        with pytest.raises(InvalidInput, match=says):
            model.predict(X, beta)


def test_many_entries_come_a_part_at_a_time():
    rank, some = 60, np.arange(300)
    m = made(clouds((300,)), rank=rank, n_clusters=1)
    m.approximate(0, 0)
    tracemalloc.start()
    found = m.approximate(some[:, None], some)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < found.size * 8 * rank / 2  # coordinates of all pairs at once are twice as many
    np.testing.assert_allclose(found, dense(m), atol=1e-12)


def test_entries_that_there_are_not(model):
    for rows, columns in (([0], [N]), ([-N - 1], [0]), ([0.5], [0])):
        with pytest.raises((InvalidInput, IndexError)):
            model.approximate(rows, columns)


@pytest.mark.parametrize("value", [0, -1, 1.5, "1", 16])
def test_counts_that_there_are_not(model, value):
    with pytest.raises(InvalidInput, match="k="):
        model.eigh(value)
    if value != 16:
        with pytest.raises(InvalidInput, match="n_rows="):
            model.error(n_rows=value)


def test_a_damaged_state(model):
    state = model.state()
    for name, array in state.arrays.items():
        rest = {key: other for key, other in state.arrays.items() if key != name}
        for arrays in (rest, {**rest, name: array[:-1]}):
            with pytest.raises(StateError, match="damaged"):
                Meka.from_state(State(state.header, arrays))
    ranks = state.arrays["ranks"]
    for wrong in (0 * ranks, -ranks):
        with pytest.raises(StateError, match="damaged"):
            Meka.from_state(State(state.header, {**state.arrays, "ranks": wrong}))
    for header in ({"shift": "much"}, {"kernel": "none"}, {"type": "other"}):
        with pytest.raises(StateError, match=r"damaged|'other'"):
            Meka.from_state(State({**state.header, **header}, state.arrays))


def test_numbers_of_a_state_may_be_apart(model):
    state, v = model.state(), np.random.default_rng(0).normal(size=N)
    apart = {name: np.repeat(array, 2, axis=0)[::2] for name, array in state.arrays.items()}
    again = Meka.from_state(State(state.header, apart))
    np.testing.assert_array_equal(again.matvec(v), model.matvec(v))


def test_what_products_need_meanwhile_is_not_pickled(model):
    again = Meka.from_state(model.state())
    before = len(pickle.dumps(again))
    again.matvec(np.ones(N))
    assert len(pickle.dumps(again)) == before
    copied = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(copied.matvec(np.ones(N)), model.matvec(np.ones(N)))


def test_conjugate_gradients_need_a_definite_system():
    m = made(rank=8, link_samples=0.1, sampling="uniform")
    values = np.linalg.eigvalsh(dense(m))
    assert values[0] < -1e-3
    lam = -0.5 * values[0]
    y = np.random.default_rng(0).normal(size=N)
    with pytest.raises(InvalidInput, match="minres"):
        m.solve(lam, y, method="cg")
    m.psd().solve(lam, y, method="cg")
    m.solve(2.0 * abs(values[0]), y, method="cg")


# --- odd points -----------------------------------------------------------------------------


def sound(m, points, kernel=GAUSSIAN):
    """Everything is finite, and what can be asked can be asked."""
    n = len(points)
    assert (m.n, m.n_clusters) == (n, len(m.ranks))
    assert sorted(np.concatenate([m.rows(s) for s in range(m.n_clusters)])) == list(range(n))
    assert (m.ranks >= 1).all()
    assert (m.ranks <= np.bincount(m.labels)).all()
    whole = dense(m)
    assert np.isfinite(whole).all()
    assert np.isfinite(m.psd().solve(0.1, np.ones(n))).all()
    assert np.isfinite(m.features(points)).all()
    assert np.isfinite(m.eigh(1)[0]).all()
    return np.linalg.norm(whole - kernel.pairwise(points)) / np.linalg.norm(whole)


@pytest.mark.parametrize(
    ("basis", "columns"), [("uniform", "row"), *((b, "cluster") for b in BASES)]
)
def test_duplicates(basis, columns):
    points = np.repeat(clouds((4, 5, 6)), 8, axis=0)
    m = made(points, basis=basis, columns=columns)
    assert sound(m, points) < 1.0
    full = made(points, rank=40, basis=basis, columns=columns, **EVERY)
    assert full.rank <= 15
    assert sound(full, points) < 1e-6


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize(("n", "dtype"), [(30, "float64"), (30, "float32"), (1, "float64")])
def test_all_points_equal(basis, n, dtype):
    points = np.ones((n, 2))
    m = made(points, basis=basis, dtype=dtype)
    assert (m.n_clusters, m.ranks.tolist()) == (1, [1])
    assert sound(m, points) < 1e-5


@pytest.mark.parametrize("threshold", [1.0, 5.0])
def test_a_threshold_above_all_leaves_the_diagonal_blocks(threshold):
    m = made(threshold=threshold)
    np.testing.assert_array_equal(m.links, np.eye(3, dtype=bool))
    apart = m.labels[:, None] != m.labels
    assert not dense(m)[apart].any()
    assert not m.approximate(np.arange(N)[:, None], np.arange(N))[apart].any()
    y = np.random.default_rng(0).normal(size=N)
    expected = np.linalg.solve(np.eye(N) + dense(m), y)
    for method in ("woodbury", "cg", "minres"):
        np.testing.assert_allclose(m.solve(1.0, y, method=method), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("far", [1e20, 1e300])
def test_points_at_the_end_of_the_world(far, dtype):
    """They are clustered as any others, or refused."""
    points = np.array([[0.0], [far], [1.001 * far], [1.0]])
    try:
        m = made(points, rank=2, n_clusters=2, dtype=dtype)
    except InvalidInput:
        return
    a, b = m.labels[:2]
    assert m.labels.tolist() == [a, b, b, a]
    assert sound(m, points) < 1e-6


def test_points_far_from_the_origin():
    moved = X + 2.0**20
    assert sound(made(moved), moved) == pytest.approx(sound(made(), X), rel=0.5)


def test_no_columns_of_a_vector(model):
    none = np.ones((N, 0))
    assert model.matvec(none).shape == (N, 0)
    for method in METHODS:
        assert model.psd().solve(1.0, none, method=method).shape == (N, 0)
    assert model.weights(none).shape == (model.rank, 0)


@pytest.mark.parametrize("method", METHODS)
def test_vectors_whose_squares_are_out_of_range(model, method):
    factors = np.array([1.0, 1e-300, 1e-170, 0.0, 1e170, 1e300])
    alpha = model.psd().solve(1e-2, np.sin(X[:, :1]) * factors, method=method)
    alpha[:, factors > 0.0] /= factors[factors > 0.0]
    np.testing.assert_allclose(alpha, alpha[:, :1] * (factors > 0.0), rtol=1e-5, atol=1e-6)


def test_a_kernel_so_narrow_that_all_is_diagonal():
    narrow = kernels.Gaussian(bandwidth=1e-3)
    m = made(kernel=narrow)
    assert m.links.sum() == 3  # what underflows to 0 is at most the threshold of 0
    assert sound(m, X, narrow) < 10.0


@pytest.mark.parametrize("columns", ["cluster", "row"])
def test_a_kernel_so_narrow_that_centres_see_no_point(columns):
    points = 100.0 * np.arange(20.0)[:, None]
    narrow = kernels.Gaussian(bandwidth=0.1)
    options = {"rank": 1, "oversampling": 1, "basis": "k_means", "columns": columns}
    m = made(points, narrow, n_clusters=10, **options)
    assert m.ranks.tolist() == [1] * 10
    assert sound(m, points, narrow) < 5.0


anything = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-1e6, 1e6),
    st.sampled_from([0.0, -0.0, 1e-300, 1e150, 1e300, math.nan, math.inf]),
)


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(float, st.tuples(st.integers(1, 25), st.integers(1, 3)), elements=anything),
    st.integers(1, 4),
    st.integers(1, 8),
    st.sampled_from(BASES),
    st.sampled_from(["same", "size", "spectrum"]),
    st.sampled_from(["cluster", "row"]),
)
def test_any_points_give_a_factorization_or_an_error(points, c, rank, basis, rule, columns):
    try:
        m = made(points, rank=rank, n_clusters=c, basis=basis, rank_rule=rule, columns=columns)
    except InvalidInput:
        return
    sound(m, points)
