"""Labels that come later than their events: against a join of plain lists, and alone."""

from __future__ import annotations

import contextlib
import math
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pytest
from engine_kit import WhimsicalSource, attached, learner, same_model
from hypothesis import given, settings
from hypothesis import strategies as st
from late_kit import Counting, small_segments, streams
from multi_kernel_kit import pool_alone
from reference.conformal import NaiveQuantile
from reference.late import NaiveJoin, in_order

from connectors.memory import MemorySink, MemorySource
from streamk.distributed import Sharded
from streamk.engine.checkpoints.segment_files import SegmentFiles
from streamk.errors import EngineError, InvalidInput
from streamk.late import LateLabels
from streamk.late.held import HeldEvents, check_held
from streamk.late.join import Join, Learn, Predict
from streamk.learners import EntityMemory, MultiKernel, create

FOREVER = float("inf")


def event(key: Any, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"id": key, "a": float(rng.normal()), "b": float(rng.normal())}


def run(
    events: dict[str, list[tuple[int, Any]]],
    labels: dict[str, list[tuple[int, Any]]],
    model: Any,
    *,
    whim: int = 0,
    engine: dict[str, Any] | None = None,
    **late: Any,
) -> tuple[Any, MemorySink]:
    """A run over records (timestamp, value) of partitions."""
    sources = [
        WhimsicalSource(
            {name: [value for _, value in records] for name, records in partitions.items()},
            timestamps={
                name: [time for time, _ in records] for name, records in partitions.items()
            },
            whim=whim + n,
        )
        for n, partitions in enumerate((events, labels))
    ]
    sink = MemorySink()
    options = {"label": "y", "sink": sink, "max_skew": FOREVER, **(engine or {})}
    return (
        attached(
            sources[0], model, labels=LateLabels(sources[1], key="id", **late), **options
        ).run(),
        sink,
    )


# --- the join alone -------------------------------------------------------------------------------

KEYS = st.sampled_from("abcdefgh")
RECORDS = st.lists(st.tuples(st.booleans(), KEYS, st.booleans(), st.integers(0, 4)), max_size=60)


@pytest.mark.parametrize("rows", [1 << 15, 1, 3])
@settings(max_examples=60, deadline=None)
@given(
    RECORDS,
    st.sampled_from([None, 0, 3, 10]),
    st.sampled_from([1, 2, 3, 100]),
    st.sampled_from([None, False]),
    st.sampled_from(["ignore", "learn"]),
    st.integers(0, 60),
    st.integers(1, 5),
)
def test_the_join_is_that_of_plain_lists(
    rows: int,
    records: list[Any],
    timeout: int | None,
    most: int,
    default: Any,
    revisions: Any,
    stop: int,
    size: int,
) -> None:
    """Events and labels in any order, in memory and in segments of few rows.

    Once in between everything is saved and read again.
    """
    default = None if timeout is None else default
    naive = NaiveJoin(timeout, most, default, revisions)
    files = SegmentFiles()

    def new() -> tuple[HeldEvents, Join]:
        held = HeldEvents(0.0)
        options: Any = {"held": held, "files": files, "revisions": revisions}
        return held, Join(timeout, most, default, **options)

    held, join = new()
    steps: list[tuple[str, int, Any]] = []
    clock = 0

    def follow(some: list[Any], place: int) -> None:
        for step in some:
            if isinstance(step, Learn):
                steps.append(("learn", held.events["number"].item(step.slot), step.label))
                continue
            assert isinstance(step, Predict)
            steps.append(("predict", place, step.slot >= 0))
            if step.slot >= 0:
                P, nan = np.full((1, 1), 0.5), np.nan
                held.put([step.slot], np.eye(1), [1], P, [0.0], [place], nan, nan)

    with small_segments(rows):
        for first in range(0, len(records), size):
            batch = records[first : first + size]
            join.begin([key for _, key, *_ in batch], clock + sum(more for *_, more in batch))
            for place, (is_label, key, label, more) in enumerate(batch, first):
                clock += more
                for some, _ in join.due(clock):
                    follow(some, place)
                if is_label:
                    naive.label(key, label, clock)
                    follow(join.label(key, label, clock), place)
                else:
                    naive.event(key, place, clock)
                    follow(join.event(key, clock), place)
            join.end()
            if first <= stop < first + size:
                saved = join.to_json(), join.arrays()
                events = held.records(join.slots)
                held, join = new()
                n = join.restore(
                    *saved, partial(check_held, columns=1, classes=2, numbers=len(records))
                )
                held.put_records([held.take() for _ in range(n)], events)
    files.close()
    assert steps == naive.steps
    fates = asdict(join.count())
    assert (fates.pop("held"), fates.pop("waiting")) == (len(naive.held), len(naive.early))
    assert {name: n for name, n in fates.items() if n} == naive.fates
    n_labels = sum(is_label for is_label, *_ in records)
    assert join.count().events == len(records) - n_labels
    assert join.count().labels == n_labels


