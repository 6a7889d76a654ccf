"""The demos run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import forked_kit
import pytest

DEMOS = Path(__file__).parents[2] / "demos"


def run(demo: str, *arguments: str, cwd: Path) -> str:
    done = forked_kit.run(
        [sys.executable, str(DEMOS / demo), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_river_loop(tmp_path: Path) -> None:
    lines = run("river_loop.py", cwd=tmp_path).splitlines()
    assert "Accuracy: " in lines[0]
    # The twin out of a pickle predicts the same, to the last bit.
    assert lines[-2].partition(": {")[2] == lines[-1].partition(" {")[2]


def test_self_expressive(tmp_path: Path) -> None:
    exact, clustered, denoised, drawn = run("self_expressive.py", cwd=tmp_path).splitlines()
    assert exact == "1,000 points of rank 20: exact with 20 landmarks of oasis"
    assert float(clustered.partition(": ")[2].partition("%")[0]) >= 99
    assert float(denoised.partition("codes ")[2].partition("%")[0]) <= 7.5
    picture = tmp_path / drawn.removeprefix("drawn in ")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.kafka
@pytest.mark.slow
def test_kafka_quickstart(tmp_path: Path, kafka_address: str) -> None:
    out = run("kafka_quickstart.py", "--broker", kafka_address, cwd=tmp_path)
    assert "produced 1,250 events" in out
    assert "learned 625 events, 625 in all" in out
    assert "resumed, learned 625 events, 1,250 in all" in out
    assert "read 1,250 predictions back" in out
    assert "1,250 events have one, 0 more than one" in out


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("local_kafka")
def test_local_kafka_makes_topics(tmp_path: Path) -> None:
    from kafka import KafkaConsumer

    broker = subprocess.Popen(
        [sys.executable, DEMOS / "local_kafka.py", "--topic", "events", "--topic", "other:3"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert broker.stdout is not None
        address = broker.stdout.readline().split(" at ")[1].split()[0]
        consumer = KafkaConsumer(bootstrap_servers=address)
        assert {name: len(consumer.partitions_for_topic(name)) for name in ("events", "other")} == {
            "events": 1,
            "other": 3,
        }
        consumer.close()
        broker.terminate()
        assert broker.wait(60) == 0
        broker.stdout.close()
    finally:
        broker.kill()


def test_a_wrong_topic_is_explained(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DEMOS / "local_kafka.py", "--topic", "events:none"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "NAME:PARTITIONS" in done.stderr
