"""Events that wait for their labels under numbers of their own, through restarts.

Predictions that are pending under an event's values alone are one for two events that are equal,
and in no state. A caller that holds events until their labels come gives each a number: the
predictions of the experts are kept under it, and can be saved beside the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.backends import threads
from streamk.errors import InvalidInput, StateError, shown
from streamk.learners.common.classes import check_labels, check_numbers, is_number
from streamk.learners.common.options import GIVEN
from streamk.learners.common.predictor import one_row
from streamk.learners.common.prequential import Prequential, Recorder, labels_or_none, runs
from streamk.learners.multi_kernel.pooled import FLOAT64, GIVEN_TO_POOLS, PendingPredictions
from streamk.learners.multi_kernel.pooled_learning import PooledLearning
from streamk.options import documented

_UNBOUNDED = 1 << 62
"""Bytes: what is moved from one place to another must not be forgotten on the way."""


class HeldLearning(PooledLearning):
    """A pool of experts that learns from held events; see `streamk.learners.MultiKernel`."""

    def predict_held_many(self, X: ArrayLike, numbers: Sequence[int]) -> Prequential:
        """Predict events in turn; what the experts say is kept under their numbers.

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
        events, asked = self._check(X), PendingPredictions(_UNBOUNDED)
        model: Any = self  # whose class has what follows
        with self._keeping(asked):
            found: Prequential = model.predict_then_learn_many(events, [None] * len(events))
        for number, event in zip(numbers, events, strict=True):
            said = asked.find(event.tobytes())
            if said is not None:
                self._held.keep(_name(number), said.copy())
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
        model: Any = self
        labels = model.check_labels(y, len(events))
        for some in _unequal(events):
            waiting = PendingPredictions(_UNBOUNDED)
            for number, event in zip(numbers[some], events[some], strict=True):
                said = self._held.take(_name(number))
                if said is not None:
                    waiting.keep(event.tobytes(), said)
            with self._keeping(waiting):
                model.learn_many(events[some], labels[some])

    def held_predictions(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return what is kept for held events, which `state` has not.

        Returns
        -------
        numbers : int64 array of shape (n,)
            The oldest first.
        said : float32 array of shape (n, experts, outputs)
        """
        kept = self._held.items()
        numbers = np.array([int.from_bytes(name, "little") for name, _ in kept], np.int64)
        if not kept:
            return numbers, np.zeros((0, 0, 0), np.float32)
        return numbers, np.stack([said for _, said in kept])

    def restore_held_predictions(
        self, numbers: NDArray[np.int64], said: NDArray[np.float32]
    ) -> None:
        """Go on with what `held_predictions` gave. Raises `StateError` if it does not fit."""
        shape = self._pool.arrays["KEPT"].shape if self._columns is not None else (0, 0)
        if len(said) and (said.shape[1:] != shape or np.isinf(said).any()):
            raise StateError(
                f"predictions of held events have the shape {said.shape[1:]}, not {shape}, or are"
                " infinite; the checkpoint is damaged or was changed by hand"
            )
        self._held.clear()
        for number, one in zip(numbers.tolist(), said, strict=True):
            self._held.keep(_name(number), one.copy())


def _name(number: int) -> bytes:
    return number.to_bytes(8, "little")


def _unequal(events: NDArray[np.float64]) -> Iterator[slice]:
    """Yield slices in which no two events are equal, one after the other.

    >>> list(_unequal(np.array([[1.0], [2.0], [1.0]])))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    first, met = 0, set[bytes]()
    for n, event in enumerate(events):
        name = event.tobytes()
        if name in met:
            yield slice(first, n)
            first, met = n, set()
        met.add(name)
    if first < len(events):
        yield slice(first, len(events))


_BLOCK = 1024
"""Events whose predictions are in memory at once, beside those that are kept."""
_FLOPS = 100_000
"""Of a forecast, about, for the decision how many threads it is worth."""


@documented(GIVEN | GIVEN_TO_POOLS)
class MultiKernel(HeldLearning):
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
        if self.is_classifier:
            self._check_first(labels[known])
        recorder = Recorder(self, len(events))
        for some in runs(known):
            if known[some.start]:
                self._learn_events(events[some], labels[some], recorder)
            else:
                recorder.add(self._predict_in_turn(events[some]))
        return recorder.result()

    def check_labels(self, y: Sequence[Any] | NDArray[Any], n: int) -> NDArray[Any]:
        """Return the labels of n events, plain labels (object) or numbers (float64).

        Raises
        ------
        InvalidInput
            If there are not n, or one is of no use, naming its row.
        """
        if len(y) != n:
            raise InvalidInput(f"{n} events came with {len(y)} labels")
        if not self.is_classifier:
            return check_numbers(y, n)
        labels = check_labels(y)
        self._classes.check(labels)
        self._check_first(labels)
        return labels

    def _check_first(self, labels: NDArray[Any]) -> None:
        """Raise InvalidInput if the first label ever leaves a class that has a weight no room."""
        if self._weights is not None and not len(self._classes):
            known = self._classes.first(labels)
            if known:
                self._weights.check(known)

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x of shape (d,) with label y."""
        if self.is_classifier:
            number: Any = self._classes.number(y)
        else:
            number = y if is_number(y) else None
        if number is None or not self._takes(x):
            self.learn_many(one_row(x), [y])
            return
        moved = self._scale.observe(x[None])
        if self.is_classifier:
            if moved:
                self._forecast_unasked(x)
                self._follow_columns()
        else:
            label, old = np.array([number], FLOAT64), self._unit
            turned = self._labels.observe(label[:, None])
            if moved or turned:
                self._forecast_unasked(x)
            if moved:
                self._follow_columns()
            if turned:
                self._follow_unit(old)
            number = self._standardized(label)[0]
        self._learn_row(x, float(number))

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
        pool = self._pool
        rows, out = self._padded(events), np.empty((len(events), pool.outputs))
        said = pool.kept(len(events))
        scores = said[:, : pool.experts]
        if self._external:
            scores[:, pool.experts - len(self._external) :] = self._external.outputs(
                events, pool.outputs
            )

        def forecast(part: slice) -> None:
            with pool.room() as table:
                self._loops.forecast(table, rows[part], said[part], out[part])

        threads.divide(len(rows), _FLOPS * len(rows), forecast, self.threads)
        self._settle()
        for row, kept in zip(events, said, strict=True):
            self._pending.keep(row.tobytes(), kept.copy())
        return self._restored(out), scores

    def decision_one(self, x: ArrayLike) -> NDArray[np.float64]:
        """Outputs of the mixture for one event x of shape (d,), float64 (outputs,)."""
        if self._columns is None:
            nothing: NDArray[np.float64] = self.decision_many(one_row(x))[0]
            return nothing
        event = x if self._takes(x) else self._check(one_row(x))[0]
        return self._restored(self._forecast_event(event))

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
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if self._errors is None:
            raise InvalidInput("a classifier has no quantiles; use predict_proba_many")
        if wanted.ndim != 1 or not ((wanted > 0) & (wanted < 1)).all():
            raise InvalidInput(f"levels={shown(levels)} must lie between 0 and 1")
        predicted, scores = self._forecast(self._check(X))
        if not self.n_events:
            return np.full((len(predicted), len(wanted)), np.nan)
        errors = self._errors.quantiles(scores, self._pool.disagreement_weights, wanted)
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
            raise InvalidInput(f"level={shown(level)} must lie between 0 and 0.99")
        return self.predict_quantile_many(X, [(1 - level) / 2, (1 + level) / 2])

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
        parts = self._pool.contributions()
        return dict(sorted(parts.items(), key=lambda part: -part[1]))
