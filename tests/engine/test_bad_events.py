"""One event in a hundred is a bad one, of every kind there is; the stream goes on."""

from __future__ import annotations

import json
import random
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crash_kit import Job, Position, assert_same, fill, newest, outputs, read_all, stream

from connectors.base import MAX_EVENT_BYTES
from streamk.encoding import Schema

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]

MakeTopic = Callable[..., str]

EVENTS = 8_000
KEPT = {"retention.ms": "-1", "max.message.bytes": str(2 * MAX_EVENT_BYTES)}

GOOD = b'"a": 0.5, "b": -1.0, "c": "x"'
BAD: list[tuple[str, bytes | None]] = [
    ("undecodable", b""),
    ("undecodable", b'{"a": 0.5, "b"'),
    ("undecodable", b"\x00\x01\xfe\xff"),
    ("undecodable", b'{"a": 1, "c": "\xe9", "y": "up"}'),
    ("undecodable", bytes(random.Random(0).randbytes(900_000))),
    ("not an object", b"[0.5, -1.0]"),
    ("not an object", b"17"),
    ("not an object", b"null"),
    ("unknown column", b'{"a": "half", "b": -1.0, "c": "x", "y": "up"}'),
    ("wrong type", b'{"a": [[0.5]], "b": -1.0, "c": "x", "y": "up"}'),
    ("wrong type", b'{"a": 0.5, "b": -1.0, "c": [[NaN]], "y": "up"}'),
    ("unknown column", b'{"a": 0.5, "b": -1.0, "c": 3, "y": "up"}'),
    ("inf", b'{"a": Infinity, "b": -1.0, "c": "x", "y": "up"}'),
    ("inf", b'{"a": 0.5, "b": -1e200, "c": "x", "y": "up"}'),
    ("inf", b'{"a": 0.5, "b": 1e999, "c": "x", "y": "up"}'),
    ("label out of domain", b'{%b, "y": "sideways"}' % GOOD),
    ("label out of domain", b'{%b, "y": 1}' % GOOD),
    ("label out of domain", b'{%b, "y": ["up"]}' % GOOD),
    ("oversized", b'{%b, "y": "up", "note": "%b"}' % (GOOD, b"\x00" * MAX_EVENT_BYTES)),
    ("oversized", b'{%b, "y": "up"}' % GOOD + b" " * MAX_EVENT_BYTES),
    ("unknown column", b'{%b, "d": 1, "y": "up"}' % GOOD),
    ("unknown column", b'{%b, "%b": 1, "y": "up"}' % (GOOD, b"d" * 700_000)),
    ("unknown column", b'{"a": 0.5, "b": -1.0, "c": "w", "y": "up"}'),
]

SCHEMA = Schema(
    ("a", "b", "late", "c=x", "c=y", "c=z"),
    label="y",
    label_type="str",
    kinds={"a": "number", "b": "number", "late": "number", "c": "text"},
    classes=("up", "down", "far"),
    mode="strict",
)


@dataclass
class Stream:
    job: Job
    bad: dict[Position, tuple[str, bytes]]
    good: set[Position]
    unlabelled: int
    tombstones: int

    @property
    def kinds(self) -> dict[str, int]:
        return dict(Counter(kind for kind, _ in self.bad.values()))

    def check_counts(self, report: dict[str, Any]) -> None:
        assert report["counts"]["bad"] == self.kinds
        assert report["events"] == EVENTS
        assert report["n_events"] == report["counts"]["learned"] == len(self.good) - self.unlabelled
        assert report["counts"]["unlabelled"] == self.unlabelled
        assert report["counts"]["tombstones"] == self.tombstones

    def check_letter(self, letter: dict[str, Any]) -> Position:
        """A dead letter says where it was, what is wrong with it, and what it was."""
        place = letter["partition"], letter["offset"]
        kind, value = self.bad[place]
        assert letter["kind"] == kind
        assert letter["reason"].startswith(f"{kind}: ")
        raw = letter["value"].encode() if letter["encoding"] == "utf-8" else b""
        if letter["encoding"] == "base64":
            raw = b64decode(letter["value"])
        if len(value) > 1 << 17:
            assert value.startswith(raw)
            assert len(raw) > 60_000
            assert letter["size"] == len(value)
        else:
            assert raw == value
            assert "size" not in letter
        return place


