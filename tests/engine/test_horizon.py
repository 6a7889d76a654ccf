"""The label of a later event: against plain lists, cut anywhere, killed, and with several."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import Crash, CrashingSink, WhimsicalSource, attached, same_model
from multi_kernel_kit import pool_alone
from reference.horizon import NaiveHorizon

import streamk
from connectors.memory import MemorySink, MemorySource
from streamk.engine import Details, Fixed, newest_checkpoint
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.late import Horizon
from streamk.late.ahead import Ahead, Lead
from streamk.learners import EntityMemory, MultiKernel, create
from streamk.serving.answers import Answers

EVENTS = 260
MINUTE = 60_000


def stream(task: str, *, seed: int = 0, n: int = EVENTS) -> list[tuple[int, dict[str, Any]]]:
    """Return events of two series as (time, event): labels, a class and an hour are missing.

    Classes are whole numbers, so that the label is one column.
    """
    rng = np.random.default_rng(seed)
    made, at = [], 1_700_000_000_000
    for k in range(n):
        at += int(rng.integers(1, 3)) * MINUTE
        at += 40 * MINUTE if k == n // 2 else 0
        value = 5.0 * np.sin(k / 4.0) + rng.normal()
        label: Any = float(value)
        if task == "classification":
            label = 1 if value > 1.0 else 0 if value < -1.0 or k < 40 else 2
        event = {"a": float(rng.normal()), "b": float(k % 7), "of": "uv"[k % 3 == 0], "y": label}
        if k % 23 == 7:
            event["y"] = None
        made.append((at - 5 * MINUTE if k % 31 == 9 else at, event))
    return made


def model_of(task: str) -> MultiKernel:
    """Numbers with the memory of labels."""
    if task == "classification":
        return pool_alone(seed=1)
    return MultiKernel(seed=1, task="regression", external_experts=())


def job(
    events: list[tuple[int, Any]], model: Any, horizon: Horizon, *, whim: int = 0, **options: Any
) -> Any:
    source = WhimsicalSource(
        {"p": [event for _, event in events]},
        timestamps={"p": [at for at, _ in events]},
        whim=whim,
    )
    options = {"label": "y", "ignore": ("of",), "max_skew": float("inf"), **options}
    return attached(source, model, labels=horizon, **options)


def said(sink: MemorySink) -> list[Any]:
    return [output.value["prediction"] for output in sink.outputs]


TASKS = pytest.mark.parametrize("task", ["classification", "regression"])


@TASKS
@pytest.mark.parametrize("series", [None, "of"])
@pytest.mark.parametrize("ahead", [1, 9, timedelta(minutes=12)])
def test_it_is_that_of_plain_lists(task: str, series: str | None, ahead: Any) -> None:
    """Predictions, what is learned, fates and "no change" are the same to the last bit."""
    events, horizon = stream(task), Horizon(ahead, series=series)
    (span,) = horizon.leads
    plain = NaiveHorizon(model_of(task), span.size, timed=span.timed, columns=("a", "b", "y"))
    for at, event in events:
        label = event["y"]
        x = [event["a"], event["b"], np.nan if label is None else label]
        plain.follow(event["of"] if series else None, at, x, label)
    sink = MemorySink()
    found = job(events, model_of(task), horizon, sink=sink).run()
    assert said(sink) == plain.predictions
    assert same_model(found.model, plain.model)
    assert found.fates.joined == found.counts.learned == len(plain.learned)
    assert found.fates.missing == plain.missing > 0
    assert found.fates.held == len(plain.waiting)
    assert found.counts.learned + found.counts.unlabelled == EVENTS
    scored = [(n, y, before) for n, y, before in plain.learned if plain.predictions[n] is not None]
    kept = [one for one in scored if one[2] is not None]
    if task == "classification":
        hits = [plain.predictions[n] == y for n, y, _ in scored]
        assert found.whole["accuracy"] == pytest.approx(np.mean(hits))
        same, name = sum(before == y for _, y, before in kept), "no_change"
    else:
        errors = [abs(plain.predictions[n] - y) for n, y, _ in scored]
        assert found.whole["mae"] == pytest.approx(np.mean(errors))
        same, name = sum(abs(before - y) for _, y, before in kept), "last_value"
    told = found.baselines["whole"][name] * len(scored)
    assert same - 1e-9 <= told
    assert len(kept) == len(scored) or told > same - 1e-9


def parts(task: str) -> list[tuple[str, Any]]:
    """Jobs of all kinds: their names, and the horizon and options of each."""
    regions = {"interval": 0.8} if task == "regression" else {"prediction_set": 0.8}
    return [
        ("events", (Horizon(9), regions)),
        ("series", (Horizon(timedelta(minutes=12), series="of"), {"slice": "of"})),
        ("several", (Horizon([timedelta(minutes=9), 2]), regions)),
    ]


JOBS = pytest.mark.parametrize(
    ("task", "kind"),
    [(task, kind) for task in ("classification", "regression") for kind, _ in parts(task)],
)


@JOBS
def test_crashes_leave_no_trace(task: str, kind: str, tmp_path: Path) -> None:
    """Whatever the batches, and wherever a run is killed and goes on."""
    horizon, options = dict(parts(task))[kind]
    events, rng = stream(task), random.Random(5)
    plain, sink = MemorySink(), CrashingSink()
    expected = job(events, model_of(task), horizon, sink=plain, **options).run()
    options |= {"checkpoint": tmp_path, "checkpoint_every": 50}
    crashes = 0
    while True:
        sink.left = rng.randrange(1, 5) if crashes < 4 else 10**9
        attempt = job(events, model_of(task), horizon, whim=crashes, sink=sink, **options)
        try:
            report = attempt.run()
            break
        except Crash:
            crashes += 1
    assert crashes >= 2
    assert sink.outputs == plain.outputs
    assert same_model(report.model, expected.model)
    assert report.fates == expected.fates
    assert report.counts == expected.counts
    assert report.whole == expected.whole
    assert report.baselines == expected.baselines
    assert report.slices == expected.slices
    assert report.schema == expected.schema


@TASKS
def test_each_of_several_is_as_alone(task: str) -> None:
    """Predictions, intervals and figures; a learner of entities, one of one kernel, too."""
    events, aheads = stream(task), [timedelta(minutes=20), 3]
    details: Any = {"interval": 0.8} if task == "regression" else {"prediction_set": 0.8}

    def makes(kind: str) -> tuple[Any, dict[str, Any]]:
        if kind == "entities":
            return model_of(task), {**details, "entity": ("of",), "ignore": ()}
        if kind == "one kernel":
            return create("doubly-stochastic", task=task, seed=1), details
        return model_of(task), details

    for kind in ("many kernels", "entities", "one kernel"):
        alone = []
        for ahead in aheads:
            sink = MemorySink()
            model, options = makes(kind)
            report = job(events, model, Horizon(ahead), sink=sink, **options).run()
            alone.append((report, [output.value for output in sink.outputs]))
        sink = MemorySink()
        model, options = makes(kind)
        found = job(events, model, Horizon(aheads), sink=sink, **options).run()
        assert isinstance(found.model.learner, EntityMemory) == (kind == "entities")
        told = [output.value for output in sink.outputs]
        names = Horizon(aheads).names
        for k, (report, values) in enumerate(alone):
            expected = [{"horizon": names[k], **value} for value in values]
            assert [one["ahead"][k] for one in told] == expected
            assert same_model(found.model.learners[k], report.model)
            figures = found.slices[names[k]]
            assert {name: figures[name] for name in list(report.whole)[:2]} == {
                name: pytest.approx(report.whole[name]) for name in list(report.whole)[:2]
            }
        assert [{name: one[name] for name in one if name != "ahead"} for one in told] == alone[0][1]
        assert found.counts == alone[0][0].counts


@JOBS
def test_a_saved_model_predicts(task: str, kind: str, tmp_path: Path) -> None:
    """By the present label; of several horizons for each, in the order of the job."""
    horizon, options = dict(parts(task))[kind]
    events = stream(task)
    job(events, model_of(task), horizon, checkpoint=tmp_path, **options).run()
    model = streamk.load(tmp_path)
    assert (model.label, model.horizon) == ("y", ",".join(horizon.names))
    assert "y" in {str(column).partition("=")[0] for column in model.schema.columns}
    sink = MemorySink()
    asked = [{**events[-1][1], "y": label} for label in (1, 0)]
    fixed = Fixed(kept=model.kept)
    regions = {name: one for name, one in options.items() if name != "slice"}
    more: Any = {"schema": model.schema, "fixed": fixed, "sink": sink, **regions}
    attached(MemorySource(asked), model.learner, **more).run()
    told, other = (output.value for output in sink.outputs)
    assert told != other
    assert [model.predict_one(one) for one in asked] == [told["prediction"], other["prediction"]]
    ahead = told.get("ahead", [])
    if ahead:
        wanted = {one["horizon"]: one["prediction"] for one in ahead}
        assert model.predict_ahead_one(asked[0]) == wanted
    assert [one["horizon"] for one in ahead] == (["9m", "2"] if kind == "several" else [])
    if ahead:
        first, *others = ({n: v for n, v in one.items() if n != "horizon"} for one in ahead)
        assert first == {name: one for name, one in told.items() if name != "ahead"}
        assert all(one.keys() == first.keys() for one in others)
        (served,) = Answers(model).of(asked[:1], Details(**regions))
        assert served["ahead"] == told["ahead"]


# --- what comes in odd ways -----------------------------------------------------------------------


def times(*minutes: int) -> list[tuple[int, dict[str, Any]]]:
    return [
        (1_700_000_000_000 + MINUTE * at, {"x": float(n), "y": float(at)})
        for n, at in enumerate(minutes)
    ]


@pytest.mark.parametrize(
    ("minutes", "learned", "missing", "held"),
    [
        ((0, 5, 10, 15, 20), 3, 0, 2),
        ((0, 1, 2, 12, 13), 3, 0, 2),  # one label of several events
        ((0, 1, 40, 50), 1, 2, 1),  # after a gap a label is none of theirs
        ((0, 5, 1_000_000, 10, 15, 20), 1, 2, 3),  # one time far ahead drops what waits
        ((1000, 5, 1010, 1015, 1020), 2, 1, 2),  # one far behind is dropped itself
    ],
)
def test_gaps_and_broken_times(
    minutes: tuple[int, ...], learned: int, missing: int, held: int
) -> None:
    ahead = Ahead([Lead(10 * MINUTE, timed=True)], most=100)
    for at, _ in times(*minutes):
        ahead.due("", at, 1.0)
        ahead.hold("", at, 1.0)
    fates = ahead.count()
    assert (fates.joined, fates.missing, fates.held) == (learned, missing, held)


def test_what_waits_in_series_that_are_over_is_dropped() -> None:
    """Of five minutes: what is ten minutes behind the others, one series with each event."""
    ahead = Ahead([Lead(5 * MINUTE, timed=True)], most=1000)
    for minute in range(400):
        series = str(minute // 10)
        ahead.due(series, MINUTE * minute, 1.0)
        ahead.hold(series, MINUTE * minute, 1.0)
    fates = ahead.count()
    assert fates.joined == 40 * 5
    assert fates.held <= 15
    assert len(ahead._series) <= 3


def test_events_without_room_are_dropped_and_told() -> None:
    """Those of the series that was met longest ago go first."""
    events = [(k, {"s": "ab"[k >= 20], "x": 1.0, "y": float(k)}) for k in range(40)]
    found = job(events, model_of("regression"), Horizon(9, series="s", held_events=12)).run()
    assert found.fates.overflow == 6
    assert found.fates.held == 12
    assert any("held_events=12" in note for note in found.notes)


@pytest.mark.parametrize("ahead", [2, [2, 5]])
def test_what_experts_said_that_has_no_room_is_told(ahead: Any, tmp_path: Path) -> None:
    """All but the last one of each that was predicted with columns; also by a run that goes on."""
    events = [(k, {"x": float(k % 3), "y": float(k)}) for k in range(40)]
    assert job(events, model_of("regression"), Horizon(ahead)).run().fates.forgotten == 0
    for n in (25, None):
        model = MultiKernel(task="regression", external_experts=(), pending_bytes=0)
        found = job(events[:n], model, Horizon(ahead), checkpoint=tmp_path).run()
    begun = [40 - lead.size for lead in Horizon(ahead).leads]
    assert found.fates.forgotten == sum(begun) - len(begun)
    assert any("raise pending_bytes" in note for note in found.notes)


def test_a_class_too_many_is_a_bad_event() -> None:
    events = [(k, {"x": float(k % 3), "y": min(k % 5, 3)}) for k in range(60)]
    model = pool_alone(seed=1, max_classes=3)
    letters = MemorySink()
    options: dict[str, Any] = {"on_error": "dead-letter", "dead_letters": letters}
    found = job(events, model, Horizon(2), **options).run()
    assert found.counts.bad == {"label out of domain": 11}
    assert {letter.value["column"] for letter in letters.outputs} == {"y"}
    assert found.counts.records == 60
    with pytest.raises(EngineError, match="max_classes=3"):
        job(events, pool_alone(seed=1, max_classes=3), Horizon(2), on_error="raise").run()


def test_bad_events_have_no_place() -> None:
    """The later event is counted among those that can be used."""
    good = [(k, {"x": float(k), "y": float(k)}) for k in range(30)]
    bad = [(9, {"x": float("inf"), "y": 1.0}), (9, {"x": 1.0, "y": [1]}), (9, None)]
    one, two = MemorySink(), MemorySink()
    options: Any = {"on_error": "skip"}
    job(good, model_of("regression"), Horizon(4), sink=one, **options).run()
    found = job(
        [*good[:10], *bad, *good[10:]], model_of("regression"), Horizon(4), sink=two, **options
    ).run()
    assert said(one) == said(two)
    assert found.counts.n_bad == 2
    assert found.counts.tombstones == 1


def test_a_short_stream_says_that_nothing_was_learned() -> None:
    events = [(k, {"x": 1.0, "y": float(k)}) for k in range(5)]
    found = job(events, model_of("regression"), Horizon(24)).run()
    assert found.counts.learned == 0
    assert any("none of 5 events is learned yet" in note for note in found.notes)


def test_what_cannot_be(tmp_path: Path) -> None:
    events = stream("regression")

    def run(horizon: Horizon, **options: Any) -> None:
        job(events, model_of("regression"), horizon, **options).run()

    for horizon, message in [
        (Horizon(0), "whole number of events"),
        (Horizon(1.5), "whole number of events"),  # type: ignore[arg-type]
        (Horizon("24h"), "whole number of events"),
        (Horizon(timedelta(hours=-3)), "whole number of events"),
        (Horizon([]), "one or more"),
        (Horizon([3, 3]), "each once"),
        (Horizon(3, series="y"), "name another one"),
        (Horizon(3, time="at"), "leave it out"),
        (Horizon(3, held_events=0), "held_events"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            run(horizon)
    with pytest.raises(InvalidInput, match="label="):
        run(Horizon(3), label=None)
    with pytest.raises(InvalidInput, match="its own figures"):
        run(Horizon([3, 4]), slice="of")
    with pytest.raises(InvalidInput, match="named fields"):
        attached(
            MemorySource((np.zeros((5, 2)), np.zeros(5))),
            model_of("regression"),
            label="y",
            labels=Horizon(3),
        )
    ordinals = MemorySource([event for _, event in events])
    with pytest.raises(InvalidInput, match="the events have no time"):
        attached(ordinals, model_of("regression"), label="y", labels=Horizon(timedelta(hours=1)))
    run(Horizon(3), checkpoint=tmp_path)
    with pytest.raises(StateError, match="horizon"):
        run(Horizon(4), checkpoint=tmp_path)


def test_damaged_held_events_are_refused(tmp_path: Path) -> None:
    attempt = job(
        stream("regression"), model_of("regression"), Horizon([9, 2]), checkpoint=tmp_path
    )
    attempt.run()
    trainer, found = attempt._trainer, newest_checkpoint(tmp_path / "member-0")
    assert found is not None
    held = found.held
    assert held is not None
    trainer.restore_held(held)
    for text in (b"[", b'[["", 3, [[]]]]', b'[["", 1, [[], []]], ["", 1, [[], []]]]', b"[1]"):
        damaged = {**held.arrays, "series": np.frombuffer(text, np.uint8)}
        with pytest.raises(StateError):
            trainer.restore_held(replace(held, arrays=damaged))
