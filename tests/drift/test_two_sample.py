"""The loops of the streaming two-sample test, against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import two_sample as naive

from streamk.backends import CHUNK, select, two_sample
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


@pytest.mark.parametrize("kind", ["numbers", "zeros and ones"])
def test_wealth_is_that_of_the_oracle(kind: str) -> None:
    X, most = streams(kind, 1300), 384
    test = StreamingMMD(X.shape[1], reference=100, seed=11, alpha=1e-12)
    p = np.array(list(naive.p_values(features(X, 11, most), seed=11, most=100)))
    at, tests = 0, 0
    for n in (700, 1300):
        test.update(X[at:n])
        at = n
        tests = sum(naive.draw(11, t)[0] >= naive.TRAINING for t in range(WARM_UP, n))
        expected = [naive.wealth(one[:tests].tolist()) for one in p.T]
        assert test._wealth == pytest.approx(max(expected), rel=1e-5)
        of_each = test._sample.wealth.sum(axis=1) + naive.unspent(tests)
        np.testing.assert_allclose(of_each, expected, rtol=1e-5)
        assert test._sample.counts[1] == tests
    assert test.n_features == 384
    assert test._peak > 2.0