# --- the engine -----------------------------------------------------------------------------------


def partitions_of(draw: Any, names: list[str], value: Any) -> dict[str, list[tuple[int, Any]]]:
    return {
        name: [(draw(st.integers(0, 40)), value(draw)) for _ in range(draw(st.integers(0, 15)))]
        for name in names
    }


def in_shards(columns: tuple[str, ...]) -> Sharded:
    """A learner that begins with rounds after 16 events."""
    return Sharded(learner(columns=columns), shards=2, round_events=1)


@pytest.mark.parametrize("make", [learner, in_shards])
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_predictions_and_model_are_those_of_the_plain_join(data: Any, make: Any) -> None:
    events = partitions_of(
        data.draw,
        ["0", "1"],
        lambda draw: event(draw(KEYS), draw(st.integers(0, 5))),
    )
    labels = partitions_of(
        data.draw, ["0"], lambda draw: {"id": draw(KEYS), "y": draw(st.booleans())}
    )
    timeout = data.draw(st.sampled_from([None, 5, 20]))
    default = None if timeout is None else data.draw(st.sampled_from([None, False]))
    most = data.draw(st.sampled_from([1, 3, 100]))
    revisions = data.draw(st.sampled_from(["ignore", "learn"]))
    naive, model = NaiveJoin(timeout, most, default, revisions), make(columns=("a", "b"))
    merged = in_order(
        {f"labels/{name}": of for name, of in labels.items()}
        | {f"stream/{name}": of for name, of in events.items()}
    )
    for place, one in enumerate(merged):
        if one.partition.startswith("labels/"):
            naive.label(one.value["id"], one.value["y"], one.clock)
        else:
            naive.event(one.value["id"], place, one.clock)
    report: Any = None
    with small_segments(data.draw(st.sampled_from([1 << 15, 2]))), contextlib.ExitStack() as stack:
        matched = {"joined", "revised", "too_late"} & naive.fates.keys()
        if labels["0"] and any(events.values()) and not matched:
            stack.enter_context(pytest.raises(InvalidInput, match="labels has met one of"))
        report, sink = run(
            events,
            labels,
            make(columns=("a", "b")),
            whim=data.draw(st.integers(0, 100)),
            timeout=None if timeout is None else timeout / 1000,
            default=default,
            held_events=most,
            revisions=revisions,
        )
    if report is None:
        return
    said: dict[int, Any] = {}
    hits = []
    for what, place, answer in naive.steps:
        x = np.array([[merged[place].value["a"], merged[place].value["b"]]])
        if what == "predict":
            said[place] = model.predict_then_learn_many(x, [None]).predictions[0]
        else:
            if said[place] is not None:
                hits.append(said[place] == answer)
            model.learn_many(x, [answer])
    assert same_model(report.model, model)
    assert [output.value["prediction"] for output in sink.outputs] == list(said.values())
    assert [(o.partition, o.offset) for o in sink.outputs] == [
        (merged[place].partition.removeprefix("stream/"), merged[place].offset) for place in said
    ]
    assert report.events == len(merged)
    assert report.whole.get("accuracy") == (pytest.approx(np.mean(hits)) if hits else None)
    fates = {name: n for name, n in asdict(report.fates).items() if n}
    assert {name: n for name, n in fates.items() if name not in ("held", "waiting")} == naive.fates


