"""What must hold at the end of a run, whatever has happened in it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from connectors.memory import MemorySink, MemorySource
from streamk.engine import Checkpoint, Engine, Stream, newest_checkpoint
from streamk.engine.recovery.group import Group
from streamk.errors import StateError
from streamk.packing import fingerprint

from .broker import Broker, Log
from .client import is_bad
from .learner import CountingLearner
from .members import Worker, real_learner
from .source import event_of
from .transactions import Coordinator


class Problem(NamedTuple):
    """Something that must not be: its kind, by which it can be left out, and what it is."""

    kind: str
    text: str


Position = tuple[str, int]


def positions(logs: Mapping[str, Log]) -> dict[int, Position]:
    """Partition and offset of every event by its identifier."""
    return {
        number: (name, offset)
        for name, log in logs.items()
        for number, offset in zip(log.ids, log.offsets, strict=True)
    }


def usable(logs: Mapping[str, Log]) -> dict[str, Log]:
    """Logs without the events that cannot be used."""
    found = {}
    for name, log in logs.items():
        rows = zip(log.offsets, log.times, log.ids, log.arrivals, strict=True)
        kept = [row for row in rows if not is_bad(row[2])]
        columns = [list(column) for column in zip(*kept, strict=True)] or [[], [], [], []]
        found[name] = Log(*columns, log.gap, log.first)  # type: ignore[arg-type]
    return found


def inside(position: Position, ranges: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a position lies in one of the ranges that were reported lost."""
    name, offset = position
    return any(r["partition"] == name and r["start"] <= offset < r["stop"] for r in ranges)


def own_events(logs: Mapping[str, Log], found: Checkpoint) -> list[int]:
    """What a checkpoint's lineage has learned itself, not with the model that it began with."""
    where, learned = positions(logs), found.body["feed"]["learned"]
    return [
        number
        for number in found.model.arrays["ids"].tolist()
        if any(a <= where[number][1] < b for a, b in learned.get(where[number][0], ()))
    ]


def merge_order(logs: Mapping[str, Log]) -> list[int]:
    """The one sequence of whole logs: by clock, partition and offset."""
    keyed = []
    for name, log in logs.items():
        clock = -(2**63)
        for time, offset, number in zip(log.times, log.offsets, log.ids, strict=True):
            clock = max(clock, time)
            keyed.append((clock, name, offset, number))
    return [number for *_, number in sorted(keyed)]


def told(kind: str, text: str, places: Iterable[Position]) -> list[Problem]:
    """A problem of some positions, if there are any."""
    some = sorted(places)
    return [Problem(kind, f"{len(some)} {text}: {spans(some)}")] if some else []


def counted_once(
    logs: Mapping[str, Log],
    learned: list[int],
    lost: list[Mapping[str, Any]],
    elsewhere: Mapping[str, list[int]],
) -> list[Problem]:
    """Every event is in the last model once, or reported lost.

    `learned`: the events of the last model.
    `lost`: ranges that any checkpoint or report lists.
    `elsewhere`: events of the models that nobody has taken over.
    """
    where, found = positions(logs), Counter(learned)
    problems = told("twice", "events twice", [where[one] for one, n in found.items() if n > 1])
    others = {number: name for name, numbers in elsewhere.items() for number in numbers}
    missing, orphans = [], defaultdict(list)
    for number, position in where.items():
        if number not in found and not inside(position, lost):
            (orphans[others[number]] if number in others else missing).append(position)
    problems += told("missing", "events in no model, unreported", missing)
    for name, orphaned in orphans.items():
        problems += told("orphaned", f"events only in {name}", orphaned)
    for name, numbers in elsewhere.items():
        both = [where[number] for number in set(numbers) & set(found)]
        problems += told("twice elsewhere", f"also in {name}", both)
    return problems


def in_order(logs: Mapping[str, Log], learned: list[int]) -> list[Problem]:
    """Inside a partition events are learned in the order of their offsets."""
    where = positions(logs)
    at: dict[str, int] = defaultdict(lambda: -1)
    for number in learned:
        name, offset = where[number]
        if offset <= at[name]:
            return [Problem("order", f"{name} offset {offset} learned after {at[name]}")]
        at[name] = offset
    return []


