"""Put the tables of the results into the pages, so that they say what the files say.

python -m benchmarks.page
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import (
    adult,
    common,
    first_light,
    first_use,
    headlines,
    mutation,
    revisions,
    scaling,
)
from benchmarks.arrivals import __main__ as arrivals
from benchmarks.doubly_stochastic import __main__ as doubly_stochastic
from benchmarks.drift import __main__ as drift
from benchmarks.eigenpro import __main__ as eigenpro
from benchmarks.engine import __main__ as engine
from benchmarks.fast_prediction import __main__ as fast_prediction
from benchmarks.feature_machine import __main__ as feature_machine
from benchmarks.features import __main__ as features
from benchmarks.gpu import __main__ as gpu
from benchmarks.late_labels import __main__ as late_labels
from benchmarks.meka import __main__ as meka
from benchmarks.memory import __main__ as memory
from benchmarks.memory import budget
from benchmarks.multi_kernel import __main__ as multi_kernel
from benchmarks.oasis import __main__ as oasis
from benchmarks.retrained import __main__ as retrained
from benchmarks.river_battery import front
from benchmarks.river_battery import speed as battery_speed
from benchmarks.river_battery import tables as battery
from benchmarks.scale_out import __main__ as scale_out
from benchmarks.serving import __main__ as serving
from benchmarks.signals import __main__ as signals
from benchmarks.soak import __main__ as soak
from benchmarks.speed import __main__ as speed
from benchmarks.step import __main__ as step

Render = Callable[[Mapping[str, Any]], str]

GUIDE = common.ROOT / "docs"
TOPICS = GUIDE / "benchmarks"

PAGES: dict[Path, dict[str, Render]] = {
    TOPICS / "first_light.md": {"first_light": first_light.render},
    TOPICS / "adult.md": {"adult": adult.render},
    TOPICS / "speed.md": {"speed": speed.render},
    TOPICS / "engine.md": {engine.NAME: engine.render},
    TOPICS / "arrivals.md": {arrivals.NAME: arrivals.render},
    TOPICS / "features.md": {"features": features.render},
    TOPICS / "gpu.md": {gpu.NAME: gpu.render},
    TOPICS / "step.md": {"step": step.render},
    TOPICS / "memory.md": {"memory": memory.render},
    TOPICS / "scaling.md": {"scaling": scaling.render},
    TOPICS / "river_battery.md": {
        "river_battery": battery.render,
        battery_speed.NAME: battery_speed.render,
    },
    TOPICS / "retrained.md": {retrained.NAME: retrained.render},
    TOPICS / "many_kernels.md": {multi_kernel.NAME: multi_kernel.render},
    TOPICS / "oasis.md": {oasis.NAME: oasis.render},
    TOPICS / "meka.md": {meka.NAME: meka.render},
    TOPICS / "eigenpro.md": {eigenpro.NAME: eigenpro.render},
    TOPICS / "feature_machine.md": {feature_machine.NAME: feature_machine.render},
    TOPICS / "fast_prediction.md": {fast_prediction.NAME: fast_prediction.render},
    TOPICS / "doubly_stochastic.md": {doubly_stochastic.NAME: doubly_stochastic.render},
    TOPICS / "drift.md": {drift.NAME: drift.render},
    TOPICS / "serving.md": {serving.NAME: serving.render},
    TOPICS / "signals.md": {signals.NAME: signals.render},
    TOPICS / "late_labels.md": {late_labels.NAME: late_labels.render},
    TOPICS / "scale_out.md": {scale_out.NAME: scale_out.render},
    TOPICS / "first_use.md": {first_use.NAME: first_use.render},
    TOPICS / "mutation.md": {mutation.NAME: mutation.render},
    TOPICS / "revisions.md": {revisions.NAME: revisions.render},
    TOPICS / "soak.md": {soak.NAME: soak.render},
    GUIDE / "index.md": {"river_battery": front.render},
    GUIDE / "models.md": {
        "memory": lambda document: budget.render(document["results"]["budget"]),
    },
}
"""The pages, and the tables in them by the names of results."""
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
    for path, tables in PAGES.items():
        path.write_text(page(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
