"""The loops of `streamk.backends.two_sample` in plain NumPy, with the same bits."""

from __future__ import annotations

import math

import numpy as np

from streamk.backends import CHUNK
from streamk.backends.two_sample import (
    BANDS,
    BETS,
    EDGES,
    FADE,
    PACES,
    PRIOR,
    REFRESH,
    ROLE,
    SLOT,
    START,
    TIE,
    TRAINING,
    WINDOWS,
    WITNESSES,
    Array,
    TwoSample,
)

_PACES = np.array(PACES, np.float32)[:, None]
_EDGES = np.array(EDGES)


def evaluate(f: Array, witness: Array) -> Array:
    """Return the scores (witnesses,) of an event's features (D,), added up one by one."""
    terms = (f * witness).reshape(WINDOWS, -1, BANDS, CHUNK).transpose(0, 2, 1, 3)
    return np.asarray(np.add.accumulate(terms.reshape(WITNESSES, -1), axis=1)[:, -1])


def rescore(sample: TwoSample) -> None:
    """Write the scores of the reference sample by its features and the witnesses."""
    size = sample.counts[0]
    groups = len(sample.features) // (BANDS * CHUNK)
    F = sample.features[:, :size].reshape(groups, BANDS, CHUNK, size)
    W = sample.witness.reshape(WINDOWS, groups, BANDS, CHUNK, 1)
    scores = np.zeros((WINDOWS, BANDS, size), np.float32)
    for group in range(groups):
        for i in range(CHUNK):  # in the same order, side by side
            scores += W[:, group, :, i] * F[group, :, i]
    sample.scores[:, :size] = scores.reshape(WITNESSES, size)


def refresh(sample: TwoSample) -> None:
    """Take the witnesses from the means, and evaluate the reference sample anew."""
    sample.witness[...] = sample.recent - sample.reference
    rescore(sample)
    sample.counts[2] = 0


def move_reference(sample: TwoSample, f: Array, *, training: bool) -> None:
    """Take features into the reference's mean: training events at first, then those that leave."""
    some = (sample.seen < sample.counts[3]) == training
    sample.seen[some] += training
    pace = np.repeat(np.float32(1.0) / np.maximum(sample.seen, 1).astype(np.float32), CHUNK)
    moved = sample.reference + pace * (f - sample.reference)
    sample.reference[...] = np.where(np.repeat(some, CHUNK), moved, sample.reference)


def train(sample: TwoSample, f: Array) -> None:
    """Take the features of a training event into the means."""
    known = np.repeat(np.float32(1.0) / (sample.seen + 1).astype(np.float32), CHUNK)
    sample.recent[...] += np.maximum(_PACES, known) * (f - sample.recent)
    move_reference(sample, f, training=True)


def rank(scores: Array, own: Array, tie: float) -> Array:
    """Return the p-values of scores (witnesses,) among a sample's (witnesses, size) and itself."""
    above = np.count_nonzero(scores > own[:, None], axis=1)
    equal = np.count_nonzero(scores == own[:, None], axis=1)
    return np.asarray((above + tie * (equal + 1)) / (scores.shape[1] + 1))


def unspent(tests: int) -> float:
    """Return the weight of the starts that are still to come after so many test events."""
    return 1.0 / math.sqrt(math.sqrt(1.0 + tests / START))


def density(bins: Array, p: Array) -> Array:
    """Return the densities at p-values (witnesses,) by the recent ones, and count them."""
    total = np.add.accumulate(np.hstack([np.full((len(p), 1), PRIOR), bins]), axis=1)[:, -1]
    at = np.count_nonzero(p[:, None] > _EDGES, axis=1)
    each, width = np.arange(len(p)), np.diff(_EDGES, prepend=0.0)[at]
    found = (PRIOR * width + bins[each, at]) / (total * width)
    bins -= FADE * bins
    bins[each, at] += 1.0
    return np.asarray(found)


def bets(bins: Array, p: Array) -> Array:
    """Return by what p-values (witnesses,) multiply wealth (witnesses, bets), 1 in the mean."""
    root = np.sqrt(p)
    known = density(bins, p)
    return np.stack([1.5 - p, known, 0.5 / root, 0.25 / (root * np.sqrt(root))], axis=1)


def enter(sample: TwoSample, f: Array, x: Array, scores: Array, slot: float) -> None:
    """Take a test event into the sample, and one of all of them out where that is full."""
    place, most = int(sample.counts[0]), int(sample.counts[3])
    if place < most:
        sample.counts[0] += 1
    else:
        place = int(slot * (most + 1))
        move_reference(sample, f if place == most else sample.features[:, place], training=False)
        if place == most:
            return
    sample.events[place], sample.features[:, place] = x, f
    sample.scores[:, place] = scores


def test(sample: TwoSample, f: Array, x: Array, draw: Array) -> float:
    """Bet on a test event by all witnesses; return the largest wealth of one."""
    if sample.counts[2] == REFRESH:
        refresh(sample)
    own = evaluate(f, sample.witness)
    size, tests = int(sample.counts[0]), int(sample.counts[1])
    left = unspent(tests + 1)
    share = (unspent(tests) - left) / BETS
    p = rank(sample.scores[:, :size], own, float(draw[TIE]))
    sample.wealth[...] = (sample.wealth + share) * bets(sample.bins, p)
    one, two, three, four = sample.wealth.T
    most = float((one + two + three + four + left).max())
    sample.total[:] = most, max(most, sample.total[1])
    sample.counts[1:3] += 1
    enter(sample, f, x, own, draw[SLOT])
    return most


def follow(sample: TwoSample, F: Array, X: Array, draws: Array, threshold: float) -> int:
    """Take in events until the wealth of a witness reaches the threshold; return how many.

    Features F (n, D), events X (n, d), and numbers drawn for each (n, 3).
    """
    for i, (f, x, draw) in enumerate(zip(F, X, draws, strict=True)):
        if draw[ROLE] < TRAINING:
            train(sample, f)
        elif test(sample, f, x, draw) >= threshold:
            return i + 1
    return len(F)
