"""The state of held events: those in memory, and the names of the files with the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.declared import ANY, NON_NEGATIVE, Declared, count, taken
from streamk.engine.checkpoints.segment_files import is_name
from streamk.engine.evaluation.slices import Slices
from streamk.engine.late.work import LateWork
from streamk.engine.waiting.held import Limits, Records
from streamk.errors import StateError
from streamk.state import State

__all__ = ["TYPE", "restore_work", "unreadable", "work_state"]

TYPE = "late-labels"

_SAID = (
    Declared("said_of", "int64", ("kept",), NON_NEGATIVE),
    Declared("said_by_parts", "float32", ("kept", "parts", "outputs"), ANY),
)
"""Predictions of held events by the parts of a learner; see `Learner.holds_predictions`."""
_QUEUES = "held", "early", "over"


def work_state(work: LateWork, header: Mapping[str, Any]) -> State:
    """Return what waits, with further entries of the header."""
    holding, join = work.holding, work.join
    arrays: dict[str, Any] = {**join.arrays(), **holding.held.arrays(join.slots)}
    if holding.model.holds_predictions:
        arrays["said_of"], arrays["said_by_parts"] = holding.model.held_predictions()
    whole = {
        "type": TYPE,
        "fates": join.to_json(),
        "segments": join.files(),
        "number": holding.number,
        **header,
    }
    return State(whole, arrays)


def restore_work(
    work: LateWork, held: State, columns: int, slices: Slices | None, level: float | None
) -> None:
    """Have new work go on with what `work_state` gave.

    Parameters
    ----------
    work : LateWork
    held : State
    columns : int
        Of the stream.
    slices : Slices, optional
        Of the run; those of the state are forgotten if they are of another column.
    level : float, optional
        Of the regions of the run; thresholds of another level are forgotten.

    Raises
    ------
    StateError
        If it does not fit.
    """
    header, arrays, holding = held.header, held.arrays, work.holding
    holding.number = count(header, "number", "held events")
    files: Any = header.get("segments")
    fates = header.get("fates")
    if not isinstance(fates, Mapping) or not _are_names(files):
        raise unreadable("their counts or files are missing")
    model = holding.model
    classes = len(model.classes) if model.is_classifier else None
    limits = Limits(columns, classes, holding.number)
    forget = _forgetting(header, slices, level)

    def changed(records: Records) -> Records | None:
        limits.check_records(records)
        parts = {name: records[name].copy() for name in ("slice", "threshold")}
        if not forget(parts):
            return None
        other = records.copy()
        for name, part in parts.items():
            other[name] = part
        return other

    n = work.join.restore(fates, files, arrays, changed)
    holding.held.restore(n, arrays, limits)
    forget({"slice": holding.held.slice, "threshold": holding.held.threshold})
    if model.holds_predictions:
        sizes: dict[str, int] = {}
        found, _ = taken(_SAID, held.arrays, sizes, "held events")
        model.restore_held_predictions(found["said_of"], found["said_by_parts"])


def _are_names(files: Any) -> bool:
    """Return whether there is a list of names of files for each queue."""
    return isinstance(files, Mapping) and all(
        isinstance(files.get(queue), list) and all(map(is_name, files[queue])) for queue in _QUEUES
    )


def _forgetting(
    header: Mapping[str, Any], slices: Slices | None, level: float | None
) -> Callable[[Mapping[str, NDArray[np.float64]]], bool]:
    """Return what forgets the slices and thresholds of events that are of no use to this run.

    It tells whether there were any, and raises `StateError` for slices that do not fit.
    """
    has_slices = slices is not None and header.get("slice") == slices.column
    has_level = level is not None and header.get("level") == level

    def forget(parts: Mapping[str, NDArray[np.float64]]) -> bool:
        if has_slices and slices is not None and not slices.fits(parts["slice"]):
            raise unreadable("their slices are none of the names")
        were = False
        for name, stays in (("slice", has_slices), ("threshold", has_level)):
            if not stays:
                were |= not np.isnan(parts[name]).all()
                parts[name][:] = np.nan
        return were

    return forget


def unreadable(reason: object) -> StateError:
    """Return the error for a state that does not fit."""
    return StateError(f"the held events in the checkpoint cannot be read: {reason}")
