"""The generator: published test vectors, and both backends against one number at a time."""

import naive
import numpy as np
import pytest
from scipy import stats

from streamk.backends import CHUNK, select
from streamk.errors import InvalidInput
from streamk.features.columns import column_key
from streamk.kernels import Law

BACKENDS = ["numpy", "numba"]

# Random123 (Salmon et al. 2011), file kat_vectors, philox4x32 with 10 rounds: counter, key, output.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip

SEEDS = [0, 7, 2**31, 2**63 + 12345, 2**64 - 1]
NAMES = [0, 1, 53, 2**40 + 3, "amount", "größe", "c=s"]

DRAWS = {
    Law.NORMAL: lambda seed, i, key: naive.normal(seed, naive.FREQUENCY, i, key),
    Law.CAUCHY: lambda seed, i, key: naive.cauchy(seed, naive.FREQUENCY, i, key),
    Law.LAPLACE: lambda seed, i, key: naive.laplace(seed, naive.FREQUENCY, i, key),
}


def words(text):
    return [int(word, 16) for word in text.split()]


def draw(backend, seed, law, keys, *, first=0, chunks=1, dof=0, scale=1.0, dtype="float64"):
    """Frequencies (features, columns) in radians and phases (features,) in turns."""
    keys = np.array(keys, dtype=np.uint64)
    W = np.empty((chunks, len(keys), CHUNK), dtype=dtype)
    b = np.empty((chunks, CHUNK), dtype=dtype)
    select(backend).frequencies(seed, law, dof, scale, keys, first, W, b)
    turns = W.astype(np.float64).transpose(0, 2, 1).reshape(chunks * CHUNK, len(keys))
    return 2.0 * np.pi * turns, b.ravel()


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter, key, expected):
    counter, key, expected = words(counter), words(key), words(expected)
    assert list(naive.philox4x32(counter, key)) == expected
    seed = key[0] + (key[1] << 32)
    reference = select("numpy").philox(np.array(counter, dtype=np.uint64), seed)
    assert reference.tolist() == expected
    compiled = select("numba").philox(*(np.uint64(word) for word in counter + key))
    assert [int(word) for word in compiled] == expected


def test_the_vectors_tell_a_wrong_round_count_apart():
    counter, key, expected = (words(part) for part in KNOWN_ANSWERS[2])
    for rounds in (7, 9, 11):
        assert list(naive.philox4x32(counter, key, rounds)) != expected


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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("law", DRAWS)
@pytest.mark.parametrize("seed", SEEDS)
def test_frequencies_are_the_oracle_s(backend, law, seed):
    keys = [naive.column_key(name) for name in NAMES]
    first, chunks = 5, 2
    W, b = draw(backend, seed, law, keys, first=first, chunks=chunks)
    indices = range(first * CHUNK, (first + chunks) * CHUNK)
    expected = [[DRAWS[law](seed, i, key) for key in keys] for i in indices]
    np.testing.assert_allclose(W, expected, rtol=1e-12, atol=1e-15)
    phases = [naive.uniform(seed, naive.PHASE, i, 0) for i in indices]
    np.testing.assert_array_equal(b, phases)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dof", [1, 3, 5])
def test_student_frequencies_share_one_radius_in_all_columns(backend, dof):
    keys = [0, 1, naive.column_key("amount")]
    W, _ = draw(backend, 11, Law.STUDENT, keys, first=1, dof=dof)
    kernel = naive.Kernel("matern", 1.0, dof / 2)
    indices = range(CHUNK, 2 * CHUNK)
    expected = [[naive.frequency(kernel, 11, i, key) for key in keys] for i in indices]
    np.testing.assert_allclose(W, expected, rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scale_multiplies(backend):
    whole, _ = draw(backend, 3, Law.NORMAL, [0, 1])
    scaled, _ = draw(backend, 3, Law.NORMAL, [0, 1], scale=0.25)
    np.testing.assert_allclose(scaled, 0.25 * whole, rtol=1e-15)


@pytest.mark.parametrize("backend", BACKENDS)
def test_single_precision_normals(backend):
    """DESIGN: normals agree to 4e-7 (1 + |z|) wherever they are computed."""
    W, b = draw(backend, 2**40 + 1, Law.NORMAL, range(20), first=1000, chunks=4, dtype="float32")
    indices = range(1000 * CHUNK, 1004 * CHUNK)
    z = np.array([[naive.normal(2**40 + 1, 0, i, key) for key in range(20)] for i in indices])
    assert (np.abs(W - z) <= 4e-7 * (1.0 + np.abs(z))).all()
    phases = [naive.uniform(2**40 + 1, naive.PHASE, i, 0) for i in indices]
    np.testing.assert_allclose(b, phases, rtol=0, atol=2.0**-25)


@pytest.mark.parametrize("law", [*DRAWS, Law.STUDENT])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_backends_agree(law, dtype):
    keys = [0, 1, 2, 2**63 + 5]
    arguments = {"first": 2**20, "chunks": 16, "dof": 3 * (law == Law.STUDENT), "dtype": dtype}
    W, b = draw("numpy", 5, law, keys, **arguments)
    V, c = draw("numba", 5, law, keys, **arguments)
    np.testing.assert_array_equal(b, c)
    np.testing.assert_allclose(W, V, rtol=1.3e-7 if dtype == "float32" else 1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_chunk_does_not_depend_on_its_neighbours(backend):
    whole, phases = draw(backend, 5, Law.NORMAL, [0, 9, 4], chunks=6)
    part, part_phases = draw(backend, 5, Law.NORMAL, [4], first=2, chunks=3)
    np.testing.assert_array_equal(part[:, 0], whole[2 * CHUNK : 5 * CHUNK, 2])
    np.testing.assert_array_equal(part_phases, phases[2 * CHUNK : 5 * CHUNK])


@pytest.mark.parametrize(
    ("law", "dof", "distribution"),
    [
        (Law.NORMAL, 0, stats.norm()),
        (Law.CAUCHY, 0, stats.cauchy()),
        (Law.LAPLACE, 0, stats.laplace()),
        (Law.STUDENT, 1, stats.t(1)),
        (Law.STUDENT, 3, stats.t(3)),
        (Law.STUDENT, 5, stats.t(5)),
    ],
)
def test_laws(law, dof, distribution):
    """Kolmogorov-Smirnov on 2^16 draws; a scale wrong by 5% fails, and is shown to fail."""
    W, _ = draw("numpy", 1, law, [17], chunks=2**16 // CHUNK, dof=dof)
    z = W[:, 0]
    assert stats.kstest(z, distribution.cdf).pvalue > 1e-3
    assert stats.kstest(1.05 * z, distribution.cdf).pvalue < 1e-3


def test_phases_are_uniform_and_streams_do_not_repeat_each_other():
    chunks = 2**14 // CHUNK
    _, b = draw("numpy", 1, Law.NORMAL, [0], chunks=chunks)
    assert stats.kstest(b, stats.uniform().cdf).pvalue > 1e-3
    columns = []
    for seed in (1, 2, 1 + 2**32, 2**63):  # the high word of a seed counts too
        W, b = draw("numpy", seed, Law.NORMAL, [0, 1, 2**32, 2**32 + 1], chunks=chunks)
        columns += [*W.T, stats.norm.ppf(b)]
    correlation = np.corrcoef(columns)
    np.fill_diagonal(correlation, 0.0)
    # 190 pairs: 4.2 standard errors leave a chance of one in 200 for a fixed set of seeds.
    assert np.abs(correlation).max() < 4.2 / np.sqrt(len(columns[0]))
