"""The generator: published test vectors, and one number at a time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from llvmlite import ir
from reference import naive

from streamk import backends
from streamk.backends import CHUNK, ROUNDS, Law, philox, select
from streamk.backends.jit.vectors import emitted
from streamk.backends.numba_backend.generator import BoxMuller, chunk_words
from streamk.errors import InvalidInput
from streamk.features.columns import column_key

# Random123 (Salmon et al. 2011), file kat_vectors, philox4x32 with 10 rounds: counter, key, output.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip

NAMES = [0, 1, 53, 2**40 + 3, "amount", "größe", "c=s"]

KERNELS = {
    Law.NORMAL: naive.Kernel("gaussian"),
    Law.CAUCHY: naive.Kernel("laplacian"),
    Law.LAPLACE: naive.Kernel("cauchy"),
    Law.STUDENT: naive.Kernel("matern", 1.0, 1.5),
    Law.RATIONAL: naive.Kernel("rational_quadratic", 1.0, 1.5),
}
"""Of scale 1, and of three degrees of freedom where they have any."""

# Where sqrt(-2 log u), cosine and sine change their formula, and the ends.
EXTREME_WORDS = sorted(
    {
        (corner + step) % 2**32
        for corner in [0, *(2**k for k in range(2, 33)), 3 * 2**30, 3 * 2**29, 5 * 2**29, 7 * 2**29,
                       *(round(2 ** (k - 0.5)) for k in range(2, 33))]
        for step in (-2, -1, 0, 1, 2)
    }
)  # fmt: skip
WIDTHS = (64, 1024, 128)


def words(text):
    return [int(word, 16) for word in text.split()]


def draw(seed, law, keys, *, first=0, chunks=1, dof=0, scale=1.0, dtype="float64"):
    """Frequencies (features, columns) in radians and phases (features,) in turns."""
    keys = np.array(keys, dtype=np.uint64)
    W = np.empty((chunks, len(keys), CHUNK), dtype=dtype)
    b = np.empty((chunks, CHUNK), dtype=dtype)
    select().frequencies(seed, law, dof, scale, keys, first, W, b)
    turns = W.astype(np.float64).transpose(0, 2, 1).reshape(chunks * CHUNK, len(keys))
    return 2.0 * np.pi * turns, b.ravel()


def turn(seed, law, *, widths=WIDTHS, first=0, chunks=1, dof=0, dtype="float64"):
    """Signs (chunks, groups, 3), lengths (chunks, groups, CHUNK) and phases (chunks, CHUNK)."""
    signs = np.empty((chunks, len(widths), ROUNDS), dtype=np.uint64)
    radii = np.empty((chunks, len(widths), CHUNK), dtype=dtype)
    b = np.empty((chunks, CHUNK), dtype=dtype)
    select().rotations(seed, law, dof, 0.25, widths, first, signs, radii, b)
    return signs, radii, b


@numba.njit
def sixteen_calls(group, tag, key, seed, out):
    chunk_words(group, tag, key, seed, out)


@emitted
def box_muller(builder, w, v, out):
    """Write the 16 pairs of normals of 16 pairs of words."""
    pairs = BoxMuller(builder)
    loaded = [builder.load(builder.bitcast(p, pairs.ints.as_pointer())) for p in (w, v)]
    for one in loaded:
        one.align = 4
    for i, normal in enumerate(pairs.pair(*loaded)):
        half = builder.gep(out, [ir.Constant(ir.IntType(64), 16 * i)])
        builder.store(normal, builder.bitcast(half, pairs.floats.as_pointer())).align = 4


@numba.njit
def compiled_pairs(w, v, out):
    for i in range(len(w)):
        box_muller(w[i], v[i], out[i])


def normals_of_words(w, v):
    """The compiled and the exact pairs of normals, each (2, words)."""
    w, v = (np.resize(np.asarray(x, dtype=np.uint32), (-(-len(x) // 16), 16)) for x in (w, v))
    out = np.empty((len(w), 2, 16), dtype=np.float32)
    compiled_pairs(w, v, out)
    r = np.sqrt(-2.0 * np.log1p(-(2.0**32 - 0.5 - w) * 2.0**-32))
    quarter, rest = np.divmod(v.astype(np.int64) + 2**29, 2**30)  # exact, near the axes too
    angle = np.pi / 2 * ((rest - 2**29 + 0.5) * 2.0**-30)
    c, s = np.cos(angle), np.sin(angle)
    cosine = np.choose(quarter % 4, [c, -s, -c, s])
    sine = np.choose(quarter % 4, [s, c, -s, -c])
    exact = np.stack([r * cosine, r * sine])
    return out.transpose(1, 0, 2).reshape(2, -1), exact.reshape(2, -1)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter, key, expected):
    counter, key, expected = words(counter), words(key), words(expected)
    assert list(naive.philox4x32(counter, key)) == expected
    seed = key[0] + (key[1] << 32)
    assert philox(np.array(counter, dtype=np.uint64), seed).tolist() == expected
    sixteen = np.empty(64, dtype=np.uint32)
    sixteen_calls(
        counter[0], counter[1], np.uint64(counter[2] + (counter[3] << 32)), np.uint64(seed), sixteen
    )
    assert sixteen[:4].tolist() == expected


def test_sixteen_calls_are_sixteen_calls():
    for seed in (0, 2**31, 2**64 - 1):
        for group, tag, key in [(0, 0, 0), (2**32 - 16, 2**32 - 1, 2**64 - 1), (77, 5, 2**40 + 3)]:
            sixteen = np.empty(64, dtype=np.uint32)
            sixteen_calls(group, tag, np.uint64(key), np.uint64(seed), sixteen)
            expected = [naive.words(seed, tag, 4 * (group + call), key) for call in range(16)]
            assert sixteen.reshape(16, 4).tolist() == [list(four) for four in expected]


@pytest.mark.parametrize("name", NAMES)
def test_column_keys(name):
    assert column_key(name) == naive.column_key(name)
    assert 0 <= column_key(name) < 2**64


def test_column_keys_are_fixed_for_ever():
    # Written down, since checkpoints hold names and not keys.
    assert column_key(5) == 5
    assert column_key("") == 0xB4B2797457A0A6E4
    assert column_key("amount") == 0x833EA39170D47D4D


@pytest.mark.parametrize("name", [1.5, None, ("a", 1), b"a", -1, 2**64, True])
def test_other_column_names_are_refused(name):
    with pytest.raises(InvalidInput, match="column"):
        column_key(name)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-6)])
@pytest.mark.parametrize("law", KERNELS)
def test_frequencies_are_the_oracle_s(law, dtype, tolerance):
    """Of more chunks than share sixteen calls; a Student's t has one radius in all columns."""
    seed, keys = 2**63 + 12345, [naive.column_key(name) for name in NAMES]
    first, chunks = 2**20 + 5, 18
    W, b = draw(seed, law, keys, first=first, chunks=chunks, dof=3, dtype=dtype)
    indices = range(first * CHUNK, (first + chunks) * CHUNK)
    expected = [[naive.frequency(KERNELS[law], seed, i, key) for key in keys] for i in indices]
    np.testing.assert_allclose(W, expected, rtol=tolerance, atol=1e-15)
    phases = np.array([naive.uniform(seed, naive.PHASE, i, 0) for i in indices])
    np.testing.assert_array_equal(b, phases.astype(dtype))


