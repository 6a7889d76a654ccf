"""Airlines as it might arrive, learned by `streamk run --expert none`, beside the clean file.

The clean file has one JSON object a line: numbers, three texts, and null where a cell is missing.
The messy one tells the same of each flight otherwise, and some of it worse:

- year, month, day and the planned departure are one time, "1987-10-14T07:30:00"; the planned
  arrival is a number of hours beside it, and the day of the week is left out;
- origin and destination are in nested objects, the carrier is a text with blanks around it in one
  event of ten;
- numbers are texts in one event of five, with commas in the thousands ("1,440");
- one cell in fifty is "NA", "", "NaN" or null; one field in fifty is not there at all;
- the label is null in one event of a hundred, and one line in two hundred is no event, the first
  among them: cut off, a list, or not JSON;
- the file is compressed.

The noisy one has two more fields that say nothing of the delay: `codes`, a list of texts, and
`record`, a text of endless variety, with which come 337 columns.

All are scored by progressive validation over the events that have a label, as the command says it.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common
from benchmarks.data import Directory
from benchmarks.engine.events import LABEL, Event, encoded, load, write

NAME = "airlines_h2o_44k"
SEED = 16
_OPTIONS = ("--expert", "none", "--json", "--quiet")
_FIELDS = (
    *("Year", "Month", "DayofMonth", "DayOfWeek", "CRSDepTime", "CRSArrTime"),
    *("CRSElapsedTime", "Distance", "UniqueCarrier", "Origin", "Dest"),
)
MISSING = ("NA", "", "NaN", None)
BROKEN = ('{"flight": {"from": "SA', "[1, 2]", "\x00\x01 no event", "{'single': 'quotes'}")


def measure(directory: Directory, *, quick: bool) -> dict[str, Any]:
    """The figures of both files."""
    events = load(NAME, directory, 2_000 if quick else 0, quick=quick)
    with tempfile.TemporaryDirectory() as home:
        clean = Path(home) / "clean.ndjson"
        write(clean, encoded(events))
        found = {"clean": _command(f"file:{clean}", LABEL)}
        for name, noisy in (("messy", False), ("noisy", True)):
            path = Path(home) / f"{name}.ndjson.gz"
            with gzip.open(path, "wt", encoding="utf-8") as file:
                lines = messed(events, random.Random(SEED), noisy=noisy)
                file.write("\n".join(lines) + "\n")
            found[name] = _command(f"file:{path}", "delayed")
    return {"events": len(events), **found}


def messed(events: Sequence[Event], rng: random.Random, *, noisy: bool) -> list[str]:
    """Lines of JSON that tell of the events as they might arrive."""
    noise = random.Random(SEED + 1)
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


def render(results: Mapping[str, Any]) -> str:
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
