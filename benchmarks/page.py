"""Put the tables of the results into README.md and the guide, so that they say what the files say.

python -m benchmarks.page
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import adult, common, first_light, first_use, scaling
from benchmarks.arrivals import __main__ as arrivals
from benchmarks.engine import __main__ as engine
from benchmarks.features import __main__ as features
from benchmarks.meka import __main__ as meka
from benchmarks.memory import __main__ as memory
from benchmarks.memory import budget
from benchmarks.multi_kernel import __main__ as multi_kernel
from benchmarks.oasis import __main__ as oasis
from benchmarks.river_battery import front
from benchmarks.river_battery import speed as battery_speed
from benchmarks.river_battery import tables as battery
from benchmarks.speed import __main__ as speed
from benchmarks.step import __main__ as step

Render = Callable[[Mapping[str, Any]], str]

PAGES: dict[Path, dict[str, Render]] = {
    Path(__file__).parent / "README.md": {
        "first_light": first_light.render,
        "adult": adult.render,
        "speed": speed.render,
        engine.NAME: engine.render,
        arrivals.NAME: arrivals.render,
        "features": features.render,
        "step": step.render,
        "memory": memory.render,
        "scaling": scaling.render,
        "river_battery": battery.render,
        battery_speed.NAME: battery_speed.render,
        multi_kernel.NAME: multi_kernel.render,
        oasis.NAME: oasis.render,
        meka.NAME: meka.render,
        first_use.NAME: first_use.render,
    },
    common.ROOT / "docs" / "index.md": {"river_battery": front.render},
    common.ROOT / "docs" / "models.md": {
        "memory": lambda document: budget.render(document["results"]["budget"]),
    },
}
"""The pages, and the tables in them by the names of results."""


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


def main() -> Any:
    for path, tables in PAGES.items():
        path.write_text(page(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
