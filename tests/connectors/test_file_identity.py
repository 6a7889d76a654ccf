"""A position in a file is trusted only with what it points at."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import files_kit
import pytest
from files_kit import drain, values
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import Source
from connectors.files.reader import KNOWN_BY, TextReader
from connectors.files.records import Record, RecordCutter
from connectors.files.text import TextFile
from connectors.registry import open_source

Write = Callable[[Path, list[dict[str, Any]]], None]
URLS = {
    "lines": "file:{}/events.ndjson",
    "array": "file:{}/events.json",
    "csv": "csv:{}/events.csv",
    "gzip": "file:{}/events.ndjson.gz",
    "utf-16": "csv:{}/events.csv?encoding=utf-16",
    "wide lines": "file:{}/wide.ndjson",
    "parquet": "parquet:{}/events.parquet",
}


def rows(n: int, name: str = "x") -> list[dict[str, Any]]:
    return [{"i": i, "text": f"{name * 8}{i % 7}"} for i in range(n)]


def write(form: str, folder: Path, events: list[dict[str, Any]]) -> Path:
    path = Path(URLS[form].format(folder).partition(":")[2].partition("?")[0])
    encoding = "utf-16" if form in ("utf-16", "wide lines") else "utf-8"
    return files_kit.write(path, events, encoding=encoding)


def opened(form: str, folder: Path) -> Any:
    return closing(open_source(URLS[form].format(folder)))


def polled(source: Source) -> list[Any]:
    return values(drain(source))


def identity_at(form: str, folder: Path, offset: int) -> str:
    """Return that of a source which has read ahead."""
    with opened(form, folder) as source:
        while source._position < min(2 * offset, offset + 5000) and not source.finished():
            source.poll(500, 0.0)
        [name] = source.partitions()
        found = source.identity(name, offset)
        assert found is not None
        return found


def recognized(form: str, folder: Path, identity: str, offset: int) -> tuple[str | None, list[Any]]:
    """Return what is told of the file that there is, and what is read from the position on."""
    with opened(form, folder) as source:
        [name] = source.partitions()
        told = source.recognize(name, identity)
        if told is not None:
            return told, []
        source.seek(name, offset)
        return None, polled(source)


@pytest.mark.parametrize("form", URLS)
@pytest.mark.parametrize("offset", [1, 100, 4999, 9000])
def test_a_file_is_the_same_wherever_it_lies(tmp_path: Path, form: str, offset: int) -> None:
    path = write(form, tmp_path, rows(9000))
    identity = identity_at(form, tmp_path, offset)
    with opened(form, tmp_path) as source:
        expected = polled(source)[offset:]
    assert recognized(form, tmp_path, identity, offset) == (None, expected)
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    path.unlink()
    copy.rename(path)  # another inode
    assert recognized(form, tmp_path, identity, offset) == (None, expected)


@pytest.mark.parametrize("form", [form for form in URLS if form != "parquet"])
def test_a_file_that_grew_is_the_same(tmp_path: Path, form: str) -> None:
    write(form, tmp_path, rows(5000))
    identity = identity_at(form, tmp_path, 5000)
    write(form, tmp_path, rows(5002))
    told, found = recognized(form, tmp_path, identity, 5000)
    assert (told, len(found)) == (None, 2)


OTHERS = {
    "all": (rows(9000, "z"), "begins differently from"),
    "beginning": (rows(10, "z") + rows(9000)[10:], "begins differently from"),
    # As many bytes, and the same first 64 KiB.
    "end": (rows(5900) + rows(9000, "z")[5900:], "differs before byte"),
    "short": (rows(2000), "is shorter than the"),
    "none": (rows(1), "is shorter than the"),
}


@pytest.mark.parametrize("form", URLS)
@pytest.mark.parametrize("other", OTHERS)
def test_another_file_is_told_with_name_and_difference(
    tmp_path: Path, form: str, other: str
) -> None:
    path = write(form, tmp_path, rows(9000))
    identity = identity_at(form, tmp_path, 6000)
    events, words = OTHERS[other]
    write(form, tmp_path, events)
    told, _ = recognized(form, tmp_path, identity, 6000)
    assert told is not None
    words = "is another file than" if form == "parquet" else words
    assert told.startswith(f"is of another file: {path} {words}")
    assert "its present name, with the same checkpoint" in told


@pytest.mark.parametrize("form", ["lines", "csv", "gzip", "array"])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_any_byte_before_the_position_counts_and_none_behind_it(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("files")
    path = write(form, folder, rows(200))
    offset = data.draw(st.integers(1, 199))
    identity = identity_at(form, folder, offset)
    unpack = gzip.decompress if form == "gzip" else bytes
    text = bytearray(unpack(path.read_bytes()))
    at = json.loads(identity)["known"][0]
    place = data.draw(
        st.sampled_from([0, at - 1, at, len(text) - 1]) | st.integers(0, len(text) - 1)
    )
    was = text[place]
    text[place] = data.draw(st.sampled_from(b"7x").filter(lambda new: new != was))
    path.write_bytes(gzip.compress(text) if form == "gzip" else bytes(text))
    with opened(form, folder) as source:
        told = source.recognize(path.name, identity)
    assert (told is not None) == (place < at)


@pytest.mark.parametrize("form", URLS)
def test_what_nothing_was_read_of_is_known_by_its_beginning(tmp_path: Path, form: str) -> None:
    write(form, tmp_path, rows(50))
    identity = identity_at(form, tmp_path, 0)
    assert recognized(form, tmp_path, identity, 0)[0] is None
    write(form, tmp_path, rows(50, "z"))
    assert recognized(form, tmp_path, identity, 0)[0] is not None


def test_a_compressed_file_is_known_as_what_is_in_it(tmp_path: Path) -> None:
    path = write("lines", tmp_path, rows(9000))
    identity = identity_at("lines", tmp_path, 7000)
    write("gzip", tmp_path, rows(9000))
    path.unlink()
    told, found = recognized("gzip", tmp_path, identity, 7000)
    assert (told, len(found)) == (None, 2000)


def test_what_has_the_name_meanwhile_is_not_asked(tmp_path: Path) -> None:
    path = write("lines", tmp_path, rows(9000))
    with opened("lines", tmp_path) as source:
        source.poll(100, 0.0)
        path.rename(tmp_path / "rotated")
        write("lines", tmp_path, rows(9000, "z"))
        source.poll(1000, 0.0)
        identity = source.identity(path.name, 50)
    assert recognized("lines", tmp_path, identity, 50)[0] is not None
    (tmp_path / "rotated").rename(path)
    assert recognized("lines", tmp_path, identity, 50)[0] is None


@pytest.mark.parametrize("form", ["lines", "csv", "gzip"])
def test_nothing_before_the_position_is_cut_again(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(form, tmp_path, rows(90_000))
    path = path if form != "gzip" else write("lines", tmp_path, rows(90_000))
    identity = identity_at(form, tmp_path, 88_000)
    at = json.loads(identity)["known"][0]
    assert at > 2 * (1 << 18)
    fed: list[int] = []
    whole = RecordCutter.feed

    def feed(self: RecordCutter, block: bytes) -> list[Record]:
        fed.append(len(block))
        return whole(self, block)

    monkeypatch.setattr(RecordCutter, "feed", feed)
    told, found = recognized(form, tmp_path, identity, 88_000)
    assert (told, len(found)) == (None, 2000)
    headers = 2 * (1 << 18) if form == "csv" else 0  # looked at when it is opened
    assert sum(fed) <= path.stat().st_size - at + headers


def counted(monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> list[int]:
    """The sizes of what a method returns from here on."""
    sizes: list[int] = []
    whole = getattr(of, name)

    def counting(self: Any, *arguments: Any) -> bytes:
        found: bytes = whole(self, *arguments)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(of, name, counting)
    return sizes


def test_what_a_file_is_known_by_costs_a_short_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("lines", tmp_path, rows(90_000))
    read = counted(monkeypatch, TextReader, "_block")
    with opened("lines", tmp_path) as source:
        polled(source)
        for offset in (80_000, 85_000, 2000):
            read.clear()
            source.identity(path.name, offset)
            assert sum(read) <= KNOWN_BY + 2 * (1 << 18)


@pytest.mark.parametrize(("form", "step"), [("gzip", 1000), ("wide lines", 12_000)])
def test_what_cannot_be_read_from_anywhere_is_read_twice_at_most(
    tmp_path: Path, form: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(form, tmp_path, rows(step * 8))
    with opened(form, tmp_path) as source:
        text = sum(len(value) + 1 for value in polled(source))
    given = counted(monkeypatch, TextFile, "read")
    with opened(form, tmp_path) as source:
        for offset in range(step, step * 8, step):
            source.poll(step, 0.0)
            source.identity(path.name, offset)
    assert sum(given) < 3 * text


def test_going_back_behind_the_position_costs_a_short_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("lines", tmp_path, rows(90_000))
    identity = identity_at("lines", tmp_path, 50_001)
    with opened("lines", tmp_path) as source:
        assert source.recognize(path.name, identity) is None
        polled(source)
        read = counted(monkeypatch, TextReader, "_block")
        for offset in (80_000, 50_001, 60_000):
            read.clear()
            source.seek(path.name, offset)
            [chunk] = source.poll(1, 0.0)
            assert json.loads(chunk.values[0])["i"] == offset
            assert sum(read) <= KNOWN_BY + 2 * (1 << 18)
