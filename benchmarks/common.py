"""What the benchmarks share: arguments, the record of machine and versions, timing, tables."""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.data import VARIABLE, DataError

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
_PACKAGES = (
    "streamk",
    "numpy",
    "scipy",
    "numba",
    "ray",
    "river",
    "scikit-learn",
    "torch",
    "confluent-kafka",
    "kafka-python",
    "msgspec",
)


def arguments(name: str, description: str | None, *, out: bool = True) -> argparse.ArgumentParser:
    """The options that every benchmark has; `out`: it writes one file."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help=f"directory of the data sets (default: ${VARIABLE}); see docs/data.md",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few events, generated ones without --data: tries the code, measures nothing",
    )
    if out:
        parser.add_argument(
            "--out",
            metavar="FILE",
            type=Path,
            help="JSON to write (default: benchmarks/results/; none with --quick)",
        )
    return parser


def finish(
    name: str,
    options: argparse.Namespace,
    settings: Mapping[str, Any],
    results: Any,
    render: Callable[[Any], str],
) -> None:
    """Print the table and write the JSON."""
    document = {
        "benchmark": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "revision": _revision(),
        "machine": machine(),
        "versions": versions(),
        "settings": dict(settings),
        "results": results,
    }
    print(render(document))
    out = options.out
    if out is None and not options.quick:
        out = RESULTS / f"{name}.json"
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"\nwritten to {out}")


def main(run: Callable[[Sequence[str] | None], None], argv: Sequence[str] | None = None) -> int:
    """Run a benchmark; data that is not there is a message and exit status 2."""
    try:
        run(argv)
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def note(text: str) -> None:
    """Say how far the run is."""
    print(text, file=sys.stderr, flush=True)


# --- the record ---------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.is_file() else ""
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)
    known = flags[1].split() if flags else []
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model[1].strip() if model else platform.processor(),
        "cores": os.cpu_count(),
        "vectors": [flag for flag in ("avx2", "fma", "avx512f") if flag in known],
        "memory_gib": round(pages * size / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter here."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _revision() -> str | None:
    """The commit that was measured, "-dirty" if code differs from it; None outside a checkout."""
    code = ("streamk", "connectors", ":(glob)benchmarks/**/*.py")
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        return commit + ("-dirty" if _git("status", "--porcelain", "--", *code) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


# --- timing -------------------------------------------------------------------------------------


def timed(work: Callable[[], Any]) -> float:
    """Seconds that the work takes, with garbage collected before."""
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each contestant returns, asked in turn, so that a slow minute is everyone's."""
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, contestant in contestants.items():
            figures[name].append(contestant())
            note(f"  round {number + 1}: {name}: {figures[name][-1]:,.4g}")
    return figures


def spread(values: Iterable[float]) -> dict[str, Any]:
    """Median, least and greatest of repeated measurements, and all of them."""
    values = [float(f"{value:.5g}") for value in values]
    return {
        "median": statistics.median(values),
        "low": min(values),
        "high": max(values),
        "values": values,
    }


# --- tables -------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of text: the first to the left, the others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = []
    for line in lines:
        first, *others = (
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        text.append("  ".join([first, *others]).rstrip())
    return "\n".join([text[0], "-" * max(map(len, text)), *text[1:]])


def ranged(figure: Mapping[str, Any], digits: int = 0) -> tuple[str, str]:
    """Cells of a `spread`: the median, and "low to high"."""
    return (
        f"{figure['median']:,.{digits}f}",
        f"{figure['low']:,.{digits}f} to {figure['high']:,.{digits}f}",
    )


def origin(document: Mapping[str, Any]) -> str:
    """Two lines on where and when the figures come from."""
    m, v = document["machine"], document["versions"]
    packages = ", ".join(f"{name} {v[name]}" for name in ("numpy", "numba", "river"))
    return (
        f"{document['date'][:10]}, {m['cpu']}, {m['cores']} cores ({', '.join(m['vectors'])}),\n"
        f"Python {v['python']}, {packages}"
    )
