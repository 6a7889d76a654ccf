"""The parts of a header that are the same for each model, with the model's name in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.backends import LANES, filled
from streamk.encoding import Schema
from streamk.errors import InvalidInput
from streamk.export.fields import ExportField, as_text, as_utf8, fields_of
from streamk.features.columns import BOOLEANS, MISSING, OWN, SHARED
from streamk.prediction.compiled import CompiledModel, Label

_BACKEND = "streamk.backends.cupy_backend"


def part(file: str, name: str) -> str:
    """Return a file of the folder `c` for a model of that name."""
    folder = resources.files("streamk.export") / "c"
    return renamed((folder / f"{file}.h").read_text("utf-8"), name)


def core(name: str) -> str:
    """Return the functions that the kernels of the CuPy backend have, too, for a CPU.

    >>> "static inline int net_leaf(" in core("net")
    True
    """
    kernels = resources.files(_BACKEND) / "kernels"
    text = (kernels / "local_core.h").read_text("utf-8").partition("*/\n")[2]
    for word, ours in (
        ("INLINE", "static inline"),
        ("UNROLL", "MODEL_VECTOR"),
        ("APART", "MODEL_APART"),
        ("LANES", str(LANES)),
        ("whole", "int"),
        ("fused_real", "model_fused"),
    ):
        text = re.sub(rf"\b{word}\b", ours, text)
    return part("vectors", name) + renamed(re.sub(r"\blocal_", "model_", text), name)


def renamed(text: str, name: str) -> str:
    """Return a text with "model" replaced by a name.

    >>> renamed("model_scores(x, MODEL_H)", "net")
    'net_scores(x, NET_H)'
    """
    return re.sub(r"\bMODEL_", f"{name.upper()}_", re.sub(r"\bmodel_", f"{name}_", text))


_FORMATS = {"float32": ("float", "%.9g", "f"), "float64": ("double", "%.17g", "")}
"""Type, digits by which each number is read back to the same bits, and what follows a number."""
_A_LINE = 8
_LONGEST = 4095
"""Bytes of a text that every compiler of C99 takes."""
_PLAIN = re.compile(r"[^ !#-\[\]-~]|\?")
"""Bytes that a literal does not hold as they are: `?` could begin a trigraph."""


def array(name: str, numbers: NDArray[Any]) -> str:
    """Return the definition of a constant array of numbers: float32, float64 or whole ones.

    C has no arrays of length 0: instead there are two zeros.

    >>> print(array("x", np.array([1.0, 0.1, 1e-30], np.float32)), end="")
    static const float x[3] = {
        1.0f, 0.100000001f, 1e-30f};
    >>> print(array("places", np.array([], np.int64)), end="")
    static const int places[2] = {
        0, 0};
    """
    flat = numbers.ravel() if numbers.size else np.zeros(2, numbers.dtype)
    kind, style, suffix = _FORMATS.get(flat.dtype.name, ("int", "%d", ""))
    written = [style % one for one in flat.tolist()]
    if kind != "int":
        written = [_decimal(one) + suffix for one in written]
    return _defined(f"static const {kind} {name}", written)


def number(value: float) -> str:
    """Return a number as a literal of double.

    >>> number(0.1), number(1e300), number(-3.0)
    ('0.10000000000000001', '1.0000000000000001e+300', '-3.0')
    """
    return _decimal(f"{value:.17g}")


def texts(name: str, some: Iterable[str]) -> str:
    """Return the definition of a constant array of texts, in UTF-8.

    Raises `InvalidInput` if a text is too long for a literal, is not UTF-8, or has a zero, which
    would end it.
    """
    return _defined(f"static const char *const {name}", [literal(one) for one in some] or ['""'])


def literal(text: str) -> str:
    r"""Return a text as a literal.

    >>> print(literal('a "b"?\n'), literal("é"))
    "a \042b\042\077\012" "\303\251"
    """
    data = as_utf8(text)
    if len(data) > _LONGEST:
        raise InvalidInput(
            f"the name {text[:40]!r} has {len(data)} bytes, and {_LONGEST} are allowed; rename it"
        )
    shown = _PLAIN.sub(lambda found: f"\\{ord(found.group()):03o}", data.decode("latin-1"))
    return f'"{shown}"'


def capitals(text: str) -> str:
    """Return capitals, digits and underscores that stand for a text in a name.

    >>> capitals("price in €"), capitals("a.b")
    ('PRICE_IN_', 'A_B')
    """
    return re.sub(r"[^A-Z0-9]+", "_", text.upper())


def _decimal(written: str) -> str:
    return written if "." in written or "e" in written else f"{written}.0"


def _defined(what: str, written: list[str]) -> str:
    lines = [", ".join(written[i : i + _A_LINE]) for i in range(0, len(written), _A_LINE)]
    body = ",\n    ".join(lines)
    return f"{what}[{len(written)}] = {{\n    {body}}};\n"


def events(fields: Sequence[ExportField], *, absent: str, name: str) -> str:
    """Return the part of a model's header by which fields of events become columns.

    A field that is not there is "zero" or "missing".
    """
    numbers = [-1 if field.number is None else field.number for field in fields]
    blank = "NAN" if absent == "missing" else "0.0"
    return "".join(
        [
            "\n/* The fields of events, and their columns. */\n",
            _numbered(fields, name),
            f"#define {name.upper()}_FIELDS {len(fields)}\n",
            f"#define {name.upper()}_BLANK {blank}\n",
            texts(f"{name}_missing", MISSING),
            texts(f"{name}_booleans", list(BOOLEANS)),
            texts(f"{name}_fields", [field.name for field in fields]),
            array(f"{name}_of_texts", np.array([int(field.of_texts) for field in fields])),
            array(f"{name}_number_columns", np.array(numbers)),
            _texts(fields, name),
            _shared(fields, name),
            part("events", name),
        ]
    )


def _texts(fields: Sequence[ExportField], name: str) -> str:
    """Return the columns of texts: of each field those of a text, and then those that are shared.

    Texts are searched by their bytes, so they lie in that order.
    """
    found: list[str] = []
    places: list[int] = []
    starts, ends = [0], []
    for field in fields:
        own = sorted(field.texts.items(), key=lambda item: as_utf8(item[0]))
        found += [text for text, _ in own] + [""] * len(field.shared)
        ends.append(len(places) + len(own))
        places += [place for _, place in own] + list(field.shared.values())
        starts.append(len(places))
    return "".join(
        [
            texts(f"{name}_texts", found),
            array(f"{name}_text_columns", np.array(places, np.int64)),
            array(f"{name}_text_starts", np.array(starts)),
            array(f"{name}_own_ends", np.array(ends)),
        ]
    )


def _shared(fields: Sequence[ExportField], name: str) -> str:
    """Return the columns that texts share, if there are any: a row for each field that has some."""
    rows = np.full((len(fields), SHARED), -1)
    for row, field in zip(rows, fields, strict=True):
        row[list(field.shared)] = list(field.shared.values())
    having = np.array([bool(field.shared) for field in fields])
    if not having.any():
        return ""
    return "".join(
        [
            f"#define {name.upper()}_SHARED {SHARED}\n#define {name.upper()}_OWN {OWN}\n",
            array(f"{name}_shared_rows", np.where(having, np.cumsum(having) - 1, -1)),
            array(f"{name}_shared_columns", rows[having]),
            part("hash", name),
        ]
    )


def _numbered(fields: Sequence[ExportField], name: str) -> str:
    """Return the numbers of fields as constants that are called as they are."""
    found: dict[str, int] = {}
    for number, field in enumerate(fields):
        constant = f"{name.upper()}_FIELD_{capitals(field.name)}"
        while constant in found:
            constant += f"_{number}"
        found[constant] = number
    lines = ",\n    ".join(f"{constant} = {number}" for constant, number in found.items())
    return f"enum {name}_field_number {{\n    {lines}\n}};\n"


_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)


def to_c(
    model: CompiledModel,
    path: str | os.PathLike[str],
    *,
    name: str = "model",
    schema: Schema | None = None,
) -> None:
    """Write a model as a header of C99 that predicts without Python, in place of any file there.

    Its functions, here with the default name, keep no state and allocate nothing::

        int model_scores(const double *x, double *scores)
        int model_predict(const double *x)                 /* double, of a regression */
        int model_probabilities(const double *x, double *p)    /* of a classification */

    They take the float64 numbers of an event, of which NaN is missing, and give what
    `CompiledModel.decision_many`, `predict_many` (a class by its place in ``model_classes``) and
    `predict_proba_many` do, up to the rounding of float32. Where a number is infinite, scores and
    probabilities return 0 and not 1, and the prediction is -1 or NaN. With a schema there are also
    ``model_clear``, ``model_set_number``, ``model_set_text``, ``model_set_texts`` and
    ``model_set_missing``, which encode an event field by field.

    Parameters
    ----------
    model : CompiledModel
    path : str or path
        Of the header.
    name : str, default "model"
        Begins the names of all that the header defines.
    schema : streamk.encoding.Schema, optional
        How events became the model's columns: numbers, booleans, texts and lists of texts. What is
        unknown counts as with ``mode="fixed"``.

    Raises
    ------
    InvalidInput
        If the name is none in C, the file cannot be written, two classes are the same text, a name
        is none in UTF-8, or the schema's columns are not the model's, or are made from times.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from streamk.prediction import dc_pred
    >>> model = dc_pred([[0.0], [1.0]] * 20, ["no", "yes"] * 20, leaves=1, landmarks=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_c(model, Path(folder) / "model.h")
    ...     text = (Path(folder) / "model.h").read_text()
    >>> "int model_predict(const double *x)" in text
    True
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"name {name!r} cannot start C names; use letters, digits and _")
    parts = [part("begin", name), _sizes(model, name), _names(model, name), _arrays(model, name)]
    parts += [core(name), part("scores", name)]
    if not model.classes:
        parts.append(part("number", name))
    else:
        several = "classes" if model.n_outputs > 1 else "two_classes"
        parts += [part("exponential", name), part(several, name)]
    if schema is not None:
        fields = fields_of(schema, model.columns, model.width)
        parts.append(events(fields, absent=schema.absent, name=name))
    try:
        Path(path).write_text("".join([*parts, "\n#endif\n"]), encoding="ascii")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def _sizes(model: CompiledModel, name: str) -> str:
    """Return sizes as macros."""
    kernels = model.kernels
    sizes: dict[str, object] = {
        "COLUMNS": model.width,
        "FILLED": filled(model.width),
        "TREES": len(kernels.roots),
        # Kernel values, products and scores of a leaf are filled up on their own.
        "WORKSPACE": kernels.workspace,
        "OUTPUTS": model.n_outputs,
        # Of the numbers that are predicted: kernels are in units of their deviation.
        "MEAN": f"({number(model.mean)})",
        "DEVIATION": number(model.deviation),
    }
    if model.classes:
        sizes["CLASSES"] = len(model.classes)
    return "".join(f"#define {name.upper()}_{size} {value}\n" for size, value in sizes.items())


def _names(model: CompiledModel, name: str) -> str:
    """Return the names of columns and classes."""
    columns = range(model.width) if model.columns is None else model.columns
    found = texts(f"{name}_columns", map(as_text, columns))
    if model.classes:
        classes: dict[str, Label] = {}
        for label in model.classes:
            other = classes.setdefault(as_text(label), label)
            if other is not label:
                raise InvalidInput(
                    f"the classes {other!r} and {label!r} are the same text in C; rename one"
                )
        found += texts(f"{name}_classes", classes)
    return f"\n{found}"


def _arrays(model: CompiledModel, name: str) -> str:
    """Return the arrays that the functions read."""
    arrays = model.kernels._asdict()
    arrays["normals"] = model.kernels.filled_normals
    if model.classes:
        arrays["log_weights"] = model.log_weights
    return "".join(array(f"{name}_{what}", numbers) for what, numbers in arrays.items())
