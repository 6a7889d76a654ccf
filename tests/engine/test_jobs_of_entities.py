"""A job whose model knows what users did: what it learns, tells, and goes on with."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_kit import Always, WhimsicalSource, attached, same_model

from connectors.memory import MemorySink, MemorySource
from streamk.contest import Contest
from streamk.distributed import Sharded
from streamk.encoding import Schema
from streamk.engine import Stream
from streamk.engine.training.options import Details, Fixed
from streamk.errors import InvalidInput, StateError
from streamk.kernels import Gaussian
from streamk.late import LateLabels
from streamk.learners import EntityMemory, MultiKernel, OnlineNystrom, Scaled
from streamk.learners.registry import create
from streamk.memory import entity_number
from streamk.serving.answers import Answers
from streamk.trained import load

OPTIONS: dict[str, Any] = {"label": "y", "entity": ("user", "shop.id"), "time": "ts"}
START = datetime(2026, 1, 1, tzinfo=UTC)


def payments(n: int = 400, seed: int = 0) -> list[dict[str, Any]]:
    """Payments of users, of which each has its usual amount; what is far above it is odd."""
    rng = random.Random(seed)
    usual = [10 ** rng.uniform(0.5, 2.5) for _ in range(12)]
    time, found = START, []
    for i in range(n):
        time += timedelta(seconds=round(rng.expovariate(1 / 600)))
        user, odd = rng.randrange(12), rng.random() < 0.3
        amount = usual[user] * rng.lognormvariate(0.0, 0.2) * (5 if odd else 1)
        event: dict[str, Any] = {"user": user, "shop": {"id": f"s{rng.randrange(4)}"}, "y": odd}
        event |= {"amount": round(amount, 2), "ts": time.isoformat(), "id": i}
        if i % 17 == 3:
            del event["user"]
        if i > 200:
            event["late"] = rng.random()
        found.append(event)
    return found


def few(**options: Any) -> MultiKernel:
    return MultiKernel(**{"external_experts": (), "seed": 1, **options})


def run(events: Any, model: Any = None, **options: Any) -> Any:
    source = MemorySource(events) if isinstance(events, list) else events
    given = {**OPTIONS, "ignore": ("id",), **options}
    return attached(source, model or few(), **given).run()


def test_the_model_is_one_that_remembers_the_entities() -> None:
    sink = MemorySink()
    events = payments()
    report = run(events, sink=sink)
    model = report.model
    assert isinstance(model, EntityMemory)
    assert model.columns == report.schema.columns
    assert report.schema.kinds["user"] == "entity"
    assert report.schema.kinds["ts"] == "clock"
    assert model.spans == (3600.0, 86_400.0, 2_592_000.0)
    names = model.learner.columns or ()
    assert {"user.amount.mean_1d", "shop.id.label.mean", "ts@day_sin"} <= set(names)
    assert not {"user@entity", "user", "ts@elapsed"} & set(names)
    row = model.tables[0].row(entity_number("7"))
    mine = [event for event in events if event.get("user") == 7]
    assert row is not None
    assert row["count"] == len(mine)
    assert row["amount.mean"] == pytest.approx(np.mean([event["amount"] for event in mine]))
    assert row["label.mean"] == pytest.approx(np.mean([event["y"] for event in mine]))
    assert row["time"] == datetime.fromisoformat(mine[-1]["ts"]).timestamp()
    plain = run(events, entity=(), time=None, ignore=("id", "user", "shop.id", "ts"))
    assert report.whole["accuracy"] > plain.whole["accuracy"] + 0.1


def test_any_cut_and_any_crash_gives_the_same_bits(tmp_path: Path) -> None:
    events = payments()
    expected = MemorySink()
    whole = run(events, sink=expected)
    for whim in (1, 2):
        found = MemorySink()
        assert same_model(run(WhimsicalSource(events, whim=whim), sink=found).model, whole.model)
        assert found.outputs == expected.outputs
    found = MemorySink()
    for stop in (1, 2, 60, 199, 205, 333, 400):
        report = run(events, sink=found, checkpoint=tmp_path, max_events=stop)
    assert found.outputs == expected.outputs
    assert same_model(report.model, whole.model)
    with pytest.raises(StateError, match=r"\['user', 'shop.id'\], but this run has \['user'\]"):
        run(events, checkpoint=tmp_path, entity=("user",))
    with pytest.raises(StateError, match="max_entities=1000000, but this run has 5"):
        run(events, checkpoint=tmp_path, max_entities=5)
    run(events, checkpoint=tmp_path, spans=(3600.0, 86_400.0, 2_592_000.0))  # as by default
    with pytest.raises(StateError, match="spans="):
        run(events, checkpoint=tmp_path, spans=(60.0,))


def test_reasons_name_what_is_known_of_an_entity(tmp_path: Path) -> None:
    events, sink = payments(), MemorySink()
    report = run(events, sink=sink, explain=True, checkpoint=tmp_path)
    told = [reason for one in sink.outputs[100:] for reason in one.value["reasons"]]
    names = {reason["column"] for reason in told}
    assert names & {"user.amount.zscore", "user.amount.mean", "user.amount.mean_1d"}
    assert not {"user", "user@entity", "shop.id"} & names
    numbers = [one["value"] for one in told if one["column"].startswith("user.amount.")]
    assert all(isinstance(value, int | float | None) for value in numbers)
    (tmp_path / "other").mkdir()
    quiet = run(events, sink=(silent := MemorySink()), checkpoint=tmp_path / "other")
    assert same_model(quiet.model, report.model)
    assert [one.value["prediction"] for one in silent.outputs] == [
        one.value["prediction"] for one in sink.outputs
    ]
    model = load(tmp_path)
    text = model.debug_one({"user": 7, "amount": 5000.0, "ts": "2026-01-05", "shop": {"id": "s1"}})
    assert "user.amount.zscore = " in text
    assert "share of what the experts say" in text
    (answer,) = Answers(model).of([events[-1]], Details(explain=True))
    assert any(one["column"].startswith("user.") for one in answer["reasons"])


def test_the_live_page_tells_them() -> None:
    observer = Always()
    run(WhimsicalSource(payments(), whim=1), observer=observer)
    assert any(name.startswith("user.amount.") for name in observer.importances)
    assert observer.experts
    told = [one["reasons"] for one in observer.rows()["predictions"] if one["reasons"]]
    assert any(reason["column"].startswith("user.") for some in told for reason in some)


def test_who_only_predicts_only_looks(tmp_path: Path) -> None:
    events = payments()
    run(events[:300], checkpoint=tmp_path)
    model = load(tmp_path)
    before = model.learner.state()
    one_by_one = [model.predict_one(event) for event in events[300:]]
    assert model.predict_many(events[300:]) == one_by_one
    sink = MemorySink()
    learner, schema, _ = model.current
    attached(
        MemorySource(events[300:]),
        learner,
        schema=schema,
        ignore=schema.ignore,
        sink=sink,
        fixed=Fixed(),
    ).run()
    assert [one.value["prediction"] for one in sink.outputs] == one_by_one
    assert same_model(EntityMemory.from_state(before), model.learner)
    run(events, checkpoint=tmp_path)
    assert model.refresh()
    assert model.learner.tables[0].row(entity_number("7"))["count"] > 0


@pytest.mark.parametrize("milliseconds", [False, True])
def test_late_labels_know_the_entities_from_the_first_event(
    milliseconds: bool, tmp_path: Path
) -> None:
    """And times have one meaning for both."""
    events = payments(300)
    for event in events:
        event["late"] = 1.0
        if milliseconds:
            event["ts"] = int(1000 * datetime.fromisoformat(event["ts"]).timestamp())
    labels = [{"id": one["id"], "y": one["y"], "ts": one["ts"]} for one in events]
    unlabelled = [{name: x for name, x in one.items() if name != "y"} for one in events]

    def job(place: Path | None, most: int, whim: int | None = None) -> Any:
        def source(records: Any) -> Any:
            return MemorySource(records) if whim is None else WhimsicalSource(records, whim=whim)

        late = LateLabels(source(labels[40:]), key="id", time="ts")
        return run(
            source(unlabelled),
            labels=late,
            ignore=(),
            checkpoint=place,
            max_events=most,
            max_skew=1e9,
        )

    whole = job(None, 1000)
    table = whole.model.tables[0]
    users = {event.get("user") for event in events} - {None}
    rows = [table.row(entity_number(str(user))) for user in users]
    assert sum(row["count"] for row in rows) == sum("user" in event for event in events)
    assert sum(row["label.weight"] for row in rows) == sum("user" in event for event in events[40:])
    for stop in (30, 200, 333, 1000):
        report = job(tmp_path, stop, stop)
    assert same_model(report.model, whole.model)
    assert report.schema == whole.schema


def test_other_models_around_and_inside() -> None:
    events = payments()
    nystrom = create("online-nystrom", task="classification", max_landmarks=20)
    report = run(events, nystrom, max_entities=5, spans=(60.0,))
    assert isinstance(report.model.learner, Scaled)
    assert [table.max_entities for table in report.model.tables] == [5, 5]
    assert report.model.spans == (60.0,)
    names: Any = {"entities": ["user@entity", "shop.id@entity"], "time": "ts@elapsed"}
    given = EntityMemory(few(), **names)
    assert same_model(run(events, given).model, run(events).model)
    contest = Contest({"a": EntityMemory(few(), **names), "b": EntityMemory(few(seed=2), **names)})
    report = run(events, contest, explain=True)
    assert len(report.model.models["b"].tables[0]) == 12
    no_time = run(events, time=None)
    assert no_time.model.spans == ()
    assert no_time.schema.kinds["ts"] == "time"


def test_a_schema_may_name_them() -> None:
    events = payments()
    kinds: Any = {"user": "entity", "shop.id": "entity", "ts": "clock"}
    schema = Schema(label="y", kinds=kinds, ignore=("id",))
    named = attached(MemorySource(events), few(), schema=schema).run()
    assert same_model(named.model, run(events).model)


def test_what_cannot_be() -> None:
    events = payments(9)
    other = EntityMemory(few(), entities=["user@entity"])
    for model, match in (
        (OnlineNystrom(Gaussian(bandwidth=1.0)), "give a MultiKernel or a Scaled"),
        (few(columns=["amount"]), "has no columns yet"),
        (Sharded(few()), "entities and shards cannot be combined"),
        (other, "remembers other entities than those of user, shop.id"),
        (
            Contest({"a": few(), "b": few(seed=2)}),
            "each model of a contest must be an EntityMemory",
        ),
    ):
        with pytest.raises(InvalidInput, match=match):
            run(events, model)
    for model in (few(), Sharded(few()), few(task="regression", columns=["amount"])):
        with pytest.raises(InvalidInput, match="time='ts' is for entities; it needs entities= too"):
            run(events, model, entity=())
    with pytest.raises(InvalidInput, match="entities and shards cannot be combined"):
        Sharded(other)
    for options, match in (
        ({"entities": ("u",), "spans": (60.0,)}, "they need time="),
        ({"entities": ("y",)}, "entities='y' is also the label"),
        ({"entities": ("u",), "time": "u"}, "time='u' is among entities=, too"),
        ({"entities": ("u",), "text": ("u",)}, "entities='u' is also among text="),
        ({"entities": ("u",), "ignore": ("u",)}, "is also ignored"),
        ({"entities": ("u",), "schema": Schema(label="y")}, "'u': 'entity'"),
        ({"entities": ("u",), "max_entities": 0}, "max_entities"),
    ):
        with pytest.raises(InvalidInput, match=match):
            Stream(**{"label": "y", **options})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="spans"):
        run(events, spans=(-1.0,))
    report = run(events, entity=("user", "usr"))
    assert "entity 'usr'" in " ".join(report.notes)
    for n, event in enumerate(events):
        event["ts"] = 60 * n
    (note,) = run(events).notes
    assert "the times 'ts' of the events lie in 1970: numbers are read as milli" in note
