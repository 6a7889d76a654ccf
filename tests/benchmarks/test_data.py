"""The data sets of the benchmarks: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import adult, common
from benchmarks.data import DataError, load
from benchmarks.streams import FILES, NUMBERS, RIVERS, STREAMS
from benchmarks.streams import load as load_stream


def test_without_data_the_command_says_where_to_get_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert common.main(adult.run, []) == 2
    said = capsys.readouterr().err
    assert "docs/data.md" in said
    assert "STREAMK_DATA" in said


def save(directory: Path, **changed: Any) -> Path:
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.integers(0, 2, (9, 123)).astype(np.uint8),
        "y": np.array([-1, 1, -1] * 3, dtype=np.int8),
        "X_test": np.ones((2, 123), dtype=np.uint8),
        "y_test": np.array([1, -1], dtype=np.int8),
        **changed,
    }
    np.savez(directory / "a9a.npz", **{k: v for k, v in arrays.items() if v is not None})
    return directory


def test_a_set_is_read_from_the_directory_or_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = load("a9a", save(tmp_path))
    assert data.X.dtype == np.float32
    assert data.y.tolist() == [False, True, False] * 3
    assert data.test[1].tolist() == [True, False]
    monkeypatch.setenv("STREAMK_DATA", str(tmp_path))
    assert load("a9a", None).describe() == data.describe()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": np.zeros((9, 8))}, r"X of shape \(9, 8\), not \(events, 123\)"),
        ({"y": None}, "no array 'y'"),
        ({"y": np.arange(9)}, "label 0 is none of"),
    ],
)
def test_another_set_of_that_name_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load("a9a", save(tmp_path, **changed))


@pytest.mark.parametrize(("content", "message"), [(None, "is not there"), (b"?", "cannot be read")])
def test_a_file_that_is_no_data_set(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "elec2.npz").write_bytes(content)
    with pytest.raises(DataError, match=message):
        load("elec2", tmp_path)


# --- streams of the river battery ----------------------------------------------------------------


def stream(name: str, n: int = 0) -> Any:
    return load_stream(name, None, quick=True, events=n)


def test_streams_are_events_of_one_kind() -> None:
    assert (*FILES, *RIVERS, *NUMBERS) == tuple(STREAMS)
    for name in STREAMS:
        found = stream(name, 40)
        events = found.events()
        assert len(events) == len(found) == 40
        assert (found.task == "regression") == (name in NUMBERS)
        assert {type(label) for _, label in events} <= {bool, int, float}
        assert found.describe() == stream(name, 40).describe()


def test_what_is_missing_is_left_out_or_none() -> None:
    found = stream("airlines_h2o_44k")
    last = found.columns[-1]
    assert last not in found.events()[5][0]
    assert found.events(none=True)[5][0][last] is None
    assert found.events(none=True)[6] == found.events()[6]
