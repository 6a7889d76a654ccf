"""Headers of compiled models, compiled by the system's C compiler and called from Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamk.export import to_c
from streamk.prediction.compiled import CompiledModel

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
FLAGS = (
    ("-std=c99", "-O2"),
    ("-std=c99", "-O0"),
    ("-O3", "-march=native"),
    ("-std=c99", "-O3", "-ffp-contract=off"),
)
"""Ways to compile a header, which must all give the same."""

_MANY = """\
#include "model.h"
long many(const double *x, long n, double *scores, double *labels, double *p)
{
    for (long i = 0; i < n; i++) {
        if (!model_scores(x + i * MODEL_COLUMNS, scores + i * MODEL_OUTPUTS))
            return i;
        labels[i] = model_predict(x + i * MODEL_COLUMNS);
#ifdef MODEL_CLASSES
        if (!model_probabilities(x + i * MODEL_COLUMNS, p + i * MODEL_CLASSES))
            return i;
#endif
    }
    (void)p;
    return n;
}
double predict_one(const double *x) { return model_predict(x); }
const char *column(int j) { return model_columns[j]; }
#ifdef MODEL_CLASSES
const char *class_name(int k) { return model_classes[k]; }
#endif
"""
_FIELDS = """
void clear(double *x) { model_clear(x); }
int field(const char *name) { return model_field(name); }
int set_missing(double *x, int f) { return model_set_missing(x, f); }
int set_number(double *x, int f, double v) { return model_set_number(x, f, v); }
int set_text(double *x, int f, const char *t) { return model_set_text(x, f, t); }
int set_texts(double *x, int f, const char *const *t, int n) { return model_set_texts(x, f, t, n); }
"""


def compiler(plus: bool = False) -> str:
    """The system's compiler of C or of C++, else skip."""
    names = ("c++", "g++", "clang++") if plus else ("cc", "gcc", "clang")
    for name in names:
        if found := shutil.which(name):
            return found
    pytest.skip(f"a header is compiled only where there is a compiler ({names[0]})")


def compile_it(source: Path, out: Path, *flags: str, plus: bool = False) -> None:
    """Compile a source strictly; a warning fails the test."""
    command = [compiler(plus), *flags, *STRICT, str(source), "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Header:
    """A model's header in a library."""

    def __init__(
        self, model: CompiledModel, folder: Path, flags: tuple[str, ...] = FLAGS[0], **options: Any
    ) -> None:
        to_c(model, folder / "model.h", **options)
        self._model = model
        source, number = folder / "many.c", len(list(folder.iterdir()))
        source.write_text(_MANY + (_FIELDS if "schema" in options else ""))
        # A library that is open under its path would not be read again.
        self.path = folder / f"many{number}.so"
        compile_it(source, self.path, *flags, "-fPIC", "-shared")
        self.library = ctypes.CDLL(str(self.path))

    def names(self, function: str, count: int) -> list[str]:
        """What a function from places to texts has for the first places."""
        of = getattr(self.library, function)
        of.restype = ctypes.c_char_p
        return [of(place).decode() for place in range(count)]

    def predict(self, X: Any) -> tuple[Any, Any, Any]:
        """Scores, predictions and probabilities; up to the first event of no use."""
        rows = np.ascontiguousarray(X, np.float64)
        scores = np.empty((len(rows), self._model.n_outputs))
        labels, p = np.empty(len(rows)), np.empty((len(rows), len(self._model.classes)))
        many = self.library.many
        many.restype = ctypes.c_long
        given = [ctypes.c_void_p(array.ctypes.data) for array in (rows, scores, labels, p)]
        n = many(given[0], ctypes.c_long(len(rows)), *given[1:])
        return scores[:n], labels[:n], p[:n]
