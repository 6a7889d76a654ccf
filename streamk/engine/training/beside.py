"""Protocols of what goes beside a job's predictions: regions, alarms and observers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from connectors.base import Output, Sink
from connectors.fields import RecordType
from streamk.encoding import LoneReader, Schema
from streamk.engine.order.partitions import Batch
from streamk.errors import InvalidInput
from streamk.extensions import find
from streamk.learners.common.base import Learner
from streamk.learners.common.prequential import Prequential
from streamk.learners.explaining import Event

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
Entries = list[dict[str, Any]]


class RegionGiver(Protocol):
    """Intervals or sets of classes beside predictions, as `streamk.conformal.Regions` are."""

    NAME: str
    """The name of a region in an output."""
    SIZE: str
    """The name of the figure of the mean size."""
    others: tuple[RegionGiver, ...]
    """Those of further horizons, where there are several."""

    def __init__(self, level: float) -> None: ...

    @property
    def level(self) -> float:
        """Share of the labels that regions are to hold."""

    def follow_events(
        self, found: Prequential, classes: Sequence[Any], labels: Sequence[Any], *, learns: bool
    ) -> tuple[Entries, Floats]:
        """Give regions to n events in turn, and learn the label of each before the next."""

    def give(self, found: Prequential, classes: Sequence[Any]) -> tuple[Entries, Floats]:
        """Give regions to n events whose labels come later; return them, and thresholds (n,)."""

    def learn_later(
        self,
        found: Prequential,
        classes: Sequence[Any],
        labels: Sequence[Any],
        thresholds: Floats,
        delays: Sequence[int],
    ) -> Floats:
        """Learn n labels that came later; return whether regions held them, and sizes, (n, 2)."""

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any], level: float | None = None) -> Self:
        """Go on where `to_json` was called. Raises `StateError`."""


class Scored(NamedTuple):
    """Predictions whose labels are there.

    Attributes
    ----------
    rows : int64 array (k,)
        Of the batch, where the labels came.
    prequential : Prequential
    labels : sequence of k labels
    measured : float64 array (k, 2), or None
        Whether regions held the labels, and their sizes.
    delays : sequence of k int, or None
        Events between each and its label.
    unchanged : sequence of k labels, or None
        Those that were the last when the events were predicted; by default each label is the next
        one's.
    """

    rows: Int64s
    prequential: Prequential
    labels: Sequence[Any]
    measured: Floats | None = None
    delays: Sequence[int] | None = None
    unchanged: Sequence[Any] | None = None


class AlarmWriter(Protocol):
    """Watches over a job, as `streamk.drift.alarms.Alarms` does."""

    counts: dict[str, int]
    """Alarms so far, by kind."""
    RECORD: RecordType
    """The fields of an alarm."""

    def watch(
        self,
        batch: Batch,
        first: int,
        classes: Sequence[Any],
        predicted: tuple[Int64s, Prequential],
        scored: Scored,
        alone: LoneReader,
    ) -> None:
        """Watch a batch, and write the alarms in it."""

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON data."""

    def restore(self, data: Any) -> None:
        """Go on where `to_json` was called. Raises `StateError`."""


def alarms(sink: Sink, *, classification: bool, level: float | None) -> AlarmWriter:
    """Return alarms that are written to a sink; `level` is that of regions, where there are any."""
    made: AlarmWriter = _needed("alarms", "alarms", "streamk/drift")(sink, classification, level)
    return made


def regions_of(detail: str) -> Any:
    """Return the class of the `Regions` of a detail, "interval" or "prediction_set"."""
    return _needed("regions", detail, "streamk/conformal")


def _needed(point: str, name: str, folder: str) -> Any:
    found = find(point, name)
    if found is None:
        raise InvalidInput(f"{name.replace('_', ' ')}: the extension {folder} is not installed")
    return found


MOST_ROWS = 50
"""Bad events of a batch, the last ones, that a watcher gets."""
LONGEST_VALUE = 200
"""Bytes of one of them."""


class Watcher(Protocol):
    """Gets samples of predictions with their reasons, as `streamk.serving.observing.Observer`."""

    @property
    def due(self) -> bool:
        """An explanation is due."""

    def explain(
        self, model: Learner, schema: Schema, X: Floats, event: Callable[[], Event]
    ) -> Any | None:
        """Explain what a model predicts for the first of events (n, d); None if it is not time."""

    def show(
        self,
        explanation: Any,
        output: Output,
        label: Any,
        value: str | None,
        held: int | None = None,
    ) -> None:
        """Take a prediction that was explained.

        `label` is None where it is not known, `value` that of the column of slices, and `held` the
        number of an event whose label comes later.
        """

    def label(self, numbers: Sequence[int], labels: Sequence[Any]) -> None:
        """Take the labels of events that were held, by their numbers."""

    def refused(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take events that cannot be used, as dead letters have them."""
