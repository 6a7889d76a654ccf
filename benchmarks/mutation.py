"""Mutation testing: the share of small faults in the code that the tests find.

A mutant is the code with one operator, number, condition or decorator changed, as cosmic-ray does.
So many positions are drawn at random, a change for each, from `learners`, `engine` and `backends`;
`|`, which mostly stands in types, is left as it is. The tests that execute the line of a mutant,
by coverage's contexts, are run in a copy of the repository, the quickest first, until one fails. A
line that is executed at import alone has the tests of its module. Where no test executes it the
mutant survives. Functions that numba compiles execute no line, and a change in one asks for all
that call it to be compiled anew: of those fewer are drawn (--compiled), each of which has the tests
of the folder that mirrors `backends`.

It takes the coverage of all tests, with the seconds of each:

$ pip install cosmic-ray
$ pytest -m "not nightly and not kafka" --cov --cov-context=test --junitxml=tests.xml
$ python -m benchmarks.mutation --coverage .coverage --seconds tests.xml
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from benchmarks import common

NAME = "mutation"
ROOMS = ("learners", "engine", "backends")
NUMBA, CUDA = "streamk/backends/numba_backend", "streamk/backends/cupy_backend"
JIT = "streamk/backends/jit"
LEFT_OUT = ("BitOr", "core/Variable")
MIRROR = "tests/backends"
FIRST, MOST = 10.0, 60.0
"""Seconds of tests that are run at first, and at most."""
PATIENCE = 900
"""Seconds after which a run counts as a failure: it does not end."""
_NOT_FOUND, _FINE = 4, (0, 5)
"""Exit statuses of pytest: a test is not found; all pass, or there is none."""
IGNORED = (".git", ".venv", "*.xml", ".coverage*")


@dataclass(frozen=True)
class Mutant:
    """A change: the file, its line (from 1), the operator, and which of its occurrences."""

    file: str
    line: int
    operator: str
    occurrence: int

    @property
    def compiled(self) -> bool:
        """Whether the function is one that numba compiles."""
        return self.file.startswith((NUMBA, JIT))


class Tests:
    """The tests that execute each line of each file, and their seconds.

    Parameters
    ----------
    coverage : path
        A data file with a context for each test.
    seconds : path
        JUnit's XML of the same run.
    """

    def __init__(self, coverage: Path, seconds: Path) -> None:
        from coverage import CoverageData

        data = CoverageData(str(coverage))
        data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}
        for measured in data.measured_files():
            lines = data.contexts_by_lineno(measured)
            name = str(Path(measured).relative_to(_top(Path(measured))))
            self._lines[name] = {
                line: sorted({one.split("|")[0] for one in contexts if one})
                for line, contexts in lines.items()
            }
        self._seconds: dict[str, float] = {}
        for case in ElementTree.parse(seconds).iter("testcase"):
            key = f"{case.get('classname')}::{case.get('name')}"
            self._seconds[key] = float(case.get("time") or 0.0)

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that execute a mutant's line, the quickest first."""
        if mutant.compiled:
            return [MIRROR]
        lines = self._lines.get(mutant.file, {})
        # A statement of several lines may be known by its first one.
        line = max((each for each in lines if each <= mutant.line), default=0)
        found = lines.get(line, [])
        if line and not found:
            found = sorted({test for tests in lines.values() for test in tests})
        return sorted(found, key=lambda test: (self.seconds(test), test))

    def seconds(self, test: str) -> float:
        """Return the seconds of a test, 1 where they are not known."""
        path, _, rest = test.partition("::")
        parts = rest.split("::")
        dotted = path.removesuffix(".py").replace("/", ".")
        return self._seconds.get(".".join([dotted, *parts[:-1]]) + f"::{parts[-1]}", 1.0)


def _top(path: Path) -> Path:
    """Return the directory that holds the packages of a measured file."""
    return next(above for above in path.parents if not (above / "__init__.py").exists())


def drawn(count: int, compiled: int, seed: int) -> list[Mutant]:
    """Return a sample of mutants, so many where Python executes the lines and so many compiled."""
    places: dict[bool, dict[tuple[str, Any], list[Mutant]]] = {
        False: defaultdict(list),
        True: defaultdict(list),
    }
    for path in sorted(common.ROOT.joinpath("streamk").rglob("*.py")):
        name = str(path.relative_to(common.ROOT))
        if name.split("/")[1] in ROOMS and not name.startswith(CUDA):
            for position, mutant in _mutants(path, name):
                places[mutant.compiled][name, position].append(mutant)
    chosen = random.Random(seed)
    found = []
    for kind, wanted in ((False, count), (True, compiled)):
        keys = sorted(places[kind])
        sample = chosen.sample(keys, min(wanted, len(keys)))
        found += [chosen.choice(places[kind][key]) for key in sample]
    return found