def stream(n: int, *, delay: int, kind: str = "two") -> tuple[Any, Any]:
    """Events and their labels, `delay` ms later and not in order."""
    rng = np.random.default_rng(1)
    events = [(10 * i, event(i, i)) for i in range(n)]
    labels = []
    for i, (time, x) in enumerate(events):
        y: Any = x["a"] * x["b"] > 0
        if kind == "numbers":
            y = x["a"] + 100.0 * x["b"] * (i > n / 2)
        elif kind == "three":
            y = "far" if x["a"] ** 2 + x["b"] ** 2 > 3 else f"{y}, near"
        labels.append((time + delay + int(rng.integers(0, 300)), {"id": str(i), "y": y}))
    return events, sorted(labels, key=lambda one: one[0])


@pytest.mark.parametrize("kind", ["two", "three", "numbers"])
def test_many_kernels_learn_by_what_they_said_at_the_time(kind: str) -> None:
    """As one at a time, under the numbers of the events; so, too, without numbers."""
    events, labels = stream(400, delay=200, kind=kind)
    task = "regression" if kind == "numbers" else "classification"
    report, _ = run({"0": events}, {"0": labels}, pool_alone(seed=1, task=task))
    model, plain = pool_alone(seed=1, task=task), pool_alone(seed=1, task=task)
    held: dict[str, Any] = {}
    for one in in_order({"labels/0": labels, "stream/0": events}):
        if one.partition.startswith("stream/"):
            x = np.array([[one.value["a"], one.value["b"]]])
            held[str(one.value["id"])] = x
            if model.columns is not None:
                model.predict_held_many(x, [one.value["id"]])
                plain.predict_then_learn_many(x, [None])
            continue
        x, y = held.pop(one.value["id"]), one.value["y"]
        for each in (model, plain):
            if each.columns is None:
                each.add_columns(("a", "b"))
        model.learn_held_many(x, [y], [int(one.value["id"])])
        plain.learn_many(x, [y])
    assert same_model(report.model, model)
    assert same_model(report.model, plain)
    assert report.fates.joined == report.counts.learned == 400


