"""The learner of many kernels: labels and scales around a mixture of experts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.backends import BINARY, CLASSES, LARGEST, NUMBERS
from streamk.declared import count
from streamk.errors import InvalidInput, StateError
from streamk.features.columns import Column, column_keys
from streamk.features.random_features import check_events, check_seed
from streamk.learners.common.classes import (
    MOST_CLASSES,
    Choice,
    Classes,
    ClassWeights,
    Label,
    is_classification,
    is_number,
)
from streamk.learners.common.merging import check_mergeable, events_apart
from streamk.learners.common.options import GIVEN, check_classification
from streamk.learners.common.predictor import Decider, OneAtATime, one_row
from streamk.learners.common.prequential import Prequential, Recorder, labels_or_none, runs
from streamk.learners.multi_kernel import pool_growth, tables
from streamk.learners.multi_kernel.expert_pool import ExpertPool
from streamk.learners.multi_kernel.external_experts import (
    EFFORT,
    ExternalExperts,
    default_experts,
)
from streamk.learners.multi_kernel.intervals import ErrorQuantiles, checked_levels, ends
from streamk.learners.multi_kernel.joining import InScale, rescale, unit_change
from streamk.learners.multi_kernel.mixture import ExpertMixture
from streamk.learners.multi_kernel.options import GIVEN_TO_MULTI_KERNEL, OPTIONS
from streamk.learners.multi_kernel.pending import UNBOUNDED, PendingPredictions, unequal
from streamk.learners.multi_kernel.tables import FURTHEST, number_loss
from streamk.learners.multi_kernel.upkeep import PERIOD
from streamk.learners.scaled import OfOneKernel
from streamk.losses import Loss
from streamk.options import documented
from streamk.scaling.labels import LabelQuantiles
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import JSON, State

FLOAT64 = np.dtype(np.float64)
_AT_ONCE = 128
"""Events that are learned before another thread that wants to predict gets its turn."""
_BLOCK = 1024
"""Events whose predictions are in memory at once, beside those that are kept."""


@documented(GIVEN | GIVEN_TO_MULTI_KERNEL)
class MultiKernel(OneAtATime, Decider):
    """An online learner that chooses kernel, bandwidth, step size and memory by itself.

    A pool of experts predicts each event: linear models; Gaussian kernels at a ladder of bandwidths
    around the stream's median distance, by random features of one projection; Laplacian-like
    kernels of one column, of two, three, six and of up to 64, by random binning, with the weight of
    each kernel learned; kernel smoothers over the last 1,000 events at a ladder of sharpnesses;
    recursive least squares; and the constant kernel, which follows the labels alone. All but the
    smoothers learn by several step rules at once, the linear models also by one without a rate or a
    unit (coin betting). By default a `FeatureMachine`, a kernel whose metric is learned, is another
    one, and takes most of the time where it is of use (`external_experts`). Two stages mix their
    predictions. The mixers are fixed shares of the experts as they are and of experts made as sure
    as they may be, products of experts, and a product of these; a fixed share with rate a = 0.001
    mixes them.

    Kinds of experts without which the mixture would be as good are made inactive, and are tried
    again now and then; so the time of an event depends on the stream. Where the losses rise (a
    Page-Hinkley test), experts of one step rule of each kind begin anew, the others and the mixing
    take long steps again, and all are active.

    Over T events whose labels come at once the sum of the losses is at most that of any sequence of
    M experts or mixers with k changes among them, plus four times ``(k + 1) ln M - k ln a - (T - 1
    - k) ln(1 - a)`` at each of the two stages, in units of the log loss, of predictions held to at
    least 1e-4 (Herbster and Warmuth 1998, Theorem 1, with learning rate 1/4; a restart of the
    second stage is one change more). For numbers the loss is that of `loss` in units of the labels'
    spread, up to 16, and the guarantee is for -4 ln of the mean of exp(-loss / 4) in place of the
    mixture's loss.

    Columns are scaled by running quantiles, so that heavy tails and single huge values do no harm;
    a missing value (NaN) is the column's median to some experts and a bin of its own to others.

    What is learned depends on the events, their order, and on which of them were predicted before
    they were learned: mixing weighs experts and mixers by what they said at the time of the
    prediction, which is how good they are where labels come late. Events that were not predicted
    are learned as if they had been just then.

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
    OPTIONS = OPTIONS
    THRESHOLD = 0.5
    takes_missing = True
    mixes_experts = True
    holds_predictions = True

    def __init__(
        self,
        *,
        task: str = "classification",
        loss: str | Loss | None = None,
        seed: int = 0,
        columns: Sequence[Column] | None = None,
        classes: Sequence[Label] = (),
        max_classes: int = MOST_CLASSES,
        class_weight: Choice | None = None,
        external_experts: Sequence[OfOneKernel] | None = None,
        effort: float | None = EFFORT,
        pending_bytes: int = 8 << 20,
        threads: int | None = None,
    ) -> None:
        self.is_classifier = is_classification(task)
        if not self.is_classifier:
            check_classification(classes=classes, class_weight=class_weight)
        if loss is not None and self.is_classifier:
            raise InvalidInput(
                f"loss={loss!r}: this option is for numbers; leave it out or say task='regression'"
            )
        self.loss = number_loss(loss)
        self.seed = check_seed(seed)
        self.threads, self.pending_bytes, self.effort = threads, pending_bytes, effort
        self._classes = Classes(classes, max_classes)
        options.check(self.OPTIONS, self)
        self._has_default_experts = external_experts is None
        if external_experts is None:
            external_experts = default_experts(task=task, seed=seed, effort=effort)
        self._mixture = ExpertMixture(
            ExternalExperts(external_experts, is_classifier=self.is_classifier),
            is_classifier=self.is_classifier,
            pending_bytes=pending_bytes,
        )
        if class_weight is not None:
            self._weights = ClassWeights(class_weight)
            if classes:
                self._weights.check(self.classes)
        self._labels = LabelQuantiles(0 if self.is_classifier else 1, seed=self.seed)
        self._scale = RunningQuantiles(0, seed=self.seed)
        self._shape: tuple[int, ...] = ()
        if columns is not None:
            self.add_columns(columns)

    # What it is

    @property
    def class_weight(self) -> Choice | None:
        """The cost of missing each class, as it was chosen."""
        return None if self._weights is None else self._weights.choice

    @property
    def n_events(self) -> int:
        """Events learned."""
        return self._mixture.n_events

    @property
    def external_experts(self) -> list[dict[str, JSON]]:
        """The options of the learners that were given to join the experts."""
        return self._mixture.external.options

    @property
    def ended(self) -> tuple[str, ...]:
        """A sentence for each external expert that rests for good."""
        return self._mixture.external.ended

    def for_shards(self) -> Self:
        """Return this learner, or a new one without the experts that a new one has by default."""
        if not (self._has_default_experts and self.n_events == 0):
            return self
        return type(self)(
            **{name: getattr(self, name) for name in self.OPTIONS},
            task="classification" if self.is_classifier else "regression",
            columns=self._columns,
            classes=self.classes,
            external_experts=(),
        )

    @property
    def drifts(self) -> tuple[int, ...]:
        """After how many events experts began anew because of drift: the last 64 times.

        Those before the model was made from a state are not among them.
        """
        return tuple(self._mixture.upkeep.alarmed)

    @property
    def n_features(self) -> int:
        """Random features, tables of random binning, and features of external experts, in use."""
        own = tables.FEATURES * len(tables.SHARPNESS) + tables.TABLES
        return own + self._mixture.external.n_features

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
        pool = self._mixture.pool.nbytes if self._columns is not None else 0
        return pool + self._scale.nbytes + self._mixture.nbytes

    # Columns and classes

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        known = self._columns or ()
        keys = column_keys(names)
        if self._columns is None:
            pool = self._new_pool(keys)
        else:
            pool = self._mixture.pool
            twice = np.isin(keys, pool.keys)
            if twice.any():
                raise InvalidInput(f"column {names[int(twice.argmax())]!r} is there already")
            if names:
                pool = pool_growth.with_columns(pool, keys)
        self._columns = (*known, *names)
        self._scale.add_columns(len(names))
        self._take(pool)

    def _new_pool(self, keys: NDArray[np.uint64]) -> ExpertPool:
        task = NUMBERS if not self.is_classifier else BINARY
        task = CLASSES if len(self._classes) > 2 else task
        classes = max(2, len(self._classes))
        return ExpertPool(
            keys,
            task=task,
            classes=classes,
            seed=self.seed,
            loss=self.loss,
            external_experts=self._mixture.external.names,
            cells=tables.most_after(self.n_events),
        )

    def _take(self, pool: ExpertPool) -> None:
        """Go on with a new pool, which gets the scale."""
        self._shape = (len(self._columns or ()),)
        self._mixture.take(pool, self._columns or (), self.classes, self._scale)

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
        self._learn_events(events, self.check_labels(y, len(events)))

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict each event in turn, then learn it if its label is known.

        This is `predict_one`, then `learn_one`, for each event: predictions and state are the same
        bits, however a sequence of events is divided into calls.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN is missing.
        y : sequence of n labels, as of `learn_many`, or None
            Where it is None the event is predicted only; its label may be learned later.

        Returns
        -------
        Prequential
            Predicted labels or numbers (n,), and the probabilities (n, classes) of classes.

        Raises
        ------
        InvalidInput
            If a value is infinite or a label is of no use, naming its row; nothing is learned.
        """
        events = self._check(X)
        labels, known = labels_or_none(self, y, len(events))
        recorder = Recorder(self, len(events))
        for some in runs(known):
            if known[some.start]:
                self._learn_events(events[some], labels[some], recorder)
            else:
                recorder.add(self._predict_in_turn(events[some]))
        return recorder.result()

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x of shape (d,) with label y."""
        if self.is_classifier:
            number: Any = self._classes.number(y)
        else:
            number = y if is_number(y) else None
        if number is None or not self._takes(x):
            self.learn_many(one_row(x), [y])
            return
        mixture, moved = self._mixture, self._scale.observe(x[None])
        if self.is_classifier:
            if moved:
                mixture.forecast_unasked(x)
                mixture.adapt(self._scale)
        else:
            label, old = np.array([number], FLOAT64), self._unit
            turned = self._labels.observe(label[:, None])
            if moved or turned:
                mixture.forecast_unasked(x)
            if moved:
                mixture.adapt(self._scale)
            if turned:
                self._follow_unit(old)
            number = self._standardized(label)[0]
        number = float(number)
        if self._weights is not None:
            self._weights.learn([number])
        mixture.learn_one(x, number)

    def _learn_events(
        self,
        events: NDArray[np.float64],
        labels: NDArray[Any],
        recorder: Recorder | None = None,
    ) -> None:
        """Learn from events (n, d) with labels (n,), both checked, in runs.

        None but the first event of a run changes anything that is not in the mixture itself: the
        columns' scale, the labels' unit or the classes. With a recorder, each is predicted first,
        by what was learned of those before.
        """
        first = 0
        if self._columns is None:
            self.add_columns(range(events.shape[1]))
            if recorder is not None:
                # A prediction made before any column is known does not count for the weights.
                recorder.add(self._even(1))
                self._learn(events[:1], labels[:1], None)
                first = 1
        while first < len(events):
            most = min(_AT_ONCE, self._scale.until_change(), self._mixture.until_step())
            stop = min(len(events), first + most)
            if self.is_classifier:
                stop = first + self._until_new(labels[first:stop])
            else:
                stop = min(stop, first + self._labels.until_change(labels[first:stop]))
            self._learn(events[first:stop], labels[first:stop], recorder)
            first = stop

    def _until_new(self, labels: NDArray[Any]) -> int:
        """Return how many labels come before a new class, which is learned on its own at first."""
        if self._classes.contains_all(labels[1:]):
            return len(labels)
        known = self._classes.number
        return next(n for n, label in enumerate(labels) if n and known(label) is None)

    def _learn(
        self, events: NDArray[np.float64], labels: NDArray[Any], recorder: Recorder | None
    ) -> None:
        """Learn from a run of events, at least one; see `_learn_events`."""
        mixture, old = self._mixture, self._unit
        moved = self._scale.observe(events)
        if self.is_classifier:
            turned = self._classes.number(labels[0]) is None
        else:
            turned = self._labels.observe(labels[:, None])
        predicted = recorder is not None and (moved or turned)
        if recorder is not None and predicted:
            # By the pool that does not follow yet.
            recorder.add(self._restored(mixture.forecast_one(events[0]), old)[None])
        elif moved or turned:
            mixture.forecast_unasked(events[0])
        if moved:
            mixture.adapt(self._scale)
        if self.is_classifier:
            numbers = self._encode(labels)
        else:
            if turned:
                self._follow_unit(old)
            numbers = self._standardized(labels)
        F = mixture.learn(events, numbers, asked=recorder is not None, predicted=predicted)
        if recorder is not None:
            self._record(recorder, self._restored(F), numbers, int(predicted))
        elif self._weights is not None:
            self._weights.learn(numbers.tolist())

    def _record(
        self,
        recorder: Recorder,
        F: NDArray[np.float64],
        numbers: NDArray[np.float64],
        first: int,
    ) -> None:
        """Record predictions from the first one on; the class weights take in all labels."""
        if self._weights is None or not self._weights.balanced:
            if first < len(F):
                recorder.add(F[first:])
            return
        for n, number in enumerate(numbers.tolist()):  # with each label decisions are others
            if n >= first:
                recorder.add(F[n : n + 1])
            self._weights.learn([number])

    def _encode(self, labels: NDArray[Any]) -> NDArray[np.float64]:
        """Return the numbers of the classes; the experts follow where there are new ones."""
        numbers = self._classes.encode(labels).astype(np.float64)
        classes, mixture = len(self._classes), self._mixture
        if classes > mixture.pool.classes:
            self._take(pool_growth.with_classes(mixture.pool, classes))
        elif mixture.external.lacks_classes(classes):
            mixture.external.update_columns_and_classes(
                self._columns or (), self.classes, self._scale
            )
        return numbers

    # The unit of the labels

    @property
    def _unit(self) -> tuple[float, float]:
        """Center and inverse scale of the labels; of classes 0 and 1."""
        if self.is_classifier:
            return 0.0, 1.0
        return float(self._labels.center[0]), float(self._labels.inverse[0])

    def _follow_unit(self, old: tuple[float, float]) -> None:
        """Convert the experts to a changed unit of the labels."""
        if not self.n_events or self._labels.jumped:
            return  # in the new unit is predicted what was in the old one
        self._mixture.shift_labels(*unit_change(*old, self._labels))

    def _standardized(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return labels in units of their spread."""
        center, inverse = self._unit
        return np.asarray(np.clip((labels - center) * inverse, -FURTHEST, FURTHEST))

    def _restored(
        self, out: NDArray[np.float64], unit: tuple[float, float] | None = None
    ) -> NDArray[np.float64]:
        """Return predicted numbers, which are in units of the labels' spread, in their own unit."""
        if self.is_classifier:
            return out
        center, inverse = self._unit if unit is None else unit
        return np.asarray(out / inverse + center)

    # Predicting

    def decision_many(self, X: ArrayLike) -> NDArray[np.float64]:
        """Outputs of the mixture, before any decision.

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
        events = self._check(X)
        blocks = range(0, max(1, len(events)), _BLOCK)
        return np.concatenate([self._forecast(events[n : n + _BLOCK])[0] for n in blocks])

    def _forecast(
        self, events: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Return predictions, and the scores (n, experts, outputs) behind them."""
        if self._columns is None:
            return self._even(len(events)), np.zeros((len(events), 0, 1), np.float32)
        out, scores = self._mixture.forecast(events, self.threads)
        return self._restored(out), scores

    def decision_one(self, x: ArrayLike) -> NDArray[np.float64]:
        """Outputs of the mixture for one event x of shape (d,), float64 (outputs,)."""
        if self._columns is None:
            nothing: NDArray[np.float64] = self.decision_many(one_row(x))[0]
            return nothing
        event = x if self._takes(x) else self._check(one_row(x))[0]
        return self._restored(self._mixture.forecast_one(event))

    def _predict_in_turn(self, events: NDArray[np.float64]) -> NDArray[np.float64]:
        """Outputs of the mixture for events (n, d), one or more, as `decision_one` of each."""
        if self._columns is None:
            return self._even(len(events))
        blocks = range(0, len(events) - 1, _BLOCK)
        said = [self._forecast(events[:-1][n : n + _BLOCK])[0] for n in blocks]
        return np.concatenate([*said, self.decision_one(events[-1])[None]])

    def predict_quantile_many(self, X: ArrayLike, levels: ArrayLike) -> NDArray[np.float64]:
        """Quantiles of the numbers to come, as running quantiles of past errors make them.

        They follow what the predictions of the stream have missed by, and are wider for an event on
        which the experts disagree (`streamk.learners.multi_kernel.upkeep`).

        Parameters
        ----------
        X : array of shape (n, d)
        levels : array of shape (m,)
            Between 0 and 1; beyond 0.005 and 0.995 the quantiles are those of these.

        Returns
        -------
        float64 array of shape (n, m)
            NaN before the first event is learned.

        Raises
        ------
        InvalidInput
            If this is a classifier, a level is out of range or the columns do not fit.
        """
        quantiles = self._mixture.errors
        if quantiles is None:
            raise InvalidInput("a classifier has no quantiles; use predict_proba_many")
        wanted = checked_levels(levels)
        predicted, scores = self._forecast(self._check(X))
        if not self.n_events:
            return np.full((len(predicted), len(wanted)), np.nan)
        errors = quantiles.quantiles(scores, self._mixture.pool.disagreement_weights, wanted)
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
        return self.predict_quantile_many(X, ends(level))

    def shares(self, x: ArrayLike) -> dict[str, float]:
        """Return how much each kind of expert contributes to what is said of one event x (d,).

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
        parts = self._mixture.pool.contributions()
        return dict(sorted(parts.items(), key=lambda part: -part[1]))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Predict without remembering it: later labels of these events find nothing said.

        Examples
        --------
        >>> from streamk.learners import MultiKernel
        >>> model = MultiKernel(columns=("a",), task="regression")
        >>> with model.aside():
        ...     number = model.predict_one([1.0])
        """
        with self.lock, self._mixture.keeping(PendingPredictions(0)):
            yield

    def compile_rare_steps(self) -> None:
        """Do what happens seldom, a review and a new beginning after drift, to have it compiled."""
        self._mixture.review()
        self._mixture.pool.restart()

    def _probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        if F.shape[1] > 1:
            return np.asarray(F / F.sum(axis=1, keepdims=True))
        P = np.empty((len(F), 2))
        P[:, 0], P[:, 1] = 1.0 - F[:, 0], F[:, 0]
        return P

    def _even(self, n: int) -> NDArray[np.float64]:
        """Return what is said of n events before any column is known: even odds, or 0."""
        if not self.is_classifier:
            return np.zeros((n, 1))
        classes = max(2, len(self._classes))
        return np.full((n, classes if classes > 2 else 1), 1.0 / classes)

    def _takes(self, x: Any) -> TypeGuard[NDArray[np.float64]]:
        """Return whether x is an array of one event as loops know it, with no value too large."""
        return (
            type(x) is np.ndarray
            and x.dtype is FLOAT64
            and x.shape == self._shape
            and x.flags.carray
            # What was predicted just now need not be looked at again. A sum of squares is the fast
            # way to see it otherwise; a NaN, which is missing, takes the last one.
            and (
                self._mixture.is_fresh(x)
                or bool(np.vdot(x, x) <= LARGEST**2 or not (np.abs(x) > LARGEST).any())
            )
        )

    def _check(self, X: ArrayLike) -> NDArray[np.float64]:
        return check_events(X, FLOAT64, self._columns, missing=True)

    # Held events, which wait for their labels under numbers of their own, through restarts

    def predict_held_many(self, X: ArrayLike, numbers: Sequence[int]) -> Prequential:
        """Predict events in turn; what the experts say is kept under their numbers.

        Predictions that are pending under an event's values alone are one for two events that are
        equal, and in no state. These are not, and can be saved beside the model.

        Parameters
        ----------
        X : array of shape (n, d)
            NaN is missing.
        numbers : sequence of n int
            No two of those that wait are equal.

        Returns
        -------
        Prequential
            As `predict_then_learn_many` gives it for events without labels.

        Raises
        ------
        InvalidInput
            If a value is infinite.
        """
        events, asked = self._check(X), PendingPredictions(UNBOUNDED)
        with self._mixture.keeping(asked):
            found = self.predict_then_learn_many(events, [None] * len(events))
        self._mixture.held.keep(numbers, events, asked)
        return found

    def learn_held_many(
        self, X: ArrayLike, y: Sequence[Any] | NDArray[Any], numbers: Sequence[int]
    ) -> None:
        """Learn from held events one by one: by what was said of them when they were predicted.

        An event of which nothing is kept is learned as if it had been predicted just now.

        Parameters
        ----------
        X : array of shape (n, d)
        y : sequence of n labels, as of `learn_many`
        numbers : sequence of n int
            Those that `predict_held_many` was given.

        Raises
        ------
        InvalidInput
            As `learn_many`.
        """
        events = self._check(X)
        labels = self.check_labels(y, len(events))
        for some in unequal(events):
            waiting = self._mixture.held.take(numbers[some], events[some])
            with self._mixture.keeping(waiting):
                self.learn_many(events[some], labels[some])

    def held_predictions(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return numbers (n,) of held events, the oldest first, and what is kept for each.

        That is an array (n, experts, outputs), which `state` has not.
        """
        return self._mixture.held.arrays()

    def restore_held_predictions(
        self, numbers: NDArray[np.int64], said: NDArray[np.float32]
    ) -> None:
        """Go on with what `held_predictions` gave. Raises `StateError` if it does not fit."""
        shape = self._mixture.pool.arrays["KEPT"].shape if self._columns is not None else (0, 0)
        self._mixture.held.restore(numbers, said, shape)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here, but not what waits for its label."""
        parts = {"scale": self._scale.state(), "labels": self._labels.state()}
        mixture = self._mixture
        if mixture.errors is not None:
            parts["errors"] = mixture.errors.state()
        if self._weights is not None:
            parts["weights"] = self._weights.state()
        if mixture.external:
            parts["external_experts"] = mixture.external.state()
        if self._columns is not None:
            parts["pool"] = pool_growth.state_of(mixture.pool, mixture.upkeep.arrays())
        return State.nest(parts, self._header())

    @property
    def placing(self) -> dict[str, Any]:
        """Threads, and the devices and threads of external experts."""
        return {"threads": self.threads, "placings": self._mixture.external.placings}

    @classmethod
    def from_state(
        cls,
        state: State,
        *,
        threads: int | None = None,
        placings: Sequence[Mapping[str, Any]] = (),
    ) -> Self:
        """Return the learner whose state this is.

        Parameters
        ----------
        state : State
        threads : int, optional
            All cores by default.
        placings : sequence of mappings
            Device and threads of each external expert, as of `streamk.learners.Learner.placing`.

        Raises
        ------
        StateError
            If the state is another learner's or its arrays do not fit.
        """
        state.expect(cls.TYPE)
        try:
            header: Any = state.header
            empty = {**header, "columns": None}
            model = cls._new(empty, external_experts=(), threads=threads)
            mixture = model._mixture
            mixture.n_events = count(header, "n_events", cls._owner())
            if model.is_classifier and model.n_events and not model.classes:
                raise ValueError("events were learned, but no class is known")
            model._scale = RunningQuantiles.from_state(state.child("scale"))
            model._labels = LabelQuantiles.from_state(state.child("labels"))
            if not model.is_classifier:
                mixture.errors = ErrorQuantiles.from_state(state.child("errors"))
            elif "weights" in header["parts"]:
                model._weights = ClassWeights.from_state(state.child("weights"))
            if "external_experts" in header["parts"]:
                mixture.external = ExternalExperts.from_state(
                    state.child("external_experts"),
                    is_classifier=model.is_classifier,
                    placings=placings,
                )
                mixture.external.check(tuple(header["columns"] or ()), model.classes)
            if header["columns"] is not None:
                model._columns = tuple(header["columns"])
                if len(model._columns) != len(model._scale):
                    raise ValueError(f"{len(model._scale)} columns have a scale")
                mixture.upkeep.restore(state.child("pool").arrays)
                pool = pool_growth.load(
                    state.child("pool"),
                    column_keys(model._columns),
                    classes=max(2, len(model._classes)) if model.is_classifier else None,
                    seed=model.seed,
                    loss=model.loss,
                    external_experts=mixture.external.names,
                    n_events=model.n_events,
                )
                model._take(pool)
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"the header of this {cls.TYPE!r} state does not fit: {error!r}; "
                "it is damaged or was changed by hand"
            ) from error
        return model

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        Coefficients and weights become the means of both, by the events that each learned apart;
        the scale and the window are those of the one that learned more. Labels and linear experts
        of the other are converted into that scale, exactly as far as values are not bounded in
        either. Random features and tables have no such map: where the scales differ by more than
        estimates of one stream may (a scale or distance by 30%, a center by 0.3 scales, a rank by
        0.06), they stay as the one that learned more has them, since a mean would be right in
        neither scale. So do external experts, which else merge as they do by themselves.
        """
        self._merge(other, common_events, None)

    def merge_replica(self, other: Self, common_events: int, common: Callable[[], Self]) -> None:
        """Take in what another learner learned since both were one.

        It does what `merge` does, but for the cells of random binning. A cell has the mean of what
        both learned by their sums of squared slopes since then: one that a single learner has met
        is what that one made of it, where the mean by events would take back half.

        Parameters
        ----------
        other : MultiKernel
        common_events : int
            Events that the common one had learned.
        common : callable
            Returns the one that both were, which stays as it is.

        Raises
        ------
        InvalidInput
            As `merge`.
        """
        self._merge(other, common_events, common())

    def _merge(self, other: Self, common_events: int, common: Self | None) -> None:
        names = "is_classifier", "class_weight", "external_experts", *options.shared(self.OPTIONS)
        check_mergeable(self, other, names)
        apart = events_apart(self, other, common_events)
        if other._columns is None:
            return
        known, mixture = self._columns or (), self._mixture
        new = tuple(name for name in other._columns if name not in known)
        if new or self._columns is None:
            self.add_columns(new)
        order = self._classes.add(other.classes).tolist()
        share = apart[1] / max(1, sum(apart))
        if self._weights is not None and other._weights is not None:
            self._weights.merge(other._weights, share, order, apart[1])
        there = {name: place for place, name in enumerate(other._columns)}
        places = [there.get(name) for name in self._columns or ()]
        both = np.array([name in there and name in known for name in self._columns or ()])
        began = None if common is None or common._columns is None else self._aligned(common)
        one = InScale(self._aligned(self), self._scale, self._labels)
        two = InScale(self._aligned(other), other._scale.select(places), other._labels)
        if mixture.external:
            self._merge_external(other, common_events, both, ahead=share > 0.5)
        mixture.upkeep.join(other._mixture.upkeep, share)
        if share > 0.5:
            one, two, share = two, one, 1.0 - share
            mixture.errors = copy.deepcopy(other._mixture.errors)
        before = max(self.n_events, other.n_events)
        mixture.n_events += apart[1]
        pools = [one.pool, two.pool, *([] if began is None else [began])]
        most = max(tables.most_after(self.n_events), *(pool.most_cells for pool in pools))
        for pool in pools:
            pool.add_cells(most)
        rescale(two, one, both)
        one.pool.join(two.pool, share, began)
        one.scale.join(two.scale, share, self.n_events)
        self._scale, self._labels = one.scale, copy.deepcopy(one.labels)
        self._take(one.pool)
        mixture.follow_woken()
        if self.n_events // PERIOD > before // PERIOD and mixture.pool.has_losses:
            mixture.review()

    def _merge_external(
        self, other: Self, common_events: int, both: NDArray[np.bool_], ahead: bool
    ) -> None:
        """Merge another's external experts; labels take on its scale if that learner is ahead."""
        external = self._mixture.external
        external.update_columns_and_classes(self._columns or (), self.classes, self._scale)
        theirs, unit = other._labels, (1.0, 0.0)
        if not self.is_classifier:
            unit = unit_change(theirs.center[0], theirs.inverse[0], self._labels)
        external.merge(other._mixture.external, common_events, both, unit, ahead=ahead)

    def _aligned(self, other: Self) -> ExpertPool:
        """Return a learner's pool with the columns and classes of this one.

        It is a new one even where the shapes are alike, so that it does not depend on the room that
        a pool has in memory, which is no part of its state.
        """
        mine, pool, classes = self._mixture.pool, other._mixture.pool, max(2, len(self._classes))
        task = pool.task if pool.task == NUMBERS else (CLASSES if classes > 2 else BINARY)
        order = [self._classes.number(label) or 0 for label in other.classes]
        order += [n for n in range(classes) if n not in order][: pool.classes - len(order)]
        new = pool_growth.successor(pool, mine.keys, task, classes, mine.capacity, order=order)
        new.arrays["BANK_COSTS"][...] = pool.arrays["BANK_COSTS"]
        return new
