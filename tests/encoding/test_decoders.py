"""Decoders: every encoding into the same array, every bad event reported with its reason."""

from __future__ import annotations

import decimal
import itertools
import json
import math
import struct
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import encoding as naive_encoding

from connectors.base import Rows
from connectors.errors import BadRecord
from streamk.encoding import BAD_KINDS, Decoded, Schema, decoder
from streamk.encoding.values import Moment
from streamk.features.columns import OWN

SCHEMA = Schema(
    ("a", "b", "c=x", "c=z"),
    label="y",
    label_type="int",
    kinds={"a": "number", "b": "number", "c": "text"},
)
STRICT = Schema(**{**vars(SCHEMA), "mode": "strict"})
MISSING = Schema(**{**vars(SCHEMA), "absent": "missing"})
FIELDS = ("a", "b", "c", "y")


def refuse(_value: Any) -> Any:
    """Read no event the fast way."""
    raise ValueError


def encoded(encoding: str, event: Any) -> Any:
    if encoding == "json":
        return json.dumps(event).encode()
    if encoding == "csv":
        cells = [event.get(name) for name in FIELDS]
        return ",".join("" if cell is None else str(cell) for cell in cells).encode()
    return event


def decode(encoding: str, schema: Schema, *events: Any, **options: Any) -> Decoded:
    fields = FIELDS if encoding == "csv" else None
    return decoder(encoding, schema, fields=fields, **options).decode(events)


NAMED = pytest.mark.parametrize("encoding", ["json", "dict", "csv"])


@NAMED
def test_named_values_go_to_their_columns(encoding: str) -> None:
    events = [
        {"y": 1, "a": 1.5, "c": "x", "b": 2},
        {"a": -1, "b": 0.1, "c": "z", "y": 0},
        {"a": None, "b": 3, "c": None, "y": None},
    ]
    out = decode(encoding, SCHEMA, *[encoded(encoding, event) for event in events])
    n = np.nan
    np.testing.assert_array_equal(out.X, [[1.5, 2, 1, 0], [-1, 0.1, 0, 1], [n, 3, n, n]])
    assert out.X.dtype == np.float64
    assert out.y == [1, 0, None]
    assert out.good.tolist() == [0, 1, 2]
    assert (out.bad, out.growth) == ([], [])


GOOD = {"a": 1, "b": 2, "c": "x", "y": 1}
BAD = [
    ("json", b'{"a": 1,', None, "undecodable"),
    ("json", b"", None, "undecodable"),
    ("json", None, None, "undecodable"),
    ("json", b'{"a": 1, "b": "\xff", "y": 1}', None, "undecodable"),
    ("json", b'{"c": "\\ud800", "y": 1}', None, "undecodable"),
    ("json", b"[" * 100_000, None, "undecodable"),
    ("json", b"[1, 2]", None, "not an object"),
    ("json", b"null", None, "not an object"),
    ("dict", [1, 2], None, "not an object"),
    ("json", {**GOOD, "a": "one"}, "a=one", "unknown column"),
    ("json", {**GOOD, "a": [[1]]}, "a", "wrong type"),
    ("json", {**GOOD, "c": 5}, "c=5", "unknown column"),
    ("dict", {**GOOD, "a": 1j}, "a", "wrong type"),
    ("dict", {**GOOD, 1.5: 1}, None, "wrong type"),
    ("dict", {**GOOD, (1, 2): 1}, "(1, 2)", "unknown column"),
    ("csv", {**GOOD, "a": "one"}, "a=one", "unknown column"),
    ("csv", {**GOOD, "a": "1_000"}, "a=1_000", "unknown column"),
    ("csv", b"1,2,x", None, "undecodable"),
    ("csv", b'1,2,"x,1', None, "undecodable"),
    ("csv", b"1,2,\xff,1", None, "undecodable"),
    ("json", {**GOOD, "b": -math.inf}, "b", "inf"),
    ("json", {**GOOD, "b": 1e151}, "b", "inf"),
    ("json", b'{"a": 1e999, "b": 1, "c": "x", "y": 1}', "a", "inf"),
    ("json", {**GOOD, "b": 10**400}, "b=#26", "unknown column"),
    ("dict", {**GOOD, "b": math.inf}, "b", "inf"),
    ("csv", {**GOOD, "b": "-inf"}, "b", "inf"),
    ("csv", {**GOOD, "b": "1e200"}, "b", "inf"),
    ("json", {**GOOD, "y": "one"}, "y", "label out of domain"),
    ("json", {**GOOD, "y": 1.5}, "y", "label out of domain"),
    ("json", {**GOOD, "y": True}, "y", "label out of domain"),
    ("dict", {**GOOD, "y": [1]}, "y", "label out of domain"),
    ("csv", {**GOOD, "y": "one"}, "y", "label out of domain"),
    ("json", {**GOOD, "extra": "z" * 200}, None, "oversized"),
    ("csv", {**GOOD, "c": "z" * 200}, None, "oversized"),
    ("json", {**GOOD, "d": 1}, "d", "unknown column"),
    ("json", {**GOOD, "c": "new"}, "c=new", "unknown column"),
    ("dict", {**GOOD, 3: 1}, 3, "unknown column"),
    ("csv", {**GOOD, "c": "new"}, "c=new", "unknown column"),
    ("json", {"a": {"b": 1}, "a.b": 1, **GOOD}, "a.b", "unknown column"),
]