def at_least_once(broker: Broker, lost: list[Mapping[str, Any]], *, grouped: bool) -> list[Problem]:
    """Each position is written, and with one value, or the others say that they are revisions."""
    values: dict[Position, list[dict[str, Any]]] = defaultdict(list)
    for _, output in broker.written:
        values[output.partition, output.offset].append(output.value)
    places = positions(broker.logs).values()
    missing = [one for one in places if one not in values and not inside(one, lost)]
    differing = [place for place, found in values.items() if _differ(found)]
    kind = "revision" if grouped else "values"
    return [
        *told("unwritten", "not written", missing),
        *told(kind, "written with two values", differing),
    ]


def committed_once(
    coordinator: Coordinator,
    lost: list[Mapping[str, Any]],
    expected: Mapping[Position, Mapping[str, Any]],
) -> list[Problem]:
    """A reader of what was committed sees each position once, as a prediction or a dead letter.

    `expected`: the predictions of an undisturbed run; empty where they are not known.
    """
    coordinator.settle()
    logs, seen = coordinator.broker.logs, _committed(coordinator)
    where, good = positions(logs), positions(usable(logs))
    problems = []
    for topic, wanted in (
        ("scores", set(good.values())),
        ("dead", set(where.values()) - set(good.values())),
    ):
        found = seen[topic]
        missing = [one for one in wanted if one not in found and not inside(one, lost)]
        twice = [place for place, values in found.items() if len(values) > 1]
        problems += told("unwritten", f"not in {topic}", missing)
        problems += told("written twice", f"twice in {topic}", twice)
        problems += told("strange", f"in {topic}", set(found) - wanted)
    scores = seen["scores"].items()
    revised = [one for one, values in scores if any(v.get("revision") for v in values)]
    wrong = [one for one, values in scores if any(v != expected.get(one, v) for v in values)]
    problems += told("revision", "revised", revised)
    return problems + told("values", "other than wanted", wrong)


def _committed(coordinator: Coordinator) -> dict[str, dict[Position, list[dict[str, Any]]]]:
    """What a reader of committed records sees of each topic, by the position of the input."""
    seen: dict[str, dict[Position, list[dict[str, Any]]]] = {}
    for name, topic in coordinator.topics.items():
        found = seen[name] = defaultdict(list)
        for number in range(len(topic.partitions)):
            end = topic.end(number, committed=True)
            for _, record in topic.read(number, 0, end):
                headers = {key: value.decode() for key, value in record.headers}
                partition = f"{headers['streamk-topic']}:{headers['streamk-partition']}"
                place = partition, int(headers["streamk-offset"])
                found[place].append(json.loads(record.value))
    return seen


def _differ(found: list[dict[str, Any]]) -> bool:
    """Whether two values that do not call themselves revisions differ."""
    plain = [one for one in found if one.get("revision") is not True]
    return any(one != plain[0] for one in plain[1:])


def agreed(broker: Broker, directories: Iterable[Path]) -> tuple[dict[str, Checkpoint], list[Any]]:
    """The newest checkpoint of each slot that agrees with the group.

    Returns them by name, and the ranges that any checkpoint lists as lost.
    """
    found, lost = {}, []
    asked: Any = SimpleNamespace(committed=broker.committed.get)
    agrees = Group(asked, None, 0).agrees
    for slot in [path for directory in directories for path in sorted(directory.glob("member-*"))]:
        try:
            newest = newest_checkpoint(slot, agrees)
        except StateError:
            continue
        if newest is not None:
            found[f"{slot.parent.name}/{slot.name}"] = newest
            lost += newest.body["feed"]["lost"]
    return found, lost


def never_there(broker: Broker) -> list[dict[str, Any]]:
    """Ranges that were deleted before the group began with a partition."""
    begun: dict[str, int] = {}
    for name, offset, _ in broker.accepted:
        begun.setdefault(name, offset)
    return [{"partition": name, "start": 0, "stop": stop} for name, stop in begun.items()]


def spans(found: Iterable[Position]) -> str:
    """Positions in short: the first and last offset of each partition."""
    offsets = defaultdict(list)
    for name, offset in found:
        offsets[name].append(offset)
    return ", ".join(f"{name}[{min(some)}..{max(some)}]" for name, some in sorted(offsets.items()))


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


PLACE = ("partition", "offset", "timestamp")


def _same(written: list[dict[str, Any]], expected: list[tuple[Any, ...]]) -> list[Problem]:
    """A file holds each position once, with the value of an undisturbed run."""
    found = [
        (one["partition"], one["offset"], {k: v for k, v in one.items() if k not in PLACE})
        for one in written
    ]
    if found != expected:
        first = next(
            (i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), -1
        )
        return [Problem("file", f"{len(found)} lines, {len(expected)} wanted, differ at {first}")]
    return []
