"""README.md is true: its commands and its examples are taken from it and run.

All console commands but three run as they stand, in the order of the page, in one directory: the
two for a fresh machine would make an environment each (`.ci/run` runs one of them as it stands,
tests/project/test_wheel.py does what the other does), and those for Kafka need a broker's address.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_kit import click_events, ndjson, streamk
from crash_kit import read_all
from kafka_kit import producer, read

from connectors.kafka import KafkaSource

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
N_EVENTS = 300


def blocks(language: str) -> list[str]:
    """The fenced blocks of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line for block in blocks("console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for line in lines), "a console block holds commands only"
    return [line.removeprefix("$ ") for line in lines]


COMMANDS = commands()
FRESH = [command for command in COMMANDS if command.startswith("python3 -m venv ")]
BROKER = [command for command in COMMANDS if "local_kafka.py" in command]
KAFKA = [command for command in COMMANDS if "kafka://" in command]
PLAIN = [command for command in COMMANDS if command not in [*FRESH, *BROKER, *KAFKA]]


def environment() -> dict[str, str]:
    """The environment with this Python's programs first on the path, as when activated."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {**os.environ, "PATH": os.pathsep.join(folders)}


def start(command: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-c", f"exec {command}"],
        cwd=directory,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )


def run(command: str, directory: Path) -> str:
    """Run a command as it stands; return what it prints. `streamk` runs in this process."""
    words = shlex.split(command)
    if words[0] == "streamk" and ">" not in words:
        return streamk(*words[1:], cwd=directory)[0]
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_there_is_something_to_test() -> None:
    assert len(FRESH) == 2
    assert BROKER
    assert KAFKA
    assert PLAIN
    assert blocks("python")


@pytest.mark.parametrize("command", FRESH)
def test_a_fresh_machine_needs_python_only(command: str) -> None:
    venv, install, program = map(shlex.split, command.split(" && "))
    assert venv == ["python3", "-m", "venv", ".venv"]
    assert install[:2] == [".venv/bin/pip", "install"]

    target = install[-1]
    extras = re.findall(r"\w[\w-]*", target.partition("[")[2])
    assert target.partition("[")[0] == ".", "the project is installed from this directory"
    assert set(extras) <= PROJECT["optional-dependencies"].keys()

    name = program[0].removeprefix(".venv/bin/")
    required = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    assert name in PROJECT["scripts"] or any(re.match(rf"{name}\b", line) for line in required), (
        f"{name} is not installed by {shlex.join(install)}"
    )


@pytest.mark.nightly
@pytest.mark.slow
def test_the_main_command_runs(tmp_path: Path) -> None:
    (program,) = (
        command.rpartition(" && ")[2].removeprefix(".venv/bin/")
        for command in FRESH
        if "pytest" not in command
    )
    run(program, tmp_path)
    pictures = list(tmp_path.rglob("*.png"))
    assert pictures
    assert pictures[0].read_bytes().startswith(b"\x89PNG")


def test_plain_commands_run_in_order(tmp_path: Path) -> None:
    events = click_events(N_EVENTS)
    (tmp_path / "events.ndjson").write_bytes(ndjson(events))
    shown = [
        {**event, "ad": n, "at": 60_000 * n, "clicked": None} for n, event in enumerate(events)
    ]
    clicks = [
        {"ad": n, "at": 60_000 * n + 90_000, "clicked": True}
        for n, event in enumerate(events)
        if event["clicked"]
    ]
    for name, records in (("shown", shown), ("clicks", clicks)):
        (tmp_path / f"{name}.ndjson").write_bytes(ndjson(records))
    for command in PLAIN:
        run(command, tmp_path)
    predictions = (tmp_path / "predictions.ndjson").read_text()
    assert len(predictions.splitlines()) == N_EVENTS

    # "Run again, the command goes on where it stopped": here at the end of the file.
    (again,) = (command for command in PLAIN if "--checkpoint" in command)
    run(again, tmp_path)
    assert (tmp_path / "predictions.ndjson").read_text() == predictions


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("local_kafka")
@pytest.mark.parametrize("command", BROKER)
def test_a_local_broker_starts_and_stops(command: str) -> None:
    process = start(command, ROOT)
    try:
        assert re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
    finally:
        process.kill()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("command", KAFKA)
def test_kafka_commands_run_until_stopped(
    command: str, tmp_path: Path, kafka_address: str, kafka_topic: Callable[..., str]
) -> None:
    inputs, outputs = kafka_topic(), kafka_topic()
    with producer(kafka_address) as out:
        for event in click_events(N_EVENTS):
            out.send(inputs, json.dumps(event).encode())

    command = command.replace("localhost:9092/events", f"{kafka_address}/{inputs}")
    command = command.replace("localhost:9092/predictions", f"{kafka_address}/{outputs}")
    process = start(command, tmp_path)
    try:
        with closing(KafkaSource((kafka_address,), outputs)) as source:
            read(source, N_EVENTS)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, output
    records = list(read_all(kafka_address, outputs))
    assert len(records) == N_EVENTS, output
    assert all(record.headers for record in records)
    run("streamk inspect state", tmp_path)


@pytest.mark.parametrize("source", blocks("python"))
def test_python_examples_run(source: str) -> None:
    exec(compile(source, "README.md", "exec"), {"__name__": "readme"})


def test_extras_exist() -> None:
    named = re.findall(r"^\| `([\w-]+)` \|", README, flags=re.MULTILINE)
    assert named
    assert set(named) <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing
