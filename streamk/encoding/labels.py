"""Labels of events, checked against the schema's label type and classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.encoding.schema import BadEvent, Schema
from streamk.encoding.values import (
    Rejected,
    bounded,
    parse_number,
    parse_text,
    plain,
    show,
    text_of,
)

LARGEST_LABEL = float(np.sqrt(np.finfo(np.float32).max))
"""A quantity larger than this (1.8e19) makes a bad event: a model in single precision, as the
columns are, cannot hold the square of its error."""
_LEAST_WHOLE, _MOST_WHOLE = -(1 << 63), (1 << 64) - 1
"""Whole numbers that are classes: those of 64 bits, with or without a sign. Others are texts."""

_EXACT: dict[str | None, set[type]] = {
    None: {bool, int},
    "bool": {bool},
    "int": {int},
    "str": set(),
    "float": {float},
}
_WANTED = {
    None: "text, a boolean or a whole number (numbers are learned with the task regression)",
    "bool": "a boolean",
    "int": "a whole number",
    "str": "text",
    "float": "a number",
}
_MOST_KNOWN = 4096
"""Texts whose labels are kept."""


class LabelReader:
    """Turns raw labels into str, int, bool (classes) or float; None means "only predict".

    A label means what `streamk.encoding.values` says, whatever its format: the text "7" is the
    class 7, "true" is True, and "NA" is not a label.

    Parameters
    ----------
    schema : Schema
        With the label type "str" every text is a class as it stands.

    Examples
    --------
    >>> read = LabelReader(Schema(label="y")).one
    >>> read("7"), read(7.0), read("007"), read("TRUE"), read("NA")
    (7, 7, '007', True, None)
    """

    def __init__(self, schema: Schema) -> None:
        self._name = schema.label
        self._type = schema.label_type
        self._exact = _EXACT[schema.label_type]
        # By their texts, of which there is one each; True == 1 in Python.
        self._classes: dict[str | None, Any] | None = None
        if schema.classes is not None:
            self._classes = {text_of(label): label for label in schema.classes}
        self._known: dict[str, Any] = {}

    def one(self, value: Any) -> Any:
        """One label. Raises `Rejected`."""
        if self._classes is None:
            return self._label(plain(value))
        if isinstance(value, str) and value in self._classes:  # "NA", say
            return self._classes[value]
        label = self._label(plain(value))
        if label is None:
            return None
        if (text := text_of(label)) in self._classes:
            return self._classes[text]
        raise Rejected("label out of domain", f"{show(label)} is not a known class", self._name)

    def many(self, values: Sequence[Any] | npt.NDArray[Any]) -> tuple[list[Any], list[BadEvent]]:
        """Labels of many events, None for those that `one` refuses, and what it says of these."""
        if isinstance(values, np.ndarray):
            values = _listed(values, self._type)
        labels = self._at_once(list(values))
        if labels is not None:
            return labels, []
        labels, refused = list(values), list[BadEvent]()
        for i, value in enumerate(labels):
            try:
                labels[i] = self.one(value)
            except Rejected as rejected:
                labels[i] = None
                refused.append(BadEvent(i, rejected.column, rejected.reason))
            else:
                if type(value) is str and len(self._known) < _MOST_KNOWN:
                    self._known[value] = labels[i]
        return labels, refused

    def _at_once(self, labels: list[Any]) -> list[Any] | None:
        """Return labels of the usual form; None where some ask for a closer look."""
        kinds = set(map(type, labels)) - {type(None)}
        if kinds == {str} and self._type != "float":
            try:
                return [None if text is None else self._known[text] for text in labels]
            except KeyError:
                return None
        if kinds == {str}:
            if "_" in "".join(filter(None, labels)):
                return None
            try:
                labels = [None if text is None else float(text) for text in labels]
            except ValueError:
                return None
            kinds = {float}
        elif self._type != "float" and int in kinds and not _all_classes(labels):
            return None
        if self._type == "float":
            # An int is looked at before it is made a float, as it may be too large for one.
            if not kinds <= {int, float} or not _all_quantities(labels):
                return None
            labels, kinds = [None if x is None else float(x) for x in labels], {float}
        return labels if kinds <= self._exact and self._classes is None else None

    def _label(self, value: Any) -> Any:
        if isinstance(value, str):
            value = self._read(value)
        if value is None:
            return None
        if self._type == "float":
            return self._quantity(value)
        if isinstance(value, float) and self._type != "str":
            value = self._whole(value)
        if type(value) in self._exact and _LEAST_WHOLE <= value <= _MOST_WHOLE:
            return value
        text = text_of(value) if self._type in (None, "str") else None
        if text is None:
            raise self._out_of_domain(value)
        try:
            text.encode()
        except UnicodeEncodeError:  # half a surrogate pair, which JSON can escape
            raise Rejected(
                "undecodable", f"the label {show(text)} is not valid text", self._name
            ) from None
        return bounded(text)

    def _read(self, text: str) -> Any:
        """Return what a text reads as, by the label type."""
        found = parse_text(text)
        if self._type in (None, "bool"):
            return found
        if self._type == "str":
            return text
        number = parse_number(text)  # of the label types "int" and "float"
        if isinstance(found, bool | int | float) or number is None:
            return found
        return number if number == number else None

    def _quantity(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._out_of_domain(value)
        if not abs(value) <= LARGEST_LABEL:
            self._check_finite(value)
            raise Rejected(
                "label out of domain",
                f"{show(value)} is larger than {LARGEST_LABEL:.3g}",
                self._name,
            )
        return float(value)

    def _whole(self, number: float) -> int:
        self._check_finite(number)
        if not number.is_integer() or not _LEAST_WHOLE <= number <= _MOST_WHOLE:
            raise self._out_of_domain(number)
        return int(number)

    def _check_finite(self, number: float) -> None:
        if abs(number) == math.inf:  # a whole number may be past the range of floats
            raise Rejected("inf", "the label is not finite", self._name)

    def _out_of_domain(self, value: Any) -> Rejected:
        wanted = _WANTED[self._type]
        return Rejected("label out of domain", f"{show(value)}, not {wanted}", self._name)


def _all_quantities(labels: list[Any]) -> bool:
    return not [x for x in labels if x is not None and not abs(x) <= LARGEST_LABEL]


def _all_classes(labels: list[Any]) -> bool:
    whole = [label for label in labels if type(label) is int]
    return min(whole) >= _LEAST_WHOLE and max(whole) <= _MOST_WHOLE


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
