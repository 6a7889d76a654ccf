"""A source whose partitions others of the same names have replaced since the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from engine_kit import events, learner

from connectors.memory import MemorySource
from streamk.engine import Engine, LateLabels, Report
from streamk.errors import EngineError


class NamedSource(MemorySource):
    """One that has an identifier."""

    def __init__(self, data: Any, name: str | None) -> None:
        super().__init__(data)
        self._name = name

    def identity(self, partition: str) -> str | None:
        return self._name


def run(state: Path, name: str | None, count: int = 100, **options: Any) -> Report:
    source = NamedSource(events(count), name)
    options = {"label": "y", "ignore": ("id",), "checkpoint": state, **options}
    return Engine(source, learner(), **options).run()


def test_a_replaced_partition_ends_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, "one").events == 100
    with pytest.raises(EngineError, match="read to offset 100 by the checkpoint, is of another"):
        run(tmp_path, "two", 300)
    assert run(tmp_path, "one", 300).counts.learned == 300


@pytest.mark.parametrize(("policy", "learned"), [("earliest", 400), ("latest", 100)])
def test_or_is_read_where_the_policy_says(tmp_path: Path, policy: str, learned: int) -> None:
    run(tmp_path, "one")
    report = run(tmp_path, "two", 300, data_loss=policy)
    assert report.counts.learned == learned
    assert run(tmp_path, "two", 300).counts.learned == learned


@pytest.mark.parametrize(("before", "now"), [(None, "two"), ("one", None), ("one", "one")])
def test_what_cannot_be_told_apart_goes_on(
    tmp_path: Path, before: str | None, now: str | None
) -> None:
    run(tmp_path, before)
    assert run(tmp_path, now, 300).counts.learned == 300


def joined(state: Path, names: tuple[str, str], **options: Any) -> Report:
    """Labels that come from a source of their own."""
    stream = NamedSource([{"id": n, "a": n % 7} for n in range(60)], names[0])
    labels = NamedSource([{"id": n, "y": n % 7 > 3} for n in range(60)], names[1])
    late = LateLabels(labels, key="id")
    return Engine(stream, learner(), label="y", labels=late, checkpoint=state, **options).run()


def test_of_two_sources_the_one_that_was_replaced_begins_anew(tmp_path: Path) -> None:
    first = joined(tmp_path, ("events", "labels"))
    assert first.fates is not None
    assert first.fates.joined == 60
    with pytest.raises(EngineError, match="partition labels/0, read to offset 60"):
        joined(tmp_path, ("events", "others"))
    report = joined(tmp_path, ("events", "others"), data_loss="earliest")
    assert report.fates is not None
    assert (report.fates.joined, report.events) == (60, first.events + 60)