@pytest.mark.parametrize(("encoding", "event", "column", "kind"), BAD)
def test_a_bad_event_is_reported_and_the_others_decoded(
    encoding: str, event: Any, column: Any, kind: str
) -> None:
    good = encoded(encoding, GOOD)
    value = encoded(encoding, event) if isinstance(event, dict) else event
    limit = 150 if kind == "oversized" else 150_000
    out = decode(encoding, STRICT, good, value, good, max_event_bytes=limit)
    [bad] = out.bad
    assert (bad.row, bad.column, bad.kind) == (1, column, kind)
    assert bad.kind in BAD_KINDS
    assert bad.reason.startswith(f"{kind}: ")
    assert out.good.tolist() == [0, 2]
    np.testing.assert_array_equal(out.X, [[1, 2, 1, 0]] * 2)
    assert out.y == [1, 1]


@NAMED
@pytest.mark.parametrize(
    ("label_type", "classes", "good", "bad"),
    [
        ("str", ("a", "b"), ["a", "b"], {"c": "label out of domain"}),
        ("int", (1, 2), [1, 2], {3: "label out of domain"}),
        ("bool", None, [True, False], {"maybe": "label out of domain"}),
        ("float", None, [1.0, -2.5], {"x": "label out of domain", math.inf: "inf"}),
        ("float", None, [1.8e19], {1.9e19: "label out of domain", -1e25: "label out of domain"}),
        (None, None, [True, 3, "yes"], {0.5: "label out of domain"}),
    ],
)
def test_labels_and_their_domain(
    encoding: str, label_type: Any, classes: Any, good: list[Any], bad: dict[Any, str]
) -> None:
    schema = Schema(("a",), label="y", label_type=label_type, classes=classes)
    schema = Schema.from_json({**schema.to_json(), "kinds": [["a", "number"]]})
    labels = [*good, *bad, None]
    events = [encoded(encoding, {"a": 1, "y": label}) for label in labels]
    if encoding == "csv":
        events = [f"1,{'' if label is None else label}".encode() for label in labels]
    out = decoder(encoding, schema, fields=("a", "y")).decode(events)
    assert out.y == [*good, None]
    assert [type(label) for label in out.y[:-1]] == [type(label) for label in good]
    assert [(event.row, event.column, event.kind) for event in out.bad] == [
        (len(good) + i, "y", kind) for i, kind in enumerate(bad.values())
    ]


@pytest.mark.parametrize("between", ["", " ", "\t", ", "])
def test_several_objects_on_a_line_are_a_bad_event_that_tells_the_fix(between: str) -> None:
    [bad] = decode("json", SCHEMA, f'{{"a": 1}}{between}{{"a": 2}}'.encode()).bad
    assert bad.kind == "undecodable"
    assert bad.reason.endswith("; an event is one object, and one line of a file holds one")


def test_a_class_that_is_no_valid_text_is_a_bad_event() -> None:
    schema = Schema(("a",), label="y", label_type="str", absent="missing")
    # Python's own parser, which reads what has a NaN in it, lets half of a surrogate pair through.
    out = decode(
        "json", schema, b'{"a": NaN, "y": "\\ud800"}', b'{"a": NaN, "y": "\\ud83d\\ude00"}'
    )
    assert out.y == ["\N{GRINNING FACE}"]
    assert [(event.row, event.column, event.kind) for event in out.bad] == [(0, "y", "undecodable")]
    assert decode("dict", schema, {"a": 1.0, "y": "\ud800"}).bad[0].kind == "undecodable"


