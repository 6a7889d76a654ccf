"""The command as users run it: a process, its exit status, what it prints and what it writes."""

from __future__ import annotations

import csv
import gc
import inspect
import json
import os
import random
import re
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from cli_kit import click_events, ndjson, streamk

from connectors.registry import open_sink
from streamk import backends, cli
from streamk.cli import dispatch, models, predict, run
from streamk.cli.arguments import UsageError
from streamk.cli.model_options import build, options_of, task_of
from streamk.cli.run import MODEL, _parser
from streamk.distributed.sharded import ROUND_EVENTS
from streamk.engine import Engine
from streamk.engine.checkpoints.directory_store import DirectoryStore
from streamk.engine.options import FLAGS
from streamk.errors import BackendUnavailable, InvalidInput, StateError, StreamkError
from streamk.kernels import KERNELS
from streamk.late import LateLabels
from streamk.learners import (
    MODELS,
    DoublyStochastic,
    EigenPro,
    FeatureMachine,
    Ladder,
    MultiKernel,
    OnlineKernelRidge,
    OnlineNystrom,
    StreamingMeka,
)
from streamk.losses import LOSSES

N_EVENTS = 400
DEFAULT = ("run", "file:events.ndjson", "--label", "clicked")
SMALL = ("--model", "doubly-stochastic", "--set", "max_features=64", "--set", "block_size=64")
RUN = (*DEFAULT, *SMALL)
"""A job of a model that is quick."""


