"""What a resumed job gives again and what stands there already."""

from __future__ import annotations

import logging
import random

import pytest

from connectors.base import Output
from connectors.kafka.tail import Standing


def output(offset: int, value: object = "v", *, key: bytes | None = None, **more: bool) -> Output:
    return Output("t:0", offset, 0, key, {"prediction": value, **more})


def filled(*found: Output) -> Standing:
    standing = Standing("topic 'scores'", held_back=2)
    for one in found:
        standing.add(one.partition, one.offset, one.key, one.value)
    return standing


def left(standing: Standing, *outputs: Output) -> list[int]:
    return [one.offset for one in standing.without(outputs)]


def test_what_stands_there_is_left_out_once() -> None:
    standing = filled(output(3), output(5))
    assert left(standing, output(3), output(4), output(5), output(3)) == [4, 3]
    assert standing.is_over()
    assert standing.differing == 0


def test_partitions_and_sources_are_told_apart() -> None:
    standing = filled(output(3))
    assert left(standing, output(3)._replace(partition="t:1")) == [3]
    assert left(standing, output(3)) == []


def test_another_content_stays_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    standing = filled(output(1, "old"), output(2, "old"), output(3, "same"))
    with caplog.at_level(logging.WARNING):
        assert left(standing, output(1, "new"), output(2, "new"), output(3, "same")) == []
        assert standing.differing == 2
        assert standing.is_over()
    first, total = (record.getMessage() for record in caplog.records)
    assert "t:0 offset 1 differs from its record in topic 'scores'" in first
    assert total.startswith("2 outputs differ from their records in topic 'scores'")


def test_revisions_replace_what_says_something_else() -> None:
    found = (output(1, "old", revision=False), output(2, "same", revision=False))
    standing = filled(*found)
    again = (output(1, "new", revision=True), output(2, "same", revision=True))
    assert left(standing, *again) == [1]
    assert standing.differing == 0
    # Of several that stand there the last one holds.
    standing = filled(*found, again[0])
    assert left(standing, output(1, "new", revision=True)) == []


def test_in_a_compacted_topic_the_last_of_a_key_stays_the_last() -> None:
    """The record of 1 is gone since that of 3 has its key; that of 2 has another one."""
    standing = filled(output(2, key=b"b"), output(3, key=b"a"))
    written = left(
        standing, output(1, key=b"a"), output(2, key=b"b"), output(3, key=b"a"), output(4, key=b"a")
    )
    assert written == [1, 3, 4]
    assert standing.is_over()


def test_it_is_over_when_more_were_given_in_a_row_than_a_sink_holds_back() -> None:
    standing = filled(output(1), output(4), output(9))
    assert not standing.is_over()  # nothing was given yet
    assert left(standing, output(1), output(2), output(3)) == [2, 3]
    assert not standing.is_over()
    assert left(standing, output(4), output(10)) == [10]
    assert not standing.is_over()
    assert left(standing, output(11)) == [11]
    assert not standing.is_over()
    assert left(standing, output(12)) == [12]
    assert standing.is_over()  # 9 does not come: its event is gone
    assert left(standing, output(9)) == [9]


@pytest.mark.parametrize("seed", range(20))
def test_any_prefix_of_each_partition_is_completed(seed: int) -> None:
    """The sink's partitions are cut at any point, as a process is killed; intervals of any size."""
    rng = random.Random(seed)
    outputs = [output(i, key=rng.choice([None, b"a", b"b", b"c"])) for i in range(200)]
    partition = [rng.randrange(3) if o.key is None else o.key[0] % 3 for o in outputs]
    cuts = [rng.randrange(200) for _ in range(3)]
    there = [o for i, o in enumerate(outputs) if i < cuts[partition[i]]]
    standing = filled(*there)
    assert left(standing, *outputs) == [o.offset for o in outputs if o not in there]
    assert standing.is_over()
