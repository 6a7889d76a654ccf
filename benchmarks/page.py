"""Put the tables of the results into the pages, so that they say what the files say.

python -m benchmarks.page
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import battery_tables, common, headlines, stream_arena

Render = Callable[[Mapping[str, Any]], str]

GUIDE = common.ROOT / "docs"
TOPICS = (
    "ablation",
    "adult",
    "cost",
    "doubly_stochastic",
    "drift",
    "eigenpro",
    "engine",
    "fast_prediction",
    "feature_machine",
    "features",
    "gpu",
    "late_labels",
    "meka",
    "memory",
    "memory_of_streams",
    "multi_kernel",
    "mutation",
    "oasis",
    "retrained",
    "revisions",
    "river_battery",
    "scale_out",
    "serving",
    "signals",
    "soak",
    "speed",
    "stream_arena",
)
"""The benchmarks: a module, its results and their page have one name."""
_PAGES = {"multi_kernel": "many_kernels"}
"""A page of another name than its benchmark."""


def pages() -> dict[Path, dict[str, Render]]:
    """The pages, and the tables in them by the names of results."""
    found: dict[Path, dict[str, Render]] = {
        GUIDE / "benchmarks" / f"{_PAGES.get(name, name)}.md": {
            name: importlib.import_module(f"benchmarks.{name}").render
        }
        for name in TOPICS
    }
    return found | {
        GUIDE / "index.md": {
            "stream_arena": stream_arena.front,
            "river_battery": battery_tables.front,
        },
        common.ROOT / "README.md": {"stream_arena": stream_arena.front},
    }


FIRST = Path(__file__).parent / "README.md"


def page(text: str, tables: Mapping[str, Render], results: Path = common.RESULTS) -> str:
    """The page with the table of each results file between its marks."""
    for name, render in tables.items():
        path = results / f"{name}.json"
        if path.is_file():
            text = _with_table(text, name, render(json.loads(path.read_text(encoding="utf-8"))))
    return text


def _with_table(text: str, name: str, table: str) -> str:
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->\n)", re.DOTALL)
    filled, found = marks.subn(lambda m: f"{m[1]}\n```text\n{table}\n```\n\n{m[2]}", text)
    if found != 1:
        raise ValueError(f"the page has {found} places for {name}, not one")
    return filled


def first_page(text: str, results: Path = common.RESULTS) -> str:
    """The first page with its table."""
    documents = {
        one.results: json.loads((results / f"{one.results}.json").read_text(encoding="utf-8"))
        for one in headlines.HEADLINES
    }
    marks = re.compile(r"(<!-- headlines -->\n).*?(<!-- end of headlines -->\n)", re.DOTALL)
    return marks.sub(lambda m: f"{m[1]}\n{headlines.render(documents)}\n\n{m[2]}", text)


def main() -> Any:
    FIRST.write_text(first_page(FIRST.read_text(encoding="utf-8")), encoding="utf-8")
    for path, tables in pages().items():
        path.write_text(page(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