def test_one_and_true_are_different_labels() -> None:
    schema = Schema(("a",), label="y", label_type="bool", classes=(True,))
    out = decoder("dict", schema).decode([{"a": 1, "y": True}, {"a": 1, "y": 1}])
    assert out.y == [True]
    assert out.bad[0].kind == "label out of domain"


NEW = [
    {"a": 1, "b": 1, "c": "x", "y": 1},
    {"a": 1, "b": 1, "c": "new", "y": 1, "s": "t", "r": 2},
    {"a": 1, "b": 1, "c": "x", "y": 1, "q": {"w": 3}},
    {"a": 1, "b": 1, "c": "new", "y": 1, "r": 5},
    {"a": 1, "b": 1, "c": "older", "aa": 1, "y": 1},
    {"a": 1, "b": 1, "lost": 7, "y": "wrong"},
]


@pytest.mark.parametrize("encoding", ["json", "dict"])
def test_new_columns_are_appended_sorted_within_their_event(encoding: str) -> None:
    decoding = decoder(encoding, SCHEMA)
    out = decoding.decode([encoded(encoding, event) for event in NEW])
    assert out.growth == [(1, 7), (2, 8), (4, 10)]
    new = ("c=new", "r", "s=t", "q.w", "aa", "c=older")
    assert decoding.schema.columns == (*SCHEMA.columns, *new)
    assert [event.row for event in out.bad] == [5]  # and its field "lost" is no column
    expected = np.zeros((5, 10))
    expected[:, :2] = 1
    expected[[0, 2], 2] = 1
    expected[1, 4:7] = [1, 2, 1]
    expected[2, 7] = 3
    expected[3, 4:6] = [1, 5]
    expected[4, 8:] = 1
    np.testing.assert_array_equal(out.X, expected)
    again = Schema.from_json(json.loads(json.dumps(decoding.schema.to_json())))
    more = decoder(encoding, again).decode([encoded(encoding, NEW[1])])
    np.testing.assert_array_equal(more.X, expected[1:2])
    assert more.growth == []


def test_new_columns_of_csv_come_from_new_texts_and_header_fields() -> None:
    fields = ("a", "b", "c", "extra", "y")
    decoding = decoder("csv", SCHEMA, fields=fields)
    out = decoding.decode(
        [b"1,2,x,,0", b"1,2,w,,0", b"1,2,x,7,1", b"1,2,x,t,1", b"1,2,x,8,1", b"1,2,x,,1"]
    )
    assert decoding.schema.columns[4:] == ("c=w", "extra", "extra=t")
    assert out.growth == [(1, 5), (2, 6), (3, 7)]
    n = np.nan
    np.testing.assert_array_equal(out.X[2:, 5:], [[7, 0], [n, 1], [8, 0], [n, n]])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "c", "y", "z"]),
            st.one_of(
                st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.sampled_from("xzw")
            ),
        )
    ),
    st.sampled_from([SCHEMA, STRICT, MISSING]),
)
def test_the_fast_and_the_careful_way_agree(events: list[dict[str, Any]], schema: Schema) -> None:
    """Each event alone, behind one that makes a decoder take it the careful way, and together."""
    together = decoder("dict", schema).decode(events)
    one_by_one = decoder("dict", schema)
    # A longer and never matching field list: nothing fits the fast way any more.
    one_by_one._reading = lambda _names: (refuse, None)
    careful = one_by_one.decode(events)
    np.testing.assert_array_equal(together.X, careful.X)
    assert together.y == careful.y
    assert together.bad == careful.bad
    assert together.growth == careful.growth


