"""What a compiled model predicts in each of its forms: Python, a file, C and ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_kit import Header

from streamk.export import to_onnx
from streamk.prediction import CompiledModel, load

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}


def by_onnx(path: Path, X: Any) -> list[Any]:
    """What ONNX Runtime gives for the input X: labels or numbers, then any probabilities."""
    runtime = pytest.importorskip("onnxruntime", reason="ONNX is run by onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    found: list[Any] = session.run(None, {"X": np.asarray(X, TYPES[given.type])})
    return found


def forms(model: CompiledModel, X: Any, folder: Path) -> dict[str, list[Any]]:
    """Labels or numbers of the events X in each form, as lists."""
    pytest.importorskip("onnx", reason="models are written by onnx: pip install onnx")
    model.save(folder / "model.safetensors")
    to_onnx(model, folder / "model.onnx")
    in_c = Header(model, folder).predict(X)[1].tolist()
    return {
        "Python": model.predict_many(X).tolist(),
        "a file": load(folder / "model.safetensors").predict_many(X).tolist(),
        "C": [model.classes[int(place)] for place in in_c] if model.classes else in_c,
        "ONNX": by_onnx(folder / "model.onnx", X)[0].tolist(),
    }
