"""Fields of words: which fields these are, which words have columns, and what is kept of them."""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import itertools
import json
import math
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from encoding_kit import rows_of
from engine_kit import attached, learner, same_model
from reference import encoding as naive

from connectors.errors import BadRecord
from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_source
from streamk.adapters.batches import as_frame
from streamk.adapters.river import KernelClassifier
from streamk.adapters.rows import Model
from streamk.encoding import ColumnTable, Schema, decoder, words
from streamk.encoding.words import MOST_WORDS, TRIAL, words_of
from streamk.engine import Engine, Stream
from streamk.errors import InvalidInput
from streamk.export.fields import fields_of
from streamk.late import LateLabels
from streamk.learners import create
from streamk.learners.explaining import Fields, reasons_of

Events = list[dict[str, Any]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few words of few texts fill a field."""
    for ours, theirs, value in (
        ("TRIAL", "TRIAL", 6),
        ("_REPEATED", "REPEATED", 2),
        ("MOST_WORDS", "WORDS", 12),
        ("_WAITING", "WAITING", 15),
        ("_PART", "PART", 3),
    ):
        monkeypatch.setattr(words, ours, value)
        monkeypatch.setattr(naive, theirs, value)


def comments(seed: int, n: int, vocabulary: int = 40) -> Events:
    """Events with comments, odd ones among them, and with other fields."""
    rng = random.Random(seed)
    odd = [
        "",
        None,
        "?!",
        "7",
        "NA",
        "Straße straße STRASSE",
        "e\u0301té été",
        "x" * 300,
        3,
        "2024-02-29",
    ]
    odd += ["ok", "OK then", ["two words", "and more"], "ДА нет", "中文 字", "a\x00b c"]
    events: Events = []
    for i in range(n):
        some = (
            ["one", "of", f"w{rng.randrange(3)}"]
            if seed % 4 == 3
            else [f"w{int(vocabulary * rng.random() ** 2)}" for _ in range(rng.randint(2, 7))]
        )
        comment = rng.choice(odd) if rng.random() < 0.25 else " ".join(some)
        event = {"comment": comment, "city": rng.choice(["New York", "San Francisco", "Ulm"])}
        event["price"] = i
        if seed % 3 and not i:
            event["comment"] = "a first text"
        if rng.random() < 0.1:
            del event["comment"]
        events.append(event)
    return events


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("absent", ["zero", "missing"])
@pytest.mark.parametrize("said", [(), ("comment",)])
def test_columns_and_numbers_are_the_oracles(absent: Any, said: tuple[str, ...]) -> None:
    ways = set()
    for seed in range(40):
        events = comments(seed, 60)
        blank = 0.0 if absent == "zero" else math.nan
        expected = list(naive.encode(events, absent=blank, words=said))
        table = ColumnTable(Schema(absent=absent, kinds=dict.fromkeys(said, "words")))
        for row, (columns, numbers) in zip(rows_of(table, events), expected, strict=True):
            np.testing.assert_array_equal(row, numbers)
            assert list(table.places)[: len(columns)] == columns
        assert list(table.places) == expected[-1][0]
        ways.add((table.kinds["comment"], len(table.schema.columns) > 12))
    assert ("words", True) in ways
    assert said or "text" in {kind for kind, _ in ways}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("encoding", ["json", "dict", "csv"])
def test_cuts_and_restarts_change_nothing(encoding: str) -> None:
    names = ("comment", "city", "price", "y")
    for seed in (1, 2, 4, 5):
        rng = random.Random(seed)
        events = comments(seed, 80)
        for event in events:
            event["y"] = rng.choice([0, 1, None])
        if encoding == "csv":
            events = [{name: event.get(name) for name in names} for event in events]
            events = [event for event in events if not isinstance(event["comment"], list)]
        values = [written(encoding, event, names) for event in events]
        schema = Schema(label="y")
        whole = decoder(encoding, schema, fields=names)
        out = whole.decode(values)
        edges = sorted({0, len(values), *(rng.randrange(len(values)) for _ in range(12))})
        for lo, hi in itertools.pairwise(edges):
            part = decoder(encoding, schema, fields=names)
            some = part.decode(values[lo:hi])
            width = some.X.shape[1]
            np.testing.assert_array_equal(some.X, out.X[lo:hi, :width])
            schema = Schema.from_json(json.loads(json.dumps(part.schema.to_json())))
            assert schema == part.schema
        assert schema == whole.schema
        assert schema.kinds["comment"] == "words"
        assert schema.kinds["city"] == "text"


def written(encoding: str, event: dict[str, Any], names: tuple[str, ...]) -> Any:
    if encoding == "json":
        return json.dumps(event).encode()
    if encoding == "csv":
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow([event[name] for name in names])
        return out.getvalue().encode()
    return event


@pytest.mark.usefixtures("small")
def test_every_way_in_has_the_same_columns(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    events = [event for event in comments(1, 70) if isinstance(event.get("comment"), str)]
    table = ColumnTable(Schema())
    expected = rows_of(table, events)
    assert table.kinds["comment"] == "words"
    pq.write_table(pa.Table.from_pylist(events), tmp_path / "events.parquet")
    with contextlib.closing(open_source(f"parquet:{tmp_path}/events.parquet")) as source:
        (chunk,) = source.poll(100, 0.0)
    ways = {"json": [json.dumps(event).encode() for event in events], "dict": chunk.values}
    for encoding, values in ways.items():
        decoding = decoder(encoding, Schema())
        out = decoding.decode(values)
        assert decoding.schema.columns == tuple(table.places)
        for row, numbers in zip(out.X.tolist(), expected, strict=True):
            np.testing.assert_array_equal(row[: len(numbers)], numbers)
    labels = [i % 2 for i in range(len(events))]
    one, many = (
        Model(create("doubly-stochastic", task="classification", seed=1)) for _ in range(2)
    )
    for x, label, numbers in zip(events, labels, expected, strict=True):
        row = one.row(x, [label]).copy()
        np.testing.assert_array_equal(row, numbers)
        one.learner.learn_one(row, label)
    frame = as_frame(pd.DataFrame(events))
    assert frame is not None
    frame.learn(many, labels)
    assert one.learner.columns == many.learner.columns == tuple(table.places)
    np.testing.assert_array_equal(many.rows(events), one.rows(events))
    assert one.__getstate__()["schema"] == many.__getstate__()["schema"]
    assert one.__getstate__()["schema"]["words"] == table.schema.to_json()["words"]


def test_what_repeats_stays_a_category() -> None:
    rng = random.Random(0)
    cities = [f"New {chr(65 + i)}" for i in range(26)]
    names = [f"n{i}" for i in range(200)]
    urls = [f"http://a.org/{i}?q=x-y" for i in range(200)]
    events = [
        {"city": rng.choice(cities), "name": names[i], "url": urls[i], "note": f"it is {i} now"}
        for i in range(200)
    ]
    table = ColumnTable(Schema())
    rows_of(table, events)
    assert table.kinds == {"city": "text", "name": "text", "url": "text", "note": "words"}
    assert not table.trials
    assert {c for c in table.places if c.startswith("note:")} == {"note:it", "note:is", "note:now"}
    assert sum(c.startswith("note=") for c in table.places) == TRIAL


def test_numbers_behind_marks_are_no_words() -> None:
    table = ColumnTable(Schema())
    rows_of(table, [{"c": "no value"}, *({"c": str(i)} for i in range(90))])
    assert table.kinds["c"] == "text"
    assert "c" in table.numbers
    assert not table.trials


def test_odd_texts() -> None:
    assert words_of("Don't STOP, don't!") == ["don", "t", "stop"]
    assert words_of("Ünïcode ünïcode e\u0301 é") == ["ünïcode", "é"]
    assert words_of("ПРИВЕТ, мир; 中文。x_1 №5 ½") == ["привет", "мир", "中文", "x_1", "5", "½"]
    assert words_of(f"{chr(0xD800)}half {'x' * 257} \0 🙂") == ["half"]
    assert words_of("") == words_of(" \n\t…") == []
    table = ColumnTable(Schema(kinds={"c": "words"}))
    texts = ["a b", "", None, "NA", "?!", 7, True, "a" * 5000, ["a", "b c"], "A"]
    rows = rows_of(table, [{"c": text} for text in texts])
    assert list(table.places) == ["c:a"]
    assert rows[-2:] == [[], [1.0]]
    read = table.read({"c": None})
    assert np.isnan(table.row(read)).all()
    assert table.row(table.read({"c": "b ?"})).tolist() == [0.0]
    assert table.row(table.read({})).tolist() == [0.0]


def test_ever_new_words_take_no_more_room() -> None:
    rng = random.Random(1)
    table = ColumnTable(Schema(kinds={"c": "words"}))
    words_so_far = itertools.count()
    for _ in range(3000):
        text = " ".join([f"n{next(words_so_far)}" for _ in range(12)] + [f"w{rng.randrange(900)}"])
        table.admit(table.read({"c": text}))
    (tally,) = table.schema.words.values()
    assert len(tally.counts) <= 4096 + 13
    assert {c[:3] for c in table.places} == {"c:w"}
    for n in (50_000, 2000):
        known, long = len(table), " ".join(f"v{i}" for i in range(n))
        for _ in range(4):
            table.admit(table.read({"c": long}))
        assert len(table) == (known if n > 4096 else MOST_WORDS)
    assert table.schema.words["c"].counts == {}


def test_there_are_no_more_columns_than_allowed() -> None:
    table = ColumnTable(Schema(kinds={"c": "words"}, max_columns=5))
    events: Events = [{"c": f"a b c d e f g {i}"} for i in range(9)]
    rows_of(table, events)
    assert list(table.places) == [f"c:{letter}" for letter in "abcde"]
    strict = ColumnTable(Schema(kinds={"c": "words"}, mode="strict"))
    rows_of(strict, [{"c": "a", "n": 1}] * 3)
    assert list(strict.places) == ["n", "c:a"]
    out = decoder("dict", Schema(kinds={"c": "words"}, mode="strict", label="y")).decode(
        [{"c": "a", "n": 1, "y": label} for label in (0, None, None, None, 1, 1)]
    )
    assert out.growth == [(0, 1), (5, 2)]


def test_names_of_words_are_those_of_their_fields_alone() -> None:
    table = ColumnTable(Schema(kinds={"c": "words", "c:a": "number", 3: "words"}))
    rows_of(table, [{"c:a": 1.0, "c": "a b", 3: "a"}] * 4)
    assert list(table.places) == ["c:a", "3:a", "c:b"]
    schema = Schema.from_json(json.loads(json.dumps(table.schema.to_json())))
    assert [schema.owner(column) for column in schema.columns] == ["c:a", 3, "c"]
    with pytest.raises(InvalidInput, match="'3:a' is made from words, which cannot be exported"):
        fields_of(schema, schema.columns, 3)


@pytest.mark.parametrize(
    "damage", [[1], [0, 0, 0, {"a": -1}], [0, 0, 0, {"a": 1.5}], ["0", 0, 0, {}], [0, 0, 65, {}]]
)
def test_damaged_words_are_refused(damage: list[Any]) -> None:
    data = Schema(kinds={"c": "words"}).to_json()
    with pytest.raises(BadRecord, match="not a schema"):
        Schema.from_json({**data, "words": [["c", *damage]]})


def test_a_model_of_words_is_copied_and_tells_words() -> None:
    rng = random.Random(5)
    events = [
        {"comment": f"{rng.choice(['refund', 'thanks'])} please {rng.randrange(99)} a{i}"}
        for i in range(400)
    ]
    model = KernelClassifier(seed=1, external_experts=[])
    for x in events[:300]:
        model.learn_one(x, "refund" in x["comment"])
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for x in events[300:320]:
            again.learn_one(x, "refund" in x["comment"])
        assert again.predict_one(events[321]) == ("refund" in events[321]["comment"])
    assert "comment:refund = 1" in model.debug_one({"comment": "my Refund, please"})
    inner, schema = model._model.learner, model._model._table.schema
    fields = Fields()
    fields.follow(schema, inner.columns or ())
    x = model._model.row({"comment": "refund"})
    ((first, *_),) = reasons_of(inner, fields, x[None], [{"comment": "refund"}])
    assert (first.column, first.value, first.effect > 0) == ("comment:refund", 1, True)
    x = model._model.row({"comment": "nothing known"})
    ((only, *_),) = reasons_of(inner, fields, x[None], [{"comment": "nothing known"}])
    assert (only.column, only.value) == ("comment", "nothing known")


def test_the_engine_takes_fields_of_words_by_name() -> None:
    events = [{"c": f"a{i % 2}", "y": i % 2 == 1} for i in range(40)]
    model = create("doubly-stochastic", task="classification", seed=1)
    report = Engine(MemorySource(events), model, stream=Stream(label="y", text=("c", "d"))).run()
    assert report.schema is not None
    assert report.schema.columns == ("c:a0", "c:a1")
    assert "field of texts 'd'" in " ".join(report.notes)
    for wrong in ({"ignore": ("c",)}, {"label": "c"}, {"label": None, "schema": Schema()}):
        with pytest.raises(InvalidInput, match="text="):
            Stream(**{"label": "y", "text": ("c",), **wrong})


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("late", [False, True])
def test_a_job_that_is_stopped_goes_on_as_if_it_was_not(late: bool, tmp_path: Path) -> None:
    rng = random.Random(3)
    events = [event | {"id": str(i)} for i, event in enumerate(comments(1, 240))]
    labels = [{"id": str(i), "y": rng.random() < 0.5} for i in range(len(events))]

    def run(most: int, sink: MemorySink, place: Path | None) -> Any:
        source, more = MemorySource(events), dict[str, Any]()
        if late:
            times = [i + 5 for i in range(len(events))]
            more["labels"] = LateLabels(MemorySource(labels, timestamps=times), key="id")
        else:
            source = MemorySource([a | b for a, b in zip(events, labels, strict=True)])
        options = {"label": "y", "ignore": ("id",), "max_events": most, "sink": sink, **more}
        return attached(source, learner(), checkpoint=place, **options).run()

    most = 2 * len(events) if late else len(events)
    expected, found = MemorySink(), MemorySink()
    whole = run(most, expected, None)
    assert whole.schema.kinds["comment"] == "words"
    assert sum(str(column).startswith("comment:") for column in whole.schema.columns) == 10
    for stop in (7, 20, 33, 90, 150, most):
        report = run(stop, found, tmp_path)
    assert found.outputs == expected.outputs
    assert report.schema == whole.schema
    assert same_model(report.model, whole.model)
