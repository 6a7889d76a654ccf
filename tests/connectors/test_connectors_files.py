"""Files and standard streams: positions, following, seeking, and cutting sinks back."""

from __future__ import annotations

import bz2
import contextlib
import csv
import errno
import gzip
import io
import json
import lzma
import os
import random
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import files_kit
import numpy as np
import pytest
from files_kit import drain, offsets, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors import (
    BadRecord,
    BadURL,
    Chunk,
    ConnectorError,
    OffsetOutOfRange,
    Output,
    Sink,
    Source,
    Unavailable,
    registry,
)
from connectors.base import MAX_EVENT_BYTES
from connectors.cells import read_csv_cells
from connectors.files import FileSource
from connectors.files.records import Splitter, TextForm
from connectors.stdio import StdinSource, StdoutSink

OPENED: list[Source | Sink] = []


@pytest.fixture(autouse=True)
def _close_what_was_opened() -> Iterator[None]:
    yield
    while OPENED:
        with contextlib.suppress(ConnectorError):
            OPENED.pop().close()


def open_source(url: str, **options: Any) -> Source:
    OPENED.append(source := registry.open_source(url, **options))
    return source


def open_sink(url: str) -> Sink:
    OPENED.append(sink := registry.open_sink(url))
    return sink


def test_ndjson_is_read_by_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": 2}\n{"a": 3}')
    source = open_source(f"file:{path}")
    assert isinstance(source, Source)
    assert source.partitions() == ("events.ndjson",)
    assert (source.end("events.ndjson"), source.lag()) == (None, None)
    chunks = drain(source, 7)
    assert values(chunks) == [b'{"a": 1}', b'{"a": 2}', b'{"a": 3}']
    assert offsets(chunks) == [0, 1, 2]
    assert chunks[0].timestamps.tolist() == [0, 1, 2]
    assert (source.end("events.ndjson"), source.lag(), source.start("")) == (3, 0, 0)
    assert source.poll(5, 0.0) == []
    source.commit({"events.ndjson": 3}, {"events.ndjson": "kept elsewhere"})
    assert source.committed("events.ndjson") is None
    source.close()
    source.close()


@pytest.mark.parametrize("scheme", ["file", "csv", "parquet"])
def test_seeking_gives_the_same_events_as_reading(tmp_path: Path, scheme: str) -> None:
    path = write_events(tmp_path / f"events.{scheme}", 10_000)
    [name] = open_source(f"{scheme}:{path}").partitions()
    everything = values(drain(open_source(f"{scheme}:{path}"), 1000))
    assert len(everything) == 10_000
    used = open_source(f"{scheme}:{path}")
    drain(used, 3000)
    for position in (0, 1, 4095, 4096, 4097, 9999, 10_000, 5, 8192):
        for source in (used, open_source(f"{scheme}:{path}")):
            source.seek(name, position)
            assert source.finished() == (position == 10_000)
            chunks = source.poll(3, 0.0)
            assert values(chunks) == everything[position : position + 3]
            assert offsets(chunks) == list(range(position, min(position + 3, 10_000)))
    for position in (10_001, -1):
        with pytest.raises(OffsetOutOfRange) as caught:
            used.seek(name, position)
        assert (caught.value.partition, caught.value.offset) == (name, position)


def write_events(path: Path, n: int) -> Path:
    events = [{"i": i, "text": f"line\n{i}" if i % 3 else "plain"} for i in range(n)]
    return write(path, events, rows=3000)


def test_csv_records_with_quotes_newlines_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(
        b'\xef\xbb\xbfa,"the ""b"""\r\n1,"x, y"\r\n\r\n2,"two\r\nlines"\n3,"a ""quoted"" one\n"\n'
        b'4,5" nail\n"5"broken,x\n6,"never closed\n7,x\n'
    )
    source = open_source(f"csv:{path}")
    assert isinstance(source, FileSource)
    assert source.fields == ("a", 'the "b"')
    assert values(drain(source, 2)) == [
        b'1,"x, y"',
        b'2,"two\r\nlines"',
        b'3,"a ""quoted"" one\n"',
        b'4,5" nail',
        b'"5"broken,x',
    ]
    [unfinished] = source.unfinished()
    assert f"{path}: the record at byte 89 is incomplete (a quoted cell" in unfinished


