"""Put the tables of the results into README.md, so that the page says what the files say.

python -m benchmarks.page
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks import adult, common, first_light
from benchmarks.speed import __main__ as speed

PAGE = Path(__file__).parent / "README.md"
RENDER = {"first_light": first_light.render, "adult": adult.render, "speed": speed.render}


def page(text: str, results: Path = common.RESULTS) -> str:
    """The page with the table of each results file between its marks."""
    for name, render in RENDER.items():
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
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
