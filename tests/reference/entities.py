"""Statistics of entities, as plainly as their law: by recursion, and from all of the past.

The law is at the top of `streamk/memory/entities.py`. An event is a key, a time, numbers and a
label; NaN is missing.
"""

from __future__ import annotations

import math
from typing import Any

NAN = math.nan


def decayed(time: float, since: float, span: float | None) -> float:
    """What is left of a weight; a span of None is the whole past."""
    passed = time - since
    return math.exp(-passed / span) if span is not None and passed > 0 else 1.0


def ratio(n: float, total: float, within: float, again: float, squares: float) -> float:
    """Variance within entities over that between them, from 0 to 1,000."""
    if not again:
        return 1.0
    size = n - squares / n
    if size <= 0:
        return 1000.0
    between = total * (n / size) - within * ((n - 1.0) / size)
    return within / between if between * 1000.0 > within else 1000.0


def written(
    spans: list[float | None], moments: dict[str, float], past: list[tuple[float, float, float]],
    last: float, x: float | None, spread: bool,
) -> list[float]:  # fmt: skip
    """Columns of a statistic; of each span the past has weight, mean and variance."""
    k = ratio(*(moments[name] for name in ("n", "total", "within", "again", "squares")))
    mean, variance = moments["mean"], moments["within" if moments["again"] else "total"]
    if not moments["n"]:
        mean = variance = NAN
    prior = mean, variance
    means, spreads = [], []
    for span, (weight, own, own_variance) in zip(spans, past, strict=True):
        found = prior
        if weight > 0:
            found = (
                prior[0] + (own - prior[0]) * (weight / (weight + k)),
                (2.0 * prior[1] + weight * own_variance) / (2.0 + weight),
            )
        means.append(found[0])
        spreads.append(math.sqrt(found[1]))
        prior = found if span is None else prior
    score = [] if x is None else [zscore(x - means[0], spreads[0])]
    return [*means, *(spreads if spread else []), last, *score]


def zscore(apart: float, spread: float) -> float:
    """How many spreads a number is apart, from -1,000 to 1,000."""
    if apart == 0.0 or math.isnan(apart) or math.isnan(spread):
        return apart
    score = apart / spread if spread else math.copysign(math.inf, apart)
    return max(-1000.0, min(1000.0, score))


class Statistic:
    """One number, or the label, of all entities: a dict of lists, and the population's moments."""

    def __init__(self, spans: list[float | None]) -> None:
        self.spans = spans
        self.rows: dict[float, dict[str, Any]] = {}
        names = "n", "mean", "total", "within", "again", "squares"
        self.moments = dict.fromkeys(names, 0.0)

    def row(self, key: float) -> dict[str, Any]:
        return self.rows.get(key) or {"past": [(0.0, 0.0, 0.0)] * len(self.spans), "last": NAN}

    def past(self, key: float, time: float, since: float) -> list[tuple[float, float, float]]:
        return [
            (weight * decayed(time, since, span), mean, variance)
            for span, (weight, mean, variance) in zip(
                self.spans, self.row(key)["past"], strict=True
            )
        ]

    def take(self, key: float, time: float, since: float, x: float) -> None:
        past, last = self.past(key, time, since), self.row(key)["last"]
        if not math.isnan(x):
            self._take_population(past[0][0], past[0][1], x)
            moved = []
            for weight, mean, variance in past:
                share, apart = 1.0 / (weight + 1.0), x - mean
                moved.append(
                    (
                        weight + 1.0,
                        mean + apart * share,
                        (1.0 - share) * (variance + apart * share * apart),
                    )
                )
            past, last = moved, x
        self.rows[key] = {"past": past, "last": last}

    def _take_population(self, n: float, mean: float, x: float) -> None:
        m = self.moments
        if n > 0:
            m["again"] += 1.0
            square = (x - mean) * (x - mean) * (n / (n + 1.0))
            m["within"] += (square - m["within"]) / m["again"]
        m["squares"] += 2.0 * n + 1.0
        m["n"] += 1.0
        share, apart = 1.0 / m["n"], x - m["mean"]
        m["mean"] += apart * share
        m["total"] = (1.0 - share) * (m["total"] + apart * share * apart)


