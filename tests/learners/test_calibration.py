"""Probabilities of learners of squared loss: against a plain rule, and frequencies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streamk.kernels import Laplacian
from streamk.learners import EigenPro, OnlineKernelRidge, from_state
from streamk.learners.common.calibration import Calibration, inverse_temperature
from streamk.losses import softmax


def plain(margins: Any, classes: Any, block: int) -> float:
    """The inverse temperature after blocks of events, each event by itself."""
    t, curvature = 1.0, 10.0
    for first in range(0, len(margins), block):
        slope = more = 0.0
        for f, k in zip(
            margins[first : first + block], classes[first : first + block], strict=True
        ):
            every = [-f[0], f[0]] if len(f) == 1 else [*f]
            top = max(t * g for g in every)
            total = sum(math.exp(t * g - top) for g in every)
            P = [math.exp(t * g - top) / total for g in every]
            mean = sum(p * g for p, g in zip(P, every, strict=True))
            slope += mean - every[k]
            more += sum(p * g * g for p, g in zip(P, every, strict=True)) - mean**2
        curvature = curvature * (1 - 1 / 2000) ** block + more
        t = min(max(t - slope / curvature, t / 2, 0.01), 2 * t, 100.0)
    return t


@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_the_plain_rule(outputs: int) -> None:
    rng = np.random.default_rng(outputs)
    classes = rng.integers(0, max(2, outputs), 640)
    margins = rng.normal(size=(640, outputs))
    for row, k in zip(margins, classes, strict=True):
        row[k if outputs > 1 else 0] += 1.0 if outputs > 1 else 2.0 * k - 1.0
    calibration = Calibration()
    for at in range(0, 640, 32):
        calibration.add(margins[at : at + 20], classes[at : at + 20].astype(float))
        calibration.add(margins[at + 20 : at + 32], classes[at + 20 : at + 32].astype(float))
        calibration.close(32)
    assert calibration.factor == pytest.approx(plain(margins, classes, 32), rel=1e-10)
    P = calibration.probabilities(margins)
    assert np.allclose(P.sum(axis=1), 1.0, atol=1e-12)
    assert P.shape == (640, max(2, outputs))


def test_margins_far_out_leave_numbers() -> None:
    calibration = Calibration()
    calibration.add(np.array([[1e300], [-1e300]]), np.array([0.0, 1.0]))
    calibration.close(2)
    assert 0.01 <= calibration.factor <= 100.0
    for _ in range(40):
        calibration.add(np.array([[1.0], [-1.0]] * 32), np.array([1.0, 0.0] * 32))
        calibration.close(64)
    assert calibration.factor > 2.0, "it goes on"
    assert np.isfinite(calibration.probabilities(np.array([[1e300], [-1e300], [0.0]]))).all()


@pytest.mark.parametrize("classes", [3, 20, 21, 45])
def test_a_model_of_one_event_opens_again(classes: int) -> None:
    for make in (OnlineKernelRidge, EigenPro):
        model: Any = make(Laplacian(), classes=[f"c{k}" for k in range(classes)])
        model.learn_one([0.0, 1.0], "c0")
        assert from_state(model.state()).n_events == 1


# --- of events held back --------------------------------------------------------------------------


def probabilities(F: Any, factor: float) -> Any:
    """One output f stands for (-f, f)."""
    return softmax(factor * (np.hstack([-F, F]) if F.shape[1] == 1 else F))


def test_the_temperature_is_that_of_least_log_loss() -> None:
    random = np.random.default_rng(0)
    F = random.normal(size=(2_000, 3))
    true = probabilities(F, 1.7)
    classes = (random.uniform(size=(2_000, 1)) > np.cumsum(true, axis=1)).sum(axis=1)

    def loss(factor: float) -> float:
        P = probabilities(F, factor)
        return float(-np.log(P[np.arange(2_000), classes]).mean())

    found = inverse_temperature(F, classes)
    assert found == pytest.approx(1.7, abs=0.15)
    assert loss(found) < min(loss(found * 1.05), loss(found / 1.05))


def test_events_that_are_all_right_leave_room_for_an_error() -> None:
    """Of n events, all right by the same margin f, the probability becomes (n + 1) / (n + 2)."""
    for n, f in ((10, 1.0), (1_000, 0.5)):
        F, classes = np.full((n, 1), f), np.ones(n)
        P = probabilities(F, inverse_temperature(F, classes))
        np.testing.assert_allclose(P[:, 1], (n + 1) / (n + 2))


def test_the_temperature_has_limits() -> None:
    F = np.array([[1e-3], [-1e-3]])
    assert inverse_temperature(F, np.array([1, 0])) == pytest.approx(100.0)
    assert inverse_temperature(F, np.array([0, 1])) == pytest.approx(0.01)
    assert np.array_equal(probabilities(F, 3.0).sum(axis=1), [1.0, 1.0])
