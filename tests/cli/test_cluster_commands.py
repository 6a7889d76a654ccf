"""The commands of the guide's section "A cluster", as a reader types them, on two local raylets."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from cli_kit import ndjson, streamk
from kafka_kit import producer
from process_kit import HAS_PROC, end_all
from ray_kit import real_ray

from streamk.engine import newest_checkpoint
from streamk.packing import fingerprint

PAGE = Path(__file__).parents[2] / "docs" / "scale_out.md"
HERE = "127.0.0.1"
NODE = "--num-cpus 1 --object-store-memory 80000000"
MODEL = "--model doubly-stochastic --set max_features=64 --set block_size=64 --round-events 64"
PATIENCE = 120.0
N = 2500


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """The environment of the commands; what Ray has started in it is stopped at the end.

    This stands for the command `ray stop`, which would stop all that is Ray's on this machine.
    """
    with real_ray():
        commands = str(Path(sys.executable).parent)
        path = f"{commands}{os.pathsep}{os.environ['PATH']}"
        found = {**os.environ, "PATH": path}
        try:
            yield found
        finally:
            end_all("RAY_TMPDIR", found["RAY_TMPDIR"])


def commands(port: int, source: str, out: Path) -> tuple[str, list[str]]:
    """Return what comes before each command of the page, in its shell, and these.

    They have the names of this machine, its port and its sizes.
    """
    section = PAGE.read_text(encoding="utf-8").split("\n## A cluster\n")[1].split("\n## ")[0]
    before, block = re.findall(r"^```sh\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    here = {
        "first-machine:6379": f"{HERE}:{port} {NODE}",
        "--port 6379": f"--port {port} {NODE} --include-dashboard false",
        "kafka://broker:9092/clicks": source,
        # A raylet has one processor here, and a topic no end.
        "--workers 16 --shards 16": "--workers 2 --shards 2",
        "--checkpoint state": f"--checkpoint state --to file:{out} {MODEL} --until-end --quiet",
    }
    for name, own in here.items():
        assert name in block, f"the page says {name} no more"
        block = block.replace(name, own)
    return before.strip(), block.splitlines()


def test_the_page_has_the_commands_that_are_run_nightly(tmp_path: Path) -> None:
    before, lines = commands(6379, "kafka://here/clicks", tmp_path / "said.ndjson")
    assert before
    assert [line.split(" --")[0].split(" kafka")[0] for line in lines] == [
        *("ray start", "ray start", "ray status", "streamk run", "ray stop")
    ]


@pytest.mark.nightly
@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.skipif(not HAS_PROC, reason="needs /proc")
def test_the_commands_of_the_page(
    tmp_path: Path,
    environment: dict[str, str],
    kafka_address: str,
    kafka_topic: Callable[..., str],
) -> None:
    rng, topic = np.random.default_rng(0), kafka_topic()
    clicks = [
        {"a": a, "b": b, "clicked": a * b > 0} for a, b in rng.normal(size=(N, 2)).round(3).tolist()
    ]
    (tmp_path / "clicks.ndjson").write_bytes(ndjson(clicks))
    with producer(kafka_address, linger_ms=20) as out:
        for click in clicks:
            out.send(topic, json.dumps(click).encode(), partition=0)
        out.flush()
    with socket.socket() as found:
        found.bind((HERE, 0))
        port = found.getsockname()[1]
    source = f"kafka://{kafka_address}/{topic}"
    before, (*others, _) = commands(port, source, tmp_path / "said.ndjson")
    (tmp_path / "token").write_text(secrets.token_hex(32))
    until = time.monotonic() + PATIENCE
    for line in others:
        told = run(f"{before}; {line}", tmp_path, environment)
        while line == "ray status" and "2.0 CPU" not in told:  # raylets tell of themselves in turn
            assert time.monotonic() < until, told
            told = run(f"{before}; {line}", tmp_path, environment)
    alone = ("run", "file:clicks.ndjson", "--label", "clicked", *MODEL.split(), "--shards", "2")
    streamk(*alone, "--checkpoint", "alone", "--to", "file:alone.ndjson", cwd=tmp_path)
    one, two = (newest_checkpoint(tmp_path / name) for name in ("alone", "state"))
    assert one is not None
    assert two is not None
    assert fingerprint(one.model) == fingerprint(two.model)
    assert one.model.header["rounds"] > 5
    assert end_all("RAY_TMPDIR", environment["RAY_TMPDIR"]) > 3


def run(line: str, home: Path, environment: dict[str, str]) -> str:
    """Run a command; return what it prints."""
    log = home / "command.log"
    with log.open("wb") as out:  # a pipe would stay open as long as the raylets live
        done = subprocess.run(
            ["bash", "-c", line], cwd=home, env=environment, stdout=out, stderr=out, timeout=300
        )
    text = log.read_text()
    assert done.returncode == 0, f"{line}\n{text}"
    return text