@pytest.fixture
def bad_stream(kafka_address: str, kafka_topic: MakeTopic, tmp_path: Path) -> Stream:
    rng = random.Random(2)
    topic = kafka_topic(2, **KEPT)
    found = Stream(
        Job(
            kafka_address,
            topic,
            str(tmp_path / "checkpoints"),
            options={"schema": SCHEMA.to_json(), "until_end": True, "checkpoint_every": 800},
        ),
        {},
        set(),
        0,
        0,
    )
    records: list[tuple[int, int, bytes | None]] = []
    offsets: dict[int, int] = defaultdict(int)
    chosen = iter(rng.sample(BAD * 9, EVENTS // 100))
    spots = set(rng.sample(range(EVENTS), EVENTS // 100))
    for i, (partition, time, value) in enumerate(stream(EVENTS, (0.7, 0.3))):
        place = f"{topic}:{partition}", offsets[partition]
        offsets[partition] += 1
        if i % 77 == 5 and i not in spots:
            found.tombstones += 1
            records.append((partition, time, None))
            continue
        if i in spots:
            found.bad[place] = next(chosen)
            records.append((partition, time, found.bad[place][1]))
            continue
        found.good.add(place)
        if i % 50 == 0:  # no label yet: to be predicted, not learned
            found.unlabelled += 1
            value = value[: value.rindex(b'"y"')] + b'"y": null}'
        records.append((partition, time, value))
    assert set(found.kinds) == {kind for kind, _ in BAD}
    fill(kafka_address, topic, records, max_request_size=4 * MAX_EVENT_BYTES)
    return found


def test_dead_letters_to_a_topic(
    bad_stream: Stream, kafka_address: str, kafka_topic: MakeTopic
) -> None:
    """Killed on the way, too: each dead letter is there once, and counted once."""
    output, dead = kafka_topic(**{"retention.ms": "-1"}), kafka_topic(**{"retention.ms": "-1"})
    job = bad_stream.job.but(
        output=f"kafka://{kafka_address}/{output}", dead_letters=f"kafka://{kafka_address}/{dead}"
    )
    rng = random.Random(4)
    for whim in range(3):
        with job.but(whim=whim).start() as process:
            process.until_written(rng.randrange(2000))
            process.kill()
    bad_stream.check_counts(job.run())

    written = outputs(kafka_address, output)
    assert set(written) == bad_stream.good
    assert {len(found) for found in written.values()} == {1}
    letters = defaultdict(list)
    for record in read_all(kafka_address, dead):
        letter = json.loads(record.value)
        place = bad_stream.check_letter(letter)
        headers = {name: value.decode() for name, value in record.headers}
        topic, _, number = place[0].rpartition(":")
        assert len(headers.pop("streamk-writer")) == 12
        assert headers == {
            "streamk-topic": topic,
            "streamk-partition": number,
            "streamk-offset": str(place[1]),
        }
        letters[place].append(letter)
    assert letters.keys() == bad_stream.bad.keys()
    assert {len(found) for found in letters.values()} == {1}


def test_raise_stops_and_loses_nothing(bad_stream: Stream, tmp_path: Path) -> None:
    skipping = {**bad_stream.job.options, "on_error": "skip"}
    plain = bad_stream.job.but(directory=str(tmp_path / "plain"), options=skipping)
    expected = plain.run()
    bad_stream.check_counts(expected)

    job = bad_stream.job.but(options={**bad_stream.job.options, "on_error": "raise"})
    with job.start() as process:
        assert process.wait() == 1
    error = process.log.splitlines()[-1]
    place = next(
        place
        for place, (kind, _) in bad_stream.bad.items()
        if f"the event at {place[0]} offset {place[1]} cannot be used: {kind}: " in error
    )
    assert 'choose on_error="skip"' in error
    # All before it is in the checkpoint or will be read again; so is the event itself.
    reached = newest(job.directory).body["feed"]["sequence"]["partitions"][place[0]]["offset"]
    assert reached <= place[1]
    with job.start() as process:
        assert process.wait() == 1
    assert process.log.splitlines()[-1] == error

    # Whoever chooses otherwise goes on, and has what a run without the stop has.
    report = job.but(options=skipping).run()
    bad_stream.check_counts(report)
    assert_same(report, job, expected, plain)
