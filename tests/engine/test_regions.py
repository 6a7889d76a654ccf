"""What a job gives beside predictions: intervals and sets, figures of slices, declared fields."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import ndjson, streamk
from engine_kit import attached, job
from multi_kernel_kit import pool_alone
from schema_kit import avro_record, record_schema

import streamk as package
from connectors.base import Output, Rows
from connectors.fields import RecordType
from connectors.memory import MemorySink, MemorySource
from connectors.records import framed
from connectors.schemas.avro import AvroSchema
from connectors.schemas.formats import SchemaFormat
from connectors.schemas.outputs import FramedOutputs
from connectors.schemas.stores import StoredSchema
from streamk.encoding import Schema
from streamk.engine import Fixed, Report, newest_checkpoint
from streamk.engine.evaluation.slices import MISSING, MOST, Slices
from streamk.engine.training.options import Details
from streamk.errors import InvalidInput, StateError
from streamk.late import LateLabels
from streamk.learners import MultiKernel, create
from streamk.learners.explaining import Fields

LEARNERS = ("multi-kernel", "kernel-ridge", "doubly-stochastic", "streaming-meka")


def numbers(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """A number whose noise grows fourfold in the middle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + rng.normal(size=n) * np.where(np.arange(n) < n // 2, 0.2, 0.8)
    rows = zip(range(n), X.tolist(), y.tolist(), strict=True)
    return [{"id": i, "a": a, "b": b, "y": number} for i, (a, b), number in rows]


def classes(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Three classes whose overlap grows in the middle."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    spread = np.where(np.arange(n) < n // 2, 0.6, 1.2)[:, None]
    centers = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    X = centers[truth] + spread * rng.normal(size=(n, 2))
    rows = zip(range(n), X.tolist(), truth.tolist(), strict=True)
    return [{"id": i, "a": a, "b": b, "y": "uvw"[k]} for i, (a, b), k in rows]


LATE = {False: None, True: 48}
"""Events after which the labels come."""


def held(stream: list[dict[str, Any]], sink: MemorySink, task: str) -> list[bool]:
    """Whether each event's region holds its label, where there was one before any label."""
    found = []
    for event, output in zip(stream, sink.outputs, strict=True):
        if task == "classification":
            if output.value["prediction"] is not None:
                assert output.value["prediction"] in output.value["prediction_set"]
                found.append(event["y"] in output.value["prediction_set"])
        elif output.value["interval"] is not None:
            low, high = output.value["interval"]
            assert low <= output.value["prediction"] <= high
            found.append(low <= event["y"] <= high)
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", LEARNERS)
def test_nine_in_ten_are_held_by_those_of_every_learner(name: str, task: str, late: bool) -> None:
    stream = classes(3000) if task == "classification" else numbers(3000)
    option = "prediction_set" if task == "classification" else "interval"
    sink = MemorySink()
    report = job(stream, create(name, task=task), sink=sink, late=LATE[late], **{option: 0.9}).run()
    found = held(stream, sink, task)
    if late:  # the labels of the last events come, too
        assert report.counts.learned == len(stream)
    assert abs(np.mean(found) - 0.9) < 0.015
    # Sets of before any set was scored, of all classes that are known, do not count there.
    assert report.whole["coverage"] == pytest.approx(np.mean(found), abs=0.004)
    size = report.whole["mean_set_size" if task == "classification" else "mean_width"]
    assert 0 < size < 10


def series(kind: str, n: int) -> list[dict[str, Any]]:
    """Numbers that depend on columns and, but for those in random order, on the ones before."""
    rng = np.random.default_rng(1)
    X, noise, rest = rng.normal(size=(n, 2)), rng.normal(size=n), np.zeros(n)
    for now in range(2, n):
        rest[now] = 1.6 * rest[now - 1] - 0.8 * rest[now - 2] + noise[now]
    y = {
        "season": 10.0 * rng.normal(size=24)[np.arange(n) % 24] + noise,
        "trend": 0.005 * np.arange(n) + noise,
        "swings": rest,
        "random order": X[:, 0] * X[:, 1] + 0.3 * noise,
    }[kind]
    rows = zip(range(n), X.tolist(), (y + X[:, 0]).tolist(), strict=True)
    return [{"id": i, "a": a, "b": b, "y": number} for i, (a, b), number in rows]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("wanted", [{"interval": 0.9}, {}])
@pytest.mark.parametrize("kind", ["season", "trend", "swings", "random order"])
def test_an_opened_model_tells_how_far_it_is_off_without_the_labels(
    kind: str, wanted: dict[str, Any], late: bool, tmp_path: Path
) -> None:
    """Where its job knows each label before the next event, its own errors are larger."""
    stream, learned = series(kind, 4_000), 3_000
    options = {"late": LATE[late], "checkpoint": tmp_path / "state", **wanted}
    model = MultiKernel(task="regression", seed=1, external_experts=())
    job(stream[:learned], model, **options).run()
    (tmp_path / "asked.ndjson").write_bytes(ndjson(stream[learned:]))
    answers = ("--to", "file:answers.ndjson", "--interval", "0.9", "--quiet")
    streamk("predict", "state", "file:asked.ndjson", *answers, cwd=tmp_path)
    lines = (tmp_path / "answers.ndjson").read_text().splitlines()
    sink = MemorySink()
    sink.write([Output("p", n, n, None, json.loads(line)) for n, line in enumerate(lines)])
    assert 0.86 < np.mean(held(stream[learned:], sink, "regression")) < 0.985


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_what_is_served_is_what_the_job_gives_next(task: str, tmp_path: Path) -> None:
    stream = classes(401) if task == "classification" else numbers(401)
    name = "prediction_set" if task == "classification" else "interval"
    model, sink = create("kernel-ridge", task=task), MemorySink()
    job(stream[:400], model, checkpoint=tmp_path, **{name: 0.9}).run()
    served = package.load(tmp_path)
    ask = served.predict_set_one if task == "classification" else served.predict_interval_one
    found = list(ask(stream[400], 0.9))
    job(stream, create("kernel-ridge", task=task), sink=sink, **{name: 0.9}).run()
    assert found == sink.outputs[400].value[name]
    with pytest.raises(InvalidInput, match=r"runs with --\S+ 0\.9; ask for that instead of 0\.8"):
        ask(stream[400], 0.8)
    told = MemorySink()
    attached(
        MemorySource(stream[400:]),
        served.learner,
        schema=served.schema,
        sink=told,
        fixed=Fixed(kept=served.kept),
        **{name: 0.9},
    ).run()
    assert told.outputs[0].value[name] == found


def test_a_model_whose_job_gave_none_says_so(tmp_path: Path) -> None:
    job(
        classes(100),
        create("multi-kernel", external_experts=(), task="classification"),
        checkpoint=tmp_path,
    ).run()
    with pytest.raises(InvalidInput, match=r"run it with --prediction-set 0\.9"):
        package.load(tmp_path).predict_set_one({"a": 1.0})


def test_nothing_is_served_before_a_label(tmp_path: Path) -> None:
    stream = [{**event, "y": None} for event in numbers(3)]
    model = create("kernel-ridge", task="regression")
    engine = job(stream, model, checkpoint=tmp_path, interval=0.9, max_events=3)
    engine.run()
    with pytest.raises(InvalidInput, match="nothing is learned yet"):
        package.load(tmp_path).predict_interval_one({"a": 1.0})


def test_a_job_may_take_them_up_or_change_the_level(tmp_path: Path) -> None:
    stream, sink = numbers(600), MemorySink()

    def more(n: int, **options: Any) -> list[Any]:
        """What is written up to so many records."""
        before = len(sink.outputs)
        model = create("multi-kernel", external_experts=(), task="regression")
        job(stream, model, sink=sink, late=48, checkpoint=tmp_path, max_events=n, **options).run()
        return [output.value for output in sink.outputs[before:]]

    assert "interval" not in more(300)[-1]
    low, high = more(700, interval=0.9)[-1]["interval"]
    less, most = more(800, interval=0.5)[0]["interval"]
    assert most - less < high - low
    assert "interval" not in more(900)[0]
    kept = newest_checkpoint(tmp_path / "member-0")
    assert kept.body["training"]["regions"] is None


@pytest.mark.parametrize("between", [0.5, None])
def test_regions_of_another_level_do_not_count(between: float | None, tmp_path: Path) -> None:
    """Those of events that waited for labels when the level became another."""
    sink = MemorySink()

    def coverage(n: int, level: float | None) -> tuple[float | None, Any]:
        model = create("doubly-stochastic", task="regression")
        options: dict[str, Any] = {} if level is None else {"interval": level}
        options |= {"checkpoint": tmp_path, "max_events": n}
        report = job(numbers(600), model, sink=sink, late=48, **options).run()
        kept = newest_checkpoint(tmp_path / "member-0")
        return report.whole.get("coverage"), kept.body["training"]["regions"]

    before, regions = coverage(700, 0.5)
    if between is None:
        coverage(704, None)
        assert coverage(780, 0.9)[0] is None
    else:
        after, later = coverage(780, 0.9)
        assert after == before
        assert later["n"] == regions["n"]
        assert coverage(900, 0.9)[0] != before


def test_those_of_another_job_come_with_its_model(tmp_path: Path) -> None:
    stream = numbers(300)
    model = create("multi-kernel", external_experts=(), task="regression")
    job(stream, model, checkpoint=tmp_path / "one", interval=0.9).run()
    sink, model = MemorySink(), create("multi-kernel", external_experts=(), task="regression")
    more = {"start_from": tmp_path / "one", "checkpoint": tmp_path / "two", "interval": 0.9}
    job(numbers(5, seed=1), model, sink=sink, **more).run()
    assert sink.outputs[0].value["interval"] is not None


def test_rows_of_numbers_need_no_names() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(300, 2))
    sink = MemorySink()
    source = MemorySource(Rows(X, (X[:, 0] > 0).astype(int)))
    attached(
        source,
        create("multi-kernel", external_experts=(), task="classification"),
        label="y",
        sink=sink,
        prediction_set=0.9,
    ).run()
    assert sink.outputs[-1].value["prediction_set"] in ([0], [1], [0, 1], [1, 0])


@pytest.mark.parametrize(
    ("task", "options", "says"),
    [
        ("classification", {"interval": 0.9}, "intervals are for numbers"),
        ("regression", {"prediction_set": 0.9}, "prediction sets are for classes"),
        ("classification", {"prediction_set": 1.0}, r"prediction_set=1\.0 must lie between"),
        ("regression", {"interval": 0.0}, r"interval=0\.0 must lie between"),
    ],
)
def test_what_cannot_be_given_is_refused(task: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        job([], create("kernel-ridge", task=task), sink=MemorySink(), **options)


def test_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(classes(600)))
    asked = [{name: event[name] for name in ("a", "b")} for event in classes(20, seed=1)]
    (tmp_path / "asked.ndjson").write_bytes(ndjson(asked))
    command = (
        "run",
        "file:events.ndjson",
        "--label",
        "y",
        "--ignore",
        "id",
        "--to",
        "csv:told.csv",
    )
    out, _ = streamk(*command, "--prediction-set", "0.9", "--checkpoint", "state", cwd=tmp_path)
    assert "coverage" in out
    assert "mean set size" in out
    with (tmp_path / "told.csv").open() as file:
        assert json.loads(list(csv.DictReader(file))[-1]["prediction_set"])
    asking = ("predict", "state", "file:asked.ndjson", "--to", "file:answers.ndjson")
    streamk(*asking, "--prediction-set", "0.9", "--quiet", cwd=tmp_path)
    lines = (tmp_path / "answers.ndjson").read_text().splitlines()
    model = package.load(tmp_path / "state")
    for event, line in zip(asked, lines, strict=True):
        assert json.loads(line)["prediction_set"] == model.predict_set_one(event)
    _, err = streamk(*asking, "--prediction-set", "0.8", cwd=tmp_path, status=2)
    assert "runs with --prediction-set 0.9" in err


# --- slices ---------------------------------------------------------------------------------------


def towns(n: int, kinds: int = 3) -> list[dict[str, Any]]:
    """In the first town labels are clear, in the others they are not."""
    rng = np.random.default_rng(1)
    made: list[dict[str, Any]] = []
    for i in range(n):
        town, x = int(rng.integers(0, kinds)), float(rng.normal())
        noise = 0.0 if town == 0 else 2.0
        label = x + noise * float(rng.normal()) > 0
        made.append({"id": i, "x": x, "y": label, "at": {"town": f"t{town}"}})
        if i % 7 == 3:
            del made[-1]["at"]
    return made


def sliced(stream: list[Any], *, late: bool = False, **options: Any) -> Report:
    model = create("multi-kernel", task="classification", seed=1, external_experts=())
    options = {"slice": "at.town", "whim": 0, **options}
    return job(stream, model, late=20 if late else None, **options).run()


def expected(stream: list[Any], sink: MemorySink) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for event, output in zip(stream, sink.outputs, strict=True):
        if output.value["prediction"] is not None:
            name = event.get("at", {}).get("town", MISSING)
            found.setdefault(name, []).append(output.value["prediction"] == event["y"])
    return found


@pytest.mark.parametrize("late", [False, True])
def test_figures_are_those_of_the_events_with_the_value(late: bool) -> None:
    stream, sink = towns(900), MemorySink()
    report = sliced(stream, sink=sink, late=late, window=200)
    hits = expected(stream, sink)
    assert report.slices.keys() == {"t0", "t1", "t2", MISSING}
    for name, of_slice in hits.items():
        assert report.slices[name]["events"] == len(of_slice)
        assert report.slices[name]["accuracy"] == pytest.approx(np.mean(of_slice))
    assert sum(one["window"]["events"] for one in report.slices.values()) == 200
    assert report.slices["t0"]["accuracy"] > report.slices["t1"]["accuracy"] + 0.1
    assert report.slices["t0"]["log_loss"] < report.slices["t1"]["log_loss"]


@pytest.mark.parametrize("late", [False, True])
def test_another_column_begins_anew(late: bool, tmp_path: Path) -> None:
    stream = towns(400)
    sliced(stream, late=late, checkpoint=tmp_path, max_events=300)
    report = sliced(stream, late=late, checkpoint=tmp_path, slice="id")
    assert sum(one["events"] for one in report.slices.values()) <= 400 - 100
    assert report.slices.keys().isdisjoint({"t0", "t1", "t2", MISSING})


def test_plain_numbers_have_no_slices() -> None:
    source = MemorySource(Rows(np.eye(3), [0, 1, 0]))
    with pytest.raises(InvalidInput, match="needs events with named fields"):
        attached(source, create("multi-kernel", task="classification"), label="y", slice="a")


def test_values_are_told_apart_by_their_text() -> None:
    slices = Slices("x")
    codes = slices.codes([3, "3", 3.0, True, "true", "", None, {"a": 1}, "z" * 100, "\ud800"])
    assert codes.tolist() == [0, 0, 1, 2, 2, 3, 3, 4, 5, 6]
    json.dumps(slices.names).encode()


@pytest.mark.parametrize(
    "damage",
    [
        {"names": ["a"]},
        {"names": ["a", "a"]},
        {"names": [str(n) for n in range(MOST + 1)]},
        {"sums": [[0.0]]},
        {"sums": [[float("nan")] * 3] * (MOST + 1)},
        {"sums": None},
    ],
)
def test_damaged_data_is_refused(damage: dict[str, Any]) -> None:
    slices = Slices("x")
    codes = slices.codes(["a", "b"])
    slices.add({"hit": np.ones(2), "loss": np.ones(2), "slice": codes})
    data = slices.to_json()
    Slices("x").resume(data)
    with pytest.raises(StateError):
        Slices("x").resume({**data, **damage})


def test_slices_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(towns(500)))
    command = ("run", "file:events.ndjson", "--label", "y", "--ignore", "id", "--slice", "at.town")
    out, _ = streamk(*command, cwd=tmp_path)
    assert "slice" in out
    assert "t0" in out
    found = json.loads(streamk(*command, "--json", "--quiet", cwd=tmp_path)[0])["slices"]
    assert found["t0"]["accuracy"] > found["t1"]["accuracy"]


