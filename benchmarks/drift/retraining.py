"""Retraining: River's naive Bayes begins anew where a detector, fed with its errors, says so.

`river.drift.DriftRetrainingClassifier` without a model in the background, on the first events of
data sets in their order. Each event is predicted, then learned; figures are accuracies. So simple
a model gains by forgetting often, also where nothing is certain yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks import common
from benchmarks.data import Dataset, Directory, load
from benchmarks.drift.detectors import OURS

SETS = ("elec2", "rialto", "covtype_subset93k")
MOST = 10_000
"""Events of each set."""


def measure(data: Directory, *, quick: bool) -> dict[str, Any]:
    """Accuracy by data set and detector."""
    from river import drift

    from streamk.adapters.river import MMDDrift

    found: dict[str, Any] = {}
    for name in SETS:
        stream = load(name, data, quick=quick).first(MOST)
        detectors = {
            OURS: MMDDrift(seed=1),
            "ADWIN": drift.ADWIN(),
            "PageHinkley": drift.PageHinkley(),
            "none": drift.NoDrift(),
        }
        accuracies = {one: _accuracy(stream, made) for one, made in detectors.items()}
        found[name] = {"events": len(stream), "accuracy": accuracies}
        common.note(f"  {name}: {accuracies}")
    return found


def _accuracy(stream: Dataset, detector: Any) -> float:
    from river import drift, naive_bayes

    model = drift.DriftRetrainingClassifier(
        naive_bayes.GaussianNB(), detector, train_in_background=False
    )
    right = 0
    for x, y in stream.events(0, len(stream)):
        right += model.predict_one(x) == y
        model.learn_one(x, y)
    return right / len(stream)


def render(found: Mapping[str, Any]) -> str:
    """A line for each data set, a column for each detector."""
    header = ["accuracy, %", *next(iter(found.values()))["accuracy"]]
    rows = [
        [f"{name}, {one['events']:,} events"]
        + [f"{100 * accuracy:.1f}" for accuracy in one["accuracy"].values()]
        for name, one in found.items()
    ]
    return common.table(header, rows)
