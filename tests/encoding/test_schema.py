"""The schema: what it checks, and how it is kept."""

from __future__ import annotations

import json

import pytest

from connectors.errors import BadRecord
from streamk.encoding import Schema, decoder


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


def test_a_column_belongs_to_the_longest_field_that_it_may_come_from() -> None:
    kinds = {"a": "text", "a=b": "text", "n": "number"}
    schema = Schema(("a=b=c", "a=x=y", "n=N/A", "n", "a=b"), kinds=kinds)  # type: ignore[arg-type]
    owners = [schema.owner(column) for column in schema.columns]
    assert owners == ["a=b", "a", "n", "n", "a=b"]


def test_a_field_may_have_any_name() -> None:
    names = ("", "=", "@", "a=b", "a@elapsed", ".", "\n", "ä")
    for name in names:
        decoding = decoder("json", Schema(label="y"))
        for value in (1.5, "text", "2024-02-29", ["x", "y"]):
            event = json.dumps({name: value, "y": True}).encode()
            assert not decoding.decode([event]).bad, (name, value)
        again = Schema.from_json(json.loads(json.dumps(decoding.schema.to_json())))
        assert again == decoding.schema


def test_the_label_tells_the_task() -> None:
    assert Schema(label="y").is_classification
    assert Schema(label="y", label_type="int").is_classification
    assert not Schema(label="y", label_type="float").is_classification
    assert not Schema().is_classification


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
        {"columns": ["b", "b=1", "b=2"], "max_columns": 2},
    ],
)
def test_a_damaged_schema_is_refused(damage: dict[str, object]) -> None:
    data = Schema(("b",), label="y", label_type="int").to_json() | damage
    with pytest.raises(BadRecord):
        Schema.from_json(data)
    for other in (None, [], 3, "schema", {}):
        with pytest.raises(BadRecord, match="not a schema"):
            Schema.from_json(other)
