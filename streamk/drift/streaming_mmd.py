"""A two-sample test of a stream against its own past that may be looked at after every event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import backends, options
from streamk.backends import (
    CHUNK,
    FAIR_COIN,
    LARGEST,
    OUTERMOST,
    Backend,
    Curve,
    Dense,
    loops,
    two_sample,
)
from streamk.backends.two_sample import (
    BANDS,
    BETS,
    EDGES,
    FADE,
    REFRESH,
    WINDOWS,
    WITNESSES,
    TwoSample,
)
from streamk.declared import Declared, Domain, count, listed, number, reading, taken
from streamk.drift.rise import Draws
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column, column_keys
from streamk.features.random_features import FeatureBlocks, check_events
from streamk.kernels import Gaussian
from streamk.options import Option, Real, Whole
from streamk.scaling.quantiles import CENTERS, DISTANCES, INVERSES, RunningQuantiles
from streamk.state import State

Events = NDArray[np.float64]

WARM_UP = 64
"""Events at first that are training events and give the scales of the columns."""
BANDWIDTHS = (0.35, 0.7, 1.4)
"""In units of the median distance of two events."""
_NEAREST = 1e-6
"""Least distance that is a unit: single precision holds what is scaled by it."""
_GROWTH = 1024
"""Events of a run after which the features double; later they do whenever there are four times as
many: their number goes by the root of the events', as the error of the means does."""
_ROOM = 64
"""Events of the reference sample that there is room for at first."""
FEATURES = BANDS * CHUNK
"""Least random features, and by how many their number grows."""
_TOGETHER = 256
"""Events whose features are computed at once."""

