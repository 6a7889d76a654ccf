"""The feature machine among the experts of the command's default model, and jobs without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_kit import click_events, ndjson, streamk

from streamk.cli.arguments import UsageError
from streamk.cli.model_options import build, experts_of
from streamk.contest import Contest
from streamk.contest.command import header_of
from streamk.distributed import Sharded
from streamk.learners import create

RUN = ("run", "file:events.ndjson", "--label", "clicked", "--checkpoint", "state")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "events.ndjson").write_bytes(ndjson(click_events(250)))
    return tmp_path


def experts(home: Path) -> list[str]:
    """The types of the external experts of the last checkpoint."""
    out, _ = streamk("inspect", "state", "--json", cwd=home)
    model = json.loads(out)["checkpoints"][-1]["model"]
    return [one["type"] for one in model["experts"]]


def made(*given: str, **options: Any) -> Any:
    chosen = {"experts": given} if given else {}
    settings: Any = options.pop("settings", [])
    return build("multi-kernel", task="regression", seed=3, settings=settings, **chosen, **options)


def test_it_is_there_unless_others_are_named() -> None:
    plain = create("multi-kernel", task="regression", seed=3)
    assert made().state().header == plain.state().header
    assert made("none").external_experts == []
    assert [one["type"] for one in made("kernel-ridge").external_experts] == ["kernel-ridge"]
    both = made("feature-machine", "kernel-ridge").external_experts
    assert [one["type"] for one in both] == ["feature-machine", "kernel-ridge"]
    with pytest.raises(UsageError, match="--expert none cannot be combined with other experts"):
        made("none", "kernel-ridge")


def test_one_that_is_named_is_as_the_one_by_default() -> None:
    assert made("feature-machine").state().header == made().state().header
    (one,) = made("feature-machine:first=128").external_experts
    assert (one["first"], one["max_width"]) == (128, 256)
    for text, width in (("9", 9), ("none", None)):
        (one,) = made(f"feature-machine:max_width={text}").external_experts
        assert one["max_width"] == width
    alone: Any = build("feature-machine", task="regression", seed=0, settings=[])
    assert alone.learner.max_width is None


@pytest.mark.parametrize("text", ["None", "other", "none:seed=1", "none,seed=1"])
def test_a_name_that_there_is_not(text: str) -> None:
    with pytest.raises(UsageError, match=f"--expert {text}: no model .* none, alone") as caught:
        made(text)
    assert "kernel-ridge" in str(caught.value)
    assert "multi-kernel" not in str(caught.value)


def test_what_a_job_has_that_goes_on_from_a_saved_model() -> None:
    assert experts_of(made().state().header) == ["feature-machine"]
    assert experts_of(made("kernel-ridge").state().header) == ["kernel-ridge"]
    assert experts_of(made("none").state().header) == ["none"]
    assert experts_of(create("kernel-ridge", task="regression").state().header) is None
    assert experts_of(made().state().header, ["eigenpro:seed=1"]) == ["eigenpro:seed=1"]


def test_a_job_has_it_and_goes_on_with_it(home: Path) -> None:
    streamk(*RUN, "--max-events", "100", cwd=home)
    assert experts(home) == ["feature-machine"]
    streamk(*RUN, "--max-events", "150", cwd=home)
    streamk(*RUN, "--expert", "feature-machine", cwd=home)
    shown, _ = streamk("inspect", "state", cwd=home)
    assert "feature-machine: buffer_size 4096" in shown
    assert ", start " not in " ".join(shown.split())
    _, err = streamk(*RUN, "--expert", "none", cwd=home, status=1)
    assert "--expert: " in err
    assert "external_experts='feature-machine', but this run has None;" in err


@pytest.mark.parametrize("effort", ["0", "0.5", "none"])
def test_a_job_goes_on_with_its_effort(effort: str, home: Path) -> None:
    chosen = ("--set", f"effort={effort}")
    streamk(*RUN, *chosen, "--max-events", "100", cwd=home)
    streamk(*RUN, *chosen, cwd=home)
    streamk(*RUN[:-1], "other", *chosen, "--start-from", "state", cwd=home)


def test_an_expert_that_is_named_has_the_effort_of_the_model() -> None:
    for text, effort in (("0.5", 0.5), ("none", None)):
        settings = [("effort", text)]
        (one,) = made("feature-machine", settings=settings).external_experts
        assert one["effort"] == effort
        assert made("feature-machine", settings=settings).state().header == (
            made(settings=settings).state().header
        )
    (one,) = made("feature-machine:effort=2", settings=[("effort", "0.5")]).external_experts
    assert one["effort"] == 2.0


def test_a_job_goes_on_with_those_that_were_named(home: Path) -> None:
    named = ("--expert", "kernel-ridge", "--expert", "feature-machine")
    streamk(*RUN, *named, "--max-events", "100", cwd=home)
    streamk(*RUN, "--max-events", "150", cwd=home)
    assert experts(home) == ["kernel-ridge", "feature-machine"]
    streamk(*RUN, *named, cwd=home)
    other = (*RUN[:-1], "other")
    streamk(*other, "--expert", "kernel-ridge:max_centers=99", "--max-events", "100", cwd=home)
    _, err = streamk(*other, cwd=home, status=1)
    assert "model external_experts.0.max_centers=99, but this run has" in err


def test_a_job_without_one_goes_on_without(home: Path) -> None:
    (home / "job.toml").write_text("expert = []\n")
    streamk(*RUN, "--config", "job.toml", "--max-events", "100", cwd=home)
    assert experts(home) == []
    streamk(*RUN, cwd=home)  # as of a streamk that had none by default
    assert experts(home) == []
    streamk(*RUN[:-1], "other", "--start-from", "state", cwd=home)
    streamk(*RUN[:-1], "shards", "--start-from", "state", "--shards", "2", cwd=home)


def test_in_shards_there_is_none_unless_it_is_named(home: Path) -> None:
    shards = ("--shards", "2", "--round-events", "16")
    streamk(*RUN, *shards, "--max-events", "100", cwd=home)
    assert experts(home) == []
    streamk(*RUN, *shards, cwd=home)
    assert Sharded(made()).learner.external_experts == []
    assert Sharded(made("feature-machine")).learner.external_experts != []
    named = (*RUN[:-1], "named", *shards, "--expert", "feature-machine")
    streamk(*named, "--max-events", "100", cwd=home)
    streamk(*named, cwd=home)


def test_inspect_tells_of_one_that_rests_for_good(home: Path) -> None:
    streamk(*RUN, "--expert", "feature-machine:max_width=2", cwd=home)
    out, _ = streamk("inspect", "state", "--json", cwd=home)
    (one,) = json.loads(out)["checkpoints"][-1]["model"]["experts"]
    assert one["rests"].startswith("permanently: ")
    text, _ = streamk("inspect", "state", cwd=home)
    assert "rests permanently" in " ".join(text.split())


def test_shards_go_on_with_the_machine_of_the_model_that_they_begin_with(home: Path) -> None:
    streamk(*RUN, "--max-events", "100", cwd=home)
    job = (*RUN[:-1], "shards", "--start-from", "state", "--shards", "2")
    streamk(*job, "--max-events", "150", cwd=home)
    streamk(*job, cwd=home)
    out, _ = streamk("inspect", "shards", "--json", cwd=home)
    assert json.loads(out)["checkpoints"][-1]["model"]["experts"]


def test_challengers_have_it_as_the_checkpoint_has_it(home: Path) -> None:
    challenged = (*RUN, "--challenger", "many=multi-kernel:max_classes=9")
    model = create("multi-kernel", task="classification", max_classes=9, external_experts=())
    own = create("multi-kernel", task="classification", external_experts=())
    header = Contest({"multi-kernel": own, "many": model}).state().header
    assert experts_of(header_of(header, "many") or {}) == ["none"]
    assert experts_of(header_of(header, "multi-kernel") or {}) == ["none"]
    assert header_of(header, "other") is None
    assert header_of(own.state().header, "many") is None
    streamk(*challenged, "--expert", "none", "--max-events", "100", cwd=home)
    streamk(*challenged, cwd=home)
    out, _ = streamk("inspect", "state", "--json", cwd=home)
    assert json.loads(out)["checkpoints"][-1]["model"]["experts"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--expert", "none", "--set", "effort=0.5"], "--set effort is for a feature-machine"),
        (["--expert", "kernel-ridge", "--set", "effort=none"], "is for a feature-machine, and"),
        (["--shards", "2", "--set", "effort=0.5"], "a model in shards has none"),
        (["--set", "effort=much"], "must be a number, not 'much' (or none)"),
    ],
)
def test_an_effort_of_no_use_is_an_error(options: list[str], said: str, home: Path) -> None:
    _, err = streamk(*RUN, *options, cwd=home, status=2)
    assert said in " ".join(err.split())