def _mutants(path: Path, name: str) -> Iterator[tuple[Any, Mutant]]:
    """Yield all mutants of a file with their positions."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast_from_path(path)))
    for operator in operator_names():
        if any(word in operator for word in LEFT_OUT):
            continue
        make = get_operator(operator)()
        positions = (each for node in nodes for each in make.mutation_positions(node))
        for occurrence, (start, _) in enumerate(positions):
            yield start, Mutant(name, start[0], operator, occurrence)


class Copy:
    """A copy of the repository in which mutants are tried, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "repository"
        shutil.copytree(common.ROOT, self.root, ignore=shutil.ignore_patterns(*IGNORED))
        self._compiled = directory / "compiled"
        shutil.copytree(self.root / NUMBA, self._compiled)

    def killed(self, mutant: Mutant, tests: Tests) -> tuple[bool, int]:
        """Return whether a test fails, and how many were chosen."""
        chosen = tests.of(mutant)
        if not chosen:
            return False, 0
        batches = [chosen] if mutant.compiled else list(_batches(chosen, tests))
        count = sum(map(len, batches))
        with self._changed(mutant):
            ended = next(
                (code for batch in batches if (code := self._ended(batch)) not in _FINE), 0
            )
        if ended == _NOT_FOUND:
            # Parameters of tests come from the code. Without the change all must be there.
            code = self._ended([test for batch in batches for test in batch], "--collect-only")
            if code:
                raise RuntimeError(f"pytest ends with {code} where tests of {mutant} are collected")
        return ended not in _FINE, count

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        """Have the mutant in its file, and afterwards the file as it was."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        path, loops = self.root / mutant.file, self.root / NUMBA
        before, times = path.read_text("utf-8"), path.stat()
        changed = mutate_code(before, get_operator(mutant.operator)(), mutant.occurrence)
        assert changed is not None
        path.write_text(changed, encoding="utf-8")
        if mutant.compiled:
            # Callers are kept compiled with the function as it was.
            for kept in loops.rglob("*.nb[ci]"):
                kept.unlink()
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            if mutant.compiled:
                shutil.rmtree(loops)
                shutil.copytree(self._compiled, loops)

    def _ended(self, tests: Sequence[str], *options: str) -> int:
        """Return the exit status of the tests up to the first that fails, 1 if they do not end."""
        listed = self.root / "tests.txt"
        listed.write_text("\n".join(tests) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--no-header"]
        command += ["-p", "no:cacheprovider", "--timeout=300", *options, f"@{listed}"]
        environment = {**os.environ, "PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 1
        return done.returncode


def _batches(chosen: Sequence[str], tests: Tests) -> Iterator[list[str]]:
    """Divide tests, the quickest first, into those of a while and the rest up to the most."""
    batch: list[str] = []
    spent, limit = 0.0, FIRST
    for test in chosen:
        spent += tests.seconds(test)
        if spent > limit and batch:
            yield batch
            batch = []
            if limit == MOST:
                return
            limit = MOST
        batch.append(test)
    if batch:
        yield batch


def tried(mutants: Iterable[Mutant], tests: Tests, jobs: int) -> list[dict[str, Any]]:
    """Try the mutants, so many at a time."""
    own = threading.local()
    with tempfile.TemporaryDirectory() as directory:

        def one(mutant: Mutant) -> dict[str, Any]:
            if not hasattr(own, "copy"):
                own.copy = Copy(Path(tempfile.mkdtemp(dir=directory)))
            began = time.perf_counter()
            killed, chosen = own.copy.killed(mutant, tests)
            seconds = round(time.perf_counter() - began, 1)
            common.note(
                f"  {'killed' if killed else 'SURVIVED'} {mutant.file}:{mutant.line} "
                f"{mutant.operator} {mutant.occurrence}, {chosen} tests, {seconds} s"
            )
            return {**vars(mutant), "killed": killed, "tests": chosen, "seconds": seconds}

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(one, mutants))


def render(document: Mapping[str, Any]) -> str:
    """The share of mutants killed by room, and the mutants that survive.

    "before" is an earlier tree, of which fewer were drawn.
    """
    results = document["results"]
    text = [*_shares(results), common.origin(document)]
    if "before" in results:
        before = results["before"]
        revision = before["origin"]["revision"].removesuffix("-dirty")
        text += [f"Before, at {revision}:", *_shares(before), common.origin(before["origin"])]
    return "\n\n".join(text)


def _shares(results: Mapping[str, Any]) -> list[str]:
    """Return the table by room, and the sentences below it."""
    found, rows = results["mutants"], []
    for room in (*ROOMS, "numba", ""):
        some = [one for one in found if room in ("", _room(one["file"]))]
        if some:
            dead = sum(one["killed"] for one in some)
            low, high = binomtest(dead, len(some)).proportion_ci(method="wilson")
            counts = [f"{len(some)}", f"{dead}", f"{dead / len(some):.1%}"]
            rows.append([room or "all", *counts, f"{low:.1%} to {high:.1%}"])
    header = ["mutants", "drawn", "killed", "share", "95% interval"]
    by_operator = Counter(one["operator"].split("/")[1] for one in found if not one["killed"])
    lived = ", ".join(f"{name} {count}" for name, count in by_operator.most_common(8))
    text = [common.table(header, rows), f"Survivors by their change: {lived}"]
    if "coverage" in results:
        share = results["coverage"]
        text.append(f"Lines and branches that the tests execute: {share:.1f}%")
    return text


def _room(file: str) -> str:
    return "numba" if file.startswith((NUMBA, JIT)) else file.split("/")[1]


def _covered(coverage: Path) -> float:
    """Return the share of lines and branches that are executed, in per cent."""
    from coverage import Coverage

    measured = Coverage(data_file=str(coverage))
    measured.load()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        return measured.report(file=nowhere)


def run(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{NAME}",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--coverage", metavar="FILE", type=Path, required=True)
    parser.add_argument("--seconds", metavar="FILE", type=Path, required=True)
    parser.add_argument("--sample", metavar="N", type=int, default=270, help="%(default)s")
    parser.add_argument("--compiled", metavar="N", type=int, default=30, help="%(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the sample; %(default)s")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", metavar="FILE", type=Path)
    options = parser.parse_args(argv)
    options.quick = False
    mutants = drawn(options.sample, options.compiled, options.seed)
    tests = Tests(options.coverage, options.seconds)
    results = {
        "coverage": round(_covered(options.coverage), 2),
        "mutants": tried(mutants, tests, options.jobs),
    }
    common.finish(NAME, options, {"seed": options.seed}, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
