"""`streamk init`: what it finds in a stream, and the job file that it writes."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_kit import click_events, ndjson, streamk
from kafka_kit import admin, producer

SMALL = ("--expert", "none", "--json", "--quiet")


def look(folder: Path, source: str, *options: str) -> tuple[dict[str, Any], str, str]:
    """Return the options of the file that is written, its text, and the report."""
    report, _ = streamk("init", source, *options, cwd=folder)
    text = (folder / "job.toml").read_text()
    assert max(len(line) for line in text.splitlines() if not line.startswith("source")) <= 79
    assert max(map(len, report.splitlines())) <= 79
    return tomllib.loads(text), text, " ".join(report.split())


def run(folder: Path) -> dict[str, Any]:
    out, _ = streamk("run", "--config", "job.toml", *SMALL, cwd=folder)
    report: dict[str, Any] = json.loads(out.splitlines()[-1])
    return report


def csv(path: Path, header: str, rows: list[tuple[Any, ...]]) -> None:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


def test_a_csv_of_classes(tmp_path: Path) -> None:
    rows = [
        (f"a{n}", e["age"], e["device"], "eu", e["clicked"])
        for n, e in enumerate(click_events(300))
    ]
    csv(tmp_path / "clicks.csv", "ad,age,device,region,clicked", rows)
    job, text, report = look(tmp_path, "csv:clicks.csv")
    assert job == {
        "source": "csv:clicks.csv",
        "label": "clicked",
        "task": "classification",
        "ignore": ["ad", "region"],
    }
    table = [line.split()[1:5] for line in text.splitlines()[3:8]]
    assert table == [
        ["ad", "identifier", "0.0%", "300"],
        ["age", "number", "0.0%", str(len({row[1] for row in rows}))],
        ["device", "category", "0.0%", "3"],
        ["region", "constant", "0.0%", "1"],
        ["clicked", "boolean", "0.0%", "2"],
    ]
    assert '"region",  # constant: eu' in text
    assert "doubt" not in text + report
    assert report.endswith("Next: streamk run --config job.toml")
    assert run(tmp_path)["learned"] == 300


def test_counts_with_times_are_learned_as_numbers(tmp_path: Path) -> None:
    rng, start = random.Random(1), datetime(2026, 1, 1)
    times = [start + timedelta(hours=n) for n in range(300)]
    rows = [(t, t.hour, 7 * t.hour + rng.randrange(20)) for t in times]
    csv(tmp_path / "bikes.csv", "at,hour,bikes", rows)
    job, text, report = look(tmp_path, "csv:bikes.csv")
    assert (job["label"], job["task"], job["time"]) == ("bikes", "regression", "at")
    assert "the label bikes is a guess, the last column" in report
    assert "# regression, " in text
    assert run(tmp_path)["learned"] == 300


def test_few_whole_numbers_are_classes_with_a_doubt(tmp_path: Path) -> None:
    csv(tmp_path / "stars.csv", "x,stars", [(n / 7, n % 12) for n in range(300)])
    job, _, report = look(tmp_path, "csv:stars.csv")
    assert job["task"] == "classification"
    assert 'set task = "regression" if they are quantities' in report


def payments() -> list[dict[str, Any]]:
    rng, time, events = random.Random(2), datetime(2026, 1, 1), []
    for n in range(300):
        time += timedelta(minutes=1)
        event: dict[str, Any] = {"ts": time.isoformat(), "user": {"id": rng.randrange(20)}}
        event |= {"amount": rng.random() if n % 10 else "?", "fraud": rng.random() < 0.5}
        events.append(event | ({"note": "late"} if n % 3 == 0 else {}))
    return events


def test_missing_and_mixed_values_and_entities(tmp_path: Path) -> None:
    (tmp_path / "payments.ndjson").write_bytes(ndjson(payments()))
    job, text, report = look(tmp_path, "file:payments.ndjson")
    assert job["label"] == "fraud"
    assert "amount has mixed types: number 270, text 30" in report
    assert "note is missing in 67% of the events" in report
    assert '# entity = ["user.id"]' in text
    assert '# time = "ts"' in text, "of classes it needs entities"
    assert run(tmp_path)["learned"] == 300
    # The commented options can be used, too.
    (tmp_path / "job.toml").write_text(text.replace("# entity", "entity").replace("# time", "time"))
    assert run(tmp_path)["learned"] == 300


def test_records_that_cannot_be_used_and_time_that_goes_backwards(tmp_path: Path) -> None:
    lines = ndjson(payments()).splitlines(keepends=True)
    lines[7], lines[40], lines[41] = b"{bad\n", lines[41], lines[40]
    lines += [*lines[100:103], b'{"fraud": true, "amount": 1e200}\n']
    (tmp_path / "payments.ndjson").write_bytes(b"".join(lines))
    job, text, report = look(tmp_path, "file:payments.ndjson", "--label", "amount")
    assert job["task"] == "regression"
    assert "time" not in job
    assert "1 of 304 records cannot be read, the first at payments.ndjson offset 7: und" in report
    assert "1 of 303 events cannot be used, the first at payments.ndjson offset 303: inf" in report
    assert "32 labels cannot be learned, the first: label out of domain: '?'" in report
    assert "ts goes backwards 2 times, first at payments.ndjson offset 41" in report
    assert "3 of 303 events equal an earlier one" in report
    assert "# Time of the events, if it can be trusted:" in text


def test_columns_that_tell_the_label(tmp_path: Path) -> None:
    events = [{**one, "same": one["clicked"], "paid": 2 * one["clicked"]} for one in click_events()]
    (tmp_path / "events.ndjson").write_bytes(ndjson(events))
    job, text, report = look(tmp_path, "file:events.ndjson")
    assert "same equals the label: ignore it if it is known no sooner than the label" in report
    assert "paid tells the label" in report
    assert job["ignore"] == []
    assert '# "same",' in text


def test_several_labels_and_classes_of_few_events(tmp_path: Path) -> None:
    rows = [(n % 7, ("a", "b", "rare")[2 if n == 50 else n % 2], n % 2) for n in range(100)]
    csv(tmp_path / "events.csv", "x,target,label", rows)
    _, _, report = look(tmp_path, "csv:events.csv")
    assert "the label label is a guess among target, label; see --label" in report
    (tmp_path / "job.toml").unlink()
    _, _, report = look(tmp_path, "csv:events.csv", "--label", "target")
    assert "guess" not in report
    assert "classes with few events: rare (1)" in report


def test_no_label_is_found(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson([{"a": n} for n in range(9)]))
    job, _, report = look(tmp_path, "file:events.ndjson")
    assert job == {"source": "file:events.ndjson"}
    assert "no column looks like a label" in report
    assert report.endswith("Next: streamk run --config job.toml --label NAME")
    streamk("run", "--config", "job.toml", "--label", "a", *SMALL, cwd=tmp_path)


def test_the_file_on_standard_output(tmp_path: Path) -> None:
    given = ndjson(click_events(50))
    out, report = streamk("init", "stdin:", "--out", "-", cwd=tmp_path, given=given)
    assert tomllib.loads(out)["label"] == "clicked"
    assert "Next: save it as FILE; streamk run --config FILE" in report
    assert not list(tmp_path.iterdir())


def test_a_followed_file_and_an_endless_source_end(tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(click_events(50)))
    job, text, _ = look(tmp_path, "file:events.ndjson?follow=true")
    assert job["source"] == "file:events.ndjson?follow=true"
    assert "from its first 50 events" in text
    source = "river:synth/SEA?seed=1"
    out, _ = streamk("init", source, "--events", "70", "--out", "-", cwd=tmp_path)
    assert "from its first 70 events" in out
    assert tomllib.loads(out)["label"] == "label"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no SOURCE is given"),
        (("file:events.ndjson",), "job.toml exists; remove it, or name another file by --out"),
        (("file:events.ndjson", "--out", "no/job.toml"), "no directory no"),
        (("file:events.ndjson", "--out", "-", "--label", "clickd"), "did you mean 'clicked'?"),
        (("file:events.ndjson", "--out", "-", "--label", "q"), "there are age, seconds, device"),
        (("file:events.ndjsn", "--out", "-"), "events.ndjsn"),
        (("events.ndjson", "--out", "-"), "begin it with a scheme: file:events.ndjson"),
        (("file:empty.ndjson", "--out", "-"), "no event of file:empty.ndjson can be read: it has"),
        (("file:bad.ndjson", "--out", "-"), "can be read: bad.ndjson offset 0: undecodable"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "events.ndjson").write_bytes(ndjson(click_events(50)))
    (tmp_path / "empty.ndjson").write_bytes(b"")
    (tmp_path / "bad.ndjson").write_bytes(b"{bad\n")
    (tmp_path / "job.toml").write_text("# mine")
    _, err = streamk("init", *arguments, cwd=tmp_path, status=2)
    assert said in err
    assert (tmp_path / "job.toml").read_text() == "# mine"


@pytest.mark.kafka
def test_a_topic_is_read_without_its_group(
    tmp_path: Path, kafka_address: str, kafka_topic: Callable[..., str]
) -> None:
    topic, nothing = kafka_topic(), kafka_topic()
    with producer(kafka_address) as out:
        for event in click_events(120):
            out.send(topic, json.dumps(event).encode())
    source = f"kafka://{kafka_address}/{topic}?group=g-{topic}&start=latest"
    job, text, _ = look(tmp_path, source)
    assert (job["source"], job["label"]) == (source, "clicked")
    assert "from its first 120 events" in text
    assert "# until-end = true" in text
    with admin(kafka_address) as client:
        assert f"g-{topic}" not in str(client.list_groups())
    empty = f"kafka://{kafka_address}/{nothing}"
    _, err = streamk("init", empty, "--out", "-", cwd=tmp_path, status=2)
    assert "it has none now" in err