def test_framed_records_have_slices() -> None:
    """Those of Avro, which are read by their schemas, and of JSON behind a frame."""
    plain = [{"x": n % 5, "y": n % 5 > 1, "at": {"town": f"t{n % 3}"}} for n in range(90)]
    town = record_schema(("town", "string"), name="Town")
    schema = record_schema(("x", "long"), ("y", "boolean"), ("at", town))

    class Framed(MemorySource):
        record_format: Any = None

    class Stored:
        def fetch(self, number: int) -> StoredSchema:
            return StoredSchema(json.dumps(schema))

    found = {}
    for encoding in ("json", "json-schema", "avro"):
        values = [json.dumps(event).encode() for event in plain]
        if encoding == "json-schema":
            values = [framed(1, value) for value in values]
        elif encoding == "avro":
            values = [avro_record(1, schema, event) for event in plain]
        source = Framed(values, encoding=encoding)
        if encoding == "avro":
            source.record_format = SchemaFormat(Stored(), lambda schema: AvroSchema(schema.text))
            assert source.record_format.ready(values) == len(values)
        model = create("doubly-stochastic", task="classification", seed=1)
        found[encoding] = attached(source, model, label="y", slice="at.town").run().slices
    assert set(found["json"]) == {"t0", "t1", "t2"}
    assert found["avro"] == found["json-schema"] == found["json"]


