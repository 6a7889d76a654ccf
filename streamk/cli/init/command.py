"""`streamk init`: its options, the first events, and the report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from connectors.base import MAX_EVENT_BYTES, InGroup, Source
from connectors.registry import open_source, parse_url
from streamk.cli.arguments import Parser, UsageError, existing_path, nearest, whole
from streamk.cli.init.file import job_file, of_task, one_line
from streamk.cli.init.guesses import Guess, Placed, Seen, guess
from streamk.cli.job import opened
from streamk.cli.report import share, wrapped
from streamk.encoding import TOMBSTONE, Rejected, alone, flatten
from streamk.encoding.values import reader
from streamk.errors import InvalidInput

DESCRIPTION = """\
Look at the first events of a stream, and write a job file for `streamk run`.
Comments in it tell columns and doubts. Nothing is learned, and nothing is
committed to Kafka.
"""

EPILOG = """\
examples:
  streamk init csv:prices.csv
  streamk init file:events.ndjson --label clicked --out clicks.toml
  streamk init kafka://localhost:9092/clicks --out -
"""

_PATIENCE = 10
"""Seconds without an event, of a live source, after which no more are waited for."""


def main(arguments: Sequence[str]) -> int:
    """Look at a stream, write the job file, and tell what was found."""
    options = _parser().parse(arguments)
    if "source" not in options:
        raise UsageError("no SOURCE is given, for example csv:prices.csv")
    address, out = options["source"], options.get("out", "job.toml")
    path = None if out == "-" else Path(out).expanduser()
    if path is not None:
        existing_path(str(path.parent), "directory")
        if path.exists():
            raise UsageError(f"{path} exists; remove it, or name another file by --out FILE")
    label = options.get("label")
    place = parse_url(address).text  # without options: one may be a secret
    with closing(_opened(address)) as source:
        seen = _read(source, options.get("events", 10_000), label)
        is_topic = isinstance(source, InGroup)
    if not seen.events:
        why = seen.unreadable[0] if seen.unreadable else "it has none now"
        raise InvalidInput(f"no event of {place} can be read: {why}")
    every = (name for event in seen.events for name in event.fields)
    names = dict.fromkeys(name for name in every if isinstance(name, str))
    if label is not None and label not in names:
        hint = nearest(label, names) or f"; there are {share(list(names))}"
        raise UsageError(f"--label {label}: no event has it{hint}")
    found = guess(seen, label)
    text = job_file(address, found, len(seen.events), is_topic=is_topic)
    if path is None:
        print(text, end="")
        print(_report(place, found, len(seen.events), "FILE", "save it as FILE; "), file=sys.stderr)
    else:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        print(_report(place, found, len(seen.events), shlex.quote(out)))
    return 0


def _parser() -> Parser:
    parser = Parser("streamk init", DESCRIPTION, EPILOG)
    parser.usage = "streamk init SOURCE [--label NAME] [--events N] [--out FILE]"
    add = parser.group("options")
    add("SOURCE", "address of the events, as of `streamk run`")
    add("--label NAME", "the field to be predicted (default: guessed)")
    add("--events N", "events to look at (default 10000)", whole(1))
    add("--out FILE", "the job file (default job.toml; - for standard output)")
    parser.add_common()
    return parser


def _opened(address: str) -> Source:
    """Open a source up to its present end: from the first event, outside of any group."""
    url = parse_url(address)
    given: dict[str, Any] = {"follow": False} if "follow" in url.options else {}
    if url.scheme == "kafka":
        given = {"group": None, "group_instance_id": None, "group_protocol": "classic"}
        given["start"] = "earliest"
    source: Source = opened(lambda one: open_source(one, **given), address)
    return source


def _records(source: Source, most: int) -> Iterator[tuple[str, int, Any]]:
    """Yield partition, offset and value of the first records, of those that there are now."""
    ends = {name: source.end(name) for name in source.partitions()}
    left = {name for name, end in ends.items() if end is None or source.beginning(name) < end}
    count = quiet = 0
    while left and count < most and quiet < _PATIENCE and not source.finished():
        chunks = source.poll(min(most - count, 1024), 1.0)
        if not chunks and source.lag() == 0:
            return
        quiet = 0 if chunks else quiet + 1
        for chunk in chunks:
            offsets = chunk.offsets.tolist()
            count += len(chunk)
            for offset, value in zip(offsets, chunk.values, strict=True):
                yield chunk.partition, offset, value
            end = ends.get(chunk.partition)
            if end is not None and offsets[-1] + 1 >= end:
                left.discard(chunk.partition)


def _read(source: Source, most: int, label: str | None) -> Seen:
    """Read the first events. A label that has no name in the source is called "label"."""
    form = source.record_format
    read_record = None if form is None else form.reading(lambda: frozenset[str]())
    read = reader(source.encoding, source.fields, label or "label", source.delimiter, read_record)
    seen, known = Seen(), set[Any]()
    if source.encoding == "csv" and source.fields:
        seen.last_column = source.fields[-1]
    for partition, offset, value in _records(source, most):
        try:
            if isinstance(value, bytes) and len(value) > MAX_EVENT_BYTES:
                raise Rejected("oversized", f"{len(value)} bytes, {MAX_EVENT_BYTES} allowed")
            fields = flatten(read(value))
        except Rejected as rejected:
            if not rejected.reason.startswith(TOMBSTONE):
                seen.unreadable.append(f"{partition} offset {offset}: {rejected.reason}")
            continue
        try:
            alone(fields)
        except Rejected as rejected:
            seen.refused.append(f"{partition} offset {offset}: {rejected.reason}")
        seen.events.append(Placed(partition, offset, fields))
        mark = value if isinstance(value, bytes) else repr(value)
        seen.duplicates += mark in known
        known.add(mark)
    return seen


def _report(place: str, found: Guess, n: int, out: str, before: str = "") -> str:
    rows = [("events", f"{n:,} with {len(found.columns)} columns, of {place}")]
    if found.label is not None:
        rows.append(("label", f"{found.label.name}: {of_task(found)}"))
    if found.time is not None:
        rows.append(("time", str(found.time.name)))
    rows += [("entities", share(found.entities))] * bool(found.entities)
    rows += [("ignored", share(list(found.ignore)))] * bool(found.ignore)
    rows += [("doubt", doubt) for doubt in found.doubts]
    label = " --label NAME" * (found.label is None)
    told = wrapped([(name, one_line(text)) for name, text in rows])
    return f"{told}\n\nNext: {before}streamk run --config {out}{label}"
