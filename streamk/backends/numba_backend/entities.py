"""Memory of entities: rows found by keys, statistics of their pasts, the coldest replaced.

A row of `rows`, float64, has the entity's key, number of events, time of the last one, time of the
last label, and a decayed number of events for each span. After these `HEAD` and more numbers each
statistic has its weights, means and variances, over the whole past and over each span, and its last
value. Decays are those until the row's own times; who reads or writes at another brings them there.

A place of `index` is 0, or 31 bits of a key's hash and, in the lower half, the row and 1: a table
of open addresses, of a power of two, at most half of which are in use. `links` (rows, 2) chain the
rows from the one that was seen longest ago to the latest. `changed` (rows,) becomes 1
of each row that is written.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamk.backends import (
    COUNT,
    EVICTED,
    HEAD,
    KEY,
    LABEL,
    LABEL_TIME,
    LARGEST,
    LIMIT,
    MOST_EVENTS,
    MOST_SCORE,
    NEWEST,
    OLDEST,
    SPREAD_EVENTS,
    TIME,
    USED,
)
from streamk.backends.jit.compiling import exact_part, short

_HALF = (1 << 32) - 1


@exact_part
def _hashed(key: Any) -> Any:
    """Return 31 bits of a key's hash (the finalizer of SplitMix64)."""
    z = np.float64(key + 0.0).view(np.uint64)  # -0 is 0
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(33))


@exact_part
def _find(key: Any, rows: Any, index: Any) -> Any:
    """Return the place of a key, or -1 less the place where it would be."""
    mask, hashed = len(index) - 1, _hashed(key)
    place = hashed & mask
    while index[place] != 0:
        if index[place] >> 32 == hashed and rows[(index[place] & _HALF) - 1, KEY] == key:
            return place
        place = (place + 1) & mask
    return -1 - place


@exact_part
def _leave(place: Any, index: Any) -> None:
    """Empty a place; those after it that could not have theirs move up."""
    mask = len(index) - 1
    other = (place + 1) & mask
    while index[other] != 0:
        home = (index[other] >> 32) & mask
        if (other - home) & mask >= (other - place) & mask:
            index[place] = index[other]
            place = other
        other = (other + 1) & mask
    index[place] = 0


@exact_part
def _link(older: Any, newer: Any, after: Any, before: Any, links: Any, ends: Any) -> None:
    """Have one row come after an older one, and one before a newer one; below 0 are the ends."""
    if older < 0:
        ends[OLDEST] = after
    else:
        links[older, 1] = after
    if newer < 0:
        ends[NEWEST] = before
    else:
        links[newer, 0] = before


@exact_part
def _unchain(row: Any, links: Any, ends: Any) -> None:
    older, newer = links[row, 0], links[row, 1]
    _link(older, newer, newer, older, links, ends)


@exact_part
def _chain(row: Any, links: Any, ends: Any) -> None:
    """Make a row the newest."""
    links[row, 0], links[row, 1] = ends[NEWEST], -1
    _link(ends[NEWEST], -1, row, row, links, ends)


@exact_part
def _admit(key: Any, spans: Any, rows: Any, index: Any, links: Any, ends: Any) -> Any:
    """Return the row of a new entity: the next one, or that of the coldest."""
    row = ends[USED]
    if row == ends[LIMIT]:
        row = ends[OLDEST]
        _unchain(row, links, ends)
        _leave(_find(rows[row, KEY], rows, index), index)
        ends[EVICTED] += 1
    else:
        ends[USED] += 1
    index[-1 - _find(key, rows, index)] = (_hashed(key) << 32) | (row + 1)
    _chain(row, links, ends)
    rows[row, :] = 0.0
    rows[row, KEY], rows[row, TIME], rows[row, LABEL_TIME] = key, np.nan, np.nan
    wide = len(spans) + 1
    for last in range(HEAD + len(spans) + 3 * wide, rows.shape[1], 3 * wide + 1):
        rows[row, last] = np.nan
    return row


@exact_part
def _decay(time: Any, since: Any, spans: Any, out: Any) -> None:
    """Write what is left of weights at a time, of the whole past and of each span."""
    passed = time - since
    out[0] = 1.0
    for s in range(len(spans)):
        out[s + 1] = math.exp(-passed / spans[s]) if passed > 0.0 else 1.0


@exact_part
def _ratio(moments: Any) -> Any:
    """Return the variance within entities over that between them, at most `MOST_EVENTS`.

    That is how many events of its own weigh as much as all those of the others. The moments are
    those of an analysis of variance in groups of unequal sizes (Searle et al. 1992, section 3.6).
    """
    n, total, within = moments[0], moments[2], moments[3]
    if moments[4] == 0.0:
        return 1.0
    size = n - moments[5] / n
    if not size > 0.0:
        return MOST_EVENTS
    between = total * (n / size) - within * ((n - 1.0) / size)
    if not between * MOST_EVENTS > within:
        return MOST_EVENTS
    return within / between


