"""What the benchmarks share: arguments, parts, the record, timing, memory, statistics, tables.

A benchmark is a module with `run(argv)`, `render(document)` and, where it has several, `PARTS`:
each of them may come from a run of its own (`--only`). Contestants take turns in one process, so
that a slow minute is everyone's.
"""

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
from typing import Any, NamedTuple

import numpy as np
import scipy

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


_DATA = f"directory of the data sets (default: ${VARIABLE}); see docs/data.md"


def arguments(
    name: str, description: str | None, *, out: bool = True, data: str = _DATA
) -> argparse.ArgumentParser:
    """The options that every benchmark has; `out`: it writes one file, `data`: what is in DIR."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", metavar="DIR", help=data)
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
    document = write(name, options, settings, results)
    print(render(document))
    out = written(name, options)
    if out is not None:
        print(f"\nwritten to {out}")


def write(
    name: str, options: argparse.Namespace, settings: Mapping[str, Any], results: Any
) -> dict[str, Any]:
    """Write the JSON, if there is a file for it, and return what is in it."""
    document = {
        "benchmark": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "revision": revision(),
        "machine": machine(),
        "versions": versions(),
        "settings": dict(settings),
        "results": results,
    }
    out = written(name, options)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return document


def written(name: str, options: argparse.Namespace) -> Path | None:
    """The file of the JSON; a quick run has none unless it is given one."""
    default = None if options.quick else RESULTS / f"{name}.json"
    return options.out or default


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


# --- parts --------------------------------------------------------------------------------------


class Part(NamedTuple):
    """One part of a benchmark: measured by the options of the run, and told as a table."""

    measure: Callable[[argparse.Namespace], dict[str, Any]]
    render: Callable[[Mapping[str, Any]], str]


def run_parts(
    name: str,
    about: str | None,
    parts: Mapping[str, Part],
    argv: Sequence[str] | None,
    *,
    settings: Callable[[argparse.Namespace], Mapping[str, Any]] | None = None,
    rounds: int | None = None,
    add: Callable[[argparse.ArgumentParser], None] | None = None,
    render: Callable[[Mapping[str, Any]], str] | None = None,
) -> None:
    """Measure the parts that are wanted, and write them among those of an earlier run.

    `rounds` is the default of an option of that name, `add` adds what else there is, and `render`
    says more of the results than the tables of the parts.
    """
    parser = arguments(f"benchmarks.{name}", about)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(parts),
        metavar="PART",
        help="the others stay in the results as they were; of " + ", ".join(parts),
    )
    if rounds is not None:
        parser.add_argument("--rounds", type=int, default=rounds, help="default: %(default)s")
    if add is not None:
        add(parser)
    options = parser.parse_args(argv)
    before = {} if options.quick else kept(options.out or RESULTS / f"{name}.json")
    results = {}
    for part, (measure, _) in parts.items():
        if part in (options.only or parts):
            note(part)
            results[part] = measure(options)
        elif part in before:
            results[part] = before[part]
    given = settings(options) if settings is not None else {}
    said = render or (lambda document: render_parts(document, parts))
    finish(name, options, given, results, said)


def topic(
    name: str, about: str | None, parts: Mapping[str, Part], **how: Any
) -> tuple[Callable[[Mapping[str, Any]], str], Callable[[Sequence[str] | None], None]]:
    """`render` and `run` of a benchmark of parts; `how` are options of `run_parts`."""

    def run(argv: Sequence[str] | None = None) -> None:
        run_parts(name, about, parts, argv, **how)

    return lambda document: render_parts(document, parts), run


def earlier(path: Path | None) -> dict[str, Any]:
    """The results of an earlier run, which goes on; none if there is no file."""
    if path is None or not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["results"]
    return found


def kept(path: Path) -> dict[str, Any]:
    """The parts of an earlier run, each with its origin."""
    if not path.is_file():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    source = {key: document[key] for key in ("date", "revision", "machine", "versions")}
    return {name: {"origin": source, **found} for name, found in document["results"].items()}


def render_parts(document: Mapping[str, Any], parts: Mapping[str, Part]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    texts = []
    for name, (_, render) in parts.items():
        found = document["results"].get(name)
        if found is not None:
            figures = {key: one for key, one in found.items() if key != "origin"}
            texts += [render(figures), origin(found.get("origin", document))]
    return "\n\n".join(texts)


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


def revision() -> str | None:
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


# --- memory, and processes of their own ----------------------------------------------------------


def fresh(
    work: Callable[..., Any], order: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> Any:
    """What a function of a module returns, called in a process of its own; all goes as JSON."""
    spec = sys.modules[work.__module__].__spec__
    assert spec is not None
    call = (
        f"import json, sys; from {spec.name} import {work.__name__} as work;"
        "print(json.dumps(work(**json.load(sys.stdin))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=ROOT,
        env=os.environ | dict(environment or {}),
        input=json.dumps(order),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def resident(line: str = "VmRSS", process: int | str = "self") -> int:
    """Bytes of a line of a process's status: VmRSS now, VmHWM at most so far."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(rf"^{line}:\s*(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


# --- statistics -----------------------------------------------------------------------------------


def mean(values: Sequence[float]) -> dict[str, Any]:
    """The mean over seeds, half the width of its 95% interval (Student's t), and the values."""
    half = 0.0
    if len(values) > 1:
        error = float(np.std(values, ddof=1)) / len(values) ** 0.5
        half = float(scipy.stats.t.ppf(0.975, len(values) - 1)) * error
    kept = [float(f"{value:.6g}") for value in values]
    return {"mean": float(np.mean(values)), "half": half, "values": kept}


def cell(figure: Mapping[str, Any], digits: int = 4) -> str:
    """The mean and its interval; of one seed there is none."""
    text = f"{figure['mean']:.{digits}f}"
    return text if len(figure["values"]) == 1 else f"{text} ± {figure['half']:.{digits}f}"


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
