"""Two-sample statistics of a stream: a reference sample, running means of features, and wealth.

An event is a *training* event or a *test* event. Training events move the running means of the
features. The difference of a recent mean and the reference's is a witness function of the maximum
mean discrepancy. A test event's rank by a witness, among the reference sample and itself, is a
p-value, uniform where nothing has changed. Each witness bets against that by several functions, and
from every start. The test event then enters the sample, and one of all, drawn at random, leaves
it: it alone is shown to the means. `streamk.drift` has the reasons.

A witness is one of ``WINDOWS`` times ``BANDS``: chunk c of features is of band ``c % BANDS``. The
loops over events are `streamk.backends.loops.two_sample`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamk.backends import CHUNK

Array = NDArray[Any]

PACES = (1.0 / 16.0, 1.0 / 64.0, 1.0 / 256.0)
"""Of the recent means: each training event has at least this weight."""
WINDOWS = len(PACES)
BANDS = 3
"""Bandwidths."""
WITNESSES = WINDOWS * BANDS
EDGES = (1.0 / 64.0, 1.0 / 32.0, 1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 3.0 / 4.0, 1.0)
"""Upper edges of the bins in which p-values are counted."""
FADE, PRIOR = 1.0 / 128.0, 16.0
"""Part of the counts that a p-value takes the place of, and what an even law counts beside them."""
BETS = 4
"""Ways to bet on a p-value, see `bet` of the loops."""
REFRESH = 32
"""Test events for which a witness stays as it is."""
START = 256.0
"""Scale of the weights of starts, in test events: ``(1 + n / START)^(-1/4)`` are left after n."""
ROLE, SLOT, TIE = 0, 1, 2
"""Columns of the numbers drawn for an event."""
TRAINING = 1.0 / 3.0
"""Part of the events that are training events."""


class TwoSample(NamedTuple):
    """All that is learned of a stream: D features, d columns, room for m events of reference."""

    events: Array
    """float64 (m, d): the reference sample, as it came"""
    features: Array
    """float32 (D, m): its features"""
    scores: Array
    """float32 (witnesses, m): its values under each witness, window by window"""
    witness: Array
    """float32 (windows, D)"""
    recent: Array
    """float32 (windows, D): recent means of the features"""
    reference: Array
    """float32 (D,): mean of the features of what the reference was"""
    seen: Array
    """int64 (D / CHUNK,): events in the reference's mean of a chunk, as many as the sample has at
    most"""
    wealth: Array
    """float64 (witnesses, bets): what the starts so far have, together"""
    bins: Array
    """float64 (witnesses, bins): recent p-values"""
    total: Array
    """float64 (2,): the largest wealth of a witness, now and ever"""
    counts: Array
    """int64 (4,): events in the sample, test events, test events since the last refresh, and most
    events of the sample"""


def begin(size: int, columns: int, features: int) -> TwoSample:
    """Return the statistics of no events, with a sample that has no room yet.

    Parameters
    ----------
    size : int
        Most events of the reference sample.
    columns, features : int
        The latter a multiple of BANDS * CHUNK.
    """
    return TwoSample(
        np.zeros((0, columns)),
        np.zeros((features, 0), np.float32),
        np.zeros((WITNESSES, 0), np.float32),
        np.zeros((WINDOWS, features), np.float32),
        np.zeros((WINDOWS, features), np.float32),
        np.zeros(features, np.float32),
        np.zeros(features // CHUNK, np.int64),
        np.zeros((WITNESSES, BETS)),
        np.zeros((WITNESSES, len(EDGES))),
        np.ones(2),
        np.array([0, 0, REFRESH, size]),
    )
