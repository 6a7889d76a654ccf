"""The rooms of the packages, their lines, and the imports between them, as a table and a picture.

python -m benchmarks.imports --at CHECKOUT --to docs/house/imports.png

A room is a folder of `streamk`, in `learners`, `engine` and some others each folder inside;
`connectors` is one. Rooms are laid out in levels: all that a room imports lies below it. An arrow
up would be an import that closes a circle; the program ends with status 1 if there is one.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import common

DIVIDED = ("learners", "engine", "adapters", "landmarks", "prediction", "cli", "serving")
"""Folders whose folders are rooms."""
BY_FILES = ("learners", "engine")
"""Those of them whose files are rooms, too."""
GROUND = "errors, state"
GROUND_MODULES = ("errors", "state", "declared", "extensions", "options", "packing")


def modules(root: Path) -> dict[str, Path]:
    """Return the modules of both packages by their dotted names."""
    found = {}
    for package in ("streamk", "connectors"):
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(name: str, packages: set[str]) -> str:
    """Return the room of a module."""
    parts = name.split(".")
    if parts[0] == "connectors":
        return "connectors"
    for depth in (3, 2):
        inside = ".".join(parts[:depth])
        if len(parts) == depth == 3 and parts[1] in BY_FILES:
            return inside.removeprefix("streamk.")
        if len(parts) >= depth and inside in packages and (depth == 2 or parts[1] in DIVIDED):
            return inside.removeprefix("streamk.")
    return GROUND if parts[-1] in GROUND_MODULES else parts[-1]


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield our modules that one imports when it is imported."""
    nodes: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        nodes += ast.iter_child_nodes(node)


def arrows(root: Path) -> tuple[Counter[str], Counter[str], Counter[tuple[str, str]]]:
    """Return modules and lines by room, and imports between rooms."""
    known = modules(root)
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    count: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    between: Counter[tuple[str, str]] = Counter()
    for name, path in known.items():
        here = room(name, packages)
        if name == "streamk":
            continue
        count[here] += 1
        lines[here] += len(path.read_text("utf-8").splitlines())
        for other in imported(path, known):
            if other in known and other != "streamk" and path.name != "__init__.py":
                there = room(other, packages)
                if there != here:
                    between[here, there] += 1
    return count, lines, between


def levels(rooms: set[str], between: Counter[tuple[str, str]]) -> tuple[dict[str, int], set[str]]:
    """Return the level of each room, and the rooms that stand in circles."""
    found: dict[str, int] = {}
    left = set(rooms)
    while left:
        free = {one for one in left if not any(a == one and b in left for a, b in between)}
        if not free:
            break
        for one in free:
            found[one] = 1 + max((found[b] for a, b in between if a == one), default=-1)
        left -= free
    top = 1 + max(found.values(), default=0)
    return {**found, **dict.fromkeys(left, top)}, left


def draw(
    lines: Counter[str],
    between: Counter[tuple[str, str]],
    level: Mapping[str, int],
    circle: set[str],
    path: Path,
) -> None:
    """Draw rooms by level, and arrows as wide as the imports are many."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [sorted(r for r in level if level[r] == n) for n in range(max(level.values()) + 1)]
    figure = Figure(figsize=(11, 1.1 * len(rows) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_axis_off()
    at = {}
    for n, row in enumerate(rows):
        for i, one in enumerate(row):
            at[one] = ((i + 0.5) / len(row), float(n))
    for (a, b), n in between.items():
        up = level[b] >= level[a]
        style = {"color": "#d55e00" if up else "#999999", "alpha": 0.9 if up else 0.45}
        width = 0.4 + 0.25 * n**0.5
        arrow = {"arrowstyle": "-|>", "linewidth": width, "shrinkA": 14, "shrinkB": 14, **style}
        axes.annotate("", at[b], at[a], arrowprops=arrow)
    for one, (x, y) in at.items():
        color = "#d55e00" if one in circle else "#0072b2"
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": color}
        text = f"{one}\n{lines[one]:,} lines"
        axes.text(x, y, text, ha="center", va="center", fontsize=8, bbox=box)
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    figure.savefig(path, dpi=130)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--at", type=Path, default=common.ROOT, help="a checkout (this one)")
    parser.add_argument("--to", type=Path, help="a picture, .png")
    options = parser.parse_args()
    count, lines, between = arrows(options.at)
    level, circle = levels(set(count), between)
    rows = [
        [
            one,
            f"{count[one]}",
            f"{lines[one]:,}",
            str(level[one]),
            "circle" if one in circle else "",
        ]
        for one in sorted(count, key=lambda one: (level[one], one))
    ]
    print(common.table(["room", "modules", "lines", "level", ""], rows))
    total = f"{count.total()} modules, {lines.total():,} lines, {len(between)} arrows"
    print(f"\n{total}, {len(circle)} rooms in circles")
    if options.to:
        draw(lines, between, level, circle, options.to)
    return 1 if circle else 0


if __name__ == "__main__":
    sys.exit(main())
