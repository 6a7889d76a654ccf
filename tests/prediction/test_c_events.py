"""Events that become columns in C, against the encoder of the engine."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_kit import Header
from local_kernels_kit import compiled, made

from streamk.encoding import columns
from streamk.encoding.columns import ColumnTable
from streamk.encoding.schema import Absent, Schema
from streamk.encoding.values import BOOLEANS, MISSING, Rejected, text_of
from streamk.errors import InvalidInput
from streamk.export import c_code, to_c
from streamk.features.columns import SHARED

LEARNED: list[dict[str, Any]] = [
    {"price": 3.5, "colour": "red", "member": True, "tags": ["a", "b"], "mixed": 7.0, "a.b": 1},
    {"price": 1, "colour": "blue", "member": False, "tags": ["12", "a"], "mixed": "low", "": "x"},
    {"price": -2.0, "colour": "größer\n", "tags": ["", "NA"], "mixed": "very low", "a b": "?"},
    {"price": 0.0, "colour": "=x=y", "mixed": "high", "a_b": 2.0},
]
"""Events from which the columns come: of numbers, texts, lists, and of both kinds."""
TEXTS = ["red", "blue", "größer\n", "=x=y", "12", "a", "green", "low", "x", "re", "redd", "Größe"]
NUMBERS = [
    "1",
    " 1.5 ",
    "-1e3",
    "+.5",
    "5.",
    "1,234",
    "1,234.5",
    "True",
    "false",
    "23:59:59.5",
    "9007199254740991",
    "1e150",
    "0.01e152",
    "9007199254740992.0",
]
NAN = ["Nan", " nan", "-nAn "]
PAST = ["Infinity", "-inf", "1e400", "464e235", "1.0000001e150", "9" * 150 + "9.5"]
PLAIN = [
    "1_000",
    "1,23",
    "0,123",
    "1,2345",
    "1,234e5",
    ".",
    "",
    "+",
    "e5",
    "1e",
    "1 2",
    "0x10",
    "1,",
    "tRue",
    "24:00:00",
    "12:30",
    "9007199254740992",
    "+09007199254740993",
    "9,007,199,254,740,992",
    "12345678901234567890",
]
"""Texts that read as numbers, as numbers past 1e150, and some like them that do not."""


def encoder(absent: Absent) -> ColumnTable:
    """The table that a fixed schema has after the events were learned."""
    table = ColumnTable(Schema(absent=absent))
    for event in LEARNED:
        table.admit(table.read(event))
    fixed = Schema.from_json(table.schema.to_json() | {"mode": "fixed"})
    return ColumnTable(fixed)


class Encoder:
    """The functions of a header by which an event becomes columns."""

    def __init__(self, table: ColumnTable, folder: Path) -> None:
        model = compiled(made(d=len(table)), columns=table.schema.columns)
        self.library = Header(model, folder, schema=table.schema).library
        self.is_of_texts = table.is_of_texts
        self.x = np.empty(len(table))
        self.at = ctypes.c_void_p(self.x.ctypes.data)

    def put(self, name: str, value: Any) -> int:
        """Set a field; return what C said."""
        library, field = self.library, self.library.field(name.encode())
        if value is None:
            return int(library.set_missing(self.at, field))
        if isinstance(value, bool | float) and self.is_of_texts(name):
            assert library.set_number(self.at, field, ctypes.c_double(value)) == -1
            value = str(text_of(value))
        if isinstance(value, str):
            return int(library.set_text(self.at, field, value.encode()))
        if isinstance(value, list):
            some = (ctypes.c_char_p * len(value))(*(text.encode() for text in value))
            return int(library.set_texts(self.at, field, some, len(value)))
        return int(library.set_number(self.at, field, ctypes.c_double(value)))

    def row(self, event: dict[str, Any]) -> Any:
        """The columns of an event."""
        self.library.clear(self.at)
        for name, value in event.items():
            assert self.put(name, value) >= 0
        return self.x.copy()


@pytest.fixture(params=["zero", "missing"])
def table(request: pytest.FixtureRequest) -> ColumnTable:
    return encoder(request.param)


def some_events(count: int) -> list[dict[str, Any]]:
    """Events with values of any kind in any field."""
    random = np.random.default_rng(0)
    names = ["price", "colour", "member", "tags", "mixed", "a.b", "", "a b", "a_b", "unknown"]
    found = []
    for _ in range(count):
        event: dict[str, Any] = {}
        for name in random.permutation(names)[: random.integers(len(names) + 1)].tolist():
            kind = random.integers(5)
            if kind == 0:
                event[name] = None
            elif kind == 1:
                event[name] = float(random.normal())
            elif kind == 2:
                event[name] = bool(random.integers(2))
            elif kind == 3:
                event[name] = str(random.choice([*TEXTS[:4], *TEXTS[5:]]))
            else:
                event[name] = random.choice(TEXTS, random.integers(4)).tolist()
        found.append(event)
    return found


def test_columns_are_those_of_the_encoder(table: ColumnTable, tmp_path: Path) -> None:
    encode = Encoder(table, tmp_path)
    for event in [{}, *LEARNED, *some_events(1000)]:
        np.testing.assert_array_equal(encode.row(event), table.row(table.read(event)), str(event))


def test_what_comes_later_takes_the_place(table: ColumnTable, tmp_path: Path) -> None:
    encode = Encoder(table, tmp_path)
    for event in some_events(200):
        encode.library.clear(encode.at)
        for name in event:
            encode.put(name, ["a", "a"])
            encode.put(name, "low")
            encode.put(name, 5.0)
        for name, value in event.items():
            encode.put(name, value)
        np.testing.assert_array_equal(encode.x, table.row(table.read(event)), str(event))


def test_it_is_told_whether_there_is_a_column(tmp_path: Path) -> None:
    encode = Encoder(encoder("zero"), tmp_path)
    assert [encode.put("price", value) for value in (1.0, None, float("nan"))] == [1, 1, 1]
    assert [encode.put("price", value) for value in (1e151, -np.inf)] == [-1, -1]
    assert np.isnan(encode.x[encoder("zero").places["price"]]), "it has not changed"
    assert [encode.put("colour", text) for text in ("red", "green", "NA", "3")] == [1, 0, 1, 0]
    assert [encode.put("price", text) for text in ("red", "3", "NA", "inf")] == [0, -1, 1, -1]
    assert [encode.put("tags", some) for some in (["a", "12"], ["a", "c"], [])] == [1, 0, 1]
    assert [encode.put("unknown", value) for value in (1.0, "a", ["a"], None)] == [0, 0, 0, 0]
    assert encode.put("unknown", 1e200) == -1


def test_texts_that_read_as_numbers_are_told(tmp_path: Path) -> None:
    table = encoder("zero")
    encode = Encoder(table, tmp_path)
    for field, text in itertools.product(
        ["price", "mixed", "colour", "unknown"], [*NUMBERS, *NAN, *PAST, *PLAIN, *sorted(MISSING)]
    ):
        try:
            read = table.read({field: text})
            is_number = bool(read.numbers) or (bool(read.missing) and text not in MISSING)
        except Rejected:
            is_number = True
        told = {"price": [*NUMBERS, *NAN, *PAST], "mixed": [*NUMBERS, *NAN], "colour": []}.get(
            field, NUMBERS
        )
        assert is_number == (text in told), (field, text)
        encode.library.clear(encode.at)
        assert (encode.put(field, text) == -1) == is_number, (field, text)
        if not is_number:
            np.testing.assert_array_equal(encode.x, table.row(read), f"{field}: {text}")


def test_texts_that_share_columns_find_them_by_their_hash(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    table = ColumnTable(Schema())
    for i in range(330):
        event = {"user": f"u{i}", "page": [f"p{i}", "first"], "few": "abc"[i % 3], "n": 1.5}
        event["code"] = f"c{i}" if i else 7
        event["long"] = "x" * (i // 50 * 100)
        table.admit(table.read(event))
    fixed = ColumnTable(Schema.from_json(table.schema.to_json() | {"mode": "fixed"}))
    assert len([column for column in fixed.places if "#" in str(column)]) > 60
    encode = Encoder(fixed, tmp_path)
    lengths = [0, 1, 7, 8, 63, 64, 127, 128, 129, 255, 256, 257, 1000]
    long = ["x" * n for n in lengths[1:]] + ["é" * n for n in lengths[1:]]
    known = [f"u{i}" for i in range(330)] + [f"p{i}" for i in range(330)]
    some = [*long, *known, "#5", "#70", "u-1", *(f"new{i}" for i in range(300))]
    for text in some:
        pages = random.choice([*some, "12", "2024-01-01", ""], 5).tolist()
        event = {"user": text, "page": pages, "few": text, "code": text, "long": text}
        np.testing.assert_array_equal(encode.row(event), fixed.row(fixed.read(event)), text)
    assert encode.put("code", "2024-01-01T00:00") == -1
    assert encode.put("code", "2024-01") in (0, 1)
    assert encode.put("user", "2024-01-01T00:00") in (0, 1)
    assert encode.put("few", "2024-01-01T00:00") == 0
    assert encode.put("user", None) == 1
    assert np.isnan(encode.x[fixed.places_of("user")]).all()


def test_constants_are_those_of_the_encoder() -> None:
    assert set(c_code.MISSING) == MISSING
    assert set(c_code.BOOLEANS) == BOOLEANS.keys()
    assert (c_code.OWN, c_code.SHARED) == (columns.OWN, SHARED)


def test_fields_are_numbered_by_name(tmp_path: Path) -> None:
    table = encoder("zero")
    model = compiled(made(d=len(table)), columns=table.schema.columns)
    to_c(model, tmp_path / "model.h", schema=table.schema)
    text = (tmp_path / "model.h").read_text()
    for constant in ("PRICE", "COLOUR", "A_B", "A_B_7", "A_B_8", ""):
        assert f"MODEL_FIELD_{constant} = " in text, text[-4000:]


DAYS = tuple(f"c=2024-01-{day:02}" for day in range(1, 10))


@pytest.mark.parametrize(
    ("names", "kinds", "refused"),
    [
        (("n", "t@elapsed"), {"n": "number", "t": "time"}, "'t@elapsed' is made from times"),
        (DAYS, {"c": "text"}, "'c=2024-01-01' stands for a text in lists"),
    ],
)
def test_columns_that_c_cannot_make_are_refused(
    names: tuple[str, ...], kinds: dict[str, Any], refused: str, tmp_path: Path
) -> None:
    model = compiled(made(d=len(names)), columns=names)
    with pytest.raises(InvalidInput, match=refused):
        to_c(model, tmp_path / "model.h", schema=Schema(names, kinds=kinds))
    assert not (tmp_path / "model.h").exists()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("a", "c"), "column 1 is 'c' in the schema, and 'b' in the model"),
        (("a",), "the schema has 1 columns, and the model 2"),
        (("b", "a"), "column 0 is 'b' in the schema, and 'a' in the model"),
    ],
)
def test_a_schema_of_another_model_is_refused(
    names: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    model = compiled(made(d=2), columns=("a", "b"))
    with pytest.raises(InvalidInput, match=told):
        to_c(model, tmp_path / "model.h", schema=Schema(names))