@exact_part
def _value(source: Any, X: Any, y: Any, i: Any) -> Any:
    """Return the value of an event for a statistic: a number, the label, or whether it is that."""
    if source >= 0:
        return X[i, source]
    if source == LABEL or math.isnan(y[i]):
        return y[i]
    return 1.0 if y[i] == LABEL - 1 - source else 0.0


@exact_part
def _bounded(x: Any) -> Any:
    return min(max(x, -LARGEST), LARGEST) if not math.isnan(x) else x


@exact_part
def _write_statistic(
    row: Any, at: Any, decays: Any, rows: Any, moments: Any, of_label: Any, out: Any
) -> Any:
    """Write means, spreads but of shares, and the last value; return how many there are."""
    wide = len(decays)
    mean, ratio = np.nan, _ratio(moments)
    variance = np.nan
    if moments[0] > 0.0:
        mean, variance = moments[1], moments[3] if moments[4] > 0.0 else moments[2]
    prior, spread = mean, variance
    spreads = of_label != 2
    for s in range(wide):
        weight = rows[row, at + s] * decays[s] if row >= 0 else 0.0
        own, own_spread = mean, variance
        if weight > 0.0:
            own = prior + (rows[row, at + wide + s] - prior) * (weight / (weight + ratio))
            own_spread = (SPREAD_EVENTS * spread + weight * rows[row, at + 2 * wide + s]) / (
                SPREAD_EVENTS + weight
            )
        out[s] = own
        if spreads:
            out[wide + s] = _bounded(math.sqrt(own_spread))
        if s == 0:
            mean, variance, prior, spread = own, own_spread, own, own_spread
    end = 2 * wide if spreads else wide
    out[end] = rows[row, at + 3 * wide] if row >= 0 else np.nan
    return end + 1


@exact_part
def _write(
    row: Any, i: Any, time: Any, X: Any, y: Any, sources: Any, spans: Any, rows: Any,
    population: Any, own: Any, labels: Any, out: Any,
) -> None:  # fmt: skip
    """Write the columns of an event by what was known before it; a row below 0 is an unseen one."""
    out[0] = rows[row, COUNT] if row >= 0 else 0.0
    passed = time - rows[row, TIME] if row >= 0 else np.nan
    out[1] = 0.0 if passed < 0.0 else _bounded(passed)
    for s in range(len(spans)):
        seen = rows[row, HEAD + s] * own[s + 1] if row >= 0 else 0.0
        out[2 + s] = math.log(1.0 + seen)
    done, at = 2 + len(spans), HEAD + len(spans)
    for j in range(len(sources)):
        source = sources[j]
        kind = 0 if source >= 0 else 1 if source == LABEL else 2
        decays = own if source >= 0 else labels
        done += _write_statistic(row, at, decays, rows, population[j], kind, out[done:])
        if source >= 0:
            apart = X[i, source] - out[done - 2 * len(own) - 1]
            if apart != 0.0:
                apart = min(max(apart / out[done - len(own) - 1], -MOST_SCORE), MOST_SCORE)
            out[done] = apart
            done += 1
        at += 3 * len(own) + 1


@exact_part
def _take_moments(x: Any, n: Any, mean: Any, moments: Any) -> None:
    """Take a value into the population's moments; its entity had n with such a mean before."""
    if n > 0.0:
        moments[4] += 1.0
        apart = x - mean
        moments[3] += (apart * apart * (n / (n + 1.0)) - moments[3]) / moments[4]
    moments[5] += 2.0 * n + 1.0
    moments[0] += 1.0
    share, apart = 1.0 / moments[0], x - moments[1]
    moments[1] += apart * share
    moments[2] = (1.0 - share) * (moments[2] + apart * share * apart)


@exact_part
def _take(
    row: Any, i: Any, of_labels: Any, X: Any, y: Any, sources: Any, decays: Any, rows: Any,
    population: Any, head: Any,
) -> None:  # fmt: skip
    """Take the numbers of an event, or its label, into its entity's statistics."""
    wide, at = len(decays), head
    for j in range(len(sources)):
        if (sources[j] < 0) == of_labels:
            x = _value(sources[j], X, y, i)
            known = not math.isnan(x)
            if known:
                _take_moments(x, rows[row, at], rows[row, at + wide], population[j])
                rows[row, at + 3 * wide] = x
            for s in range(wide):
                weight = rows[row, at + s] * decays[s]
                if known:
                    weight += 1.0
                    share, apart = 1.0 / weight, x - rows[row, at + wide + s]
                    rows[row, at + wide + s] += apart * share
                    rows[row, at + 2 * wide + s] = (1.0 - share) * (
                        rows[row, at + 2 * wide + s] + apart * share * apart
                    )
                rows[row, at + s] = weight
        at += 3 * wide + 1


