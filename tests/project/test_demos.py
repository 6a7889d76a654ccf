"""The demos run as they stand."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from pathlib import Path

import forked_kit
import pytest
from local_kafka import _topic

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


@pytest.mark.parametrize(
    ("text", "topic"), [("events", ("events", 1)), ("other:3", ("other", 3)), ("a:0", None)]
)
def test_topics_of_a_local_broker(text: str, topic: tuple[str, int] | None) -> None:
    if topic is None:
        with pytest.raises(ArgumentTypeError, match="NAME:PARTITIONS"):
            _topic(text)
    else:
        assert _topic(text) == topic
