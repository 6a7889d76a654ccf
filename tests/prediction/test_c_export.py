"""Models as headers of C: compiled strictly, against `CompiledModel` itself."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from c_kit import FLAGS, Header, compile_it, compiler
from local_kernels_kit import MODELS, compiled, events, made

from streamk.encoding.schema import Schema
from streamk.errors import InvalidInput
from streamk.export import to_c


@pytest.mark.one_in(3)
@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("kind", MODELS)
def test_predictions_are_those_of_the_model(
    kind: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    shape, classes = MODELS[kind]
    whole = made(**shape, seed=len(kind))
    model = compiled(whole, classes)
    X = events(10_000, model.width, seed=1)
    scores, labels, p = Header(model, tmp_path, flags).predict(X)
    sure = ~whole.beside_planes(X)
    assert sure.mean() > 0.99
    expected = model.decision_many(X)
    np.testing.assert_allclose(scores[sure], expected[sure], rtol=1e-6, atol=whole.tolerance)
    np.testing.assert_array_equal(
        scores == -1e30, np.where(sure[:, None], expected, scores) == -1e30
    )
    if not classes:
        np.testing.assert_array_equal(labels, scores[:, 0])
        return
    chosen = scores[:, 0] > 0 if len(classes) == 2 else scores.argmax(axis=1)
    np.testing.assert_array_equal(labels, chosen)
    np.testing.assert_allclose(p[sure], model.predict_proba_many(X)[sure], atol=whole.tolerance)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("kind", ["two classes", "many classes"])
def test_of_equal_scores_probabilities_are_equal_to_double_precision(
    kind: str, tmp_path: Path
) -> None:
    shape, classes = MODELS[kind]
    model = compiled(made(**shape | {"d": 1}), classes)
    X = events(1000, 1)
    scores, _, p = Header(model, tmp_path).predict(X)
    same = (scores == model.decision_many(X)).all(axis=1)
    assert same.sum() > 10
    np.testing.assert_allclose(p[same], model.predict_proba_many(X)[same], rtol=1e-14)


@pytest.mark.parametrize("infinity", [np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["two classes", "many classes", "numbers"])
def test_an_infinite_value_is_refused(kind: str, infinity: float, tmp_path: Path) -> None:
    shape, classes = MODELS[kind]
    model = compiled(made(**shape), classes)
    header = Header(model, tmp_path)
    X = events(5, model.width)
    X[3, -1] = infinity
    assert len(header.predict(X)[0]) == 3
    header.library.predict_one.restype = ctypes.c_double
    found = header.library.predict_one(ctypes.c_void_p(X[3:].ctypes.data))
    assert found == -1 if classes else np.isnan(found)


def test_the_numbers_are_read_back_to_the_same_bits(tmp_path: Path) -> None:
    whole = made(d=3, leaves=4)
    numbers = whole.kernels.numbers
    extremes = np.array([3.4028235e38, 1.17549435e-38, 1e-45, -0.0, 16777216.0], np.float32)
    random = np.random.default_rng(0)
    numbers[:5] = extremes
    numbers[5:] = random.normal(size=numbers.size - 5) * 10.0 ** random.integers(
        -20, 20, numbers.size - 5
    )
    to_c(compiled(whole), tmp_path / "model.h")
    (tmp_path / "a.c").write_text(
        '#include "model.h"\nconst float *numbers(void) { return model_numbers; }\n'
    )
    compile_it(tmp_path / "a.c", tmp_path / "a.so", "-std=c99", "-fPIC", "-shared")
    library = ctypes.CDLL(str(tmp_path / "a.so"))
    library.numbers.restype = ctypes.POINTER(ctypes.c_float)
    found = np.ctypeslib.as_array(library.numbers(), (numbers.size,))
    np.testing.assert_array_equal(found.view(np.int32), numbers.view(np.int32))


NAMES = ("n", *(f"c={i}" for i in range(256)), "c=#3", "m", "m=x")
EVENTS = Schema(NAMES, kinds={"n": "number", "c": "text", "m": "number"})
"""Fields of numbers, of many texts and of both."""


@pytest.mark.parametrize("kind", ["many classes", "numbers", "events"])
def test_it_is_cpp_too(kind: str, tmp_path: Path) -> None:
    if kind == "events":
        to_c(compiled(made(d=len(NAMES))), tmp_path / "model.h", schema=EVENTS)
    else:
        shape, classes = MODELS[kind]
        to_c(compiled(made(**shape), classes), tmp_path / "model.h")
    (tmp_path / "a.cpp").write_text(
        '#include "model.h"\nint f(const double *x, double *s) { return model_scores(x, s); }\n'
    )
    compile_it(tmp_path / "a.cpp", tmp_path / "a.o", "-std=c++11", "-O2", "-c", plus=True)


def test_it_calls_nothing(tmp_path: Path) -> None:
    """But for what every compiler of C asks for, and calls by itself."""
    if shutil.which("nm") is None:
        pytest.skip("the symbols of a library are listed by nm (binutils)")
    for n_outputs in (1, 5):
        model = compiled(made(d=len(NAMES), n_outputs=n_outputs, trees=2, products=9))
        to_c(model, tmp_path / "model.h", schema=EVENTS)
        names = ["scores", "predict", "set_text", "set_texts", "set_number", "field", "clear"]
        if model.classes:
            names.append("probabilities")
        lines = [f"void *{name}(void) {{ return (void *)&model_{name}; }}" for name in names]
        (tmp_path / "a.c").write_text("\n".join(['#include "model.h"', *lines]))
        for flags in (("-O3", "-march=native"), ("-O2",), ("-O0",)):
            command = [compiler(), *flags, "-c", "a.c", "-o", "a.o"]
            assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
            listed = subprocess.run(
                ["nm", "-u", "a.o"], cwd=tmp_path, capture_output=True, text=True, check=True
            )
            called = set(re.findall(r"U (\w+)", listed.stdout)) - {"_GLOBAL_OFFSET_TABLE_"}
            assert called <= {"memcpy", "memset"}


def test_two_models_go_together(tmp_path: Path) -> None:
    for name in ("first", "second"):
        model = compiled(made(n_outputs=1), ("no", "yes"), columns=list("abcde"))
        to_c(model, tmp_path / f"{name}.h", name=name, schema=Schema(tuple("abcde")))
    (tmp_path / "a.c").write_text(
        '#include "first.h"\n#include "second.h"\n#include "first.h"\n'
        "int f(const double *x) { return first_predict(x) + second_predict(x); }\n"
    )
    compile_it(tmp_path / "a.c", tmp_path / "a.o", "-std=c99", "-O2", "-c")


def test_fast_math_is_refused(tmp_path: Path) -> None:
    to_c(compiled(made()), tmp_path / "model.h")
    (tmp_path / "a.c").write_text('#include "model.h"\n')
    command = [compiler(), "-ffast-math", "-c", "a.c", "-o", "a.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "compile this without -ffast-math" in done.stderr


def test_names_are_texts_of_any_kind(tmp_path: Path) -> None:
    columns, classes = ['a "b"', "é\n", "??=", "\\", "*/"], ("t\t", "日本", "c??/")
    header = Header(compiled(made(n_outputs=3), classes, columns=columns), tmp_path)
    assert header.names("column", 5) == columns
    assert header.names("class_name", 3) == list(classes)


def test_a_name_that_c_cannot_hold_is_refused(tmp_path: Path) -> None:
    for name, message in (
        ("a\0b", "has a null character"),
        ("a" * 4096, "and 4095 are allowed; rename"),
    ):
        model = compiled(made(d=1), columns=[name])
        with pytest.raises(InvalidInput, match=message):
            to_c(model, tmp_path / "model.h")


@pytest.mark.parametrize("name", ["", "1a", "a b", "é", "_a", "a-b"])
def test_a_name_that_c_does_not_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot start C names"):
        to_c(compiled(made()), tmp_path / "model.h", name=name)


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written: No such file"):
        to_c(compiled(made()), tmp_path / "nowhere" / "model.h")