_OWNER = "a two-sample test"
_EVENTS = Domain(-LARGEST, LARGEST, missing=True)
_MEANS = Domain(-1.001, 1.001)
"""Of features that are cosines."""
_WEALTH = Domain(0.0, 1e100)
_SCALE = (
    Declared("center", "float64", ("columns",), CENTERS),
    Declared("inverse", "float64", ("columns",), INVERSES),
)
_DECLARED = (
    Declared("rows", "float64", ("first", "columns"), _EVENTS),
    Declared("events", "float64", ("size", "columns"), _EVENTS),
    Declared("witness", "float32", (WINDOWS, "features"), Domain(-2.002, 2.002)),
    Declared("recent", "float32", (WINDOWS, "features"), _MEANS),
    Declared("reference", "float32", ("features",), _MEANS),
    Declared("seen", "int64", ("chunks",), Domain(0, 1 << 16)),
    Declared("wealth", "float64", (WITNESSES, BETS), _WEALTH),
    Declared("bins", "float64", (WITNESSES, len(EDGES)), Domain(0.0, 1.001 / FADE)),
    Declared("total", "float64", (2,), _WEALTH),
    Declared("counts", "int64", (2,), Domain(0, 2**53)),
)


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
        self._backend = backends.select()
        self.begin(columns)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names of the columns."""
        return tuple(self._columns)

    @property
    def n_features(self) -> int:
        """Random features that are in use now; they grow with the events of the run."""
        return len(self._sample.reference)

    @property
    def drift_detected(self) -> bool:
        """True if the last event was an alarm."""
        return self._peak >= WITNESSES / self.alpha

    @property
    def warning_detected(self) -> bool:
        """True if the wealth is above the bound for a warning and the event raised no alarm."""
        return not self.drift_detected and self._wealth >= WITNESSES / self.warning

    @property
    def p_value(self) -> float:
        """The p-value of the hypothesis of no change in this run, valid after every event.

        With probability a at most it is ever below a, where nothing changes.
        """
        return min(1.0, WITNESSES / self._peak)

    def update(self, X: ArrayLike) -> NDArray[np.int64]:
        """Take in events in their order.

        However a stream is divided into calls, what is found is the same, bit for bit. Raises
        `InvalidInput` if the shape is not (n, d), or a value is infinite or beyond 1e150. No row is
        taken in.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN is missing, and counts as the column's median.

        Returns
        -------
        int64 array
            Numbers of the rows that were alarms, ascending; the row after one begins a new run.
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
            if self._peak >= threshold:
                self._restart()
            draws = self._draws.take(self.n_events, min(_TOGETHER, len(events) - start))
            n = self._take(events[start : start + len(draws)], draws, threshold)
            start += n
            self.n_events += n
            if self._peak >= threshold:
                self.n_drifts += 1
                break
        return start

    @property
    def sample(self) -> NDArray[np.float64]:
        """The events (m, d) of the reference sample, in no order."""
        return self._sample.events[: int(self._sample.counts[0])].copy()

    def begin(self, columns: int | Sequence[Column]) -> None:
        """Begin a new run, of these columns, with the next event.

        Raises `InvalidInput` as the class.
        """
        self._name_columns(_names(columns))
        self._restart()

    def _name_columns(self, columns: list[Column]) -> None:
        keys = column_keys(columns)
        self._columns = columns
        self._blocks = FeatureBlocks(
            Gaussian(bandwidth=1.0),
            keys,
            seed=self.seed,
            backend=self._backend,
            dtype=np.dtype(np.float32),
            cache_bytes=1 << 40,
            threads=1,
        )

    def _restart(self) -> None:
        """Begin a run of the same columns; features are not drawn again."""
        columns = len(self._columns)
        self._n = 0
        """Events of this run."""
        self._rows = np.zeros((0, columns))
        """The first events, as long as there is no scale."""
        self._scale: FirstScale | None = None
        self._sample = two_sample.begin(self.reference, columns, BANDS * CHUNK)
        self._basis: Dense | None = None
        self._moment = self._next_moment()

    @property
    def _most_groups(self) -> int:
        """Groups of BANDS chunks of features, at most."""
        return self.max_features // FEATURES

    @property
    def _wealth(self) -> float:
        """The largest wealth of a witness now."""
        return float(self._sample.total[0])

    @property
    def _peak(self) -> float:
        """The largest wealth that a witness has ever had."""
        return float(self._sample.total[1])

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns that were zero in all events so far; they are scaled as zeros and ones.

        Raises `InvalidInput` if one of them is there already, or is not a name.

        Parameters
        ----------
        names : sequence of str or int
        """
        self._name_columns([*self._columns, *names])
        self._rows = np.pad(self._rows, ((0, 0), (0, len(names))))
        self._sample = self._sample._replace(
            events=np.pad(self._sample.events, ((0, 0), (0, len(names))))
        )
        if self._scale is not None:
            self._scale.add_columns(len(names))
            self._lay_out()
            self._evaluate()
            loops.two_sample.rescore(self._sample)

    # --- a run ----------------------------------------------------------------------------------

    def _take(self, X: Events, draws: NDArray[np.float64], threshold: float) -> int:
        """Take in the first one or more of some events; return how many.

        `draws` (n, 3) are drawn for them, see `streamk.backends.two_sample`; a wealth of
        `threshold` ends the run.
        """
        if self._scale is None:
            n = min(len(X), WARM_UP - self._n)
            self._rows = np.concatenate([self._rows, X[:n]])
            self._n += n
            if self._n == WARM_UP:
                self._finish_warm_up()
            return n
        n = min(len(X), self._moment - self._n)
        self._reserve(int(self._sample.counts[0]) + n)
        taken: int = loops.two_sample.follow(
            self._sample, self._features(X[:n]), X[:n], draws[:n], threshold
        )
        self._n += taken
        if self._n == self._moment:
            self._grow()
        return taken

    def _finish_warm_up(self) -> None:
        """Take the scale from the first events, and let them be the first training events."""
        self._scale = FirstScale(self._rows)
        self._lay_out()
        training = np.zeros((WARM_UP, 3))
        loops.two_sample.follow(
            self._sample, self._features(self._rows), self._rows, training, np.inf
        )
        self._rows = self._rows[:0]

    # --- features -------------------------------------------------------------------------------

    def _features(self, X: Events) -> NDArray[np.float32]:
        """Return the features (n, D) of events (n, d)."""
        assert self._scale is not None
        assert self._basis is not None
        out = np.empty((len(X), len(self._basis.b) * CHUNK), np.float32)
        Z = self._scale.transform(X, self._backend)
        self._backend.features(Z, self._basis, Curve.COSINE, False, out)
        return out

    def _lay_out(self) -> None:
        """Scale the frequencies of all chunks by their bandwidths."""
        assert self._scale is not None
        chunks = len(self._sample.seen)
        basis = self._blocks.kept(chunks)
        assert isinstance(basis, Dense)
        distance = max(self._scale.distance, _NEAREST)
        units = np.array(BANDWIDTHS)[np.arange(chunks) % BANDS] * distance
        W = basis.W[:chunks] / units[:, None, None]
        self._basis = Dense(W.astype(np.float32), basis.b[:chunks])

    def _next_moment(self) -> int:
        """Return after how many events of the run there are more features."""
        groups, moment = len(self._sample.seen) // BANDS, _GROWTH
        while moment <= self._n:
            moment *= 4
        return moment if groups < self._most_groups else 1 << 62

    def _grow(self) -> None:
        """Append the features that so many events are worth."""
        more = groups_after(self._n, self._most_groups) * BANDS - len(self._sample.seen)
        old, chunks = self._sample, ((0, 0), (0, more * CHUNK))
        self._sample = old._replace(
            features=np.pad(old.features, chunks[::-1]),
            witness=np.pad(old.witness, chunks),
            recent=np.pad(old.recent, chunks),
            reference=np.pad(old.reference, chunks[1]),
            seen=np.pad(old.seen, (0, more)),
        )
        self._moment = self._next_moment()
        self._lay_out()
        self._evaluate()

    def _evaluate(self) -> None:
        """Compute the features of the reference sample anew."""
        size = int(self._sample.counts[0])
        self._sample.features[:, :size] = self._features(self._sample.events[:size]).T

    def _reserve(self, size: int) -> None:
        """Make room for so many events in the reference sample, or as many as it may have."""
        room, most = len(self._sample.events), int(self._sample.counts[3])
        if min(size, most) <= room:
            return
        more = min(max(size, 2 * room, _ROOM), most) - room
        self._sample = self._sample._replace(
            events=np.pad(self._sample.events, ((0, more), (0, 0))),
            features=np.pad(self._sample.features, ((0, 0), (0, more))),
            scores=np.pad(self._sample.scores, ((0, 0), (0, more))),
        )

    # --- state ----------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything needed to go on exactly from here."""
        header: dict[str, Any] = {
            "type": self.TYPE,
            **options.to_header(self.OPTIONS, self),
            "columns": list(self._columns),
            "n_events": self.n_events,
            "n_drifts": self.n_drifts,
            "run": self._n,
        }
        sample = self._sample
        size = int(sample.counts[0])
        arrays = {
            "rows": self._rows.copy(),
            "events": sample.events[:size].copy(),
            "counts": sample.counts[1:3].copy(),
        }
        for name in ("witness", "recent", "reference", "seen", "wealth", "bins", "total"):
            arrays[name] = getattr(sample, name).copy()
        if self._scale is not None:
            header["distance"] = self._scale.distance
            arrays["center"] = self._scale.center.copy()
            arrays["inverse"] = self._scale.inverse.copy()
        return State(header, arrays)

    @classmethod
    def from_state(cls, state: State) -> StreamingMMD:
        """Return the test of a state.

        Raises `StateError` if the state is something else's or its parts do not fit, and
        `InvalidInput` if an option in it is out of its domain.
        """
        header = state.expect(cls.TYPE).header
        columns = listed(header, "columns", _OWNER)
        with reading(_OWNER):
            chosen = options.from_header(cls.OPTIONS, header)
        test = cls(columns, **chosen)
        test.n_events, test.n_drifts = (
            count(header, name, _OWNER) for name in ("n_events", "n_drifts")
        )
        # Features and scores of the reference sample are computed anew.
        n = count(state.header, "run", _OWNER)
        warm = n >= WARM_UP
        chunks = groups_after(n, test._most_groups) * BANDS
        sizes = {"columns": test._rows.shape[1], "chunks": chunks, "features": chunks * CHUNK}
        sizes["first"] = 0 if warm else n
        arrays, sizes = taken(_DECLARED + _SCALE * warm, state.arrays, sizes, _OWNER)
        size, most = sizes["size"], int(test._sample.counts[3])
        tests, since = arrays["counts"].tolist()
        if since > REFRESH or tests > n or size != min(tests, most) or arrays["seen"].max() > most:
            raise StateError(f"the counts of {_OWNER} contradict each other; it is damaged")
        own = {name: arrays[name].copy() for name in TwoSample._fields if name in arrays}
        own["counts"] = np.array([size, tests, since, most])
        test._sample = TwoSample(
            **own,
            features=np.zeros((chunks * CHUNK, size), np.float32),
            scores=np.zeros((WITNESSES, size), np.float32),
        )
        test._n, test._rows = n, arrays["rows"].copy()
        test._moment = test._next_moment()
        if warm:
            test._scale = FirstScale(np.zeros((0, sizes["columns"])))
            test._scale.center = arrays["center"].copy()
            test._scale.inverse = arrays["inverse"].copy()
            test._scale.distance = number(state.header, "distance", _OWNER, DISTANCES)
            test._lay_out()
            test._evaluate()
            loops.two_sample.rescore(test._sample)
        return test


