"""Each model by the command, from a file and from a topic: predictions of the learner itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import ndjson, streamk
from crash_kit import outputs
from kafka_kit import producer

from streamk.learners import create
from streamk.learners.registry import LEARNERS

N = 1500
SMALL: dict[str, dict[str, Any]] = {
    "eigenpro": {"n_centers": 100},
    "kernel-ridge": {"max_centers": 512},
    "feature-machine": {"buffer_size": 256, "first": 128, "swap_delay": 64},
    "doubly-stochastic": {"max_features": 128, "block_size": 64},
    "online-nystrom": {"max_landmarks": 40},
}


def stream() -> tuple[Any, list[str], list[dict[str, Any]]]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 3)) * [1.0, 50.0, 0.1]
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other").tolist()
    events = [
        {**dict(zip("abc", row, strict=True)), "y": label}
        for row, label in zip(X.tolist(), y, strict=True)
    ]
    return X, y, events


def expected(name: str) -> list[str]:
    X, y, _ = stream()
    model: Any = create(name, task="classification", columns=["a", "b", "c"], **SMALL.get(name, {}))
    return [str(label) for label in model.predict_then_learn_many(X, y).predictions]


def options(name: str) -> list[str]:
    settings = [f"--set={key}={value}" for key, value in SMALL.get(name, {}).items()]
    return ["--label", "y", "--model", name, *settings, "--quiet"]


@pytest.mark.parametrize("name", LEARNERS)
def test_from_a_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(stream()[2]))
    to = ("--to", "file:out.ndjson")
    streamk("run", "file:events.ndjson", *to, *options(name), cwd=tmp_path)
    lines = (tmp_path / "out.ndjson").read_text("utf-8").splitlines()
    found = [str(json.loads(line)["prediction"]) for line in lines]
    assert found == expected(name)


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_client")
@pytest.mark.parametrize("name", ["eigenpro", "kernel-ridge"])
def test_from_a_topic(
    name: str, kafka_address: str, kafka_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, answers = kafka_topic(), kafka_topic()
    with producer(kafka_address) as out:
        for i, event in enumerate(stream()[2]):
            value = json.dumps(event).encode()
            out.send(topic, value, timestamp_ms=1_700_000_000_000 + i)
        out.flush()
    address = f"kafka://{kafka_address}/"
    command = ("run", address + topic, "--to", address + answers, "--until-end")
    streamk(*command, *options(name), cwd=tmp_path)
    said = outputs(kafka_address, answers)
    assert len(said) == N
    found = [str(values[0]["prediction"]) for _, values in sorted(said.items(), key=lambda i: i[0])]
    assert found == expected(name)