@exact_part
def _advance(row: Any, which: Any, time: Any, rows: Any) -> None:
    """Move one of a row's times on, if that is later."""
    if time > rows[row, which] or math.isnan(rows[row, which]):
        rows[row, which] = time


@short
def follow(
    keys: Any, times: Any, X: Any, y: Any, learns: bool, sources: Any, spans: Any, rows: Any,
    changed: Any, index: Any, links: Any, ends: Any, population: Any, out: Any,
) -> Any:  # fmt: skip
    """Write the columns of events one by one, and take each in after that if `learns`.

    Returns how many are done: all, or those before a new entity that needs more rows.
    """
    own, labels = np.empty(len(spans) + 1), np.empty(len(spans) + 1)
    for i in range(len(keys)):
        key, time = keys[i], times[i]
        if math.isnan(key):
            for column in range(out.shape[1]):
                out[i, column] = np.nan
            continue
        place = _find(key, rows, index)
        row = (index[place] & _HALF) - 1 if place >= 0 else -1
        if learns and row < 0 and len(rows) == ends[USED] < ends[LIMIT]:
            return i
        _decay(time, rows[row, TIME] if row >= 0 else np.nan, spans, own)
        _decay(time, rows[row, LABEL_TIME] if row >= 0 else np.nan, spans, labels)
        _write(row, i, time, X, y, sources, spans, rows, population, own, labels, out[i])
        if not learns:
            continue
        if row < 0:
            row = _admit(key, spans, rows, index, links, ends)
        elif row != ends[NEWEST]:
            _unchain(row, links, ends)
            _chain(row, links, ends)
        changed[row] = 1
        rows[row, COUNT] += 1.0
        for s in range(len(spans)):
            rows[row, HEAD + s] = rows[row, HEAD + s] * own[s + 1] + 1.0
        head = HEAD + len(spans)
        _take(row, i, False, X, y, sources, own, rows, population, head)
        _advance(row, TIME, time, rows)
        if not math.isnan(y[i]):
            _take(row, i, True, X, y, sources, labels, rows, population, head)
            _advance(row, LABEL_TIME, time, rows)
    return len(keys)


@short
def learn_labels(
    keys: Any, times: Any, y: Any, sources: Any, spans: Any, rows: Any, changed: Any, index: Any,
    population: Any,
) -> None:  # fmt: skip
    """Take in labels that come at such times; of entities that have no row there is nothing."""
    labels, X = np.empty(len(spans) + 1), np.empty((1, 1))
    for i in range(len(keys)):
        place = -1 if math.isnan(keys[i]) or math.isnan(y[i]) else _find(keys[i], rows, index)
        if place >= 0:
            row = (index[place] & _HALF) - 1
            changed[row] = 1
            _decay(times[i], rows[row, LABEL_TIME], spans, labels)
            head = HEAD + len(spans)
            _take(row, i, True, X, y, sources, labels, rows, population, head)
            _advance(row, LABEL_TIME, times[i], rows)


@short
def find(key: float, rows: Any, index: Any) -> Any:
    """Return the row of an entity, -1 if it has none."""
    place = _find(key, rows, index)
    return (index[place] & _HALF) - 1 if place >= 0 else -1


@short
def forget(key: float, rows: Any, changed: Any, index: Any, links: Any, ends: Any) -> Any:
    """Remove an entity, in whose row the last one comes; return whether there was one."""
    place = _find(key, rows, index)
    if place < 0:
        return False
    row = (index[place] & _HALF) - 1
    _unchain(row, links, ends)
    _leave(place, index)
    ends[USED] -= 1
    last = ends[USED]
    if row != last:
        index[_find(rows[last, KEY], rows, index)] += row - last
        changed[row] = 1
        for j in range(rows.shape[1]):
            rows[row, j] = rows[last, j]
        older, newer = links[last, 0], links[last, 1]
        links[row, 0], links[row, 1] = older, newer
        _link(older, newer, row, row, links, ends)
    rows[last, :] = 0.0
    return True


@short
def enter(rows: Any, used: int, index: Any) -> None:
    """Enter the first rows into an index of zeros."""
    for row in range(used):
        index[-1 - _find(rows[row, KEY], rows, index)] = (_hashed(rows[row, KEY]) << 32) | (row + 1)


@short
def order(links: Any, ends: Any, out: Any) -> None:
    """Write the rows, the coldest first."""
    row = ends[OLDEST]
    for n in range(len(out)):
        out[n] = row
        row = links[row, 1]
