"""Fields that name entities, and the time of events: numbers, the same in every way in."""

from __future__ import annotations

import contextlib
import csv
import decimal
import io
import itertools
import json
import math
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from encoding_kit import rows_of
from reference import encoding as naive

from connectors.errors import BadRecord
from connectors.registry import open_source
from streamk.adapters.batches import as_frame
from streamk.adapters.rows import Model
from streamk.encoding import (
    ColumnTable,
    LoneReader,
    Schema,
    decoder,
    key_of,
    milliseconds_of,
)
from streamk.encoding.values import clock_of, entity_of
from streamk.errors import InvalidInput
from streamk.export.fields import fields_of
from streamk.learners import create
from streamk.memory import entity_number

Events = list[dict[str, Any]]
KINDS: Any = {"user": "entity", "shop.id": "entity", "ts": "clock"}
USERS = [7, "7", "7.0", 7.0, "7.50", "ada", "ada lovelace", True, "true", "007", 1.5, "", None]
USERS += ["NA", 2**60, "é" * 200]
TIMES = [1_577_836_800_000, "1577836800000", "2020-01-01", "2020-02-29T18:30:05.25+02:00", None]
TIMES += [1_600_000_000_123.0, 0]


def payments(seed: int, n: int = 60) -> Events:
    """Events with odd users and times, which some lack."""
    rng = random.Random(seed)
    events: Events = []
    for i in range(n):
        event: dict[str, Any] = {"amount": rng.randrange(99), "ts": rng.choice(TIMES)}
        event |= {"user": rng.choice(USERS), "kind": rng.choice("ab")}
        event["shop"] = {"id": rng.randrange(3)}
        if seed % 2:
            event["shop"] = {"id": 1.5}
        for name in ("user", "ts", "kind"):
            if rng.random() < (0.9 if i < 5 else 0.1):
                del event[name]
        events.append(event)
    return events


def flat(event: dict[str, Any]) -> dict[str, Any]:
    event = {**event, "shop.id": event["shop"]["id"]}
    del event["shop"]
    return event


@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_columns_and_numbers_are_the_oracles(absent: Any) -> None:
    for seed in range(20):
        events = [flat(event) for event in payments(seed)]
        blank = 0.0 if absent == "zero" else math.nan
        expected = list(
            naive.encode(events, absent=blank, entities=("user", "shop.id"), clock="ts")
        )
        table = ColumnTable(Schema(absent=absent, kinds=KINDS))
        for row, (columns, numbers) in zip(rows_of(table, events), expected, strict=True):
            np.testing.assert_allclose(row, numbers, rtol=0.0, atol=1e-9)
            assert list(table.places)[: len(columns)] == columns
        assert {"user@entity", "shop.id@entity", "ts@elapsed", "ts@day_sin"} <= {*table.places}
        assert table.kinds == {**KINDS, "amount": "number", "kind": "text"}


@pytest.mark.parametrize("absent", ["zero", "missing"])
@pytest.mark.parametrize("encoding", ["json", "dict", "csv"])
def test_cuts_and_restarts_change_nothing(encoding: str, absent: Any) -> None:
    """And the quick way gives the numbers of the careful one."""
    names = ("user", "kind", "amount", "ts", "shop.id", "y")
    for seed in range(6):
        rng = random.Random(seed)
        events = payments(seed, 80)
        for event in events:
            event["y"] = rng.choice([0, 1, None])
        if encoding == "csv":
            events = [flat(event) for event in events]
            events = [{name: event.get(name) for name in names} for event in events]
        values = [written(encoding, event, names) for event in events]
        schema = Schema(label="y", kinds=KINDS, absent=absent)
        whole = decoder(encoding, schema, fields=names)
        out = whole.decode(values)
        assert not out.bad
        one_by_one = decoder(encoding, schema, fields=names)
        for x, value in zip(out.X, values, strict=True):
            (row,) = one_by_one.decode([value]).X
            np.testing.assert_array_equal(row, x[: len(row)])
        edges = sorted({0, len(values), *(rng.randrange(len(values)) for _ in range(12))})
        for lo, hi in itertools.pairwise(edges):
            part = decoder(encoding, schema, fields=names)
            some = part.decode(values[lo:hi])
            np.testing.assert_array_equal(some.X, out.X[lo:hi, : some.X.shape[1]])
            schema = Schema.from_json(json.loads(json.dumps(part.schema.to_json())))
            assert schema == part.schema
        assert schema == whole.schema


def written(encoding: str, event: dict[str, Any], names: tuple[str, ...]) -> Any:
    if encoding == "json":
        return json.dumps(event).encode()
    if encoding == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow([event[name] for name in names])
        return out.getvalue().encode()
    return event


