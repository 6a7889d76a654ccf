"""A topic of requests answered by the command, killed and started again, while a job learns on."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked_kit
import pytest
from cli_kit import click_events, ndjson, streamk
from crash_kit import outputs
from kafka_kit import producer

import streamk as package

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(240),
    pytest.mark.slow,
    pytest.mark.usefixtures("kafka_client"),
]

MakeTopic = Callable[..., str]
N = 400


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a job that has learned from a file."""
    home = tmp_path_factory.mktemp("learned")
    (home / "events.ndjson").write_bytes(ndjson(click_events()))
    options = ("--label", "clicked", "--checkpoint", "state", "--quiet")
    streamk("run", "file:events.ndjson", *options, cwd=home)
    return home / "state"


def requests() -> list[dict[str, Any]]:
    return [{k: v for k, v in e.items() if k != "clicked"} for e in click_events(N)]


def send(address: str, topic: str, events: list[dict[str, Any]], partitions: int = 1) -> None:
    with producer(address) as out:
        for i, event in enumerate(events):
            value = json.dumps(event).encode()
            out.send(topic, value, partition=i % partitions, timestamp_ms=1_700_000_000_000 + i)
        out.flush()


def test_every_request_is_answered_though_the_process_is_killed(
    kafka_address: str, kafka_topic: MakeTopic, state: Path, tmp_path: Path
) -> None:
    asked, answered = kafka_topic(2), kafka_topic()
    send(kafka_address, asked, requests(), partitions=2)
    command = [sys.executable, "-m", "streamk", "predict", str(state)]
    command += [f"kafka://{kafka_address}/{asked}", "--to", f"kafka://{kafka_address}/{answered}"]
    command += ["--checkpoint", "place", "--checkpoint-every", "50", "--quiet"]
    for _ in range(3):
        process = forked_kit.popen(command, cwd=tmp_path)
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("place/member-0/0*/manifest.json")):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = forked_kit.run([*command, "--until-end"], cwd=tmp_path, timeout=120, check=True)
    assert done.returncode == 0
    model = package.load(state)
    found = outputs(kafka_address, answered)
    assert len(found) == N, "each at least once"
    for (partition, offset), values in found.items():
        place = 2 * offset + int(partition.rpartition(":")[2])
        expected = model.predict_one(requests()[place])
        assert {value["prediction"] for value in values} == {expected}, "and always the same"


def test_a_job_learns_on_history_and_goes_live(
    kafka_address: str, kafka_topic: MakeTopic, state: Path, tmp_path: Path
) -> None:
    topic = kafka_topic()
    live = click_events(900)[600:]
    send(kafka_address, topic, live)
    address = f"kafka://{kafka_address}/{topic}"
    command = ("run", address, "--label", "clicked", "--start-from", state, "--checkpoint", "live")
    for most in (150, 300):
        limit = ("--until-end", "--max-events", str(most))
        out, err = streamk(*command, *limit, "--json", cwd=tmp_path)
        assert json.loads(out)["learned"] == most, err
    (tmp_path / "all.ndjson").write_bytes(ndjson(click_events(900)))
    options = ("--label", "clicked", "--checkpoint", "whole", "--quiet")
    streamk("run", "file:all.ndjson", *options, cwd=tmp_path)
    one, other = (package.load(tmp_path / name).learner.state() for name in ("live", "whole"))
    assert one.header == other.header
    assert all((one.arrays[name] == array).all() for name, array in other.arrays.items())
