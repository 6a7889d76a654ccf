"""Vectors as values: compiled, they are what they are in plain Python, and on other machines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from streamk.backends.jit.compiling import inlined, part
from streamk.backends.jit.lanes import (
    absolute,
    cast,
    cosine,
    flipped,
    fma,
    folded,
    gathered,
    greatest,
    halved,
    joined,
    load,
    load_each,
    load_first,
    load_rows,
    parted,
    prefetch,
    repeated,
    room,
    root,
    spread,
    store,
    store_first,
    store_rows,
    summed,
    throughout,
    transposed,
    walsh,
    weighed,
    where,
    whole,
)
from streamk.backends.numba_backend.exponential import decayed_vector
from streamk.backends.numba_backend.phases import _half_line_power


class Numbers(NamedTuple):
    """What the functions below are of."""

    a: Any
    """With NaN and infinity in it, as b."""
    b: Any
    finite: Any
    places: Any
    bits: Any


# Each of these writes to `out`, and is run as it stands and compiled.


def memory(n: Any, out: Any) -> None:
    prefetch(n.a, 5)
    store(load(n.a, 3), out, 0)
    store(load(n.a, 5, 8), out, 20)
    store(load(n.a.reshape(-1, 3), 7, 32), out, 31)
    z = room(16, n.a[0])
    store(load(n.b, 0), z, 0)
    store(load(z, 0), out, 80)


def first_numbers(n: Any, out: Any) -> None:
    for i in range(-1, 18):
        store(load_first(n.a, 2 * i + 3, i), out, 40 * i + 40)
        store(load_first(n.a, i + 1, i, 8), out, 40 * i + 60)
    for i in range(-1, 18):
        store_first(load(n.b, i + 1), out, 30 * i + 831, i)


def rows(n: Any, out: Any) -> None:
    store_rows(load_rows(n.a, 1, 21, 4, 64), out, 2, 17, 4)
    store(load_each(n.a, 1, 4, 64), out, 100)
    store(spread(n.a, 1, 7, 4, 64), out, 200)
    store(throughout(load(n.a, 0, 4)), out, 300)
    store(throughout(load(n.a, 0, 4), 64), out, 320)
    store(joined(load(n.a, 0), load(n.a, 40), load(n.b, 9), load(n.b, 3)), out, 400)


def arithmetic(n: Any, out: Any) -> None:
    x, y = load(n.a, 0), load(n.b, 3)
    store(x + y, out, 0)
    store(x - 2.0, out, 16)
    store(3.0 * y, out, 32)
    store(-x, out, 48)
    store(absolute(x), out, 64)
    store(root(absolute(y)), out, 80)
    store(repeated(n.a[1]), out, 96)
    store(cast(x, n.a[0]), out, 112)


def choices(n: Any, out: Any) -> None:
    x, y = load(n.a, 0), load(n.b, 0)
    store(where(x < y, x, y), out, 0)
    store(where(x > y, x, y), out, 16)
    store(where(x >= 0.0, x, 0.0), out, 32)
    store(where(x >= y, n.a[1], n.b[1]), out, 48)
    store(flipped(load(n.a, 0, 64), n.bits, 4, 1), out, 64)
    store(flipped(load(n.a, 0, 64), n.bits, 1, 3), out, 128)


def places(n: Any, out: Any) -> None:
    store(gathered(n.a, load(n.places, 1)), out, 0)
    number = whole(load(n.finite, 0) * 1000.0)
    store(number * load(n.places, 0) + number - load(n.places, 3), n.places, 20)
    for i in range(16):
        out[20 + i] = n.places[20 + i]


def turned(n: Any, out: Any) -> None:
    store(parted(load(n.a, 0, 64)), out, 0)
    store(transposed(load(n.a, 0, 256)), out, 64)
    store(walsh(load(n.a, 100, 64), 1, 64), out, 320)
    store(walsh(load(n.finite, 0, 128), 16, 128), out, 400)
    store(walsh(load(n.finite, 0, 128), 4, 64, -1.0), out, 600)


def summing(n: Any, out: Any) -> None:
    x = load(n.finite, 3, 64)
    store(fma(load(n.a, 0), load(n.b, 1), load(n.a, 2)), out, 0)
    store(fma(load(n.a, 0), n.b[1], load(n.a, 2)), out, 16)
    store(halved(x), out, 32)
    out[64], out[65] = summed(x), greatest(load(n.finite, 0))
    store(folded(load(n.finite, 70), x), out, 66)
    store(weighed(x, load(n.finite, 80, 32), load(n.finite, 120, 32)), out, 90)
    store(weighed(x, load(n.finite, 80, 64), load(n.finite, 150, 16)), out, 130)


def curves(n: Any, out: Any) -> None:
    store(cosine(load(n.finite, 0, 32)), out, 0)
    store(cosine(load(n.a, 0)), out, 32)
    store(cosine(load(n.finite, 0) * 1e7), out, 48)


EXACT = (memory, first_numbers, rows, arithmetic, choices, places, turned)


def numbers(dtype: str) -> Numbers:
    rng = np.random.default_rng(0)
    a, b, finite = (rng.normal(size=600).astype(dtype) for _ in range(3))
    a[[1, 7]], a[9], a[30], b[4], b[2] = np.nan, np.inf, -np.inf, np.nan, a[2]
    places = rng.integers(0, 600, 60).astype(np.int32)
    return Numbers(a, b, finite, places, rng.integers(0, 2**63, 9).astype(np.uint64))


def test_an_array_that_lies_otherwise_is_refused() -> None:
    with pytest.raises(TypingError):
        njit(lambda A, out: store(load(A, 0), out, 0))(np.zeros((16, 16))[:, 3], np.zeros(16))


def test_the_step_of_any_phase_is_zero_or_one() -> None:
    step: Any = inlined(lambda u, b: _half_line_power(u, b, b, 0, 0))
    for dtype in (np.float32, np.float64):
        u, out = np.zeros(16, dtype), np.zeros(16, dtype)
        u[:5] = -np.inf, -0.0, 1e38, np.inf, np.nan
        njit(lambda u, out: store(step(load(u, 0), u), out, 0))(u, out)
        np.testing.assert_array_equal(out[:5], [0.0, 0.0, 1.0, 1.0, 0.0])


def test_a_part_is_compiled_once_for_all_constants() -> None:
    @part
    def added(x: Any, n: Any) -> Any:
        return x + n

    njit(lambda x: added(x, 1) + added(x, 2) + added(x, n=3))(1.0)
    assert len(added.overloads) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [*EXACT, summing, curves], ids=lambda f: f.__name__)
def test_compiled_vectors_are_their_plain_twins(function: Any, dtype: str) -> None:
    plain, compiled = np.zeros(1500, dtype), np.zeros(1500, dtype)
    with np.errstate(all="ignore"):
        function(numbers(dtype), plain)
    njit(error_model="numpy")(function)(numbers(dtype), compiled)
    assert np.isfinite(plain).sum() > 50
    eps = 0.0 if function in EXACT else 30 * float(np.finfo(dtype).eps)
    if function is curves:
        eps = max(eps, {"float32": 2e-6, "float64": 1e-13}[dtype])
    np.testing.assert_allclose(compiled, plain, rtol=eps, atol=eps)


def test_both_precisions_and_the_exponential() -> None:
    def mixed(x: Any, w: Any, out: Any, powers: Any) -> None:
        store(fma(load(x, 0), w[0], load(w, 0)), out, 0)
        store(cast(load(x, 0) + load(w, 3), x[0]), out, 16)
        store(decayed_vector(load(x, 0, 64)), powers, 0)

    x, w = -np.logspace(-3, 2, 64, dtype=np.float32), np.random.default_rng(0).normal(size=32)
    x[5], x[6] = np.nan, -np.inf
    plain, compiled = (np.zeros(32), np.zeros(64, np.float32)), (np.zeros(32), np.zeros(64, "f4"))
    mixed(x, w, *plain)
    njit(mixed)(x, w, *compiled)
    for found, expected in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(found, expected, rtol=3e-7)


# --- loops, without numba and on other machines -------------------------------------------------

LOOPS = """
import functools
import sys
import numpy as np
from numba import config, njit
from streamk.backends import LANES, KernelNumbers
from streamk.backends.banks import APART, RULES, WIDTH
from streamk.backends.numba_backend import blocks, centers, cholesky, local_kernels
from streamk.backends.numba_backend.experts import binning, two_stage, window

