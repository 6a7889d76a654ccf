"""The ends of rounds, and of steps on a ladder of regularizations, where errors stop falling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def ended(errors: Sequence[float], rounds: int, patience: int) -> bool:
    """Return whether there are no more rounds after those of some errors.

    Parameters
    ----------
    errors : sequence of float
        Of round 0 and those after it.
    rounds : int
        After round 0, at most.
    patience : int
        Rounds without a smaller error after which there are no more.

    Examples
    --------
    >>> ended([3.0, 2.0], 4, 1), ended([3.0, 2.0, 2.0], 4, 1), ended([3.0, 2.0], 1, 1)
    (False, True, True)
    """
    best = int(np.nan_to_num(errors, nan=np.inf, posinf=np.inf).argmin())
    return len(errors) > rounds or len(errors) - 1 - best >= patience


def descended(error: Callable[[int], float], place: int, count: int) -> int:
    """Return where errors stop falling on a ladder, from a place on.

    Parameters
    ----------
    error : callable
        Takes a place, 0 to count - 1.
    place, count : int

    Examples
    --------
    >>> descended(lambda k: (k - 3) ** 2, 1, 10), descended(lambda k: -k, 2, 4)
    (3, 3)
    """
    lower = moved(error, place, count, -1)
    return moved(error, place, count, 1) if lower == place else lower


def moved(error: Callable[[int], float], place: int, count: int, step: int) -> int:
    """Return where errors stop falling on a ladder in one direction, from a place on.

    Parameters
    ----------
    error : callable
        Takes a place, 0 to count - 1.
    place, count : int
    step : {-1, 1}

    Examples
    --------
    >>> moved(lambda k: (k - 3) ** 2, 1, 10, 1), moved(lambda k: (k - 3) ** 2, 1, 10, -1)
    (3, 1)
    """
    least = error(place)
    while 0 <= place + step < count and error(place + step) < least:
        place += step
        least = error(place)
    return place
