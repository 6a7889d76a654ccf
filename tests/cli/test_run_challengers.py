"""`streamk run --challenger`, `streamk promote` and `rollback`, and a job that is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import crossed_events, kill, ndjson, results, streamk

from streamk.trained import load

SIZE = "block_size=64,max_features=64"
FIRST = ("--model", "doubly-stochastic", "--set", "kernel=linear", "--set", "step=1e-6")
LEAN = ("--challenger", f"lean=doubly-stochastic:{SIZE}")
NEAR = ("--challenger", "near=online-nystrom:max_landmarks=16")
RULE = ("--promote-after", "1000")
N = 3600


def stream() -> list[dict[str, Any]]:
    return crossed_events(N)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the events, and a job `ruled` that has promoted a challenger and has ended."""
    home = tmp_path_factory.mktemp("challengers")
    (home / "events.ndjson").write_bytes(ndjson(stream()))
    streamk(*arguments("ruled"), *FIRST, *LEAN, *NEAR, *RULE, cwd=home)
    return home


def arguments(name: str, *more: str) -> tuple[str, ...]:
    ends = ("--to", f"file:{name}.out", "--checkpoint", name, "--checkpoint-every", "1000")
    return ("run", "file:events.ndjson", "--label", "y", *ends, "--quiet", *more)


def contest(home: Path, name: str) -> Any:
    """Return the standings that `streamk inspect` shows."""
    shown, _ = streamk("inspect", name, "--json", cwd=home)
    return json.loads(shown)["checkpoints"][0]["model"]["contest"]


def test_a_better_challenger_is_promoted_by_rule(home: Path) -> None:
    found = contest(home, "ruled")
    (promotion,) = found["promotions"]
    assert found["champion"] == promotion["champion"] in ("lean", "near")
    assert promotion["former"] == "doubly-stochastic"
    assert promotion["events"] == 1001, "the first event is not compared: no class was known"
    assert promotion["wins"] > promotion["losses"]
    shown, _ = streamk("inspect", "ruled", cwd=home)
    assert f"{found['champion']} (champion): 0." in shown
    assert f"{found['champion']} for doubly-stochastic after 1,001 labels, by" in shown
    lines = [json.loads(line) for line in (home / "ruled.out").read_bytes().splitlines()]
    truth = [event.get("y") for event in stream()]
    hits = [line["prediction"] == truth[line["offset"]] for line in lines if truth[line["offset"]]]
    assert np.mean(hits[:900]) < 0.6
    assert np.mean(hits[-900:]) > 0.9


def test_challengers_begin_in_a_job_that_had_none(home: Path) -> None:
    streamk(*arguments("plain", "--max-events", "1000"), *FIRST, cwd=home)
    # Its own model need not be named again.
    own = ("--set", "kernel=linear", "--set", "step=1e-6")
    streamk(*arguments("plain", "--max-events", "1100"), *own, *LEAN, cwd=home)
    models = contest(home, "plain")["models"]
    assert models["doubly-stochastic"]["began"] == 0
    assert 800 < models["lean"]["began"] < 1000


@pytest.mark.slow
def test_a_killed_job_goes_on_as_if_nothing_had_happened(home: Path) -> None:
    kill(home, "killed", (*arguments("killed"), *FIRST, *LEAN, *NEAR, *RULE), epochs=(1, 2))
    streamk(*arguments("killed"), *FIRST, *LEAN, *NEAR, *RULE, cwd=home)
    assert results(home, "killed") == results(home, "ruled")


def test_promoted_by_command_and_rolled_back(home: Path) -> None:
    streamk(*arguments("led", "--max-events", "1000"), *FIRST, *LEAN, cwd=home)
    out, _ = streamk("promote", "led", "lean", cwd=home)
    assert out == "led/member-0/00000003: lean is the champion, doubly-stochastic a challenger\n"
    model = load(home / "led")
    assert (model.champion, model.challengers) == ("lean", ("doubly-stochastic",))
    answers = ("predict", "led", "file:events.ndjson", "--to", "file:answers", "--quiet")
    streamk(*answers, "--checkpoint", "answering", "--max-events", "10", cwd=home)
    # The command of the job stays as it was; the champion is the checkpoint's.
    streamk(*arguments("led", "--max-events", "2000"), *FIRST, *LEAN, cwd=home)
    lines = [json.loads(line) for line in (home / "led.out").read_bytes().splitlines()]
    streamk(*arguments("lean"), "--model", "doubly-stochastic", *sets(SIZE), cwd=home)
    alone = [json.loads(line) for line in (home / "lean.out").read_bytes().splitlines()]
    after = [line for line in lines if line["offset"] >= 1000]
    assert after == [line for line in alone if 1000 <= line["offset"] < 2000] != []
    out, _ = streamk("rollback", "led", cwd=home)
    assert "doubly-stochastic is the champion, lean a challenger" in out
    assert [one["by"] for one in contest(home, "led")["promotions"]] == ["command", "rollback"]
    streamk(*answers, "--checkpoint", "answering", "--max-events", "20", cwd=home)
    _, err = streamk("rollback", "led", cwd=home, status=2)
    assert "there is no promotion to roll back" in err
    _, err = streamk("promote", "led", "learn", cwd=home, status=2)
    assert "'learn' is no model here; the challengers are lean" in err


def sets(options: str) -> list[str]:
    return [part for option in options.split(",") for part in ("--set", option)]


def test_a_champion_goes_on_alone(home: Path) -> None:
    streamk(*arguments("alone", "--max-events", "1500"), *FIRST, *LEAN, cwd=home)
    streamk("promote", "alone", "lean", cwd=home)
    _, err = streamk(*arguments("alone"), *FIRST, cwd=home, status=1)
    assert "the champion of the checkpoint is 'lean'" in err
    streamk(*arguments("alone"), *sets(SIZE), cwd=home)  # its model need not be named
    assert contest(home, "alone") is None
    streamk(*arguments("lean2"), "--model", "doubly-stochastic", *sets(SIZE), cwd=home)
    assert results(home, "alone")[1] == results(home, "lean2")[1]


def test_the_table_and_a_configuration(home: Path) -> None:
    (home / "job.toml").write_text(
        'source = "file:events.ndjson"\nlabel = "y"\nmax-events = 1200\npromote-after = 500\n'
        'model = "doubly-stochastic"\n[set]\nkernel = "linear"\nstep = "1e-6"\n'
        f'[challenger]\nlean = "doubly-stochastic:{SIZE}"\n'
    )
    out, _ = streamk("run", "--config", "job.toml", cwd=home)
    assert "lean for doubly-stochastic after 501 labels, by" in out
    assert max(map(len, out.splitlines())) < 80
    rows = [line.split() for line in out.splitlines()]
    assert ["accuracy,", "log", "loss", "last", "ones"] in rows
    assert any(row[:2] == ["lean", "(champion)"] for row in rows)
