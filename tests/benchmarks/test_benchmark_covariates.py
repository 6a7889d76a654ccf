"""The benchmark of alarms about covariate drift: its streams change where they are to."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("river", reason="the streams are River's: pip install river")

from benchmarks.signals import covariates


@pytest.mark.parametrize("kind", covariates.KINDS)
def test_one_column_changes(kind: str) -> None:
    n = 4000
    X = covariates.changed(kind, 3, n, seed=1)
    before, after = X[:n], X[n:]
    figures = [
        (abs(some[:, 1].mean()), some[:, 1].std(), np.corrcoef(some.T)[0, 1])
        for some in (before, after)
    ]
    far = [abs(a - b) for a, b in zip(*figures, strict=True)]
    assert max(far) > 0.4
    np.testing.assert_allclose(after[:, [0, 2]].std(axis=0), 1.0, atol=0.05)
    np.testing.assert_allclose(before.std(axis=0), 1.0, atol=0.05)
