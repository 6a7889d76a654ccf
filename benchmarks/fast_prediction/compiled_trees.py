"""LightGBM served by Treelite: its trees as C, which the machine's compiler makes a library of.

Treelite reads the model and TL2cgen writes the C, with thresholds replaced by whole numbers
(``quantize``), which was faster than without on letter and covtype, by 1.9 and 1.2 times. The
library is called by ctypes, and the loop over events is C, too: TL2cgen's own `Predictor` takes a
`DMatrix` that has to be made of each batch first. Scores are what is returned, as by our models.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fast_prediction.timing import Predict

COMPILER = "cc"
A_FILE = 20
"""Trees in a file of C: the compiler takes more than proportional time for long files."""
_OPTIONS = ("-O1", "-march=native", "-shared", "-fPIC", "-Wl,-Bsymbolic")
"""-O2 and -O3 gained nothing on letter and covtype, and take twice as long."""
_LOOP = """\
#include "header.h"

void predict_many(const double *X, long n, long columns, long outputs, double *scores)
{
    union Entry row[COLUMNS];
    for (long i = 0; i < n; i++) {
        for (long j = 0; j < columns; j++)
            row[j].fvalue = X[i * columns + j];
        for (long j = 0; j < outputs; j++)
            scores[i * outputs + j] = 0.0;
        predict(row, 1, scores + i * outputs);
    }
}
"""


def missing() -> list[str]:
    """Packages and programs that are needed and not there."""
    packages = [
        name for name in ("lightgbm", "treelite", "tl2cgen") if not importlib.util.find_spec(name)
    ]
    return packages + ([] if shutil.which(COMPILER) else [f"a C compiler ({COMPILER})"])


def compiled(booster: Any, columns: int, outputs: int) -> Predict:
    """Scores (n, outputs) of events (n, columns) by the trees of a LightGBM model."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        _write(booster, directory, columns)
        library = _library(directory)
    predict_many = library.predict_many
    size, pointer = ctypes.c_long, ctypes.c_void_p
    predict_many.argtypes = [pointer, size, size, size, pointer]
    predict_many.restype = None

    def predict(X: Any) -> Any:
        X = np.ascontiguousarray(X, np.float64)
        scores = np.empty((len(X), outputs))
        predict_many(X.ctypes.data, len(X), columns, outputs, scores.ctypes.data)
        return scores

    return predict


def _write(booster: Any, directory: Path, columns: int) -> None:
    """The sources of the library."""
    import tl2cgen
    import treelite

    files = -(-booster.num_trees() // A_FILE)
    with _quiet():
        trees = treelite.frontend.from_lightgbm(booster)
        tl2cgen.generate_c_code(trees, directory, params={"quantize": 1, "parallel_comp": files})
    loop = _LOOP.replace("COLUMNS", str(columns))
    (directory / "loop.c").write_text(loop, encoding="utf-8")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the libraries say on their way, which they print past Python, too."""
    sys.stderr.flush()
    before = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nothing)


def _library(directory: Path) -> ctypes.CDLL:
    sources = [str(path) for path in sorted(directory.glob("*.c"))]
    path = directory / "trees.so"
    subprocess.run([COMPILER, *_OPTIONS, "-o", str(path), *sources, "-lm"], check=True)
    return ctypes.CDLL(str(path))
