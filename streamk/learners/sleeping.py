"""Which kinds of experts are worth their time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MEMORY = 1.0 / 32
"""Weight of a review in the running means."""
_TRIAL = 64
"""Reviews that a bank is awake for at least."""
_WORTH = 0.002
"""Part of the loss that a bank has to spare the others to stay awake."""
_SHORTEST, _LONGEST = 64, 1024
"""Reviews that a bank sleeps for: each time twice as long, until it has been of use."""

_GAIN, _AGE, _NAP = range(3)


class Sleeping:
    """Sends banks of experts to sleep that do not earn their weight, and wakes them for trials.

    Sleeping experts cost nothing, and the mixture goes on as if they said what it says itself
    ("specialists", Freund et al. 1997). The first bank never sleeps.

    Parameters
    ----------
    banks : int

    Examples
    --------
    >>> import numpy as np
    >>> sleeping, awake = Sleeping(2), np.array([True, True])
    >>> for _ in range(100):
    ...     woken = sleeping.review(np.array([0.1, 0.0]), 0.5, awake)
    >>> awake
    array([ True, False])
    """

    def __init__(self, banks: int) -> None:
        self.values: NDArray[np.float64] = np.zeros((banks + 1, 3))
        """Running gain, reviews since the last change and the next nap of each bank; the last row
        has the running loss."""
        self.values[:-1, _NAP] = _SHORTEST

    def review(
        self, gains: NDArray[np.float64], loss: float, awake: NDArray[np.bool_]
    ) -> list[int]:
        """Take in a review and change who is awake, in place.

        Parameters
        ----------
        gains : float64 array of shape (banks,)
            Mean of what the lack of each bank would have cost an event.
        loss : float
            Mean loss of an event.
        awake : bool array of shape (banks,)

        Returns
        -------
        list of int
            The banks that woke up.
        """
        values, on, woken = self.values.tolist(), awake.tolist(), []  # few: arrays take longer
        *own, all_of_them = values
        all_of_them[_GAIN] += _MEMORY * (loss - all_of_them[_GAIN])
        for bank, (known, gain) in enumerate(zip(own, gains.tolist(), strict=True)):
            if on[bank]:
                known[_GAIN] += _MEMORY * (gain - known[_GAIN])
            known[_AGE] += 1.0
            if bank == 0:
                continue
            if on[bank] and known[_AGE] >= _TRIAL:
                if known[_GAIN] >= _WORTH * all_of_them[_GAIN]:
                    known[_NAP] = _SHORTEST
                else:
                    awake[bank], known[_AGE] = False, 0.0
            elif not on[bank] and known[_AGE] >= known[_NAP]:
                awake[bank] = True
                known[:] = 0.0, 0.0, min(2.0 * known[_NAP], _LONGEST)
                woken.append(bank)
        self.values[:] = values
        return woken

    def wake(self) -> None:
        """Begin the trials of all banks anew."""
        self.values[:-1] = 0.0, 0, _SHORTEST