def test_bad_headers_and_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "twice.csv").write_text("a,b,a\n")
    (tmp_path / "not.parquet").write_text("no")
    with pytest.raises(BadRecord, match="is empty"):
        open_source(f"csv:{tmp_path}/empty.csv")
    with pytest.raises(BadRecord, match=r"not a Parquet file"):
        open_source(f"parquet:{tmp_path}/not.parquet")
    with pytest.raises(Unavailable, match=r"did you mean 'twice\.csv'"):
        open_source(f"csv:{tmp_path}/twicee.csv")
    with pytest.raises(Unavailable, match="is a directory"):
        open_source(f"file:{tmp_path}")
    with pytest.raises(BadURL, match=r"for a csv file write csv:"):
        open_source(f"file:{tmp_path}/twice.csv")
    with pytest.raises(Unavailable, match="no directory"):
        open_sink(f"file:{tmp_path}/none/out.ndjson")


def test_following_waits_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    path.write_bytes(b"1\n2\n3")
    source = open_source(f"file:{path}?follow=true")
    assert values(source.poll(10, 0.0)) == [b"1", b"2"]
    assert source.poll(10, 0.0) == []
    assert not source.finished()
    with path.open("ab") as file:
        file.write(b"3\n4\n")
    chunks = source.poll(10, 0.0)
    assert (values(chunks), offsets(chunks)) == ([b"33", b"4"], [2, 3])
    source.seek("log.ndjson", 1)
    assert values(source.poll(1, 0.0)) == [b"2"]
    source.seek("log.ndjson", 4)
    with pytest.raises(OffsetOutOfRange, match="holds 4 events, there is no offset 5"):
        source.seek("log.ndjson", 5)


def test_following_wakes_when_something_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b'a,b\n1,"open')
    source = open_source(f"csv:{path}", follow=True)
    assert source.poll(10, 0.0) == []

    def write() -> None:
        with path.open("ab") as file:
            file.write(b' and closed"\n')

    writer = threading.Timer(0.1, write)
    writer.start()
    chunks: list[Chunk] = []
    while not chunks:
        chunks = source.poll(10, 1.0)
    writer.join()
    assert values(chunks) == [b'1,"open and closed"']