rng, found = np.random.default_rng(0), {}
def single(*shape): return rng.normal(size=shape).astype(np.float32)
@functools.cache
def compiled(part):
    return part if config.DISABLE_JIT else njit(error_model="numpy")(lambda *given: part(*given))
def run(name, function, *arguments):
    result = compiled(function)(*arguments)
    for i, a in enumerate(arguments):
        if isinstance(a, np.ndarray):
            found[f"{name} {i}"] = a
    if result is not None:
        found[name] = np.array(result)

for n, k in ((1, 1), (5, 7), (9, 16), (11, 21)):
    for dtype in ("f4", "f8"):
        M = rng.normal(size=(n, k)).astype(dtype)
        run(f"combine {n} {dtype}", two_stage.combine, rng.normal(size=n), M, np.zeros(k))
    run(f"shrink {n}", two_stage.shrink, rng.normal(size=(n, n)), rng.normal(size=n), 1.1)
w, v, labels = rng.uniform(size=(3, 13)).astype(np.float32)
w[3], v[5], w[7] = 1e-30, 1e-12, np.nan
run("window", window.add, w, v, np.floor(3 * labels), np.zeros((APART, 3, WIDTH), np.float32))
cells, line = rng.permutation(50)[:8].astype(np.int32), 2 * LANES
A, factors = single(50, line), single(8, RULES)
run("sum_all", binning.sum_all, cells[:7], factors[:7], A, np.zeros(line, np.float32))
run("slopes", binning.slopes, cells, A, single(line), np.zeros((8, RULES), np.float32))
last = line - RULES
run("step_all", binning.step_all, cells, factors, single(8, RULES), single(line), A, last)
run("gather", binning.gather, cells, A, RULES, np.zeros((8, RULES), np.float32))
run("sum_one", binning.sum_one, factors, single(8, RULES), np.zeros(RULES, np.float32))
run("take_in", binning.take_in, single(3, 2), np.zeros(RULES, np.float32), single(8, RULES))
run("slopes_one", binning.slopes_one, factors, single(RULES), np.zeros((8, RULES), np.float32))
few = single(50, 2 * RULES)
run("step_one", binning.step_one, cells, factors, single(8, RULES), single(RULES), few)
ranks = rng.uniform(size=9).astype(np.float32)
ranks[4] = -1.0
columns, multiples = rng.integers(0, 9, (2, 3, LANES)).astype(np.int32)
shifts, bins = rng.uniform(size=(3, LANES)), rng.integers(2, 9, LANES)
run("locate", binning.locate, ranks, columns, shifts.astype(np.float32), multiples,
    bins.astype(np.float32), np.zeros(LANES, np.int32))
