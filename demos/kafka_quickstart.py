"""All the way through Kafka: produce events, learn and predict on them, read predictions back.

    python demos/kafka_quickstart.py
    python demos/kafka_quickstart.py --broker localhost:9092

The first starts a broker of its own (Java 17 and Maven, see local_kafka.py); the second uses one
that runs. The events are River's data set Phishing, in four partitions. The engine is stopped half
way and resumes from its checkpoint; afterwards every event has exactly one prediction.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import tempfile
from collections import Counter
from pathlib import Path

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from river import datasets

from connectors.registry import open_sink, open_source
from streamk.engine import Checkpoints, Engine, Report, Stream
from streamk.learners import create

PARTITIONS = 4


def produce(broker: str, events: str, predictions: str) -> int:
    """Make the two topics and fill the first; returns the number of events."""
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.create_topics([NewTopic(events, PARTITIONS, 1), NewTopic(predictions, 1, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker)
    n = 0
    for x, label in datasets.Phishing():
        # One JSON object an event, the label among its fields.
        value = json.dumps({**x, "is_phishing": label}).encode()
        producer.send(events, value, partition=n % PARTITIONS)
        n += 1
    producer.close()
    return n


def learn(broker: str, events: str, predictions: str, *, state: Path, most: int | None) -> Report:
    """Run the engine to where the topic ends now, or to `most` events."""
    model = create("multi-kernel", task="classification", seed=1)
    return Engine(
        open_source(f"kafka://{broker}/{events}", group=f"{events}-readers"),
        model,
        sink=open_sink(f"kafka://{broker}/{predictions}"),
        stream=Stream(label="is_phishing", until_end=True, max_events=most),
        checkpoints=Checkpoints(state),
    ).run()


def read_back(broker: str, predictions: str) -> Counter[tuple[bytes, bytes]]:
    """How many predictions there are for each event, by partition and offset."""
    consumer = KafkaConsumer(bootstrap_servers=broker)
    place = TopicPartition(predictions, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    end = consumer.end_offsets([place])[place]
    found: Counter[tuple[bytes, bytes]] = Counter()
    while consumer.position(place) < end:
        for record in consumer.poll(timeout_ms=1000).get(place, []):
            headers = dict(record.headers)
            found[headers["streamk-partition"], headers["streamk-offset"]] += 1
    consumer.close()
    return found


def show(what: str, report: Report) -> None:
    print(
        f"{what} {report.events_now:,} events, {report.events:,} in all;"
        f" accuracy so far {report.whole['accuracy']:.1%}"
    )


def main() -> None:
    """Produce, learn half, resume, and read the predictions back."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--broker", metavar="HOST:PORT", help="one that runs already")
    broker = parser.parse_args().broker
    with contextlib.ExitStack() as stack:
        if broker is None:
            from local_kafka import LocalKafka

            broker = stack.enter_context(LocalKafka()).address
            print(f"started a broker at {broker}")
        state = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        name = secrets.token_hex(4)
        topics = (f"events-{name}", f"predictions-{name}")
        n = produce(broker, *topics)
        print(f"produced {n:,} events to {topics[0]}, {PARTITIONS} partitions")
        show("learned", learn(broker, *topics, state=state, most=n // 2))
        show("resumed, learned", learn(broker, *topics, state=state, most=None))
        found = read_back(broker, topics[1])
        print(
            f"read {found.total():,} predictions back from {topics[1]}:"
            f" {len(found):,} events have one, {sum(k > 1 for k in found.values())} more than one"
        )


if __name__ == "__main__":
    main()
