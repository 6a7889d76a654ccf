"""What really arrives, and what becomes of it.

messy  airlines as it might arrive, by the command, beside the clean file
fuzz   1.8 million random records, from memory: all are counted, and memory stays as it is

How each figure is taken stands above its part.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.common import Part
from benchmarks.data import Directory
from benchmarks.engine import LABEL, Event, encoded, load_events, write

# --- fuzz -----------------------------------------------------------------------------------------
#
# Random records without end: nothing may raise, stop or grow.
#
# A model of `streamk run --expert none` takes records made from a seed, in the turns below, from
# memory through the engine: plain events, events with any value in the place of one, random JSON,
# damaged events, and random bytes. Memory is the process's resident size, taken after each tenth.

RECORDS = 1_800_000
FUZZ_SEED = 7
_TEXTS = (
    *("", "NA", "7", "1,234.5", "2024-02-29", "red", "a=b", "#3"),
    *("\u00e4\u00f6", "\ud800", "x" * 5000),
)
_NAMES = ("a", "b", "c", "c.d", "", "when", "y", "a=b", "more")
_DAMAGE = bytes([*range(32), *range(128, 256), *b'{}[]",:\\'])
"""No letters, which would make names that are good and new without end."""
_INNER = ("", "d", "a=b")
"""Names within an object: few, since each takes columns of its own, and they multiply."""
_NUMBERS = (0, 1, -1, 2**63, 10**400, 0.5, -0.0, 1e308, 5e-324, 1e150, 1e151)


def records(n: int, seed: int) -> Iterator[bytes]:
    """Yield records of which some can be used."""
    rng = random.Random(seed)
    for i in range(n):
        kind = rng.random()
        if kind < 0.55:
            yield _plain(i, rng)
        elif kind < 0.75:
            event = json.loads(_plain(i, rng))
            if rng.random() < 0.02:
                event["y"] = rng.choice((*_TEXTS, *_NUMBERS, None, [1], {"y": 1}))
            else:
                event[rng.choice(("a", "b", "c", "when", "more"))] = _value(rng, 0)
            yield json.dumps(event).encode("utf-8", "surrogatepass")
        elif kind < 0.85:
            yield json.dumps(_value(rng, 0)).encode("utf-8", "surrogatepass")
        elif kind < 0.95:
            yield _damaged(_plain(i, rng), rng)
        else:
            yield rng.randbytes(rng.randrange(200))


def _plain(i: int, rng: random.Random) -> bytes:
    a = rng.gauss(0, 1)
    event = {
        "a": a,
        "b": rng.gauss(0, 1),
        "c": rng.choice("xyz"),
        "when": f"2024-{1 + i % 12:02}-{1 + i % 28:02}",
        "y": a > 0,
    }
    return json.dumps(event).encode()


def _value(rng: random.Random, depth: int) -> Any:
    """Return any JSON value."""
    match rng.randrange(8 if depth < 2 else 5):
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2:
            return rng.choice(_NUMBERS)
        case 3:
            return rng.choice(_TEXTS)
        case 4:
            return f"text {rng.randrange(20 if depth else 10**12)}"
        case 5:
            return [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
        case _:
            names = _INNER if depth else _NAMES
            return {rng.choice(names): _value(rng, depth + 1) for _ in range(3)}


def _damaged(value: bytes, rng: random.Random) -> bytes:
    broken = bytearray(value)
    for _ in range(rng.randrange(1, 4)):
        broken[rng.randrange(len(broken))] = rng.choice(_DAMAGE)
    return bytes(broken[: rng.randrange(1, len(broken) + 1)])


def measure_fuzz(*, quick: bool) -> dict[str, Any]:
    """Take the records; return the counts and the memory along the way."""
    from connectors.memory import MemorySource
    from streamk.engine import Engine, Snapshot
    from streamk.learners import create

    n = 5_000 if quick else RECORDS
    sizes: list[list[int]] = []

    def note(snapshot: Snapshot) -> None:
        if snapshot.events >= (len(sizes) + 1) * n // 10:
            sizes.append([snapshot.events, snapshot.process_bytes, snapshot.model_bytes])

    source = MemorySource(list(records(n, FUZZ_SEED)))
    began = time.perf_counter()
    report = Engine(
        source,
        create("multi-kernel", task="classification", external_experts=()),
        label="y",
        on_progress=note,
        progress_interval=0.2,
    ).run()
    bad = sum(report.counts.bad.values())
    return {
        "records": n,
        "seed": FUZZ_SEED,
        "seconds": round(time.perf_counter() - began, 1),
        "learned": report.counts.learned,
        "unlabelled": report.counts.unlabelled,
        "bad": report.counts.bad,
        "counted": report.counts.learned + report.counts.unlabelled + bad,
        "columns": len(report.model.columns or ()),
        "classes": len(report.model.classes),
        "whole": report.whole,
        "memory": sizes,
    }


def render_fuzz(results: Mapping[str, Any]) -> str:
    """The tables."""
    kinds = [[kind, format(n, ",")] for kind, n in sorted(results["bad"].items())]
    for name in ("learned", "unlabelled"):
        kinds.insert(0, [name, format(results[name], ",")])
    sizes = [
        [format(events, ","), format(process / 2**20, ".0f"), format(model / 2**20, ".1f")]
        for events, process, model in results["memory"]
    ]
    return "\n\n".join(
        [
            f"{results['records']:,} random records: {results['counted']:,} counted",
            common.table(["became", "records"], kinds),
            common.table(["records", "process MiB", "model MiB"], sizes),
        ]
    )


# --- messy ----------------------------------------------------------------------------------------
#
# Airlines as it might arrive, learned by `streamk run --expert none`, beside the clean file.
#
# The clean file has one JSON object a line: numbers, three texts, and null where a cell is missing.
# The messy one tells the same of each flight otherwise, and some of it worse:
#
# - year, month, day and the planned departure are one time, "1987-10-14T07:30:00"; the planned
#   arrival is a number of hours beside it, and the day of the week is left out;
# - origin and destination are in nested objects, the carrier is a text with blanks around it in one
#   event of ten;
# - numbers are texts in one event of five, with commas in the thousands ("1,440");
# - one cell in fifty is "NA", "", "NaN" or null; one field in fifty is not there at all;
# - the label is null in one event of a hundred, and one line in two hundred is no event, the first
#   among them: cut off, a list, or not JSON;
# - the file is compressed.
#
# The noisy one has two more fields that say nothing of the delay: `codes`, a list of texts, and
# `record`, a text of endless variety, with which come 337 columns.
#
# All are scored by progressive validation over the events that have a label, as the command says
# it.

MESSY_NAME = "airlines_h2o_44k"
MESSY_SEED = 16
_OPTIONS = ("--expert", "none", "--json", "--quiet")
_FIELDS = (
    *("Year", "Month", "DayofMonth", "DayOfWeek", "CRSDepTime", "CRSArrTime"),
    *("CRSElapsedTime", "Distance", "UniqueCarrier", "Origin", "Dest"),
)
MISSING = ("NA", "", "NaN", None)
BROKEN = ('{"flight": {"from": "SA', "[1, 2]", "\x00\x01 no event", "{'single': 'quotes'}")


def measure_messy(directory: Directory, *, quick: bool) -> dict[str, Any]:
    """The figures of both files."""
    events = load_events(MESSY_NAME, directory, 2_000 if quick else 0, quick=quick)
    with tempfile.TemporaryDirectory() as home:
        clean = Path(home) / "clean.ndjson"
        write(clean, encoded(events))
        found = {"clean": _command(f"file:{clean}", LABEL)}
        for name, noisy in (("messy", False), ("noisy", True)):
            path = Path(home) / f"{name}.ndjson.gz"
            with gzip.open(path, "wt", encoding="utf-8") as file:
                lines = messed(events, random.Random(MESSY_SEED), noisy=noisy)
                file.write("\n".join(lines) + "\n")
            found[name] = _command(f"file:{path}", "delayed")
    return {"events": len(events), **found}


def messed(events: Sequence[Event], rng: random.Random, *, noisy: bool) -> list[str]:
    """Lines of JSON that tell of the events as they might arrive."""
    noise = random.Random(MESSY_SEED + 1)
    lines = [BROKEN[0]]
    for x, label in events:
        if rng.random() < 0.005:
            lines.append(rng.choice(BROKEN))
        event = _messy_event(x, label, rng)
        if noisy:
            event["codes"] = noise.sample("abcde", noise.randrange(4))
            event["record"] = f"R{noise.randrange(10**9)}"
        lines.append(json.dumps(event))
    return lines


def _messy_event(found: Mapping[str, Any], label: Any, rng: random.Random) -> dict[str, Any]:
    x = dict(zip(_FIELDS, found.values(), strict=True))  # generated events have other names
    year, month, day = (round(x[name] or 1) for name in ("Year", "Month", "DayofMonth"))
    left, due = (round(x[name] or 0) for name in ("CRSDepTime", "CRSArrTime"))
    carrier = x["UniqueCarrier"]
    event: dict[str, Any] = {
        "departure": f"{year}-{month:02}-{day:02}T{left // 100 % 24:02}:{left % 60:02}:00",
        "arrival": due // 100 + due % 100 / 60,
        "carrier": f" {carrier} " if carrier and rng.random() < 0.1 else carrier,
        "route": {
            "from": {"airport": x["Origin"]},
            "to": {"airport": x["Dest"]},
            "miles": _number(x["Distance"], rng),
        },
        "minutes": _number(x["CRSElapsedTime"], rng),
        "delayed": None if rng.random() < 0.01 else bool(label),
    }
    for name in ("arrival", "carrier", "minutes"):
        if rng.random() < 0.02:
            event[name] = rng.choice(MISSING)
    if rng.random() < 0.02:
        del event["minutes"]
    return event


def _number(value: float | None, rng: random.Random) -> Any:
    return f"{value:,.0f}" if value is not None and rng.random() < 0.2 else value


def _command(source: str, label: str) -> dict[str, Any]:
    """Figures of a run of the command, without a feature machine."""
    done = subprocess.run(
        [sys.executable, "-m", "streamk", "run", source, "--label", label, *_OPTIONS],
        cwd=common.ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    names = ("predicted", "learned", "unlabelled", "bad", "columns", "seconds")
    return {**{name: report[name] for name in names}, **report["whole"]}


def render_messy(results: Mapping[str, Any]) -> str:
    """The table."""
    rows = [
        [
            name,
            format(results[name]["accuracy"], ".4f"),
            format(results[name]["log_loss"], ".4f"),
            format(results[name]["learned"], ","),
            format(sum(results[name]["bad"].values()), ","),
            format(results[name]["columns"], ","),
        ]
        for name in ("clean", "messy", "noisy")
    ]
    header = ["airlines", "accuracy", "log loss", "learned", "not usable", "columns"]
    return common.table(header, rows)


# --- the parts ------------------------------------------------------------------------------------

NAME = "arrivals"
PARTS = {
    "messy": Part(lambda o: measure_messy(o.data, quick=o.quick), render_messy),
    "fuzz": Part(lambda o: measure_fuzz(quick=o.quick), render_fuzz),
}


def _settings(_: argparse.Namespace) -> dict[str, Any]:
    return {"seed": {"messy": MESSY_SEED, "fuzz": FUZZ_SEED}}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return common.render_parts(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    common.run_parts(NAME, __doc__, PARTS, argv, settings=_settings)


if __name__ == "__main__":
    sys.exit(common.main(run))