z, numbers = single(LANES), single(400)
run("affine", local_kernels._affine, z, numbers, 3, np.zeros(80, np.float32), 5, 11, 32)
run("dot", local_kernels._dot, z, numbers, 3, LANES)
run("squares", local_kernels._squares, z, numbers, 3, LANES)
run("exponentials", local_kernels._exponentials, numbers, 32, -0.1)
run("greatest", local_kernels._greatest, numbers, 7, 48)
for size, rows in ((1, 3), (16, 9), (21, 6), (40, 4)):
    W, u, sums = rng.normal(size=rows * size + 2), rng.normal(size=64), rng.normal(size=64)
    run(f"down {size}", blocks._add_rows, W.astype("f4"), 2, rows, size, rng.normal(size=9), sums)
    run(f"up {size}", blocks._dot_rows, W, 2, rows, size, np.zeros(9), u)
side = 3 * LANES
for size in (5, 21, 33):
    S = np.eye(side) + np.tril(rng.normal(size=(side, side)), -1) / 9.0
    S = np.tril(S) + np.tril(S, -1).T
    k, space = rng.normal(size=size), np.zeros(side)
    run(f"solve {size}", cholesky.solve_one, S, size, k, space)
    run(f"back {size}", cholesky.solve_one_back, S, size, k, space)
run("products", cholesky._products, single(9 * 32 + 3), 3, single(32), np.zeros(9, np.float32), 9)
run("weigh", centers._weigh, single(5 * 64), single(5 * 32), 7, 0, 50, 5)
np.savez(sys.argv[1], **found)
"""


def loops(place: Path, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOPS, str(place)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(place) as found:
        return dict(found)


@pytest.mark.slow
def test_loops_are_their_plain_twins(tmp_path: Path) -> None:
    """Without numba each loop runs as it stands, its vectors being arrays of NumPy."""
    plain = loops(tmp_path / "plain.npz", NUMBA_DISABLE_JIT="1")
    compiled = loops(tmp_path / "compiled.npz")
    assert len(plain) > 100
    assert plain.keys() == compiled.keys()
    for name, expected in plain.items():
        tolerance = 1e-12 if expected.dtype == np.float64 else 3e-6
        np.testing.assert_allclose(
            compiled[name], expected, rtol=tolerance, atol=tolerance, err_msg=name
        )


MODEL = """
import sys
import numpy as np
from streamk.learners import MultiKernel
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5))
y = (X[:, 0] * X[:, 1] > 0.0).astype(int) + (X[:, 2] > 1.0)
model = MultiKernel(task="classification", seed=1)
found = model.predict_then_learn_many(X, y.tolist())
np.save(sys.argv[1], found.probabilities)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("features", ["", "+sse2,+sse4.2,+avx,+avx2,+fma"])
def test_the_default_model_without_wide_vectors(features: str, tmp_path: Path) -> None:
    """LLVM splits vectors: what differs without fused multiply-adds is their rounding."""

    def probabilities(place: Path, **environment: str) -> Any:
        command = [sys.executable, "-c", MODEL, str(place)]
        subprocess.run(command, env=os.environ | environment, check=True)
        return np.load(place)

    other = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": features}
    narrow = probabilities(
        tmp_path / "narrow.npy", NUMBA_CACHE_DIR=str(tmp_path / "cache"), **other
    )
    np.testing.assert_allclose(narrow, probabilities(tmp_path / "wide.npy"), atol=1e-4)
