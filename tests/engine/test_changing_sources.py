"""Sources that change: files still being written, partitions that are replaced, and new ones."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, learner, run, same_model
from kafka_kit import Running, Topics, producer
from kafka_kit import topics as topics

from connectors.base import Chunk
from connectors.errors import Unavailable
from connectors.kafka import KafkaSource
from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_sink, open_source
from streamk import load
from streamk.engine import Fixed, Report
from streamk.errors import EngineError, InvalidInput
from streamk.late import LateLabels

EVENTS = [{"a": round(e["a"], 2), "c": e["c"], "y": e["y"]} for e in events(24)]


def _csv(mark: str, quote: str = "") -> str:
    rows = [[f"{quote}{value}{quote}" for value in event.values()] for event in EVENTS]
    return "".join(mark.join(row) + "\n" for row in [["a", "c", "y"], *rows])


LINES = "".join(json.dumps(event) + "\n" for event in EVENTS)
TEXTS: dict[str, tuple[str, str]] = {
    "file:{}/e.ndjson": (LINES, "utf-8"),
    "file:{}/e.ndjson.gz": (LINES, "utf-8"),
    "file:{}/e.json": (json.dumps(EVENTS, indent=1), "utf-8"),
    "csv:{}/e.csv": (_csv(","), "utf-8"),
    "csv:{}/quoted.csv": (_csv(";", '"').replace("x", "x\n"), "utf-8"),
    "csv:{}/wide.csv": (_csv("\t"), "utf-16"),
}


def write(address: str, folder: Path, stop: int | None = None) -> None:
    text, encoding = TEXTS[address]
    path = Path(address.format(folder).partition(":")[2])
    data = text.encode(encoding)[:stop]
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def files_run(address: str, folder: Path, state: str | None = "state", **options: Any) -> Report:
    source, sink = open_source(address.format(folder)), open_sink(f"file:{folder}/out-{state}")
    checkpoint = None if state is None else folder / state
    options = {"label": "y", "checkpoint": checkpoint, "sink": sink, **options}
    return attached(source, learner(), **options).run()


def cuts() -> Iterator[tuple[str, int]]:
    for address, (text, encoding) in TEXTS.items():
        size, last = len(text.encode(encoding)), len(text[-30:].encode(encoding))
        yield from ((address, stop) for stop in range(size - last, size + 1, 3))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("address", "stop"), list(cuts()))
def test_a_run_at_any_byte_and_one_of_the_rest_are_one_run(
    tmp_path: Path, address: str, stop: int
) -> None:
    write(address, tmp_path, stop)
    first = files_run(address, tmp_path)
    assert not first.counts.bad
    write(address, tmp_path)
    found = files_run(address, tmp_path)
    whole = files_run(address, tmp_path, "whole")
    assert (found.counts, found.events) == (whole.counts, 24)
    assert same_model(found.model, whole.model)
    assert (tmp_path / "out-state").read_bytes() == (tmp_path / "out-whole").read_bytes()


def test_a_file_that_will_never_have_its_last_newline_is_read_whole(tmp_path: Path) -> None:
    address = "csv:{}/e.csv"
    write(address, tmp_path)
    whole = files_run(address, tmp_path, "whole")
    write(address, tmp_path, -1)
    for _ in range(3):
        report = files_run(address, tmp_path)
        assert (report.events, report.counts) == (24, whole.counts)
        assert same_model(report.model, whole.model)
        assert (tmp_path / "out-state").read_bytes() == (tmp_path / "out-whole").read_bytes()
        [told] = report.unfinished
        assert told.startswith("e.csv: the line of offset 23 has no end")
    assert not files_run(address, tmp_path, None).unfinished


@pytest.mark.parametrize(
    ("address", "text", "byte"),
    [
        ("file:{}/e.ndjson", '{"a": 1, "y": ', 0),
        ("file:{}/e.ndjson", '{"a": 1, "y": "up"}\n{"a"', 20),
        ("csv:{}/e.csv", "a,c,y\n1,x,up\n2,x", 13),
        ("csv:{}/e.csv", 'a,c,y\n1,x,up\n2,"x,up', 13),
    ],
)
def test_what_is_no_record_yet_is_told_and_no_bad_event(
    tmp_path: Path, address: str, text: str, byte: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(address.format(tmp_path).partition(":")[2])
    path.write_text(text)
    report = files_run(address, tmp_path, on_error="raise")
    assert not report.counts.bad
    [told] = report.unfinished
    assert told.startswith(f"{path}: the record at byte {byte} is incomplete")
    assert told in caplog.text


def test_a_bad_record_at_the_end_is_counted_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("a,c,y\n1,x,up\n2,x,up,z")
    for _ in range(2):
        report = files_run("csv:{}/e.csv", tmp_path)
        assert (report.events, report.counts.bad) == (2, {"undecodable": 1})
    path.write_text("a,c,y\n1,x,up\n2,x,up,z\n3,x,up\n")
    assert files_run("csv:{}/e.csv", tmp_path).events == 3


@pytest.mark.parametrize("between", ["", " ", "\r", ","])
def test_several_objects_on_the_last_line_are_told(
    tmp_path: Path, between: str, caplog: pytest.LogCaptureFixture
) -> None:
    event = '{"a": 1, "y": "up"}'
    (tmp_path / "e.ndjson").write_text(f"{event}\n {between.join([event] * 3)}")
    report = files_run("file:{}/e.ndjson", tmp_path)
    assert (report.events, report.counts.bad) == (2, {"undecodable": 1})
    assert "one line of a file holds one" in caplog.text


def test_a_run_that_fails_has_not_passed_its_events_over(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("a,c,y\n1,x\n2,x\n3,x,up,z")
    for _ in range(2):
        with pytest.raises(InvalidInput, match="none of the 3 events can be learned from"):
            files_run("csv:{}/e.csv", tmp_path)
    path.write_text("a,c,y\n1,x\n2,x\n3,x,up")
    found = files_run("csv:{}/e.csv", tmp_path, "other")  # where the last one is of use
    assert (found.counts.learned, found.counts.bad) == (1, {"undecodable": 2})


def test_a_limit_ends_a_run_before_the_last_record(tmp_path: Path) -> None:
    write("csv:{}/e.csv", tmp_path, -1)
    report = files_run("csv:{}/e.csv", tmp_path, max_events=23)
    assert (report.stopped, report.events, report.unfinished) == ("max_events", 23, ())
    assert files_run("csv:{}/e.csv", tmp_path, max_events=24).events == 24
    write("csv:{}/e.csv", tmp_path)
    assert files_run("csv:{}/e.csv", tmp_path).counts.learned == 24


@pytest.mark.parametrize("which", ["events", "labels"])
@pytest.mark.parametrize("kind", ["file", "csv"])
@pytest.mark.parametrize("missing", range(1, 16, 4))
def test_so_are_events_and_late_labels(tmp_path: Path, which: str, kind: str, missing: int) -> None:
    ids = range(100, 120)
    if kind == "csv":
        texts = {
            "events": "id,x\n" + "".join(f"{i},{i % 2}.25\n" for i in ids),
            "labels": "id,y\n" + "".join(f"{i},c{i % 2}\n" for i in ids),
        }
    else:
        texts = {
            "events": "".join(json.dumps({"id": i, "x": i % 2}) + "\n" for i in ids),
            "labels": "".join(json.dumps({"id": i, "y": f"c{i % 2}"}) + "\n" for i in ids),
        }

    def go() -> Report:
        late = LateLabels(open_source(f"{kind}:{tmp_path}/labels"), key="id")
        source = open_source(f"{kind}:{tmp_path}/events")
        given = {"label": "y", "labels": late, "checkpoint": tmp_path / "state"}
        return attached(source, learner(), **given).run()

    for name, text in texts.items():
        (tmp_path / name).write_text(text[:-missing] if name == which else text)
    go()
    (tmp_path / which).write_text(texts[which])
    report = go()
    assert (report.fates.joined, report.counts.bad, report.events) == (20, {}, 40)


# --- sources that were replaced -------------------------------------------------------------------


class NamedSource(MemorySource):
    """One that has an identifier."""

    def __init__(self, data: Any, name: str | None) -> None:
        super().__init__(data)
        self._name = name

    def identity(self, partition: str, offset: int) -> str | None:
        return self._name

    def recognize(self, partition: str, identity: str) -> str | None:
        return None if self._name in (None, identity) else "is of another source"


def replaced_run(state: Path, name: str | None, count: int = 100, **options: Any) -> Report:
    source = NamedSource(events(count), name)
    options = {"label": "y", "ignore": ("id",), "checkpoint": state, **options}
    return attached(source, learner(), **options).run()


def test_a_replaced_partition_ends_the_run(tmp_path: Path) -> None:
    assert replaced_run(tmp_path, "one").events == 100
    with pytest.raises(EngineError, match="read to offset 100 by the checkpoint, is of another"):
        replaced_run(tmp_path, "two", 300)
    assert replaced_run(tmp_path, "one", 300).counts.learned == 300


@pytest.mark.parametrize(("policy", "learned"), [("earliest", 400), ("latest", 100)])
def test_or_is_read_where_the_policy_says(tmp_path: Path, policy: str, learned: int) -> None:
    replaced_run(tmp_path, "one")
    report = replaced_run(tmp_path, "two", 300, data_loss=policy)
    assert report.counts.learned == learned
    assert replaced_run(tmp_path, "two", 300).counts.learned == learned


@pytest.mark.parametrize(("before", "now"), [(None, "two"), ("one", None), ("one", "one")])
def test_what_cannot_be_told_apart_goes_on(
    tmp_path: Path, before: str | None, now: str | None
) -> None:
    replaced_run(tmp_path, before)
    assert replaced_run(tmp_path, now, 300).counts.learned == 300


def joined(state: Path, names: tuple[str, str], **options: Any) -> Report:
    """Labels that come from a source of their own."""
    stream = NamedSource([{"id": n, "a": n % 7} for n in range(60)], names[0])
    labels = NamedSource([{"id": n, "y": n % 7 > 3} for n in range(60)], names[1])
    late = LateLabels(labels, key="id")
    return attached(stream, learner(), label="y", labels=late, checkpoint=state, **options).run()


def test_of_two_sources_the_one_that_was_replaced_begins_anew(tmp_path: Path) -> None:
    first = joined(tmp_path, ("events", "labels"))
    assert first.fates.joined == 60
    with pytest.raises(EngineError, match="partition labels/0, read to offset 60"):
        joined(tmp_path, ("events", "others"))
    report = joined(tmp_path, ("events", "others"), data_loss="earliest")
    assert (report.fates.joined, report.events) == (60, first.events + 60)


# Files


def lines(path: Path, count: int, *, first: int = 0, seed: int = 0, grow: bool = False) -> None:
    with path.open("a" if grow else "w") as file:
        for event in events(count, first=first, seed=seed):
            file.write(json.dumps(event) + "\n")


def run_file(state: Path, path: Path, query: str = "", **options: Any) -> Report:
    source = open_source(f"file:{path}{query}")
    options = {"label": "y", "ignore": ("id",), "checkpoint": state, **options}
    return attached(source, learner(), **options).run()


def test_a_file_that_was_replaced_ends_the_run_and_tells_what_to_do(tmp_path: Path) -> None:
    path, state = tmp_path / "log", tmp_path / "state"
    lines(path, 100)
    assert run_file(state, path, max_events=60).counts.learned == 60
    path.rename(rotated := tmp_path / "log.1")
    lines(path, 300, seed=1)
    with pytest.raises(EngineError) as caught:
        run_file(state, path)
    said = str(caught.value)
    for word in ("log, read to offset 60", str(path), "present name", "--data-loss earliest"):
        assert word in said
    # As it says: the rotated one is read to its end first, by its name, and then the new one.
    assert run_file(state, rotated).counts.learned == 100
    with pytest.raises(EngineError, match="is of another file"):
        run_file(state, path)
    assert run_file(state, path, data_loss="earliest").counts.learned == 400
    lines(path, 50, first=300, seed=1, grow=True)
    assert run_file(state, path).counts.learned == 450


@pytest.mark.parametrize("saved", [0, 60])
def test_so_does_a_followed_file_that_is_started_again(tmp_path: Path, saved: int) -> None:
    path, state = tmp_path / "log", tmp_path / "state"
    lines(path, 100)
    run_file(state, path, "?follow=true", max_events=saved)
    lines(path, 300, seed=1)
    with pytest.raises(EngineError, match="log begins differently from the file that was read"):
        run_file(state, path, "?follow=true", max_events=200)


@pytest.mark.parametrize("which", ["events", "labels"])
def test_of_late_labels_both_files_are_known_again(tmp_path: Path, which: str) -> None:
    def go(**options: Any) -> Report:
        late = LateLabels(open_source(f"file:{tmp_path}/labels"), key="id")
        source = open_source(f"file:{tmp_path}/events")
        given = {"label": "y", "labels": late, "checkpoint": tmp_path / "state", **options}
        return attached(source, learner(), **given).run()

    for name in ("events", "labels"):
        lines(tmp_path / name, 60)
    first = go()
    assert first.fates.joined == 60
    (tmp_path / which).rename(tmp_path / "other")
    lines(tmp_path / which, 90, seed=1)
    with pytest.raises(EngineError, match=rf"{which}, read to offset 60 .* {tmp_path}/{which} "):
        go()
    (tmp_path / "other").rename(tmp_path / which)
    assert go().events == first.events


def test_a_model_that_predicts_knows_its_requests_again(tmp_path: Path) -> None:
    path, state, places = (tmp_path / name for name in ("requests", "state", "places"))
    lines(path, 100)
    run_file(state, path)
    model = load(state)

    def answer() -> Report:
        return run_file(places, path, schema=model.schema, fixed=Fixed(), label=None, ignore=())

    assert answer().events == 100
    lines(path, 20, first=100, grow=True)
    assert answer().events == 120
    lines(path, 300, seed=1)
    with pytest.raises(EngineError, match="is of another file"):
        answer()


@pytest.mark.parametrize("limit", [7, 1000])
def test_files_of_a_pattern_are_one_stream_through_restarts(tmp_path: Path, limit: int) -> None:
    days, state, whole = tmp_path / "days", tmp_path / "state", tmp_path / "whole"
    days.mkdir()
    count = read = 0
    for day in range(4):
        lines(days / f"day-{day}.ndjson", 10 + day, first=count)
        lines(whole, 10 + day, first=count, grow=True)
        count += 10 + day
        stopped = ""
        while stopped != "end":
            report = run_file(state, days / "*.ndjson", max_events=read + limit)
            read, stopped = report.events, report.stopped
        for old in range(day):  # which were read to their end
            (days / f"day-{old}.ndjson").unlink(missing_ok=True)
    found = run_file(state, days / "*.ndjson")
    expected = run_file(tmp_path / "other", whole)
    assert (found.events, found.counts) == (count, expected.counts)
    assert same_model(found.model, expected.model)
    assert found.learned == {"*.ndjson": [[0, count]]}


# --- new partitions -------------------------------------------------------------------------------

HOUR = 3_600_000


class GrowingSource(MemorySource):
    """Has its first partition alone until so many polls were made; begins at the end if told to."""

    def __init__(self, parts: dict[str, Any], polls: int, *, latest: bool = False, **options: Any):
        super().__init__(parts, **options)
        self._left, self._latest, self._read = polls, latest, dict(self._next)

    def partitions(self) -> tuple[str, ...]:
        return tuple(self._read)[: None if self._left <= 0 else 1]

    def poll(self, max_events: int, timeout: float) -> list[Chunk]:
        self._left -= 1
        return [c for c in super().poll(max_events, timeout) if c.partition in self.partitions()]

    def beginning(self, partition: str) -> int:
        return self.end(partition) if self._latest else 0


def parts(n: int) -> dict[str, Any]:
    return {"a": events(n), "b": events(n, first=n)}


@pytest.mark.parametrize(("until_end", "latest"), [(False, False), (False, True), (True, False)])
def test_one_is_read_from_its_start(until_end: bool, latest: bool) -> None:
    """Wherever the job begins, and wherever the others end."""
    source = GrowingSource(parts(50), 1, latest=latest)
    report = run(source, until_end=until_end)
    assert report.counts.learned == (50 if latest else 100)
    assert report.learned == {"a": [[50 if latest else 0, 50]], "b": [[0, 50]]}


def test_none_is_read_that_was_there_before_the_job_began_at_the_end() -> None:
    assert run(GrowingSource(parts(50), 0, latest=True)).counts.learned == 0


@pytest.mark.parametrize("finished", [False, True])
def test_one_that_came_between_two_runs_is_read_from_its_start(
    tmp_path: Path, finished: bool
) -> None:
    limit = {"until_end": True} if finished else {"max_events": 30}
    assert run(GrowingSource(parts(50), 99), checkpoint=tmp_path, **limit).counts.learned in (
        30,
        50,
    )
    source = GrowingSource(parts(50), 0, latest=True)
    report = run(source, checkpoint=tmp_path, until_end=finished)
    assert report.counts.learned == 100
    again = run(GrowingSource(parts(50), 0, latest=True), checkpoint=tmp_path)
    assert (again.counts.learned, again.events_now) == (100, 0)


def test_after_a_finished_run_both_are_merged_by_time(tmp_path: Path) -> None:
    """Nothing was taken after its checkpoint, so that new events are as those of a first run."""
    first = {"a": events(10), "b": []}
    run(GrowingSource(first, 99), checkpoint=tmp_path, until_end=True)
    later = {"a": events(20), "b": events(20, first=100)}
    times = {"a": range(20), "b": range(20)}
    sink = MemorySink()
    run(GrowingSource(later, 0, timestamps=times), checkpoint=tmp_path, until_end=True, sink=sink)
    seen = [output.partition for output in sink.outputs]
    assert seen != sorted(seen)


def test_labels_get_partitions_too() -> None:
    clicks = events(60)
    labels = GrowingSource(
        {
            "a": [{"id": one["id"], "y": one["y"]} for one in clicks[:30]],
            "b": [{"id": one["id"], "y": one["y"]} for one in clicks[30:]],
        },
        1,
    )
    plain = MemorySource([{name: one[name] for name in ("a", "b", "id")} for one in clicks])
    report = run(plain, ignore=(), labels=LateLabels(labels, key="id"))
    assert report.fates.joined == 60


def test_the_first_event_of_all_is_in_no_other_time(caplog: pytest.LogCaptureFixture) -> None:
    times = {"a": [], "b": range(9 * HOUR, 9 * HOUR + 20)}
    with caplog.at_level(logging.WARNING):
        report = run(GrowingSource({"a": [], "b": events(20)}, 1, timestamps=times))
    assert report.counts.learned == 20
    assert not report.skewed
    assert not caplog.records


class SilentSource(MemorySource):
    """Lacks events in one of two partitions; nobody tells where they end, for so many questions."""

    def __init__(self, unanswered: int) -> None:
        super().__init__({"a": events(20), "b": []}, live=True)
        self.unanswered = unanswered

    def end(self, partition: str) -> int:
        self.unanswered -= 1
        if self.unanswered >= 0:
            raise Unavailable("no broker answers")
        return super().end(partition)


def test_a_source_that_does_not_answer_is_waited_for() -> None:
    source = SilentSource(5)
    report = run(source, idle_timeout=0.01, max_events=20)
    assert report.counts.learned == 20
    assert source.unanswered < 0


# --- topics ---------------------------------------------------------------------------------------


def send(address: str, topic: str, partition: int, numbers: range) -> None:
    with producer(address) as out:
        for n in numbers:
            event = {"x": n % 2, "id": n, "y": n % 2}
            out.send(topic, json.dumps(event).encode(), partition=partition)
        out.flush()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("kafka_client")
@pytest.mark.parametrize(
    ("start", "group"),
    [
        ("earliest", False),
        ("latest", True),
        pytest.param("earliest", True, marks=pytest.mark.nightly),
        pytest.param("latest", False, marks=pytest.mark.nightly),
    ],
)
def test_a_topic_gets_partitions(
    kafka_address: str,
    kafka_topic: Callable[..., str],
    topics: Topics,
    start: str,
    group: bool,
    tmp_path: Path,
) -> None:
    """While it is read, and while it is not."""
    topic = kafka_topic(1)
    send(kafka_address, topic, 0, range(30))
    before = 30 if start == "earliest" else 0

    def source() -> KafkaSource:
        name = f"g-{topic}" if group else None
        return KafkaSource((kafka_address,), topic, start=start, group=name)

    run = Running(source(), checkpoint=tmp_path)
    run.until(lambda: run.lag is not None and run.events == before)
    topics.grow(topic, 2)
    send(kafka_address, topic, 1, range(40))
    send(kafka_address, topic, 0, range(30, 40))
    run.until(lambda: run.events >= before + 50)
    assert run.end().counts.learned == before + 50

    topics.grow(topic, 3)
    send(kafka_address, topic, 2, range(20))
    again = Running(source(), checkpoint=tmp_path)
    again.until(lambda: again.events >= before + 70)
    assert again.end().counts.learned == before + 70
