"""Intervals or sets of classes beside predictions: given, then learned from the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamk.conformal import Regions, Said
from streamk.learners.common.prequential import Prequential

__all__ = ["follow", "given", "learn"]

Floats = npt.NDArray[np.float64]
Entries = list[dict[str, Any]]


def follow(
    regions: Regions,
    found: Prequential,
    classes: Sequence[Any],
    labels: Sequence[Any],
    *,
    learns: bool,
) -> tuple[Entries, Floats]:
    """Give regions to events in turn, and learn the label of each before the next.

    Parameters
    ----------
    regions : Regions
    found : Prequential
        Of n events.
    classes : sequence of labels
    labels : sequence of n labels
        None where there is none.
    learns : bool
        False: the regions stay as they are.

    Returns
    -------
    list of n dict
        The regions as they are written.
    float64 array of shape (n, 2)
        Whether each held its label, and its size.
    """
    said = Said(*found, classes)
    thresholds = regions.follow(said, labels) if learns else regions.thresholds(len(labels))
    return _entries(regions, said, thresholds), regions.measures(said, labels, thresholds)


def given(regions: Regions, found: Prequential, classes: Sequence[Any]) -> tuple[Entries, Floats]:
    """Give regions to n events whose labels come later; return them, and their thresholds (n,).

    These are NaN before the first label.
    """
    thresholds = regions.thresholds(len(found.predictions))
    entries = _entries(regions, Said(*found, classes), thresholds)
    return entries, np.where(np.isfinite(thresholds), thresholds, np.nan)


def learn(
    regions: Regions,
    found: Prequential,
    classes: Sequence[Any],
    labels: Sequence[Any],
    thresholds: Floats,
    delays: Sequence[int],
) -> Floats:
    """Learn n labels that came later; return whether regions held them, and the sizes, (n, 2)."""
    said = Said(*found, classes)
    regions.learn(said, labels, thresholds, delays)
    return regions.measures(said, labels, thresholds)


def _entries(regions: Regions, said: Said, thresholds: Floats) -> Entries:
    return [{regions.NAME: region} for region in regions.regions(said, thresholds)]
