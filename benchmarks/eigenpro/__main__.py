"""Large kernel models on centers of their own.

table2     MNIST and FashionMNIST beside the paper, both solvers: accuracy, seconds, memory
large      the same with 10,000 centers and solver "eigenpro", of one seed
direct     the same with 10,000 random centers and solver "direct", of one seed
memory     memory at 10,000 and 20,000 centers as the events come
rivals     time to equal accuracy on MNIST, beside scikit-learn, LightGBM and the authors' code
streams    progressive scores on four streams, beside OnlineNystrom and StreamingMeka
experts    kernel-ridge and eigenpro as external experts of the default model, by the command
admission  errors with centers that are added while the stream goes on, and without
augmented  errors on MNIST as augmented images pass by, up to 100,000 centers

How each figure is taken is at the top of the modules in eigenpro/. With --only the other parts stay
in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common, parts
from benchmarks.eigenpro import admission, augmented, experts, memory, rivals, streams, table2

NAME = "eigenpro"
PARTS: dict[str, parts.Render] = {
    "table2": table2.render,
    "large": table2.render,
    "direct": table2.render,
    "memory": memory.render,
    "rivals": rivals.render,
    "streams": streams.render,
    "experts": experts.render,
    "admission": admission.render,
    "augmented": augmented.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.eigenpro", __doc__)
    parts.add_only(parser, list(PARTS))
    parser.add_argument(
        "--pytorch",
        nargs=2,
        metavar=("PYTHON", "CODE"),
        help="an interpreter that has torch, and a copy of github.com/EigenPro/EigenPro3",
    )
    options = parser.parse_args(argv)
    data, quick = options.data, options.quick
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "table2": lambda: table2.measure(data, quick=quick),
        "large": lambda: table2.measure(
            data,
            quick=quick,
            sizes=(10_000,),
            selections=("random", "k-means"),
            solvers=("eigenpro",),
            seeds=1,
        ),
        "direct": lambda: table2.measure(
            data,
            quick=quick,
            sizes=(10_000,),
            selections=("random",),
            solvers=("direct",),
            seeds=1,
        ),
        "memory": lambda: memory.measure(data, quick=quick),
        "rivals": lambda: rivals.measure(data, quick=quick, pytorch=options.pytorch),
        "streams": lambda: streams.measure(data, quick=quick),
        "experts": lambda: experts.measure(data, quick=quick),
        "admission": lambda: admission.measure(data, quick=quick),
        "augmented": lambda: augmented.measure(data, quick=quick),
    }
    results = parts.measured(NAME, options, measures)
    common.finish(NAME, options, {"seeds": table2.SEEDS}, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
