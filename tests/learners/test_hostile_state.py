"""State files that somebody wrote to do harm: refused by `StateError`, with little memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamk.engine import kept_model
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.reading import read_checkpoint
from streamk.engine.checkpoints.store import NotSaved
from streamk.errors import EngineError, StateError
from streamk.packing import canonical, header_bytes, pack, unpack
from streamk.state import State

WHERE = Path("model.safetensors")
MB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DirectoryStore]:
    store = DirectoryStore(tmp_path / "state")
    store.save({}, State({"type": "test", "format": 1}, {"a": np.arange(4.0)}))
    yield store
    store.close()


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Fail a test that allocates more than 64 MB by Python or NumPy."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 64 * MB
    finally:
        tracemalloc.stop()


def header(data: bytes, size: int | None = None) -> bytes:
    """A file of safetensors with this header, whose length may be a lie."""
    return (len(data) if size is None else size).to_bytes(8, "little") + data


def of(entries: dict[str, Any], arrays: int = 0) -> bytes:
    return header(json.dumps(entries).encode()) + bytes(arrays)


def entry(shape: Any, start: Any, stop: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


FILES = {
    "empty": b"",
    "seven bytes": bytes(7),
    "a header of 2^62": header(b"{}", 2**62),
    "a header of 2^64-1": header(b"{}", 2**64 - 1),
    "a header one too long": header(b"{}", 3),
    "invalid JSON": header(b"{"),
    "no text": header(b"\xff\xfe{}"),
    "a list": header(b"[]"),
    "null": header(b"null"),
    "a number of many digits": header(b'{"a": ' + b"9" * 5000 + b"}"),
    "nesting": header(b"[" * 200_000),
    "nested entries": header(b'{"a":' * 200_000),
    "a shape of 2^62": of({"a": entry([2**62], 0, 4)}, 4),
    "a shape past 64 bits": of({"a": entry([2**64], 0, 4)}, 4),
    "a product of 2^64, which is 0 in 64 bits": of({"a": entry([2**32, 2**30, 4], 0, 0)}),
    "a product of 2^64 + 4": of({"a": entry([2**62, 4], 0, 4)}, 4),
    "a negative shape": of({"a": entry([-1, -1], 0, 4)}, 4),
    "a fraction": of({"a": entry([1.0], 0, 4)}, 4),
    "a boolean": of({"a": entry([True], 0, 4)}, 4),
    "nothing of much": of({"a": entry([0, 2**62, 2**62], 0, 0)}),
    "too many axes": of({"a": entry([1] * 100, 0, 4)}, 4),
    "offsets the wrong way": of({"a": entry([1], 4, 0)}, 4),
    "negative offsets": of({"a": entry([1], -4, 0)}, 4),
    "past the end": of({"a": entry([2], 0, 8)}, 4),
    "far past the end": of({"a": entry([2**60], 0, 2**62)}, 4),
    "less than the file": of({"a": entry([1], 0, 4)}, 8),
    "a gap": of({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, 12),
    "overlapping": of({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, 12),
    "the same place": of({"a": entry([1], 0, 4), "b": entry([1], 0, 4)}, 4),
    "a name twice": header(
        b'{"a": %b, "a": %b}' % ((json.dumps(entry([1], 0, 4)).encode(),) * 2)
    )
    + bytes(4),
    "a key twice": header(b'{"a": {"dtype": "F32", "dtype": "F32", "shape": [1],'
                          b' "data_offsets": [0, 4]}}') + bytes(4),
    "another dtype": of({"a": entry([1], 0, 4, "O")}, 4),
    "no text for a dtype": of({"a": entry([1], 0, 4, ["F32"])}, 4),
    "three offsets": of({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, 4),
    "no shape": of({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, 4),
    "more in an entry": of({"a": entry([1], 0, 4) | {"code": "x"}}, 4),
    "metadata": of({"__metadata__": {"a": "b"}}),
    "a boolean of 2": of({"a": entry([1], 0, 1, "BOOL")}) + b"\x02",
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.usefixtures("little_memory")
def test_arrays_that_are_not_what_they_claim(store: DirectoryStore, name: str) -> None:
    with pytest.raises(StateError, match=r"model\.safetensors: "):
        unpack(FILES[name], WHERE)
    place(store, FILES[name])
    with pytest.raises(StateError, match=r"model\.safetensors: "):
        read_checkpoint(store.path / "00000001")


def place(store: DirectoryStore, data: bytes) -> Path:
    """Put data in the place of the model, its digest into the manifest."""
    directory = store.path / "00000001"
    (directory / "model.safetensors").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    write_manifest(directory, files={"model.safetensors": digest})
    return directory


def write_manifest(directory: Path, **changes: Any) -> None:
    manifest = {**json.loads((directory / "manifest.json").read_bytes()), **changes}
    manifest.pop("sha256")
    manifest["sha256"] = hashlib.sha256(canonical(manifest)).hexdigest()
    (directory / "manifest.json").write_bytes(canonical(manifest))


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("beginning", [b"", FILES["far past the end"], FILES["a gap"]])
def test_a_sparse_file_of_a_terabyte_is_refused_unread(
    store: DirectoryStore, beginning: bytes
) -> None:
    directory = store.path / "00000001"
    with (directory / "model.safetensors").open("wb") as file:
        file.write(beginning)
        file.truncate(1 << 40)
    with pytest.raises(StateError, match=r"model\.safetensors: is damaged"):
        read_checkpoint(directory)


def test_a_sparse_file_that_keeps_its_word_is_too_large_for_the_memory(
    store: DirectoryStore,
) -> None:
    directory = store.path / "00000001"
    beginning = of({"a": entry([2**40], 0, 2**40, "U8")})
    with (directory / "model.safetensors").open("wb") as file:
        file.write(beginning)
        file.truncate(len(beginning) + (1 << 40))
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 39, before[1]))  # so that no machine has as much
    try:
        with pytest.raises(StateError, match="is too large for the available memory"):
            read_checkpoint(directory)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_sparse_manifest_is_too_large_for_the_memory(store: DirectoryStore) -> None:
    os.truncate(store.path / "00000001" / "manifest.json", 1 << 40)
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 39, before[1]))
    try:
        with pytest.raises(StateError, match=r"manifest\.json: is too large for the available"):
            read_checkpoint(store.path / "00000001")
        assert kept_model(store.directory) is None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("where", ["model", "held"])
def test_no_arrays_are_written_that_cannot_be_read(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The run ends at once, as no later attempt would do better."""
    small = State({"type": "test", "format": 1}, {"a": np.zeros(1)})
    large = State(small.header, {f"array {n}": np.zeros(1) for n in range(100)})
    before = sorted(path.name for path in store.path.iterdir())
    monkeypatch.setattr("streamk.packing.LONGEST_HEADER", 5000)
    with pytest.raises(EngineError, match=r"shapes of 100 arrays .* 5,000 .*; .* epoch 1, is") as e:
        store.save({}, *((large, None) if where == "model" else (small, large)))
    assert not isinstance(e.value, NotSaved)
    assert sorted(path.name for path in store.path.iterdir()) == before
    assert store.save({}, small, small) == 2
    read_checkpoint(store.path / "00000002")


