"""The column of events whose values have figures of their own, and columns beside scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from connectors.base import Source
from connectors.errors import BadRecord
from connectors.records import FRAMED
from streamk.encoding import FieldReader, Rejected
from streamk.engine.evaluation.coverage import Coverage
from streamk.engine.evaluation.slices import Slices
from streamk.errors import InvalidInput

__all__ = ["SliceReader", "beside_of"]

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