# --- declared fields ------------------------------------------------------------------------------

RNG = np.random.default_rng(1)
NUMBERS = RNG.normal(size=(1500, 2)).round(3)


class FramedSink(MemorySink):
    """Holds outputs as they are read back from Avro."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._format = FramedOutputs("avro", str(folder))
        self.record: RecordType | None = None

    def declare(self, record: RecordType) -> None:
        assert self.record is None
        self.record = record
        self._format.declare(record, "any")

    def write(self, outputs: Sequence[Output]) -> None:
        values = self._format.contents([self._format.encode(output.value) for output in outputs])
        assert values == [output.value for output in outputs]
        super().write(outputs)

    @property
    def names(self) -> set[str]:
        return {field.name for field in (self.record.fields if self.record else ())}


def events(*, classes: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for i, (a, b) in enumerate(NUMBERS.tolist()):
        # What is learned changes, so that there are alarms.
        label: Any = ("up", 7)[(a * b > 0) ^ (i > 1000)] if classes else a * b * 40.0 ** (i > 1000)
        found.append({"key": i, "a": a, "b": b, "y": label})
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("classes", [False, True])
def test_all_outputs_have_the_fields_that_were_declared(
    classes: bool, explain: bool, late: bool, tmp_path: Path
) -> None:
    rows = events(classes=classes)[: 300 if explain else 1500]
    task = "classification" if classes else "regression"
    model = pool_alone(seed=1, task=task)
    sinks = [FramedSink(tmp_path) for _ in range(2)]
    more: dict[str, Any] = {}
    source = MemorySource(rows)
    if late:
        source = MemorySource([{k: v for k, v in row.items() if k != "y"} for row in rows])
        labels = MemorySource([{"key": row["key"], "y": row["y"]} for row in rows[:-20]])
        more["labels"] = LateLabels(labels, key="key")
    more["prediction_set" if classes else "interval"] = 0.9
    attached(
        source, model, label="y", sink=sinks[0], alarms=sinks[1], explain=explain, **more
    ).run()
    assert len(sinks[0].outputs) == len(rows)
    region = {"probabilities", "prediction_set"} if classes else {"interval"}
    assert sinks[0].names == {"prediction", *region, *["reasons"] * explain}
    assert sinks[1].outputs or explain


def test_dead_letters_have_the_fields_that_were_declared(tmp_path: Path) -> None:
    rows: list[Any] = events(classes=True)[:50]
    rows[7] = {"a": float("inf"), "y": "up"}
    rows[9] = {"a" * 200_000: object(), "y": "up"}
    rows[11] = 3
    letters = FramedSink(tmp_path)
    attached(MemorySource(rows), pool_alone(seed=1), label="y", dead_letters=letters).run()
    assert [output.offset for output in letters.outputs] == [7, 9, 11]
    assert ["size" in output.value for output in letters.outputs] == [False, True, False]


def test_a_job_without_details_declares_what_there_always_is(tmp_path: Path) -> None:
    sink = FramedSink(tmp_path)
    attached(
        MemorySource(events(classes=True)[:50]), pool_alone(seed=1), label="y", sink=sink
    ).run()
    assert sink.names == {"prediction", "probabilities"}


def test_long_names_of_columns_are_cut_in_reasons() -> None:
    """A topic takes no record of a mebibyte."""
    name = "a" * (1 << 20)
    model = MultiKernel(seed=1, columns=(name, "b"))
    model.learn_many(np.eye(2)[[0, 1] * 20], [True, False] * 20)
    fields = Fields()
    fields.follow(Schema((name, "b")), (name, "b"))
    (found,) = Details(explain=True).of(model, fields, np.array([[1.0, 0.0]]), [None])
    assert {one["column"] for one in found["reasons"]} == {"a" * 4096, "b"}
