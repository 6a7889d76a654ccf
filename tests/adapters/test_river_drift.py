"""MMDDrift, as River's drift detectors are used."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import pytest

pytest.importorskip("river", reason="the detector is River's: pip install river")

from river import base, drift, naive_bayes

from streamk.adapters.river import MMDDrift
from streamk.errors import InvalidInput


def fed(detector: Any, numbers: list[Any]) -> list[int]:
    """Return after which numbers drift was detected."""
    found = []
    for i, number in enumerate(numbers):
        detector.update(number)
        if detector.drift_detected:
            found.append(i)
    return found


def test_it_is_one_of_rivers_detectors() -> None:
    detector = MMDDrift(alpha=0.02, seed=3)
    assert isinstance(detector, base.DriftAndWarningDetector)
    assert not detector.drift_detected
    assert not detector.warning_detected
    twin = detector.clone()
    assert (twin.alpha, twin.seed, twin.n_detections) == (0.02, 3, 0)
    assert type(twin) is MMDDrift
    assert "alpha=0.02" in repr(detector)


@pytest.mark.parametrize("kind", ["errors", "numbers", "booleans"])
def test_numbers(kind: str) -> None:
    rng = random.Random(1)
    if kind == "numbers":
        numbers: list[Any] = [rng.gauss(0, 1) for _ in range(2000)]
        numbers += [rng.gauss(1.5, 1) for _ in range(400)]
    else:
        numbers = [int(rng.random() < 0.1) for _ in range(2000)]
        numbers += [int(rng.random() < 0.5) for _ in range(400)]
    if kind == "booleans":
        numbers = [bool(number) for number in numbers]
    detector = MMDDrift(seed=5)
    (found,) = fed(detector, numbers)
    assert 2000 < found < 2300
    assert detector.n_detections == 1
    assert not detector.drift_detected


def test_events_whose_columns_come_and_go() -> None:
    rng, detector, found = random.Random(2), MMDDrift(seed=6), []
    for i in range(4000):
        x: dict[Any, Any] = {"a": rng.gauss(0, 1), "colour": rng.choice(["red", "blue"])}
        if rng.random() < 0.5:
            x["sometimes"] = rng.gauss(5, 1)
        if rng.random() < 0.1:
            x["a"] = None
        if i >= 3000 and x["colour"] == "red" and x["a"] is not None:
            x["a"] = abs(x["a"])
        detector.update_one(x)
        if detector.drift_detected:
            found.append(i)
    assert len(found) == 1
    assert 3000 < found[0] < 3600


def test_copies_and_pickles_go_on_alike() -> None:
    rng, detector = random.Random(3), MMDDrift(seed=7, reference=64)
    fed(detector, [rng.random() for _ in range(700)])
    others = [copy.deepcopy(detector), pickle.loads(pickle.dumps(detector))]
    rest = [rng.random() + 0.3 for _ in range(400)]
    expected = fed(detector, rest)
    assert len(expected) == 1
    for other in others:
        assert fed(other, rest) == expected
        assert other.p_value == detector.p_value


@pytest.mark.parametrize("background", [True, False])
def test_it_retrains_a_classifier(background: bool) -> None:
    rng = random.Random(5)
    model = drift.DriftRetrainingClassifier(
        model=naive_bayes.GaussianNB(),
        drift_detector=MMDDrift(seed=9),
        train_in_background=background,
    )
    plain, right = naive_bayes.GaussianNB(), [0, 0]
    for i in range(4000):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1)}
        y = (x["a"] > 0) != (i >= 2000)
        for k, one in enumerate((model, plain)):
            right[k] += i >= 2500 and one.predict_one(x) == y
            one.learn_one(x, y)
    assert model.drift_detector.n_detections >= 1
    assert right[0] > 1300 > right[1]


@pytest.mark.parametrize("x", [float("inf"), [1, 2], "text", {"a": 1}])
def test_what_is_no_number(x: Any) -> None:
    detector = MMDDrift(seed=1)
    with pytest.raises(InvalidInput, match="inf" if isinstance(x, float) else "takes a number"):
        detector.update(x)


def test_options_out_of_their_domain() -> None:
    with pytest.raises(InvalidInput, match="alpha=2 must be"):
        MMDDrift(alpha=2)
    with pytest.raises(InvalidInput, match="an event must be a dict of columns"):
        MMDDrift().update_one([1.0])  # type: ignore[arg-type]