def read_ndjson(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a file of events."""
    (tmp_path / "events.ndjson").write_bytes(ndjson(click_events(N_EVENTS)))
    return tmp_path


# --- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), *((name,) for name in dispatch.COMMANDS)])
def test_help_fits_80_columns_and_names_every_command(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    out, err = streamk(*arguments, "--help", cwd=tmp_path)
    assert not err
    assert max(map(len, out.splitlines())) <= 80
    if not arguments:
        assert all(re.search(rf"^  {name} ", out, re.MULTILINE) for name in dispatch.COMMANDS)


@pytest.mark.parametrize("name", ["run", "inspect"])
def test_help_of_a_command_is_there_by_two_names(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([name, "--help"]) == cli.main(["help", name]) == 0
    once = capsys.readouterr().out
    assert once[: len(once) // 2] * 2 == once
    assert f"usage: streamk {name}" in once


def test_defaults_in_the_help_are_those_of_the_engine() -> None:
    engine = inspect.signature(Engine).parameters
    late = inspect.signature(LateLabels).parameters
    defaults = {name: getattr(engine[part].default, own) for name, (part, own) in FLAGS.items()}
    defaults |= {name: option.default for name, option in late.items()}
    shown = {
        action.dest: float(found[1])
        for action in _parser()._actions
        if (found := re.search(r"\(default ([\d.]+)\)", action.help or ""))
    }
    assert shown.pop("seed") == 0
    assert shown.pop("round_events") == ROUND_EVENTS
    assert shown.pop("staleness") == 0
    assert {"checkpoint_every", "idle_timeout", "window"} <= shown.keys()
    assert shown == {name: defaults[name] for name in shown}


def test_the_help_of_run_shows_twenty_flags_and_on_request_all(tmp_path: Path) -> None:
    out, _ = streamk("run", "--help", cwd=tmp_path)
    every, _ = streamk("run", "--help-all", cwd=tmp_path)
    assert max(map(len, every.splitlines())) <= 80
    first = set(re.findall(r"^  (--\S+)", out, re.MULTILINE))
    flags = set(re.findall(r"^  (--\S+)", every, re.MULTILINE))
    known = {action.option_strings[-1] for action in _parser()._actions if action.option_strings}
    assert len(first - {"--help-all", "--debug"}) == 20
    assert first < flags | {"--help"} == known


@pytest.mark.parametrize("module", [run, predict])
def test_the_command_has_every_option_of_the_engine(module: Any) -> None:
    of_code = {"on_progress", "progress_interval", "observer", "buffer_events", "buffer_bytes"}
    of_model = {"label", "schema", "absent", "ignore", "text", "start_from", "window"}
    of_model |= {"entity", "time", "spans", "max_entities"}
    of_code |= set() if module is run else of_model
    assert FLAGS.keys() - {action.dest for action in module._parser()._actions} == of_code


def test_version_and_no_command(tmp_path: Path) -> None:
    out, _ = streamk("--version", cwd=tmp_path)
    assert re.fullmatch(r"streamk \d+\.\d+\.\d+\S*\n", out)
    out, err = streamk(cwd=tmp_path, status=2)
    assert not out
    assert "usage: streamk COMMAND" in err


# --- models ---------------------------------------------------------------------------------------


def test_models_lists_all_there_is(tmp_path: Path) -> None:
    out, _ = streamk("models", cwd=tmp_path)
    assert max(map(len, out.splitlines())) <= 80
    options = [name for model in MODELS for name in options_of(model)]
    for name in (*MODELS, *KERNELS, *LOSSES, *options):
        assert re.search(rf"^  {name}\b", out, re.MULTILINE), name
    of_one, _ = streamk("models", "eigenpro", cwd=tmp_path)
    assert of_one.startswith("options of eigenpro (--set NAME=VALUE")
    assert out.endswith(of_one[of_one.index("kernels (--set") :])
    assert "  n_centers " in of_one
    assert "options of feature-machine" not in of_one
    assert models.MODELS.keys() == MODELS.keys()
    assert (models.KERNELS | models.OF_FEATURES).keys() == KERNELS.keys()


def test_every_option_of_the_learners_can_be_set() -> None:
    composed = {"bandwidth", "gamma", "nu", "alpha", "depth", "delta", "epsilon", "q"}
    elsewhere = {"self", "task", "seed", "columns", "classes", "clock"} | {
        "external_experts",
        "centers",
        "shards",
    }  # no words or numbers
    many = {"delta", "q"}
    of_kernel = composed - {"delta", "epsilon", "q"}
    for learner, more in (
        (DoublyStochastic, composed - {"depth"} | {"degree", "offset", "order", "weights"}),
        (StreamingMeka, composed - {"depth"}),
        (OnlineNystrom, composed),
        (MultiKernel, many),
        (OnlineKernelRidge, of_kernel),
        (EigenPro, of_kernel),
        (FeatureMachine, of_kernel - {"depth"}),
    ):
        own = inspect.signature(learner.__init__).parameters
        assert options_of(learner.TYPE).keys() == (own.keys() - elsewhere) | more


@pytest.mark.parametrize("model", [name for name in MODELS if name != MultiKernel.TYPE])
def test_the_kernels_of_a_model_and_their_options_are_those_shown(model: str) -> None:
    shown = options_of(model)
    without = re.findall(r"(linear|ntk|power_exponential)", shown["kernel"].about)
    if model != DoublyStochastic.TYPE:
        without += models.OF_FEATURES
    settings = {
        "bandwidth": ("gaussian", "0.3"),
        "gamma": ("laplacian", "0.3"),
        "nu": ("matern", "0.5"),
        "alpha": ("rational_quadratic", "2"),
        "depth": ("ntk", "2"),
        "degree": ("polynomial", "3"),
        "offset": ("polynomial", "0.5"),
        "order": ("arc_cosine", "2"),
    }
    for kernel in KERNELS:
        settled = [("kernel", kernel)]
        if kernel in without:
            with pytest.raises(InvalidInput, match=f"(?i){kernel}|{KERNELS[kernel].__name__}"):
                build(model, task="classification", seed=0, settings=settled)
        else:
            build(model, task="classification", seed=0, settings=settled)
    for option, (kernel, value) in settings.items():
        if option in shown:
            settled = [("kernel", kernel), (option, value)]
            made: Any = build(model, task="classification", seed=0, settings=settled)
            found = made.learner.kernel
            if option == "gamma":
                assert found.bandwidth == 1 / float(value)
            else:
                assert getattr(found, option) == float(value)
    assert ("depth" in shown) == ("ntk" not in without)
    if "weights" in shown:
        settled = [("kernel", "zonal"), ("weights", "0.5,1,0")]
        made = build(model, task="classification", seed=0, settings=settled)
        assert made.learner.kernel.weights == (0.5, 1.0, 0.0)


def test_an_expert_of_the_help_can_be_made(tmp_path: Path) -> None:
    text, _ = streamk("run", "--help", cwd=tmp_path)
    [example] = re.findall(r"\((eigenpro:\S+)\)", " ".join(text.split()))
    build(MODEL, task="classification", seed=0, settings=[], experts=[example])


@pytest.mark.parametrize("model", ["eigenpro", "doubly-stochastic"])
def test_an_expert_whose_device_is_missing_is_named(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: Any) -> Any:
        raise BackendUnavailable("backend 'cupy' needs a GPU")

    monkeypatch.setattr(backends, "select", missing)
    monkeypatch.setattr(backends, "select_devices", missing)
    expert = f"{model}:backend=cupy"
    said = f"^--expert {expert}: backend 'cupy' needs a GPU$"
    with pytest.raises(BackendUnavailable, match=said):
        build("multi-kernel", task="regression", seed=0, settings=[], experts=[expert])


def test_the_default_model_is_the_first() -> None:
    assert next(iter(MODELS)) == MODEL
    assert "(default)" in models.MODELS[MODEL]


LADDER = "ladder (2.0, 0.5, 0.125, 0.03125)"


@pytest.mark.parametrize(
    ("settings", "kernel", "loss", "step"),
    [
        ({}, "gaussian 0.5", "softmax", LADDER),
        ({"kernel": "matern", "nu": "2.5"}, "matern 0.5 2.5", "softmax", LADDER),
        ({"kernel": "rbf", "gamma": "2"}, "gaussian 0.5", "softmax", LADDER),
        (
            {"kernel": "linear", "step": "inverse-time:3"},
            "linear",
            "softmax",
            "inverse-time 3.0 1.5010986328125",
        ),
        (
            {"loss": "quantile", "q": "0.9"},
            "gaussian 0.5",
            "quantile 0.9",
            "ladder (1.0, 0.25, 0.0625, 0.015625)",
        ),
        ({"loss": "hinge", "step": "adagrad:.5"}, "gaussian 0.5", "hinge", "adagrad 0.5"),
    ],
)
def test_models_from_words(settings: dict[str, str], kernel: str, loss: str, step: str) -> None:
    words = list(settings.items())
    model = build("doubly-stochastic", task=task_of(words), seed=3, settings=words)
    learner = model.state().header["parts"]["learner"]  # type: ignore[index, call-overload]
    for key, expected in (("kernel", kernel), ("loss", loss), ("step", step)):
        values = sorted(learner[key].values(), key=lambda one: not isinstance(one, str))
        assert " ".join(map(str, values)) == expected
    assert model.is_classifier == (settings.get("loss") != "quantile")


def test_models_of_several_step_sizes_or_a_preconditioner_from_words() -> None:
    words = [("step", "ladder"), ("batch_size", "4"), ("loss", "squared")]
    model: Any = build("doubly-stochastic", task="regression", seed=3, settings=words)
    assert model.learner.step == Ladder((1.0, 0.25, 1 / 16, 1 / 64, 4.0))
    with pytest.raises((InvalidInput, UsageError), match="cannot be a Ladder"):
        build("online-nystrom", task="regression", seed=3, settings=words[:1])
    words = [("preconditioner", "block"), ("block_size", "64"), ("averaging", "true")]
    model = build("doubly-stochastic", task="classification", seed=3, settings=words)
    found = model.learner
    assert (found.preconditioner, found.averaging, found.step) == ("block", True, None)
    assert found.batch_size == 128


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (
            "doubly-stochastic",
            ("batch_size", "block_size", "max_features", "cache_bytes", "sampler", "dtype"),
        ),
        ("online-nystrom", ("forgetting", "max_landmarks", "tol")),
        ("streaming-meka", ("rank", "n_clusters", "buffer_size", "first", "every", "swap_delay")),
        ("streaming-meka", ("max_error", "max_shift", "growth", "tol")),
        (MODEL, ("pending_bytes",)),
    ],
)
def test_the_defaults_that_are_told_are_the_models_own(model: str, names: tuple[str, ...]) -> None:
    header: Any = build(model, task="classification", seed=0, settings=[]).state().header
    learner = header if model == MODEL else header["parts"]["learner"]
    for name in names:
        shown = f"{learner[name]:g}" if name == "forgetting" else learner[name]
        assert options_of(model)[name].about.endswith(f"({shown})"), name


@pytest.mark.parametrize(
    ("settings", "loss"),
    [
        ({"loss": "squared"}, {"name": "squared"}),
        ({"loss": "huber", "delta": "0.5"}, {"name": "huber", "delta": 0.5}),
        ({"loss": "quantile", "q": "0.9"}, {"name": "quantile", "q": 0.9}),
    ],
)
def test_a_loss_of_many_kernels_from_words(
    settings: dict[str, str], loss: dict[str, object]
) -> None:
    words = list(settings.items())
    assert build(MODEL, task="regression", seed=0, settings=words).state().header["loss"] == loss
    with pytest.raises(InvalidInput, match="is for numbers"):
        build(MODEL, task="classification", seed=0, settings=words)
    assert task_of(words) == ("classification" if "squared" in settings.values() else "regression")


ONE = "doubly-stochastic"


@pytest.mark.parametrize(
    ("model", "setting", "says"),
    [
        (ONE, "bandwith=1", "did you mean 'bandwidth'"),
        (ONE, "colour=1", "there are kernel"),
        (ONE, "bandwidth=wide", "must be a number, not 'wide'"),
        (ONE, "bandwidth=-1", "must be a positive number"),
        (ONE, "kernel=gausian", "did you mean 'gaussian'"),
        ("kernel-ridge", "kernel=ntk depth=2.5", "depth: must be a whole number, not '2.5'"),
        ("kernel-ridge", "kernel=ntk depth=13", "depth=13 of NTK must be a whole number from 1 to"),
        (ONE, "loss=softmin", "did you mean 'softmax'"),
        (ONE, "step=fast:1", "one of constant, inverse-time, adagrad"),
        (ONE, "step=adagrad", "--set step: 'adagrad' needs a size: adagrad:SIZE"),
        (ONE, "step=ladder:3", "'ladder' finds its sizes by itself; leave out :3"),
        (ONE, "averaging=yes", "'yes' is not one of true, false"),
        (ONE, "delta=1", "needs a loss: --set loss=huber"),
        (ONE, "nu=2", "kernel 'gaussian' takes no nu, which is for matern"),
        (MODEL, "q=0.5", "needs a loss: --set loss=quantile"),
        (MODEL, "class_weight=even", "'even' is neither balanced nor LABEL:WEIGHT"),
        (MODEL, "class_weight=a:b", "must be a number, not 'b'"),
        (MODEL, "pending_byte=1", "did you mean 'pending_bytes'"),
        (MODEL, "threads=0", "the minimum is 1"),
        (MODEL, "bandwith=1", "did you mean 'bandwidth'? It is for --model doubly-stochastic"),
        (
            MODEL,
            "colour=1",
            "there are loss, delta, q, class_weight, effort, max_classes, memory, pending_bytes,",
        ),
    ],
)
def test_wrong_model_options_are_explained(model: str, setting: str, says: str) -> None:
    pairs = [(name, text) for name, _, text in (one.partition("=") for one in setting.split())]
    with pytest.raises(StreamkError, match=re.escape(says)):
        build(model, task="classification", seed=0, settings=pairs)
    with pytest.raises(InvalidInput):
        build(model, task="guessing", seed=0, settings=[])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("balanced", "balanced"),
        ("spam:5", {"spam": 5.0}),
        ("0:1,1:20.5", {0: 1.0, 1: 20.5}),
        ('"1":2,a:b:3,true:4', {"1": 2.0, "a:b": 3.0, True: 4.0}),
    ],
)
def test_class_weights_from_words(text: str, found: Any) -> None:
    model = build(MODEL, task="classification", seed=0, settings=[("class_weight", text)])
    assert isinstance(model, MultiKernel)
    assert model.class_weight == found
    assert [*map(type, model.class_weight)] == [*map(type, found)]


# --- run ------------------------------------------------------------------------------------------


def test_a_second_run_goes_on_and_a_third_finds_nothing_new(home: Path) -> None:
    to = ("--to", "file:out.ndjson", "--checkpoint", "state", "--json")
    first = json.loads(streamk(*RUN, *to, "--max-events", "320", cwd=home)[0])
    assert (first["stopped"], first["events"]) == ("max_events", 320)
    assert len(read_ndjson(home / "out.ndjson")) == 320
    second = json.loads(streamk(*RUN, *to, cwd=home)[0])
    assert (second["stopped"], second["events"], second["events_now"]) == (
        "end",
        N_EVENTS,
        N_EVENTS - 320,
    )
    assert second["learned"] == N_EVENTS
    written = (home / "out.ndjson").read_bytes()
    third = json.loads(streamk(*RUN, *to, cwd=home)[0])
    assert third["events_now"] == 0
    assert (home / "out.ndjson").read_bytes() == written

    # In one go it comes to the same predictions, to the last bit.
    streamk(*RUN, "--to", "file:whole.ndjson", "--quiet", cwd=home)
    assert (home / "whole.ndjson").read_bytes() == written
    assert [one["offset"] for one in read_ndjson(home / "out.ndjson")] == list(range(N_EVENTS))


def test_a_job_goes_on_with_the_model_of_its_checkpoint(home: Path) -> None:
    run = (*DEFAULT, "--checkpoint", "state", "--set", "max-features=64", "--json")
    begun = (*run, "--max-events", "256", "--model", "doubly-stochastic")
    assert json.loads(streamk(*begun, cwd=home)[0])["features"] == 64
    ended = json.loads(streamk(*run, cwd=home)[0])
    assert (ended["events_now"], ended["features"]) == (N_EVENTS - 256, 64)
    _, err = streamk(*DEFAULT, "--checkpoint", "state", "--model", MODEL, cwd=home, status=1)
    assert "--model: " in err
    assert "made with model type='doubly-stochastic', but this run has 'multi-kernel';" in err


def test_figures_that_are_asked_for(home: Path) -> None:
    (home / "job.toml").write_text('metrics = ["F1", "ROCAUC,CohenKappa"]\n')
    out, _ = streamk(*RUN, "--config", "job.toml", "--json", cwd=home)
    report = json.loads(out)
    names = ["accuracy", "log_loss", "F1", "ROCAUC", "CohenKappa"]
    assert list(report["whole"]) == list(report["window"]) == names
    assert report["baselines"]["whole"].keys() == {"no_change", "majority"}
    assert sum(n for *_, n in report["confusion"]) == N_EVENTS - 1
    assert [row["label"] for row in report["per_class"]] in ([True, False], [False, True])
    assert report["since"] == {}


def test_the_report_is_a_table_for_people(home: Path) -> None:
    out, err = streamk(*RUN, cwd=home)
    assert re.search(rf"the stream has ended: {N_EVENTS} events in", out)
    for name in ("accuracy", "  no change", "  majority", "log loss"):
        assert re.search(rf"^  {name} +[01]\.\d{{4}} +[01]\.\d{{4}}$", out, re.MULTILINE)
    assert re.search(r"^  class +events +recall +(true +false|false +true)$", out, re.MULTILINE)
    assert "5 columns" in out
    # No terminal: a log of lines for people, or of JSON.
    assert all(re.match(r"\d{4}-\d\d-\d\d ", line) for line in err.splitlines())
    _, err = streamk(*RUN, "--json", cwd=home)
    assert all("level" in json.loads(line) for line in err.splitlines())


def test_csv_and_regression(tmp_path: Path) -> None:
    randomness = random.Random(1)
    with (tmp_path / "prices.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["x", "z", "price"])
        for _ in range(N_EVENTS):
            x, z = randomness.gauss(0, 1), randomness.gauss(0, 1)
            writer.writerow([x, z, 1000.5 + 100 * x * z])
    run = ("run", "csv:prices.csv", "--label", "price")
    out, _ = streamk(*run, "--task", "regression", "--to", "csv:out.csv", "--json", cwd=tmp_path)
    assert json.loads(out)["whole"]["mae"] < 100
    with (tmp_path / "out.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == N_EVENTS
    more = ("--set", "loss=huber", "--metrics", "R2,MAE")
    out, _ = streamk(*run, *SMALL, *more, cwd=tmp_path)
    for name in ("mae", "  last value", "  mean", "rmse", "R2", "MAE"):
        assert re.search(rf"^  {name} +-?\d+\.\d{{4}} +-?\d+\.\d{{4}}$", out, re.MULTILINE), name
    _, err = streamk(*run, cwd=tmp_path, status=2)
    assert "numbers are learned with the task regression" in err


def test_a_pipe_gets_predictions_only(tmp_path: Path) -> None:
    given = ndjson(click_events(N_EVENTS))
    run = ("run", "stdin:", "--label=clicked", "--to=stdout:", *SMALL)
    out, err = streamk(*run, cwd=tmp_path, given=given)
    predictions = [json.loads(line) for line in out.splitlines()]
    assert [one["offset"] for one in predictions] == list(range(N_EVENTS))
    names = ["partition", "offset", "timestamp", "prediction", "probabilities"]
    assert list(predictions[-1]) == names
    assert f"{N_EVENTS} learned" in err
    _, err = streamk(*run, "--quiet", "--json", cwd=tmp_path, given=given)
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(home: Path, number: signal.Signals) -> None:
    process = forked_kit.popen(
        [
            *(sys.executable, "-m", "streamk", "run", "file:events.ndjson?follow=true"),
            *("--label", "clicked", "--to", "stdout:", "--checkpoint", "state", *SMALL),
        ],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout:
        for _ in range(N_EVENTS):
            assert process.stdout.readline()
        process.send_signal(number)
        assert process.wait(60) == 0
    out, _ = streamk("inspect", "state", "--json", cwd=home)
    (checkpoint,) = json.loads(out)["checkpoints"]
    assert checkpoint["events"] == N_EVENTS


INTERRUPTED = """
import signal, sys
from streamk.cli import main

class AtTurn:
    turn = int(sys.argv[1])

    def find_spec(self, name, path=None, target=None):
        self.turn -= 1
        if not self.turn:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, AtTurn())
