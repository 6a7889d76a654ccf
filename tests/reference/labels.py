"""The columns of labels that are known, by their definition."""

from __future__ import annotations

import math
from collections.abc import Sequence


def columns(
    labels: Sequence[float], lags: Sequence[int], lag: int, seasons: Sequence[int]
) -> list[float]:
    """Return what `streamk.memory.labels.LabelMemory` says after labels that came with these lags.

    The lag is that of the event to come.
    """

    def ago(n: int) -> float:
        return labels[-n] if n <= len(labels) else math.nan

    def mean(rates: Sequence[float]) -> float:
        found = math.nan
        for n, (label, rate) in enumerate(zip(labels, rates, strict=True), start=1):
            found = label if n == 1 else found + max(rate, 1.0 / n) * (label - found)
        return found

    level = mean([1.0 / (1.0 + each) for each in lags])
    found = [level, ago(1) - level, ago(1) - ago(2), ago(2) - ago(3)]
    found += [ago(1) - mean([rate] * len(labels)) for rate in (1 / 4, 1 / 16, 1 / 64)]
    places = []
    for season in seasons:
        whole = season
        while whole <= lag:
            whole += season
        places.append(whole - lag)
    missing = [math.nan] * (2 - len(places))
    found += [ago(place) - level for place in places] + missing
    return found + [ago(place) - ago(place + 1) for place in places] + missing


def timed_columns(
    labels: Sequence[float],
    times: Sequence[float],
    time: float,
    level: float,
    spans: Sequence[float],
) -> list[float]:
    """Return what `streamk.memory.times.LabelTimes` says of an event of this time.

    Labels are in the order in which they became known, each with its time, NaN where it has none.
    """
    since = time - times[-1] if times else math.nan
    seasonal, changes = [math.nan, math.nan], [math.nan, math.nan]
    for place, span in enumerate(() if math.isnan(since) else spans):
        turns = max(1, math.ceil(since / span))
        pairs = zip(times, range(len(labels)), strict=True)
        before = sorted(pair for pair in pairs if pair[0] <= time - turns * span)
        if not before:
            continue
        seasonal[place] = labels[before[-1][1]] - level
        if len(before) > 1:
            changes[place] = labels[before[-1][1]] - labels[before[-2][1]]
    return [since, *seasonal, *changes]
