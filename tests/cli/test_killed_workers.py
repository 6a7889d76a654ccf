"""Jobs with workers on a real topic, of which driver and workers are killed at random moments."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import streamk
from kafka_kit import producer
from process_kit import HAS_PROC, children, command_of, kill, with_variable
from ray_kit import two_raylets

from benchmarks.data import load
from streamk.engine import newest_checkpoint
from streamk.packing import fingerprint

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_PROC, reason="needs /proc"),
]

MODEL = ("--model", "doubly-stochastic", "--set", "max_features=256", "--set", "block_size=64")
SHARDS = ("--shards", "2", "--round-events", "128")
PATIENCE = 120.0
"""Seconds without a new prediction after which a job is a failure."""

Workers = Callable[[int], list[int]]
"""From the number of a driver to those of its workers."""


def processes(driver: int) -> list[int]:
    """Return the worker processes of a driver."""
    return [one for one in children(driver) if "spawn_main" in command_of(one)]


def actors(_: int) -> list[int]:
    """Return the Ray actors of this test's cluster."""
    there = with_variable("RAY_TMPDIR", os.environ["RAY_TMPDIR"])
    return [one for one in there if command_of(one).startswith("ray::_Worker")]


def job(source: str, name: str) -> tuple[str, ...]:
    ends = ("--to", f"file:{name}.out", "--checkpoint", name, "--checkpoint-every", "1000")
    return ("run", source, "--label", "y", *MODEL, *SHARDS, *ends, "--until-end", "--quiet")


def fill(address: str, topic: str, events: Iterable[dict[str, Any]]) -> str:
    with producer(address, linger_ms=20, batch_size=1 << 18) as out:
        for event in events:
            out.send(topic, json.dumps(event).encode(), partition=0)
        out.flush()
    return f"kafka://{address}/{topic}"


class Killed:
    """A job that is started again whenever it has been killed, or has lost too many workers."""

    def __init__(self, command: tuple[str, ...], home: Path, out: Path, workers: Workers) -> None:
        self._command = [sys.executable, "-m", "streamk", *command]
        self._home, self._out, self._workers = home, out, workers
        self._log = (home / "killed.log").open("ab")
        self._driver = self._start()
        self.kills = {"driver": 0, "worker": 0}

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, cwd=self._home, stderr=self._log, stdout=self._log)

    def strike(self, what: str, size: int) -> None:
        """Kill the driver or a worker once the output has so many bytes."""
        until = time.monotonic() + PATIENCE
        while not self._out.exists() or self._out.stat().st_size < size:
            assert time.monotonic() < until, (self._home / "killed.log").read_text()[-4000:]
            if self._driver.poll() is not None:
                self._driver = self._start()
            time.sleep(0.002)
        victims = [self._driver.pid] if what == "driver" else self._workers(self._driver.pid)
        for victim in victims[:1] if size % 2 else victims[-1:]:
            kill(victim)
            self.kills[what] += 1
        if what == "driver":
            self._driver.wait()
            self._driver = self._start()

    def end(self) -> None:
        """Wait for a good end; start again after a bad one."""
        while self._driver.wait(PATIENCE * 5):
            assert self._driver.returncode == -9, (self._home / "killed.log").read_text()[-4000:]
            self._driver = self._start()
        self._log.close()

    def close(self) -> None:
        kill(self._driver.pid)
        self._driver.wait()
        self._log.close()


def compare(
    home: Path, source: str, whats: list[str], workers: Workers, more: tuple[str, ...]
) -> dict[str, int]:
    """Have a job killed so often; its output and model must be those of an undisturbed one."""
    streamk(*job(source, "whole"), cwd=home)
    whole = (home / "whole.out").read_bytes()
    rng = random.Random(7)
    sizes = sorted(rng.randrange(len(whole) // 5, len(whole) * 9 // 10) for _ in whats)
    killed = Killed((*job(source, "killed"), *more), home, home / "killed.out", workers)
    try:
        for what, size in zip(whats, sizes, strict=True):
            killed.strike(what, size)
        killed.end()
    finally:
        killed.close()
    assert (home / "killed.out").read_bytes() == whole
    one, two = (newest_checkpoint(home / name) for name in ("whole", "killed"))
    assert one is not None
    assert two is not None
    assert fingerprint(one.model) == fingerprint(two.model)
    assert one.body["training"] == two.body["training"]
    return killed.kills


def test_a_driver_and_a_worker_are_killed(
    tmp_path: Path, kafka_address: str, kafka_topic: Callable[..., str]
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12_000, 2)).round(3).tolist()
    source = fill(kafka_address, kafka_topic(), ({"a": a, "b": b, "y": a * b > 0} for a, b in rows))
    kills = compare(tmp_path, source, ["worker", "driver"], processes, ("--workers", "2"))
    assert kills == {"driver": 1, "worker": 1}


def elec2() -> Iterable[dict[str, Any]]:
    data = load("elec2", os.environ.get("STREAMK_DATA"))
    for x, y in data.events(0, len(data)):
        yield {**{name: float(value) for name, value in x.items()}, "y": bool(y)}


@pytest.mark.skipif(
    "STREAMK_DATA" not in os.environ, reason="learns elec2: set STREAMK_DATA, see docs/data.md"
)
@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("on_ray", [False, True])
def test_killed_at_twenty_random_moments(
    tmp_path: Path, kafka_address: str, kafka_topic: Callable[..., str], on_ray: bool
) -> None:
    source = fill(kafka_address, kafka_topic(), elec2())
    whats = random.Random(1).choices(["driver", "worker"], k=20)
    if on_ray:
        with two_raylets() as cluster:
            more = ("--workers", "2", "--ray", cluster.both.address)
            kills = compare(tmp_path, source, whats, actors, more)
    else:
        kills = compare(tmp_path, source, whats, processes, ("--workers", "2"))
    assert kills["driver"] == whats.count("driver")
    assert sum(kills.values()) > 15  # a driver that has just begun has no workers yet
