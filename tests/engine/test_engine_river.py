"""The engine predicts every event just as River's loop does, in whatever form the events come."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, same_model
from river import base

from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_source
from streamk.adapters import river
from streamk.learners import create

N = 120


def events(task: str, seed: int = 0) -> list[dict[str, Any]]:
    """Numbers, seconds since 1970, texts, missing values, a text of many values, late fields."""
    rng = random.Random(seed)
    made: list[dict[str, Any]] = []
    for i in range(N):
        x: dict[str, Any] = {
            "time": 1.7e9 + 60.0 * i + rng.random(),
            "b": rng.gauss(0, 1) if rng.random() < 0.9 else None,
            "a": rng.randrange(5),
            "colour": rng.choice(["red", "green", "blue", None]),
            "who": f"user {rng.randrange(400)}",
            "late": rng.gauss(0, 1) if i > N // 2 else None,
        }
        signal = (x["b"] or 0.0) + (x["colour"] == "red") - 0.5 * (x["a"] > 2)
        if task == "regression":
            x["y"] = signal + rng.gauss(0, 0.1)
        elif task == "booleans":
            x["y"] = None if i % 7 == 3 or i < 2 else signal > 0.5
        else:
            x["y"] = "up" if signal > 0.5 else "down" if signal < -0.5 else "level"
        made.append(x)
    return made


def source(form: str, stream: list[dict[str, Any]], directory: Path) -> Any:
    if form == "dict":
        return MemorySource(stream)
    if form == "json":
        return MemorySource([json.dumps(event).encode() for event in stream])
    if form == "csv":
        path = directory / "events.csv"
        text = io.StringIO()
        writer = csv.DictWriter(text, stream[0])
        writer.writeheader()
        writer.writerows(stream)
        path.write_text(text.getvalue())
        return open_source(f"csv:{path}")
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    path = directory / "events.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(stream), path)
    return open_source(f"parquet:{path}")


def by_river(model: Any, stream: list[dict[str, Any]]) -> Iterator[tuple[Any, dict[Any, float]]]:
    """Predict, then learn, as `river.evaluate.progressive_val_score` does."""
    for event in stream:
        x = dict(event)
        y = x.pop("y")
        regression = isinstance(model, base.Regressor)
        yield model.predict_one(x), {} if regression else model.predict_proba_one(x)
        if y is not None:
            model.learn_one(x, y)


OPTIONS = {"max_features": 256, "block_size": 256}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "many": ("multi-kernel", "Kernel", {}),
    "one": ("doubly-stochastic", "DoublyStochastic", OPTIONS),
}


night = pytest.mark.nightly


@pytest.mark.parametrize(
    ("form", "task", "of"),
    [
        ("dict", "classification", "one"),
        ("json", "regression", "one"),
        ("csv", "classification", "one"),
        ("parquet", "regression", "one"),
        ("json", "classification", "many"),
        ("json", "booleans", "one"),
        pytest.param("csv", "regression", "many", marks=night),
        pytest.param("dict", "regression", "many", marks=night),
        pytest.param("parquet", "classification", "many", marks=night),
    ],
)
def test_predictions_and_model_are_those_of_rivers_loop(
    form: str, task: str, of: str, tmp_path: Path
) -> None:
    name, family, options = MODELS[of]
    stream, sink = events(task), MemorySink()
    kind = "regression" if task == "regression" else "classification"
    model = create(name, task=kind, seed=0, **options)
    report = attached(source(form, stream, tmp_path), model, label="y", sink=sink).run()
    kind = "Regressor" if task == "regression" else "Classifier"
    twin = getattr(river, family + kind)(seed=0, **options)
    for output, (predicted, shares) in zip(sink.outputs, by_river(twin, stream), strict=True):
        assert output.value["prediction"] == predicted
        if task == "booleans":
            shares = {str(label).lower(): p for label, p in shares.items()}
        assert output.value.get("probabilities", {}) == shares
    assert twin._model.learner.columns == report.schema.columns
    assert same_model(twin._model.learner, report.model)
    assert report.model.classes == (False, True) or task != "booleans"
