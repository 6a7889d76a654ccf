"""Two-sample statistics of a stream, event by event; see `streamk.backends.two_sample`."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamk.backends import CHUNK
from streamk.backends.jit.compiling import copy, exact, parts
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
)

__all__ = ["follow", "rescore"]

_PACES = np.array(PACES, np.float32)
_EDGES = np.array(EDGES)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# Nothing may be fused or reordered: equal events must have equal scores wherever they are computed.
part = parts(nogil=True)


@part
def evaluate(f: Any, witness: Any, scores: Any) -> None:
    """Write the scores (witnesses,) of an event's features (D,), added up one by one."""
    for band in range(BANDS):
        one, two, three = _ZERO, _ZERO, _ZERO
        for start in range(band * CHUNK, len(f), BANDS * CHUNK):
            for i in range(start, start + CHUNK):
                one += witness[0, i] * f[i]
                two += witness[1, i] * f[i]
                three += witness[2, i] * f[i]
        scores[band], scores[BANDS + band], scores[2 * BANDS + band] = one, two, three


@part
def evaluate_sample(sample: Any) -> None:
    """Write the scores of the reference sample, in the same order, side by side."""
    size = sample.counts[0]
    sample.scores[:] = _ZERO
    for i in range(len(sample.features)):
        f, band = sample.features[i], i // CHUNK % BANDS
        for k in range(WINDOWS):
            weight, sums = sample.witness[k, i], sample.scores[k * BANDS + band]
            for j in range(size):
                sums[j] += weight * f[j]


@part
def refresh(sample: Any) -> None:
    """Take the witnesses from the means, and evaluate the reference sample anew."""
    for k in range(WINDOWS):
        for i in range(sample.witness.shape[1]):
            sample.witness[k, i] = sample.recent[k, i] - sample.reference[i]
    evaluate_sample(sample)
    sample.counts[2] = 0


@part
def move_reference(sample: Any, f: Any, training: Any) -> None:
    """Take features into the reference's mean: training events at first, then those that leave."""
    most = sample.counts[3]
    for c in range(len(sample.seen)):
        if training == (sample.seen[c] < most):
            if training:
                sample.seen[c] += 1
            pace = _ONE / np.float32(sample.seen[c])
            for i in range(c * CHUNK, c * CHUNK + CHUNK):
                sample.reference[i] += pace * (f[i] - sample.reference[i])


@part
def train(sample: Any, f: Any) -> None:
    """Take the features of a training event into the means."""
    for c in range(len(sample.seen)):
        known = _ONE / np.float32(sample.seen[c] + 1)
        for k in range(WINDOWS):
            pace = max(_PACES[k], known)
            for i in range(c * CHUNK, c * CHUNK + CHUNK):
                sample.recent[k, i] += pace * (f[i] - sample.recent[k, i])
    move_reference(sample, f, True)


@part
def rank(scores: Any, size: Any, score: Any, tie: Any) -> Any:
    """Return the p-value of a score among the first ones of a sample, so many, and itself."""
    above, equal = 0, 0
    for j in range(size):
        above += scores[j] > score
        equal += scores[j] == score
    return (above + tie * (equal + 1)) / (size + 1)


@part
def unspent(tests: Any) -> Any:
    """Return the weight of the starts that are still to come after so many test events."""
    return 1.0 / np.sqrt(np.sqrt(1.0 + tests / START))


@part
def density(bins: Any, p: Any) -> Any:
    """Return the density at a p-value by the recent ones, and count it among them."""
    total, at = PRIOR, 0
    for i in range(len(bins)):
        total += bins[i]
        at += p > _EDGES[i]
    width = _EDGES[at] - (_EDGES[at - 1] if at else 0.0)
    found = (PRIOR * width + bins[at]) / (total * width)
    for i in range(len(bins)):
        bins[i] -= FADE * bins[i]
    bins[at] += 1.0
    return found


@part
def bet(wealth: Any, bins: Any, p: Any, begun: Any) -> Any:
    """Bet on a p-value, with the starts so far and one now; return what they have then."""
    root = np.sqrt(p)
    share = begun / BETS
    wealth[0] = (wealth[0] + share) * (1.5 - p)
    wealth[1] = (wealth[1] + share) * density(bins, p)
    wealth[2] = (wealth[2] + share) * (0.5 / root)
    wealth[3] = (wealth[3] + share) * (0.25 / (root * np.sqrt(root)))
    return wealth[0] + wealth[1] + wealth[2] + wealth[3]


@part
def enter(sample: Any, f: Any, x: Any, scores: Any, slot: Any) -> None:
    """Take a test event into the sample, and one of all of them out where that is full."""
    size, most = sample.counts[0], sample.counts[3]
    place = size
    if size < most:
        sample.counts[0] += 1
    else:
        place = int(slot * (most + 1))
        if place >= most:
            move_reference(sample, f, False)
            return
        move_reference(sample, sample.features[:, place], False)
    sample.events[place] = x
    copy(f, sample.features[:, place])
    copy(scores, sample.scores[:, place])


@part
def test(sample: Any, f: Any, x: Any, draw: Any, own: Any) -> Any:
    """Bet on a test event by all witnesses; return the largest wealth of one."""
    if sample.counts[2] == REFRESH:
        refresh(sample)
    evaluate(f, sample.witness, own)
    size, tests = sample.counts[0], sample.counts[1]
    left = unspent(tests + 1)
    begun = unspent(tests) - left
    most = 0.0
    for w in range(WITNESSES):
        p = rank(sample.scores[w], size, own[w], draw[TIE])
        most = max(most, bet(sample.wealth[w], sample.bins[w], p, begun) + left)
    sample.total[0] = most
    sample.total[1] = max(most, sample.total[1])
    sample.counts[1] += 1
    sample.counts[2] += 1
    enter(sample, f, x, own, draw[SLOT])
    return most


@exact
def follow(sample: Any, F: Any, X: Any, draws: Any, threshold: Any) -> Any:
    """Take in events until the wealth of a witness reaches the threshold; return how many.

    Features F (n, D), events X (n, d), and numbers drawn for each (n, 3).
    """
    own = np.empty(WITNESSES, np.float32)
    for i in range(len(F)):
        if draws[i, ROLE] < TRAINING:
            train(sample, F[i])
        elif test(sample, F[i], X[i], draws[i], own) >= threshold:
            return i + 1
    return len(F)


@exact
def rescore(sample: Any) -> None:
    """Write the scores of the reference sample by its features and the witnesses."""
    evaluate_sample(sample)
