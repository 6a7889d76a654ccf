"""Numbers, texts and names as C and C++ read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.prediction.export.fields import as_utf8

__all__ = ["array", "capitals", "literal", "number", "texts"]

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

    Raises
    ------
    InvalidInput
        If a text is too long for a literal, is not UTF-8, or has a zero, which would end it.
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