PIECES = (
    b'{"a":1,"y":0}',
    b'{"a":2.5,"t":"u","y":1}',
    b'{"a":null,"y":1}',
    b'{"a":1,"y":0},{"a":2,"y":1}',  # two in the place of one,
    b'{"a":1,"t":"u',  # and one in two places
    b'{","y":1}',
    b'v"}',
    b'"y":1}',
    b'{"a":1',
    b'{"a":1,"t":"{","y":0}',
    b' {"a":3,"y":1} ',
    b"",
    b"{}",
    b"[]",
    b"{",
)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.sampled_from(PIECES), max_size=6), st.booleans())
@example([b'{"a":1,"y":0},{"a":2,"y":1}', b'{"a":1', b'"y":1}'], False)
@example([b'{"a":1,"y":0},{"a":2,"y":1}', b'{"a":1', b'"y":1}'], True)
@example([b'{"a":1,"t":"u', b'{","y":1}', b'{"a":2.5,"t":"u","y":1}'], True)
@example([b'{"a":1,"y":"u', b'{","a":2}', b'{"a":3,"y":"q"}', b'{"a":4,"y":"r"}'], False)
def test_no_event_is_read_across_its_ends(values: list[bytes], texts: bool) -> None:
    """JSON events are read many at a time where that is the same as one at a time."""
    known = [b'{"a":1,"y":0}', b'{"a":1,"t":"u","y":0}'][: 1 + texts]
    together, alone = decoder("json", Schema(label="y")), decoder("json", Schema(label="y"))
    together.decode(known)
    alone.decode(known)
    found = together.decode(values)
    parts = [alone.decode([value]) for value in values]
    X = [part.X for part in parts if len(part.X)]
    assert len(found.X) == len(X)
    for row, one in zip(found.X, X, strict=True):
        np.testing.assert_array_equal(row[: one.shape[1]], one[0])
        assert not row[one.shape[1] :].any()
    assert found.y == [y for part in parts for y in part.y]
    assert [(bad.row, bad.reason) for bad in found.bad] == [
        (i, bad.reason) for i, part in enumerate(parts) for bad in part.bad
    ]


def test_a_column_never_means_two_things() -> None:
    out = decoder("dict", SCHEMA).decode(
        [
            {"a": 1, "b": 1, "c": "x", "y": 1, "c=z": 1},
            {"a": 1, "b": 1, "c": "x", "y": 1, "d": {"e": 1}, "d.e": 2},
            {"a": 1, "b": 1, "c": "z", "y": 1, "c=z": 1},
        ]
    )
    assert [(event.row, event.column, event.kind) for event in out.bad] == [
        (1, "d.e", "duplicate column"),
        (2, "c=z", "duplicate column"),
    ]


def test_the_cap_on_columns_rejects_the_event_and_the_loop_goes_on() -> None:
    schema = Schema(("a",), kinds={"a": "number", "id": "text"}, max_columns=3)
    decoding = decoder("dict", schema)
    out = decoding.decode([{"a": i, "id": f"u{i}"} for i in range(5)])
    assert decoding.schema.columns == ("a", "id=u0", "id=u1")
    assert [(event.row, event.kind) for event in out.bad] == [
        (i, "too many columns") for i in (2, 3, 4)
    ]
    assert "max_columns=3" in out.bad[0].reason


@NAMED
def test_ignored_fields_are_not_read(encoding: str) -> None:
    schema = Schema.from_json({**STRICT.to_json(), "ignore": ["when"]})
    event = {**GOOD, "when": "2020-01-01"}
    value = b"1,2,x,2020-01-01,1" if encoding == "csv" else encoded(encoding, event)
    out = decoder(encoding, schema, fields=("a", "b", "c", "when", "y")).decode([value, value])
    np.testing.assert_array_equal(out.X, [[1, 2, 1, 0]] * 2)
    assert out.bad == []


def test_odd_names_and_odd_numbers() -> None:
    names = ['quote"', "back\\slash", "", "dotted.name", "ünï"]
    event = {name: i for i, name in enumerate(names)}
    values = [json.dumps(event).encode()] * 2
    decoding = decoder("json", Schema())
    X = decoding.decode(values).X
    np.testing.assert_array_equal(X, [[event[name] for name in decoding.schema.columns]] * 2)
    figures = {"a": decimal.Decimal("1.5"), "b": np.float64(2.5), "c": np.True_, "d": np.int8(3)}
    np.testing.assert_array_equal(
        decoder("dict", Schema()).decode([figures] * 2).X, [[1.5, 2.5, 1, 3]] * 2
    )


FIELD_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1e12 + 0.5, 1.7e9 + 1 / 3, math.nan]),
    st.sampled_from(["", "x", "z", "w", "N/A", "7", "1e3", "nan", "1_0", "#5"]),
    st.sampled_from(["-1,234.5", "1,2", "12,345,678", "null"]),
    st.lists(st.sampled_from(["x", "z", "7", 7, "2024-02-29"]), max_size=3),
    st.just({"n": 1}),
    st.sampled_from(["2024-02-29", "2024-02-30", "1969-12-31 23:59", "2023-12-31T23:59:30+05:30"]),
)


