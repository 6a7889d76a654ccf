"""The CuPy backend's generator and features against the host's; see `cuda_kit`."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from cuda_kit import (
    GPU_LACKS,
    PLACES,
    SEED,
    TYPES,
    WIDTHS,
    backend_at,
    basis_of,
    both,
    chunks_of,
    columns_of,
    points,
    put,
    some_of,
    tolerance,
)

from streamk import backends
from streamk.backends import CHUNK, LANES, Curve, Hadamard, KernelCode, Law, numba_backend
from streamk.backends.cupy_backend import connect, device, functions, projection
from streamk.backends.cupy_backend.device import source
from streamk.errors import BackendUnavailable
from streamk.features.random_features import FeatureBlocks
from streamk.kernels import Kernel, Polynomial, Zonal
from streamk.losses import LossCode

LAWS = [
    (Law.NORMAL, 0),
    (Law.CAUCHY, 0),
    (Law.LAPLACE, 0),
    (Law.STUDENT, 1),
    (Law.STUDENT, 5),
    (Law.RATIONAL, 3),
]


@pytest.fixture(params=PLACES)
def backend(request: pytest.FixtureRequest) -> Any:
    return backend_at(request.param)


@pytest.mark.skipif(GPU_LACKS is not None, reason=f"nothing here runs on a GPU: {GPU_LACKS}")
def test_all_of_this_is_run_on_the_gpu() -> None:
    assert backends.select("cupy") is connect()


# The text of the kernels


def test_constants_are_the_same_on_both_sides() -> None:
    text = {
        name: dict(re.findall(r"^#define (\w+) (\w+)", source(name), re.MULTILINE))
        for name in device.MODULES
    }
    assert text["features"]["THREADS"] == str(device.THREADS)
    assert text["features"]["CHUNK"] == str(CHUNK)
    assert text["features"]["LANES"] == str(LANES)
    assert text["features"]["SEGMENT"] == str(projection.SEGMENT)
    assert text["features"]["SLOTS"] == str(projection.SLOTS)
    assert text["features"]["FEW_SLOTS"] == str(projection.FEW_SLOTS)
    assert re.findall(r"#define CELLS (\d+)", source("features")) == [
        str(projection.CELLS // 2),
        str(projection.CELLS),
    ]
    assert text["generator"]["COLUMNS"] == str(functions.COLUMNS)
    assert text["pairwise"]["SIDE"] == str(functions.SIDE)
    assert text["pairwise"]["CENTERS"] == str(functions.CENTERS)
    assert text["pairwise"]["OUTPUTS"] == str(functions.OUTPUTS)
    for code in LossCode:
        assert text["learning"].get(code.name, "7") == str(int(code))
    for kernel in KernelCode:
        assert text["pairwise"][kernel.name] == str(int(kernel))
    for law, _ in LAWS:
        assert text["generator"].get(f"LAW_{law.name}", "0") == str(int(law))


def test_every_kernel_of_the_text_is_known_by_its_name() -> None:
    for module, kernels in device.MODULES.items():
        found = re.findall(r"^KERNEL (\w+)\(", source(module), re.MULTILINE)
        assert sorted(found) == sorted(kernels)


# The generator


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("law", "dof"), LAWS)
@pytest.mark.parametrize(("d", "first"), [(1, 0), (5, 3), (70, 1 << 20)])
def test_frequencies(backend: Any, dtype: str, law: Law, dof: int, d: int, first: int) -> None:
    keys = np.random.default_rng(d).integers(0, 1 << 63, d).astype(np.uint64) * 2 + 1
    W, b = np.empty((3, d, CHUNK)), np.empty((3, CHUNK))
    numba_backend.frequencies(SEED, law, dof, 2.0 * np.pi, keys, first, W, b)
    W2, b2 = backend.xp.empty(W.shape, dtype), backend.xp.empty(b.shape, dtype)
    backend.frequencies(SEED, law, dof, 2.0 * np.pi, backend.put(keys), first, W2, b2)
    np.testing.assert_array_equal(backend.get(b2), b.astype(dtype))
    error = 4e-7 if dtype == "float32" else 1e-12
    if law == Law.STUDENT:
        # The error of a normal is multiplied with its length.
        length = np.abs(W).max(axis=1, keepdims=True) + 1
        assert (np.abs(backend.get(W2) - W) <= error * length).all()
    else:
        assert (np.abs(backend.get(W2) - W) <= error * (1 + np.abs(W))).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("law", "dof"), [pair for pair in LAWS if pair[0] not in (Law.CAUCHY, Law.LAPLACE)]
)
@pytest.mark.parametrize("first", [0, 7])
def test_rotations(backend: Any, dtype: str, law: Law, dof: int, first: int) -> None:
    widths, chunks = (64, 1024, 256), 17
    basis = basis_of(widths, 0, chunks, dtype)
    assert isinstance(basis, Hadamard)
    numba_backend.rotations(SEED, law, dof, 1.7, widths, first, *basis[1:])
    there = put(backend, Hadamard(widths, *(np.zeros_like(array) for array in basis[1:])))
    backend.rotations(SEED, law, dof, 1.7, widths, first, *there[1:])
    signs, radii, b = map(backend.get, there[1:])
    np.testing.assert_array_equal(signs, basis.signs)
    np.testing.assert_array_equal(b, basis.b)
    np.testing.assert_allclose(radii, basis.radii, rtol=8e-7 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orthogonal_frequencies_are_made_on_the_host(backend: Any, dtype: str) -> None:
    W, b = np.empty((4, 70, CHUNK), dtype), np.empty((4, CHUNK), dtype)
    law = (Law.STUDENT, 3)
    numba_backend.orthogonal(SEED, *law, 1.7, (128,), 2, W, b)
    there = backend.put(np.zeros_like(W)), backend.put(np.zeros_like(b))
    backend.orthogonal(SEED, *law, 1.7, (128,), 2, *there)
    np.testing.assert_array_equal(backend.get(there[0]), W)
    np.testing.assert_array_equal(backend.get(there[1]), b)


@pytest.mark.parametrize("kernel", [Polynomial(), Zonal()], ids=lambda kernel: kernel.name)
def test_features_that_devices_lack_name_the_fix(backend: Any, kernel: Kernel) -> None:
    blocks = FeatureBlocks(
        kernel, np.arange(3, dtype=np.uint64), seed=1, backend=backend,
        dtype=np.dtype("float32"), cache_bytes=1 << 20,
    )  # fmt: skip
    with pytest.raises(BackendUnavailable, match="backend='auto'"):
        blocks.features(backend.put(np.zeros((2, 4), np.float32)), 0, 2)


# Features, and what is summed up from them


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("widths", "curve"),
    [*((widths, Curve.COSINE) for widths in WIDTHS), *(((), curve) for curve in Curve)],
)
@pytest.mark.parametrize(("dtype", "wide"), TYPES)
def test_features(
    backend: Any, widths: tuple[int, ...], dtype: str, wide: bool, curve: Curve
) -> None:
    n, d, chunks = 67, columns_of(widths), chunks_of(widths)
    X, basis = points(n, d, dtype), basis_of(widths, d, chunks, dtype)
    out = np.empty((n, chunks * CHUNK), dtype)
    found, expected = both(backend, "features", X, basis, curve, wide, out)
    # A phase is rounded some hundred times, and 2 pi of its error go into the feature.
    most = 50 * tolerance(dtype) if not wide or dtype == "float64" else tolerance(dtype)
    if curve == Curve.STEP:  # a phase near 0 may be rounded to the other side
        phases = np.empty_like(expected)
        numba_backend.features(X, basis, Curve.IDENTITY, wide, phases)
        found[np.abs(phases) < 10 * most] = expected[np.abs(phases) < 10 * most]
    most *= 1 if curve == Curve.COSINE else 10
    np.testing.assert_allclose(found, expected, rtol=most, atol=most)


@pytest.mark.parametrize(
    ("n", "d", "widths", "chunks", "scale"),
    [(3, 100, (128,), 4, 0.5), (300, 260, (), 3, 0.05)],
    ids=["fewer than the basis has", "by a matrix product"],
)
def test_features_of_three_chunks(
    backend: Any, n: int, d: int, widths: tuple[int, ...], chunks: int, scale: float
) -> None:
    X, basis = points(n, d, "float32"), basis_of(widths, d, chunks, "float32", scale)
    out = np.empty((n, 3 * CHUNK), np.float32)
    found, expected = both(backend, "features", X, basis, True, False, out)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("widths", [(), (64,), (128,)])
@pytest.mark.parametrize(("dtype", "wide"), TYPES)
def test_a_phase_that_overflows_counts_as_half_a_turn(
    backend: Any, widths: tuple[int, ...], dtype: str, wide: bool
) -> None:
    d, largest = 40, float(np.finfo(np.float64 if wide else np.float32).max)
    basis = basis_of(widths, d, 2, dtype, 1e9 if dtype == "float64" or not wide else 1.0)
    X = np.full((1, d), min(largest, float(np.finfo(dtype).max)), dtype)
    out = backend.xp.empty((1, 2 * CHUNK), dtype)
    backend.features(backend.put(X), put(backend, basis), True, wide, out)
    found = backend.get(out)
    assert np.isfinite(found).all()
    if dtype == "float64" or not wide:
        assert (found == -1.0).sum() > CHUNK


@pytest.mark.one_in(3)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize(("dtype", "wide"), TYPES)
@pytest.mark.parametrize("widths", WIDTHS)
def test_predictions(
    backend: Any, widths: tuple[int, ...], outputs: int, dtype: str, wide: bool
) -> None:
    n, d, chunks = 70, columns_of(widths), chunks_of(widths)
    X, basis = points(n, d, dtype), basis_of(widths, d, chunks, dtype)
    A = points(chunks * outputs, CHUNK, dtype).reshape(chunks, outputs, CHUNK)
    F = np.empty((n, outputs))
    found, expected = both(backend, "predict", X, basis, A, True, wide, 0.5, F)
    scale = np.sqrt(A.size)
    np.testing.assert_allclose(found, expected, atol=10 * tolerance(dtype) * scale)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("widths", [(), (128, 64)])
def test_a_row_and_the_pieces_of_its_features_are_the_same_bit_for_bit(
    backend: Any, widths: tuple[int, ...], wide: bool
) -> None:
    n, d, chunks = 70, columns_of(widths), 8
    X = backend.put(points(n, d, "float32"))
    basis = put(backend, basis_of(widths, d, chunks, "float32"))
    A = backend.put(points(chunks * 2, CHUNK, "float32").reshape(chunks, 2, CHUNK))

    def sums(rows: slice, *edges: int) -> Any:
        acc = backend.xp.zeros((len(X[rows]), 2, LANES), np.float32)
        for a, b in itertools.pairwise(edges):
            some = slice(a, b)
            backend.accumulate(X[rows], some_of(basis, some), A[some], True, wide, acc)
        return backend.get(acc)

    together = sums(slice(0, n), 0, chunks)
    np.testing.assert_array_equal(sums(slice(0, n), 0, 2, 6, chunks), together)
    for row in (0, 1, 63, 64, 69):
        np.testing.assert_array_equal(sums(slice(row, row + 1), 0, chunks)[0], together[row])


@pytest.mark.parametrize("widths", [(), (128,)])
def test_work_in_slabs_gives_the_same(
    backend: Any, widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    n, d, chunks = 70, columns_of(widths), 6
    X = backend.put(points(n, d, "float32"))
    basis = put(backend, basis_of(widths, d, chunks, "float32"))
    A = backend.put(points(chunks * 2, CHUNK, "float32").reshape(chunks, 2, CHUNK))
    G = backend.put(points(n, 2, "float32"))
    found = []
    for scratch, rows in ((1 << 22, 1 << 16), (5000, 32)):
        monkeypatch.setattr(projection, "SCRATCH", scratch)
        monkeypatch.setattr(projection, "_ROWS", rows)
        F = backend.xp.empty((n, 2), np.float64)
        backend.predict(X, basis, A, True, False, 1.0, F)
        out = backend.xp.empty(A.shape, np.float32)
        backend.gradient(X, basis, G, True, False, out)
        found.append((backend.get(F), backend.get(out)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("n", "outputs"), [(0, 1), (130, 3), (67, 40)])
@pytest.mark.parametrize(("dtype", "wide"), TYPES)
@pytest.mark.parametrize("widths", [(), (256, 64), (1024,)])
def test_gradients(
    backend: Any, widths: tuple[int, ...], n: int, outputs: int, dtype: str, wide: bool
) -> None:
    d, chunks = columns_of(widths), chunks_of(widths)
    X, G = points(n, d, dtype), points(n, outputs, dtype)
    basis = basis_of(widths, d, chunks, dtype)
    out = np.empty((max(1, chunks - 1), outputs, CHUNK), dtype)
    found, expected = both(backend, "gradient", X, basis, G, True, wide, out)
    atol = 30 * tolerance(dtype) * np.sqrt(max(1, n))
    np.testing.assert_allclose(found, expected, atol=atol)


# The device


def test_what_is_put_comes_back(backend: Any) -> None:
    """More than a piece of page-locked memory holds, too, and an array that is not contiguous."""
    large = np.random.default_rng(0).random((3, device.LANDING // 8 + 5))
    for array in (large, large[:, ::2], large[:0], np.arange(3, dtype=np.uint64)):
        np.testing.assert_array_equal(backend.get(backend.put(array)), array)


def test_many_puts_do_not_overtake_what_was_launched(backend: Any) -> None:
    arrays = [np.full(1000, float(i)) for i in range(20)]
    total = backend.xp.zeros(1000, np.float64)
    for array in arrays:
        total += backend.put(array)
    np.testing.assert_array_equal(backend.get(total), sum(arrays))
