"""Events read alone: the same whatever came before, from every form in which they come."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.base import Rows
from connectors.memory import MemorySource
from streamk.encoding import LoneReader, Rejected, Schema, alone

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.floats(allow_infinity=False),
    st.sampled_from(["red", "3", "NA", "2024-05-01", "1,234.5", ""]),
    st.lists(st.sampled_from(["x", "y", 1, 2, 1.5]), max_size=3),
)
FIELDS = st.dictionaries(st.sampled_from("abcdef"), VALUES, max_size=5)


def read(fields: dict[Any, Any]) -> Any:
    try:
        return repr(sorted(alone(fields).items()))
    except Rejected as rejected:
        return rejected.reason


@given(events=st.lists(FIELDS, min_size=2, max_size=8), data=st.data())
def test_an_event_is_the_same_whatever_came_before(
    events: list[dict[str, Any]], data: st.DataObject
) -> None:
    found = {id(fields): read(fields) for fields in events}
    for fields in data.draw(st.permutations(events)):
        assert read(fields) == found[id(fields)]


def test_what_an_event_has() -> None:
    found = alone(
        {"a": 2.5, "b": True, "c": "red", "d": None, "e": ["x", "x"], "f": math.nan, "g": [1.5, 2]}
    )
    held = {name: x for name, x in found.items() if x == x}
    assert held == {"a": 2.5, "b": 1.0, "c=red": 1.0, "e=x": 2.0, "g.0": 1.5, "g.1": 2.0}
    assert {name for name, x in found.items() if x != x} == {"c", "d", "e", "f"}
    assert alone({}) == {}


@pytest.mark.parametrize("value", [math.inf, -1e200, object()])
def test_a_value_of_no_use_is_refused(value: Any) -> None:
    with pytest.raises(Rejected):
        alone({"a": 1.0, "b": value})


def test_long_texts_have_short_columns_and_differ() -> None:
    text = "x" * 300_000
    found = alone({"a": text, "b": text + "y"})
    assert max(map(len, map(str, found))) < 10
    assert set(alone({"a": text})) < set(found)
    assert alone({"a": text}).keys() != alone({"a": text + "z"}).keys()


EVENT = {"a": 1.5, "b": "red", "c": {"d": 2.0}, "skip": 3.0, "y": 1}
SCHEMA = Schema(label="y", ignore=("skip",))


@pytest.mark.parametrize("form", ["dict", "json", "csv"])
def test_forms_with_names_are_read_alike(form: str) -> None:
    value: Any = EVENT
    source: Any = MemorySource([EVENT])
    if form == "json":
        value = json.dumps(EVENT).encode()
        source = MemorySource([value])
    elif form == "csv":
        value = b"1.5,red,2,3,1"
        source = MemorySource([value], encoding="csv", columns=("a", "b", "c.d", "skip", "y"))
    found = LoneReader(source, SCHEMA).one(value)
    assert {name: x for name, x in found.items() if x == x} == {"a": 1.5, "b=red": 1.0, "c.d": 2.0}


@pytest.mark.parametrize("columns", [(), ("a", "b")])
@pytest.mark.parametrize("form", ["rows", "float32"])
def test_plain_numbers_have_the_names_of_the_schema(form: str, columns: tuple[str, ...]) -> None:
    schema = Schema(columns, label="y")
    if form == "rows":
        rows = Rows(np.array([[1.5, np.nan]]), [1])
        source: Any = MemorySource(rows)
        value: Any = rows[0]
    else:
        value = np.array([1.5, np.nan, 1.0], "<f4").tobytes()
        source = MemorySource([value], encoding="float32")
    found = LoneReader(source, schema).one(value)
    assert repr(found) == repr(dict(zip(columns or (0, 1), (1.5, math.nan), strict=True)))


def test_a_field_of_no_use_is_left_out_and_a_record_is_empty() -> None:
    reader = LoneReader(MemorySource([b"{}"]), SCHEMA)
    assert reader.one(b'{"a": 1.5, "b": 1e999, "c": "x"}') == pytest.approx(
        {"a": 1.5, "c": math.nan, "c=x": 1.0}, nan_ok=True
    )
    assert reader.one(b"{") == {}