def test_what_entities_did_is_learned_as_it_was_when_they_were_predicted() -> None:
    """As one at a time; the events before the first label count, too."""
    events, labels = stream(400, delay=200, kind="two")
    events = [(time, {**x, "who": time // 10 % 7}) for time, x in events]

    def remembering() -> EntityMemory:
        return EntityMemory(pool_alone(seed=1), entities=["who"], numbers=["a"])

    report, _ = run({"0": events}, {"0": labels}, remembering())
    model = remembering()
    model.add_columns(("a", "b", "who"))
    held: dict[int, Any] = {}
    for one in in_order({"labels/0": labels, "stream/0": events}):
        number = int(one.value["id"])
        if one.partition.startswith("stream/"):
            held[number] = x = np.array([[one.value[name] for name in ("a", "b", "who")]])
            model.predict_held_many(x, [number])
            continue
        model.learn_held_many(held[number], [one.value["y"]], [number])
    assert same_model(report.model, model)
    assert sum(model.tables[0].row(who)["count"] for who in range(7)) == 400
    assert len(model.held_predictions()["entities_of"]) == 0


@pytest.mark.parametrize("shards", [False, True])
def test_intervals_are_those_of_the_plain_join(shards: bool) -> None:
    """A label comes with the threshold of its event and the events that were held since."""
    model: Any = create("doubly-stochastic", task="regression", max_features=64, block_size=64)
    model = Sharded(model, shards=2, round_events=8) if shards else model
    events, labels = streams("regression")
    _, sink = run({"p": events}, {"p": labels}, model, engine={"interval": 0.8})
    naive = NaiveJoin(None, 10**6, None)
    merged = in_order({"labels/p": labels, "stream/p": events})
    for place, one in enumerate(merged):
        key = one.value["id"]
        if one.partition.startswith("labels/"):
            naive.label(key, one.value["y"], one.clock)
        else:
            naive.event(key, place, one.clock)
    quantile, answers = NaiveQuantile(0.8), iter(output.value for output in sink.outputs)
    held: dict[int, tuple[int, float, Any]] = {}
    keys = set[str]()
    for what, place, label in naive.steps:
        if what == "predict":
            answer, threshold = next(answers), quantile.threshold()
            if np.isinf(threshold):
                assert answer["interval"] is None
            else:
                low, high = answer["interval"]
                assert (low, high) == pytest.approx(
                    (answer["prediction"] - threshold, answer["prediction"] + threshold)
                )
            if merged[place].value["id"] not in keys:
                keys.add(merged[place].value["id"])
                held[place] = len(held), threshold, answer["prediction"]
        else:
            number, threshold, prediction = held[place]
            if prediction is not None and not np.isnan(prediction):
                delay = len(held) - 1 - number
                quantile.learn(abs(prediction - label), threshold, delay)
    assert next(answers, None) is None


@pytest.mark.parametrize("revisions", [pytest.param("ignore", marks=pytest.mark.nightly), "learn"])
def test_many_kernels_learn_the_same_from_the_disk(revisions: str) -> None:
    """With labels by default, some of which are revised, and columns that come later."""
    events, labels = stream(300, delay=200, kind="numbers")
    events = [(time, {**x, "c": 1.0} if i > 150 else x) for i, (time, x) in enumerate(events)]
    options = {"timeout": 0.35, "default": 0.0, "revisions": revisions}
    found = []
    for rows in (1 << 15, 3):
        with small_segments(rows):
            model = pool_alone(seed=1, task="regression")
            found.append(run({"0": events}, {"0": labels}, model, whim=rows % 7, **options))
    (plain, said), (report, again) = found
    assert [one.value for one in again.outputs] == [one.value for one in said.outputs]
    assert same_model(report.model, plain.model)
    assert (report.fates, report.whole, report.counts) == (plain.fates, plain.whole, plain.counts)
    assert min(plain.fates.joined, plain.fates.defaulted) > 30
    assert (plain.fates.revised > 30) == (revisions == "learn")


@pytest.mark.parametrize("kind", ["three", "numbers"])
@pytest.mark.parametrize(
    ("name", "staleness"),
    [("doubly-stochastic", 1), pytest.param("multi-kernel", 0, marks=pytest.mark.nightly)],
)
def test_workers_learn_late_and_change_nothing(name: str, staleness: int, kind: str) -> None:
    events, labels = stream(600, delay=200, kind=kind)
    events = [(time, {**x, "c": 1.0} if i > 400 else x) for i, (time, x) in enumerate(events)]
    task = "regression" if kind == "numbers" else "classification"

    def learned(workers: Any, whim: int) -> tuple[Any, list[Any]]:
        inner = create(name, task=task, **({"max_features": 64} if name[0] == "d" else {}))
        cut: dict[str, Any] = {"shards": 3, "round_events": 20, "staleness": staleness}
        model = Sharded(inner, **cut, workers=workers)
        report, sink = run({"0": events}, {"0": labels}, model, whim=whim)
        return report, [output.value for output in sink.outputs]

    alone, said = learned(None, 0)
    workers = Counting()
    report, found = learned(workers, 7)
    assert found == said
    assert same_model(report.model, alone.model)
    assert report.whole == alone.whole
    assert report.fates.joined == report.counts.learned == 600
    assert sum(workers.shards) > 9
    assert max(workers.shards) == 3


def test_equal_events_are_learned_by_what_was_said_of_each() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] > 0).tolist()
    model = pool_alone(seed=0, columns=("a", "b"))
    model.learn_many(X, y)
    twin = MultiKernel.from_state(model.state())
    x = X[:1]
    model.predict_held_many(x, [0])
    model.predict_held_many(x, [1])  # the same was said, once more
    model.learn_held_many(np.vstack([x, x]), [True, False], [0, 1])
    twin.predict_held_many(x, [0])
    kept = twin.held_predictions()
    restored = MultiKernel.from_state(twin.state())
    twice = {name: np.concatenate([array, array]) for name, array in kept.items()}
    restored.restore_held_predictions(twice | {"numbers": np.array([0, 1])})
    restored.learn_held_many(x, [True], [0])
    restored.learn_held_many(x, [False], [1])
    assert kept["numbers"].tolist() == [0]
    assert same_model(model, restored)
    assert len(model.held_predictions()["numbers"]) == 0


def test_fields_that_come_later_become_columns_with_the_first_event_learned() -> None:
    events = [
        (0, {"id": 1, "a": 1.0}),
        (1, {"id": 2, "a": 2.0, "c": "x"}),
        (2, {"id": 3, "a": 3.0, "c": "y", "d": None}),
        (3, {"id": 4, "a": 4.0, "late": 4.0}),
    ]
    labels = [(10, {"id": 2, "y": 1.0}), (11, {"id": 1, "y": 2.0}), (12, {"id": 3, "y": 3.0})]
    report, _ = run({"0": events}, {"0": labels}, pool_alone(seed=1, task="regression"), whim=3)
    assert report.model.columns == ("a", "c=x", "c=y")
    assert report.schema.columns == ("a", "c=x", "c=y")
    assert report.fates.held == 1


def test_what_cannot_be_used_is_told_and_written() -> None:
    dead = MemorySink()
    events = [(0, event(1)), (1, {"a": 1.0}), (2, event([1])), (3, {**event(3), "y": True})]
    labels = [
        (10, {"id": 1, "y": True}),
        (11, {"y": True}),
        (12, {"id": 3}),
        (13, {"id": 3, "y": [1]}),
        (14, {"id": "3", "y": False}),
    ]
    report, sink = run({"e": events}, {"l": labels}, learner(), engine={"dead_letters": dead})
    assert report.counts.bad == {"key missing": 3, "label missing": 1, "label out of domain": 1}
    assert [(o.partition, o.offset) for o in dead.outputs] == [
        ("e", 1), ("e", 2), ("l", 1), ("l", 2), ("l", 3)
    ]  # fmt: skip
    assert [(o.partition, o.offset) for o in sink.outputs] == [("e", 0), ("e", 3)]
    assert report.fates.joined == report.counts.learned == 2
    assert report.model.columns == ("a", "b")


def test_the_policy_raise_ends_at_the_first_bad_record() -> None:
    with pytest.raises(EngineError, match="at l offset 0 cannot be used: key missing"):
        run(
            {"e": [(0, event(1))]},
            {"l": [(5, {"y": True})]},
            learner(),
            engine={"on_error": "raise"},
        )


def test_a_class_too_many_is_a_bad_label() -> None:
    events = [(i, event(i, i)) for i in range(3)]
    labels = [(10 + i, {"id": i, "y": f"class {i}"}) for i in range(3)]
    report, _ = run({"e": events}, {"l": labels}, pool_alone(seed=0, max_classes=2))
    assert report.counts.bad == {"label out of domain": 1}
    assert report.counts.learned == 2


def test_times_come_from_a_field() -> None:
    events = [(0, {**event(i, i), "at": f"2024-01-01T00:00:{i:02d}Z"}) for i in range(20)]
    events.append((0, {**event("x"), "at": "yesterday"}))
    start = 1_704_067_200_000
    labels = [(0, {"id": i, "y": True, "at": start + 1000 * i + 5500}) for i in range(20)]
    report, sink = run({"e": events}, {"l": labels}, learner(), time="at", timeout=6.0)
    assert report.counts.bad == {"time missing": 1}
    assert report.fates.joined == 20
    assert sink.outputs[3].timestamp == start + 3000
    report, _ = run({"e": events}, {"l": labels}, learner(), time="at", timeout=5.0)
    assert report.fates.joined == 0
    assert report.fates.missing == report.fates.too_late == 20


@pytest.mark.parametrize(
    ("late", "words"),
    [
        ({"key": "y"}, "is the label"),
        ({"key": "id", "default": True}, "give timeout="),
        ({"key": "id", "timeout": 1.0, "default": 1.5}, "not a label: .*1.5, not text"),
        ({"key": "id", "timeout": 1.0, "default": math.inf}, "not a label: inf"),
        ({"key": "id", "timeout": 1.0, "default": "NA"}, "not a label: it reads as a missing one"),
        ({"key": "id", "timeout": -1.0}, "at least 0"),
        ({"key": "id", "held_events": 0}, "held_events"),
        ({"key": "id", "revisions": "forget"}, "revisions"),
    ],
)
def test_options_that_make_no_sense(late: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        attached(
            MemorySource([event(1)]),
            learner(),
            label="y",
            labels=LateLabels(MemorySource([{"id": 1, "y": True}]), **late),
        )


def test_events_without_names_are_refused() -> None:
    labels = LateLabels(MemorySource([{"id": 1, "y": True}]), key="id")
    with pytest.raises(InvalidInput, match="named fields"):
        attached(MemorySource(np.eye(2)), learner(), label="y", labels=labels)


class Grouped(MemorySource):
    group = "readers"

    def every(self) -> Any:
        return self.partitions()


def test_a_group_is_refused() -> None:
    labels = LateLabels(MemorySource([{"id": 1, "y": True}]), key="id")
    with pytest.raises(InvalidInput, match="drop group=readers"):
        attached(Grouped([event(1)]), learner(), label="y", labels=labels)


def test_a_key_that_no_event_has_ends_with_an_error() -> None:
    with pytest.raises(InvalidInput, match="key missing: the event has no 'id'"):
        run({"e": [(0, {"a": 1.0})]}, {"l": [(0, {"id": 1, "y": True})]}, learner())
    with pytest.raises(InvalidInput, match="none of the 1 labels can be used"):
        run({"e": [(0, event(1))]}, {"l": [(0, {"name": 1, "y": True})]}, learner())


def test_the_score_is_that_of_river() -> None:
    """To the last event, with a fixed delay whose ends meet other events."""
    import datetime as dt

    from river import compose, evaluate, metrics

    from streamk.adapters.river import KernelClassifier

    events, _ = stream(300, delay=0)
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    data = [
        (
            {"a": x["a"], "b": x["b"], "at": start + dt.timedelta(milliseconds=time)},
            x["a"] * x["b"] > 0,
        )
        for time, x in events
    ]
    metric = metrics.Accuracy()
    model = compose.Discard("at") | KernelClassifier(external_experts=(), seed=1)
    evaluate.progressive_val_score(
        data, model, metric, moment="at", delay=dt.timedelta(milliseconds=500)
    )
    labels = [(t + 500, {"id": x["id"], "y": x["a"] * x["b"] > 0}) for t, x in events]
    report, _ = run({"0": events}, {"0": labels}, pool_alone(seed=1))
    assert report.whole["accuracy"] == pytest.approx(metric.get(), abs=1e-12)
    assert metric.get() > 0.8


def keyed(key: str, n: int, name: str, **more: Any) -> list[dict[str, Any]]:
    return [{name: f"{key}{i}", **more} for i in range(n)]


@pytest.mark.parametrize("default", [None, False])
@pytest.mark.parametrize("n", [3, 5000])
def test_labels_that_meet_no_event_end_the_run(
    n: int, default: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """With a key of each side; a thousand are told while the run goes on."""
    timeout = None if default is None else 1.0
    events = MemorySource(keyed("ad-", n, "id", x=1.0))
    labels = MemorySource(keyed("", n, "id", y=True))
    late = LateLabels(labels, key="id", timeout=timeout, default=default)
    with pytest.raises(InvalidInput, match=rf"none of the {n:,} labels .*'id'.*'ad-0'.*'0'"):
        attached(events, learner(), label="y", labels=late).run()
    told = [one for one in caplog.messages if "labels has met one of" in one]
    assert len(told) == (n > 1000)


@pytest.mark.parametrize(
    ("events", "labels", "text"),
    [(4, 0, "no label has come for any of 4 events"), (0, 4, "no event has come for any of 4")],
)
def test_one_side_alone_is_told(
    events: int, labels: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    late = LateLabels(MemorySource(keyed("", labels, "id", y=True)), key="id")
    attached(MemorySource(keyed("", events, "id", x=1.0)), learner(), label="y", labels=late).run()
    assert any(text in one for one in caplog.messages)


def test_labels_that_all_come_too_late_are_told(caplog: pytest.LogCaptureFixture) -> None:
    events = {"0": [(i, {"id": f"{i}", "x": 1.0}) for i in range(20)]}
    labels = {"0": [(100 + i, {"id": f"{i}", "y": True}) for i in range(3)]}
    events["0"].append((105, {"id": "last", "x": 1.0}))
    report, _ = run(events, labels, learner(), timeout=0.09)
    assert report.fates.joined == 0
    assert report.fates.too_late == 3
    assert any("3 came too late; give a longer timeout" in one for one in caplog.messages)


def test_one_label_that_meets_its_event_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    labels = MemorySource([*keyed("b", 9, "id", y=True), {"id": "a1", "y": True}])
    late = LateLabels(labels, key="id")
    attached(MemorySource(keyed("a", 9, "id", x=1.0)), learner(), label="y", labels=late).run()
    assert not [one for one in caplog.messages if "has met" in one or "has come" in one]
