"""Which columns an event has, what the label is, and how both are found from the first events.

Numbers and booleans are columns. A text `s` in field `c` is the column "c=s" with value 1 (as in
scikit-learn's `DictVectorizer`); the other columns of `c` are then 0. Nested objects flatten with
dots. A null is the same as an absent field.
"""

from __future__ import annotations

import difflib
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from connectors.base import Rows
from connectors.errors import BadRecord
from connectors.records import Name, Rejected, flatten, parse_number, reader, sort_key

__all__ = ["MAX_CLASSES", "MAX_COLUMNS", "Absent", "Mode", "Schema", "infer"]

Kind = Literal["number", "text"]
LabelType = Literal["bool", "int", "str", "float"]
Mode = Literal["open", "strict"]
Absent = Literal["zero", "missing"]

MAX_COLUMNS = 16_384
"""Default cap on columns: a batch of 1,024 events is then at most 64 MiB. A field of identifiers
or of free text would otherwise add a column an event for ever."""

MAX_CLASSES = 20
"""More distinct whole numbers than this among the first labels are taken for a quantity."""

_FORMAT = 1
_CHOICES: dict[str, tuple[object, ...]] = {
    "label_type": (None, *get_args(LabelType)),
    "mode": get_args(Mode),
    "absent": get_args(Absent),
}


