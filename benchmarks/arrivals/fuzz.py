"""Random records without end: nothing may raise, stop or grow.

A model of `streamk run --expert none` takes records made from a seed, in the turns below, from
memory through the engine: plain events, events with any value in the place of one, random JSON,
damaged events, and random bytes. Memory is the process's resident size, taken after each tenth.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import common

RECORDS = 1_800_000
SEED = 7
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


def measure(*, quick: bool) -> dict[str, Any]:
    """Take the records; return the counts and the memory along the way."""
    from connectors.memory import MemorySource
    from streamk.engine import Engine, Snapshot
    from streamk.learners import create

    n = 5_000 if quick else RECORDS
    sizes: list[list[int]] = []

    def note(snapshot: Snapshot) -> None:
        if snapshot.events >= (len(sizes) + 1) * n // 10:
            sizes.append([snapshot.events, snapshot.process_bytes, snapshot.model_bytes])

    source = MemorySource(list(records(n, SEED)))
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
        "seed": SEED,
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


def render(results: Mapping[str, Any]) -> str:
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