def test_what_is_written_is_read_up_to_the_longest_header(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = {f"array {n}": np.zeros(1) for n in range(100)}
    length = header_bytes(pack(arrays), 1 << 20, WHERE) - 8
    monkeypatch.setattr("streamk.packing.LONGEST_HEADER", length)
    assert len(unpack(pack(arrays), WHERE)) == 100
    monkeypatch.setattr("streamk.packing.LONGEST_HEADER", length - 1)
    with pytest.raises(StateError, match="can be read back"):
        pack(arrays)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"a":' * 200_000,
        '{"format": 1, "model": ' + "[" * 900 + "]" * 900 + "}",
        '{"format": 1, "model": ' + "[" * 200 + "]" * 200 + "}",
        '{"format": 1, "n": NaN}',
        '{"format": 1, "n": Infinity}',
        '{"format": 1, "n": 1e999}',
        '{"format": 1, "n": ' + "9" * 5000 + "}",
        '{"format": 1, "format": 1}',
        '{"format": true}',
        '"format"',
        "null",
        "",
    ],
    ids=lambda text: text[:30],
)
def test_a_manifest_that_a_parser_may_fall_over(store: DirectoryStore, text: str) -> None:
    directory = store.path / "00000001"
    (directory / "manifest.json").write_text(text)
    with pytest.raises(StateError, match=r"manifest\.json: "):
        read_checkpoint(directory)
    assert kept_model(store.directory) is None


@pytest.mark.parametrize("name", ["files", "model", "engine", "epoch"])
@pytest.mark.parametrize("value", [None, 1.5, [], "x"], ids=repr)
def test_a_manifest_whose_parts_are_of_other_types(
    store: DirectoryStore, name: str, value: Any
) -> None:
    directory = store.path / "00000001"
    write_manifest(directory, **{name: value})
    with pytest.raises(StateError, match=r"manifest\.json: "):
        read_checkpoint(directory)


@pytest.mark.usefixtures("little_memory")
def test_a_journal_without_an_end_is_refused(store: DirectoryStore) -> None:
    path = store.path / "00000001.journal"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(StateError, match="journal: is damaged in line 1"):
        store.read_passes()


def test_links_and_pipes_in_the_place_of_files(store: DirectoryStore, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    path = store.path / "00000001.journal"
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(StateError, match="journal: cannot be read"):
        store.read_passes()
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StateError, match="journal: is not a regular file"):
        store.read_passes()
    assert (tmp_path / "precious").read_text() == "precious"


dtypes = st.sampled_from(["?", "b", "<i2", "<i4", "<i8", "B", "<u2", "<u4", "<u8", "<f2", "<f8"])
shapes = st.lists(st.integers(0, 3), max_size=3)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.text(max_size=5), st.tuples(dtypes, shapes), max_size=5))
def test_what_was_packed_is_unpacked(arrays: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    given = {
        name: rng.integers(0, 2, shape).astype(dtype) for name, (dtype, shape) in arrays.items()
    }
    given.pop("__metadata__", None)
    found = unpack(pack(given), WHERE)
    assert found.keys() == given.keys()
    for name, array in given.items():
        assert found[name].dtype == array.dtype
        assert found[name].flags.writeable
        assert found[name].flags.aligned
        np.testing.assert_array_equal(found[name], array)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_any_damage_is_a_state_error_or_other_numbers(data: st.DataObject) -> None:
    raw = bytearray(pack({"a": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])}))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(StateError):
        unpack(bytes(raw), WHERE)
