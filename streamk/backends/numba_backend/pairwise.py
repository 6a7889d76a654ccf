"""Kernels between points, and their product with vectors, without storing the kernels.

All of it is sums over columns, and one loop in registers does them. `GROUP` points of one set lie
in the lanes of vectors, column after column; of the other set, a few points at a time are
broadcast. Each pair's sum stays in a register while the columns pass by, and is added up in the
order of the columns whatever the shape of the tile, so a row's result does not depend on its batch.

The distances are sums of squared differences: a subtraction and a multiply-add a column, against
one multiply-add for the way by ``|x|^2 + |y|^2 - 2 x.y``, but nothing cancels. Equal points are at
distance 0, and in single precision a distance has a relative error of at most (d + 2) / 2 units of
the last place, where the shorter way is wrong by 3e-4 times the length of x near 0.

The product K V of a tile is again such a sum, over centers instead of columns: the tile's kernels
lie as the points of the lanes do. Sums over the `CENTERS` of a tile are in the type of the points,
those over the tiles in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from streamk.backends import GROUP, KernelCode, sum_factor
from streamk.backends.jit.compiling import compiled, inlined, part
from streamk.backends.jit.lanes import (
    absolute,
    fma,
    load,
    repeated,
    root,
    spread,
    store,
    throughout,
)
from streamk.backends.jit.parts import overload
from streamk.backends.jit.vectors import registers
from streamk.backends.numba_backend.exponential import decayed
from streamk.backends.numba_backend.tangent import neural_tangent

CENTERS = 64
"""Points of a tile of the other set: a group's kernels with them stay in the first cache."""
GROUPS = 8
"""Groups between which a tile of the other set stays in the second cache."""

