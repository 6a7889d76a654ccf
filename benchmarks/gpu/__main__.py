"""The backend "cupy" on a GPU beside the CPU of the same machine, and plain libraries on that GPU.

prediction  batches of events by random features
learning    whole learners, in batches and one event at a time; whether both places learn alike
centers     kernels between events and centers, times coefficients

How each figure is taken is at the top of the module of its name in gpu/. Data are generated. All
contestants run in turn in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common, hot
from benchmarks.gpu import centers, learning, prediction, there
from benchmarks.hot import QUICK, Clock

NAME = "gpu"
PARTS: dict[str, Callable[[Any], str]] = {
    "prediction": prediction.render,
    "learning": learning.render,
    "centers": centers.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured."""
    results = document["results"]
    tables = [PARTS[name](results[name]) for name in PARTS if name in results]
    return "\n\n".join([*tables, _device(results), common.origin(document)])


def _device(results: Mapping[str, Any]) -> str:
    found, limits = results["device"], results["ceilings"]
    rates = {name: limits[name]["median"] for name in limits}
    return (
        f"GPU: {found['device']}, {found['memory_gib']} GiB; CUDA {found['cuda']}, driver for "
        f"{found['driver_for_cuda']}, CuPy {found['cupy']}.\n"
        f"It copies {rates['copy']:,.0f} GB/s, read and written; in float32 a product of 8,192 x "
        f"8,192 makes\n{rates['product'] / 1e3:.1f} Tflop/s, and a loop of fused operations on "
        f"registers {rates['loop'] / 1e3:.1f}."
    )


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.gpu", __doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    options = parser.parse_args(argv)
    there.cupy()
    clock = QUICK if options.quick else Clock(options.rounds, 0.03, rest=0.02)
    limits = there.ceilings(clock, options.quick)
    results: dict[str, Any] = {"device": there.described(), "ceilings": limits}
    measures: dict[str, Callable[[], Any]] = {
        "prediction": lambda: prediction.measure(clock, limits, quick=options.quick),
        "learning": lambda: learning.measure(clock, quick=options.quick),
        "centers": lambda: centers.measure(clock, limits, quick=options.quick),
    }
    for name in PARTS:
        if name in options.parts:
            results[name] = measures[name]()
    common.finish(NAME, options, hot.settings(clock), results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
