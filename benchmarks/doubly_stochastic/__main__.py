"""Doubly stochastic gradients beside their paper (Dai et al. 2014).

rate             Theorem 4: how fast the error falls with t, by regularization and rule of steps
figure1          Figure 1 (1): Adult, beside NORMA, SDCA and Pegasos
figure1_mnist    Figure 1 (2): MNIST, 8 against 6, with virtual examples, beside the same
figure1_forest   Figure 1 (3): covtype, class 2 against the rest, beside the same
mnist            Figure 1 (4): MNIST with virtual examples, by passes and seconds
mnist_hour       the same for an hour of one core
mnist86_long     Figure 1 (2) once more, with 1.6 million virtual examples
qm7              Figure 1 (7): energies of molecules, by passes
storage          the table of section 6: bytes and microseconds by t, beside NORMA
ladder           several step sizes side by side, beside each of them, on eight streams

How each figure is taken is at the top of the modules in doubly_stochastic/. With --only the other
parts stay in the results as they were, with the machine and the date of their own run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import common, parts
from benchmarks.doubly_stochastic import figure1, ladder, mnist, mnist_long, qm7, rate, storage

NAME = "doubly_stochastic"
PARTS: dict[str, parts.Render] = {
    "rate": rate.render,
    "figure1": figure1.render,
    "figure1_mnist": figure1.render,
    "figure1_forest": figure1.render,
    "mnist": mnist.render,
    "mnist_hour": mnist_long.render_hour,
    "mnist86_long": mnist_long.render_eights,
    "qm7": qm7.render,
    "storage": storage.render,
    "ladder": ladder.render,
}


def render(document: Mapping[str, Any]) -> str:
    """The tables of the parts that were measured, each with where its figures come from."""
    return parts.render(document, PARTS)


def run(argv: Sequence[str] | None = None) -> None:
    measures = {
        "rate": rate.measure,
        "figure1": partial(figure1.measure, name="adult"),
        "figure1_mnist": partial(figure1.measure, name="mnist86"),
        "figure1_forest": partial(figure1.measure, name="forest"),
        "mnist": mnist.measure,
        "mnist_hour": mnist_long.measure_hour,
        "mnist86_long": mnist_long.measure_eights,
        "qm7": qm7.measure,
        "storage": storage.measure,
        "ladder": ladder.measure,
    }
    parts.run(NAME, __doc__, measures, render, argv, {"seeds": figure1.SEEDS})


if __name__ == "__main__":
    sys.exit(common.main(run))