@pytest.mark.parametrize(
    ("how", "text", "expected"),
    [
        ("truncated", b"9\n", "became shorter"),
        ("replaced", b"9\n", "was replaced"),
        ("rewritten", b"9\n8\n7\n6\n", "was rewritten"),
        ("of the same size", b"9\n8\n7\n", "was rewritten"),
    ],
)
def test_a_followed_file_that_is_rotated_says_so(
    tmp_path: Path, how: str, text: bytes, expected: str
) -> None:
    path = tmp_path / "log.ndjson"
    path.write_bytes(b"1\n2\n3\n")
    source = open_source(f"file:{path}", follow=True)
    assert len(values(source.poll(2, 0.0))) == 2
    if how == "replaced":
        path.rename(tmp_path / "log.1")
    path.write_bytes(text)
    assert values(source.poll(10, 0.0)) == [b"3"]
    with pytest.raises(OffsetOutOfRange, match=f"{expected}.* after 3 events") as caught:
        source.poll(10, 0.0)
    assert caught.value.offset == 3
    source.seek("log.ndjson", 0)
    assert values(source.poll(10, 0.0)) == text.splitlines()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_so_does_one_that_is_written_anew_while_its_end_is_waited_for(
    tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "log.csv"
    path.write_text("n,y\n1,a\n2,", encoding=encoding)
    source = open_source(f"csv:{path}", follow=True)
    assert values(source.poll(10, 0.0)) == [b"1,a"]
    assert source.poll(10, 0.0) == []
    path.write_text("n,y\n3,b\n4,b\n5,b\n", encoding=encoding)
    with pytest.raises(OffsetOutOfRange, match="was rewritten after 1 events"):
        source.poll(10, 0.0)


def test_a_long_line_is_kept_only_so_far_as_to_be_recognised(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_bytes(b"a\n" + b"x" * (3 * MAX_EVENT_BYTES) + b"\nb\n")
    source = open_source(f"file:{path}")
    assert values(drain(source, 7)) == [b"a", b"x" * (MAX_EVENT_BYTES + 1), b"b"]
    source.seek("events.ndjson", 2)
    assert values(source.poll(1, 0.0)) == [b"b"]


LONG = st.builds(lambda text, n: text * n, st.text('a,"\n', max_size=6), st.integers(0, 12))


@settings(deadline=None)
@given(
    st.lists(st.lists(LONG, min_size=2, max_size=2), min_size=1, max_size=6),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from([1, 7, 30, 10_000]),
    st.sampled_from([20, 1000]),
)
def test_a_record_of_any_length_is_one_record(
    rows: list[list[str]], quoting: int, block: int, most: int
) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows([["a", "b"], *rows])
    data = text.getvalue().encode()
    splitter = Splitter(quoted=True, max_event_bytes=most)
    records: list[tuple[bytes, int]] = []
    for at in range(0, len(data), block):
        records += splitter.feed(data[at : at + block])
    assert splitter.finish() == []
    starts = [0, *[end for _, end in records]]
    assert starts[-1] == len(data)
    assert len(records) == len(rows) + 1
    for (record, end), start, row in zip(records[1:], starts[1:], rows, strict=False):
        whole = data[start : end - 1]
        assert next(csv.reader([whole.decode()])) == row
        assert record == whole if len(whole) <= most else record[:most] == whole[:most]
        assert (len(record) > most) == (len(whole) > most)


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_a_stray_quote_costs_no_more_than_a_bound(block: int) -> None:
    data = b'a,b\n1,"stray\n' + b"2,x\n" * 500
    splitter = Splitter(quoted=True, max_event_bytes=20)
    records = [
        record
        for at in range(0, len(data), block)
        for record, _ in splitter.feed(data[at : at + block])
    ]
    assert records[0] == b"a,b"
    assert records[1].startswith(b'1,"stray')
    assert len(records[1]) > 20  # so that it is counted as oversized
    assert records[2:] == [b"2,x"] * len(records[2:])
    assert len(records) > 500 - 16 * 20 / 4


@pytest.mark.parametrize("size", [131_073, MAX_EVENT_BYTES - 20])
@pytest.mark.parametrize(("inner", "place"), [("x", 0), ("x\n", 1), ('x"",', 0), ("x\r\n", 1)])
def test_a_quoted_cell_is_as_long_as_an_event_may_be(
    tmp_path: Path, size: int, inner: str, place: int
) -> None:
    cell = '"' + inner * (size // len(inner)) + '"'
    records = [f"{i},{cell}" if place else f"{cell},{i}" for i in range(3)]
    path = tmp_path / "events.csv"
    path.write_bytes("\n".join(["a,b", *records, ""]).encode())
    with path.open("rb") as stream:
        for source in (open_source(f"csv:{path}"), StdinSource(stream, TextForm("csv"))):
            found = values(drain(source, 7))
            assert found == [record.encode() for record in records]
            for i, record in enumerate(found):
                cells = read_csv_cells(record)
                assert cells[1 - place] == str(i)
                assert cells[place] == cell[1:-1].replace('""', '"')


KAFKA = "kafka://localhost:1/t?encoding=csv&fields=x.z,y,x.z"


@pytest.mark.parametrize(
    "address",
    ["csv:{}/a.csv", "csv:{}/a.tsv", "parquet:{}/flat", "parquet:{}/nested", "stdin", KAFKA],
)
def test_a_column_named_twice_is_refused(tmp_path: Path, address: str) -> None:
    for name, mark in (("a.csv", ";"), ("a.tsv", "\t")):
        (tmp_path / name).write_text(mark.join(["x.z", "y", "x.z"]) + "\n")
    if address.startswith("parquet"):
        arrow, parquet = files_kit.arrow()
        flat = arrow.table([[1], [2], [3]], names=["x.z", "y", "x.z"])
        inner = arrow.array([{"z": 1}], arrow.struct([("z", arrow.int64())]))
        nested = arrow.table([[1], inner], names=["x.z", "x"])
        parquet.write_table(flat, tmp_path / "flat")
        parquet.write_table(nested, tmp_path / "nested")
    twice = pytest.raises(
        BadRecord, match=r"names 'x\.z' twice; give each column a name of its own"
    )
    if address == "stdin":
        with (tmp_path / "a.csv").open("rb") as stream, twice:
            StdinSource(stream, TextForm("csv"))
    else:
        with twice:
            open_source(address.format(tmp_path))


# Compressed files


def _zstandard(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard", reason="needs zstandard")
    return bytes(zstandard.ZstdCompressor().compress(data))


COMPRESSED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": _zstandard}


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("parts", [1, 2])
def test_compressed_files_are_read_like_others(tmp_path: Path, suffix: str, parts: int) -> None:
    lines = [b'{"n": %d}' % n for n in range(9000)]
    data = b"\n".join(lines) + b"\n"
    half = len(data) // parts
    # What is appended to a compressed file is another member or frame.
    path = tmp_path / f"events.json.{suffix}"
    path.write_bytes(
        b"".join(COMPRESSED[suffix](data[at : at + half]) for at in range(0, len(data), half))
    )
    source = open_source(f"file:{path}")
    assert values(drain(source, 7)) == lines
    for offset in (8999, 4097, 0):
        source.seek(path.name, offset)
        assert values(source.poll(1, 0.0)) == [lines[offset]]
    source.close()
    later = open_source(f"file:{path}")
    later.seek(path.name, 5000)
    assert values(later.poll(1, 0.0)) == [lines[5000]]


@pytest.mark.parametrize("suffix", COMPRESSED)
@pytest.mark.parametrize("damage", [b"", b"no more of it" * 1000])
def test_a_compressed_file_that_is_cut_or_damaged_is_an_error(
    tmp_path: Path, suffix: str, damage: bytes
) -> None:
    data = random.Random(1).randbytes(50_000).hex().encode()
    whole = COMPRESSED[suffix](b"1\n" + data)
    path = tmp_path / f"events.{suffix}"
    path.write_bytes(whole[: len(whole) // 2] + damage)
    for scheme in ("file", "csv"):
        with pytest.raises(
            ConnectorError, match=rf"{path} cannot be read any further .* damaged or inc"
        ):
            drain(open_source(f"{scheme}:{path}"))


def test_what_cannot_be_done_with_a_compressed_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "events.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n"))
    with pytest.raises(BadURL, match="compressed and cannot be followed"):
        open_source(f"csv:{path}?follow=true")
    with pytest.raises(BadURL, match="for a csv file write csv:"):
        open_source(f"file:{path}")


def test_the_parquet_files_of_a_directory_are_one_partition(tmp_path: Path) -> None:
    year = tmp_path / "year"
    with pytest.raises(Unavailable, match="no file"):
        open_source(f"parquet:{year}")
    (year / "month=02").mkdir(parents=True)
    with pytest.raises(Unavailable, match=r"no file matches .*\*\.parquet"):
        open_source(f"parquet:{year}")
    (year / "_SUCCESS").touch()
    for name in ("a.parquet", "month=02/a.parquet", "z.parquet"):
        write_events(year / name, 10)
    rows = values(drain(open_source(f"parquet:{year}/a.parquet")))
    source = open_source(f"parquet:{year}/")
    assert (source.partitions(), source.end("year")) == (("year",), 30)
    whole = drain(source, 3)
    assert (values(whole), offsets(whole)) == (rows * 3, list(range(30)))
    source.seek("year", 3)
    source.poll(2, 0.0)
    (year / "month=02" / "a.parquet").unlink()
    with pytest.raises(Unavailable, match="no file"):
        drain(source, 7)
    (year / "z.parquet").write_text("no")
    with pytest.raises(BadRecord, match=r"z\.parquet is not a Parquet file"):
        open_source(f"parquet:{year}")


def test_parquet_times_finer_than_pythons_are_read(tmp_path: Path) -> None:
    arrow, parquet = files_kit.arrow()
    times = arrow.array([1_700_000_000_123_456_789, None], arrow.timestamp("ns", "UTC"))
    spans = arrow.array([1_500_000_123, None], arrow.duration("ns"))
    columns = {"t": times, "span": spans, "y": [1, 2]}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    first, second = values(drain(open_source(f"parquet:{tmp_path}/t.parquet")))
    assert first["t"].isoformat() == "2023-11-14T22:13:20.123456+00:00"
    assert (type(first["span"]), first["span"]) == (timedelta, timedelta(seconds=1.5))
    assert second == {"t": None, "span": None, "y": 2}


def test_parquet_times_past_pythons_years_cost_nobody_elses_row(tmp_path: Path) -> None:
    arrow, parquet = files_kit.arrow()
    far, end = 10**12, 253_402_300_799  # 9999-12-31T23:59:59Z, which Tokyo calls the year 10000
    seconds = arrow.timestamp("s")
    columns = {
        "t": arrow.array([end, far, 0], arrow.timestamp("s", "Asia/Tokyo")),
        "day": arrow.array([2**30, 0, 1], arrow.date32()),
        "many": arrow.array([[0], [far, 0], []], arrow.list_(seconds)),
        "in": arrow.array([None, {"t": 0}, {"t": far}], arrow.struct([("t", seconds)])),
        "y": [1, 2, 3],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    first, second, third = values(drain(open_source(f"parquet:{tmp_path}/t.parquet")))
    assert first["t"] == np.datetime64("9999-12-31T23:59:59")
    assert first["day"] == np.datetime64(2**30, "D")
    assert (first["many"], first["in"]) == ([datetime(1970, 1, 1)], None)
    assert second["t"] == np.datetime64(far, "s")
    assert second["many"] == [np.datetime64(far, "s"), datetime(1970, 1, 1)]
    assert second["in"] == {"t": datetime(1970, 1, 1)}
    assert third["t"].isoformat() == "1970-01-01T09:00:00+09:00"
    assert third["in"] == {"t": np.datetime64(far, "s")}
    assert [row["y"] for row in (first, second, third)] == [1, 2, 3]


# Sinks


def outputs(start: int, stop: int) -> list[Output]:
    return [
        Output("p", i, 1000 + i, b"k\xff" if i % 2 else None, {"label": f"c{i}", "p": [0.5, i]})
        for i in range(start, stop)
    ]


def read_back(scheme: str, path: Path) -> list[dict[str, Any]]:
    if scheme == "file":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if scheme == "csv":
        with path.open() as file:
            return list(csv.DictReader(file))
    parts = sorted(path.iterdir())
    return values([c for part in parts for c in drain(open_source(f"parquet:{part}"))])


@pytest.mark.parametrize("scheme", ["file", "csv", "parquet"])
def test_a_sink_can_be_cut_back_to_a_mark(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "out"
    sink = open_sink(f"{scheme}:{path}")
    assert isinstance(sink, Sink)
    empty = sink.mark()
    sink.write(outputs(0, 3))
    mark = json.loads(json.dumps(sink.mark()))
    before = read_back(scheme, path)
    assert [int(record["offset"]) for record in before] == [0, 1, 2]
    assert before[1]["key"] == "k\\xff"
    sink.write(outputs(3, 5))
    sink.flush()
    assert len(read_back(scheme, path)) == 5
    # The process ends; the next one goes back to its checkpoint.
    sink.close()
    again = open_sink(f"{scheme}:{path}")
    again.rewind(mark)
    assert read_back(scheme, path) == before
    again.write(outputs(3, 4))
    again.close()
    again.close()
    assert [int(record["offset"]) for record in read_back(scheme, path)] == [0, 1, 2, 3]
    last = open_sink(f"{scheme}:{path}")
    last.rewind(None)
    last.rewind(empty)
    assert read_back(scheme, path) == []
    with pytest.raises(ConnectorError, match="were lost"):
        last.rewind(mark)


@pytest.mark.parametrize("scheme", ["file", "csv"])
def test_two_sinks_do_not_write_one_file(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "out"
    sink = open_sink(f"{scheme}:{path}")
    with pytest.raises(Unavailable, match="is being written by another sink or process"):
        open_sink(f"{scheme}:{path}")
    sink.close()
    open_sink(f"{scheme}:{path}").close()


@pytest.mark.parametrize("mark", [-1, "5", 1.5, True])
def test_a_strange_mark_is_refused(tmp_path: Path, mark: object) -> None:
    with pytest.raises(ConnectorError, match="is not the mark"):
        open_sink(f"file:{tmp_path}/out").rewind(mark)


@pytest.mark.parametrize("scheme", ["file", "csv", "parquet"])
def test_a_full_disk_is_told_with_the_file(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = open_sink(f"{scheme}:{tmp_path}/out")

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sink.write(outputs(0, 1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ConnectorError, match=r"cannot write .*out.*: No space left"):
            sink.flush()


@pytest.mark.parametrize("scheme", ["file", "csv"])
def test_what_is_written_can_be_read_at_once(tmp_path: Path, scheme: str) -> None:
    sink = open_sink(f"{scheme}:{tmp_path}/out")
    for n in range(3):
        sink.write(outputs(n, n + 1))
        assert len(read_back(scheme, tmp_path / "out")) == n + 1


def test_an_unfinished_line_is_never_continued(tmp_path: Path) -> None:
    for scheme in ("file", "csv"):
        path = tmp_path / scheme
        path.write_text('{"cut')
        sink = open_sink(f"{scheme}:{path}")
        with pytest.raises(ConnectorError, match="unfinished line"):
            sink.write(outputs(0, 1))
        sink.rewind(0)
        sink.write(outputs(0, 1))
        sink.close()
        assert len(read_back(scheme, path)) == 1


def test_outputs_that_do_not_fit_are_named(tmp_path: Path) -> None:
    sink = open_sink(f"csv:{tmp_path}/out.csv")
    with pytest.raises(BadRecord, match=r"p offset 7 and the header of .* differ in extra"):
        sink.write(
            [Output("p", 6, 0, None, {"a": 1}), Output("p", 7, 0, None, {"a": 1, "extra": 2})]
        )
    sink.write([Output("p", 6, 0, None, {"a": 1})])
    sink.close()
    text = (tmp_path / "out.csv").read_text()
    assert text == "partition,offset,timestamp,key,a\np,6,0,,1\n"
    with pytest.raises(BadRecord, match="p offset 3 is not JSON"):
        open_sink(f"file:{tmp_path}/out").write([Output("p", 3, 0, None, {"a": object()})])
    mixed = open_sink(f"parquet:{tmp_path}/parts")
    mixed.write([Output("p", 0, 0, None, {"a": 1}), Output("p", 1, 0, None, {"a": "x"})])
    with pytest.raises(BadRecord, match="mixed types"):
        mixed.flush()


# Standard streams


def test_stdin_counts_its_lines_and_cannot_go_back() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stream, os.fdopen(write_end, "wb", 0) as pipe:
        source = StdinSource(stream)
        assert isinstance(source, Source)
        assert source.poll(5, 0.0) == []
        pipe.write(b"1\n2\n3\npart")
        chunks = source.poll(2, 1.0)
        assert (values(chunks), offsets(chunks)) == ([b"1", b"2"], [0, 1])
        source.seek("stdin", 2)
        with pytest.raises(OffsetOutOfRange, match="cannot continue from a checkpoint"):
            source.seek("stdin", 0)
        assert (source.start("stdin"), source.end("stdin"), source.committed("stdin")) == (
            2,
            None,
            None,
        )
        assert values(source.poll(5, 1.0)) == [b"3"]
        pipe.close()
        assert values(source.poll(5, 1.0)) == [b"part"]
        assert source.finished()
        assert source.end("stdin") == 4


def test_stdin_reads_csv_too() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as stream:
        with os.fdopen(write_end, "wb") as pipe:
            pipe.write(b'a,b\n1,"x\ny"\n')
        source = StdinSource(stream, TextForm("csv"))
        assert source.fields == ("a", "b")
        assert values(drain(source, 7)) == [b'1,"x\ny"']
    read_end, write_end = os.pipe()
    os.close(write_end)
    with os.fdopen(read_end, "rb") as stream, pytest.raises(BadRecord, match="input is empty"):
        StdinSource(stream, TextForm("csv"))


def test_stdout_writes_lines_and_says_when_nobody_reads() -> None:
    stream = io.BytesIO()
    sink = StdoutSink(stream)
    assert isinstance(sink, Sink)
    sink.write([Output("p", 4, 9, None, {"label": True})])
    assert sink.mark() is None
    sink.rewind(None)
    sink.close()
    assert stream.getvalue() == b'{"partition":"p","offset":4,"timestamp":9,"label":true}\n'
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reader, os.fdopen(write_end, "wb") as buffered:
        sink = StdoutSink(buffered)
        for n in range(3):  # each line is handed over at once
            sink.write(outputs(n, n + 1))
            assert json.loads(reader.readline())["offset"] == n
    read_end, write_end = os.pipe()
    os.close(read_end)
    with (
        os.fdopen(write_end, "wb", 0) as pipe,
        pytest.raises(Unavailable, match="reader of standard output has gone"),
    ):
        StdoutSink(pipe).write(outputs(0, 1))
    with pytest.raises(BadURL, match="nothing may follow stdout:"):
        open_sink("stdout:file")
    with pytest.raises(BadURL, match="encoding must be json or csv"):
        open_source("stdin:?encoding=xml")