@dataclass(frozen=True)
class Schema:
    """The columns of the array that events become, and the label.

    Parameters
    ----------
    columns : tuple of str or int
        Column j of the array. Only whole numbers (unnamed columns) and names.
    label : str, int or None
        The field that holds the label; None: events are only to be predicted.
    label_type : "bool", "int", "str" or "float", or None without a label
        "float" is regression, the others are classes.
    kinds : mapping of field to "number" or "text"
        Left out: every column is a number. A text field `c` owns the columns "c=...".
    classes : tuple or None
        The only labels allowed; None allows any of the right type.
    mode : "open" or "strict"
        What becomes of a field or a text value that is not known: a new trailing column, or a
        rejected event.
    absent : "zero" or "missing"
        What stands in the array for a column that an event lacks: 0, or NaN. With "missing" a
        NaN in the data means the same; with "zero" it makes the event a bad one.
    ignore : tuple of str or int
        Fields (nested ones with dots) that are not read at all.
    max_columns : int
        An event that would lead past this many columns is rejected.

    Raises
    ------
    BadRecord
        For a combination that makes no sense; the message says which.

    Examples
    --------
    >>> Schema(("a", "b"), label="y", label_type="int").is_classification
    True
    """

    columns: tuple[Name, ...]
    label: Name | None = None
    label_type: LabelType | None = None
    kinds: Mapping[Name, Kind] = field(default_factory=dict)
    classes: tuple[Any, ...] | None = None
    mode: Mode = "open"
    absent: Absent = "zero"
    ignore: tuple[Name, ...] = ()
    max_columns: int = MAX_COLUMNS

    def __post_init__(self) -> None:
        if not self.kinds:
            object.__setattr__(self, "kinds", dict.fromkeys(self.columns, "number"))
        if (self.label is None) != (self.label_type is None):
            raise BadRecord("a schema has both a label and a label_type, or neither")
        if len(set(self.columns)) != len(self.columns):
            twice = [name for name, n in Counter(self.columns).items() if n > 1]
            raise BadRecord(f"column {twice[0]!r} stands twice in the schema")
        if len(self.columns) > self.max_columns:
            raise BadRecord(_too_many(self.columns, self.kinds, self.max_columns))
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                known = ", ".join(repr(choice) for choice in allowed)
                raise BadRecord(f"{name} is {getattr(self, name)!r}; it is one of {known}")
        for owner, kind in self.kinds.items():
            if kind not in ("number", "text"):
                raise BadRecord(f"field {owner!r} is of kind {kind!r}; it is 'number' or 'text'")
        for column in self.columns:
            self.owner(column)

    @property
    def is_classification(self) -> bool:
        """Whether the label is a class. False without a label."""
        return self.label_type in ("bool", "int", "str")

    def owner(self, column: Name) -> Name:
        """The field that a column is made from.

        >>> Schema(("c=x", "n"), kinds={"c": "text", "n": "number"}).owner("c=x")
        'c'
        """
        if self.kinds.get(column) == "number":
            return column
        if isinstance(column, str):
            owner = column.partition("=")[0]
            candidates: list[Name] = [owner]
            if owner.isdecimal():
                candidates.append(int(owner))
            for name in candidates:
                if self.kinds.get(name) == "text":
                    return name
        raise BadRecord(f"column {column!r} belongs to no field of the schema's kinds")

    def extended(self, columns: Sequence[Name], kinds: Mapping[Name, Kind]) -> Schema:
        """The same schema with new trailing columns and new fields."""
        return replace(self, columns=(*self.columns, *columns), kinds={**self.kinds, **kinds})

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can hold and that `from_json` reads back as an equal schema."""
        return {
            "format": _FORMAT,
            "columns": list(self.columns),
            "label": self.label,
            "label_type": self.label_type,
            # Pairs, not an object: a JSON object would turn the column 3 into the column "3".
            "kinds": [[name, kind] for name, kind in self.kinds.items()],
            "classes": None if self.classes is None else list(self.classes),
            "mode": self.mode,
            "absent": self.absent,
            "ignore": list(self.ignore),
            "max_columns": self.max_columns,
        }

    @classmethod
    def from_json(cls, data: Any) -> Schema:
        """The schema that `to_json` wrote. Raises `BadRecord` if it is not one."""
        found = data.get("format") if isinstance(data, Mapping) else data
        if not isinstance(data, Mapping) or found != _FORMAT:
            raise BadRecord(f"not a schema of format {_FORMAT}: its format is {found!r}")
        try:
            classes = data["classes"]
            return cls(
                columns=tuple(data["columns"]),
                label=data["label"],
                label_type=data["label_type"],
                kinds={name: kind for name, kind in data["kinds"]},  # noqa: C416 checks pairs
                classes=None if classes is None else tuple(classes),
                mode=data["mode"],
                absent=data["absent"],
                ignore=tuple(data["ignore"]),
                max_columns=data["max_columns"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadRecord(f"not a schema: {error!r}") from error


def infer(
    values: Sequence[Any],
    *,
    encoding: str,
    label: Name | None,
    fields: tuple[str, ...] | None = None,
    task: Literal["classification", "regression"] | None = None,
    classes: tuple[Any, ...] | None = None,
    mode: Mode = "open",
    absent: Absent = "zero",
    ignore: tuple[Name, ...] = (),
    max_columns: int = MAX_COLUMNS,
) -> Schema:
    """The schema of the first events of a stream.

    The same events in another order of fields give the same schema: names are sorted. Events that
    cannot be read are passed over here (the decoder will report them). A field with numbers in
    some events and text in others is what it is more often, a number on a tie; in CSV, where all
    is text, it is a number if nine in ten of its filled cells are.

    The label is a class if it is text, boolean, or whole numbers of at most 20 distinct values;
    otherwise (any fraction, or more distinct values) it is a quantity. `task` overrides that.

    Parameters
    ----------
    values : sequence of raw events, at least one of them readable
    encoding : str
        One of `connectors.base.ENCODINGS`.
    label : str, int or None
        The label's field; None if there is none to learn from. For "rows" and "float32" without
        `fields` any name will do: the place says which number it is.
    fields : tuple of str, optional
        The source's `fields`.
    task, classes, mode, absent, ignore, max_columns
        See `Schema`.

    Raises
    ------
    BadRecord
        If no event can be read, none has the label, or there are more than `max_columns` columns.

    Examples
    --------
    >>> schema = infer([b'{"n": 1, "c": "x", "y": true}'], encoding="json", label="y")
    >>> schema.columns, schema.label_type
    (('c=x', 'n'), 'bool')
    """
    if isinstance(values, Rows):
        kinds, columns, labels = _survey_rows(values, fields, label)
    else:
        kinds, columns, labels = _survey(values, encoding, fields, label, ignore)
    label_type = None if label is None else _label_type(labels, task, encoding, classes)
    if len(columns) > max_columns:
        raise BadRecord(_too_many(columns, kinds, max_columns))
    return Schema(
        columns=tuple(columns),
        label=label,
        label_type=label_type,
        kinds=kinds,
        classes=classes,
        mode=mode,
        absent=absent,
        ignore=ignore,
        max_columns=max_columns,
    )


Survey = tuple[dict[Name, Kind], list[Name], list[Any]]


def _survey_rows(rows: Rows, fields: tuple[str, ...] | None, label: Name | None) -> Survey:
    d = rows.X.shape[1]
    if fields is not None and len(fields) != d:
        raise BadRecord(f"{len(fields)} column names for rows of {d} columns")
    columns: list[Name] = list(range(d)) if fields is None else list(fields)
    labels: Sequence[Any] = ()
    if label is not None:
        if rows.y is None:
            raise BadRecord(f"the rows have no labels, though the label is to be {label!r}")
        labels = rows.y.tolist() if isinstance(rows.y, np.ndarray) else rows.y
    known = [value for value in labels if value is not None and value == value]
    return dict.fromkeys(columns, "number"), columns, known


def _survey(
    values: Sequence[Any],
    encoding: str,
    fields: tuple[str, ...] | None,
    label: Name | None,
    ignore: tuple[Name, ...],
) -> Survey:
    """Kinds by field, columns in their order, and the labels that are not null."""
    seen: dict[Name, set[str]] = {}
    tallies: dict[Name, Counter[str]] = {}
    labels: list[Any] = []
    for event in _readable(values, encoding, fields, label, ignore):
        answer = event.pop(label, None) if label is not None else None
        if answer is not None and answer == answer:
            labels.append(answer)
        for name, cell in event.items():
            if cell is not None:
                tallies.setdefault(name, Counter())[_sort(cell, encoding)] += 1
            if isinstance(cell, str):
                seen.setdefault(name, set()).add(cell)
    kinds: dict[Name, Kind] = {}
    columns: set[Name] = set()
    for name in sorted(tallies, key=sort_key):
        kinds[name] = _kind(name, tallies[name], encoding)
        if kinds[name] == "number":
            columns.add(name)
        else:
            columns.update(f"{name}={value}" for value in seen[name])
    return kinds, sorted(columns, key=sort_key), labels


def _sort(cell: Any, encoding: str) -> str:
    if isinstance(cell, str) and encoding != "csv":
        return "text"
    if parse_number(cell) is not None:
        return "number"
    return "text" if isinstance(cell, str) else "other"


def _kind(name: Name, tally: Counter[str], encoding: str) -> Kind:
    """What a field is, by how often it was what. Raises `BadRecord` if that is no use."""
    if tally["other"] > max(tally["text"], tally["number"]):
        raise BadRecord(f"field {name!r} holds neither numbers nor text; ignore it")
    # In CSV a text field may well hold numbers among its values, never the other way round.
    if (9 if encoding == "csv" else 1) * tally["text"] <= tally["number"]:
        return "number"
    if "=" in str(name):
        raise BadRecord(f"text field {name!r} has '=' in its name; ignore it or rename it")
    return "text"


def _readable(
    values: Sequence[Any],
    encoding: str,
    fields: tuple[str, ...] | None,
    label: Name | None,
    ignore: tuple[Name, ...],
) -> list[dict[Name, Any]]:
    """The events that can be read. Raises `BadRecord` if none can, or none has the label."""
    read = reader(encoding, fields, label)
    events: list[dict[Name, Any]] = []
    trouble = ""
    for value in values:
        try:
            events.append(flatten(read(value), ignore))
        except Rejected as error:
            trouble = trouble or error.reason
    if not len(values):
        raise BadRecord("a schema cannot be inferred from no events")
    if not events:
        raise BadRecord(f"none of the first {len(values)} events is readable {encoding}: {trouble}")
    if label is not None and not any(label in event for event in events):
        names = sorted({name for event in events for name in event}, key=sort_key)
        raise BadRecord(_no_label(label, names, len(events)))
    return events


def _label_type(
    labels: list[Any], task: str | None, encoding: str, classes: tuple[Any, ...] | None
) -> LabelType:
    if task not in (None, "classification", "regression"):
        raise BadRecord(f"task is {task!r}; it is 'classification' or 'regression'")
    if task == "regression":
        return "float"
    if classes is not None:
        labels, encoding = list(classes), "dict"
    if not labels:
        raise BadRecord("the label is null in every one of the first events; name the classes")
    if encoding == "csv":
        return _csv_label_type(labels, task)
    families: Counter[str] = Counter(_family(value) for value in labels)
    family = max(("float", "str", "bool", "other"), key=lambda name: families[name])
    if family == "other":
        raise BadRecord(f"a label is text, a boolean or a number, not {type(labels[0]).__name__}")
    if family == "str":
        return "str"
    if family == "bool":
        return "bool"
    return _number_label_type([v for v in labels if _family(v) == "float"], task)


def _csv_label_type(labels: list[str], task: str | None) -> LabelType:
    if all(cell.lower() in ("true", "false") for cell in labels):
        return "bool"
    figures = [number for number in map(parse_number, labels) if number is not None]
    if 2 * len(figures) < len(labels):
        return "str"
    return _number_label_type(figures, task)


def _number_label_type(labels: list[Any], task: str | None) -> LabelType:
    finite = [float(value) for value in labels if abs(value) < float("inf")]
    whole = all(value.is_integer() for value in finite)
    if task == "classification":
        if not whole:
            raise BadRecord(
                "classes are text, booleans or whole numbers, and these labels are not; to learn"
                " numbers choose the task regression"
            )
        return "int"
    return "int" if whole and len(set(finite)) <= MAX_CLASSES else "float"


def _family(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, str):
        return "str"
    return "float" if isinstance(value, numbers.Real) else "other"


def _no_label(label: Name, names: Sequence[Name], n_read: int) -> str:
    near = difflib.get_close_matches(str(label), [str(name) for name in names], 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    shown = ", ".join(str(name) for name in names[:20]) + (", ..." if len(names) > 20 else "")
    return f"none of the first {n_read} events has the label {label!r}{hint} (fields: {shown})"


def _too_many(columns: Sequence[Name], kinds: Mapping[Name, Kind], most: int) -> str:
    owners = Counter(str(column).partition("=")[0] for column in columns)
    name, n = owners.most_common(1)[0]
    advice = f"field {name!r} alone has {n} values; ignore it or " if n > 1 else ""
    text = sum(kind == "text" for kind in kinds.values())
    return f"{len(columns)} columns ({text} text fields), {most} allowed: {advice}raise max_columns"
