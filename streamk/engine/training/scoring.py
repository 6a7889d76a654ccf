"""The figures of a run, those of its slices, and its alarms: all that follows from predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.base import Sink
from streamk.conformal import Regions
from streamk.engine.alarms.alarms import Alarms, Scored
from streamk.engine.evaluation.metrics import Metrics
from streamk.engine.training.slicing import SliceReader, beside_of

__all__ = ["Scoring"]

Floats = npt.NDArray[np.float64]
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
    regions : Regions, optional
        Those that come with predictions.
    slices : SliceReader, optional
        Of the column whose values have figures of their own.
    alarms : Sink, optional
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
        regions: Regions | None,
        slices: SliceReader | None,
        alarms: Sink | None,
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
        self.alarms = None if alarms is None else Alarms(alarms, classification, level)

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
