"""CSV as programs write it: other delimiters, other encodings, in every way a file is read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from files_kit import everything

from connectors import BadRecord, BadURL, ConnectorError
from connectors.base import MAX_EVENT_BYTES
from connectors.files.records import TextForm
from connectors.registry import open_sink, open_source
from connectors.stdio import StdinSource
from streamk.cli import main
from streamk.encoding import Schema
from streamk.encoding.decoders import decoder

ROWS = [
    [f"Köln {i}", f"{i}.5", "a;b|c\td,e" if i % 5 == 0 else "x\ny", "ja" if i % 2 else "nein"]
    for i in range(600)
]
HEADER = ["Stadt", "Größe", "text", "y"]


def table(delimiter: str, rows: list[list[str]] = ROWS) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerows([HEADER, *rows])
    return text.getvalue()


def decoded(url: str) -> Any:
    source, found = everything(url)
    schema = Schema(label="y")
    return decoder("csv", schema, fields=source.fields, delimiter=source.delimiter).decode(found)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("plain") / "plain.csv"
    path.write_text(table(","), encoding="utf-8", newline="")
    return decoded(f"csv:{path}")


@pytest.mark.parametrize(
    ("name", "delimiter", "encoding", "options"),
    [
        ("a.csv", ";", "utf-8-sig", ""),
        ("a.csv", "\t", "utf-16", ""),
        ("a.csv", ";", "utf-16-le", "?encoding=utf-16-le"),
        ("a.tsv", "\t", "cp1252", "?encoding=cp1252"),
        ("a.csv", ":", "utf-8", "?delimiter=:"),
        ("a.csv", "\t", "utf-8", "?delimiter=tab"),
        ("a.tsv.gz", "\t", "utf-8", ""),
        ("a.csv.gz", ";", "utf-16", ""),
    ],
)
def test_files_of_every_form_hold_the_same_events(
    tmp_path: Path, plain: Any, name: str, delimiter: str, encoding: str, options: str
) -> None:
    path = tmp_path / name
    data = table(delimiter).encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    out = decoded(f"csv:{path}{options}")
    assert not out.bad
    assert (out.X == plain.X).all()
    assert out.y == plain.y
    # A restart reads the same events from a place on.
    source, values = everything(f"csv:{path}{options}")
    with closing(open_source(f"csv:{path}{options}")) as later:
        assert later.fields == source.fields == tuple(HEADER)
        for place in (599, 17, 0):
            later.seek(name, place)
            [chunk] = later.poll(1, 0.0)
            assert (chunk.offsets.tolist(), chunk.values) == ([place], [values[place]])


def test_records_come_as_they_stand_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'a;b;y\r\n1,5;"x;y";1\r\n"broken;2;3\r\n')
    source, values = everything(f"csv:{path}")
    assert source.delimiter == ";"
    assert values == [b'1,5;"x;y";1']
    path.write_bytes(b"a\tb\n1\t2\n\t\n\n3\t4\n")
    assert everything(f"csv:{path}")[1] == [b"1\t2", b"\t", b"3\t4"]  # empty cells are cells


def test_a_followed_file_with_half_a_character_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    data = "a;b\nö;1\nü;2\n".encode("utf-16")
    path.write_bytes(data[:-5])
    with closing(open_source(f"csv:{path}?follow=true")) as source:
        assert source.poll(9, 0.0)[0].values == ["ö;1".encode()]
        assert source.poll(9, 0.0) == []
        with path.open("ab") as file:
            file.write(data[-5:])
        assert source.poll(9, 0.0)[0].values == ["ü;2".encode()]


def test_lines_that_end_by_a_carriage_return_alone_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,y\r1,x\r2,z\r")
    with pytest.raises(BadRecord, match=r"header of .*a\.csv: a carriage return .* by a newline"):
        open_source(f"csv:{path}")


def test_a_wrong_encoding_is_told_with_file_byte_and_option(tmp_path: Path) -> None:
    path = tmp_path / "städte.csv"
    path.write_bytes("größe;y\n1;ä\n".encode("latin-1"))
    with pytest.raises(BadRecord, match=r"header of .*städte\.csv: byte 0xf6 at place 2 .*latin-1"):
        open_source(f"csv:{path}")
    with pytest.raises(
        ConnectorError, match=r"städte\.csv: byte 0x.* not utf-16.* for example csv:"
    ):
        everything(f"csv:{path}?encoding=utf-16-le")
    path.write_bytes(b"a;y\n" + b"1;x\n" * 100_000 + b"1;\x81\n")
    with pytest.raises(ConnectorError, match=r"byte 0x81 at place 400006 of the file .*encoding"):
        everything(f"csv:{path}?encoding=cp1252")
    path.write_bytes("a;y\n1;ä\n".encode("utf-16-le"))
    with pytest.raises(BadRecord, match=r"not in the encoding given: UTF-16 .* BOM"):
        everything(f"csv:{path}?encoding=utf-16")
    with pytest.raises(BadRecord, match="encoding=utf-16-le"):
        open_source(f"csv:{path}")
    # A record that is not UTF-8 is a bad event, whose reason names the option.
    path.write_bytes("a;y\n1;ä\n2;x\n".encode("latin-1"))
    [bad] = decoded(f"csv:{path}").bad
    assert bad.reason.startswith("undecodable: byte 0xe4 at place 2 of the record is not UTF-8")
    assert "?encoding=latin-1" in bad.reason


@pytest.mark.parametrize(
    "options", ["delimiter=two", 'delimiter="', "encoding=base64", "encoding=u8x"]
)
def test_options_that_cannot_be_are_refused(tmp_path: Path, options: str) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(BadURL, match=options.partition("=")[0]):
        open_source(f"csv:{tmp_path}/a.csv?{options}")


def test_standard_input_and_a_tsv_that_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'a;b\n1;"x\ny"\n')
    with path.open("rb") as stream:
        source = StdinSource(stream, TextForm("csv"))
        assert (source.fields, source.delimiter) == (("a", "b"), ";")
    sink = open_sink(f"csv:{tmp_path}/out.tsv")
    sink.close()


def run(path: Path | str, folder: Path, *options: str) -> int:
    to, letters = f"csv:{folder}/out.tsv", f"file:{folder}/bad.ndjson"
    arguments = ["run", f"csv:{path}", "--label", "y", "--model", "doubly-stochastic", "--quiet"]
    arguments += ["--to", to, "--dead-letters", letters, "--checkpoint", f"{folder}/state"]
    return main([*arguments, *options])


def test_a_run_its_dead_letters_and_its_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "städte.csv"
    text = table(";") + "zu;kurz\r\n"
    path.write_bytes(text.encode("latin-1"))
    (whole := tmp_path / "whole").mkdir()
    (parts := tmp_path / "parts").mkdir()
    given = f"{path}?encoding=latin-1"
    assert run(given, whole) == 0
    assert run(given, parts, "--max-events", "200") == 0
    other = f"{given}&delimiter=,"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"Stadt;", b"y,Stadt;", 1))
    assert run(other, parts) != 0
    assert "was made with delimiter=';', but this run has ',';" in capsys.readouterr().err
    path.write_bytes(data)
    assert run(given, parts) == 0
    for name in ("out.tsv", "bad.ndjson"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()
    with (whole / "out.tsv").open(newline="") as file:
        assert len(list(csv.DictReader(file, delimiter="\t"))) == 600
    [letter] = map(json.loads, (whole / "bad.ndjson").read_text().splitlines())
    assert (letter["value"], letter["kind"]) == ("zu;kurz", "undecodable")


@pytest.mark.parametrize("mark", [";", "\t", "§"])
@pytest.mark.parametrize("line", ["sep={}\n", "sep={}\r\n", '"sep={}"\n', "\ufeffsep={}\n"])
def test_a_first_line_for_excel_tells_the_delimiter(tmp_path: Path, mark: str, line: str) -> None:
    path = tmp_path / "a.csv"
    text = line.format(mark) + table(mark, ROWS[:20])
    path.write_text(text, encoding="utf-8", newline="")
    source, values = everything(f"csv:{path}")
    assert (source.fields, source.delimiter) == (tuple(HEADER), mark)
    assert [next(csv.reader([v.decode()], delimiter=mark)) for v in values] == ROWS[:20]
    # Whatever is given, the line is not the header.
    assert everything(f"csv:{path}?delimiter={quote(mark)}")[0].fields == tuple(HEADER)
    with path.open("rb") as stream:
        assert StdinSource(stream, TextForm("csv")).fields == tuple(HEADER)
    with closing(open_source(f"csv:{path}")) as later:
        later.seek("a.csv", 7)
        assert later.poll(1, 0.0)[0].values == values[7:8]


def test_a_record_like_that_line_is_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text\nx\nsep=;\ny\n")
    values = [b"x", b"sep=;", b"y"]
    assert everything(f"csv:{path}")[1] == values
    with closing(open_source(f"csv:{path}")) as source:
        identity = source.identity("a.csv", 1)
    with closing(open_source(f"csv:{path}")) as later:
        assert later.recognize("a.csv", identity) is None
        later.seek("a.csv", 1)
        assert later.poll(9, 0.0)[0].values == values[1:]
    path.write_text("sep=;")
    with pytest.raises(BadRecord, match="is empty"):
        open_source(f"csv:{path}")


NUMBERS = {
    "3,14": 3.14,
    "-0,5": -0.5,
    "1.234,5": 1234.5,
    "1.234": 1234.0,
    "12.345.678,9": 12345678.9,
    ",5": 0.5,
    "7,": 7.0,
    "+2,5e3": 2500.0,
    " 3,5 ": 3.5,
    "42": 42.0,
    "1e3": 1000.0,
    "1.5": 1.5,
}


@pytest.mark.parametrize("mark", [";", ",", "\t"])
def test_numbers_may_have_decimal_commas(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "a.csv"
    rows = [[number, f'a, "b" {i}', "ja"] for i, number in enumerate(NUMBERS)]
    text = io.StringIO()
    csv.writer(text, delimiter=mark, lineterminator="\n").writerows([["x", "text", "y"], *rows])
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    source, values = everything(f"csv:{path}?decimal=,")
    schema = Schema(label="y", ignore=("text",))
    out = decoder("csv", schema, fields=source.fields, delimiter=mark).decode(values)
    assert not out.bad
    assert out.X[:, 0].tolist() == list(NUMBERS.values())
    cells = [next(csv.reader([value.decode()], delimiter=mark)) for value in values]
    assert [row[1:] for row in cells] == [row[1:] for row in rows]
    with path.open("rb") as stream:
        piped = StdinSource(stream, TextForm.of_csv("", ","))
        assert piped.poll(100, 1.0)[0].values == values


def test_what_is_no_number_with_a_decimal_comma_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [
        "1.2.3;x,y",
        "01.02.2024;1,2,3",
        "10.0.0.1;-",
        '"as it, stands";"."',
        ",;-,",
        '"x"y;1,5',
    ]
    path.write_text("\n".join(["a;b", *lines, ""]))
    assert everything(f"csv:{path}?decimal=,")[1] == [line.encode() for line in lines]
    path.write_text("a;b\n1.234;" + "x" * MAX_EVENT_BYTES + "\n")  # too large, and stays that
    assert [len(value) for value in everything(f"csv:{path}?decimal=,")[1]] == [MAX_EVENT_BYTES + 1]
    with pytest.raises(BadURL, match=r"decimal=';' is neither \. nor ,"):
        open_source(f"csv:{path}?decimal=;")


@pytest.mark.parametrize("again", ["a;y\n", "a;y\r\n", '"a";"y"\n', "\ufeffa;y\n"])
def test_a_header_that_comes_again_is_no_event(tmp_path: Path, again: str) -> None:
    path = tmp_path / "a.csv"
    for value in ("1", "x"):  # numbers, and texts of which each is a column
        path.write_text(f"a;y\n{value};u\n{value};v\n{again}{value};u\n", newline="")
        out = decoded(f"csv:{path}")
        assert [event.kind for event in out.bad] == ["header again"]
        assert (len(out.X), out.y) == (3, ["u", "v", "u"])
