"""The options of an engine: their domains, and what follows from several of them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from connectors.base import Sink, Source
from streamk.encoding import Absent, LabelType, Mode, Schema
from streamk.engine.checkpoints.manifests import Key, key_of
from streamk.engine.checkpoints.object_path import Location, ObjectPath, location
from streamk.engine.checkpoints.opening import open_store
from streamk.engine.checkpoints.store import Store
from streamk.engine.training.bad_events import OnError
from streamk.engine.training.trainer import DelayedLabels
from streamk.errors import InvalidInput, shown
from streamk.learners.base import Learner
from streamk.options import Whole


def policy(on_error: OnError | None, dead_letters: Sink | None) -> OnError:
    """Return what becomes of events that cannot be used."""
    on_error = on_error or ("skip" if dead_letters is None else "dead-letter")
    if (on_error == "dead-letter") != (dead_letters is not None):
        raise InvalidInput('dead_letters= and on_error="dead-letter" go together')
    check_choice("on_error", on_error, OnError)
    return on_error


def label_of(label: str | int | None, schema: Schema | Mode) -> str | int | None:
    """Return the field that holds the label: a schema brings its own."""
    if not isinstance(schema, Schema):
        check_choice("schema", schema, Literal["open", "strict"])
        return label
    if label not in (None, schema.label):
        raise InvalidInput(f"label={label!r}, but the schema's label is {schema.label!r}")
    return schema.label


def schema_of(
    model: Learner,
    label: str | int | None,
    given: Schema | Mode,
    absent: Absent,
    ignore: tuple[Any, ...],
) -> Schema:
    """Return the schema that was given, or one whose columns are found along the stream."""
    if isinstance(given, Schema):
        return given
    kind: LabelType | None = None if label is None or model.is_classifier else "float"
    return Schema(label=label, label_type=kind, mode=given, absent=absent, ignore=ignore)


def check_whole(least: int, **options: int | None) -> None:
    """Raise `InvalidInput` if an option that is given is no whole number of at least that."""
    for name, value in options.items():
        Whole(least=least, optional=True).check(name, value)


def check_seconds(**options: float) -> None:
    """Raise `InvalidInput` if an option is no finite number of seconds."""
    for name, value in options.items():
        if not (isinstance(value, int | float) and 0 <= value < math.inf):
            raise InvalidInput(f"{name}={shown(value)} must be a number of seconds, at least 0")


def check_skew(max_skew: float) -> None:
    """Raise `InvalidInput` if the bound of clocks is no number of seconds; it may be infinite."""
    if not (isinstance(max_skew, int | float) and max_skew >= 0):
        raise InvalidInput(
            f"max_skew={shown(max_skew)} must be a number of seconds, at least 0, or infinite"
        )


def check_share(**options: float) -> None:
    """Raise `InvalidInput` if an option is no share."""
    for name, value in options.items():
        if not 0.0 <= value <= 1.0:
            raise InvalidInput(f"{name}={value!r} must lie between 0 and 1")


def check_learning(schema: Schema | Mode, *, learn: bool, takes_newer: bool) -> None:
    """Raise `InvalidInput` if what learns and what only predicts are mixed up."""
    if takes_newer and learn:
        raise InvalidInput("newer= is for learn=False")
    if not (learn or (isinstance(schema, Schema) and schema.mode == "fixed")):
        raise InvalidInput('learn=False needs a schema of mode "fixed", see streamk.load')


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raise `InvalidInput` if an option is none of the choices of a literal type."""
    if value not in get_args(choices):
        known = ", ".join(repr(choice) for choice in get_args(choices))
        raise InvalidInput(f"{name}={shown(value)} is none of {known}")


def config_of(
    source: Source,
    schema: Schema | Mode,
    label: str | int | None,
    absent: Absent,
    ignore: tuple[str | int, ...],
    labels: DelayedLabels | None,
    max_skew: float,
    *,
    learn: bool,
) -> dict[str, Any]:
    """Return the options in which a checkpoint and a run that goes on from it agree, as JSON."""
    given = schema.to_json() if isinstance(schema, Schema) else schema
    return {
        "label": label,
        "learn": learn,
        "schema": given if learn else "fixed",
        "absent": absent,
        "ignore": list(ignore),
        "labels": None if labels is None else labels.to_json(),
        "encoding": source.encoding,
        "delimiter": source.delimiter,
        "max_skew": None if math.isinf(max_skew) else float(max_skew),
    }


Place = str | os.PathLike[str] | ObjectPath


@dataclass(frozen=True)
class CheckpointOptions:
    """See `streamk.engine.Engine`; `seconds` is its `transactions`."""

    place: Location | None
    start_from: Location | None
    key: Key | None
    every: int
    grace: int
    seconds: float | None

    @classmethod
    def of(
        cls,
        place: Place | None,
        start_from: Place | None,
        state_key: str | os.PathLike[str] | None,
        *,
        every: int,
        grace: int,
        seconds: float | None,
    ) -> Self:
        """Return the options for places as they are named and the file of a key.

        Raises
        ------
        InvalidInput
            If a place or the key cannot be one, or nothing is there for the key to sign.
        """
        own = None if place is None else location(place)
        others = None if start_from is None else location(start_from)
        found = cls(own, others, key_of(state_key), every, grace, seconds)
        if state_key is not None and place is None and start_from is None:
            raise InvalidInput("state_key= needs checkpoint= or start_from=")
        return found

    def open(self, *, alone: bool) -> Store | None:
        """Return the store of the job, see `open_store`; None without checkpoints."""
        if self.place is None:
            return None
        return open_store(self.place, alone=alone, key=self.key)
