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
from crash_kit import BORN, fill, outputs
from kafka_kit import until

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


def test_every_request_is_answered_though_the_process_is_killed(
    kafka_address: str, kafka_topic: MakeTopic, state: Path, tmp_path: Path
) -> None:
    asked, answered = kafka_topic(2), kafka_topic()
    values = [json.dumps(event).encode() for event in requests()]
    fill(kafka_address, asked, ((i % 2, BORN + i, value) for i, value in enumerate(values)))
    command = [sys.executable, "-m", "streamk", "predict", str(state)]
    command += [f"kafka://{kafka_address}/{asked}", "--to", f"kafka://{kafka_address}/{answered}"]
    command += ["--checkpoint", "place", "--checkpoint-every", "50", "--quiet"]
    for _ in range(3):
        process = forked_kit.popen(command, cwd=tmp_path)
        until(lambda: [*tmp_path.glob("place/member-0/0*/manifest.json")], process=process)
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
