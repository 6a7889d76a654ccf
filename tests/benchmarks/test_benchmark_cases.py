"""The cases for comparisons between commits: there are some 25, and each runs."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / json.loads((ROOT / "asv.conf.json").read_text())["benchmark_dir"]


def cases() -> list[Any]:
    """Classes of cases with each of their parameters, as airspeed velocity finds them."""
    found = []
    for path in sorted(FOLDER.glob("*.py")):
        module = importlib.import_module(f"benchmarks.hot_paths.{path.stem}")
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == module.__name__:
                lists = getattr(kind, "params", ())
                lists = (
                    lists if lists and isinstance(lists[0], tuple) else (lists,) if lists else ()
                )
                for values in itertools.product(*lists):
                    ids = "-".join([path.stem, name, *values])
                    found.append(pytest.param(kind, values, id=ids))
    return found


CASES = cases()


def test_there_are_some_25_cases() -> None:
    timed = sum(
        name.startswith("time_") for one in CASES for name, _ in inspect.getmembers(one.values[0])
    )
    assert 25 <= timed <= 60


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "values"), CASES)
def test_a_case_runs(kind: Any, values: tuple[str, ...]) -> None:
    case = kind()
    try:
        case.setup(*values)
    except NotImplementedError:
        return
    for name, method in inspect.getmembers(case, inspect.ismethod):
        if name.startswith("time_"):
            method(*values)
    if hasattr(case, "teardown"):
        case.teardown(*values)
