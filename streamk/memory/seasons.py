"""Seasons of labels: lags, and spans of time, at which they repeat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SEASONS = 2
"""Lags, and spans, that are looked for."""
SHORTEST = 4
"""Lag at least: the last labels are columns of their own."""
_LONGEST = 2_048
"""Lag at most, and a fourth of the labels: each half of them has two seasons."""
SPANS = 60.0, 3_600.0, 86_400.0, 604_800.0, 31_536_000.0
"""Seconds of spans that are looked for: a minute, an hour, a day, a week and a year."""
_FOUND, _CHECKED = 5.0, 3.0
"""Deviations by which the autocorrelation at a lag has to differ from 0 where it is looked for, as
the largest one of many, and in the later labels, by which it is checked."""
_AS_LARGE = 0.8
"""Part of the largest autocorrelation from which on a shorter lag, or the one in use, is taken."""
_WIDEST = 6.0
"""Deviations at which labels are cut off for the search."""
_ORDER = 3
"""Labels before, whose linear effect is taken out of what seasons are looked for in."""


def find_seasons(labels: Floats, known: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the lags at which labels (n,) repeat, none to two of them, the stronger one first.

    Those `known` stay while they are about as good as the best.

    Examples
    --------
    >>> rng, days = np.random.default_rng(0), np.arange(2048)
    >>> find_seasons(np.sin(2 * np.pi * days / 24) ** 5 + rng.normal(size=2048))
    (24,)
    >>> find_seasons(rng.normal(size=2048))
    ()
    """
    rest = _without_last_labels(labels) if len(labels) > 4 * SHORTEST else None
    found: list[int] = []
    while rest is not None and len(found) < SEASONS:
        lag, strength = _strongest(rest, found, known)
        if not lag:
            break
        found.append(lag)
        rest = rest[lag:] - strength * rest[:-lag]
    return tuple(found)


def find_spans(times: Floats, labels: Floats, known: Sequence[float] = ()) -> tuple[float, ...]:
    """Return the spans after which labels (n,) of ascending times repeat, as `find_seasons` does.

    They are a minute, an hour, a day, a week or a year, in seconds.

    Examples
    --------
    >>> rng, hours = np.random.default_rng(0), np.arange(2048) + (np.arange(2048) > 500) * 5
    >>> labels = np.sin(2 * np.pi * hours / 24) ** 5 + 0.5 * rng.normal(size=2048)
    >>> find_spans(3600.0 * hours, labels)
    (86400.0,)
    """
    rest = _without_last_labels(labels) if len(labels) > 4 * SHORTEST else None
    found: list[float] = []
    while rest is not None and len(found) < SEASONS:
        before = {span: _ago(times[_ORDER:], span) for span in SPANS if span not in found}
        strengths = {span: _strength(rest, ago) for span, ago in before.items()}
        best = max(strengths.values())
        if not best:
            break
        good = [span for span, one in strengths.items() if one >= _AS_LARGE * best]
        span = next((one for one in known if one in good), good[0])
        found.append(span)
        ago = before[span]
        rest = np.where(ago < 0, 0.0, rest - strengths[span] * rest[ago])
    return tuple(found)


def _without_last_labels(labels: Floats) -> Floats | None:
    """Return what of labels a linear function of the last ones leaves, in deviations; or None."""
    center = np.median(labels)
    away = np.abs(labels - center)
    if not np.median(away) and away.any():  # half of them are one label, as at night
        away = away[away > 0.0]
    scale = np.median(away) * 1.5
    if not 0.0 < scale < np.inf:
        return None
    z = np.clip((labels - center) / scale, -_WIDEST, _WIDEST)
    z -= z.mean()
    r = _autocorrelation(z, _ORDER)
    lags = np.abs(np.subtract.outer(np.arange(_ORDER), np.arange(_ORDER)))
    weights = np.linalg.solve(r[lags] + 1e-6 * np.eye(_ORDER), r[1:])
    rest = z[_ORDER:].copy()
    for n, weight in enumerate(weights.tolist(), start=1):
        rest -= weight * z[_ORDER - n : -n]
    return np.asarray(np.clip(rest, -_WIDEST, _WIDEST))


def _autocorrelation(z: Floats, most: int) -> Floats:
    """Return the autocorrelation of numbers (n,) of mean 0 at the lags up to `most`, of pairs."""
    n = len(z)
    spectrum = np.fft.rfft(z, 1 << (2 * n - 1).bit_length())
    sums = np.fft.irfft(np.abs(spectrum) ** 2)[: most + 1]
    pairs = n - np.arange(most + 1)
    return np.asarray(sums / pairs / max(sums[0] / n, 1e-300))


def _strongest(rest: Floats, others: Sequence[int], known: Sequence[int]) -> tuple[int, float]:
    """Return the lag of the largest autocorrelation, found and checked, and that; or 0, 0.

    It is none near others.
    """
    older, later = np.split(rest, [len(rest) // 2])
    most = min(_LONGEST, len(older) // 2)
    if most < SHORTEST:
        return 0, 0.0
    before, after = (_autocorrelation(half - half.mean(), most) for half in (older, later))
    noise = 1.0 / np.sqrt(len(older) - np.arange(most + 1))
    fits = (before > _FOUND * noise) & (after > _CHECKED * noise)
    fits[:SHORTEST] = False
    for other in others:
        fits[other - max(1, other // 8) : other + max(2, other // 8)] = False
    if not fits.any():
        return 0, 0.0
    both = np.where(fits, before + after, 0.0)
    good = np.flatnonzero(both >= _AS_LARGE * both.max())
    kept = [season for season in known if season in good]
    # Of multiples of a season, the first; of its neighbours, the largest.
    first = kept[0] if kept else int(good[0])
    if not kept:
        near = both[first : first + max(2, first // 8)]
        first += int(near.argmax())
    return first, float((before[first] + after[first]) / 2.0)


def _ago(times: Floats, span: float) -> NDArray[np.intp]:
    """Return the place of the last of ascending times (n,) so long before each, -1 of none.

    It is none for all if seasons have too few labels.
    """
    found = np.searchsorted(times, times - span, "right") - 1
    lags = np.arange(len(times)) - found
    return found if np.median(lags) >= SHORTEST else np.full(len(times), -1)


def _strength(rest: Floats, ago: NDArray[np.intp]) -> float:
    """Return the correlation of rests (n,) with those so long ago, found and checked, or 0."""
    half, found = len(rest) // 2, []
    for first, least in ((0, _FOUND), (half, _CHECKED)):
        some = np.arange(first, first + half)
        some = some[ago[some] >= first]
        if len(some) < half / 2:
            return 0.0
        part = rest[first : first + half]
        z, variance = rest - part.mean(), part.var()
        found.append(float(np.mean(z[some] * z[ago[some]]) / max(variance, 1e-300)))
        if found[-1] <= least / np.sqrt(len(some)):
            return 0.0
    return sum(found) / 2.0
