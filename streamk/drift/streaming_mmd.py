"""A two-sample test of a stream against its own past that may be looked at after every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.backends import CHUNK
from streamk.backends.two_sample import BANDS, WITNESSES
from streamk.drift.draws import Draws
from streamk.drift.run import Run
from streamk.drift.states import read_header, run_from_state, run_state
from streamk.errors import InvalidInput
from streamk.features.columns import Column, column_keys
from streamk.features.random_features import check_events
from streamk.options import Option, Real, Whole
from streamk.state import State

FEATURES = BANDS * CHUNK
"""Least random features, and by how many their number grows."""
_TOGETHER = 256
"""Events whose features are computed at once."""


class StreamingMMD:
    """Test whether the events of a stream go on to come from one law, after every event.

    Where the events are independent and of one law (or exchangeable), the probability that the test
    ever rejects, at however many events it is looked at, is at most alpha: this holds at every
    sample size, for every law, and needs no permutations. After it has rejected, the next event
    begins a new run, which has forgotten all before, with the same guarantee.

    A third of the events, drawn by the seed, are *training* events: their random features' recent
    means less the reference's mean are witness functions of the maximum mean discrepancy (Gretton
    et al. 2012, section 2), of three bandwidths and three windows. The others are *test* events.
    Each is ranked, by each witness, among a reference sample of earlier test events; where nothing
    has changed these ranks are independent and uniform (Vovk et al. 2005, section 8.2), whatever
    the witness. Wealth that is bet on low ranks is a martingale then, and exceeds 1/alpha with
    probability alpha at most (Ville 1939; betting for tests of two samples: Shekhar and Ramdas
    2023). A part of it is kept for every start (Shin, Ramdas and Rinaldo 2023), so that a change
    after a long time is found, too.

    A test event then enters the sample, and one event of all, drawn at random, leaves it. So the
    sample stays one of a fixed size that is independent of the ranks so far, and fades: a change
    that is slower than `reference` test events is not found.

    Parameters
    ----------
    columns : int or sequence of str or int
        Number or names of the columns.
    alpha : float, default 0.01
        Probability of a false alarm in a run, of whatever length, at most; 1e-12 to 0.5.
    warning : float, default 0.1
        The same of a warning; alpha at least.
    reference : int, default 2048
        Most events of the reference sample, 64 to 65536.
    max_features : int, default 384
        Most random features, 192 to 3072, of which whole multiples of 192 are used. A run begins
        with 192; after 1024, 4096, 16384 ... of its events there are twice as many.
    seed : int, default 0
        0 to 2^64 - 1: of features, roles of events and ties.

    Attributes
    ----------
    n_events : int
        Events taken in.
    n_drifts : int
        Alarms so far.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, or a column comes twice.

    Notes
    -----
    The first 64 events of a run are training events that also give the scales of the columns and
    the unit of the bandwidths (the median distance of two events); none of that is tuned.
    The bandwidths are 0.35, 0.7 and 1.4 such units, the windows 16, 64 and 256 training events.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf and Smola 2012, A kernel two-sample test, JMLR 13.
    Vovk, Gammerman and Shafer 2005, Algorithmic Learning in a Random World, Springer.
    Shekhar and Ramdas 2023, Nonparametric two-sample testing by betting, IEEE Trans. Inf. Theory.
    Shin, Ramdas and Rinaldo 2023, E-detectors, arXiv:2203.03532.
    Ville 1939, Étude critique de la notion de collectif, Gauthier-Villars.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(3000, 2))
    >>> X[2000:, 1] = 0.9 * X[2000:, 0] + 0.436 * X[2000:, 1]  # only the correlation changes
    >>> test = StreamingMMD(2)
    >>> test.update(X[:2000]), test.p_value > 0.01
    (array([], dtype=int64), True)
    >>> (drift,) = test.update(X[2000:])
    >>> bool(20 < drift < 400)
    True
    """

    TYPE = "streaming-mmd"
    OPTIONS: ClassVar[dict[str, Option]] = {
        "alpha": Real(least=1e-12, most=0.5),
        "warning": Real(least=1e-12, most=1.0),
        "reference": Whole(least=64, most=1 << 16),
        "max_features": Whole(least=FEATURES, most=16 * FEATURES),
        "seed": Whole(least=0, most=2**64 - 1),
    }

    def __init__(
        self,
        columns: int | Sequence[Column],
        *,
        alpha: float = 0.01,
        warning: float = 0.1,
        reference: int = 2048,
        max_features: int = 384,
        seed: int = 0,
    ) -> None:
        self.alpha, self.warning, self.seed = alpha, warning, seed
        self.reference, self.max_features = reference, max_features
        options.check(self.OPTIONS, self)
        if warning < alpha:
            raise InvalidInput(f"warning={warning} must be at least alpha={alpha}")
        self.n_events = self.n_drifts = 0
        self._draws = Draws(seed)
        self._columns: list[Column]
        self._run: Run
        self.begin(columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def n_features(self) -> int:
        """Random features that are in use now; they grow with the events of the run."""
        return self._run.n_features

    @property
    def drift_detected(self) -> bool:
        """True if the last event was an alarm."""
        return self._run.peak >= WITNESSES / self.alpha

    @property
    def warning_detected(self) -> bool:
        """True if the wealth is now above what a warning takes, and the event was no alarm."""
        return not self.drift_detected and self._run.wealth >= WITNESSES / self.warning

    @property
    def p_value(self) -> float:
        """Of the hypothesis that nothing has changed in this run, valid after every event.

        With probability a at most it is ever below a, where nothing changes.
        """
        return min(1.0, WITNESSES / self._run.peak)

    def update(self, X: ArrayLike) -> NDArray[np.int64]:
        """Take in events in their order.

        However a stream is divided into calls, what is found is the same, bit for bit.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN is missing, and counts as the column's median.

        Returns
        -------
        int64 array
            Numbers of the rows that were alarms, ascending; the row after one begins a new run.

        Raises
        ------
        InvalidInput
            If the shape is not (n, d), or a value is infinite or beyond 1e150. No row is taken in.
        """
        events = check_events(X, np.dtype(np.float64), self._columns, missing=True)
        found, start = [], 0
        while start < len(events):
            start += self._to_alarm(events[start:])
            if self.drift_detected:
                found.append(start - 1)
        return np.array(found, np.int64)

    def advance(self, X: ArrayLike) -> int:
        """Take in events up to the first that is an alarm; return how many were taken in.

        Where it is one, `drift_detected` says so, and `sample` is that of the run which it ends.
        Parameters and errors are those of `update`.
        """
        return self._to_alarm(check_events(X, np.dtype(np.float64), self._columns, missing=True))

    def _to_alarm(self, events: NDArray[np.float64]) -> int:
        threshold, start = WITNESSES / self.alpha, 0
        while start < len(events):
            if self._run.peak >= threshold:
                self._run = self._run.anew()
            draws = self._draws.take(self.n_events, min(_TOGETHER, len(events) - start))
            n = self._run.take(events[start : start + len(draws)], draws, threshold)
            start += n
            self.n_events += n
            if self._run.peak >= threshold:
                self.n_drifts += 1
                break
        return start

    @property
    def sample(self) -> NDArray[np.float64]:
        """The events (m, d) of the reference sample, in no order."""
        sample = self._run.sample
        return sample.events[: int(sample.counts[0])].copy()

    def begin(self, columns: int | Sequence[Column]) -> None:
        """Begin a new run, of these columns, with the next event.

        Raises
        ------
        InvalidInput
            As the class.
        """
        self._columns = _names(columns)
        column_keys(self._columns)
        self._run = Run(
            self._columns,
            reference=self.reference,
            max_features=self.max_features // FEATURES * FEATURES,
            seed=self.seed,
        )

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns that were zero in all events so far; they are scaled as zeros and ones.

        Parameters
        ----------
        names : sequence of str or int

        Raises
        ------
        InvalidInput
            If one of them is there already, or is no name.
        """
        columns = [*self._columns, *names]
        column_keys(columns)
        self._columns = columns
        self._run.add_columns(columns)

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, Any] = {
            "type": self.TYPE,
            **options.to_header(self.OPTIONS, self),
            "columns": list(self._columns),
            "n_events": self.n_events,
            "n_drifts": self.n_drifts,
        }
        return run_state(self._run, header)

    @classmethod
    def from_state(cls, state: State) -> StreamingMMD:
        """Return the test whose state this is.

        Raises
        ------
        StateError
            If the state is something else's or its parts do not fit.
        InvalidInput
            If an option in it is out of its domain.
        """
        header = state.expect(cls.TYPE).header
        chosen, counts = read_header(cls.OPTIONS, header)
        test = cls(**chosen)
        test.n_events, test.n_drifts = counts
        run_from_state(test._run, state)
        return test


def _names(columns: int | Sequence[Column]) -> list[Column]:
    if isinstance(columns, Sequence) and not isinstance(columns, str):
        return list(columns)
    if isinstance(columns, int | np.integer) and not isinstance(columns, bool) and columns >= 0:
        return list(range(columns))
    raise InvalidInput(f"columns={columns!r} must be the number of the columns, or their names")
