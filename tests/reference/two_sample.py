"""The oracle of `streamk.drift`: a streaming two-sample test, as its definition has it.

Nothing here imports streamk. The features of all events are given, so a reference sample is a list
of numbers of events, and a mean of features one of rows. Wealth is summed over its starts one by
one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import naive

Numbers = np.ndarray[Any, Any]

TAG = 7
FIRST = 64
"""Training events at the beginning."""
PACES = (1 / 16, 1 / 64, 1 / 256)
BANDS, CHUNK = 3, 64
REFRESH = 32
START = 256.0
TRAINING = 1 / 3
EDGES = (0, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)
FADE, PRIOR = 1 / 128, 16


def draw(seed: int, event: int) -> tuple[float, float, float]:
    """Return the numbers of an event: its role, who leaves the sample, and for ties."""
    words = naive.philox4x32(
        (event & 0xFFFFFFFF, TAG, event >> 32, 0), (seed & 0xFFFFFFFF, seed >> 32)
    )
    role, slot, tie, _ = ((word + 0.5) / 2**32 for word in words)
    return role, slot, tie


def features_after(events: int, most: int) -> int:
    """Return how many features there are after so many events: twice as many for four times."""
    features, moment = BANDS * CHUNK, 1024
    while features < most and events >= moment:
        features, moment = 2 * features, 4 * moment
    return min(features, most)


@dataclass
class Means:
    """Running means of the features of one chunk."""

    seen: int = 0
    recent: list[Any] = field(default_factory=lambda: [0.0 for _ in PACES])
    reference: Any = 0.0

    def train(self, f: Numbers, most: int) -> None:
        self.recent = [
            mean + max(pace, 1 / (self.seen + 1)) * (f - mean)
            for pace, mean in zip(PACES, self.recent, strict=True)
        ]
        if self.seen < most:
            self.seen += 1
            # As long as both are means of all events they are to be the same, up to the last bit.
            self.reference = self.reference + 1 / self.seen * (f - self.reference)

    def leave(self, f: Numbers, most: int) -> None:
        if self.seen == most:
            self.reference = self.reference + (f - self.reference) / most


def p_values(F: Numbers, *, seed: int, most: int) -> Iterator[list[float]]:
    """Yield the p-values by all witnesses of each test event in turn.

    F (n, D) holds the features of all events; `most` of them are in the reference sample at most.
    """
    sample: list[int] = []
    chunks = [Means() for _ in range(F.shape[1] // CHUNK)]
    witnesses: list[list[Any]] = []
    tests = 0

    def piece(event: int, c: int) -> Numbers:
        return F[event, c * CHUNK : (c + 1) * CHUNK]

    for t in range(len(F)):
        used = features_after(t, F.shape[1]) // CHUNK
        role, slot, tie = draw(seed, t)
        if t < FIRST or role < TRAINING:
            for c in range(used):
                chunks[c].train(piece(t, c), most)
            continue
        if tests % REFRESH == 0:
            witnesses = [
                [np.asarray(m.recent[k] - m.reference) for m in chunks[:used]]
                for k in range(len(PACES))
            ]
        found = []
        for witness in witnesses:
            for band in range(BANDS):

                def score(event: int, witness: Any = witness, band: int = band) -> float:
                    some = range(band, len(witness), BANDS)
                    return float(sum(float((witness[c] * piece(event, c)).sum()) for c in some))

                own = score(t)
                others = [score(event) for event in sample]
                above = sum(other > own for other in others)
                equal = 1 + sum(other == own for other in others)
                found.append((above + tie * equal) / (len(others) + 1))
        yield found
        tests += 1
        if len(sample) < most:
            sample.append(t)
            continue
        place = int(slot * (most + 1))
        leaving = t
        if place < most:
            leaving, sample[place] = sample[place], t
        for c in range(used):
            chunks[c].leave(piece(leaving, c), most)


def bets(p: float, before: list[float]) -> list[float]:
    """Return the values of the betting functions, whose integrals over (0, 1) are 1."""
    return [1.5 - p, density(p, before), 0.5 * p**-0.5, 0.25 * p**-0.75]


def density(p: float, before: list[float]) -> float:
    """Return the density at p of a histogram of the p-values before, of which old ones fade."""
    weights = [(1 - FADE) ** age for age in range(len(before))][::-1]
    (bin_,) = (one for one in itertools.pairwise(EDGES) if one[0] < p <= one[1])
    width = bin_[1] - bin_[0]
    inside = sum(w for w, one in zip(weights, before, strict=True) if bin_[0] < one <= bin_[1])
    return (PRIOR * width + inside) / (PRIOR + sum(weights)) / width


def unspent(tests: int) -> float:
    return float((1 + tests / START) ** -0.25)


def wealth(p: list[float]) -> float:
    """Return what a witness with these p-values has, as the sum over starts and ways to bet."""
    ratios = np.array([bets(one, p[:i]) for i, one in enumerate(p)])
    total = unspent(len(p))
    for start in range(len(p)):
        weight = unspent(start) - unspent(start + 1)
        total += weight * float(ratios[start:].prod(axis=0).mean())
    return total