def flat(event: dict[str, Any]) -> dict[str, Any]:
    return {
        f"{k}.n" if isinstance(v, dict) else k: 1 if v == {"n": 1} else v for k, v in event.items()
    }


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), FIELD_VALUES), max_size=12),
    st.lists(st.integers(0, 12), max_size=4),
    st.sampled_from(["zero", "missing"]),
    st.sampled_from(["json", "dict"]),
)
def test_columns_and_numbers_are_the_oracles_however_events_are_cut_into_calls(
    events: list[dict[str, Any]], cuts: list[int], absent: Any, encoding: str
) -> None:
    decoding = decoder(encoding, Schema(absent=absent))
    blank = 0.0 if absent == "zero" else math.nan
    found = list(naive_encoding.encode(map(flat, events), absent=blank))
    widths = [0, *(len(columns) for columns, _ in found)]
    edges = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    for lo, hi in itertools.pairwise(edges):
        out = decoding.decode([encoded(encoding, event) for event in events[lo:hi]])
        for row, (_, expected) in zip(out.X, found[lo:hi], strict=True):
            np.testing.assert_allclose(row[: len(expected)], expected, rtol=1e-12, atol=1e-12)
        grown = [
            (i, after) for i, after in enumerate(widths[lo + 1 : hi + 1], lo) if after > widths[i]
        ]
        assert out.growth == [(i - lo, after) for i, after in grown]
        assert out.bad == []
    assert list(decoding.schema.columns) == (found[-1][0] if found else [])


def test_times_however_they_are_written() -> None:
    """One moment of a stream, as texts and as objects, and one that is missing."""
    [expected] = [row for _, row in naive_encoding.encode([{"t": "2024-02-29T06:30:00+01:00"}])]
    written: list[Any] = [
        "2024-02-29T06:30:00+01:00",
        "2024-02-29 06:30:00 +01:00",
        "2024-02-29T06:30+0100",
        "2024-02-29T06:30:00,000+01",
        datetime.fromisoformat("2024-02-29T06:30:00+01:00"),
    ]
    decoding = decoder("dict", Schema())
    out = decoding.decode([{"t": time} for time in [*written, None]])
    assert decoding.schema.columns == tuple(sorted(f"t@{part}" for part in Moment._fields))
    np.testing.assert_allclose(out.X[:-1], [expected] * len(written), rtol=1e-12)
    assert np.isnan(out.X[-1]).all()


def test_a_list_with_fractions_is_a_vector() -> None:
    for encoding in ("json", "dict"):
        decoding = decoder(encoding, Schema())
        events = [{"v": [0.5, 1, -2.0], "w": [3, 4]}, {"v": [1.5], "w": []}]
        out = decoding.decode([encoded(encoding, event) for event in events])
        assert decoding.schema.columns == ("v.0", "v.1", "v.2", "w=3", "w=4")
        np.testing.assert_array_equal(out.X, [[0.5, 1, -2, 1, 1], [1.5, 0, 0, 0, 0]])
    out = decoding.decode([{"v": [0.5, [1]]}, {"w": [{}]}])
    assert [bad.kind for bad in out.bad] == ["wrong type"] * 2


ODD_ORDERS: list[list[Any]] = [
    ["NA", ["NA", "x"], "NA", "x", ["", "nan"], ""],
    [["7", "2024-02-29"], "7", "2024-02-29", 7, None, ["7"]],
    ["2024-02-29", 3, "x", "2024-02-29", [0.5], [1, 2], [1.5, 2]],
    [np.datetime64("2024-01-01", "ns"), "2024-01-01", np.datetime64("2024-01-01", "ns"), 5],
    [[0.5, 1.0], [0, 2], [1.0, None], [np.float64(0.5), np.int64(3)], 4],
    [datetime(2024, 2, 29), "x", datetime(2024, 2, 29), None, "2024-02-29"],
    ["1,234", "0,123", "1,5", 1234],
]


@pytest.mark.parametrize("values", ODD_ORDERS)
@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_both_ways_agree_whatever_a_field_holds_next(values: list[Any], absent: Any) -> None:
    """Each value in an event of its own, behind a field that makes its way the careful one."""
    for order in itertools.permutations(values, 3):
        fast, careful = (decoder("dict", Schema(absent=absent)) for _ in range(2))
        events = [{"c": value} for value in order] * 2
        together = fast.decode(events)
        careful._reading = lambda _names: (refuse, None)
        alone = [careful.decode([event]) for event in events]
        assert fast.schema.columns == careful.schema.columns
        X = [row for part in alone for row in part.X]
        assert len(X) == len(together.X)
        for row, one in zip(together.X, X, strict=True):
            np.testing.assert_array_equal(row[: len(one)], one)


