"""Files of a pattern: one after the other, each read once, whatever comes and goes."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from files_kit import write

from connectors import BadRecord, Unavailable
from connectors.base import Source
from connectors.registry import open_source

KINDS = ["file", "file.gz", "csv", "csv.gz", "parquet"]


class Kind:
    """Writes files of a kind, and opens all of them."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, (self.scheme, _, self.packed) = folder, kind.partition(".")

    def path(self, name: str) -> Path:
        suffix = {"file": "ndjson"}.get(self.scheme, self.scheme)
        return self.folder / f"{name}.{suffix}{'.gz' if self.packed else ''}"

    def write(self, name: str, numbers: Any) -> Path:
        rows = [{"n": n, "m": -n} for n in numbers]
        return write(self.path(name), rows, columns=("n", "m"), rows=3)

    def open(self, options: str = "") -> Any:
        pattern = str(self.path("*")) if self.folder.name != "below" else str(self.path("day=*/*"))
        return closing(open_source(f"{self.scheme}:{pattern}{options}"))

    def numbers(self, values: Any) -> list[int]:
        if self.scheme == "parquet":
            return [value["n"] for value in values]
        if self.scheme == "csv":
            return [int(value.partition(b",")[0]) for value in values]
        return [json.loads(value)["n"] for value in values]

    def read(self, source: Source, most: int = 10**9, step: int = 4) -> list[int]:
        found: list[int] = []
        while len(found) < most:
            chunks = source.poll(min(step, most - len(found)), 0.0)
            if not chunks:
                break
            for chunk in chunks:
                found += self.numbers(chunk.values)
        return found

    def go_on(self, identity: str, offset: int, options: str = "") -> tuple[list[int], list[str]]:
        """Return what a later process reads, and what it tells of."""
        with self.open(options) as source:
            [name] = source.partitions()
            assert source.recognize(name, identity) is None
            source.seek(name, offset)
            return self.read(source), source.unfinished()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return Kind(tmp_path, request.param)


def at(source: Source, offset: int) -> str:
    [name] = source.partitions()
    found = source.identity(name, offset)
    assert found is not None
    return str(found)


def test_they_are_read_in_the_order_of_their_names(kind: Kind) -> None:
    for name, numbers in (("b", [3, 4]), ("c", []), ("a", [0, 1, 2]), ("d", [5])):
        kind.write(name, numbers)
    with kind.open() as source:
        assert isinstance(source, Source)
        [name] = source.partitions()
        assert "*" in name
        assert kind.read(source) == [0, 1, 2, 3, 4, 5]
        assert source.finished()
        assert (source.end(name), source.lag(), source.unfinished()) == (6, 0, [])
        for offset in (5, 0, 3, 2, 6, 4):
            source.seek(name, offset)
            assert kind.read(source) == list(range(offset, 6))
    with kind.open() as source:
        source.seek(name, 4)
        assert kind.read(source) == [4, 5]


@pytest.mark.parametrize("offset", [0, 1, 4, 5, 8, 9])
@pytest.mark.parametrize("ahead", [0, 100])
def test_a_later_run_goes_on_where_the_former_was(kind: Kind, offset: int, ahead: int) -> None:
    files = {"a": range(4), "b": range(4, 5), "c": range(5, 9)}
    for name, numbers in files.items():
        kind.write(name, numbers)
    with kind.open() as source:
        kind.read(source, offset + ahead)
        identity = at(source, offset)
    kind.write("d", [9, 10])
    assert kind.go_on(identity, offset) == (list(range(offset, 11)), [])
    # What was read to its end may be removed.
    for name, numbers in files.items():
        if numbers.stop <= offset and (ahead == 0 or numbers.stop < offset):
            kind.path(name).unlink()
    assert kind.go_on(identity, offset) == (list(range(offset, 11)), [])


def test_a_file_that_is_removed_before_its_end_is_told(kind: Kind) -> None:
    kind.write("a", range(4))
    kind.write("b", range(4, 6))
    with kind.open() as source:
        kind.read(source, 2)
        identity = at(source, 2)
    kind.path("a").unlink()
    with kind.open() as source:
        told = source.recognize(source.partitions()[0], identity)
    assert told == (
        f"is of another file: {kind.path('a').name} is gone, and was not read to its end; put it"
        " back"
    )


@pytest.mark.parametrize("moved", [True, False])
def test_a_file_is_known_by_what_is_in_it(kind: Kind, moved: bool) -> None:
    """One that was moved is found, another in its place is told."""
    kind.write("a", range(4))
    path = kind.write("b", range(4, 9))
    with kind.open() as source:
        kind.read(source)
        identity = at(source, 6)
    if moved:
        path.rename(kind.path("bb"))
        assert kind.go_on(identity, 6) == ([6, 7, 8], [])
        return
    kind.write("b", range(40, 90))
    with kind.open() as source:
        told = source.recognize(source.partitions()[0], identity)
    assert told is not None
    assert told.startswith(f"is of another file: {path} ")


def test_what_comes_with_an_earlier_name_is_told(kind: Kind) -> None:
    kind.write("b", range(3))
    kind.write("d", range(3, 5))
    with kind.open() as source:
        kind.read(source)
        identity = at(source, 4)
    early, between = kind.write("a", [7]), kind.write("c", [8])
    found, told = kind.go_on(identity, 4)
    assert found == [4]
    named = [one.partition(" is not read: it came after ")[0] for one in told]
    assert named == [str(early), str(between)]
    # So is one that takes the name of one that was removed meanwhile.
    with kind.open() as source:
        assert source.recognize(source.partitions()[0], identity) is None
        kind.path("b").unlink()
        source._look()
        again = at(source, 4)
    kind.write("b", range(3))
    assert f"{kind.path('b')} is not read: it came after" in "".join(kind.go_on(again, 4)[1])
    # From its beginning on all would be read.
    with kind.open() as source:
        assert kind.read(source) == [7, 0, 1, 2, 8, 3, 4]