class Entities:
    """A table of entities without a bound, whose labels are numbers; or of classes 0, 1, 2, ..."""

    def __init__(self, numbers: int, spans: list[float], classes: int = 0) -> None:
        self.spans: list[float | None] = [None, *spans]
        self.classes = classes
        self.labels = [Statistic(self.spans) for _ in range(max(1, classes - 1))]
        self.numbers = [Statistic(self.spans) for _ in range(numbers)]
        self.heads: dict[float, dict[str, Any]] = {}
        self.label_times: dict[float, float] = {}

    def look(self, key: float, time: float, numbers: list[float]) -> list[float]:
        label, *shares = self.labels
        if math.isnan(key):
            return [NAN] * len(self.look(math.inf, NAN, numbers))  # of an unseen one
        head = self.heads.get(key)
        found = [0.0, NAN] if head is None else [head["count"], time - head["time"]]
        found[1] = max(found[1], 0.0) if found[1] == found[1] else NAN
        for n, span in enumerate(self.spans[1:]):
            seen = 0.0 if head is None else head["recent"][n] * decayed(time, head["time"], span)
            found.append(math.log(1.0 + seen))
        found += self._of_label(label, key, time)
        since = NAN if head is None else head["time"]
        for one, x in zip(self.numbers, numbers, strict=True):
            past = one.past(key, time, since)
            found += written(self.spans, one.moments, past, one.row(key)["last"], x, True)
        for one in shares:
            found += self._of_label(one, key, time)
        return found

    def _of_label(self, one: Statistic, key: float, time: float) -> list[float]:
        past = one.past(key, time, self.label_times.get(key, NAN))
        return written(self.spans, one.moments, past, one.row(key)["last"], None, not self.classes)

    def follow(self, key: float, time: float, numbers: list[float], y: float) -> list[float]:
        found = self.look(key, time, numbers)
        if math.isnan(key):
            return found
        recent = [0.0] * (len(self.spans) - 1)
        head = self.heads.setdefault(key, {"count": 0.0, "time": NAN, "recent": recent})
        head["count"] += 1.0
        head["recent"] = [
            seen * decayed(time, head["time"], span) + 1.0
            for seen, span in zip(head["recent"], self.spans[1:], strict=True)
        ]
        for one, x in zip(self.numbers, numbers, strict=True):
            one.take(key, time, head["time"], x)
        head["time"] = later(head["time"], time)
        self.learn_label(key, time, y)
        return found

    def learn_label(self, key: float, time: float, y: float) -> None:
        if key not in self.heads or math.isnan(y):
            return
        since = self.label_times.get(key, NAN)
        for n, one in enumerate(self.labels):
            one.take(key, time, since, float(y == n + 1) if self.classes else y)
        self.label_times[key] = later(since, time)


def later(one: float, other: float) -> float:
    """The later of two times, NaN only if both are."""
    return other if other > one or math.isnan(one) else one


# --- from all of the past -------------------------------------------------------------------------


def of_the_past(
    events: list[tuple[float, float, float]], spans: list[float], key: float, time: float
) -> dict[str, list[float]]:
    """Shrunk means and spreads of one number at a time, of (key, time, value) in their order.

    By weights of all events, without a recursion; no time or value is missing.
    """
    own, latest = [], -math.inf
    for other, when, x in events:
        if other == key:
            latest = max(latest, when)
            own.append((latest, x))
    pasts = {other: [x for one, _, x in events if one == other] for other, _, _ in events}
    values = [x for _, _, x in events]
    n = len(values)
    if not n:
        return {"means": [NAN] * (len(spans) + 1), "spreads": [NAN] * (len(spans) + 1)}
    mean, total = moments(values, [1.0] * n)
    within, k = total, 1.0
    if n > len(pasts):
        squares = sum(
            sum((x - moments(past, [1.0] * len(past))[0]) ** 2 for x in past)
            for past in pasts.values()
        )
        within = squares / (n - len(pasts))
        k = ratio(float(n), total, within, 1.0, float(sum(len(p) ** 2 for p in pasts.values())))
    found: dict[str, list[float]] = {"means": [], "spreads": []}
    prior = mean, within
    for span in [None, *spans]:
        shrunk = prior
        weights = [
            1.0 if span is None else math.exp(-(max(time, latest) - when) / span) for when, _ in own
        ]
        if own and sum(weights) > 0.0:
            weight = sum(weights)
            center, variance = moments([x for _, x in own], weights)
            shrunk = (
                (weight * center + k * prior[0]) / (weight + k),
                (weight * variance + 2.0 * prior[1]) / (weight + 2.0),
            )
        found["means"].append(shrunk[0])
        found["spreads"].append(math.sqrt(shrunk[1]))
        prior = shrunk if span is None else prior
    return found


def moments(values: list[float], weights: list[float]) -> tuple[float, float]:
    """Weighted mean and variance."""
    pairs, weight = list(zip(values, weights, strict=True)), math.fsum(weights)
    mean = math.fsum(w * x for x, w in pairs) / weight
    return mean, math.fsum(w * (x - mean) ** 2 for x, w in pairs) / weight
