"""The figures of a run, those of its slices, and its alarms: all that follows from predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.base import Sink, Source
from connectors.errors import BadRecord
from connectors.records import FRAMED
from streamk.encoding import FieldReader, Rejected
from streamk.engine.evaluation.metrics import Metrics
from streamk.engine.evaluation.slices import Coverage, Slices
from streamk.engine.training.beside import AlarmWriter, RegionGiver, Scored, alarms
from streamk.errors import InvalidInput

Floats = npt.NDArray[np.float64]


class SliceReader:
    """Reads a column of events as it stands there.

    Parameters
    ----------
    source : Source
        Of the events.
    name : str or int
        The field, nested ones by names with dots.

    Raises
    ------
    InvalidInput
        If the source's events have no named fields.
    """

    def __init__(self, source: Source, name: str | int) -> None:
        self.name = name
        if source.encoding not in ("json", "csv", "dict", *FRAMED):
            raise InvalidInput(
                f"slice={name!r} needs events with named fields, and the source has plain numbers"
            )
        try:
            self._read = FieldReader.of_source(source, (name,))
        except BadRecord as error:
            raise InvalidInput(f"slice={name!r} cannot be read: {error}") from error

    def of(self, values: Sequence[Any]) -> list[Any]:
        """Return the field of raw events, None of those that lack it or cannot be read."""
        cells = self._read.many(values)
        return [None if isinstance(cell, Rejected) else cell[0] for cell in cells]


def beside_of(measured: Floats | None, slices: Floats | None) -> dict[str, Floats]:
    """Return columns beside the scores of n events.

    Parameters
    ----------
    measured : float64 array of shape (n, 2), or None
        Whether regions held the labels, and their sizes.
    slices : float64 array of shape (n,), or None
        Numbers of slices.
    """
    found: dict[str, Floats] = {}
    if measured is not None:
        found |= dict(zip(Coverage.COLUMNS, measured.T, strict=True))
    if slices is not None:
        found[Slices.COLUMN] = slices
    return found


Int64s = npt.NDArray[np.int64]


class Scoring:
    """Scores predictions whose labels are there, and watches them for alarms.

    Parameters
    ----------
    classification : bool
    window : int
        Events in the windowed figures.
    names : tuple of str
        Of further figures.
    regions : RegionGiver, optional
        Those that come with predictions.
    slices : SliceReader, optional
        Of the column whose values have figures of their own.
    alarm_sink : Sink, optional
        Gets the alarms.

    Attributes
    ----------
    metrics : Metrics
    alarms : Alarms or None
    """

    def __init__(
        self,
        *,
        classification: bool,
        window: int,
        names: tuple[str, ...],
        regions: RegionGiver | None,
        slices: SliceReader | None,
        alarm_sink: Sink | None,
    ) -> None:
        self._slices = slices
        self._figures: dict[str, Any] = {
            "window": window,
            "names": names,
            "region": None if regions is None else regions.SIZE,
            "slices": self.slice,
        }
        self.metrics = Metrics(classification=classification, **self._figures)
        level = None if regions is None else regions.level
        self.alarms: AlarmWriter | None = None
        if alarm_sink is not None:
            self.alarms = alarms(alarm_sink, classification=classification, level=level)

    @property
    def slice(self) -> str | int | None:
        """The field of the slices; None without."""
        return None if self._slices is None else self._slices.name

    def slices_of(self, values: Sequence[Any]) -> Floats | None:
        """Return the numbers of the slices of raw events; None without slices."""
        if self._slices is None or self.metrics.slices is None:
            return None
        return self.metrics.slices.codes(self._slices.of(values))

    def slice_name(self, value: Any) -> str | None:
        """Return the name of the slice of a raw event; None without slices."""
        if self._slices is None or self.metrics.slices is None:
            return None
        return self.metrics.slices.name(self._slices.of([value])[0])

    def add(
        self, at: Int64s, classes: Sequence[Any], scored: Scored, slices: Floats | None
    ) -> None:
        """Add labelled predictions to the figures.

        Parameters
        ----------
        at : int64 array (k,)
            How many events of the sequence each is the last of.
        classes : sequence of labels
            Those of the probabilities.
        scored : Scored
        slices : float64 array (k,), or None
            Numbers of their slices.
        """
        if not len(at):
            return
        (answers, P), beside = scored.prequential, beside_of(scored.measured, slices)
        if P is None:
            self.metrics.add_numbers(answers, scored.labels, at, beside)
        else:
            self.metrics.add_classes(P, answers.tolist(), classes, scored.labels, at, beside)

    # --- state ------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""
        return {
            "metrics": self.metrics.to_json(),
            "alarms": None if self.alarms is None else self.alarms.to_json(),
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Go on where `to_json` was called; alarms begin anew where there were none.

        Raises `KeyError`, `TypeError` or `StateError` if the data is not its own.
        """
        self.metrics = Metrics.from_json(data["metrics"], **self._figures)
        if self.alarms is not None and data["alarms"] is not None:
            self.alarms.restore(data["alarms"])
