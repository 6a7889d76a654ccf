"""Models as ONNX, run by ONNX Runtime, against `CompiledModel` itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_kernels_kit import MODELS, compiled, events, made

from streamk.encoding.columns import ColumnTable
from streamk.encoding.schema import Absent, Schema
from streamk.encoding.values import MISSING
from streamk.errors import BackendUnavailable, InvalidInput
from streamk.export import to_onnx

pytest.importorskip("onnx", reason="models are written by onnx: pip install onnx")
runtime = pytest.importorskip("onnxruntime", reason="they are run by onnxruntime")

ALL = MODELS | {
    "all classes everywhere": ({"n_outputs": 3, "alike": True}, ("a", "b", "ü")),
    "booleans": ({"n_outputs": 1}, (False, True)),
    "several leaves": ({"n_outputs": 3, "trees": 2, "leaves": 1}, ("a", "b", "c")),
}


def session(path: Path) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(path: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    """The outputs by their names."""
    model = session(path)
    names = [output.name for output in model.get_outputs()]
    return dict(zip(names, model.run(None, inputs), strict=True))


@pytest.mark.parametrize("kind", ALL)
def test_predictions_are_those_of_the_model(kind: str, tmp_path: Path) -> None:
    n = 3000
    shape, classes = ALL[kind]
    whole = made(**shape, seed=len(kind))
    model = compiled(whole, classes)
    X = events(n, model.width, seed=1).astype(np.float32)
    to_onnx(model, tmp_path / "model.onnx")
    found = run(tmp_path / "model.onnx", {"X": X})
    sure = ~whole.beside_planes(X)
    assert sure.mean() > 0.99
    if not classes:
        assert found.keys() == {"number"}
        expected = model.predict_many(X)[sure]
        np.testing.assert_allclose(found["number"][sure], expected, atol=whole.tolerance)
        return
    assert found.keys() == {"label", "probabilities"}
    expected = model.predict_proba_many(X)
    tolerance = max(whole.tolerance, 1e-6)
    np.testing.assert_allclose(found["probabilities"][sure], expected[sure], atol=tolerance)
    first, second = np.sort(expected, axis=1)[:, [-1, -2]].T
    clear = sure & (first - second > 2 * tolerance)
    assert clear.mean() > 0.99
    assert found["label"][clear].tolist() == model.predict_many(X)[clear].tolist()


def test_names_go_with_the_model(tmp_path: Path) -> None:
    columns, classes = ("a", "ü", "c", "d", "e"), ("x", "y", "z")
    to_onnx(compiled(made(n_outputs=3), classes, columns=columns), tmp_path / "model.onnx")
    found = session(tmp_path / "model.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(found["columns"]) == list(columns)
    assert json.loads(found["classes"]) == list(classes)
    to_onnx(compiled(made(n_outputs=3)), tmp_path / "model.onnx")
    found = session(tmp_path / "model.onnx").get_modelmeta().custom_metadata_map
    assert json.loads(found["columns"]) is None


# --- events ---------------------------------------------------------------------------------------


def table_of(absent: Absent) -> ColumnTable:
    table = ColumnTable(Schema(absent=absent))
    for event in (
        {"price": 3.5, "colour": "red", "size": "L"},
        {"colour": "größer", "price": 1.0, "count": 2},
        {"colour": "=x=y", "size": "", "tags": ["", "b"]},
    ):
        table.admit(table.read(event))
    return ColumnTable(Schema.from_json(table.schema.to_json() | {"mode": "fixed"}))


@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_fields_become_the_columns_of_the_encoder(absent: Absent, tmp_path: Path) -> None:
    table, random = table_of(absent), np.random.default_rng(0)
    model = compiled(made(d=len(table), n_outputs=1), columns=table.schema.columns)
    to_onnx(model, tmp_path / "model.onnx", schema=table.schema)
    texts = ["red", "größer", "=x=y", "L", "b", "green", "12", *sorted(MISSING)]
    n = 500
    inputs: dict[str, Any] = {}
    for name in ("price", "count"):
        inputs[name] = random.normal(size=(n, 1)).astype(np.float32)
        inputs[name][random.random(n) < 0.2] = np.nan
    for name in ("colour", "size", "tags"):
        inputs[name] = random.choice(np.array(texts, object), (n, 1))
    rows = [
        table.row(table.read({name: values[i, 0] for name, values in inputs.items()}))
        for i in range(n)
    ]
    sure = ~made(d=len(table), n_outputs=1).beside_planes(np.array(rows))
    found = run(tmp_path / "model.onnx", inputs)["number"][sure]
    np.testing.assert_allclose(found, model.predict_many(rows)[sure], atol=1e-4)


@pytest.mark.parametrize(
    ("columns", "kinds", "refused"),
    [
        (("t@elapsed",), {"t": "time"}, "'t@elapsed' is made from times"),
        (("c=#7", *(f"c={i}x" for i in range(256))), {"c": "text"}, "'c=#7' is shared by texts"),
        (
            tuple(f"c={n}" for n in range(8)),
            {"c": "text"},
            "'c' has texts in lists that alone would be read as numbers",
        ),
        (("c", "c=a"), {"c": "number"}, "field 'c' holds numbers and texts"),
        (("",), {}, "a field is called ''"),
        (("label",), {}, "a field is called 'label'"),
        ((3, "3"), {}, "a field is called '3'"),
    ],
)
def test_what_onnx_cannot_make_is_refused(
    columns: tuple[Any, ...], kinds: dict[Any, Any], refused: str, tmp_path: Path
) -> None:
    model = compiled(made(d=len(columns)), columns=columns)
    with pytest.raises(InvalidInput, match=refused):
        to_onnx(model, tmp_path / "model.onnx", schema=Schema(columns, kinds=kinds))


def test_classes_past_64_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="too large for ONNX"):
        to_onnx(compiled(made(n_outputs=1), (0, 2**70)), tmp_path / "model.onnx")


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written: No such file"):
        to_onnx(compiled(made(n_outputs=1)), tmp_path / "nowhere" / "model.onnx")


def test_without_onnx_it_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(BackendUnavailable, match="pip install onnx"):
        to_onnx(compiled(made(n_outputs=1)), tmp_path / "model.onnx")
