"""Fields of events as inputs of ONNX, of which it makes the columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.features.texts import BOOLEANS, MISSING
from streamk.prediction.export.fields import Field, as_utf8
from streamk.prediction.export.onnx_graph import Graph

__all__ = ["columns_of"]

OUTPUTS = ("label", "number", "probabilities")
"""Names that no input may have."""


def columns_of(graph: Graph, fields: Sequence[Field], doubles: NDArray[np.bool_]) -> str:
    """Return the columns, double (n, d), of fields that are an input (n, 1) each.

    Of numbers it is double where `doubles` (d,) says so, else float32.

    Raises
    ------
    InvalidInput
        If an input cannot be what a field holds.
    """
    _check(fields)
    blocks, places = [], []
    for field in fields:
        if field.number is not None:
            double = bool(doubles[field.number])
            blocks.append(graph.numbers(field.name, 1, double=double))
            places.append(field.number)
        else:
            blocks.append(_of_texts(graph, field))
            places += field.texts.values()
    together = graph.node("Concat", *blocks, axis=1)
    return graph.node("Gather", together, graph.constant(np.argsort(places)), axis=1)


def _of_texts(graph: Graph, field: Field) -> str:
    """Return 1 in the column of the text and 0 in the others; NaN if it is missing."""
    missing = -2
    texts = {text: place for place, text in enumerate(field.texts)}
    texts |= dict.fromkeys(MISSING, missing)
    texts |= {text: texts[text.lower()] for text in BOOLEANS if text.lower() in texts}
    number = graph.node(
        "LabelEncoder",
        graph.texts(field.name),
        domain="ai.onnx.ml",
        keys_strings=list(texts),
        values_int64s=list(texts.values()),
        default_int64=-1,
    )
    held = graph.node("Equal", number, graph.constant(np.arange(len(field.texts))[None]))
    lacking = graph.node("Equal", number, graph.constant([missing], np.int64))
    nothing = graph.constant([np.nan])
    return graph.node("Where", lacking, nothing, graph.cast(held, "DOUBLE"))


def _check(fields: Sequence[Field]) -> None:
    names = [field.name for field in fields]
    for text in (text for field in fields for text in (field.name, *field.texts)):
        as_utf8(text)
    for field in fields:
        taken = field.name in OUTPUTS or field.name.startswith("streamk/")
        if not field.name or taken or names.count(field.name) > 1:
            raise InvalidInput(
                f"a field is called {field.name!r}, as no input of ONNX can be: names are not "
                f"empty, differ, begin not with streamk/ and are none of {', '.join(OUTPUTS)}; "
                "rename it"
            )
        if field.number is not None and field.texts:
            raise InvalidInput(
                f"field {field.name!r} holds numbers and texts, and an input of ONNX one of them; "
                "give each a field, or encode events before the model (leave out schema=)"
            )
        if field.shared:
            raise InvalidInput(
                f"column '{field.name}=#{min(field.shared)}' is shared by texts, by a hash that "
                "ONNX does not have; encode events before the model (leave out schema=)"
            )
        if not field.of_texts and field.texts:
            raise InvalidInput(
                f"field {field.name!r} has texts in lists that by themselves are numbers; encode "
                "events before the model (leave out schema=)"
            )