@pytest.mark.parametrize("columns", [("t@elapsed",), ("t@elapsed", "z")])
def test_a_schema_may_have_some_parts_of_a_time(columns: tuple[str, ...]) -> None:
    kinds: Any = {"t": "time", "z": "number"}
    for mode in ("open", "strict"):
        schema = Schema(columns, kinds={k: kinds[k] for k in "tz"[: len(columns)]}, mode=mode)
        for events in ([{"t": "1970-01-02"}] * 3, [{"z": 1, "t": "1970-01-02"}] * 3):
            if "z" in events[0] and len(columns) == 1:
                continue
            out = decoder("json", schema).decode([encoded("json", event) for event in events])
            assert not out.growth
            assert not out.bad
            assert (out.X[:, 0] == 86400).all()


def test_odd_values_are_bad_events_and_nothing_else() -> None:
    class Nowhere(tzinfo):
        def utcoffset(self, _when: datetime | None) -> timedelta:
            raise RuntimeError

    deep: Any = []
    for _ in range(992):
        deep = [deep]
    odd = [
        *(np.datetime64(2**60, "D"), np.datetime64("20000-01-01", "s"), np.timedelta64(5, "ns")),
        *(datetime(2024, 1, 1, tzinfo=Nowhere()), [1j], [[1]], [{}], {1j}, deep, object()),
        *([10**5000], 10**5000, np.zeros(3), [np.zeros(2)], [date(2024, 1, 1)]),
    ]
    good = {"c": 1.0}
    for value in odd:
        out = decoder("dict", Schema()).decode([good, {"c": value}, good])
        assert len(out.X) + len(out.bad) == 3
        assert len(out.X) >= 2


def test_a_schema_keeps_times_and_texts_apart() -> None:
    events = [{"t": "2024-01-01", "u@elapsed": 5, "v": "x@elapsed"}, {"t": "soon"}, {"t": 3}]
    decoding = decoder("dict", Schema())
    X = decoding.decode(events).X
    again = decoder("dict", Schema.from_json(decoding.schema.to_json()))
    np.testing.assert_array_equal(again.decode(events).X, X)
    assert not again.decode(events).growth
    assert {"u@elapsed", "v=x@elapsed", "t=soon", "t"} < set(decoding.schema.columns)


def test_ever_new_texts_share_columns() -> None:
    events = [{"id": f"n{i}", "x": i % 3} for i in range(3 * OWN)]
    found = list(naive_encoding.encode(events))
    for encoding in ("json", "dict"):
        decoding = decoder(encoding, Schema())
        out = decoding.decode([encoded(encoding, event) for event in events])
        assert list(decoding.schema.columns) == found[-1][0]
        np.testing.assert_array_equal(out.X[-1], found[-1][1])
        again = decoding.decode([encoded(encoding, event) for event in events])
        assert not again.growth
        np.testing.assert_array_equal(again.X[OWN:], out.X[OWN:])


def test_arrays_have_columns_as_their_first_values_come() -> None:
    X = np.array([[1.0, math.nan, 2.0], [3.0, math.nan, 4.0], [5.0, 6.0, math.nan]])
    rows = decoder("rows", Schema(label="y"), fields=("c", "a", "b"))
    out = rows.decode(Rows(X, [None, 1, 0]))
    assert rows.schema.columns == ("b", "c", "a")
    assert out.growth == [(1, 2), (2, 3)]
    np.testing.assert_array_equal(out.X[1:], [[4, 3, math.nan], [math.nan, 5, 6]])
    dicts = decoder("dict", Schema(label="y"))
    events = [dict(zip("cab", row, strict=True)) for row in X.tolist()]
    twin = dicts.decode([{**x, "y": y} for x, y in zip(events, [None, 1, 0], strict=True)])
    assert (dicts.schema.columns, twin.growth) == (rows.schema.columns, out.growth)
    np.testing.assert_array_equal(twin.X, out.X)


