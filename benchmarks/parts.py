"""Benchmarks of parts, each of which may come from a run of its own (--only, --parts)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import common

Render = Callable[[Mapping[str, Any]], str]
_ORIGIN = ("date", "revision", "machine", "versions")


def add_only(parser: argparse.ArgumentParser, parts: Sequence[str], flag: str = "--only") -> None:
    """The option for the parts that are wanted, `only` of the options."""
    parser.add_argument(
        flag,
        dest="only",
        nargs="+",
        choices=parts,
        metavar="PART",
        help="the others stay in the results as they were; of " + ", ".join(parts),
    )


def run(
    name: str,
    about: str | None,
    measures: Mapping[str, Callable[..., dict[str, Any]]],
    render: Render,
    argv: Sequence[str] | None,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Measure the parts that are wanted, each from data and `quick`, and write them."""
    parser = common.arguments(f"benchmarks.{name}", about)
    add_only(parser, list(measures))
    options = parser.parse_args(argv)
    given = {
        part: partial(measure, options.data, quick=options.quick)
        for part, measure in measures.items()
    }
    common.finish(name, options, dict(settings or {}), measured(name, options, given), render)


def measured(
    name: str, options: argparse.Namespace, measures: Mapping[str, Callable[[], dict[str, Any]]]
) -> dict[str, Any]:
    """The parts that are wanted, measured, among those of an earlier run."""
    wanted = options.only or list(measures)
    before = {} if options.quick else kept(options.out or common.RESULTS / f"{name}.json")
    results = {}
    for part, measure in measures.items():
        if part in wanted:
            common.note(part)
            results[part] = measure()
        elif part in before:
            results[part] = before[part]
    return results


def kept(path: Path) -> dict[str, Any]:
    """The parts of an earlier run, each with its origin."""
    if not path.is_file():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    origin = {key: document[key] for key in _ORIGIN}
    return {name: {"origin": origin, **found} for name, found in document["results"].items()}


def render(document: Mapping[str, Any], parts: Mapping[str, Render]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    texts = []
    for name, tables in parts.items():
        found = document["results"].get(name)
        if found is not None:
            figures = {key: one for key, one in found.items() if key != "origin"}
            texts += [tables(figures), common.origin(found.get("origin", document))]
    return "\n\n".join(texts)
