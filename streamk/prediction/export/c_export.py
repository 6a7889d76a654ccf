"""A compiled model as one header of C99, for programs without Python."""

from __future__ import annotations

import os
import re
from pathlib import Path

from streamk.backends import filled
from streamk.errors import InvalidInput
from streamk.prediction.compiled import CompiledModel, Label
from streamk.prediction.export.c_events import events
from streamk.prediction.export.c_literals import array, number, texts
from streamk.prediction.export.c_text import core, part
from streamk.prediction.export.fields import EventSchema, as_text, fields_of

__all__ = ["to_c"]

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)


def to_c(
    model: CompiledModel,
    path: str | os.PathLike[str],
    *,
    name: str = "model",
    schema: EventSchema | None = None,
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
        raise InvalidInput(f"name {name!r} cannot begin names in C; take letters, digits and _")
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
