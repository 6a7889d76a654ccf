"""Scores of predictions whose labels are there, gathered before they go into the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from connectors.base import Sink, Source
from connectors.errors import BadRecord
from connectors.records import FRAMED
from streamk.encoding import FieldReader, Rejected
from streamk.engine.evaluation.metrics import UNCHANGED, Metrics
from streamk.engine.evaluation.slices import Coverage, Slices
from streamk.engine.training.beside import AlarmWriter, RegionGiver, Scored, alarms
from streamk.errors import InvalidInput
from streamk.learners.common.prequential import Prequential

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


class SliceReader:
    """Reads a column of events as it stands there, nested ones by names with dots.

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


_AT_ONCE = 1024
"""Scores that are added to the figures at once: ten take nearly as long as a thousand."""


class _Added(NamedTuple):
    """Labelled predictions on their way to the figures; see `Scoring.add`."""

    at: Int64s
    classes: Sequence[Any]
    answers: npt.NDArray[Any]
    probabilities: Floats | None
    labels: Sequence[Any]
    beside: dict[str, Floats]

    def goes_with(self, other: _Added) -> bool:
        """Return whether the two have the same classes, so that they can be added as one."""
        mine, others = self.probabilities, other.probabilities
        if mine is None or others is None:
            return mine is others
        return mine.shape[1] == others.shape[1] and self.classes == other.classes


def _joined(parts: Sequence[_Added]) -> _Added:
    """Return parts that go with each other as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    given = [part.probabilities for part in parts if part.probabilities is not None]
    return first._replace(
        at=np.concatenate([part.at for part in parts]),
        answers=np.concatenate([part.answers for part in parts]),
        probabilities=np.concatenate(given) if given else None,
        labels=[label for part in parts for label in part.labels],
        beside={
            name: np.concatenate([part.beside[name] for part in parts]) for name in first.beside
        },
    )


def _errors_of(told: Sequence[Any], labels: Sequence[Any], found: Prequential) -> Floats:
    """Return labels less those that were `told`, or which of them are the same; NaN of None."""
    pairs = zip(told, labels, strict=True)
    if found.probabilities is None:
        errors = [np.nan if one is None else label - one for one, label in pairs]
        return np.array(errors, np.float64)
    hits = [np.nan if one is None else one == label for one, label in pairs]
    return np.array(hits, np.float64)


class Scoring:
    """Scores predictions whose labels are there, and watches them for alarms.

    Parameters
    ----------
    window : int
        Events in the windowed figures.
    names : tuple of str
        Of further figures.
    quantile : float, optional
        That is predicted, of numbers.
    regions : RegionGiver, optional
        Those that come with predictions.
    slices : SliceReader, optional
        Of the column whose values have figures of their own.
    alarm_sink : Sink, optional
        Gets the alarms.
    """

    def __init__(
        self,
        *,
        classification: bool,
        window: int,
        names: tuple[str, ...],
        quantile: float | None,
        regions: RegionGiver | None,
        slices: SliceReader | None,
        alarm_sink: Sink | None,
    ) -> None:
        self._slices = slices
        self.slice = None if slices is None else slices.name
        """The field of the slices; None without."""
        self._figures: dict[str, Any] = {
            "window": window,
            "names": names,
            "region": None if regions is None else regions.SIZE,
            "slices": self.slice,
        }
        self._metrics = Metrics(classification=classification, quantile=quantile, **self._figures)
        self._waiting: list[_Added] = []
        """Those that are not in the figures yet, of the same classes."""
        self._n_waiting = 0
        level = None if regions is None else regions.level
        self.alarms: AlarmWriter | None = None
        if alarm_sink is not None:
            self.alarms = alarms(alarm_sink, classification=classification, level=level)

    @property
    def metrics(self) -> Metrics:
        """The figures of all that was added."""
        self._catch_up()
        return self._metrics

    def slices_of(self, values: Sequence[Any], rows: Sequence[int]) -> Floats | None:
        """Return the numbers of the slices of some raw events; None without slices."""
        if self._slices is None or self._metrics.slices is None:
            return None
        return self._metrics.slices.codes(self._slices.of([values[row] for row in rows]))

    def slice_name(self, value: Any) -> str | None:
        """Return the name of the slice of a raw event; None without slices."""
        if self._slices is None or self._metrics.slices is None:
            return None
        return self._metrics.slices.name(self._slices.of([value])[0])

    def add(
        self, at: Int64s, classes: Sequence[Any], scored: Scored, slices: Floats | None
    ) -> None:
        """Add labelled predictions to the figures: some at once, or when the figures are read.

        Their numbers in the sequence are `at`, counted from 1, those of their slices `slices`.
        """
        if not len(at):
            return
        beside: dict[str, Floats] = {}
        if scored.measured is not None:
            beside |= dict(zip(Coverage.COLUMNS, scored.measured.T, strict=True))
        if slices is not None:
            beside[Slices.COLUMN] = slices
        if scored.unchanged is not None:
            beside[UNCHANGED] = _errors_of(scored.unchanged, scored.labels, scored.prequential)
        some = _Added(at, classes, *scored.prequential, scored.labels, beside)
        if self._waiting and not self._waiting[0].goes_with(some):
            self._catch_up()
        self._waiting.append(some)
        self._n_waiting += len(at)
        if self._n_waiting >= _AT_ONCE:
            self._catch_up()

    def _catch_up(self) -> None:
        """Add to the figures what waits."""
        if not self._waiting:
            return
        at, classes, answers, P, labels, beside = _joined(self._waiting)
        if P is None:
            self._metrics.add_numbers(answers, labels, at, beside)
        else:
            self._metrics.add_classes(P, answers.tolist(), classes, labels, at, beside)
        # Only now: a figure that cannot be had of a label is told whenever figures are read.
        self._waiting, self._n_waiting = [], 0

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
        self._waiting, self._n_waiting = [], 0
        self._metrics = Metrics.from_json(data["metrics"], **self._figures)
        if self.alarms is not None and data["alarms"] is not None:
            self.alarms.restore(data["alarms"])