@pytest.mark.parametrize("encoding", ["rows", "dict"])
def test_strict_without_columns_takes_those_of_the_first_event_learned(encoding: str) -> None:
    n = math.nan
    X = np.array([[1, 2, n], [n, 1, n], [1, 1, n], [n, 2, n], [n, n, 3]])
    y = [None, 0, 1, 1, 0]
    decoding = decoder(encoding, Schema(label="y", mode="strict"), fields=("a", "b", "c"))
    rows = Rows(X, y)
    events = [
        {k: v for k, v in zip("abc", x, strict=True) if v == v} | {"y": label}
        for x, label in zip(X.tolist(), y, strict=True)
    ]
    whole = decoding.decode(rows if encoding == "rows" else events)
    assert decoding.schema.columns == ("b",)
    assert [(event.row, event.column) for event in whole.bad] == [(2, "a"), (4, "c")]
    again = decoder(encoding, decoding.schema, fields=("a", "b", "c"))
    more = again.decode(rows[2:] if encoding == "rows" else events[2:])
    assert [event.row for event in more.bad] == [0, 2]


def test_records_of_no_size_do_not_tell_how_many_numbers_there_are() -> None:
    values = [None, b"", floats(1, 2, 0), floats(3, 4, 1)]
    whole = decoder("float32", Schema(label="y")).decode(values)
    parts = decoder("float32", Schema(label="y"))
    found = [parts.decode([value]) for value in values]
    assert whole.X.tolist() == [[1, 2], [3, 4]]
    assert [len(out.bad) for out in found] == [1, 1, 0, 0]
    assert parts.schema.columns == (0, 1)


def test_only_events_that_are_learned_bring_columns() -> None:
    decoding = decoder("json", Schema(label="y"))
    out = decoding.decode([b'{"a": 1, "y": null}', b'{"b": 1, "y": 0}', b'{"c": 1, "y": null}'])
    assert decoding.schema.columns == ("b",)
    assert out.growth == [(1, 1)]
    assert out.X.tolist() == [[0], [1], [0]]


