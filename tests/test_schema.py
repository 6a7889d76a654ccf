"""Inference of columns and label from the first events."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from connectors.base import Rows
from connectors.errors import BadRecord
from connectors.schema import MAX_CLASSES, Schema, infer


def as_json(*events: object) -> list[bytes]:
    return [json.dumps(event).encode() for event in events]


def test_numbers_booleans_texts_and_nested_objects_become_columns() -> None:
    events = as_json(
        {"n": 1, "flag": True, "c": "x", "deep": {"a": 2, "t": "u"}, "y": "yes"},
        {"n": 2.5, "flag": False, "c": "w", "deep": {"a": 3}, "y": "no"},
    )
    schema = infer(events, encoding="json", label="y")
    assert schema.columns == ("c=w", "c=x", "deep.a", "deep.t=u", "flag", "n")
    assert schema.kinds == {
        "c": "text",
        "deep.a": "number",
        "deep.t": "text",
        "flag": "number",
        "n": "number",
    }
    assert (schema.label, schema.label_type, schema.is_classification) == ("y", "str", True)


def test_the_order_of_fields_and_events_changes_nothing() -> None:
    rng = random.Random(1)
    events = [
        {"b": i, "a": i / 2, "c": "xyz"[i % 3], "d": {"q": i, "p": 1}, "y": i % 3}
        for i in range(30)
    ]
    first = infer(as_json(*events), encoding="json", label="y")
    for _ in range(5):
        shuffled = [dict(rng.sample(sorted(e.items()), len(e))) for e in events]
        rng.shuffle(shuffled)
        assert infer(as_json(*shuffled), encoding="json", label="y") == first


@pytest.mark.parametrize(
    ("labels", "label_type"),
    [
        (["a", "b"], "str"),
        ([True, False], "bool"),
        ([0, 1, 1], "int"),
        ([0.0, 1.0, 2.0], "int"),
        ([0, 1, 0.5], "float"),
        (list(range(MAX_CLASSES)), "int"),
        (list(range(MAX_CLASSES + 1)), "float"),
        ([1, None, 2], "int"),
        (["a", "b", "b", 3], "str"),
    ],
)
def test_the_type_of_the_label(labels: list[object], label_type: str) -> None:
    events = [{"x": 1.0, "y": label} for label in labels]
    assert infer(events, encoding="dict", label="y").label_type == label_type


@pytest.mark.parametrize(
    ("cells", "label_type"),
    [("0 1 1", "int"), ("0.5 1 2", "float"), ("a b c", "str"), ("True false True", "bool")],
)
def test_the_type_of_a_label_in_csv(cells: str, label_type: str) -> None:
    values = [f"1,{cell}".encode() for cell in cells.split()]
    assert infer(values, encoding="csv", label="y", fields=("x", "y")).label_type == label_type


def test_the_task_overrides_the_guess() -> None:
    events = [{"x": 1, "y": i % 2} for i in range(10)]
    assert infer(events, encoding="dict", label="y", task="regression").label_type == "float"
    many = [{"x": 1, "y": i} for i in range(100)]
    assert infer(many, encoding="dict", label="y", task="classification").label_type == "int"
    with pytest.raises(BadRecord, match="whole numbers"):
        infer([{"y": 0.5}], encoding="dict", label="y", task="classification")
    null = [{"x": 1, "y": None}]
    with pytest.raises(BadRecord, match="null in every one"):
        infer(null, encoding="dict", label="y")
    assert infer(null, encoding="dict", label="y", classes=("a", "b")).label_type == "str"


def test_a_field_is_what_it_is_most_often_and_bad_events_are_passed_over() -> None:
    events = [*as_json(*[{"x": i, "y": 0} for i in range(99)], {"x": "oops", "y": 0}), b"{", b"[]"]
    schema = infer(events, encoding="json", label="y")
    assert schema.columns == ("x",)
    csv = [b"1,a", b"2,b", b"A,a", b"3,b"]
    schema = infer(csv, encoding="csv", label="y", fields=("x", "y"))
    assert schema.columns == ("x=1", "x=2", "x=3", "x=A")
    with pytest.raises(BadRecord, match=r"none of the first 2 .* undecodable"):
        infer([b"{", b""], encoding="json", label=None)
    with pytest.raises(BadRecord, match="no events"):
        infer([], encoding="json", label=None)


def test_arrays_have_numbered_columns_or_the_names_given() -> None:
    rows = Rows(np.ones((4, 3)), np.array([0.0, 1.0, np.nan, 1.0]))
    assert infer(rows, encoding="rows", label="y").columns == (0, 1, 2)
    assert infer(rows, encoding="rows", label="y").label_type == "int"
    named = infer(rows, encoding="rows", label=None, fields=("c", "a", "b"))
    assert named.columns == ("c", "a", "b")
    with pytest.raises(BadRecord, match="2 column names"):
        infer(rows, encoding="rows", label=None, fields=("c", "a"))
    with pytest.raises(BadRecord, match="no labels"):
        infer(Rows(np.ones((4, 3))), encoding="rows", label="y")


def test_raw_floats_have_the_label_last_or_where_the_fields_say() -> None:
    values = [np.array([0.5, 1.5, i % 2], dtype="<f4").tobytes() for i in range(4)]
    schema = infer(values, encoding="float32", label="y")
    assert (schema.columns, schema.label_type) == ((0, 1), "int")
    schema = infer(values, encoding="float32", label="y", fields=("y", "b", "a"))
    assert (schema.columns, schema.label_type) == (("a", "b"), "float")
    assert infer(values, encoding="float32", label=None).columns == (0, 1, 2)


def test_a_wrong_label_names_the_nearest_field() -> None:
    with pytest.raises(BadRecord, match=r"label 'clas'; did you mean 'class'\?"):
        infer([{"class": 1, "x": 2}], encoding="dict", label="clas")


def test_a_field_of_identifiers_is_refused_by_name() -> None:
    events = [{"id": f"user-{i}", "x": 1} for i in range(50)]
    with pytest.raises(BadRecord, match="field 'id' alone has 50 values; ignore it"):
        infer(events, encoding="dict", label=None, max_columns=20)
    schema = infer(events, encoding="dict", label=None, max_columns=20, ignore=("id",))
    assert schema.columns == ("x",)


def test_fields_that_are_no_use_are_named() -> None:
    with pytest.raises(BadRecord, match="field 'x' holds neither numbers nor text; ignore it"):
        infer([b'{"x": [1, 2], "y": 1}'], encoding="json", label="y")
    with pytest.raises(BadRecord, match="text field 'a=b' has '='"):
        infer([{"a=b": "c"}], encoding="dict", label=None)


def test_a_schema_survives_json() -> None:
    schema = Schema(
        (0, "b", "c=x", "c==", "3=u"),
        label="y",
        label_type="bool",
        kinds={0: "number", "b": "number", "c": "text", 3: "text"},
        classes=(True, False),
        mode="strict",
        absent="missing",
        ignore=("q",),
        max_columns=9,
    )
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    assert again.owner("3=u") == 3
    assert again.columns[0] == 0


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 2},
        {"mode": "loose"},
        {"columns": None},
        {"kinds": [["b"]]},
        {"kinds": [["b", "colour"]]},
        {"label": None},
        {"columns": ["b", "b"]},
        {"columns": ["other"]},
    ],
)
def test_a_damaged_schema_is_refused(damage: dict[str, object]) -> None:
    data = Schema(("b",), label="y", label_type="int").to_json() | damage
    with pytest.raises(BadRecord):
        Schema.from_json(data)
    for other in (None, [], 3, "schema", {}):
        with pytest.raises(BadRecord, match="not a schema"):
            Schema.from_json(other)
