"""A source whose partitions others of the same names have replaced since the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, learner, same_model

from connectors.memory import MemorySource
from connectors.registry import open_source
from streamk import load
from streamk.engine import Fixed, Report
from streamk.errors import EngineError
from streamk.late import LateLabels


class NamedSource(MemorySource):
    """One that has an identifier."""

    def __init__(self, data: Any, name: str | None) -> None:
        super().__init__(data)
        self._name = name

    def identity(self, partition: str, offset: int) -> str | None:
        return self._name

    def recognize(self, partition: str, identity: str) -> str | None:
        return None if self._name in (None, identity) else "is of another source"


def run(state: Path, name: str | None, count: int = 100, **options: Any) -> Report:
    source = NamedSource(events(count), name)
    options = {"label": "y", "ignore": ("id",), "checkpoint": state, **options}
    return attached(source, learner(), **options).run()


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
    return attached(stream, learner(), label="y", labels=late, checkpoint=state, **options).run()


def test_of_two_sources_the_one_that_was_replaced_begins_anew(tmp_path: Path) -> None:
    first = joined(tmp_path, ("events", "labels"))
    assert first.fates.joined == 60
    with pytest.raises(EngineError, match="partition labels/0, read to offset 60"):
        joined(tmp_path, ("events", "others"))
    report = joined(tmp_path, ("events", "others"), data_loss="earliest")
    assert (report.fates.joined, report.events) == (60, first.events + 60)


# Files


def lines(path: Path, count: int, *, first: int = 0, seed: int = 0, grow: bool = False) -> None:
    with path.open("a" if grow else "w") as file:
        for event in events(count, first=first, seed=seed):
            file.write(json.dumps(event) + "\n")


def run_file(state: Path, path: Path, query: str = "", **options: Any) -> Report:
    source = open_source(f"file:{path}{query}")
    options = {"label": "y", "ignore": ("id",), "checkpoint": state, **options}
    return attached(source, learner(), **options).run()


def test_a_file_that_was_replaced_ends_the_run_and_tells_what_to_do(tmp_path: Path) -> None:
    path, state = tmp_path / "log", tmp_path / "state"
    lines(path, 100)
    assert run_file(state, path, max_events=60).counts.learned == 60
    path.rename(rotated := tmp_path / "log.1")
    lines(path, 300, seed=1)
    with pytest.raises(EngineError) as caught:
        run_file(state, path)
    said = str(caught.value)
    for word in ("log, read to offset 60", str(path), "present name", "--data-loss earliest"):
        assert word in said
    # As it says: the rotated one is read to its end first, by its name, and then the new one.
    assert run_file(state, rotated).counts.learned == 100
    with pytest.raises(EngineError, match="is of another file"):
        run_file(state, path)
    assert run_file(state, path, data_loss="earliest").counts.learned == 400
    lines(path, 50, first=300, seed=1, grow=True)
    assert run_file(state, path).counts.learned == 450


@pytest.mark.parametrize("saved", [0, 60])
def test_so_does_a_followed_file_that_is_started_again(tmp_path: Path, saved: int) -> None:
    path, state = tmp_path / "log", tmp_path / "state"
    lines(path, 100)
    run_file(state, path, "?follow=true", max_events=saved)
    lines(path, 300, seed=1)
    with pytest.raises(EngineError, match="log begins otherwise than the file that was read"):
        run_file(state, path, "?follow=true", max_events=200)


@pytest.mark.parametrize("which", ["events", "labels"])
def test_of_late_labels_both_files_are_known_again(tmp_path: Path, which: str) -> None:
    def go(**options: Any) -> Report:
        late = LateLabels(open_source(f"file:{tmp_path}/labels"), key="id")
        source = open_source(f"file:{tmp_path}/events")
        given = {"label": "y", "labels": late, "checkpoint": tmp_path / "state", **options}
        return attached(source, learner(), **given).run()

    for name in ("events", "labels"):
        lines(tmp_path / name, 60)
    first = go()
    assert first.fates.joined == 60
    (tmp_path / which).rename(tmp_path / "other")
    lines(tmp_path / which, 90, seed=1)
    with pytest.raises(EngineError, match=rf"{which}, read to offset 60 .* {tmp_path}/{which} "):
        go()
    (tmp_path / "other").rename(tmp_path / which)
    assert go().events == first.events


def test_a_model_that_predicts_knows_its_requests_again(tmp_path: Path) -> None:
    path, state, places = (tmp_path / name for name in ("requests", "state", "places"))
    lines(path, 100)
    run_file(state, path)
    model = load(state)

    def answer() -> Report:
        return run_file(places, path, schema=model.schema, fixed=Fixed(), label=None, ignore=())

    assert answer().events == 100
    lines(path, 20, first=100, grow=True)
    assert answer().events == 120
    lines(path, 300, seed=1)
    with pytest.raises(EngineError, match="is of another file"):
        answer()


@pytest.mark.parametrize("limit", [7, 1000])
def test_files_of_a_pattern_are_one_stream_through_restarts(tmp_path: Path, limit: int) -> None:
    days, state, whole = tmp_path / "days", tmp_path / "state", tmp_path / "whole"
    days.mkdir()
    count = read = 0
    for day in range(4):
        lines(days / f"day-{day}.ndjson", 10 + day, first=count)
        lines(whole, 10 + day, first=count, grow=True)
        count += 10 + day
        stopped = ""
        while stopped != "end":
            report = run_file(state, days / "*.ndjson", max_events=read + limit)
            read, stopped = report.events, report.stopped
        for old in range(day):  # which were read to their end
            (days / f"day-{old}.ndjson").unlink(missing_ok=True)
    found = run_file(state, days / "*.ndjson")
    expected = run_file(tmp_path / "other", whole)
    assert (found.events, found.counts) == (count, expected.counts)
    assert same_model(found.model, expected.model)
    assert found.learned == {"*.ndjson": [[0, count]]}
