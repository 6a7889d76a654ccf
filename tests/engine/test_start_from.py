"""A job that begins with another job's model, and what may change from one run to the next."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from engine_kit import attached, events, learner, run, same_model

from connectors.files.sinks import NDJSONSink
from connectors.memory import MemorySink
from connectors.registry import open_source
from streamk.cli import main
from streamk.contest import Contest
from streamk.distributed import Sharded
from streamk.engine import Report
from streamk.engine.checkpoints.reading import newest_of_all
from streamk.errors import EngineError, InvalidInput, StateError

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
    with pytest.raises(StateError, match="label='y', this run has 'c'"):
        run(LIVE, start_from=tmp_path, label="c")
    with pytest.raises(StateError, match=r"model regularization=0\.0, this run has 0\.5"):
        run(LIVE, start_from=tmp_path, model=learner(regularization=0.5))
    with pytest.raises(StateError, match=r"model regularization=0\.0, this run has 0\.5"):
        run(LIVE, start_from=tmp_path, model=Sharded(learner(regularization=0.5)))
    with pytest.raises(StateError, match="model type='doubly-stochastic', this run has 'sharded'"):
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


def test_figures_sinks_and_threads_may_change_between_runs(tmp_path: Path) -> None:
    expected = run(LIVE)
    state = tmp_path / "state"
    run(LIVE, checkpoint=state, max_events=30, sink=NDJSONSink(tmp_path / "a.ndjson"))
    sink = NDJSONSink(tmp_path / "b.ndjson")
    options: dict[str, Any] = {"window": 10, "checkpoint_every": 7}
    found = run(
        LIVE, model=learner(threads=2), checkpoint=state, max_events=60, sink=sink, **options
    )
    assert same_model(found.model, run(LIVE[:60]).model)
    sink = NDJSONSink(tmp_path / "b.ndjson")
    found = run(LIVE, checkpoint=state, sink=sink)
    assert same_model(found.model, expected.model)
    first, second = (
        (tmp_path / name).read_text().splitlines() for name in ("a.ndjson", "b.ndjson")
    )
    assert (len(first), len(second)) == (30, 50), "each prediction once, in the sink of its run"


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
