"""Addresses, options, and the sources that need no file: memory and River."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import connectors.registry as registry
from connectors import (
    BadRecord,
    BadURL,
    Connector,
    ConnectorError,
    OffsetOutOfRange,
    Output,
    Rows,
    Sink,
    Source,
    Unavailable,
    concatenate,
)
from connectors.base import URL, split_evenly
from connectors.memory import MemorySink, MemorySource
from connectors.registry import open_sink, open_source, parse_url, schemes
from streamk.cli import main
from streamk.encoding import Schema, decoder


def test_every_connector_of_the_design_is_registered() -> None:
    wanted = {"kafka", "file", "csv", "parquet", "stdin", "stdout", "memory", "river"}
    assert wanted <= set(schemes())


@pytest.mark.parametrize(
    ("text", "host", "path", "options"),
    [
        ("file:events.ndjson", "", "events.ndjson", {}),
        ("file:/a/b", "", "/a/b", {}),
        ("file:///a/b?follow=true", "", "/a/b", {"follow": "true"}),
        ("csv:a%3Fb.csv", "", "a?b.csv", {}),
        ("kafka://h:1,i:2/t?x=1&y=", "h:1,i:2", "t", {"x": "1", "y": ""}),
        ("STDIN:", "", "", {}),
    ],
)
def test_addresses(text: str, host: str, path: str, options: dict[str, str]) -> None:
    url = parse_url(text)
    assert (url.host, url.path, dict(url.options)) == (host, path, options)


def test_secrets_in_an_address_are_never_shown() -> None:
    url = parse_url("kafka://host:1/topic?password=hunter2")
    assert "hunter2" not in url.text
    for text in ("kafka://me:hunter2@h/t?hunter2", "kafka://me:hunter2@h/t?a=1&a=hunter2"):
        with pytest.raises(BadURL) as caught:
            parse_url(text)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:9092/clicks", r"did you mean 'kafka://localhost:9092/clicks'\?"),
        ("kafak://h/t", r"no connector 'kafak' \(did you mean 'kafka'\?\); there are .*csv"),
        ("file:x?folow=true", r"no option 'folow' \(did you mean 'follow'\?\); file: has follow"),
        ("file:x?follow=maybe", "follow must be true or false, not 'maybe'"),
        ("river:Phishing?limit=big", "limit must be a whole number, not 'big'"),
        ("file:x?follow", "name=value"),
        ("file:x?follow=1&follow=1", "twice"),
        ("file://host/x", "a file is written file:PATH"),
        ("file:", "a file is written file:PATH"),
        ("stdout:", "can only be a sink, not a source"),
        ("memory:", r"open_source\('memory:', data=...\)"),
        ("kafka://h:1/t?group=&group_instance_id=a", "group_instance_id is for .*; give group too"),
        ("kafka://h:1/t?security=x", r"no option 'security' \(did you mean 'security_file'\?\)"),
    ],
)
def test_a_wrong_address_says_what_to_do(url: str, message: str) -> None:
    with pytest.raises(BadURL, match=message):
        open_source(url)


FILES = {"csv": ["csv", "tsv"], "parquet": ["parquet"], "file": ["ndjson", "jsonl", "json", "txt"]}


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        (scheme, f"{name}{packed}")
        for scheme, endings in FILES.items()
        for ending in endings
        for name in (
            f"churn.{ending}",
            f"/data/2024-*.{ending.upper()}",
            f"my.{ending}?follow=true",
        )
        for packed in ("", ".gz", ".zst")
        if not ("?" in name and packed)
    ],
)
def test_a_name_of_a_file_is_answered_with_its_address(scheme: str, name: str) -> None:
    for opener in (open_source, open_sink):
        with pytest.raises(BadURL, match=re.escape(f"{name!r} is not an address")) as caught:
            opener(name)
        assert str(caught.value).endswith(f"begin it with a scheme: {scheme}:{name}")
    if "?" not in name:  # and that address is not answered with another
        with pytest.raises(ConnectorError) as missing:
            open_source(f"{scheme}:{name}")
        assert "scheme" not in str(missing.value)


def test_other_packages_can_add_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    got: dict[str, Any] = {}

    def source(url: URL, *, names: tuple[str, ...] = (), rate: float | None = None) -> Source:
        got.update(url=url, names=names, rate=rate)
        return MemorySource([])

    class Entry:
        name, value = "mine", "mine:C"

        def __init__(self, thing: object) -> None:
            self.thing = thing

        def load(self) -> object:
            return self.thing

    entries = [Entry(Connector(source=source))]
    monkeypatch.setattr(registry, "entry_points", lambda **_group: entries)
    open_source("mine:there?names=a,b&rate=1.5")
    assert (got["url"].path, got["names"], got["rate"]) == ("there", ("a", "b"), 1.5)
    with pytest.raises(BadURL, match="can only be a source"):
        open_sink("mine:")
    with pytest.raises(BadURL, match="rate must be a number"):
        open_source("mine:?rate=fast")
    entries[0].thing = "no connector"
    with pytest.raises(BadURL, match="is not a Connector"):
        open_source("mine:")


# Memory


def test_memory_gives_each_sort_of_event() -> None:
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    cases: list[tuple[Any, str]] = [
        ((X, [0, 1, 0]), "rows"),
        (X, "rows"),
        (Rows(X), "rows"),
        ([{"a": 1}, {"a": 2}], "dict"),
        ([({"a": 1}, "u"), ({"a": 2}, "v")], "dict"),
        ([b"{}", b"[]"], "json"),
        ([], "dict"),
    ]
    for data, encoding in cases:
        source = MemorySource(data)
        assert isinstance(source, Source)
        assert source.encoding == encoding
        taken = [value for chunk in source.poll(10, 0.0) for value in chunk.values]
        assert len(taken) == source.end("0")
        assert source.finished()
    assert MemorySource(cases[4][0], label="y").poll(1, 0.0)[0].values == [{"a": 1, "y": "u"}]
    with pytest.raises(BadRecord, match="field 'label' beside its label"):
        MemorySource([({"label": 1}, 2)])
    with pytest.raises(BadRecord, match="both"):
        MemorySource({"a": [b""], "b": [{}]})
    with pytest.raises(BadRecord, match="2 events and timestamps of shape"):
        MemorySource([{}, {}], timestamps=[1])


def test_memory_has_partitions_with_times_and_commits() -> None:
    source = MemorySource(
        {"q": [{"i": i} for i in range(4)], "p": [{"i": i} for i in range(2)]},
        timestamps={"p": [5, 6], "q": [1, 2, 3, 4]},
    )
    assert source.partitions() == ("p", "q")
    assert (source.lag(), source.end("q"), source.start("q")) == (6, 4, 0)
    chunks = source.poll(4, 0.0)
    assert [(c.partition, c.offsets.tolist(), c.timestamps.tolist()) for c in chunks] == [
        ("p", [0, 1], [5, 6]),
        ("q", [0, 1], [1, 2]),
    ]
    assert source.committed("q") is None
    source.commit({"q": 2}, {"q": "epoch 1"})
    assert source.committed("q") == (2, "epoch 1")
    source.seek("q", 3)
    assert source.poll(9, 0.0)[0].values == [{"i": 3}]
    with pytest.raises(OffsetOutOfRange, match="offsets 0 to 4, not 5"):
        source.seek("q", 5)


def test_a_live_memory_source_grows_until_it_is_finished() -> None:
    source = MemorySource({"p": [], "q": (np.ones((1, 2)), [1])}, live=True)
    source.poll(9, 0.0)
    assert source.poll(9, 0.01) == []
    assert not source.finished()
    source.extend("p", (np.zeros((2, 2)), [0, 1]))
    source.extend("q", (np.zeros((1, 2)), [3]))
    chunks = source.poll(9, 0.0)
    assert [(c.partition, c.offsets.tolist()) for c in chunks] == [("p", [0, 1]), ("q", [1])]
    source.finish()
    assert source.finished()
    with pytest.raises(BadRecord, match="live=True"):
        source.extend("p", [])


def test_memory_to_array_and_chunks_in_parts() -> None:
    X = np.arange(20, dtype=np.float32).reshape(10, 2)
    source = open_source("memory:", data=(X, list(range(10))), columns=("u", "v"))
    [chunk] = source.poll(6, 0.0)
    [rest] = source.poll(6, 0.0)
    values = concatenate([chunk.slice(2, 6).values, rest.slice(0, 1).values])
    decoding = decoder("rows", Schema(label="y"), fields=source.fields)
    out = decoding.decode(values)
    assert decoding.schema.columns == ("u", "v")
    np.testing.assert_array_equal(out.X, X[2:7])
    assert out.y == [2, 3, 4, 5, 6]
    parts = [Rows(X[:1]), Rows(X[1:2], np.array([4])), Rows(X[2:3], ["a"])]
    assert Rows.join(parts).y == [None, 4, "a"]
    assert Rows.join(parts[:1] * 2).y is None
    with pytest.raises(ValueError, match="two dimensions"):
        Rows(X[0])
    with pytest.raises(ValueError, match="10 events and y has 1"):
        Rows(X, [1])


def test_the_memory_sink_is_a_list() -> None:
    sink = open_sink("memory:")
    assert isinstance(sink, Sink)
    assert isinstance(sink, MemorySink)
    first, second = (Output("p", i, i, None, {}) for i in range(2))
    sink.write([first])
    mark = sink.mark()
    sink.write([second])
    sink.rewind(mark)
    sink.rewind(None)
    assert sink.outputs == [first]
    with pytest.raises(BadRecord, match="the mark says 5"):
        sink.rewind(5)


def test_shares_are_even_and_spend_all_there_is() -> None:
    assert split_evenly(10, [0, 3, 30]) == [0, 3, 7]
    assert split_evenly(1, [5, 5]) == [0, 1]
    assert split_evenly(9, []) == []


# River


def test_river_data_sets_become_events() -> None:
    source = open_source("river:Phishing")
    assert isinstance(source, Source)
    assert source.partitions() == ("Phishing",)
    assert (source.end("Phishing"), source.lag(), source.start("Phishing")) == (1250, 1250, 0)
    [chunk] = source.poll(2000, 0.0)
    assert len(chunk) == 1250
    assert source.finished()
    decoding = decoder(source.encoding, Schema(label="label"))
    assert len(decoding.decode(chunk.values).good) == 1250
    assert len(decoding.schema.columns) == 9
    source.seek("Phishing", 1000)
    assert source.poll(1, 0.0)[0].values == chunk.values[1000:1001]
    source.seek("Phishing", 7)
    again = source.poll(1, 0.0)[0]
    assert (again.values, again.offsets.tolist()) == (chunk.values[7:8], [7])
    with pytest.raises(OffsetOutOfRange, match="holds 1250 events"):
        source.seek("Phishing", 1251)


def test_synthetic_river_streams_take_their_own_arguments() -> None:
    url = "river:synth/RandomRBFDrift?seed_model=1&seed_sample=2&n_features=4&limit=30&label=y"
    source = open_source(url)
    [chunk] = source.poll(20, 0.0)
    assert set(chunk.values[0]) == {0, 1, 2, 3, "y"}
    decoding = decoder("dict", Schema(label="y"))
    decoding.decode(chunk.values)
    assert decoding.schema.columns == (0, 1, 2, 3)
    rest = source.poll(20, 0.0)[0]
    assert len(rest) == 10
    assert source.finished()
    again = open_source(url)
    again.seek("RandomRBFDrift", 20)
    assert again.poll(20, 0.0)[0].values == rest.values
    endless = open_source("river:synth/SEA?seed=1&noise=0.1")
    assert (endless.end("SEA"), endless.lag()) == (None, None)
    assert len(endless.poll(5, 0.0)[0]) == 5


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("river:Phising", r"did you mean 'Phishing'\?"),
        ("river:synth/SEA", "give seed=1"),
        ("river:synth/SEA?sed=1", r"no option 'sed' \(did you mean 'seed'\?\).*limit, noise"),
        ("river:synth/SEA?seed=1&limit=0", "limit must be at least 1"),
    ],
)
def test_wrong_river_addresses(url: str, message: str) -> None:
    with pytest.raises(BadURL, match=message):
        open_source(url)


def test_river_sets_that_cannot_be_used_say_why(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIVER_DATA", str(tmp_path))
    with pytest.raises(Unavailable, match=r"datasets\.Elec2\(\)\.download\(\)"):
        open_source("river:Elec2")
    with pytest.raises(BadRecord, match="several targets"):
        open_source("river:SolarFlare").poll(1, 0.0)
    with pytest.raises(BadRecord, match="choose another label"):
        open_source("river:Phishing?label=https").poll(1, 0.0)


SECRET = "hunter2"


@pytest.mark.parametrize(
    "address",
    [
        f"kafka://ada:{SECRET}@localhost:9092/clicks",
        f"kafka://{SECRET}@localhost:9092/clicks",
        f"kafka://ada:a/{SECRET}@localhost:9092/clicks",
        f"kafka://ada:12/{SECRET}@localhost:9092/clicks",
        f"kafka://ada:a?{SECRET}@localhost:9092/clicks",
        f"kafka://ada:{SECRET}%40x@one:9092,two:9092/clicks?group=g",
        f"kafka:ada:{SECRET}@localhost:9092/clicks",
    ],
)
@pytest.mark.parametrize("where", ["source", "sink", "config"])
def test_credentials_in_an_address_are_refused_and_not_repeated(
    address: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "events.ndjson").write_text('{"a": 1, "y": "b"}\n')
    arguments = ["run", address, "--label", "y"]
    if where == "sink":
        arguments = ["run", f"file:{tmp_path}/events.ndjson", "--label", "y", "--to", address]
    elif where == "config":
        (tmp_path / "job.toml").write_text(f'source = "{address}"\nlabel = "y"\n')
        arguments = ["run", "--config", str(tmp_path / "job.toml")]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "STREAMK_KAFKA_SASL_PLAIN_PASSWORD" in said.err
    assert "security_file" in said.err