def test_every_way_in_has_the_same_columns(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    events: Events = [
        {"user": i % 7, "ts": f"2024-01-01T00:00:{i % 60:02d}", "amount": i / 2} for i in range(70)
    ]
    kinds: Any = {"user": "entity", "ts": "clock"}
    table = ColumnTable(Schema(kinds=kinds))
    expected = np.array(rows_of(table, events))
    assert {entity_number(str(n)) for n in range(7)} == {
        *expected[:, list(table.places).index("user@entity")]
    }
    times = [datetime.fromisoformat(event["ts"]).replace(tzinfo=UTC) for event in events]
    typed = [event | {"ts": time} for event, time in zip(events, times, strict=True)]
    pq.write_table(pa.Table.from_pylist(typed), tmp_path / "events.parquet")
    with contextlib.closing(open_source(f"parquet:{tmp_path}/events.parquet")) as source:
        (chunk,) = source.poll(100, 0.0)
    milliseconds = [
        event | {"ts": int(1000 * time.timestamp()), "user": str(event["user"])}
        for event, time in zip(events, times, strict=True)
    ]
    ways: list[tuple[str, list[Any]]] = [
        ("json", [json.dumps(event).encode() for event in events]),
        ("json", [json.dumps(event).encode() for event in milliseconds]),
        ("dict", list(chunk.values)),
        ("csv", [f"{e['user']},{e['ts']},{e['amount']}".encode() for e in events]),
    ]
    for encoding, values in ways:
        decoding = decoder(encoding, Schema(kinds=kinds), fields=("user", "ts", "amount"))
        out = decoding.decode(values)
        assert decoding.schema.columns == tuple(table.places)
        np.testing.assert_array_equal(out.X, expected)
    model = Model(create("multi-kernel", task="classification"), Schema(kinds=kinds))
    frame = as_frame(pd.DataFrame(typed))
    assert frame is not None
    frame.learn(model, [i % 2 for i in range(70)])
    np.testing.assert_array_equal(model.rows(events), expected)
    np.testing.assert_array_equal(np.concatenate(list(frame.rows(model))), expected)


def test_what_one_entity_is() -> None:
    table = ColumnTable(Schema(kinds={"u": "entity"}))
    same: list[Any] = [7, "7", 7.0, "7.0", "7.00", np.int64(7), decimal.Decimal(7), np.float32(7)]
    others: list[Any] = ["007", "7.0.0", True, "TRUE", None, ""]
    rows = rows_of(table, [{"u": value} for value in [*same, *others]])
    assert list(table.places) == ["u@entity"]
    numbers = np.array(rows)[:, 0]
    assert set(numbers[:8]) == {entity_number("7")}
    assert numbers[8:12].tolist() == [*map(entity_number, ("007", "7.0.0", "true", "true"))]
    assert np.isnan(numbers[12:]).all()
    for form in (*same[:5], -0.0, "-0.0", "0.000", 0):  # entities are told apart as keys are
        assert entity_of(form) == entity_number(key_of(form, "u"))
    assert np.isnan(table.row(table.read({}))).all()
    long = 2**70 + 1
    for encoding, value in (("dict", {"u": long}), ("json", f'{{"u": {long}}}'.encode())):
        out = decoder(encoding, Schema(kinds={"u": "entity"})).decode([value] * 3)
        assert out.X.tolist() == [[entity_number(str(long))]] * 3


def test_one_meaning_of_times_here_and_of_late_labels() -> None:
    for value in [*TIMES, datetime(2020, 1, 1, tzinfo=UTC), "soon", True, 1e300, -5e13]:
        moment, milliseconds = clock_of(value), milliseconds_of(value)
        if moment is None:
            assert milliseconds is None or milliseconds < -6e13 or value == -5e13 or value is True
        else:
            assert round(1000.0 * moment.elapsed) == milliseconds


@pytest.mark.parametrize("encoding", ["dict", "json"])
def test_values_of_no_use_are_refused(encoding: str) -> None:
    good = {"u": 1, "ts": 5}
    for bad, said in (({"u": [1]}, "which name an entity"), ({"ts": "soon"}, "milliseconds")):
        events = [good, good, good | bad, good]
        values: Any = [json.dumps(event).encode() for event in events]
        schema = Schema(kinds={"u": "entity", "ts": "clock"})
        out = decoder(encoding, schema).decode(events if encoding == "dict" else values)
        (one,) = out.bad
        assert (one.row, one.kind, said in one.reason) == (2, "wrong type", True)


def test_names_and_strict_schemas() -> None:
    strict = ColumnTable(Schema(kinds={"u": "entity", "ts": "clock"}, mode="strict"))
    rows_of(strict, [{"n": 1}, {"n": 1, "u": 3}, {"n": 1, "u": 3, "ts": 9}])
    assert list(strict.places)[:2] == ["n", "u@entity"]
    assert len(strict.places) == 9
    schema = Schema.from_json(json.loads(json.dumps(strict.schema.to_json())))
    assert [schema.owner(column) for column in schema.columns[:3]] == ["n", "u", "ts"]
    with pytest.raises(InvalidInput, match="'u@entity' is an entity, whose past"):
        fields_of(schema, schema.columns, 9)
    for encoding in ("rows", "float32"):
        with pytest.raises(BadRecord, match="holds only numbers; use a format that"):
            decoder(encoding, Schema(kinds={"u": "entity"}), fields=("u",))


def test_alarms_do_not_look_at_them() -> None:
    from connectors.memory import MemorySource

    reader = LoneReader(MemorySource([{}]), Schema(kinds={"u": "entity", "ts": "clock"}))
    assert reader.one({"u": 3, "ts": 5, "n": 1.0}) == {"n": 1.0}