def random_words():
    """Half of them close to an end, where the uniform is near 1 or the angle near an axis."""
    rng = np.random.default_rng(0)
    w, v = rng.integers(2**32, size=(2, 2**20), dtype=np.uint32)
    w[::4] >>= rng.integers(32, size=2**18, dtype=np.uint32)
    w[1::4] = ~(w[1::4] >> rng.integers(32, size=2**18, dtype=np.uint32))
    v[::8] >>= rng.integers(32, size=2**17, dtype=np.uint32)
    return w, v


@pytest.mark.parametrize(
    "words_of", [lambda: np.meshgrid(EXTREME_WORDS, EXTREME_WORDS), random_words]
)
def test_normals_of_words_are_exact_also_next_to_zero(words_of):
    """Every extreme word with every other, and a relative error: Student divides."""
    w, v = words_of()
    z, exact = normals_of_words(w.ravel(), v.ravel())
    assert (np.abs(z - exact) <= 4e-7 * (1.0 + np.abs(exact))).all()
    np.testing.assert_allclose(z, exact, rtol=5e-7)
    assert np.abs(exact).min() < 1e-8
    assert np.abs(exact).max() > 6.7


@pytest.mark.parametrize(
    "features", ["", pytest.param("+sse2,+sse4.2,+avx,+avx2,+fma", marks=pytest.mark.nightly)]
)
def test_other_machines(features):
    """Machines with narrower vectors, and without fused multiply-add, draw the same."""
    program = """
import sys
import numpy as np
from streamk.backends import CHUNK, Law, select
W, b = np.empty((3, 50, CHUNK), np.float32), np.empty((3, CHUNK))
keys = np.arange(50, dtype=np.uint64)
select().frequencies(2**63 + 1, Law.STUDENT, 2, 1.0, keys, 9, W, b.astype(np.float32))
V = np.empty((3, 0, CHUNK))
select().frequencies(2**63 + 1, Law.NORMAL, 0, 1.0, keys[:0], 9, V, b)
sys.stdout.buffer.write(W.tobytes() + b.tobytes())
"""
    environment = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True
    )
    W = np.frombuffer(done.stdout[: -8 * 3 * CHUNK], np.float32).reshape(3, 50, CHUNK)
    b = np.frombuffer(done.stdout[-8 * 3 * CHUNK :]).ravel()
    exact, phases = draw(2**63 + 1, Law.STUDENT, range(50), first=9, chunks=3, dof=2)
    np.testing.assert_array_equal(b, phases)
    turns = exact.reshape(3, CHUNK, 50).transpose(0, 2, 1) / (2.0 * np.pi)
    np.testing.assert_allclose(W, turns, rtol=1e-6)


