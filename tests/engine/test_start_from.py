"""What may change from one run of a job to the next, and a job that begins with another's model."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, learner, run, same_model, split
from multi_kernel_kit import pool_alone

from connectors.files.sinks import NDJSONSink
from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_source
from streamk.cli import main
from streamk.contest import Contest
from streamk.contest.command import change_champion
from streamk.distributed import Sharded
from streamk.engine import Key, Report, Snapshot, newest_checkpoint
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.checkpoints.files import lock
from streamk.engine.checkpoints.reading import newest_of_all
from streamk.engine.order.sequence import Pass
from streamk.errors import EngineError, InvalidInput, StateError
from streamk.late import LateLabels
from streamk.learners import Scaled, create

HISTORY, LIVE = events(120, seed=1), events(80, seed=2, first=120)


def test_a_job_begins_with_the_model_of_another(tmp_path: Path) -> None:
    run(HISTORY, checkpoint=tmp_path / "history")
    sink = MemorySink()
    live = run(LIVE, start_from=tmp_path / "history", sink=sink)
    whole = MemorySink()
    both = run(HISTORY + LIVE, sink=whole)
    assert same_model(live.model, both.model)
    assert [o.value for o in sink.outputs] == [o.value for o in whole.outputs[len(HISTORY) :]]
    assert live.events == live.counts.learned == len(LIVE), "only what is learned here counts"
    assert live.schema == both.schema


def test_a_restart_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    run(HISTORY, checkpoint=tmp_path / "history")
    expected = run(LIVE, start_from=tmp_path / "history")
    options: dict[str, Any] = {"start_from": tmp_path / "history", "checkpoint": tmp_path / "live"}
    run(LIVE, **options, max_events=0)
    run(LIVE, **options, max_events=33)
    run(HISTORY + LIVE, checkpoint=tmp_path / "history")  # which moves on meanwhile
    found = run(LIVE, **options)
    assert same_model(found.model, expected.model)
    again = run(LIVE, checkpoint=tmp_path / "live")  # the option is not needed any more
    assert same_model(again.model, expected.model)


def test_nothing_to_start_from(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no checkpoint"):
        run(LIVE, start_from=tmp_path)
    with pytest.raises(InvalidInput, match="holds no checkpoint"):
        newest_of_all(tmp_path / "nowhere")


def test_another_model_or_label_is_refused(tmp_path: Path) -> None:
    run(HISTORY, checkpoint=tmp_path)
    with pytest.raises(StateError, match="label='y', but this run has 'c'"):
        run(LIVE, start_from=tmp_path, label="c")
    with pytest.raises(StateError, match=r"model regularization=0\.0, but this run has 0\.5"):
        run(LIVE, start_from=tmp_path, model=learner(regularization=0.5))
    with pytest.raises(StateError, match=r"model regularization=0\.0, but this run has 0\.5"):
        run(LIVE, start_from=tmp_path, model=Sharded(learner(regularization=0.5)))
    with pytest.raises(StateError, match="type='doubly-stochastic', but this run has 'sharded'"):
        run(LIVE, checkpoint=tmp_path, model=Sharded(learner()))


def test_shards_may_begin_and_end_from_one_job_to_the_next(tmp_path: Path) -> None:
    sharded = {"shards": 2, "round_events": 4}
    run(HISTORY, checkpoint=tmp_path / "plain")
    found = run(LIVE, start_from=tmp_path / "plain", model=Sharded(learner(), **sharded))
    assert found.model.rounds == 80 // 8
    assert found.model.n_events == 200
    run(HISTORY, checkpoint=tmp_path / "shards", model=Sharded(learner(), **sharded))
    plain = run(LIVE, start_from=tmp_path / "shards")
    assert type(plain.model) is type(learner())
    assert plain.model.n_events == 200


@pytest.mark.parametrize("shards", [2, 3])
def test_shards_may_begin_with_the_champion_of_another_job(shards: int, tmp_path: Path) -> None:
    models = {"own": learner(), "other": learner(regularization=0.5)}
    run(HISTORY, checkpoint=tmp_path, model=Contest(models))
    sharded = {"shards": shards, "round_events": 4}
    found = run(LIVE, start_from=tmp_path, model=Sharded(learner(), **sharded))
    expected = run(LIVE, start_from=tmp_path)
    assert found.model.n_events == expected.model.n_events == 200
    assert found.model.rounds > 0
    with pytest.raises(StateError, match="the champion of the checkpoint is 'own'"):
        run(LIVE, start_from=tmp_path, model=Sharded(learner(regularization=0.5), **sharded))


def test_the_same_sink_is_cut_back_and_another_is_not(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out.ndjson"
    run(LIVE, checkpoint=state, max_events=30, sink=NDJSONSink(out))
    with out.open("a") as file:
        file.write('{"after": "the checkpoint"}\n')
    (tmp_path / "other.ndjson").write_text('{"not": "ours"}\n')
    run(LIVE, checkpoint=state, max_events=40, sink=NDJSONSink(out))
    assert len(out.read_text().splitlines()) == 40
    run(LIVE, checkpoint=state, sink=NDJSONSink(tmp_path / "other.ndjson"))
    kept = (tmp_path / "other.ndjson").read_text().splitlines()
    assert kept[0] == '{"not": "ours"}'
    assert len(kept) == 41


def lines(stream: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(event) + "\n" for event in stream)


def test_the_command_may_change_all_but_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("events.ndjson").write_text(lines(LIVE))
    ran = ("--label", "y", "--ignore", "id", "--json", "--quiet")

    def job(source: str, *options: str) -> dict[str, Any]:
        assert main(["run", source, *ran, *options]) == 0
        report: dict[str, Any] = json.loads(capsys.readouterr().out)
        return report

    whole = job("file:events.ndjson", "--to", "file:whole.ndjson", "--metrics", "CohenKappa")
    first = ("--max-events", "30", "--window", "20", "--metrics", "F1=up")
    job("file:events.ndjson", "--checkpoint", "state", *first, "--to", "file:a.ndjson")
    Path("events.ndjson").rename("moved.ndjson")
    second = ("--window", "7", "--metrics", "CohenKappa,ROCAUC=up", "--checkpoint-every", "11")
    sinks = ("--to", "csv:b.csv", "--dead-letters", "file:bad.ndjson", "--set", "threads=2")
    report = job("file:moved.ndjson", "--checkpoint", "state", *second, *sinks)
    assert (report["events"], report["events_now"]) == (80, 50)
    assert report["whole"]["CohenKappa"] == whole["whole"]["CohenKappa"]
    assert report["since"] == {"ROCAUC=up": 29}
    expected, a = (
        [json.loads(line)["prediction"] or "" for line in Path(name).read_text().splitlines()]
        for name in ("whole.ndjson", "a.ndjson")
    )
    with Path("b.csv").open(newline="") as file:
        b = [row["prediction"] for row in csv.DictReader(file)]
    assert a + b == expected


def test_a_file_is_known_by_another_name(tmp_path: Path) -> None:
    written = [json.dumps(event) + "\n" for event in LIVE]
    path, state = tmp_path / "events.ndjson", tmp_path / "state"
    path.write_text("".join(written[:60]))

    def read(path: Path, **options: Any) -> Report:
        source = open_source(f"file:{path}")
        model = options.pop("model", None) or learner()
        more = {"label": "y", "ignore": ("id",), "checkpoint": state, **options}
        return attached(source, model, **more).run()

    read(path, max_events=30)
    path = path.rename(tmp_path / "moved.ndjson")
    with path.open("a") as file:
        file.write("".join(written[60:]))  # it may have grown
    read(path, max_events=50)
    packed = tmp_path / "packed.ndjson.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    found = read(packed)
    assert same_model(found.model, run(LIVE).model)
    assert found.learned == {"packed.ndjson.gz": [[0, len(LIVE)]]}
    other = tmp_path / "other.ndjson"
    other.write_text("".join(reversed(written)))
    with pytest.raises(EngineError, match="is of another file"):
        read(other)


# --- challengers ----------------------------------------------------------------------------------

N = 400
Maker = Callable[[], Any]


def small(**options: Any) -> Any:
    options = {"block_size": 64, "max_features": 64, **options}
    return create("doubly-stochastic", task="classification", **options)


def worse() -> Any:
    """A model that learns next to nothing."""
    return small(kernel="linear", step=1e-6)


MODELS: dict[str, Maker] = {
    "first": worse,
    "small": small,
    "gathers": lambda: Scaled(learner()),
    "near": lambda: create("online-nystrom", task="classification", max_landmarks=16),
    "many": lambda: pool_alone(seed=1),
}


def contest(*names: str, promote_after: int = 0, **more: Maker) -> Contest:
    made = {name: MODELS[name]() for name in names or MODELS}
    made |= {name: make() for name, make in more.items()}
    return Contest(made, promote_after=promote_after)


def stream() -> tuple[dict[str, Any], dict[str, Any]]:
    """Partitions whose later events have new fields and texts, and some of them no label."""
    data, times = split(N, 3)
    for one in (event for some in data.values() for event in some):
        if one["id"] % 3 and one["id"] > 150:
            one["later"] = f"t{one['id'] % 7}"
        if one["id"] % 11 == 0:
            del one["y"]
    return data, times


def values(sink: MemorySink) -> list[Any]:
    return [output.value for output in sink.outputs]


# --- the same bits --------------------------------------------------------------------------------


def test_each_model_learns_as_in_a_job_of_its_own() -> None:
    data, times = stream()
    sink, said = MemorySink(), MemorySink()
    found = run(MemorySource(data, timestamps=times), contest(), sink=sink).model
    for name, make in MODELS.items():
        of_first = said if name == "first" else MemorySink()
        alone = run(MemorySource(data, timestamps=times), make(), sink=of_first)
        assert same_model(found.models[name], alone.model), name
        standing = found.standings["models"][name]
        # Events that bring a column are predicted once more with it, to be compared.
        assert standing["events"] == pytest.approx(alone.counts.learned, abs=1)
        assert standing["whole"]["accuracy"] == pytest.approx(alone.whole["accuracy"], abs=0.02)
    assert values(sink) == values(said)


def test_the_figures_of_the_champion_are_those_of_the_job() -> None:
    shown: list[Snapshot] = []
    report = run(HISTORY, contest("first", "near"), on_progress=shown.append, window=50)
    standings = report.model.standings
    assert shown[-1].contest == standings
    whole = standings["models"]["first"]["whole"]
    assert whole["accuracy"] == pytest.approx(report.whole["accuracy"], abs=0.02)
    near = standings["models"]["near"]["window"]["accuracy"]
    assert f"  near {near:.3f}" in shown[-1].line()
    assert "first" not in shown[-1].line()


# --- other challengers from run to run ------------------------------------------------------------


def test_challengers_begin_in_a_job_that_had_none(tmp_path: Path) -> None:
    run(HISTORY, worse(), checkpoint=tmp_path)
    report = run(HISTORY + LIVE, contest("first", "near"), checkpoint=tmp_path)
    assert same_model(report.model.models["first"], run(HISTORY + LIVE, worse()).model)
    assert report.model.models["near"].n_events == len(LIVE)
    near = report.model.standings["models"]["near"]
    assert (near["began"], near["events"]) == (len(HISTORY), len(LIVE) - 1)
    whole = run(HISTORY, contest("first", "near"), checkpoint=tmp_path / "again", max_events=0)
    assert whole.events == 0  # a contest of nothing is resumed, too
    again = run(HISTORY, contest("first", "near"), checkpoint=tmp_path / "again")
    assert same_model(again.model, run(HISTORY, contest("first", "near")).model)


def test_challengers_begin_and_are_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streamk.engine")
    run(HISTORY, contest("first", "small", "near"), checkpoint=tmp_path)
    report = run(HISTORY + LIVE, contest("first", "gathers", "near"), checkpoint=tmp_path)
    assert list(report.model.models) == ["first", "near", "gathers"]
    assert same_model(report.model.models["near"], run(HISTORY + LIVE, MODELS["near"]()).model)
    assert "the challenger gathers begins here" in caplog.text
    assert "the model small is dropped: this run does not name it" in caplog.text


def test_a_run_without_challengers_goes_on_with_the_champion(tmp_path: Path) -> None:
    run(HISTORY, contest("first", "near"), checkpoint=tmp_path)
    report = run(HISTORY + LIVE, worse(), checkpoint=tmp_path)
    assert same_model(report.model, run(HISTORY + LIVE, worse()).model)
    change = tmp_path / "other"
    run(HISTORY, contest("first", "near"), checkpoint=change)
    change_champion(change, lambda found: found.promote("near"))
    for other in (worse(), contest("first", "small")):
        with pytest.raises(StateError, match="the champion of the checkpoint is 'near', which is"):
            run(HISTORY + LIVE, other, checkpoint=change)
    report = run(HISTORY + LIVE, MODELS["near"](), checkpoint=change)
    assert same_model(report.model, run(HISTORY + LIVE, MODELS["near"]()).model)


def test_a_champion_keeps_its_name_where_it_is_the_runs_own_model(tmp_path: Path) -> None:
    run(HISTORY, contest("first", "near"), checkpoint=tmp_path)
    change_champion(tmp_path, lambda found: found.promote("near"))
    # The run's own model is known by what it was, whatever its name.
    own = Contest({"own": MODELS["near"](), "small": MODELS["small"]()})
    report = run(HISTORY + LIVE, own, checkpoint=tmp_path)
    assert list(report.model.models) == ["near", "small"]
    assert report.model.champion == "near"


def test_models_that_began_otherwise_are_refused(tmp_path: Path) -> None:
    run(HISTORY, contest("first", "near"), checkpoint=tmp_path)
    for other, says in (
        (
            contest("first", near=lambda: small(kernel="laplacian")),
            "the model 'near' started differently in the checkpoint",
        ),
        (
            Contest({"a": pool_alone(), "b": worse()}),
            "was made with model type='doubly-stochastic', but this run has",
        ),
        (
            Contest({"a": worse(), "first": worse()}),
            "own model is not in the checkpoint, or is also given as a",
        ),
    ):
        with pytest.raises(StateError, match=says):
            run(HISTORY + LIVE, other, checkpoint=tmp_path)
    few = contest("first", "near", few=lambda: small(max_classes=2))
    three = [{**event, "y": "odd"} for event in LIVE[:1]]
    run(HISTORY + three, contest("first", "near"), checkpoint=tmp_path)
    with pytest.raises(StateError, match="no challenger can be added to the checkpoint: with few"):
        run(HISTORY + three + LIVE, few, checkpoint=tmp_path)


def test_a_job_begins_with_the_models_of_another(tmp_path: Path) -> None:
    run(HISTORY, worse(), checkpoint=tmp_path / "plain")
    live = run(LIVE, contest("first", "near"), start_from=tmp_path / "plain").model
    assert same_model(live.models["first"], run(HISTORY + LIVE, worse()).model)
    assert live.models["near"].n_events == len(LIVE)
    run(HISTORY, contest("first", "near"), checkpoint=tmp_path / "several")
    live = run(LIVE, contest("first", "near"), start_from=tmp_path / "several").model
    assert same_model(live.models["near"], run(HISTORY + LIVE, MODELS["near"]()).model)


# --- promotion by command -------------------------------------------------------------------------


def test_a_promoted_challenger_predicts_from_the_next_event_on(tmp_path: Path) -> None:
    sink, near = MemorySink(), MemorySink()
    run(HISTORY, contest("first", "near"), checkpoint=tmp_path, sink=sink)
    ((path, _),) = change_champion(tmp_path, lambda found: found.promote("near"))
    assert path.name == "00000003"
    run(HISTORY + LIVE, contest("first", "near"), checkpoint=tmp_path, sink=sink)
    run(HISTORY + LIVE, MODELS["near"](), sink=near)
    assert values(sink)[len(HISTORY) :] == values(near)[len(HISTORY) :] != []
    change_champion(tmp_path, Contest.roll_back)
    header = newest_checkpoint(tmp_path).model.header
    assert header["champion"] == "first"
    assert [(one["champion"], one["events"]) for one in header["promotions"]] == [
        ("near", len(HISTORY)),
        ("first", len(HISTORY + LIVE)),
    ]
    kept = sorted(path.name for path in (tmp_path / "member-0").glob("[0-9]*[0-9]"))
    assert kept == ["00000003", "00000004", "00000005"]


def test_a_promotion_is_signed(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(bytes(range(32)))
    file.chmod(0o600)
    key, state = Key.read(file), tmp_path / "state"
    run(HISTORY, contest("first", "near"), checkpoint=state, state_key=file)
    with pytest.raises(
        StateError, match="is signed, but this run would write unsigned checkpoints"
    ):
        change_champion(state, lambda found: found.promote("near"))
    change_champion(state, lambda found: found.promote("near"), key)
    report = run(HISTORY + LIVE, contest("first", "near"), checkpoint=state, state_key=file)
    assert report.model.champion == "near"


def test_what_cannot_be_promoted(tmp_path: Path) -> None:
    def promote(place: Path, name: str = "near") -> None:
        change_champion(place, lambda found: found.promote(name))

    with pytest.raises(InvalidInput, match="holds no checkpoint"):
        promote(tmp_path)
    plain, state = tmp_path / "plain", tmp_path / "state"
    run(HISTORY, worse(), checkpoint=plain)
    with pytest.raises(InvalidInput, match="has no challengers; add them with"):
        promote(plain)
    run(HISTORY, contest("first", "near"), checkpoint=state)
    with pytest.raises(InvalidInput, match="'other' is no model here; the challengers are near"):
        promote(state, "other")
    held = lock(state / "member-0")
    with pytest.raises(EngineError, match="is in use by process"):
        promote(state)
    os.close(held)
    store = DirectoryStore(state, alone=True)
    store.find()
    store.write_passes([Pass("t:0", 1, 1)])
    store.close()
    with pytest.raises(EngineError, match="start and stop it once more"):
        promote(state)
    assert newest_checkpoint(state).epoch == 2


# --- what challengers exclude ---------------------------------------------------------------------


def test_late_labels_are_refused() -> None:
    late = LateLabels(MemorySource([{"id": 1, "y": "up"}]), key="id", timeout=1.0)
    with pytest.raises(InvalidInput, match="challengers do not take late labels"):
        attached(MemorySource(HISTORY), contest(), label="y", labels=late)


def test_details_are_the_champions() -> None:
    def numbers() -> Any:
        return pool_alone(task="regression", seed=1)

    stream = [{"a": e["a"], "b": e["b"], "y": e["a"] * e["b"]} for e in HISTORY[:60]]
    options: dict[str, Any] = {"interval": 0.9, "explain": True, "ignore": ()}
    sink, said = MemorySink(), MemorySink()
    run(stream, Contest({"a": numbers(), "b": numbers()}), sink=sink, **options)
    run(stream, numbers(), sink=said, **options)
    assert values(sink) == values(said)
    other = create("doubly-stochastic", task="regression").learner
    with pytest.raises(InvalidInput, match="reasons need a model that takes missing"):
        run(stream, Contest({"a": numbers(), "b": other}), **options)
