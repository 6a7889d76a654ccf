"""Weights of events: how often each is learned."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.errors import InvalidInput
from streamk.options import Real

Numbers = NDArray[np.float64]

_MEAN = 4
"""Most whole numbers that an event has on average in the place of weights in the same ratio."""
_ONE = 1 << 30
"""Parts of a weight, whole numbers, so that their sums are exact."""
_WEIGHT = Real(least=0.0, most=1e6)
"""Weights on a stream: an event is learned so many times, one after the other."""


def relative(weights: Numbers) -> Numbers:
    """Return weights in the smallest whole numbers of their ratio, or with a mean of 1.

    They are whole numbers where these are 4 or less on average. Means are those of weights above 0.

    Raises
    ------
    InvalidInput
        If all are 0.

    Examples
    --------
    >>> relative(np.array([0.1, 0.2, 0.0, 0.3]))
    array([1., 2., 0., 3.])
    >>> relative(np.array([1.0, 0.0, 4.0, 14.0, 13.0]))
    array([0.125, 0.   , 0.5  , 1.75 , 1.625])
    """
    if not weights.any():
        raise InvalidInput("all sample weights are zero, so no event would be learned")
    weights = weights / weights.max()
    positive = weights[weights > 0.0]
    least, mean = positive.min(), positive.mean()
    for parts in range(1, int(_MEAN * least / mean + 1e-6) + 1):
        found = weights / least * parts
        if np.allclose(found, np.rint(found), rtol=1e-6, atol=0.0):
            return np.asarray(np.rint(found))
    # Rounded, so that a factor of all of them leaves no trace.
    return np.asarray(np.rint(weights / mean * _ONE) / _ONE)


def repeats(weights: Numbers, turn: int, turns: int) -> NDArray[np.intp]:
    """Return how often each event is learned in one of several passes over all.

    That is the same in all passes for whole weights. Of others it is the next whole number below or
    above, and over all passes an event is learned as often as its weight says, less than once more
    or less.

    Examples
    --------
    >>> weights = np.array([0.5, 1.0, 1.75, 0.75])
    >>> repeats(weights, 0, 2), repeats(weights, 1, 2)
    (array([0, 1, 2, 1]), array([1, 1, 2, 0]))
    """
    sums = np.cumsum(np.rint(weights * _ONE).astype(np.int64))
    return np.diff((sums + (2 * turn + 1) * _ONE // (2 * turns)) // _ONE, prepend=0)


def carried(
    left: Mapping[Hashable, float], labels: Iterable[Hashable], weights: Iterable[float]
) -> tuple[list[int], dict[Hashable, float]]:
    """Return how often each event of a stream is learned, and what is left of the weights.

    The sum of the weights so far, rounded, is how often events of a label were learned: what is
    left of one comes in with the next one of the same label.

    Examples
    --------
    >>> carried({}, ["a", "a", "b", "a"], [0.25, 0.5, 0.25, 2.25])
    ([0, 1, 0, 2], {'a': 0.0, 'b': 0.25})
    """
    rest, times = dict(left), []
    for label, weight in zip(labels, weights, strict=True):
        fraction, whole = math.modf(weight)
        if fraction:
            total = rest.get(label, 0.0) + fraction
            more = math.floor(total + 0.5)
            rest[label] = total - more
            whole += more
        times.append(int(whole))
    return times, rest


def checked(weights: Any, n: int, name: str = "w") -> Numbers:
    """Return the weights of n events of a stream, from one number for all or n of them.

    Raises
    ------
    InvalidInput
        If there are not n, or one is no number from 0 to a million.
    """
    given = list(weights) if hasattr(weights, "__len__") else [weights] * n
    if len(given) != n:
        raise InvalidInput(f"{n} events came with {len(given)} weights")
    for weight in given:
        _WEIGHT.check(name, weight)
    return np.array(given, np.float64)


def order_of(contents: Iterable[bytes], weights: Numbers | None) -> NDArray[np.intp]:
    """Return events by what they are where some are there twice or weigh more, else as they stand.

    So an event of weight 2 has the place of two events.
    """
    found = _digests(contents)
    if _as_they_stand(found, weights):
        return np.arange(len(found))
    return np.argsort(found, kind="stable")


def merged(
    points: Numbers, targets: NDArray[Any], weights: Numbers | None
) -> tuple[Numbers, NDArray[Any], Numbers | None]:
    """Return events of which those that are alike are one, with the sum of their weights.

    Parameters
    ----------
    points : array of shape (n, d)
    targets : array of numbers of shape (n,) or (n, targets)
    weights : array of shape (n,), optional
        None where all are 1.

    Examples
    --------
    >>> points, targets, weights = merged(np.array([[7.0], [8.0], [7.0]]), np.ones(3), None)
    >>> sorted(zip(points.tolist(), weights.tolist()))
    [([7.0], 2.0), ([8.0], 1.0)]
    """
    found = _digests(row.tobytes() for row in np.column_stack([points, targets]) + 0.0)
    _, first, place = np.unique(found, return_index=True, return_inverse=True)
    if _as_they_stand(found, weights) or len(first) < 2:
        return points, targets, weights
    return points[first], targets[first], np.bincount(place, weights).astype(np.float64)


def _as_they_stand(found: NDArray[np.uint64], weights: Numbers | None) -> bool:
    """Return whether all events are different, and weigh the same."""
    alike = weights is None or bool((weights == weights[0]).all())
    return alike and len(np.unique(found)) == len(found)


def _digests(contents: Iterable[bytes]) -> NDArray[np.uint64]:
    """Return a number for the content of each event, alike for those that are alike."""
    return np.frombuffer(b"".join(blake2b(c, digest_size=8).digest() for c in contents), np.uint64)