def _names(columns: int | Sequence[Column]) -> list[Column]:
    if isinstance(columns, Sequence) and not isinstance(columns, str):
        return list(columns)
    if isinstance(columns, int | np.integer) and not isinstance(columns, bool) and columns >= 0:
        return list(range(columns))
    raise InvalidInput(f"columns={columns!r} must be the number of the columns, or their names")


class FirstScale:
    """Median and spread of each column in the first events, and the events' distance.

    They are those of `streamk.scaling.quantiles.RunningQuantiles`, and stay: an exact
    test may not scale an event by later ones. In the first events (n, d) NaN is missing.

    Attributes
    ----------
    center, inverse : float64 array of shape (d,)
        Median, and one over the spread.
    distance : float
        Median distance of two scaled events.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk import backends
    >>> scale = FirstScale(np.arange(64.0)[:, None])
    >>> scale.transform(np.array([[31.5], [np.nan], [1e9]]), backends.select()).ravel().tolist()
    [0.0, 0.0, 8.0]
    """

    def __init__(self, rows: NDArray[np.float64]) -> None:
        quantiles = RunningQuantiles(rows.shape[1])
        quantiles.observe(rows)
        self.center, self.inverse = quantiles.center.copy(), quantiles.inverse.copy()
        self.distance = quantiles.distance

    def transform(self, X: NDArray[np.float64], backend: Backend) -> NDArray[np.float32]:
        """Return events (n, d) scaled, between -8 and 8, and 0 where a value is missing."""
        Z = np.empty(X.shape, np.float32)
        backend.rescale(X, self.center, self.inverse, Z)
        np.minimum(np.maximum(Z, -OUTERMOST, out=Z), OUTERMOST, out=Z)
        return Z

    def add_columns(self, n: int) -> None:
        """Append n columns that were zero in all events so far, scaled as zeros and ones."""
        self.center = np.append(self.center, np.zeros(n))
        self.inverse = np.append(self.inverse, np.full(n, 1.0 / FAIR_COIN))


def groups_after(events: int, most: int) -> int:
    """Return the number of groups of BANDS chunks of features after so many events of a run.

    Examples
    --------
    >>> [groups_after(n, 16) for n in (0, 1023, 1024, 4096, 16384)], groups_after(10**9, 5)
    ([1, 1, 2, 4, 8], 5)
    """
    groups, moment = 1, _GROWTH
    while groups < most and events >= moment:
        groups, moment = 2 * groups, 4 * moment
    return min(groups, most)
