"""Products with W and L: blocks of every shape, by any number of threads."""

import numpy as np
import pytest

from streamk.backends import loops, threads
from streamk.factorization import blocks
from streamk.factorization.blocks import BlockDiagonal, LinkMatrix

SHAPES = {
    "no row": [(0, 3)],
    "clusters without rows": [(0, 3), (6, 2), (0, 4)],
    "one number": [(1, 1)],
    "one column": [(9, 1), (3, 1), (1, 1)],
    "fewer rows than streams": [(1, 5), (2, 16), (3, 17)],
    "rows left over": [(4, 3), (5, 8), (6, 31), (7, 32), (8, 33)],
    "long rows": [(41, 130), (1, 257), (30, 64)],
}


def made(shapes, dtype=np.float32):
    """W, its dense form, a vector of the points and one of the columns."""
    random = np.random.default_rng(len(shapes))
    n, rank = np.sum(shapes, axis=0)
    rows = np.split(random.permutation(n), np.cumsum([m for m, _ in shapes])[:-1])
    values = random.standard_normal(sum(m * k for m, k in shapes)).astype(dtype)
    W = BlockDiagonal(values, rows, [k for _, k in shapes])
    dense = np.zeros((n, rank))
    for s, points in enumerate(rows):
        dense[points, W.columns[s] : W.columns[s + 1]] = W.block(s)
    return W, dense, random.standard_normal(n), random.standard_normal(rank)


@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SHAPES)
def test_products_are_those_of_the_dense_matrix(name, dtype, chunk, monkeypatch):
    monkeypatch.setattr(blocks, "_CHUNK", chunk)
    W, dense, v, u = made(SHAPES[name], dtype)
    for _ in range(2):  # the second time, in the room of the first
        np.testing.assert_allclose(W.down(v), dense.T @ v, rtol=0, atol=1e-12)
        np.testing.assert_allclose(W.up(u), dense @ u, rtol=0, atol=1e-12)
    apart = np.repeat(u, 2)[::2], np.repeat(v, 2)[::2]
    np.testing.assert_array_equal(W.up(apart[0]), W.up(u))
    np.testing.assert_array_equal(W.down(apart[1]), W.down(v))


def test_numbers_of_other_rows_and_columns_do_not_matter():
    W, _, v, u = made([(6, 5), (7, 11), (5, 3)])
    own, others = slice(W.columns[1], W.columns[2]), [0, 2]
    down, up = W.down(v), W.up(u)
    for s in others:
        W.block(s)[:] = np.nan
    np.testing.assert_array_equal(W.down(v)[own], down[own])
    assert np.isfinite(W.up(u)).sum() == 7
    np.testing.assert_array_equal(W.up(u)[np.isfinite(W.up(u))], up[np.isfinite(W.up(u))])


@pytest.mark.parametrize("name", SHAPES)
def test_threads_change_no_bit(name, monkeypatch):
    monkeypatch.setattr(blocks, "_CHUNK", 64)
    monkeypatch.setattr(threads, "PARALLEL_FLOPS", 1)
    W, _, v, u = made(SHAPES[name])
    for count in (2, 3, 5):
        np.testing.assert_array_equal(W.down(v, count), W.down(v, 1))
        np.testing.assert_array_equal(W.up(u, count), W.up(u, 1))


@pytest.mark.parametrize("name", ["scatter", "down", "up", "gather"])
def test_a_product_amid_another_changes_neither(name, monkeypatch):
    """As if it came from another thread."""
    W, _, v, u = made(SHAPES["long rows"])
    down, up, loop = W.down(v), W.up(u), getattr(loops.blocks, name)

    def interrupted(*arguments):
        monkeypatch.setattr(loops.blocks, name, loop)
        loop(*arguments)
        np.testing.assert_array_equal(W.down(-v), -down)
        np.testing.assert_array_equal(W.up(-u), -up)
        monkeypatch.setattr(loops.blocks, name, interrupted)

    monkeypatch.setattr(loops.blocks, name, interrupted)
    np.testing.assert_array_equal(W.down(v), down)
    np.testing.assert_array_equal(W.up(u), up)


def test_links_multiply_as_their_dense_form():
    random, ranks = np.random.default_rng(3), (1, 8, 17)
    pairs = np.array([(0, 1), (1, 2), (2, 2)])
    drawn = {(s, t): random.standard_normal((ranks[s], ranks[t])) for s, t in pairs.tolist()}
    drawn[2, 2] = np.eye(17)
    L = LinkMatrix.of(pairs, lambda s, t: drawn[s, t], ranks, np.dtype(np.float32))
    u = random.standard_normal(sum(ranks))
    np.testing.assert_allclose(L.times(u), L.dense() @ u, rtol=0, atol=1e-12)