def test_what_grew_after_it_was_read_is_told(kind: Kind) -> None:
    path = kind.write("a", range(3))
    size = path.stat().st_size
    kind.write("b", range(3, 5))
    with kind.open() as source:
        kind.read(source)
        identity = at(source, 5)
    kind.write("a", range(300))
    more = path.stat().st_size - size
    assert kind.go_on(identity, 5) == (
        [],
        [f"{path} has {more} bytes more than when it was read: they are not read"],
    )


def test_following_takes_up_later_files(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.files.ordered._LOOK_INTERVAL_S", 0.0)
    kind.write("a", range(3))
    with kind.open("?follow=true") as source:
        [name] = source.partitions()
        assert kind.read(source) == [0, 1, 2]
        assert not source.finished()
        assert (source.end(name), source.lag()) == (None, None)
        kind.write("b", range(3, 5))
        kind.write("c", range(5, 6))
        kind.path("a").unlink()
        assert kind.read(source) == [3, 4, 5]
        early = kind.write("bb", [99])
        assert kind.read(source) == []
        assert [one.partition(" is not read")[0] for one in source.unfinished()] == [str(early)]
        trouble = source.trouble()
        assert trouble is not None
        assert str(early) in trouble.text
        kind.write("d", [6])
        assert kind.read(source) == [6]
        identity = at(source, 7)
    for name in ("b", "bb", "c", "d"):
        kind.path(name).unlink()
    kind.write("e", [7])
    assert kind.go_on(identity, 7, "?follow=true") == ([7], [])


def test_all_may_be_removed_that_was_read(kind: Kind) -> None:
    kind.write("a", [])
    kind.write("b", range(3))
    with kind.open() as source:
        kind.read(source)
        identity = at(source, 3)
    kind.path("b").unlink()
    assert kind.go_on(identity, 3) == ([], [])


@pytest.mark.parametrize("scheme", ["file", "csv"])
def test_the_last_line_of_all_but_the_last_file_counts_as_it_stands(
    tmp_path: Path, scheme: str
) -> None:
    halves = {"file": '{"n": 1}\n{"n": 2', "csv": "n,m\n1,0\n2"}
    wholes = {"file": '{"n": 3}\n{"n": 4}', "csv": "n,m\n3,0\n4,0"}
    for name, text in (("a", halves), ("b", wholes)):
        (tmp_path / name).write_text(text[scheme])
    with closing(open_source(f"{scheme}:{tmp_path}/*")) as source:
        assert isinstance(source, Source)
        found: list[bytes] = []
        while not source.finished():
            found += [value for chunk in source.poll(9, 0.0) for value in chunk.values]
        assert len(found) == 4
        assert found[1] in (b'{"n": 2', b"2")
        assert source.provisional("*") == (None if scheme == "file" else 3)
        assert source.unfinished() == []


def test_headers_that_differ_are_told(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    for header in ("b,a", "a,c", "a;b", "a,b,c"):
        (tmp_path / "2.csv").write_text(f"{header}\n3,4\n")
        with closing(open_source(f"csv:{tmp_path}/*.csv")) as source:
            source.poll(1, 0.0)
            with pytest.raises(BadRecord, match=rf"2\.csv has another header .*'{header}', not"):
                source.finished()


@pytest.mark.parametrize("scheme", ["file", "csv", "parquet"])
def test_a_pattern_that_nothing_matches_says_so(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "new.csv").touch()
    with pytest.raises(Unavailable, match=rf"^no file matches {tmp_path}/a/\*\.x$"):
        open_source(f"{scheme}:{tmp_path}/a/*.x")


@pytest.mark.parametrize("kind_name", ["file", "parquet"])
def test_directories_may_be_in_the_pattern(tmp_path: Path, kind_name: str) -> None:
    kind = Kind(tmp_path / "below", kind_name)
    kind.folder.mkdir()
    for name, numbers in (("day=2/a", [2]), ("day=10/b", [0]), ("day=10/c", [1])):
        kind.write(name, numbers)
    kind.write("day=2/.hidden", [9])
    with kind.open() as source:
        assert source.partitions()[0].startswith("day=*/*.")
        assert kind.read(source) == [0, 1, 2]


def test_a_file_whose_name_has_a_star_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a*").write_text('{"n": 1}\n')
    (tmp_path / "ab").write_text('{"n": 2}\n')
    with closing(open_source(f"file:{tmp_path}/a*")) as source:
        assert source.poll(9, 0.0)[0].values == [b'{"n": 1}']


def test_the_share_that_was_read_grows_to_1(kind: Kind) -> None:
    """Also where a file that was read is removed; a followed source has none."""
    paths = [kind.write(name, range(100)) for name in "abc"]
    with kind.open() as source:
        shares = [source.share_read()]
        while source.poll(30, 0.0):
            shares.append(source.share_read())
            if len(shares) == 6:
                paths[0].unlink()
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] < 0.5 < shares[-2]
    assert shares[-1] == 1.0
    with kind.open("?follow=true") as source:
        assert source.share_read() is None
