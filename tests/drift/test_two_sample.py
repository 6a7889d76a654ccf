"""The loops of the streaming two-sample test, against the oracle and against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import two_sample as naive
from reference import two_sample_loops as plain

from streamk.backends import CHUNK, loops, select, two_sample
from streamk.drift import StreamingMMD
from streamk.drift.streaming_mmd import BANDWIDTHS, WARM_UP, FirstScale
from streamk.features import RandomFeatures
from streamk.kernels import Gaussian

Numbers = np.ndarray[Any, Any]


def features(X: Numbers, seed: int, most: int) -> Numbers:
    """Return all features of all events by the public machinery, in double precision."""
    scale = FirstScale(X[:WARM_UP])
    Z = scale.transform(X, select())
    columns = []
    for c in range(most // CHUNK):
        bandwidth = BANDWIDTHS[c % two_sample.BANDS] * scale.distance
        one = RandomFeatures(Gaussian(bandwidth=bandwidth), seed=seed)
        columns.append(one.transform(Z, c * CHUNK, (c + 1) * CHUNK) / np.sqrt(2.0))
    return np.hstack(columns).astype(np.float64)


def streams(kind: str, n: int) -> Numbers:
    rng = np.random.default_rng(3)
    if kind == "numbers":
        X = rng.normal(size=(n, 2))
        X[n // 2 :, 0] += 0.7
        return X
    X = (rng.random((n, 1)) < 0.2).astype(float)
    X[n // 2 :] = rng.random((n - n // 2, 1)) < 0.5
    return X


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["numbers", "zeros and ones"])
def test_wealth_is_that_of_the_oracle(kind: str) -> None:
    X, most = streams(kind, 1300), 384
    test = StreamingMMD(X.shape[1], reference=100, seed=11, alpha=1e-12)
    p = np.array(list(naive.p_values(features(X, 11, most), seed=11, most=100)))
    at, tests = 0, 0
    for n in (200, 700, 1100, 1300):
        test.update(X[at:n])
        at = n
        tests = sum(naive.draw(11, t)[0] >= naive.TRAINING for t in range(WARM_UP, n))
        expected = [naive.wealth(one[:tests].tolist()) for one in p.T]
        assert test._run.wealth == pytest.approx(max(expected), rel=1e-5)
        assert test._run.sample.counts[1] == tests
    assert test.n_features == 384
    assert test._run.peak > 2.0


@pytest.mark.parametrize("kind", ["numbers", "zeros and ones"])
def test_ranks_are_uniform_and_independent(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, rank = [], plain.rank

    def recorded(*arguments: Any) -> Any:
        found.append(rank(*arguments))
        return found[-1]

    monkeypatch.setattr(plain, "rank", recorded)
    monkeypatch.setattr(loops, "two_sample", plain)
    X = streams(kind, 12_000)[:6000]  # before the change
    StreamingMMD(X.shape[1], reference=64, seed=5, alpha=1e-12).update(X)
    p = np.array(found)
    n = len(p)
    assert n > 3500
    for witness in p.T:
        # Bounds that hold but for one time in some thousands, of nine witnesses and two laws.
        gaps = np.abs(np.sort(witness) - (np.arange(n) + 0.5) / n)
        assert gaps.max() < 2.3 / np.sqrt(n)
        centered = witness - 0.5
        for lag in (1, 2, 7, 64):
            correlation = 12.0 * np.mean(centered[lag:] * centered[:-lag])
            assert abs(correlation) < 4.5 / np.sqrt(n)


def test_the_bets_are_fair() -> None:
    before = [0.003, 0.01, 0.01, 0.4, 0.9]
    roots = (np.arange(20_000) + 0.5) / 20_000  # of order 4: no bet is infinite there
    weighted = [4 * u**3 * np.array(naive.bets(u**4, before)) for u in roots]
    np.testing.assert_allclose(np.mean(weighted, axis=0), 1.0, rtol=1e-3)


def test_the_loops_have_the_bits_of_the_reference() -> None:
    rng = np.random.default_rng(5)
    F = np.cos(rng.normal(size=(900, 384))).astype(np.float32)
    F[::3] = F[0]  # ties
    X, draws = rng.normal(size=(900, 2)), rng.random((900, 3))
    found = []
    for twin in (plain, loops.two_sample):
        sample = two_sample.begin(300, 2, 384)
        sample = sample._replace(
            events=np.zeros((300, 2)),
            features=np.zeros((384, 300), np.float32),
            scores=np.zeros((two_sample.WITNESSES, 300), np.float32),
        )
        assert twin.follow(sample, F, X, draws, np.inf) == 900
        found.append(sample)
        twin.rescore(sample)
    for name, one, other in zip(found[0]._fields, *found, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
