"""A file that is one JSON array is a stream of its elements."""

from __future__ import annotations

import gzip
import json
import os
import re
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from files_kit import drain, everything, values
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.base import MAX_EVENT_BYTES, Troubled
from connectors.files.records import RecordCutter, TextForm
from connectors.registry import open_source
from connectors.stdio import StdinSource
from streamk.cli import main

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "pretty": {"indent": 2},
    "dense": {"separators": (",", ":"), "ensure_ascii": False},
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text('a"\\{}[],\n é'),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text('a"\\}]', max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def cut(data: bytes, cuts: list[int]) -> tuple[list[bytes], str | None]:
    splitter = RecordCutter(TextForm("json"), "")
    records: list[tuple[bytes, int]] = []
    at = 0
    for place in [*sorted(cuts), len(data)]:
        records += splitter.feed(data[at:place])
        at = max(at, min(place, len(data)))
    return [record for record, _ in records + splitter.finish()], splitter.unfinished


@settings(deadline=None)
@given(
    st.lists(VALUES, max_size=6),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\n "]),
    st.lists(st.integers(0, 300), max_size=6),
)
def test_elements_are_those_that_python_reads(
    values: list[Any], form: str, before: bytes, cuts: list[int]
) -> None:
    rows = [{"a": 1}, *values]
    records, missing = cut(before + json.dumps(rows, **FORMS[form]).encode() + b"\n", cuts)
    assert [json.loads(record) for record in records] == rows
    assert missing is None


def events(count: int) -> list[dict[str, Any]]:
    return [
        {
            "i": i,
            "a": [i % 5, 0.5],
            "c": {"text": 'a "quoted" ] or }'},
            "y": "up" if i % 2 else "down",
        }
        for i in range(count)
    ]


def read(url: str) -> list[bytes]:
    return everything(url, step=700)[1]


@pytest.mark.parametrize(("form", "suffix"), [("pretty", ""), ("dense", ".gz")])
def test_a_file_is_read_and_gone_on_with(tmp_path: Path, form: str, suffix: str) -> None:
    rows = events(4500)
    path = tmp_path / f"events.json{suffix}"
    data = json.dumps(rows, **FORMS[form]).encode()
    path.write_bytes(gzip.compress(data) if suffix else data)
    assert [json.loads(value) for value in read(f"file:{path}")] == rows
    with closing(open_source(f"file:{path}")) as source:
        for offset in (4499, 4097, 0, 3000):
            source.seek(path.name, offset)
            [chunk] = source.poll(1, 0.0)
            assert json.loads(chunk.values[0]) == rows[offset]


def test_a_bad_element_is_a_bad_event_and_the_others_come(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_bytes(b'[{"a": 1}, {"a": }, 7, [1, 2], {"a": 2} {"a": 3},\n null, {"a": 4},]\n')
    assert read(f"file:{path}") == [
        *(b'{"a": 1}', b'{"a": }', b"7", b"[1, 2]", b'{"a": 2} {"a": 3}', b"null", b'{"a": 4}')
    ]
    # Arrays one after the other, and lines after them.
    path.write_bytes(b'[{"a": 1}]\n[\n{"a": 2}]\n{"a": 3}\n{"a": 4}')
    assert read(f"file:{path}") == [b'{"a": 1}', b'{"a": 2}', b'{"a": 3}', b'{"a": 4}']
    # Lines of lists are lines, and bad events.
    path.write_bytes(b'[1, 2]\n{"a": 1}\n')
    assert read(f"file:{path}") == [b"[1, 2]", b'{"a": 1}']
    for empty in (b"[]", b"[\n]\n", b" \n"):
        path.write_bytes(empty)
        assert read(f"file:{path}") == []


def test_a_large_element_is_kept_only_so_far_as_to_be_recognised(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_bytes(b'[{"a":"' + b"x" * (3 * MAX_EVENT_BYTES) + b'"}, {"a": 1}]')
    first, second = read(f"file:{path}")
    assert (len(first), second) == (MAX_EVENT_BYTES + 1, b'{"a": 1}')


def test_the_array_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(json.dumps(events(40_000), indent=2))
    size = path.stat().st_size
    tracemalloc.start()
    try:
        with closing(open_source(f"file:{path}")) as source:
            while not source.finished():
                source.poll(100, 0.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 4


@pytest.mark.parametrize(
    ("end", "events_there", "message"),
    [
        (b', {"a": 2', 1, r"ends at byte 18 within the element that begins at byte 11, before"),
        (b", ", 1, r"ends at byte 11, before the array is closed by \]"),
        (b', {"a": "\\', 1, r"within the element that begins at byte 11"),
    ],
)
def test_an_array_that_is_cut_off_tells_what_is_missing(
    tmp_path: Path, end: bytes, events_there: int, message: str
) -> None:
    path = tmp_path / "events.json"
    path.write_bytes(b'[{"a": 1}' + end)
    with closing(open_source(f"file:{path}")) as source:
        assert isinstance(source, Troubled)
        assert source.trouble() is None
        [chunk] = source.poll(10, 0.0)
        assert len(chunk) == events_there
        assert source.finished()
        told = source.trouble()
        assert told is not None
        assert str(path) in told.text
        assert re.search(message, told.text)


def test_standard_input_may_be_an_array() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as pipe:
        pipe.write(json.dumps(events(3), indent=1).encode())
    with os.fdopen(read_end, "rb") as stream:
        source = StdinSource(stream)
        found = values(drain(source, 2))
    assert [json.loads(value) for value in found] == events(3)


def test_a_run_and_its_restart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "events.json"
    text = json.dumps(events(3000), indent=2)
    path.write_text(text[:-2] + ',\n  {"i": 3000, "a"')  # the end is missing

    def run(folder: Path, *options: str) -> list[str]:
        folder.mkdir(exist_ok=True)
        arguments = ["run", f"file:{path}", "--label", "y", "--model", "doubly-stochastic"]
        arguments += ["--set", "max_features=256", "--checkpoint", f"{folder}/state"]
        arguments += ["--to", f"file:{folder}/out", "--dead-letters", f"file:{folder}/bad"]
        assert main([*arguments, *options]) == 0
        lines = capsys.readouterr().err.splitlines()
        return [line for line in lines if " warning: " in line]

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    warnings = run(whole)
    assert any("before the array is closed" in warning for warning in warnings)
    run(parts, "--max-events", "1234")
    run(parts)
    for name in ("out", "bad"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    assert len((whole / "out").read_text().splitlines()) == 3000
    assert not (whole / "bad").read_text()
    path.write_text(json.dumps(events(3001), indent=2))  # it was written on
    run(whole)
    assert len((whole / "out").read_text().splitlines()) == 3001
