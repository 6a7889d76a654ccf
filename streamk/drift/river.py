"""A two-sample test on features that grow, as River's drift detector."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from river import base

from streamk.adapters.options import estimator
from streamk.adapters.river import SEED, InTurns
from streamk.adapters.rows import read_fields
from streamk.drift import EventMMD
from streamk.encoding import alone
from streamk.errors import InvalidInput
from streamk.options import Real, Whole

_COLUMNS = 1024
"""Most columns of their own."""
_NUMBERS = (int, float, np.number, np.bool_, type(None))


_OPTIONS = {
    "alpha": Real(
        default=0.01, doc="Probability, at most, that a drift is ever detected where there is none."
    ),
    "warning": Real(default=0.1, doc="The same of a warning."),
    "reference": Whole(
        default=2048,
        doc="Most earlier events to compare with. A change that takes longer than so many is not "
        "found.",
    ),
    "max_features": Whole(default=384, doc="Most random features, 192 to 3072."),
    "seed": SEED,
}


@estimator(_OPTIONS)
class MMDDrift(InTurns, base.DriftAndWarningDetector):
    """Drift of numbers or of whole events, with a bound on the probability of a false alarm.

    A kernel two-sample test (maximum mean discrepancy) of recent events against earlier ones, on
    random features whose number grows, see `streamk.drift.StreamingMMD`. While the events are
    independent and of one law, whichever that is, the probability that a drift is *ever* detected
    is at most alpha, however long the stream is; there is no threshold to be tuned. Of events with
    several columns it finds changes of any kind, also of their correlation alone. After a drift the
    detector begins anew with the next event.

    `update` takes one number, like that of River's other detectors: an error of a model, say.
    `update_one` takes an event. Feed an instance by one of them only.

    Events that depend on each other are none of one law: a number that wanders, or that resembles
    the one before, is drift. Where that is not to be detected, feed what is left when it is
    predicted: residuals or errors.

    Several threads may feed one instance. `drift_detected` is then of the last event, whichever
    thread it came from; `n_detections` counts all.

    Attributes
    ----------
    n_detections : int
    p_value : float

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> import random
    >>> from streamk.adapters.river import MMDDrift
    >>> rng = random.Random(12345)
    >>> detector = MMDDrift(seed=1)
    >>> numbers = rng.choices([0, 1], k=1000) + rng.choices(range(4, 8), k=1000)
    >>> for i, number in enumerate(numbers):
    ...     detector.update(number)
    ...     if detector.drift_detected:
    ...         print(1000 < i < 1100)
    True

    The spread changes, and the mean stays:

    >>> detector = MMDDrift(seed=1)
    >>> for i in range(3000):
    ...     spread = 1.0 if i < 2000 else 3.0
    ...     detector.update_one({"a": rng.gauss(0, 1), "b": rng.gauss(5, spread)})
    ...     if detector.drift_detected:
    ...         print(2000 < i < 2300)
    True
    """

    seed: int | None

    def _begin(self) -> None:
        super()._begin()
        options = {name: getattr(self, name) for name in _OPTIONS}
        if self.seed is None:
            options["seed"] = secrets.randbits(63)
        self._events = EventMMD(most=_COLUMNS, **options)

    @property
    def n_detections(self) -> int:
        """Drifts detected so far."""
        return self._events.test.n_drifts

    @property
    def p_value(self) -> float:
        """The p-value of no drift since the last one, valid at any time."""
        return self._events.test.p_value

    def update(self, x: int | float) -> None:
        """Take in one number.

        Raises `InvalidInput` if it is infinite or no number; it is not taken in.

        Parameters
        ----------
        x : int, float or bool
            None or NaN is missing.
        """
        if not isinstance(x, _NUMBERS):
            raise InvalidInput(f"update takes a number, not {x!r:.60}; update_one takes an event")
        self.update_one({0: x})

    def update_one(self, x: Mapping[Hashable, Any]) -> None:
        """Take in one event.

        Raises `InvalidInput` if a value is not usable, naming it; the event is not taken in.

        Parameters
        ----------
        x : dict
            Its columns may come and go. Texts and missing values are read as by the estimators of
            `streamk.adapters.river`; which of them are columns is settled by the first 64 events,
            see `streamk.drift.EventMMD`.
        """
        cells = read_fields(x, alone)
        with self._turns.lock:
            self._events.advance([cells])
            test = self._events.test
            self._drift_detected = test.drift_detected
            self._warning_detected = test.warning_detected
