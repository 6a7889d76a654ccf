"""Numbers keep the digits that matter, those of their deviation, in every form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_kit import Header
from forms_kit import forms

from streamk.encoding.schema import Schema
from streamk.export import to_onnx
from streamk.learners import create
from streamk.prediction import compile as compiled
from streamk.prediction import dc_pred, load

pytest.importorskip("sklearn", reason="landmarks need scikit-learn: pip install scikit-learn")

FEW: dict[str, Any] = {"trees": 2, "leaves": 4, "landmarks": 12, "iterations": 20}
SIZES = [
    (0.0, 1.0),
    (1e6, 1.0),
    (-1.7e9, 1.0),
    (1e11, 1.0),
    (1.0, 1e-9),
    (1e290, 1e285),
    (0.0, 1e308),
    (0.0, 1e-300),
]
"""Where numbers lie, and how far they are apart."""


def stream(n: int = 1200) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 3))
    return X, np.tanh(np.sin(2 * X[:, 0]) + X[:, 1])


@pytest.mark.parametrize(("offset", "unit"), SIZES)
def test_labels_anywhere(offset: float, unit: float, tmp_path: Path) -> None:
    X, signal = stream()
    y = offset + unit * signal
    kept = np.spacing(max(abs(offset), unit)) / unit  # by double precision, in their unit
    model = dc_pred(X[:800], y[:800], task="regression", **FEW)
    plain = dc_pred(X[:800], signal[:800], task="regression", **FEW)
    expected = plain.predict_many(X[800:])
    for form, found in forms(model, X[800:], tmp_path).items():
        back = np.array(found) / unit - offset / unit
        # Trained by labels whose last digits differ, the two differ a little.
        assert np.mean((back - expected) ** 2) < 1e-3 * expected.var(), form
        exact = model.predict_many(X[800:]) / unit - offset / unit
        np.testing.assert_allclose(back, exact, atol=1e-5 + 4 * kept, err_msg=form)
        assert len(set(found)) > 390, form
        assert all(isinstance(number, float) for number in found), form


def test_a_copy_of_a_learner_keeps_them() -> None:
    X, signal = stream()
    y = 1.7e9 + 1.2 * signal
    learner = create("multi-kernel", task="regression", seed=1, external_experts=())
    learner.learn_many(X, y)
    fast = compiled(learner, X, budget=5)
    expected, found = learner.predict_many(X), fast.predict_many(X)
    assert np.mean((found - expected) ** 2) < 0.02 * expected.var()
    assert fast.predict_one(X[0]) == found[0]
    assert (fast.decision_many(X)[:, 0] == found).all()


def test_labels_that_are_all_the_same(tmp_path: Path) -> None:
    X, _ = stream(100)
    model = dc_pred(X, np.full(100, 1700000000.1), task="regression", leaves=2, landmarks=3)
    for form, found in forms(model, X, tmp_path).items():
        assert set(found) == {1700000000.1}, form


@pytest.mark.parametrize(
    ("offset", "unit", "double"),
    [
        (0.0, 1.0, False),
        (1e3, 1.0, False),
        (1e6, 1e3, False),
        (1e5, 1.0, True),
        (1.7e9, 1.0, True),
        (1.0, 1e-6, True),
        (0.0, 1e-50, True),
        (0.0, 1e50, True),
    ],
)
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_columns_anywhere(
    task: str, offset: float, unit: float, double: bool, tmp_path: Path
) -> None:
    """An input of ONNX is double where single precision loses more than a thousandth."""
    X, signal = stream()
    X = np.column_stack([offset + unit * X[:, 0], X[:, 1], np.full(len(X), 5.0)])
    y = signal > 0 if task == "classification" else signal
    model = dc_pred(X[:800], y[:800], task=task, **FEW)
    found = forms(model, X[800:], tmp_path)
    expected = np.array(found.pop("Python"), float)
    assert np.mean((expected - y[800:]) ** 2) < 0.3 * y.var()
    for form, same in found.items():
        apart = np.abs(np.array(same, float) - expected)
        assert np.mean(apart > 5e-3) < 0.01, form
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    kind = "tensor(double)" if double else "tensor(float)"
    assert [one.type for one in session.get_inputs()] == [kind]


def test_each_field_has_the_input_that_it_needs(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    X, signal = stream()
    X[:, 1] += 1.7e9
    names = ("a", "seconds", "c")
    model = dc_pred(X, signal, task="regression", columns=names, **FEW)
    to_onnx(model, tmp_path / "model.onnx", schema=Schema(names))
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    types = {one.name: one.type for one in session.get_inputs()}
    assert types == {"a": "tensor(float)", "seconds": "tensor(double)", "c": "tensor(float)"}
    given = {name: X[:, [k]] for k, name in enumerate(names)}
    given |= {name: given[name].astype(np.float32) for name in ("a", "c")}
    found = session.run(["number"], given)[0]
    np.testing.assert_allclose(found, model.predict_many(X), atol=1e-4)


def test_scores_are_doubles(tmp_path: Path) -> None:
    X, signal = stream()
    model = dc_pred(X, np.digitize(signal, [-0.5, 0.5]), **FEW)
    assert model.decision_many(X).dtype == model.decision_one(X[0]).dtype == np.float64
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    assert (again.decision_many(X) == model.decision_many(X)).all()
    scores = Header(model, tmp_path).predict(X)[0]
    np.testing.assert_allclose(scores, model.decision_many(X), rtol=1e-4, atol=1e-4)


def test_estimators_keep_them() -> None:
    from streamk.adapters.sklearn import DCPredRegressor

    X, signal = stream()
    model = DCPredRegressor(random_state=0, **FEW).fit(X[:800], 1.7e9 + signal[:800])
    assert model.score(X[800:], 1.7e9 + signal[800:]) > 0.9