sys.exit(main(["run", "file:events.ndjson", "--label", "clicked"]))
"""
"""The command, interrupted when it imports so many modules."""


@pytest.mark.parametrize("turn", [1, 20, 100, 400])
def test_an_interrupt_of_its_imports_shows_no_traceback(home: Path, turn: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(turn)], cwd=home, capture_output=True, check=False
    )
    assert process.returncode == 130
    assert process.stderr == b""


def test_an_interrupt_that_a_module_in_c_makes_another_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def imported(_: str) -> Any:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("could not import") from None

    monkeypatch.setattr(dispatch, "command_of", imported)
    before = signal.getsignal(signal.SIGINT)
    assert cli.main(["models"]) == 130
    assert capsys.readouterr().err == ""
    assert signal.getsignal(signal.SIGINT) is before


def test_bad_events_go_to_the_dead_letters(home: Path) -> None:
    bad = b'["old"]\nnot json\n'
    with (home / "events.ndjson").open("ab") as file:
        file.write(bad)
    run = (*RUN, "--json")
    out, _ = streamk(*run, "--dead-letters", "file:dead.ndjson", cwd=home)
    assert sum(json.loads(out)["bad"].values()) == 2
    letters = read_ndjson(home / "dead.ndjson")
    assert [one["offset"] for one in letters] == [N_EVENTS, N_EVENTS + 1]
    assert all(one["reason"] for one in letters)
    out, _ = streamk(*run, cwd=home)
    assert sum(json.loads(out)["bad"].values()) == 2
    out, err = streamk(*run, "--max-bad-share", "0.001", cwd=home, status=1)
    assert "more than the allowed share of 0.001" in err
    out, err = streamk(*run, "--on-error", "raise", cwd=home, status=1)
    assert f"events.ndjson offset {N_EVENTS}" in err
    assert "--on-error skip" in err


def test_a_schema_can_be_printed_given_and_strict(home: Path) -> None:
    streamk(*RUN, "--ignore", "age", "--checkpoint", "state", cwd=home)
    out, _ = streamk("inspect", "state", "--schema", cwd=home)
    schema = json.loads(out)
    devices = ["device=desktop", "device=phone", "device=tablet"]
    assert sorted(schema["columns"]) == [*devices, "seconds"]
    schema["mode"] = "strict"
    (home / "schema.json").write_text(json.dumps(schema))
    out, _ = streamk("run", "file:events.ndjson", "--schema", "schema.json", "--json", cwd=home)
    assert json.loads(out)["columns"] == 4
    out, _ = streamk(*RUN, "--ignore", "age", "--schema", "strict", "--json", cwd=home)
    assert json.loads(out)["columns"] == 2
    assert json.loads(out)["bad"].keys() == {"unknown column"}
    schema["label_type"] = "colour"
    (home / "schema.json").write_text(json.dumps(schema))
    _, err = streamk("run", "file:events.ndjson", "--schema", "schema.json", cwd=home, status=2)
    assert "label_type" in err


# --- configuration --------------------------------------------------------------------------------

CONFIG = """\
source = "file:events.ndjson"
label = "clicked"
max-events = 128
window = 32
ignore = ["age"]
quiet = true
until-end = false
model = "doubly-stochastic"
[set]
kernel = "matern"
nu = 0.5
"""


def test_a_configuration_file_holds_the_same_names_and_flags_win(home: Path) -> None:
    (home / "job.toml").write_text(CONFIG)
    out, err = streamk("run", "--config", "job.toml", "--json", cwd=home)
    assert json.loads(out)["events"] == 128
    assert json.loads(out)["columns"] == 4
    assert not err
    more = ("--max-events", "64", "--set", "nu=1.5", "--checkpoint", "state", "--ignore", "seconds")
    out, _ = streamk("run", "--config", "job.toml", "--json", *more, cwd=home)
    assert json.loads(out)["events"] == 64
    assert json.loads(out)["columns"] == 4  # a list given as flags takes the file's place
    out, _ = streamk("inspect", "state", "--json", cwd=home)
    (checkpoint,) = json.loads(out)["checkpoints"]
    assert checkpoint["model"]["options"]["kernel"]["nu"] == 1.5


WRONG_CONFIGS = [
    ("lable = 'x'", "no option 'lable'; did you mean 'label'?"),
    ("config = 'x'", "no option 'config'"),
    ("seed = 'x'", "seed: must be a whole number, not 'x'"),
    ("absent = 'zeroes'", "did you mean 'zero'?"),
    ("quiet = 'yes'", "quiet: must be true or false, not 'yes'"),
    ("label = ['a', 'b']", "label: must be a word or a number, not a list"),
    ("label = ", "is not valid TOML"),
    ("set = 3", "set: write NAME=VALUE"),
    ("sasl_pasword = 'hunter2'", "no option 'sasl_pasword'"),
]
CONFIGS = [f"wrong{place}.toml" for place in range(len(WRONG_CONFIGS))]


# --- what can be wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("rnu", "no command 'rnu'; did you mean 'run'?"),
        *(
            (f"run file:x --config {name}", says)
            for name, (_, says) in zip(CONFIGS, WRONG_CONFIGS, strict=True)
        ),
        ("run {} --metrics F2", "no metric 'F2' for classification; did you mean F1"),
        ("run {} --metrics R2", "does not fit classification"),
        ("run {} --metrics F1,CohenKappa=true", "write it without =true"),
        ("run", "no SOURCE is given, for example file:events.ndjson"),
        ("run file:events.ndjson", "--label NAME is needed"),
        ("run events.ndjson --label y", "a scheme: file:events.ndjson"),
        (
            "predict file:events.ndjson state",
            "comes first: streamk predict state file:events.ndjson",
        ),
        ("models eigenpros", "did you mean 'eigenpro'?"),
        ("run kafak://h/t --label y", "no connector 'kafak' (did you mean 'kafka'?)"),
        ("run kafka:// --label y", "kafka://HOST:PORT/TOPIC"),
        ("run {} --sink z", "no option '--sink'; there is --to SINK"),
        ("run {} --to file:empty", "Is a directory"),
        ("run csv:table.csv --label z", "label 'z' is not in the header"),
        ("run {} --task regression", "not a number"),
        ("run {} --start-from empty", "empty holds no checkpoint"),
        ("predict empty file:events.ndjson", "holds no checkpoint"),
        ("models --bogus", "no option '--bogus'"),
        ("run file:event.ndjson --label clicked", "did you mean 'events.ndjson'?"),
        ("run csv:missing/a.csv --label y", "no file missing/a.csv"),
        ("run file:events.ndjson?folow=true --label y", "did you mean 'follow'?"),
        ("run river:Phising --label label", "did you mean 'Phishing'?"),
        ("run stdout: --label y", "stdout"),
        ("run file:events.ndjson --label clickd", "nearest of those that came: 'clicked'"),
        ("run file:events.ndjson --lable clicked", "no option '--lable'; did you mean '--label'?"),
        ("run file:events.ndjson --check x --label y", "did you mean '--checkpoint'?"),
        ("run file:events.ndjson more --label y", "1 argument(s) too many"),
        ("run file:events.ndjson --label", "argument --label: expected one argument"),
        ("run {} --model doubly", "no model 'doubly'; did you mean 'doubly-stochastic'?"),
        ("run {} --set bandwidth", "write NAME=VALUE"),
        ("run {} --model doubly-stochastic --set bandwidth=0", "must be a positive number"),
        ("run {} --window 0", "the minimum is 1"),
        ("run {} --idle-timeout -1", "a time span cannot be negative"),
        ("run {} --on-error skipp", "did you mean 'skip'?"),
        ("run {} --max-bad-share 1.5", "1.5 must lie between 0 and 1"),
        ("run {} --on-error dead-letter", "needs --dead-letters SINK"),
        ("run {} --on-error skip --dead-letters file:d", "gets nothing with --on-error skip"),
        ("run {} --transactions", "it needs --checkpoint DIR"),
        ("run {} --checkpoint s --transactions 0", "at least 0.1 and at most 60"),
        ("run {} --checkpoint s --to file:o --transactions", "need a sink that can write in them"),
        ("run {} --schema opne", "did you mean 'open'?"),
        ("run {} --schema events.ndjson", "events.ndjson is not JSON"),
        ("run {} --to file:events.ndjson", "SOURCE and --to are both file:events.ndjson"),
        ("run {} --to file:no/where.ndjson", "no directory no to write where.ndjson in"),
        ("run {} --to river:Phishing", "river"),
        ("run {} --to file:./events.ndjson", "SOURCE and --to are both file:./events.ndjson"),
        ("run {} --to file:link.ndjson", "SOURCE and --to are both file:link.ndjson"),
        (
            "run csv:2024-*.csv --label a --to csv:2024-out.csv",
            "csv:2024-out.csv would be one",
        ),
        ("run parquet:. --label a --to parquet:out/new", "--to parquet:out/new would be one of"),
        ("run parquet:. --label a --to csv:new.csv", "no file matches"),
        ("run {} --to csv:o --dead-letters csv:o", "--to and --dead-letters are both csv:o"),
        ("run {} --checkpoint events.ndjson", "must be a directory"),
        ("run {} --config jop.toml", "no configuration file jop.toml"),
        ("run kafka://localhost --label y", "is not a topic name"),
        ("run kafka://localhost/t?sasl_plain_password=hunter2 --label y", "sasl_plain_password"),
        ("run kafka://localhost/t --label y --password=hunter2", "no option '--password'"),
        ("run kafka://localhost/t --label y --sasl-password hunter2", "'--sasl-password'"),
        ("run kafka://localhost/t?security_file=secrets.toml --label y", "secrets.toml"),
        ("--verison", "no option '--verison'; did you mean '--version'?"),
        ("inspect", "required: CHECKPOINT"),
        ("inspect event", "no checkpoint event; did you mean 'events.ndjson'?"),
        ("inspect events.ndjson", "a checkpoint is a directory"),
        ("inspect .", "holds no checkpoint"),
        ("run {} --labels file:labels.ndjson", "--labels needs --key NAME"),
        ("run {} --key id", "--key is for labels that come later; it needs --labels SOURCE or"),
        ("run {} --label-timeout 7d", "--label-timeout is for labels"),
        ("run {} --label-revisions learn", "--label-revisions is for labels"),
        ("run {} --labels file:l --key id --label-default 0", "needs --label-timeout"),
        ("run {} --labels file:l --key id --label-timeout 7w", "'7w' is not a time span"),
        ("run {} --labels file:events.ndjson --key id", "SOURCE and --labels are both"),
        ("run {} --labels file:l --key id --held-events 0", "too small"),
        ("run file:events.ndjson --labels file:l --key id", "--label NAME is needed"),
        ("run {} --round-events 9", "--round-events needs --workers or --shards"),
        ("run {} --ray local", "--ray needs --workers or --shards"),
        ("run {} --workers 3 --shards 2", "3 workers are more than the 2 shards"),
        ("run {} --workers 2 --ray 127.0.0.1:1", "no Ray cluster answers there"),
        ("run {} --promote-after 1000", "--promote-after is for a job with --challenger"),
        ("run {} --challenger lean", "NAME=MODEL"),
        ("run {} --challenger =eigenpro", "NAME=MODEL"),
        ("run {} --challenger lean=lightgbm", "lean=lightgbm: no model 'lightgbm'"),
        ("run {} --challenger a=eigenpro:x=1", "--challenger a=eigenpro:x=1: x: eigenpro has no"),
        ("run {} --challenger a.b=eigenpro", "'a.b' cannot be the name of a model"),
        (
            "run {} --challenger a=eigenpro --challenger a=eigenpro",
            "another challenger is already called a",
        ),
        (
            "run {} --challenger multi-kernel=eigenpro",
            "this job's own model is already called multi-kernel",
        ),
        (
            "run {} --challenger a=eigenpro --workers 2",
            "--challenger cannot be combined with --workers",
        ),
        ("run {} --challenger a=eigenpro --labels file:l --key age", "cannot be combined"),
        ("run {} --http 0.0.0.0:8000", "can be reached from other machines: give a token"),
        ("run {} --http x", "'x' is not an address"),
        ("run {} --token-file x", "--token-file is for a job with --http"),
        ("run {} --http :0 --token-file x", "no token file x"),
        ("demo --out .", "holds files of something else"),
        ("demo --out events.ndjson", "must be a directory"),
    ],
)
def test_a_wrong_command_is_explained(
    command: str,
    says: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = command.replace("{}", "file:events.ndjson --label clicked").split()
    monkeypatch.chdir(home)
    monkeypatch.setenv("COLUMNS", "80")
    (home / "link.ndjson").symlink_to("events.ndjson")
    (home / "table.csv").write_text("a,y\n1,2\n")
    (home / "empty").mkdir()
    (home / "secrets.toml").write_text("sasl_pasword = 'hunter2'\n")
    for name, (line, _) in zip(CONFIGS, WRONG_CONFIGS, strict=True):
        (home / name).write_text(line)
    assert cli.main(words) == 2
    out, err = capfd.readouterr()
    assert says in err
    assert "hunter2" not in err
    config = re.search(r"wrong\d+\.toml", command)
    assert config is None or config[0] in err
    assert not out
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if not re.match(r"\d{4}-", line)]
    assert re.match(r"streamk( \w+)?: ", lines[0])
    assert len(lines) <= 2
    assert (home / "events.ndjson").read_bytes() == ndjson(click_events(N_EVENTS))


def test_what_fails_while_running_exits_1(home: Path) -> None:
    checkpoint = ("--checkpoint", "state", "--quiet")
    streamk(*RUN, *checkpoint, cwd=home)
    out, err = streamk(*RUN, *checkpoint, "--absent", "missing", cwd=home, status=1)
    assert not out
    assert "made with absent='zero', but this run has 'missing';" in err
    assert len(err.splitlines()) == 1
    with pytest.raises(StateError):  # whose traceback is shown
        streamk(*RUN, *checkpoint, "--absent", "missing", "--debug", cwd=home)
    _, err = streamk(
        "run", "kafka://127.0.0.1:9/t?connect_timeout=0.2", "--label=y", cwd=home, status=1
    )
    assert "no Kafka broker answered at 127.0.0.1:9" in err


def test_a_second_process_of_one_job_is_refused(home: Path) -> None:
    job = (*RUN, "--checkpoint", "state", "--to", "file:out.ndjson")
    first = DirectoryStore(home / "state")
    _, err = streamk(*job, cwd=home, status=1)
    assert f"in use by process {os.getpid()} on" in err
    assert "another checkpoint directory" in err
    first.close()
    streamk(*job, cwd=home)
    assert len(read_ndjson(home / "out.ndjson")) == N_EVENTS
    with closing(open_sink(f"file:{home}/out.ndjson")):
        _, err = streamk(*RUN, "--to", "file:out.ndjson", cwd=home, status=2)
    assert "out.ndjson is being written by another sink or process" in err


def test_a_source_that_is_missing_is_told_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "preparing", None)
    _, err = streamk("run", "file:none.ndjson", "--label", "a", cwd=tmp_path, status=2)
    assert "none.ndjson" in err


# --- inspect --------------------------------------------------------------------------------------


def test_inspect_tells_what_a_checkpoint_holds(home: Path) -> None:
    streamk(*DEFAULT, "--checkpoint", "state", "--seed", "5", "--quiet", cwd=home)
    out, err = streamk("inspect", "state", cwd=home)
    assert not err
    for fact in (
        rf"epoch 2, {N_EVENTS} events, the stream has ended",
        r"SHA-256 ok",
        r"multi-kernel, \d,\d{3} features$",
        r"pending_bytes 8388608,\s+seed\s+5",
        r"5 columns +age, (device=\w+, )+seconds",
        r"classes +True, False|classes +False, True",
        r"accuracy +0\.\d{4}",
        rf"next offset +{N_EVENTS} of events.ndjson",
    ):
        assert re.search(fact, out, re.MULTILINE), fact
    assert max(map(len, out.splitlines())) <= 80
    for place in ("state/member-0", "state/member-0/00000002"):
        assert json.loads(streamk("inspect", place, "--json", cwd=home)[0])["checkpoints"]


@pytest.mark.parametrize(
    ("model", "settings", "counted", "hidden"),
    [
        ("online-nystrom", ("max_landmarks=7",), "7 landmarks", ("half_life", "None")),
        ("kernel-ridge", ("max_centers=64",), "80 centers", ("n_seen",)),
        ("eigenpro", ("n_centers=10", "batch_size=4"), "10 centers", ("n_learned", "choosing")),
    ],
)
def test_landmarks_and_centers_are_counted(
    model: str, settings: tuple[str, ...], counted: str, hidden: tuple[str, ...], home: Path
) -> None:
    options = [f"--set={setting}" for setting in settings]
    told, _ = streamk(*DEFAULT, "--model", model, *options, "--checkpoint", "state", cwd=home)
    assert f"5 columns, {counted}, 2 classes" in told
    out, _ = streamk("inspect", "state", cwd=home)
    assert f"{model}, {counted}" in out
    assert not [word for word in hidden if word in out]


def test_inspect_tells_the_step_that_predicts_and_finds_damage(home: Path) -> None:
    streamk(*RUN, "--checkpoint", "state", "--quiet", cwd=home)
    out, _ = streamk("inspect", "state", cwd=home)
    assert re.search(r"step +(2|0\.5|0\.125|0\.03125) predicts", out)
    (found,) = json.loads(streamk("inspect", "state", "--json", cwd=home)[0])["checkpoints"]
    assert found["model"]["leading_step"] in found["model"]["options"]["step"]["gammas"]
    model = home / "state" / "member-0" / "00000002" / "model.safetensors"
    whole = model.read_bytes()
    model.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    out, err = streamk("inspect", "state", "--json", cwd=home, status=1)
    assert [one["epoch"] for one in json.loads(out)["checkpoints"]] == [1]
    assert "model.safetensors: is damaged" in err
    _, err = streamk("inspect", model.parent, cwd=home, status=1)
    assert "is damaged" in err
    _, err = streamk("inspect", model.parent, "--schema", cwd=home, status=2)
    assert "so there is no schema" in err


# --- start ----------------------------------------------------------------------------------------


def test_garbage_is_not_searched_for_among_what_was_there_at_the_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["streamk", "--version"])
    searched, before = gc.isenabled(), gc.get_freeze_count()
    try:
        gc.enable()
        assert cli.main() == 0
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        gc.disable()  # as a program has it that calls the command
        assert cli.main(["--version"]) == cli.main() == 0
        assert not gc.isenabled()
    finally:
        (gc.enable if searched else gc.disable)()
    assert capsys.readouterr().out.startswith("streamk ")


# --- demo -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_demo_ends_with_a_table_and_a_picture(tmp_path: Path) -> None:
    made = tmp_path / "streamk-demo"
    (made / "state" / "member-0").mkdir(parents=True)
    (made / "predictions.ndjson").write_text("of an earlier demo\n")
    out, err = streamk("demo", cwd=tmp_path)
    assert err.startswith("streamk demo: loading; a first run on a machine compiles")
    assert "resuming from streamk-demo/state" in err
    rows = re.findall(r"^(\S.*\S) +([\d.]+)% +[\d.]+ +[\d,]+$", out, re.MULTILINE)
    accuracy = {name: float(figure) for name, figure in rows}
    best, second, _ = accuracy
    assert list(accuracy) == ["streamk kernel model", "River logistic regression", "majority class"]
    assert accuracy[best] > accuracy[second] > 70
    assert (made / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert len(read_ndjson(made / "predictions.ndjson")) == 2310
    out, _ = streamk("inspect", "streamk-demo/state", cwd=tmp_path)
    assert "2,310 events" in out


def test_texts_are_bags_of_words_where_they_are_said_to_be(tmp_path: Path) -> None:
    said = ["please refund it", "thanks", "refund now", "well done thanks"]
    events = [{"comment": said[i % 4], "clicked": i % 2 == 0} for i in range(200)]
    (tmp_path / "events.ndjson").write_bytes(ndjson(events))
    run = ("run", "file:events.ndjson", "--label", "clicked", "--text", "comment", "--explain")
    streamk(*run, "--checkpoint", "state", "--to", "file:said.ndjson", cwd=tmp_path)
    out, _ = streamk("inspect", "state", "--schema", cwd=tmp_path)
    schema = json.loads(out)
    assert schema["kinds"] == [["comment", "words"]]
    assert {"comment:refund", "comment:thanks"} <= set(schema["columns"])
    last = read_ndjson(tmp_path / "said.ndjson")[-1]
    assert {one["column"] for one in last["reasons"]} >= {"comment:thanks", "comment:done"}
    _, err = streamk(*run, "--ignore", "comment", cwd=tmp_path, status=2)
    assert "text='comment' is also ignored" in err
