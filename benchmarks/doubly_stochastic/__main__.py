"""Doubly stochastic gradients beside their paper (Dai et al. 2014).

rate             Theorem 4: how fast the error falls with t, by regularization and rule of steps
figure1          Figure 1 (1): Adult, beside NORMA, SDCA and Pegasos
figure1_mnist    Figure 1 (2): MNIST, 8 against 6, with virtual examples, beside the same
figure1_forest   Figure 1 (3): covtype, class 2 against the rest, beside the same
mnist            Figure 1 (4): MNIST with virtual examples, by passes and seconds
qm7              Figure 1 (7): energies of molecules, by passes
storage          the table of section 6: bytes and microseconds by t, beside NORMA

How each figure is taken is at the top of the modules in doubly_stochastic/. With --only the other
parts stay in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import common, parts
from benchmarks.doubly_stochastic import figure1, mnist, qm7, rate, storage

NAME = "doubly_stochastic"
PARTS: dict[str, parts.Render] = {
    "rate": rate.render,
    "figure1": figure1.render,
    "figure1_mnist": figure1.render,
    "figure1_forest": figure1.render,
    "mnist": mnist.render,
    "qm7": qm7.render,
    "storage": storage.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    parser = common.arguments("benchmarks.doubly_stochastic", __doc__)
    parts.add_only(parser, list(PARTS))
    options = parser.parse_args(argv)
    data, quick = options.data, options.quick
    measures: dict[str, Callable[[], dict[str, Any]]] = {
        "rate": lambda: rate.measure(data, quick=quick),
        "figure1": lambda: figure1.measure(data, "adult", quick=quick),
        "figure1_mnist": lambda: figure1.measure(data, "mnist86", quick=quick),
        "figure1_forest": lambda: figure1.measure(data, "forest", quick=quick),
        "mnist": lambda: mnist.measure(data, quick=quick),
        "qm7": lambda: qm7.measure(data, quick=quick),
        "storage": lambda: storage.measure(data, quick=quick),
    }
    results = parts.measured(NAME, options, measures)
    common.finish(NAME, options, {"seeds": figure1.SEEDS}, results, render)


if __name__ == "__main__":
    sys.exit(common.main(run))
