"""Labels of events, checked against the schema's label type and classes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.encoding.schema import Schema
from streamk.encoding.values import Rejected, show

__all__ = ["LARGEST_LABEL", "LabelReader"]

LARGEST_LABEL = float(np.sqrt(np.finfo(np.float32).max))
"""A quantity larger than this (1.8e19) makes a bad event: a model in single precision, as the
columns are, cannot hold the square of its error."""
_LEAST_WHOLE, _MOST_WHOLE = -(1 << 63), (1 << 64) - 1
"""Whole numbers that are classes: those of 64 bits, with or without a sign."""

_EXACT: dict[str | None, set[type]] = {
    None: {bool, int, str},
    "bool": {bool},
    "int": {int},
    "str": {str},
    "float": {float},
}
_WANTED = {
    None: "text, a boolean or a whole number (numbers are learned with the task regression)",
    "bool": "a boolean",
    "int": "a whole number",
    "str": "text",
    "float": "a number",
}


class LabelReader:
    """Turns raw labels into str, int, bool (classes) or float; None means "only predict".

    Parameters
    ----------
    schema : Schema
    as_text : bool
        Labels are CSV cells, to be parsed as the label type.
    """

    def __init__(self, schema: Schema, *, as_text: bool = False) -> None:
        self._name = schema.label
        self._type = schema.label_type
        self._exact = _EXACT[schema.label_type]
        self._as_text = as_text
        # True == 1 in Python: the type is part of what is allowed.
        self._allowed = None if schema.classes is None else {(type(c), c) for c in schema.classes}

    def one(self, value: Any) -> Any:
        """One label. Raises `Rejected`."""
        if value is None:
            return None
        if self._as_text:
            value = self._parsed(value)
        label: Any
        is_bool = isinstance(value, bool | np.bool_)
        if self._type in (None, "str") and isinstance(value, str):
            label = self._text(value)
        elif self._type in (None, "bool") and is_bool:
            label = bool(value)
        elif self._type in (None, "int") and not is_bool and isinstance(value, numbers.Real):
            label = self._whole(value)
        elif self._type == "float" and not is_bool and isinstance(value, numbers.Real):
            label = self._quantity(value)
        else:
            raise self._out_of_domain(value)
        if self._allowed is not None and (type(label), label) not in self._allowed:
            raise Rejected("label out of domain", f"{show(label)} is no known class", self._name)
        return label

    def many(self, values: Sequence[Any] | npt.NDArray[Any]) -> tuple[list[Any], list[int]]:
        """Labels of many events, and the positions of those that `one` refuses (None there)."""
        if isinstance(values, np.ndarray):
            values = _listed(values, self._type)
        labels = list(values)
        kinds = set(map(type, labels))
        if (
            not self._as_text
            and kinds <= {*self._exact, type(None)}
            and (self._type != "float" or _all_quantities(labels))
            and (str not in kinds or _all_text(labels))
            and (int not in kinds or _all_classes(labels))
            and (self._allowed is None or all((type(v), v) in self._allowed for v in labels))
        ):
            return labels, []
        refused = []
        for i, value in enumerate(labels):
            try:
                labels[i] = self.one(value)
            except Rejected:
                labels[i] = None
                refused.append(i)
        return labels, refused

    def _parsed(self, cell: str) -> Any:
        if self._type == "str":
            return cell
        if self._type in (None, "bool") and cell.lower() in ("true", "false"):
            return cell.lower() == "true"
        if self._type == "bool":
            return cell
        try:
            return float(cell) if "_" not in cell else cell
        except ValueError:
            return cell

    def _text(self, value: str) -> str:
        if not _all_text([value]):
            raise Rejected("undecodable", f"the label {show(value)} is no valid text", self._name)
        return str(value)

    def _quantity(self, value: Any) -> float:
        number = self._finite(value)
        if abs(number) > LARGEST_LABEL:
            raise Rejected(
                "label out of domain",
                f"{show(value)} is larger than {LARGEST_LABEL:.3g}",
                self._name,
            )
        return number

    def _finite(self, value: Any) -> float:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isnan(number):
            raise Rejected("NaN", "the label is not a number", self._name)
        if math.isinf(number):
            raise Rejected("inf", "the label is not finite", self._name)
        return number

    def _whole(self, value: Any) -> int:
        if isinstance(value, numbers.Integral):
            whole = int(value)
        else:
            number = self._finite(value)
            if not number.is_integer():
                raise self._out_of_domain(value)
            whole = int(number)
        if not _LEAST_WHOLE <= whole <= _MOST_WHOLE:
            raise Rejected("label out of domain", "a whole number of more than 64 bits", self._name)
        return whole

    def _out_of_domain(self, value: Any) -> Rejected:
        wanted = _WANTED[self._type]
        return Rejected("label out of domain", f"{show(value)}, not {wanted}", self._name)


def _all_quantities(labels: list[Any]) -> bool:
    return all(value is None or abs(value) <= LARGEST_LABEL for value in labels)


def _all_classes(labels: list[Any]) -> bool:
    whole = [label for label in labels if type(label) is int]
    return min(whole) >= _LEAST_WHOLE and max(whole) <= _MOST_WHOLE


def _all_text(labels: list[Any]) -> bool:
    """Return whether all can be written: half a surrogate pair, which JSON can escape, cannot."""
    try:
        "".join(label for label in labels if isinstance(label, str)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _listed(y: npt.NDArray[Any], label_type: str | None) -> list[Any]:
    """An array of labels as a list; NaN, the only null an array of floats has, becomes None."""
    labels: list[Any]
    if y.dtype.kind in "iu" and label_type == "float":
        y = y.astype(np.float64)
    labels = y.tolist()
    if y.dtype.kind != "f":
        return labels
    missing = np.isnan(y)
    whole = np.where(missing, 0, y)
    if (
        label_type in (None, "int")
        and np.all(np.abs(whole) < 2**53)
        and np.all(whole == np.floor(whole))
    ):
        labels = whole.astype(np.int64).tolist()
    for i in np.flatnonzero(missing):
        labels[i] = None
    return labels