def floats(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def test_raw_floats() -> None:
    values = [floats(1, 2, 0), floats(3, 4, 1), floats(5, 6, math.nan)]
    out = decoder("float32", Schema((0, 1), label="y", label_type="int")).decode(values)
    np.testing.assert_array_equal(out.X, np.float32([[1, 2], [3, 4], [5, 6]]))
    assert out.y == [0, 1, None]
    fields = ("skip", "y", "b", "a")
    schema = Schema(("a", "b"), label="y", label_type="float", ignore=("skip",))
    out = decoder("float32", schema, fields=fields).decode([floats(9, 0.5, 2, 1)])
    assert (out.X.tolist(), out.y) == ([[1, 2]], [0.5])
    assert decoder("float32", Schema((0, 1))).decode([floats(1, 2)]).y == [None]
    assert decoder("float32", Schema((0, 1))).decode([]).X.shape == (0, 2)


def test_bad_raw_floats() -> None:
    schema = Schema(("u", "v"), label="y", label_type="int")
    values = [
        floats(1, 2, 0),
        floats(1, 2),
        floats(1, 2, 0)[:-1],
        b"",
        None,
        floats(1, math.nan, 0),
        floats(math.inf, 2, 0),
        floats(1, 2, 0.5),
        floats(1, 2, math.inf),
        b"x" * 200,
        floats(3, 4, 1),
    ]
    out = decoder("float32", schema, max_event_bytes=100).decode(values)
    assert out.good.tolist() == [0, 5, 10]
    assert out.y == [0, 0, 1]
    assert np.isnan(out.X[1, 1])
    assert [(event.row, event.column, event.kind) for event in out.bad] == [
        (1, None, "undecodable"),
        (2, None, "undecodable"),
        (3, None, "undecodable"),
        (4, None, "undecodable"),
        (6, "u", "inf"),
        (7, "y", "label out of domain"),
        (8, "y", "inf"),
        (9, None, "oversized"),
    ]
    assert out.bad[0].reason == "undecodable: 8 bytes, 12 expected"
    for most, good in ((12, [0, 5, 10]), (11, [])):
        out = decoder("float32", schema, max_event_bytes=most).decode(values)
        assert out.good.tolist() == good


def test_rows_pass_as_views_and_bad_ones_are_left_out() -> None:
    X = np.ones((5, 2))
    schema = Schema((0, 1), label="y", label_type="int")
    out = decoder("rows", schema).decode(Rows(X, [1, 0, None, 1, math.nan]))
    assert np.shares_memory(out.X, X)
    assert out.y == [1, 0, None, 1, None]
    X[1, 1], X[3, 0] = np.nan, -np.inf
    out = decoder("rows", schema).decode(Rows(X, np.array([1, 1, 0.5, 1, np.nan])))
    assert (out.good.tolist(), out.y) == ([0, 1, 4], [1, 1, None])
    assert [(event.row, event.column, event.kind) for event in out.bad] == [
        (2, "y", "label out of domain"),
        (3, 0, "inf"),
    ]
    for y in (np.array(["p", "q"]), ["p", "q"], np.array(["p", "q"], dtype=object)):
        texts = Schema((0, 1), label="y", label_type="str")
        assert decoder("rows", texts).decode(Rows(X[[0, 2]], y)).y == ["p", "q"]
    flags = Schema((0, 1), label="y", label_type="bool")
    assert decoder("rows", flags).decode(Rows(X[:1], np.array([True]))).y == [True]
    real = Schema((0, 1), label="y", label_type="float")
    assert decoder("rows", real).decode(Rows(X[:1], np.array([3]))).y == [3.0]


def test_what_cannot_fit_is_said_before_the_first_event() -> None:
    schema = Schema(("a",), label="y", label_type="int")
    with pytest.raises(BadRecord, match="no encoding 'xml'; there are json"):
        decoder("xml", schema)
    with pytest.raises(BadRecord, match="header"):
        decoder("csv", schema)
    with pytest.raises(BadRecord, match="label 'y' is not in the header"):
        decoder("csv", schema, fields=("a",))
    for mode in ("open", "strict"):
        with pytest.raises(BadRecord, match="label 'y' is not among the fields"):
            decoder("float32", replace(schema, mode=mode), fields=("a",))
    assert decoder("float32", replace(schema, mode="fixed"), fields=("a",)).decode([]).y == []
    with pytest.raises(BadRecord, match="column 0 of the schema has a number as its name"):
        decoder("json", Schema((0,)))
    few = Schema(label="y", max_columns=2)
    with pytest.raises(BadRecord, match="3 numbers, but 2 columns are allowed"):
        decoder("rows", few).decode(Rows(np.ones((1, 3)), [1]))
    with pytest.raises(BadRecord, match="lack the number 'a'"):
        decoder("rows", schema, fields=())
    with pytest.raises(BadRecord, match="rows of 2 columns, but 1 are expected"):
        decoder("rows", schema).decode(Rows(np.ones((1, 2)), [1]))
    with pytest.raises(BadRecord, match="no labels, though the label is 'y'"):
        decoder("rows", schema).decode(Rows(np.ones((1, 1))))
    with pytest.raises(BadRecord, match="expected Rows"):
        decoder("rows", schema).decode([1])


def check_reports(out: Decoded, n: int) -> None:
    """Every event is either decoded or reported, and nothing that is decoded is unfit."""
    rows = sorted([*out.good.tolist(), *(event.row for event in out.bad)])
    assert rows == list(range(n))
    assert out.X.shape[0] == len(out.y) == len(out.good)
    assert not np.isinf(out.X).any()
    assert all(event.kind in BAD_KINDS for event in out.bad)


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c", "y"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.lists(JSON_LIKE, max_size=6), st.sampled_from([SCHEMA, STRICT]))
def test_any_json_value_never_crashes(values: list[Any], schema: Schema) -> None:
    raw = [json.dumps(value).encode() for value in values]
    decoding = decoder("json", schema)
    check_reports(decoding.decode(raw), len(raw))
    check_reports(decoder("dict", schema).decode(values), len(values))
    assert Schema.from_json(json.loads(json.dumps(decoding.schema.to_json()))) == decoding.schema


@settings(deadline=None)
@given(st.data(), st.sampled_from(["json", "csv", "float32"]))
def test_random_bytes_never_crash(data: st.DataObject, encoding: str) -> None:
    if encoding == "float32":
        schema, fields = Schema((0, 1, 2), label="y", label_type="int"), None
        good = floats(1.5, -2, 0, 1)
    else:
        schema, fields = SCHEMA, FIELDS if encoding == "csv" else None
        good = encoded(encoding, {"a": 1.5, "b": -2, "c": "x", "y": 1})
    values = data.draw(st.lists(st.binary(max_size=80), max_size=4))
    for _ in range(4):
        cut = data.draw(st.integers(0, len(good)))
        values.append(good[:cut])
        flipped = bytearray(good)
        bit = data.draw(st.integers(0, 8 * len(good) - 1))
        flipped[bit // 8] ^= 1 << bit % 8
        values.append(bytes(flipped))
    check_reports(decoder(encoding, schema, fields=fields).decode(values), len(values))