# A register tile's sums take half of the registers.
SINGLES = max(1, registers() // (2 * GROUP))
DOUBLES = max(1, registers() // (4 * GROUP))

_GAUSSIAN, _LAPLACIAN, _MATERN = KernelCode.GAUSSIAN, KernelCode.LAPLACIAN, KernelCode.MATERN
_CAUCHY, _RATIONAL, _LINEAR, _NTK, _POWER = (
    KernelCode.CAUCHY,
    KernelCode.RATIONAL_QUADRATIC,
    KernelCode.LINEAR,
    KernelCode.NTK,
    KernelCode.POWER_EXPONENTIAL,
)


@inlined
def _add_square(x: Any, y: Any, _: Any, total: Any) -> Any:
    t = x - y
    return fma(t, t, total)


@inlined
def _add_absolute(x: Any, y: Any, _: Any, total: Any) -> Any:
    return total + absolute(x - y)


@inlined
def _add_root(x: Any, y: Any, _: Any, total: Any) -> Any:
    return total + root(absolute(x - y))


@inlined
def _multiply_by(x: Any, y: Any, factor: Any, total: Any) -> Any:
    t = x - y
    return total * fma(t * t, factor, 1.0)


@inlined
def _add_product(x: Any, y: Any, _: Any, total: Any) -> Any:
    return fma(x, y, total)


def _register_tile(add: Any, *, many: bool, start: float = 0.0) -> Any:
    """Return what sums a group's pairs with a few points, or one, of the other set.

    Its arguments are P, Y, K, where each begins, the columns (at least one), the numbers between
    rows and columns of Y, and the factor of a product. `add` takes numbers of both sets, the factor
    and the sums, and adds a column.
    """

    def tile(
        P: Any, Y: Any, K: Any, p: Any, y: Any, k: Any, d: Any, by: Any, step: Any, factor: Any
    ) -> None:
        raise NotImplementedError("only compiled")

    @overload(tile, forceinline=True)
    def compiled_tile(
        P: Any, Y: Any, K: Any, p: Any, y: Any, k: Any, d: Any, by: Any, step: Any, factor: Any
    ) -> Any:
        rows = (SINGLES if P.dtype == types.float32 else DOUBLES) if many else 1
        lanes = rows * GROUP

        def loop(
            P: Any, Y: Any, K: Any, p: Any, y: Any, k: Any, d: Any, by: Any, step: Any, factor: Any
        ) -> None:
            total = repeated(P.dtype.type(start), lanes)
            for j in range(d):
                points = throughout(load(P, p + j * GROUP, GROUP), lanes)
                total = add(points, spread(Y, y + j * step, by, rows, lanes), factor, total)
            store(total, K, k)

        return loop

    return tile


_squares, _square = (_register_tile(_add_square, many=many) for many in (True, False))
_absolutes, _absolute = (_register_tile(_add_absolute, many=many) for many in (True, False))
_roots, _root = (_register_tile(_add_root, many=many) for many in (True, False))
_products, _product = (_register_tile(_multiply_by, many=many, start=1.0) for many in (True, False))
dots, dot = (_register_tile(_add_product, many=many) for many in (True, False))


@part
def multiply(P: Any, p: Any, d: Any, Y: Any, y: Any, rows: Any, by: Any, step: Any, K: Any) -> None:
    """Do `sums` of the linear kernel: the products of a group with points of Y."""
    none, many = P.dtype.type(0.0), SINGLES if P.itemsize == 4 else DOUBLES
    whole = rows - rows % many
    for i in range(0, whole, many):
        dots(P, Y, K, p, y + i * by, i * GROUP, d, by, step, none)
    for i in range(whole, rows):
        dot(P, Y, K, p, y + i * by, i * GROUP, d, by, step, none)


@part
def sums(
    code: Any, P: Any, p: Any, d: Any, Y: Any, y: Any, rows: Any, by: Any, step: Any, f: Any, K: Any
) -> None:
    """Write the sums of a group with `rows` points of Y, from number y on, into K.

    `by` and `step` are the numbers between Y's rows and its columns.
    """
    if code == _LINEAR:
        multiply(P, p, d, Y, y, rows, by, step, K)
        return
    many = SINGLES if P.itemsize == 4 else DOUBLES
    whole = rows - rows % many
    for i in range(0, whole, many):
        if code == _LAPLACIAN:
            _absolutes(P, Y, K, p, y + i * by, i * GROUP, d, by, step, f)
        elif code == _POWER:
            _roots(P, Y, K, p, y + i * by, i * GROUP, d, by, step, f)
        elif code == _CAUCHY:
            _products(P, Y, K, p, y + i * by, i * GROUP, d, by, step, f)
        else:
            _squares(P, Y, K, p, y + i * by, i * GROUP, d, by, step, f)
    for i in range(whole, rows):
        if code == _LAPLACIAN:
            _absolute(P, Y, K, p, y + i * by, i * GROUP, d, by, step, f)
        elif code == _POWER:
            _root(P, Y, K, p, y + i * by, i * GROUP, d, by, step, f)
        elif code == _CAUCHY:
            _product(P, Y, K, p, y + i * by, i * GROUP, d, by, step, f)
        else:
            _square(P, Y, K, p, y + i * by, i * GROUP, d, by, step, f)


@part
def of_sums(code: Any, parameter: Any, f: Any, K: Any, spare: Any) -> None:
    """Turn sums into kernels; `f` is the factor of the sum, `spare` room for as many numbers."""
    real = K.dtype.type
    one, zero = real(1.0), real(0.0)
    if code in (_GAUSSIAN, _LAPLACIAN, _POWER):
        for i in range(K.shape[0]):
            K[i] = decayed(-f * K[i])
    elif code == _CAUCHY:
        for i in range(K.shape[0]):
            K[i] = one / K[i]
    elif code == _RATIONAL:
        for i in range(K.shape[0]):
            spare[i] = one / math.sqrt(one + f * K[i])
        _power(spare, round(2.0 * parameter), K)
    elif code == _MATERN:
        # Where the kernel is 0 the polynomial may be infinite.
        linear, square = real(parameter > 1.0), real(1.0 / 3.0 if parameter > 2.0 else 0.0)
        for i in range(K.shape[0]):
            r = math.sqrt(f * K[i])
            k = decayed(-r)
            K[i] = k * ((square * r + linear) * r + one) if k > zero else k
    elif code == _NTK:
        neural_tangent(f, round(parameter), K, spare)


@part
def _power(base: Any, exponent: Any, out: Any) -> None:
    """Write base^exponent into `out`; the base is lost."""
    out[:] = 1.0
    while exponent > 0:
        if exponent % 2:
            for i in range(out.shape[0]):
                out[i] *= base[i]
        exponent //= 2
        for i in range(out.shape[0]):
            base[i] *= base[i]


@compiled
def lay(X: Any, first: Any, P: Any) -> None:
    """Lay the points from `first` on into the groups' lanes; lanes without a point become 0."""
    for g in range(P.shape[0]):
        for lane in range(GROUP):
            r = first + g * GROUP + lane
            if r < X.shape[0]:
                for j in range(X.shape[1]):
                    P[g, j, lane] = X[r, j]
            else:
                for j in range(X.shape[1]):
                    P[g, j, lane] = 0.0


@compiled
def _pairwise(code: Any, parameter: Any, f: Any, X: Any, Y: Any, out: Any) -> None:
    (n, d), m = X.shape, Y.shape[0]
    groups = max(1, min(GROUPS, (m + GROUP - 1) // GROUP))
    P = np.empty((groups, d, GROUP), X.dtype)
    K, spare = np.empty(CENTERS * GROUP, X.dtype), np.empty(CENTERS * GROUP, X.dtype)
    for c in range(0, m, groups * GROUP):
        lay(Y, c, P)
        for r in range(0, n, CENTERS):
            rows = min(CENTERS, n - r)
            for g in range(min(groups, (m - c + GROUP - 1) // GROUP)):
                sums(code, P, g * d * GROUP, d, X, r * d, rows, d, 1, f, K)
                of_sums(code, parameter, f, K[: rows * GROUP], spare)
                first = c + g * GROUP
                _put(K, out[r : r + rows, first : first + GROUP])


@part
def _put(K: Any, out: Any) -> None:
    """Write a tile into its place."""
    if out.shape[1] == GROUP:
        for i in range(out.shape[0]):
            for lane in range(GROUP):
                out[i, lane] = K[i * GROUP + lane]
    else:
        for i in range(out.shape[0]):
            for lane in range(out.shape[1]):
                out[i, lane] = K[i * GROUP + lane]


@compiled
def _pairwise_product(code: Any, parameter: Any, f: Any, X: Any, Y: Any, V: Any, out: Any) -> None:
    (n, d), (m, outputs) = X.shape, V.shape
    groups = max(1, min(GROUPS, (n + GROUP - 1) // GROUP))
    P = np.empty((groups, d, GROUP), X.dtype)
    K, spare = np.empty(CENTERS * GROUP, X.dtype), np.empty(CENTERS * GROUP, X.dtype)
    part, total = np.empty(outputs * GROUP, X.dtype), np.empty((groups, outputs * GROUP))
    for r in range(0, n, groups * GROUP):
        lay(X, r, P)
        total[:] = 0.0
        for c in range(0, m, CENTERS):
            centers = min(CENTERS, m - c)
            for g in range(min(groups, (n - r + GROUP - 1) // GROUP)):
                sums(code, P, g * d * GROUP, d, Y, c * d, centers, d, 1, f, K)
                of_sums(code, parameter, f, K[: centers * GROUP], spare)
                multiply(K, 0, centers, V, c * outputs, outputs, 1, outputs, part)
                t = total[g]
                for i in range(outputs * GROUP):
                    t[i] += part[i]
        for i in range(min(groups * GROUP, n - r)):
            for o in range(outputs):
                out[r + i, o] = total[i // GROUP, o * GROUP + i % GROUP]


def pairwise(code: int, parameter: float, scale: float, X: Any, Y: Any, out: Any) -> None:
    """Write the kernel between the rows of `X` and of `Y` into `out`."""
    f = sum_factor(code, parameter, scale, X.dtype)
    _pairwise(int(code), float(parameter), f, with_columns(X), with_columns(Y), out)


def pairwise_product(
    code: int, parameter: float, scale: float, X: Any, Y: Any, V: Any, out: Any
) -> None:
    """Write the kernel between the rows of `X` and of `Y`, times `V`, into `out`."""
    f = sum_factor(code, parameter, scale, X.dtype)
    _pairwise_product(int(code), float(parameter), f, with_columns(X), with_columns(Y), V, out)


def with_columns(X: Any) -> Any:
    """Return the points, with a column of zeros if they have none."""
    return X if X.shape[1] else np.zeros((len(X), 1), X.dtype)
