"""W and L as they are stored: a block diagonal matrix, and links between its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from streamk.backends import loops
from streamk.backends.threads import divide
from streamk.landmarks.matrices import Numbers

_CHUNK = 1 << 18
"""Numbers of a chunk, about: enough for a thread, and few enough for the second cache to pass."""

_MOVE = 8
"""Multiplications that take about as long as moving a number to its cluster's, or back."""


class BlockDiagonal:
    """W: for each cluster its block, a row a point.

    Values (numbers,) are the blocks one after the other, each row by row; rows are the points of
    each cluster, and ranks the columns of the blocks.
    """

    def __init__(
        self, values: NDArray[Any], rows: Sequence[NDArray[np.int64]], ranks: Sequence[int]
    ) -> None:
        # Compiled loops go by places, with no step between numbers.
        self.values, self._order = np.ascontiguousarray(values), np.concatenate(rows)
        self.sizes, self.ranks = tuple(map(len, rows)), tuple(ranks)
        self._rooms: list[Numbers] = []
        self._places = np.empty(len(self._order), np.uint32)
        self._places[self._order] = np.arange(len(self._order))
        numbers = [n * k for n, k in zip(self.sizes, self.ranks, strict=True)]
        self._at = np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)
        self._rows = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.columns = np.concatenate([[0], np.cumsum(self.ranks)]).astype(np.int64)
        self._chunks, self._owner = self._divided()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rooms": []}  # what room holds is worth nothing

    def _divided(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        chunks, owner = [], []
        for s, (n, k) in enumerate(zip(self.sizes, self.ranks, strict=True)):
            step = max(1, _CHUNK // k)
            for row in range(0, n, step):
                place = int(self._at[s]) + row * k
                chunks.append((place, int(self._rows[s]) + row, min(step, n - row), k))
                owner.append(s)
        return np.array(chunks, np.int64).reshape(-1, 4), np.array(owner, np.int64)

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.values.nbytes

    def block(self, s: int) -> NDArray[Any]:
        """Return the block of a cluster, (size, rank), a view."""
        return self.values[self._at[s] : self._at[s + 1]].reshape(self.sizes[s], self.ranks[s])

    def down(self, V: Numbers, threads: int | None = None) -> Numbers:
        """Return ``W^T V``, (rank,) or (rank, p), of V (n,) or (n, p)."""
        if V.ndim == 2:
            return np.concatenate([self._wide(s).T @ V[self._points(s)] for s in self._clusters])
        parts = np.zeros((len(self._chunks), max(self.ranks)))
        with self._room() as v:

            def sort(some: slice) -> None:
                loops.blocks.scatter(V[some], self._places[some], v)

            def work(some: slice) -> None:
                loops.blocks.down(self.values, self._chunks[some], v, parts[some])

            divide(len(V), _MOVE * len(V), sort, threads)
            divide(len(self._chunks), self.values.size, work, threads)
        return self._summed(parts)

    def up(self, U: Numbers, threads: int | None = None) -> Numbers:
        """Return ``W U``, (n,) or (n, p), of U (rank,) or (rank, p)."""
        out = np.empty((len(self._order), *U.shape[1:]))
        if U.ndim == 2:
            for s in self._clusters:
                out[self._points(s)] = self._wide(s) @ U[self.columns[s] : self.columns[s + 1]]
            return out
        u, starts = np.ascontiguousarray(U), self.columns[self._owner]
        with self._room() as found:

            def work(some: slice) -> None:
                loops.blocks.up(self.values, self._chunks[some], u, starts[some], found)

            def sort(some: slice) -> None:
                loops.blocks.gather(found, self._places[some], out[some])

            divide(len(self._chunks), self.values.size, work, threads)
            divide(len(out), _MOVE * len(out), sort, threads)
        return out

    def _summed(self, parts: Numbers) -> Numbers:
        """Return the sums of each cluster's chunks, one cluster's columns after another's."""
        first = np.flatnonzero(np.diff(self._owner, prepend=-1))
        sums = np.zeros((len(self.ranks), parts.shape[1]))
        sums[self._owner[first]] = np.add.reduceat(parts, first, axis=0)
        return np.asarray(sums[np.arange(parts.shape[1]) < np.array(self.ranks)[:, None]])

    @contextmanager
    def _room(self) -> Iterator[Numbers]:
        """Give room for a number a point, in the order of the clusters.

        It is kept for the next product: memory that is new takes longer than moving the numbers.
        """
        try:
            room = self._rooms.pop()  # another thread may have the only one
        except IndexError:
            room = np.empty(len(self._order))
        yield room
        self._rooms.append(room)

    def _points(self, s: int) -> NDArray[np.int64]:
        return np.asarray(self._order[self._rows[s] : self._rows[s + 1]])

    def gram(self, factors: Numbers | None = None) -> list[Numbers]:
        """Return ``W(s)^T W(s)`` of each cluster, (rank, rank), of rows times factors."""
        wide = (self._wide(s) for s in self._clusters)
        if factors is not None:
            wide = (W * factors[self._points(s)] for s, W in enumerate(wide))
        return [W.T @ W for W in wide]

    @property
    def _clusters(self) -> range:
        return range(len(self.sizes))

    def _wide(self, s: int) -> Numbers:
        return self.block(s).astype(np.float64, copy=False)


class WeightedRows:
    """``diag(factors) W``, which scales vectors instead: W in single precision would round anew."""

    def __init__(self, W: BlockDiagonal, factors: Numbers) -> None:
        self._W, self._factors = W, factors

    def down(self, V: Numbers, threads: int | None = None) -> Numbers:
        """Return its transpose times V, as of `BlockDiagonal`."""
        return self._W.down(self._scaled(V), threads)

    def up(self, U: Numbers, threads: int | None = None) -> Numbers:
        """Return it times U, as of `BlockDiagonal`."""
        return self._scaled(self._W.up(U, threads))

    def gram(self) -> list[Numbers]:
        """Return products of its columns, as of `BlockDiagonal`."""
        return self._W.gram(self._factors)

    def _scaled(self, V: Numbers) -> Numbers:
        return V * (self._factors if V.ndim == 2 else self._factors[:, 0])


class LinkMatrix:
    """L: symmetric blocks between clusters, each pair stored once and only where there is one.

    Values (numbers,) are the blocks one after the other, each row by row, between the clusters (s,
    t) of each of the pairs (links, 2), s <= t.
    """

    def __init__(self, values: NDArray[Any], pairs: NDArray[Any], ranks: Sequence[int]) -> None:
        self.values, self.pairs = np.ascontiguousarray(values), np.asarray(pairs, np.int64)
        self.ranks = tuple(ranks)
        k = np.asarray(self.ranks, np.int64)
        start = np.concatenate([[0], np.cumsum(k)])
        s, t = self.pairs.T
        at = np.concatenate([[0], np.cumsum(k[s] * k[t])])[:-1]
        self._table = np.stack([at, start[s], k[s], start[t], k[t]], axis=1).astype(np.int64)
        self._number = {pair: i for i, pair in enumerate(map(tuple, self.pairs.tolist()))}

    @classmethod
    def of(
        cls,
        pairs: NDArray[np.int64],
        made: Callable[[int, int], Numbers],
        ranks: Sequence[int],
        dtype: np.dtype[Any],
    ) -> LinkMatrix:
        """Return links of pairs of clusters (s, t), s <= t, whose blocks are made one by one."""
        k = np.asarray(ranks, np.int64)
        values = np.empty(int((k[pairs[:, 0]] * k[pairs[:, 1]]).sum()), dtype)
        links = cls(values, pairs, ranks)
        for s, t in pairs.tolist():
            block = links.block(s, t)
            assert block is not None
            block[:] = made(s, t)
        return links

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.values.nbytes

    def there(self) -> NDArray[np.bool_]:
        """Return which links there are, (clusters, clusters)."""
        found = np.zeros((len(self.ranks),) * 2, bool)
        s, t = self.pairs.T
        found[s, t] = found[t, s] = True
        return found

    def block(self, s: int, t: int) -> NDArray[Any] | None:
        """Return a block (rank of s, rank of t), a view, or None where there is none."""
        number = self._number.get((min(s, t), max(s, t)))
        if number is None:
            return None
        at, _, rows, _, columns = self._table[number]
        found = self.values[at : at + rows * columns].reshape(rows, columns)
        return found if s <= t else found.T

    def times(self, U: Numbers) -> Numbers:
        """Return ``L U``, (rank,) or (rank, p)."""
        out = np.empty_like(U)
        if U.ndim == 1:
            loops.blocks.couple(self.values, self._table, U, out)
            return out
        out[:] = 0.0
        for s, i, wide, j, t in self._wide():
            out[i] += wide @ U[j]
            if s != t:
                out[j] += wide.T @ U[i]
        return out

    def _wide(self) -> Iterator[tuple[int, slice, Numbers, slice, int]]:
        """Yield s, its place, L(s, t) in double precision, the place of t, and t."""
        for (_, row, rows, column, columns), (s, t) in zip(
            self._table.tolist(), self.pairs.tolist(), strict=True
        ):
            block = self.block(s, t)
            assert block is not None
            wide = block.astype(np.float64, copy=False)
            yield s, slice(row, row + rows), wide, slice(column, column + columns), t

    def dense(self, made: Callable[[int, Numbers, int], Numbers] | None = None) -> Numbers:
        """Return L, (rank, rank), or what its blocks are made into."""
        out = np.zeros((sum(self.ranks),) * 2)
        for s, i, wide, j, t in self._wide():
            out[i, j] = made(s, wide, t) if made else wide
            if s != t:
                out[j, i] = made(t, wide.T, s) if made else wide.T
        return out

    def clipped(self) -> LinkMatrix:
        """Return L with its negative eigenvalues set to 0 (§7.1).

        Clusters that no chain of links joins have eigenvectors of their own, and stay apart.
        """
        L, blocks = self.dense(), {}
        parts, part = scipy.sparse.csgraph.connected_components(self.there(), directed=False)
        owners = np.repeat(part, self.ranks)
        for number in range(parts):
            own, together = np.flatnonzero(owners == number), np.flatnonzero(part == number)
            values, vectors = np.linalg.eigh(L[np.ix_(own, own)])
            kept = values > 0.0
            clipped = (vectors[:, kept] * values[kept]) @ vectors[:, kept].T
            edges = np.cumsum([0, *(self.ranks[s] for s in together)])
            for i, s in enumerate(together.tolist()):
                for j, t in enumerate(together[i:].tolist(), i):
                    blocks[s, t] = clipped[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
        pairs = np.array(list(blocks), np.int64)
        return LinkMatrix.of(pairs, lambda s, t: blocks[s, t], self.ranks, self.values.dtype)
