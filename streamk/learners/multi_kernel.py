"""Many kernels and step sizes side by side, mixed as the stream asks for: nothing to tune."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import threads
from streamk.errors import InvalidInput, NotLearned, StateError
from streamk.features.columns import Column, column_keys
from streamk.features.quantiles import RunningQuantiles
from streamk.features.random_features import check_events, check_seed
from streamk.learners import expert_pool, tables
from streamk.learners.classes import Classes, Label, check_labels, check_numbers
from streamk.learners.expert_pool import BINARY, CLASSES, NUMBERS, ExpertPool
from streamk.learners.intervals import ErrorQuantiles
from streamk.learners.merging import events_apart
from streamk.learners.predictor import Predictor, one_row
from streamk.learners.recollection import Recollection
from streamk.learners.upkeep import PERIOD, Upkeep
from streamk.state import JSON, State

_FLOAT64 = np.dtype(np.float64)
_FLOPS = 100_000
"""Of a forecast, about, for the decision how many threads it is worth."""


class MultiKernel(Predictor):
    """An online learner that chooses kernel, bandwidth, step size and memory by itself.

    A pool of experts predicts each event: linear models; Gaussian kernels at a ladder of bandwidths
    around the stream's median distance, by random features of one projection; Laplacian-like
    kernels of one column, of two, three, six and of up to 64, by random binning, with the weight of
    each kernel learned; kernel smoothers over the last 1,000 events at a ladder of sharpnesses; and
    recursive least squares. All but the smoothers learn by several step rules at once. Two stages
    mix their opinions. The mixers are fixed shares and products of experts, and a fixed share with
    rate a = 0.001 mixes these.

    Over T events the sum of the losses is at most that of any sequence of M experts or mixers with
    k changes among them, plus ``(k + 1) ln M - k ln a - (T - 1 - k) ln(1 - a)`` at each of the two
    stages, in units of the log loss, for experts that give no class less than 1e-4 (Herbster and
    Warmuth 1998, Theorem 1). For numbers the loss is twice the absolute error in units of the
    labels' spread, up to 16, and the guarantee has the loss of the mixture of losses in place of
    the mixture's.

    Columns are scaled by running quantiles, so that heavy tails and single huge values do no harm;
    a missing value (NaN) is the column's median to some experts and a bin of its own to others.

    What is learned depends on the events, their order, and on which of them were predicted before
    they were learned: mixing weighs experts by what they said at the time of the prediction, which
    is how good they are where labels come late. Events that were not predicted are learned as if
    they had been just then.

    Parameters
    ----------
    task : {"classification", "regression"}, default "classification"
    seed : int, default 0
    columns : sequence of str or int, optional
        Names of the columns; ``range(d)`` at the first batch by default.
    classes : sequence of str, int or bool, optional
        Labels known beforehand, in the order wanted; others are added as they come.
    pending_bytes : int, default 8 MiB
        Memory for opinions on events whose labels are still to come; the oldest are forgotten.
    threads : int, optional
        Of predicting many events; all cores by default. Results do not depend on it.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import MultiKernel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = MultiKernel(seed=1)
    >>> model.learn_many(X[:1500], y[:1500])
    >>> bool((model.predict_many(X[1500:]) == y[1500:]).mean() > 0.95)
    True
    """

    TYPE = "multi-kernel"
    FORMAT = 1

    def __init__(
        self,
        *,
        task: str = "classification",
        seed: int = 0,
        columns: Sequence[Column] | None = None,
        classes: Sequence[Label] = (),
        pending_bytes: int = 8 << 20,
        threads: int | None = None,
    ) -> None:
        if task not in ("classification", "regression"):
            raise InvalidInput(f"task={task!r} must be 'classification' or 'regression'")
        self.is_classifier = task == "classification"
        if classes and not self.is_classifier:
            raise InvalidInput("classes= is for classification; leave it out or change the task")
        cores = 1 if threads is None else threads
        for name, value, least in (("threads", cores, 1), ("pending_bytes", pending_bytes, 0)):
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not (whole and value >= least):
                raise InvalidInput(f"{name}={value!r} must be a whole number of at least {least}")
        self.seed = check_seed(seed)
        self.threads, self.pending_bytes = threads, pending_bytes
        self.n_events = 0
        self._classes = Classes(classes)
        self._labels = RunningQuantiles(0 if self.is_classifier else 1, seed=self.seed)
        self._columns: tuple[Column, ...] | None = None
        self._scale = RunningQuantiles(0, seed=self.seed)
        self._said = Recollection(pending_bytes)
        self._errors = None if self.is_classifier else ErrorQuantiles()
        self._upkeep = Upkeep()
        self._pool: ExpertPool  # from the first columns on
        self._lock = threading.Lock()
        self._fresh: bytes | None = None
        """The event that the pool's room is about, as long as nothing has been learned since."""
        if columns is not None:
            self.add_columns(columns)

    # What it is

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._columns

    @property
    def classes(self) -> tuple[Label, ...]:
        """The labels seen so far, in the order of the probabilities; () for regression."""
        return self._classes.labels

    @property
    def n_features(self) -> int:
        """Random features and tables of random binning in use."""
        return expert_pool.FEATURES * len(expert_pool.SHARPNESS) + tables.TABLES

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
        held = self._pool.nbytes if self._columns is not None else 0
        return held + self._scale.nbytes + self._said.nbytes

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        known = self._columns or ()
        keys = column_keys(names)
        if known:
            twice = np.isin(keys, self._pool.keys)
            if twice.any():
                raise InvalidInput(f"column {names[int(twice.argmax())]!r} is there already")
        if self._columns is None:
            self._pool = self._new_pool(keys)
        elif names:
            self._pool = self._pool.add_columns(keys)
        self._columns = (*known, *names)
        self._scale.add_columns(len(names))
        self._changed()

    def _new_pool(self, keys: NDArray[np.uint64]) -> ExpertPool:
        task = NUMBERS if not self.is_classifier else BINARY
        task = CLASSES if len(self._classes) > 2 else task
        return ExpertPool(keys, task=task, classes=max(2, len(self._classes)), seed=self.seed)

    def _changed(self) -> None:
        """Let a pool that is new know the scale; what was said by another does not count."""
        self._pool.adapt(self._scale)
        self._said.clear()
        self._fresh = None
        self._out = np.empty((1, self._pool.outputs))

    # Learning

    def learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> None:
        """Learn from events one by one, in their order.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN is missing.
        y : sequence of n labels: str, int or bool for classes, else finite numbers

        Raises
        ------
        InvalidInput
            If a value is infinite or a label is of no use, naming its row; nothing is learned.
        """
        events = self._check(X)
        if len(y) != len(events):
            raise InvalidInput(f"{len(events)} events came with {len(y)} labels")
        labels: Any = (
            check_labels(y) if self.is_classifier else check_numbers(y, len(events), _FLOAT64)
        )
        if self._columns is None:
            self.add_columns(range(events.shape[1]))
        first = 0
        while first < len(events):
            stop = min(
                len(events),
                first + self._scale.until_change(),
                first + PERIOD - self.n_events % PERIOD,
            )
            if self.is_classifier:
                stop = first + self._until_new(labels[first:stop])
            else:
                stop = min(stop, first + self._labels.until_change())
            self._learn(events[first:stop], labels[first:stop])
            first = stop
            if self.n_events % PERIOD == 0:
                self._upkeep.review(self._pool)
                self._fresh = None

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x of shape (d,) with label y."""
        self.learn_many(one_row(x), [y])

    def _until_new(self, labels: NDArray[Any]) -> int:
        """Return how many labels come before a new class, which is learned on its own at first."""
        known = self._classes.number
        for n, label in enumerate(labels[1:], start=1):
            if known(label) is None:
                return n
        return len(labels)

    def _learn(self, events: NDArray[np.float64], labels: Any) -> None:
        """Learn from events of which at most the first changes a scale or has a new class."""
        if self._scale.observe(events):
            self._pool.adapt(self._scale)
            self._fresh = None
        if self.is_classifier:
            numbers = self._classes.encode(labels).astype(np.float64)
            if len(self._classes) > self._pool.classes:
                keys, classes = self._pool.keys, len(self._classes)
                self._pool = self._pool.successor(keys, CLASSES, classes, self._pool.capacity)
                self._changed()
        else:
            numbers = self._standardize(labels)
        self._learn_rows(events, numbers)
        self.n_events += len(events)

    def _standardize(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return labels in units of their spread; the experts follow where that changes."""
        scale = self._labels
        center, inverse = scale.center[0], scale.inverse[0]
        if scale.observe(labels[:, None]) and self.n_events:
            factor = scale.inverse[0] / inverse
            shift = (center - scale.center[0]) * scale.inverse[0]
            self._pool.shift_labels(factor, shift)
            self._said.shift(factor, shift)
            self._fresh = None
        return np.asarray((labels - scale.center[0]) * scale.inverse[0])

    def _learn_rows(self, events: NDArray[np.float64], numbers: NDArray[np.float64]) -> None:
        from streamk.backends.numba_backend.experts import event as loops

        pool, said = self._pool, self._said
        rows = self._padded(events)
        opinions = np.empty((1, len(pool.banks), pool.outputs), np.float32)
        with self._lock:
            for i, number in enumerate(numbers.tolist()):
                name = events[i].tobytes()
                then = said.take(name)
                if then is None or name != self._fresh:
                    loops.forecast(pool.table, rows[i : i + 1], opinions, self._out)
                seen = opinions[0] if then is None else then
                loops.update(pool.table, seen, number)
                if self._errors is not None:
                    missed = number - pool.arrays["OUT"][0]
                    self._errors.update(missed, seen, pool.arrays["SHARES"][0])
                self._fresh = None

    def _padded(self, events: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return events with room for columns still to come."""
        missing = self._pool.capacity - events.shape[1]
        return np.pad(events, ((0, 0), (0, missing))) if missing else events

    # Predicting

    def decision_many(self, X: ArrayLike) -> NDArray[np.float64]:
        """What the mixture says, before any decision.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN is missing.

        Returns
        -------
        float64 array of shape (n, outputs)
            The probability of the second of two classes, of each of more classes, or the number.

        Raises
        ------
        InvalidInput
            If the columns do not fit or a value is infinite.
        """
        return self._forecast(self._check(X))[0]

    def _forecast(
        self, events: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Return predictions, and the opinions (n, experts, outputs) behind them."""
        from streamk.backends.numba_backend.experts import event as loops

        if self._columns is None:
            return np.zeros((len(events), 1)), np.zeros((len(events), 0, 1), np.float32)
        pool = self._pool
        rows, out = self._padded(events), np.empty((len(events), pool.outputs))
        opinions = np.empty((len(events), len(pool.banks), pool.outputs), np.float32)

        def forecast(part: slice) -> None:
            room = pool.room()
            loops.forecast(room.table, rows[part], opinions[part], out[part])

        threads.divide(len(rows), _FLOPS * len(rows), forecast, self.threads)
        with self._lock:
            for row, said in zip(events, opinions, strict=True):
                self._said.keep(row.tobytes(), said.copy())  # not a view that keeps them all
        return self._restored(out), opinions

    def decision_one(self, x: ArrayLike) -> NDArray[np.float64]:
        """What the mixture says of one event x of shape (d,), float64 (outputs,)."""
        if self._columns is None:
            nothing: NDArray[np.float64] = self.decision_many(one_row(x))[0]
            return nothing
        from streamk.backends.numba_backend.experts import event as loops

        events, pool = self._check(one_row(x)), self._pool
        opinions = np.empty((1, len(pool.banks), pool.outputs), np.float32)
        with self._lock:
            loops.forecast(pool.table, self._padded(events), opinions, self._out)
            self._fresh = events.tobytes()
            self._said.keep(self._fresh, opinions[0])
            said: NDArray[np.float64] = self._restored(self._out.copy())[0]
        return said

    def predictions(self, F: NDArray[np.float64]) -> NDArray[Any]:
        """Predicted labels or numbers, shape (n,), where `decision_many` gave F."""
        if not self.is_classifier:
            return F[:, 0]
        self._need_classes()
        if F.shape[1] > 1:
            best = F.argmax(axis=1)
        else:
            best = ((F[:, 0] > 0.5) & (len(self.classes) > 1)).astype(np.intp)
        return self._classes.decode(best)

    def prediction(self, F: NDArray[np.float64]) -> Any:
        """Predicted label or number, where `decision_one` gave F."""
        if not self.is_classifier:
            return F[0]
        self._need_classes()
        labels = self._classes.labels
        return labels[F.argmax() if len(F) > 1 else int(len(labels) > 1 and F[0] > 0.5)]

    def probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class probabilities, shape (n, classes), where `decision_many` gave F."""
        if not self.is_classifier:
            raise InvalidInput("a regression has no class probabilities; use predict_many")
        self._need_classes()
        if len(self.classes) == 1:
            return np.ones((len(F), 1))
        return np.hstack([1.0 - F, F]) if F.shape[1] == 1 else F / F.sum(axis=1, keepdims=True)

    def predict_quantile_many(self, X: ArrayLike, levels: ArrayLike) -> NDArray[np.float64]:
        """Quantiles of the numbers to come, as running quantiles of past errors make them.

        They follow what the predictions of the stream have missed by, and are wider for an event on
        which the experts disagree (`streamk.learners.intervals`).

        Parameters
        ----------
        X : array of shape (n, d)
        levels : array of shape (m,)
            Between 0 and 1; beyond 0.005 and 0.995 the quantiles are those of these.

        Returns
        -------
        float64 array of shape (n, m)

        Raises
        ------
        InvalidInput
            If this is a classifier, a level is out of range or the columns do not fit.
        """
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if self._errors is None:
            raise InvalidInput("a classifier has no quantiles; use predict_proba_many")
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise InvalidInput(f"levels={levels!r} must lie between 0 and 1")
        predicted, opinions = self._forecast(self._check(X))
        if not self.n_events:
            return np.repeat(predicted, len(wanted), axis=1)
        errors = self._errors.quantiles(opinions, self._pool.arrays["SHARES"][0], wanted)
        return np.asarray(predicted + errors / self._labels.inverse[0])

    def predict_interval_many(self, X: ArrayLike, level: float = 0.9) -> NDArray[np.float64]:
        """Intervals that hold so large a part of the numbers to come, float64 (n, 2).

        Parameters
        ----------
        X : array of shape (n, d)
        level : float, default 0.9
            Between 0 and 0.99.

        Raises
        ------
        InvalidInput
            As for `predict_quantile_many`.
        """
        if not (isinstance(level, int | float) and 0 < level <= 0.99):
            raise InvalidInput(f"level={level!r} must lie between 0 and 0.99")
        return self.predict_quantile_many(X, [(1 - level) / 2, (1 + level) / 2])

    def _need_classes(self) -> None:
        if not len(self._classes):
            raise NotLearned("no class is known yet: learn an event first, or name the classes")

    def _check(self, X: ArrayLike) -> NDArray[np.float64]:
        return check_events(X, _FLOAT64, self._columns, missing=True)

    def _restored(self, out: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return predicted numbers in the labels' own unit."""
        if self.is_classifier:
            return out
        return np.asarray(out / self._labels.inverse[0] + self._labels.center[0])

    def shares(self, x: ArrayLike) -> dict[str, float]:
        """How much each kind of expert contributes to what is said of one event x (d,).

        Parameters
        ----------
        x : array of shape (d,)

        Returns
        -------
        dict of str to float
            Parts of 1 by kind, the largest first. The part of a mixer is its weight; within a fixed
            share an expert has its weight, within a product the size of its term.
        """
        self.decision_one(x)
        with self._lock:
            parts = self._pool.contributions()
        return dict(sorted(parts.items(), key=lambda part: -part[1]))

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here, but opinions on events without a label."""
        parts = {"scale": self._scale.state(), "labels": self._labels.state()}
        if self._errors is not None:
            parts["errors"] = self._errors.state()
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "format": self.FORMAT,
            "task": "classification" if self.is_classifier else "regression",
            "seed": self.seed,
            "n_events": self.n_events,
            "classes": list(self.classes),
            "columns": None if self._columns is None else list(self._columns),
            "pending_bytes": self.pending_bytes,
            "threads": self.threads,
        }
        if self._columns is not None:
            pool = self._pool
            own: dict[str, JSON] = {
                "type": "expert-pool",
                "format": 1,
                "capacity": pool.capacity,
                "classes": pool.classes,
                "window": [pool.count, pool.next],
            }
            parts["pool"] = State(own, pool.learned() | self._upkeep.arrays())
        return State.nest(parts, header)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the learner whose state this is.

        Raises
        ------
        StateError
            If the state is another learner's, of a newer format, or its arrays do not fit.
        """
        header: Any = state.expect(cls.TYPE, format=cls.FORMAT).header
        try:
            model = cls(
                task=header["task"],
                seed=header["seed"],
                classes=header["classes"],
                pending_bytes=header["pending_bytes"],
                threads=header["threads"],
            )
            model.n_events = int(header["n_events"])
            model._scale = RunningQuantiles.from_state(state.child("scale"))
            model._labels = RunningQuantiles.from_state(state.child("labels"))
            if not model.is_classifier:
                model._errors = ErrorQuantiles.from_state(state.child("errors"))
            if header["columns"] is not None:
                model._columns = tuple(header["columns"])
                if len(model._columns) != len(model._scale):
                    raise ValueError(f"{len(model._scale)} columns have a scale")
                model._restore(state.child("pool"))
                model._changed()
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"the header of this {cls.TYPE!r} state does not fit: {error!r}; "
                "it is damaged or was changed by hand"
            ) from error
        return model

    def _restore(self, state: State) -> None:
        header: Any = state.expect("expert-pool", format=1).header
        classes = header["classes"]
        task = (CLASSES if classes > 2 else BINARY) if self.is_classifier else NUMBERS
        self._pool = ExpertPool(
            column_keys(self._columns or ()),
            task=task,
            classes=classes,
            seed=self.seed,
            capacity=header["capacity"],
        )
        self._pool.restore(state.arrays, *header["window"])
        self._upkeep.restore(state.arrays)

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        Coefficients and weights become the means of both, by the events that each learned apart;
        the scale and the window are those of the one that learned more.

        Raises
        ------
        InvalidInput
            If the learners differ in task or seed, naming it, or `common_events` cannot be.
        """
        for name in ("is_classifier", "seed"):
            mine, others = getattr(self, name), getattr(other, name)
            if mine != others:
                raise InvalidInput(
                    f"cannot merge learners that differ in {name}: {mine!r} and {others!r}"
                )
        apart = events_apart(self, other, common_events)
        if other._columns is None:
            return
        new = tuple(name for name in other._columns if name not in (self._columns or ()))
        if new or self._columns is None:
            self.add_columns(new)
        self._classes.encode(other.classes)
        theirs = self._aligned(other)
        share = apart[1] / max(1, sum(apart))
        if share > 0.5:
            theirs.join(self._aligned(self), 1.0 - share)
            self._pool, self._labels, self._errors = theirs, other._labels, other._errors
            there = {name: place for place, name in enumerate(other._columns)}
            self._scale = other._scale.select([there.get(name) for name in self._columns or ()])
        else:
            self._pool = self._aligned(self)
            self._pool.join(theirs, share)
        self.n_events += apart[1]
        self._changed()

    def _aligned(self, other: MultiKernel) -> ExpertPool:
        """Return a learner's pool with the columns and classes of this one."""
        pool, classes = other._pool, max(2, len(self._classes))
        task = pool.task if pool.task == NUMBERS else (CLASSES if classes > 2 else BINARY)
        order = [self._classes.number(label) or 0 for label in other.classes]
        order += [n for n in range(classes) if n not in order][: pool.classes - len(order)]
        return pool.successor(self._pool.keys, task, classes, self._pool.capacity, order)
