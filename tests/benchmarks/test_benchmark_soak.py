"""The soak benchmark: the slope of memory, and a few seconds of it on a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.engine.broker import Broker
from benchmarks.soak import __main__ as soak
from benchmarks.soak import memory


def test_the_error_of_a_slope_covers_noise_whose_samples_are_alike() -> None:
    """Of 200 lines with noise about 95% lie within 2.2 errors, the bound of 10 degrees."""
    rng = np.random.default_rng(3)
    seconds = np.arange(600.0)
    within = 0
    for _ in range(200):
        noise = np.convolve(rng.normal(size=609), np.ones(10), "valid")  # ten in a row are alike
        found, error = memory.slope(seconds, 3.0 * seconds + noise)
        within += abs(found - 3.0) < 2.2 * error
    assert 180 <= within <= 198


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.slow
def test_seconds_of_it(kafka_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    found = soak.soak(Broker(kafka_address), 3.0, "doubly-stochastic")
    assert found["events"] == found["predictions_in_topic"] > 20_000
    assert found["bad"] == found["dead_letters"]
    assert found["fates"]["joined"] > 0
    assert found["lost"] == []
    origin: dict[str, Any] = {
        "date": "2024-01-01",
        "machine": {"cpu": "", "cores": 1, "vectors": []},
        "versions": {"python": "", "numpy": "", "numba": "", "river": ""},
        "settings": {"model": "doubly-stochastic", "minutes": 0.1},
    }
    assert "memory, MB/h" in soak.render({"results": found, **origin})
