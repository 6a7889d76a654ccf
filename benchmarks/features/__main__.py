"""Features, cosines and the prediction: one event and 256, against BLAS and the usual libraries.

one     one event, an array or a dict in, against NumPy, PyTorch, scikit-learn, and sgemv alone
batch   256 events, against the same and sgemm alone
plain   the cases with goals without AVX-512, in processes of their own

How each figure is taken is at the top of the module of its name in features/. Data are generated
normals. All contestants run in turn and repeatedly; ratios are taken round by round, and tables
give their median and range.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common, hot
from benchmarks.features import batch, one, plain, rivals

PARTS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "one": one.render,
    "batch": batch.render,
    "plain": plain.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured."""
    results = document["results"]
    tables = [PARTS[name](results[name]) for name in PARTS if name in results]
    counted = [results[name] for name in ("one", "batch") if name in results]
    if counted:
        tables.append(hot.goals_table([goal for part in counted for goal in part["goals"]]))
        tables.append(hot.bounds_table([bound for part in counted for bound in part["bounds"]]))
    return "\n\n".join([*tables, _devices(results["devices"]), common.origin(document)])


def _devices(found: Mapping[str, Any]) -> str:
    """What the tables lack, and why; the device that they have."""
    gpu = found["gpu"]
    lines = [] if found["torch"] else ["PyTorch is not installed here: no figures."]
    if "none" in gpu:
        lines.append(f"No GPU here, so no figures of one: {gpu['none']}.")
    else:
        lines.append(f"GPU: {gpu['device']}, driver {gpu['driver']}.")
    return "\n".join(textwrap.fill(line, 96) for line in lines)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.features", __doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args(argv)
    clock = hot.clock(options)
    machine = hot.Machine(clock, 64 if options.quick else 2048)
    measures: dict[str, Callable[[], Any]] = {
        "one": lambda: one.measure(clock, machine, quick=options.quick),
        "batch": lambda: batch.measure(clock, machine, quick=options.quick),
        "plain": lambda: plain.measure(clock, quick=options.quick),
    }
    results = {name: measures[name]() for name in PARTS if name in options.parts}
    results["devices"] = {"gpu": hot.gpu(), "torch": rivals.TORCH in rivals.present()}
    common.finish("features", options, hot.settings(clock), results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