@pytest.mark.parametrize(
    ("law", "dtype"),
    [
        (Law.NORMAL, "float64"),
        (Law.NORMAL, "float32"),
        (Law.STUDENT, "float64"),
        (Law.RATIONAL, "float32"),
    ],
)
def test_rotations_are_the_oracle_s(law, dtype):
    """Of more chunks than share sixteen calls, from an odd one on."""
    seed, first, chunks = 2**63 + 12345, 3, 36
    signs, radii, b = turn(seed, law, first=first, chunks=chunks, dof=3, dtype=dtype)
    kernel = KERNELS[law]._replace(scale=4.0)
    tolerance = 1e-12 if dtype == "float64" else 1e-6
    for group, p in enumerate(WIDTHS):
        for i in range(first * CHUNK, (first + chunks) * CHUNK):
            c, lane = divmod(i - first * CHUNK, CHUNK)
            bits = [int(signs[c, group, r]) >> lane & 1 for r in range(ROUNDS)]
            assert [1 - 2 * bit for bit in bits] == [
                naive.sign(seed, r, i, group) for r in range(ROUNDS)
            ]
            length = naive.length(seed, i, group, p) * naive.stretch(kernel, seed, i) / kernel.scale
            expected = length / p**1.5 / (2.0 * np.pi)
            assert radii[c, group, lane] == pytest.approx(expected, rel=tolerance)
    indices = range(first * CHUNK, (first + chunks) * CHUNK)
    phases = np.array([naive.uniform(seed, naive.PHASE, i, 0) for i in indices])
    np.testing.assert_array_equal(b.ravel(), phases.astype(dtype))


def test_no_columns_and_no_chunks():
    for chunks, keys in [(2, []), (0, [1, 2])]:
        W, b = draw(5, Law.STUDENT, keys, chunks=chunks, dof=2, dtype="float32")
        assert W.shape == (chunks * CHUNK, len(keys))
        np.testing.assert_array_equal(
            b, draw(5, Law.NORMAL, [1], chunks=chunks)[1].astype("float32")
        )
    assert turn(5, Law.RATIONAL, chunks=0, dof=1)[1].shape == (0, len(WIDTHS), CHUNK)


def test_no_two_streams_have_one_tag():
    named = {name: tag for name, tag in vars(backends).items() if name.startswith("TAG_")}
    radius = named.pop("TAG_RADIUS")
    tags = [*named.values(), *(named["TAG_SIGN"] + r for r in range(1, ROUNDS))]
    assert len(set(tags)) == len(tags)
    assert max(tags) < radius


def test_tags_are_listed_in_one_place():
    home, package = Path(backends.__file__), Path(backends.__file__).parents[1]
    for path in package.rglob("*.py"):
        if path != home:
            assert not re.search(r"^_?TAG_\w+ *=", path.read_text(), re.MULTILINE), path
    header = (home.parent / "cupy_backend/kernels/generator.h").read_text()
    for name, tag in re.findall(r"#define (TAG_\w+) (\d+)", header):
        assert getattr(backends, name) == int(tag)
