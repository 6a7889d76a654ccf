"""The learner of many kernels: labels and scales around a mixture of experts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.backends.banks import GAUSSIAN_FEATURES, GAUSSIAN_SHARPNESS
from streamk.declared import count, reading
from streamk.errors import InvalidInput
from streamk.features.columns import Column
from streamk.features.random_features import check_seed
from streamk.learners.common.classes import (
    MOST_CLASSES,
    Choice,
    Classes,
    ClassWeights,
    Label,
    is_classification,
)
from streamk.learners.common.merging import check_mergeable, events_apart
from streamk.learners.common.options import GIVEN, check_classification
from streamk.learners.common.predictor import Decider, OneAtATime, one_row
from streamk.learners.common.prequential import (
    Prequential,
    Recorder,
    joined,
    labels_or_none,
    runs,
)
from streamk.learners.multi_kernel import binning_tables
from streamk.learners.multi_kernel.external_experts import EFFORT, ExternalExperts, default_experts
from streamk.learners.multi_kernel.intervals import checked_levels, ends, wider
from streamk.learners.multi_kernel.joining import Parts, merge
from streamk.learners.multi_kernel.label_expert import LabelExpert
from streamk.learners.multi_kernel.mixture import ExpertMixture
from streamk.learners.multi_kernel.options import GIVEN_TO_MULTI_KERNEL, OPTIONS, number_loss
from streamk.learners.multi_kernel.pending import UNBOUNDED, PendingPredictions, unequal
from streamk.learners.multi_kernel.units import (
    ClassTargets,
    NumberTargets,
    ScaledColumns,
    Targets,
    unit_change,
)
from streamk.learners.scaled import OfOneKernel
from streamk.losses import Loss
from streamk.options import documented
from streamk.scaling.labels import LabelQuantiles
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import JSON, State

Floats = NDArray[np.float64]
Scores = NDArray[np.float32]
Labels = Sequence[Any] | NDArray[Any]
_LONGEST_RUN = 128
"""Events of a run at most: its predictions are in memory at once, and an interrupt waits for its
end. Other threads wait for the end of the call."""
_OF_MEMORY = ("loss", "seed", "effort", "pending_bytes", "threads")
"""Options of the learner inside the expert of labels that are its own."""
_BLOCK = 1024
"""Events whose forecasts are in memory at once, beside those that wait for labels."""


@documented(GIVEN | GIVEN_TO_MULTI_KERNEL)
class MultiKernel(OneAtATime, Decider):
    """An online learner that chooses kernel, bandwidth, step size and memory by itself.

    A pool of experts predicts each event: linear models; Gaussian kernels at a ladder of bandwidths
    around the stream's median distance, by random features of one projection; Laplacian-like
    kernels of one column, of two, three, six and of up to 64, by random binning, with the weight of
    each kernel learned; kernel smoothers over the last 1,000 events at a ladder of sharpnesses;
    recursive least squares; and the constant kernel, which follows the labels alone: their means,
    and how often each class came where another was the last one known. All but the smoothers learn
    by several step rules at once, the linear models also by one without a rate or a unit (coin
    betting). By default a `FeatureMachine`, a kernel whose metric is learned, is one more expert,
    and takes most of the time where it helps (`external_experts`). Two stages mix their
    predictions. The mixers are fixed shares of the experts as they are and of experts made as sure
    as they may be, products of experts, and a product of these; a fixed share with rate a = 0.001
    mixes them.

    Kinds of experts without which the mixture would be as good, but for linear models and the
    constant kernel, are made inactive, and are tried again now and then; so the time of an event
    depends on the stream. Where the losses rise (a Page-Hinkley test), experts of one step rule of
    each kind begin anew, the others and the mixing take long steps again, and all are active.

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
    they were learned: mixing weighs experts and mixers by what they predicted at that time, which
    is how good they are where labels come late. Events that were not predicted are learned as if
    they had been just then.

    Raises
    ------
    InvalidInput
        If an option is out of its domain.

    Notes
    -----
    Linear models step by AdaGrad (Duchi et al. 2011), by normalised steps (Nagumo and Noda 1967)
    and by coin betting (Orabona and Pal 2016; Cutkosky and Orabona 2018). Random features and
    random binning are those of Rahimi and Recht (2007), smoothers those of Nadaraya and Watson
    (1964). Experts as sure as they may be are calibrated by an inverse temperature of the logit
    (Platt 1999). Products of experts learn their weights by gradients (Mattern 2013) or by Newton
    steps (Hazan et al. 2007). Inactive experts are specialists (Freund et al. 1997). Experts and
    mixers of late labels are weighed by their predictions then (Weinberger and Ordentlich 2002).

    Where 8 events or more are learned between the prediction of an event and its label, errors of
    neighbouring predictions resemble each other. Their correlation r is measured, and such an event
    counts as (1 - r) / (1 + r) of one, and as no less than one over the delay.

    A pending prediction takes some 230 bytes, as many for each class where there are more than two,
    and 8 a column. Of several equal events the one predicted about as long ago as labels usually
    take is learned. Pending predictions are not part of a state or a pickle.

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
    takes_missing = mixes_experts = holds_predictions = True
    _expects_labels = True

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
        memory: bool | None = None,
        clock: Column | None = None,
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
        self.loss, self.seed = number_loss(loss), check_seed(seed)
        self.threads, self.pending_bytes, self.effort = threads, pending_bytes, effort
        self.memory, self.clock = memory, clock
        self._classes = Classes(classes, max_classes)
        options.check(self.OPTIONS, self)
        self._has_default_experts = external_experts is None
        if external_experts is None:
            external_experts = default_experts(task=task, seed=seed, effort=effort)
        label_scale = LabelQuantiles(0 if self.is_classifier else 1, seed=self.seed)
        self._targets: Targets = NumberTargets(label_scale)
        if self.is_classifier:
            self._targets = ClassTargets(self._classes, label_scale)
        self._mixture = ExpertMixture(
            ExternalExperts(
                external_experts,
                is_classifier=self.is_classifier,
                memory=self._new_memory(alone=not external_experts),
            ),
            is_classifier=self.is_classifier,
            pending_bytes=pending_bytes,
        )
        if class_weight is not None:
            self._weights = ClassWeights(class_weight)
            if classes:
                self._weights.check(self.classes)
        self._inputs = ScaledColumns(RunningQuantiles(0, seed=self.seed))
        if columns is not None:
            self.add_columns(columns)

    def _new_memory(self, *, alone: bool) -> LabelExpert | None:
        """Return the expert of labels, or None where there is none.

        Inside it is a feature machine, unless the pool here is alone.
        """
        for name, given in (("memory", self.memory), ("clock", self.clock)):
            if self.is_classifier and given not in (None, False):
                raise InvalidInput(
                    f"{name}={given!r}: only models of numbers remember labels; leave it out"
                )
        if self.is_classifier or self.memory is False:
            return None
        inside = type(self)(
            task="regression",
            memory=False,
            external_experts=() if alone else None,
            **{name: getattr(self, name) for name in self.OPTIONS if name in _OF_MEMORY},
        )
        return LabelExpert(inside, self.clock)

    # What it is

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._inputs.names

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
        """A sentence for each external expert that is switched off."""
        return self._mixture.external.ended

    @property
    def drifts(self) -> tuple[int, ...]:
        """After how many events experts began anew, the last 64 times since it was made."""
        return tuple(self._mixture.upkeep.alarmed)

    @property
    def n_features(self) -> int:
        """Random features, tables of random binning, and features of external experts, in use."""
        own = GAUSSIAN_FEATURES * len(GAUSSIAN_SHARPNESS) + binning_tables.TABLES
        return own + self._mixture.external.n_features

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
        return self._inputs.scale.nbytes + self._mixture.nbytes

    @property
    def placing(self) -> dict[str, Any]:
        """Threads, and the devices and threads of external experts."""
        return {"threads": self.threads, "placings": self._mixture.external.placings}

    def for_shards(self) -> Self:
        """Return this learner, or a new one without the experts that a new one has by default.

        The labels that a shard knows are not the last ones of the stream.
        """
        remembers = self.memory is None and not self.is_classifier
        if self.n_events or not (self._has_default_experts or remembers):
            return self
        changed: dict[str, Any] = {"columns": self.columns, "classes": self.classes}
        if self._has_default_experts:
            changed["external_experts"] = ()
        return self.as_new(**changed, **({"memory": False} if remembers else {}))

    def as_new(self, **changed: Any) -> Self:
        """Return a new learner with the same options, except for those given."""
        given: dict[str, Any] = {name: getattr(self, name) for name in self.OPTIONS}
        given["task"] = "classification" if self.is_classifier else "regression"
        if "external_experts" not in changed:
            given["external_experts"] = self._mixture.external.new_ones()
        return type(self)(**given | changed)

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        keys = self._inputs.new_keys(names)
        pool = self._mixture.pool_with(keys, self._targets, self.seed, self.loss)
        self._inputs.add(names, keys)
        self._mixture.use_pool(pool, self._inputs, self.classes)

    # Predicting

    def decision_many(self, X: ArrayLike) -> Floats:
        """Outputs of the mixture for events X (n, d), before any decision, float64 (n, outputs).

        That is the probability of the second of two classes, of each of more classes, or the
        number. NaN in X is missing.
        """
        events = self._inputs.check(X)
        blocks = range(0, max(1, len(events)), _BLOCK)
        return np.concatenate([self._forecast(events[n : n + _BLOCK])[0] for n in blocks])

    def decision_one(self, x: ArrayLike) -> Floats:
        """Outputs of the mixture for one event x of shape (d,), float64 (outputs,)."""
        event = self._inputs.event(x, self._mixture.was_forecast_last)
        if self.columns is None:
            return self._targets.even(1).ravel()
        return self._targets.restored(self._mixture.forecast_one(event))

    def _forecast(self, events: Floats) -> tuple[Floats, Scores]:
        """Return outputs, and the scores (n, experts, outputs) behind them."""
        if self.columns is None:
            return self._targets.even(len(events)), np.zeros((len(events), 0, 1), np.float32)
        out, scores = self._mixture.forecast(events, self.threads)
        return self._targets.restored(out), scores

    def _probabilities(self, F: Floats) -> Floats:
        if F.shape[1] > 1:
            return np.asarray(F / F.sum(axis=1, keepdims=True))
        return np.concatenate([1.0 - F, F], axis=1)

    def predict_quantile_many(self, X: ArrayLike, levels: ArrayLike) -> Floats:
        """Quantiles of the numbers to come of events X (n, d), float64 (n, levels).

        They follow what the predictions of the stream have missed by, and are wider for an event on
        which the experts disagree (`streamk.learners.multi_kernel.intervals`). Levels lie between 0
        and 1; beyond 0.005 and 0.995 the quantiles are those of these. Before the first event is
        learned they are NaN.
        """
        mixture, errors = self._mixture, self._mixture.errors
        if errors is None:
            raise InvalidInput("a classifier has no quantiles; use predict_proba_many")
        wanted = checked_levels(levels)
        predicted, scores = self._forecast(self._inputs.check(X))
        if not self.n_events:
            return np.full((len(predicted), len(wanted)), np.nan)
        missed = errors.quantiles(scores, mixture.pool.disagreement_weights, wanted)
        missed /= self._targets.unit[1]
        if self.errors_without_labels is not None:
            missed = wider(missed, self.errors_without_labels, wanted)
        return np.asarray(predicted + missed)

    def predict_interval_many(self, X: ArrayLike, level: float = 0.9) -> Floats:
        """Intervals with so large a part of the numbers to come, up to 0.99, float64 (n, 2)."""
        return self.predict_quantile_many(X, ends(level))

    def shares(self, x: ArrayLike) -> dict[str, float]:
        """Return how much each kind of expert contributes to the prediction of one event x (d,).

        These are parts of 1 by kind, the largest first. The part of a mixer is its weight; within a
        fixed share an expert has its weight, within a product the size of its term.
        """
        self.decision_one(x)
        parts = self._mixture.pool.contributions()
        return dict(sorted(parts.items(), key=lambda part: -part[1]))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Predict without remembering it: later labels of these events find no forecast."""
        with self.lock, self._mixture.keeping(PendingPredictions(0)):
            yield

    # Learning

    def learn_many(self, X: ArrayLike, y: Labels) -> None:
        """Learn from events X (n, d), where NaN is missing, with labels y (n,), in their order.

        Labels are str, int or bool for classes, else finite numbers. Raises `InvalidInput` if a
        value is infinite or a label is not usable, naming its row; nothing is learned then.
        """
        events = self._inputs.check(X)
        self._learn_in_runs(events, self.check_labels(y, len(events)))

    def predict_then_learn_many(self, X: ArrayLike, y: Labels) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it if its label in y is not None.

        This is `predict_one`, then `learn_one`, for each event: predictions and state are the same
        bits, however a sequence of events is divided into calls. A label that is None may be
        learned later. `InvalidInput` is raised as by `learn_many`.
        """
        events = self._inputs.check(X)
        labels, known = labels_or_none(self, y, len(events))
        recorder = Recorder(self, len(events))
        for some in runs(known):
            if known[some.start]:
                self._learn_in_runs(events[some], labels[some], recorder)
            else:
                if some.stop - some.start > 1:
                    recorder.add(self.decision_many(events[some][:-1]))
                recorder.add(self.decision_one(events[some.stop - 1])[None])
        return recorder.result()

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x of shape (d,) with label y."""
        label, mixture = self._targets.known(y), self._mixture
        if (
            label is None
            or self.columns is None
            or (self.is_classifier and label >= mixture.pool.classes)
        ):
            self.learn_many(one_row(x), [y])
            return
        event = self._inputs.event(x, mixture.was_forecast_last)
        if not self.is_classifier:
            self._learn_run(event[None], np.array([label]), None)
            return
        # What `_learn_run` does for a single event of a known class, in nine tenths of the time.
        if self._inputs.scale.observe(event[None]):
            mixture.forecast_unless_known(event)
            mixture.adapt(self._inputs.scale)
        if self._weights is not None:
            self._weights.learn([label])
        mixture.learn_one(event, y, float(label))

    def tell_and_learn_many(self, events: Floats, labels: Floats, *, anew: bool) -> Floats:
        """Predict, then learn, events (n, d) with numbers (n,); return the predictions.

        If `anew`, this is `predict_then_learn_many`; else mixing learns, as of `learn_many`, from
        what was predicted of them when that was asked for.
        """
        recorder = Recorder(self, len(events))
        self._learn_in_runs(events, labels, recorder, anew=anew)
        return np.asarray(recorder.result().predictions, np.float64)

    def _learn_in_runs(
        self,
        events: Floats,
        labels: NDArray[Any],
        recorder: Recorder | None = None,
        *,
        anew: bool = True,
    ) -> None:
        """Learn from events (n, d) with labels (n,), both checked, in runs.

        None but the first event of a run changes anything that is not in the mixture itself: the
        columns' scale, the labels' unit or the classes. With a recorder, each is predicted first,
        by what was learned of those before; if `anew`, mixing learns from that.
        """
        first = 0
        if self.columns is None:
            self.add_columns(range(events.shape[1]))
            if recorder is not None:
                # A prediction made before any column is known does not count for the weights.
                recorder.add(self._targets.even(1))
                self._learn_run(events[:1], labels[:1], None)
                first = 1
        while first < len(events):
            until = self._inputs.scale.until_change(), self._mixture.until_upkeep()
            most = min(_LONGEST_RUN, *until)
            stop = first + self._targets.until_change(labels[first : first + most])
            self._learn_run(events[first:stop], labels[first:stop], recorder, anew=anew)
            first = stop

    def _learn_run(
        self,
        events: Floats,
        labels: NDArray[Any],
        recorder: Recorder | None,
        *,
        anew: bool = True,
    ) -> None:
        """Learn from a run of events, at least one; see `_learn_in_runs`.

        Where the first one changes scale, unit or classes, it is predicted by the experts as they
        were, and then learned by those that have followed the change.
        """
        mixture, encoder, scale = self._mixture, self._targets, self._inputs.scale
        unit = encoder.unit
        scale_moved, labels_moved = scale.observe(events), encoder.observe(labels)
        predicted = recorder is not None and (scale_moved or labels_moved)
        if recorder is not None and predicted:
            with nullcontext() if anew else mixture.keeping(PendingPredictions(0)):
                recorder.add(encoder.restored(mixture.forecast_one(events[0]), unit)[None])
        if (scale_moved or labels_moved) and not (predicted and anew):
            mixture.forecast_unless_known(events[0])
        if scale_moved:
            mixture.adapt(scale)
        targets = encoder.encode(labels)
        if self.is_classifier and (labels_moved or encoder.classes > mixture.pool.classes):
            mixture.add_classes(self._inputs, self.classes)  # also what an interrupt has left
        elif labels_moved and self.n_events and not encoder.label_scale.jumped:
            mixture.shift_labels(*unit_change(unit, encoder.unit))
        mixture.external.use_unit(encoder.unit)
        # After a jump, in the new unit is predicted what was in the old one.
        predict = recorder is not None and anew
        F = mixture.learn_run(events, labels, targets, predict=predict, predicted=predicted)
        if recorder is not None or self._weights is not None:
            self._record(recorder, F, targets, int(predicted))

    def _record(self, recorder: Recorder | None, F: Floats, targets: Floats, first: int) -> None:
        """Record predictions from the first one on; the class weights take in all labels."""
        weights = self._weights
        # With each label that balanced weights take in, decisions are others.
        one_by_one = recorder is not None and weights is not None and weights.balanced
        step = 1 if one_by_one else len(F)
        for n in range(0, len(F), step):
            some = slice(max(n, first), n + step)
            if recorder is not None and some.start < some.stop:
                recorder.add(self._targets.restored(F[some]))
            if weights is not None:
                weights.learn(targets[n : n + step].tolist())

    def expect_no_labels(self) -> None:
        """Predict without the expert of labels, which misleads long after the last of them."""
        self._expects_labels = False
        vars(self).pop("errors_without_labels", None)
        if self._mixture.external.memory is not None:
            self._mixture.external.memory.active = False

    @cached_property
    def errors_without_labels(self) -> Floats | None:
        """Labels of the last events minus their present predictions without remembered labels.

        Errors along the stream say little of those to come where each label says much of the next
        one: all experts have followed the labels up to each event. The last events are as far from
        what is known now as the next ones will be. None where these are not kept: without an expert
        of labels.
        """
        memory = self._mixture.external.memory
        if self._expects_labels or memory is None or not self.n_events:
            return None
        events, labels = memory.last_events()
        with self.aside():
            return np.asarray(labels - self.decision_many(events)[:, 0])

    def compile_rare_steps(self) -> None:
        """Do what happens seldom, a review and a new beginning after drift, to have it compiled."""
        self._mixture.review()
        self._mixture.pool.restart()

    # Held events, which wait for their labels under numbers of their own, through restarts

    def predict_held_many(self, X: ArrayLike, numbers: Sequence[int]) -> Prequential:
        """Predict events (n, d) in turn; the forecasts are kept under their numbers (n,).

        Other pending predictions are one for two events that are equal, and in no state.
        """
        events, found = self._inputs.check(X), []
        for some in unequal(events):
            mixture, pending = self._mixture, PendingPredictions(UNBOUNDED)
            with mixture.keeping(pending), mixture.external.numbering(numbers[some]):
                unknown = [None] * (some.stop - some.start)
                found.append(self.predict_then_learn_many(events[some], unknown))
            mixture.held.keep(numbers[some], events[some], pending)
        return joined(found, self)

    def learn_held_many(self, X: ArrayLike, y: Labels, numbers: Sequence[int]) -> None:
        """Learn from held events one by one: by the forecasts of when they were predicted.

        An event of which there is none is learned as if it had been predicted just now. The number
        of one that was learned before, and is once more with another label, is -1.
        """
        events = self._inputs.check(X)
        labels = self.check_labels(y, len(events))
        for some in unequal(events):
            mixture = self._mixture
            waiting = mixture.held.take(numbers[some], events[some])
            with mixture.keeping(waiting), mixture.external.numbering(learned=numbers[some]):
                self.learn_many(events[some], labels[some])

    def held_predictions(self) -> dict[str, NDArray[Any]]:
        """Return the saved predictions of held events, the oldest first."""
        return self._mixture.held.arrays()

    def restore_held_predictions(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on with what `held_predictions` gave. Raises `StateError` if it does not fit."""
        memory = self._mixture.external.memory
        inside = (0, 0) if memory is None else memory.model.forecast_shape
        known = 0 if memory is None else memory.n_known
        self._mixture.held.restore(arrays, self.forecast_shape, inside, known)

    @property
    def held_dropped(self) -> int:
        """Number of held events whose predictions were dropped for lack of room."""
        return self._mixture.held.kept.dropped

    @property
    def forecast_shape(self) -> tuple[int, ...]:
        """The shape of the forecast of an event: experts and mixers, and outputs."""
        return self._mixture.pool.arrays["FORECAST"].shape if self.columns is not None else (0, 0)

    def keeping(self, pending: PendingPredictions) -> AbstractContextManager[None]:
        """Keep forecasts there for a while."""
        return self._mixture.keeping(pending)

    def join_held(self, held: PendingPredictions) -> None:
        """Have these be the forecasts of held events from now on."""
        self._mixture.held.kept = held

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here, but not what waits for its label."""
        return self._state(lent=False)

    def lent_state(self) -> State:
        """Return `state()` for whoever writes it down before this learns again: cells are lent."""
        return self._state(lent=True)

    def _state(self, *, lent: bool) -> State:
        parts = {"scale": self._inputs.scale.state(), "labels": self._targets.label_scale.state()}
        if self._weights is not None:
            parts["weights"] = self._weights.state()
        return State.nest(parts | self._mixture.parts(lent=lent), self._header())

    @classmethod
    def from_state(
        cls, state: State, *, threads: int | None = None, placings: Sequence[Mapping[str, Any]] = ()
    ) -> Self:
        """Return the learner of a state.

        `placings` are those of the external experts. Raises `StateError` if the state is another
        learner's or its arrays do not fit.
        """
        header: Any = state.expect(cls.TYPE).header
        with reading(cls._owner()):
            model = cls._new({**header, "columns": None}, external_experts=(), threads=threads)
            model._mixture.n_events = count(header, "n_events", cls._owner())
            if model.is_classifier and model.n_events and not model.classes:
                raise ValueError("events were learned, but no class is known")
            model._inputs = ScaledColumns.from_state(state.child("scale"), header["columns"])
            model._targets.label_scale = LabelQuantiles.from_state(state.child("labels"))
            if model.is_classifier and "weights" in header["parts"]:
                model._weights = ClassWeights.from_state(state.child("weights"))
            known = model._inputs, model.classes
            model._mixture.restore(state, *known, model.seed, model.loss, placings)
            model._mixture.external.use_unit(model._targets.unit)
        return model

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        Coefficients and weights become the means of both, by the events that each learned apart;
        the scale and the window are those of the one that learned more, into which the other is
        converted as far as there is a map (`streamk.learners.multi_kernel.joining`).
        """
        self._merge(other, common_events, None)

    def merge_replica(self, other: Self, common_events: int, common: Callable[[], Self]) -> None:
        """Do `merge`, but for the cells of random binning; `common` returns what both were.

        A cell has the mean of what both learned by their sums of squared slopes since then: one
        that a single learner has met is what that one made of it, where the mean by events would
        take back half.
        """
        self._merge(other, common_events, common())

    def _merge(self, other: Self, common_events: int, common: Self | None) -> None:
        must = "is_classifier", "class_weight", "external_experts", *options.shared(self.OPTIONS)
        check_mergeable(self, other, must)
        apart = events_apart(self, other, common_events)
        if other.columns is None:
            return
        known = self.columns or ()
        new = tuple(name for name in other.columns if name not in known)
        if new or self.columns is None:
            self.add_columns(new)
        order = self._classes.add(other.classes).tolist()
        if self._weights is not None and other._weights is not None:
            self._weights.merge(other._weights, apart[1] / max(1, sum(apart)), order, apart[1])
        both = np.array([name in other.columns and name in known for name in self.columns or ()])
        began = None if common is None or common.columns is None else common._parts()
        merge(self._parts(), other._parts(), began, both, common_events)
        self._mixture.external.use_unit(self._targets.unit)

    def _parts(self) -> Parts:
        return Parts(self._mixture, self._inputs, self._targets, self._classes)
