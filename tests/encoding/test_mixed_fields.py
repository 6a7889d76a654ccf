"""Fields that hold now an object, now something else; classes that come late, in every sink."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamk.cli import main
from streamk.encoding import Schema, decoder

KINDS: list[Any] = [
    {"age": 31, "name": "ann"},
    None,
    "bob",
    7,
    {"age": None},
    {},
    ["x"],
    {"age": 5},
]


@pytest.mark.parametrize("absent", ["zero", "missing"])
def test_an_object_in_other_events_may_be_null_a_text_or_a_number(absent: Any) -> None:
    events = [{"user": kind, "y": 0} for kind in KINDS]
    decoding = decoder("json", Schema(label="y", absent=absent))
    out = decoding.decode([json.dumps(event).encode() for event in events])
    assert (out.bad, len(out.X)) == ([], len(events))
    columns = decoding.schema.columns
    assert set(columns) == {"user.age", "user.name=ann", "user=7", "user=bob", "user=x"}
    X = {name: out.X[:, place].tolist() for place, name in enumerate(columns)}
    lacks = 0.0 if absent == "zero" else np.nan
    # Of the object's fields, an event whose field is null, a text or a number has none.
    expected = [31, lacks, lacks, lacks, np.nan, lacks, lacks, 5]
    np.testing.assert_array_equal(X["user.age"], expected)
    # The field itself is missing where it is null, and absent where it is an object.
    np.testing.assert_array_equal(X["user=7"], [lacks, np.nan, 0, 1, lacks, lacks, 0, lacks])
    np.testing.assert_array_equal(X["user=bob"], [lacks, np.nan, 1, 0, lacks, lacks, 0, lacks])


LATE = ["a, b", 'the "second"', "drei"]


@pytest.fixture
def late_classes(tmp_path: Path) -> str:
    """Three classes, of which one comes after 100 events and one after 200."""
    lines = [json.dumps({"x": i % 5, "y": LATE[min(i // 100, 2) * (i % 2)]}) for i in range(300)]
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    return f"file:{tmp_path}/events.ndjson"


def run(url: str, to: str, folder: Path, *options: str) -> None:
    arguments = ["run", url, "--label", "y", "--to", to, "--checkpoint", f"{folder}/state"]
    model = ["--model", "doubly-stochastic", "--set", "max_features=256", "--quiet"]
    assert main([*arguments, *model, *options]) == 0


def test_probabilities_of_late_classes_are_one_cell_of_csv(
    late_classes: str, tmp_path: Path
) -> None:
    path = tmp_path / "out.csv"
    run(late_classes, f"csv:{path}", tmp_path, "--max-events", "150")
    run(late_classes, f"csv:{path}", tmp_path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 300
    assert list(rows[0]) == [
        *("partition", "offset", "timestamp", "key", "prediction", "probabilities")
    ]
    known = [set(json.loads(row["probabilities"])) for row in rows]
    assert known[0] == set()
    assert rows[0]["prediction"] == ""
    assert known[50] == {LATE[0]}
    assert known[150] == {LATE[0], LATE[1]}
    assert known[299] == set(LATE)
    assert all(abs(sum(json.loads(row["probabilities"]).values()) - 1) < 1e-9 for row in rows[1:])


def test_probabilities_of_late_classes_are_a_struct_of_parquet(
    late_classes: str, tmp_path: Path
) -> None:
    dataset = pytest.importorskip("pyarrow.dataset", reason="needs pyarrow")
    path = tmp_path / "out"
    for most in ("50", "150", "300"):  # a file each
        run(late_classes, f"parquet:{path}", tmp_path, "--max-events", most)
    newest = max(path.glob("*.parquet"))
    schema = dataset.dataset(newest).schema
    assert {field.name for field in schema.field("probabilities").type} == set(LATE)
    assert dataset.dataset(path, schema=schema).to_table(columns=["prediction"]).num_rows == 300
    predictions = [
        row["prediction"]
        for part in sorted(path.glob("*.parquet"))
        for row in dataset.dataset(part).to_table().to_pylist()
    ]
    assert len(predictions) == 300
