"""What is wrong at the end of a run, if anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from connectors.memory import MemorySink, MemorySource
from streamk.engine import Engine, Stream
from streamk.packing import fingerprint

from .checks import (
    Problem,
    agreed,
    at_least_once,
    committed_once,
    counted_once,
    in_order,
    merge_order,
    never_there,
    own_events,
    positions,
)
from .learner import CountingLearner
from .members import Worker, real_learner
from .source import event_of

if TYPE_CHECKING:
    from .runs import Run


def judge_single(run: Run, worker: Worker) -> list[Problem]:
    """A job of one process: the model and the outputs are those of an undisturbed run."""
    if not worker.reports:
        return [Problem("unfinished", f"{worker.host} has no report")]
    report = worker.reports[-1]
    logs = run.usable
    lost: list[Mapping[str, Any]] = list(report.lost)
    written = _file(run)
    if run.plan.real:
        learned = _order_written(run, written)
        if learned is None:
            return _outputs(run, lost, [], [])
    else:
        learned = list(report.model.ids)  # type: ignore[attr-defined]
    problems = counted_once(logs, learned, lost, {}) + in_order(logs, learned)
    if problems:
        return problems
    if not lost and run.plan.until_end and learned != _sequence(run):
        problems.append(Problem("sequence", "not in the order of clocks, names and offsets"))
    model, outputs = replay(learned, real=run.plan.real, staleness=run.plan.staleness)
    if run.plan.real and fingerprint(model.state()) != fingerprint(report.model.state()):
        problems.append(Problem("model", "it is not the one that learned the same sequence"))
    if report.counts.learned != len(learned):
        problems.append(
            Problem("counts", f"{report.counts.learned} counted, {len(learned)} learned")
        )
    where = positions(logs)
    expected = [(*where[n], value) for n, value in zip(learned, outputs, strict=True)]
    return problems + _outputs(run, lost, written, expected)


def _outputs(
    run: Run,
    lost: list[Mapping[str, Any]],
    written: list[dict[str, Any]],
    expected: list[tuple[str, int, dict[str, Any]]],
) -> list[Problem]:
    """Each output is there as of a run that nothing disturbed."""
    values = {(name, offset): value for name, offset, value in expected}
    if run.plan.sink == "file":
        return _same(written, expected)
    if run.coordinator is not None:
        # What a job wrote after its checkpoints were copied had an order that the copy lacks.
        known = not lost and (run.plan.until_end or not run.strays)
        return committed_once(run.coordinator, lost, values if known else {})
    if run.plan.sink is None:
        return []
    problems = _topic(run, lost)
    wrong = [
        output
        for _, output in run.broker.written
        if values.get((output.partition, output.offset), output.value) != output.value
    ]
    if wrong and not lost:
        problems.append(Problem("values", f"{len(wrong)} other than of an undisturbed run"))
    return problems


def replay(
    learned: list[int], *, real: bool, staleness: int | None = None
) -> tuple[Any, list[dict[str, Any]]]:
    """Learn a sequence without any disturbance; returns the model and what it predicted."""
    if not real:
        model = CountingLearner()
        model.add_columns(("id",))
        found = []
        for number in learned:
            found.append({"prediction": float(model.digest)})
            model._learn(number)
        return model, found
    sink = MemorySink()
    source = MemorySource([event_of(number) for number in learned])
    stream = Stream(label="y", ignore=("id",))
    report = Engine(source, real_learner(staleness), stream=stream, sink=sink).run()
    return report.model, [output.value for output in sink.outputs]


def judge_group(run: Run, last: Worker) -> list[Problem]:
    """A group: every event counts once in the last model, or is reported lost."""
    report = last.reports[-1]
    found, lost = agreed(run.broker, sorted({worker.directory for worker in run.workers}))
    for worker in run.workers:
        for one in worker.reports:
            lost += one.lost
    lost += never_there(run.broker)
    absorbed = {lineage for one in found.values() for lineage in one.body["absorbed"]}
    name = _last_checkpoint(found, last)
    elsewhere = {
        slot: own_events(run.usable, one)
        for slot, one in found.items()
        if slot != name and one.body["lineage"] not in absorbed and run.plan.shared
    }
    learned = list(report.model.ids)  # type: ignore[attr-defined]
    problems = counted_once(run.usable, learned, lost, elsewhere)
    if run.coordinator is not None:
        problems += committed_once(run.coordinator, lost, {})
    if run.plan.sink == "topic":
        problems += _topic(run, lost, grouped=True)
    return problems


def _last_checkpoint(found: dict[str, Any], last: Worker) -> str | None:
    """The name of the checkpoint that the last worker has written, by its model."""
    ids = last.reports[-1].model.ids  # type: ignore[attr-defined]
    for name, one in found.items():
        if name.startswith(f"{last.directory.name}/") and one.model.arrays["ids"].tolist() == ids:
            return name
    return None


def _file(run: Run) -> list[dict[str, Any]]:
    path = run.root / "out.ndjson"
    if run.plan.sink != "file" or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def _order_written(run: Run, written: list[dict[str, Any]]) -> list[int] | None:
    """The sequence in which a job with a file wrote; None where that cannot be told."""
    if run.plan.sink == "file":
        number = {place: n for n, place in positions(run.broker.logs).items()}
        return [number[one["partition"], one["offset"]] for one in written]
    if run.plan.until_end and not run.plan.retention:
        return _sequence(run)
    return None


def _sequence(run: Run) -> list[int]:
    """The one sequence of all events that can be used; the others move the clocks too."""
    good = positions(run.usable)
    return [number for number in merge_order(run.broker.logs) if number in good]


def _topic(run: Run, lost: list[Mapping[str, Any]], *, grouped: bool = False) -> list[Problem]:
    """Each position is written, with one value unless events were deleted meanwhile.

    What was predicted before a crash, of events that were gone after it, has no equal.
    """
    found = at_least_once(run.broker, lost, grouped=grouped)
    if any(one.get("reason") == "gone from the source" for one in lost):
        return [one for one in found if one.kind not in ("values", "revision")]
    return found


def _same(written: list[dict[str, Any]], expected: list[tuple[Any, ...]]) -> list[Problem]:
    """A file holds each position once, with the value of an undisturbed run."""
    found = [
        (
            one.pop("partition"),
            one.pop("offset"),
            {k: v for k, v in one.items() if k != "timestamp"},
        )
        for one in written
    ]
    if found != expected:
        first = next(
            (i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), -1
        )
        return [Problem("file", f"{len(found)} lines, {len(expected)} wanted, differ at {first}")]
    return []
