"""Where a job without a position of its own begins in a topic, by every client."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from crash_kit import fill
from engine_kit import attached

from connectors.base import Source
from connectors.errors import BadURL
from connectors.registry import open_source
from streamk.kernels import Gaussian
from streamk.learners import DoublyStochastic

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(90),
    pytest.mark.usefixtures("kafka_client"),
]

NEW_YEAR = 1_704_067_200_000  # 2024-01-01T00:00:00Z


@pytest.fixture
def topic(kafka_address: str, kafka_topic: Callable[..., str]) -> str:
    """Ten events an hour in each of two partitions, from the new year on."""
    name = kafka_topic(2, **{"retention.ms": "-1"})
    records = ((i % 2, NEW_YEAR + 360_000 * (i // 2), b'{"a": 1, "y": "b"}') for i in range(200))
    fill(kafka_address, name, records)
    return name


def first_offsets(source: Source) -> dict[str, int]:
    """The first offset that comes of each partition."""
    found: dict[str, int] = {}
    deadline = time.monotonic() + 60
    while found.keys() != set(source.partitions()) or not found:
        assert time.monotonic() < deadline, f"only {found}"
        for chunk in source.poll(1000, 0.1):
            found.setdefault(chunk.partition, int(chunk.offsets[0]))
    return found


STARTS = {
    "earliest": 0,
    "2024-01-01T05:00:00Z": 50,
    "2024-01-01T06:00:01+01:00": 51,
    "2024-01-01 05:30": 55,
    str(NEW_YEAR + 1): 1,
}


def test_a_job_begins_where_it_is_told(kafka_address: str, topic: str) -> None:
    for number, (start, offset) in enumerate(STARTS.items()):
        for group in ("", f"&group=g-{topic}-{number}"):
            url = f"kafka://{kafka_address}/{topic}?start={start}{group}"
            with closing(open_source(url)) as source:
                assert first_offsets(source) == {f"{topic}:0": offset, f"{topic}:1": offset}


def test_a_job_begins_with_what_comes_next(kafka_address: str, topic: str) -> None:
    urls = [f"kafka://{kafka_address}/{topic}?start={start}" for start in ("latest", "2999-01-01")]
    with closing(open_source(urls[0])) as one, closing(open_source(urls[1])) as other:
        assert one.poll(10, 0.5) == other.poll(10, 0.5) == []
        fill(kafka_address, topic, ((i, NEW_YEAR, b'{"a": 1, "y": "b"}') for i in (0, 1)))
        for source in (one, other):
            assert first_offsets(source) == {f"{topic}:0": 100, f"{topic}:1": 100}


def test_a_start_that_is_none_is_refused(kafka_address: str, topic: str) -> None:
    with pytest.raises(BadURL, match="start 'yesterday' must be earliest, latest, a time"):
        open_source(f"kafka://{kafka_address}/{topic}?start=yesterday")


@pytest.mark.parametrize("kept", ["checkpoint", "commit"])
def test_a_restart_goes_on_where_it_was(
    kafka_address: str, topic: str, tmp_path: Path, kept: str
) -> None:
    def run(start: str, **options: object) -> dict[str, list[list[int]]]:
        group = f"&group=g-{topic}" if kept == "commit" else ""
        url = f"kafka://{kafka_address}/{topic}?start={start}{group}"
        model = DoublyStochastic(Gaussian(bandwidth=1.0), seed=1, max_features=256)
        engine = attached(
            open_source(url),
            model,
            label="y",
            checkpoint=tmp_path / "state",
            until_end=True,
            **options,  # type: ignore[arg-type]
        )
        return engine.run().learned

    first = run("2024-01-01T09:00:00Z", max_events=6)
    assert {name: ranges[0][0] for name, ranges in first.items()} == {
        f"{topic}:0": 90,
        f"{topic}:1": 90,
    }
    assert run("latest") == {f"{topic}:0": [[90, 100]], f"{topic}:1": [[90, 100]]}
