"""The fields that a job declares are those of all that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import attached
from multi_kernel_kit import pool_alone

from connectors.base import Output
from connectors.fields import RecordType
from connectors.memory import MemorySink, MemorySource
from connectors.schemas.outputs import FramedOutputs
from streamk.encoding import Schema
from streamk.engine.training.options import Details
from streamk.late import LateLabels
from streamk.learners import MultiKernel
from streamk.learners.explaining import Fields

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
