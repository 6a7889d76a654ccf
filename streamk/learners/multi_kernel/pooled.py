"""The parts of a learner with a pool of experts: columns, classes, scales, state, merging."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk import options
from streamk.backends import BINARY, CLASSES, LARGEST, NUMBERS, loops
from streamk.declared import count, listed
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
)
from streamk.learners.common.merging import check_mergeable, events_apart
from streamk.learners.common.options import MAX_CLASSES, SEED, THREADS, check_classification
from streamk.learners.common.predictor import Decider, OneAtATime
from streamk.learners.multi_kernel import pool_growth, tables
from streamk.learners.multi_kernel.expert_pool import ExpertPool
from streamk.learners.multi_kernel.external_experts import ExternalExperts, default_experts
from streamk.learners.multi_kernel.tables import loss_from_json, number_loss
from streamk.learners.multi_kernel.upkeep import (
    PERIOD,
    ErrorQuantiles,
    Scaled,
    Upkeep,
    rescale,
    unit_change,
)
from streamk.learners.scaled import OfOneKernel
from streamk.losses import Loss
from streamk.options import Made, Option, Whole
from streamk.scaling.labels import LabelQuantiles
from streamk.scaling.quantiles import RunningQuantiles
from streamk.state import JSON, State


class PendingPredictions:
    """Predictions of the experts for the events predicted last, by event.

    A label often comes long after its event had to be predicted. Experts that follow the last
    labels, and mixers whose weights do, look better at the time of the label than they were at the
    time of the prediction, so what they are weighed by is what they said then (Weinberger and
    Ordentlich 2002). That of an expert that was inactive then is NaN.

    Parameters
    ----------
    budget : int
        Memory, in bytes; the oldest are forgotten first. At least one is kept.

    Examples
    --------
    >>> import numpy as np
    >>> said = PendingPredictions(1000)
    >>> said.keep(b"event", np.array([0.5]))
    >>> said.take(b"event"), said.take(b"event")
    (array([0.5]), None)
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: OrderedDict[bytes, NDArray[Any]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, event: bytes) -> bool:
        return event in self._kept

    def keep(self, event: bytes, scores: NDArray[Any]) -> None:
        """Keep predictions, an array that the caller does not use again."""
        old = self._kept.pop(event, None)
        self.nbytes += scores.nbytes + len(event)
        if old is not None:
            self.nbytes -= old.nbytes + len(event)
        self._kept[event] = scores
        while self.nbytes > self._budget and len(self._kept) > 1:
            first, forgotten = self._kept.popitem(last=False)
            self.nbytes -= forgotten.nbytes + len(first)

    def find(self, event: bytes) -> NDArray[Any] | None:
        """Return the predictions for an event, which stay; None where there are none."""
        return self._kept.get(event)

    def items(self) -> list[tuple[bytes, NDArray[Any]]]:
        """Return all events and the predictions for each, the oldest first."""
        return list(self._kept.items())

    def take(self, event: bytes) -> NDArray[Any] | None:
        """Remove and return the predictions for an event; None where there are none."""
        if not self._kept:
            return None
        scores = self._kept.pop(event, None)
        if scores is not None:
            self.nbytes -= scores.nbytes + len(event)
        return scores

    def shift(self, factor: float, shift: float) -> None:
        """Follow labels that from now on are ``factor * label + shift`` of what they were."""
        for scores in self._kept.values():
            scores *= factor
            scores += shift

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.nbytes = 0


FLOAT64 = np.dtype(np.float64)


_LOSS = """Of numbers. Errors e are in units of the labels' spread, a standard deviation if they
are normal. By default experts learn Huber's loss with delta 3 and the mixing loses 2 abs(e), which
is for the mean absolute error.

- "squared", for the root of the mean squared error: experts' steps are as long as errors,
  up to 20, and the mixing loses e^2 / 4. Its weights move by exp(-e^2 / 16), which is
  concave up to the root of 8.
- "huber", with ``delta`` from 0.1 to 20, 1 by default: no step is for more than delta, so a
  small one learns slowly; the mixing loses 2 / delta, and at least 1/2, times Huber's loss.
- "quantile", with ``q`` from 0.005 to 0.995, the median by default: predictions are the
  quantile. The mixing and the first step rule of each kind of experts descend the pinball
  loss, in units of recent errors; the others learn the mean. A tracker of the quantile of
  its errors is added to what each expert says. The mixing loses 4 times the pinball loss.

One with a parameter is ``streamk.losses.loss("quantile", q=0.9)``, say."""
_CLASS_WEIGHT = """What it costs to miss each class: positive weights by label, 1 for those left
out. What is predicted is then the class with the largest product of weight and probability, so
that the expected weighted error is the least (Elkan 2001); learning and probabilities stay as they
are. "balanced" takes one over the share of the class among the last labels (10,000, and
exponentially fewer of those before), at least 0.005, so that all classes count alike. The weight
of a label that never comes changes nothing: on a stream it may still come. Where `classes` are
given, or the first label is a boolean, it must be one of the classes."""
_EXTERNAL_EXPERTS = """Learners that join the experts: their predictions are mixed like those of
the others. By default that is a `FeatureMachine` of this task and seed, which rests for good where
columns and classes, together, are more than 256; an empty sequence is for none, which is several
times as fast. They must be new; copies learn. They see the columns in units of their spread, with
the median where a value is missing, and the median distance of two events is the root of 2.
Numbers are in the labels' spread. They go on as they are where the losses rise. One whose
predictions overflow begins anew. Beside the mixture of all experts there is then that without
external ones, as it would be if there were none, and it is predicted by the one whose loss over
the last thousand events or so was smaller, unless it has made more errors.

A `FeatureMachine` rests where the others' loss is less than 2% above that of all, and does not
come closer to that: it is looked at after each 1,024 events, rests for 8,192 at first and twice as
many each time, without an end, and is tried again for 3,072. All others are always active."""
GIVEN_TO_POOLS: dict[str, Option] = {
    "external_experts": Option(type="sequence of learners of one kernel", doc=_EXTERNAL_EXPERTS),
}
"""Parameters of a pool that are no options of its state."""


class Pooled(OneAtATime, Decider):
    """A pool of experts with what goes with it; see `streamk.learners.MultiKernel`."""

    TYPE = "multi-kernel"
    OPTIONS: ClassVar[dict[str, Option]] = {
        "loss": Made(
            kind=Loss,
            parse=loss_from_json,
            optional=True,
            about="of numbers: squared, huber, quantile (mixed by absolute errors)",
            or_by=str,
            doc=_LOSS,
        ),
        "class_weight": Option(
            saved=False,
            about="balanced, or LABEL:WEIGHT,...; the rest 1 (all 1)",
            type='"balanced" or mapping of label to float',
            doc=_CLASS_WEIGHT,
        ),
        "max_classes": MAX_CLASSES,
        "pending_bytes": Whole(
            least=0,
            resource=True,
            about="memory for predictions without a label yet",
            doc="Memory for predictions of events whose labels are still to come; the oldest are "
            "dropped.",
        ),
        "seed": SEED,
        "threads": THREADS,
    }
    THRESHOLD = 0.5
    takes_missing = True

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
        self.threads, self.pending_bytes = threads, pending_bytes
        self.n_events = 0
        self._classes = Classes(classes, max_classes)
        options.check(self.OPTIONS, self)
        self.has_default_experts = external_experts is None
        """True if its external experts are those by default: `drop_default_experts`."""
        if external_experts is None:
            external_experts = default_experts(task=task, seed=seed)
        self._external = ExternalExperts(external_experts, is_classifier=self.is_classifier)
        if class_weight is not None:
            self._weights = ClassWeights(class_weight)
            if classes:
                self._weights.check(self.classes)
        numbers = 0 if self.is_classifier else 1
        self._labels = LabelQuantiles(numbers, seed=self.seed)
        self._columns: tuple[Column, ...] | None = None
        self._scale = RunningQuantiles(0, seed=self.seed)
        self._pending = PendingPredictions(pending_bytes)
        self._held = PendingPredictions(pending_bytes)
        """Those of held events, by their numbers."""
        self._errors = None if self.is_classifier else ErrorQuantiles()
        self._upkeep = Upkeep()
        self._pool: ExpertPool  # from the first columns on
        self._shape: tuple[int, ...] = ()
        self._fresh: bytes | None = None
        """The event whose predictions are in the pool's workspace and nowhere else yet."""
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
    def class_weight(self) -> Choice | None:
        """The cost of missing each class, as it was chosen."""
        return None if self._weights is None else self._weights.choice

    @property
    def external_experts(self) -> list[dict[str, JSON]]:
        """The options of the learners that were given to join the experts."""
        return self._external.options

    @property
    def ended(self) -> tuple[str, ...]:
        """A sentence for each external expert that rests for good."""
        return self._external.ended

    def without_default_experts(self) -> Self:
        """Return this learner, or a new one without those that `drop_default_experts` drops."""
        if not (self.has_default_experts and self.n_events == 0):
            return self
        return type(self)(
            **{name: getattr(self, name) for name in self.OPTIONS},
            task="classification" if self.is_classifier else "regression",
            columns=self._columns,
            classes=self.classes,
            external_experts=(),
        )

    def drop_default_experts(self) -> None:
        """Be as if made without external experts, if it has those by default and is new."""
        if not (self.has_default_experts and self.n_events == 0):
            return
        with self.lock:
            self.has_default_experts = False
            self._external = ExternalExperts((), is_classifier=self.is_classifier)
            if self._columns is not None:
                self._pool = self._new_pool(self._pool.keys)
                self._changed()

    @property
    def drifts(self) -> tuple[int, ...]:
        """After how many events experts began anew because of drift: the last 64 times.

        Those before the model was made from a state are not among them.
        """
        return tuple(self._upkeep.alarmed)

    @property
    def n_features(self) -> int:
        """Random features, tables of random binning, and features of external experts, in use."""
        own = tables.FEATURES * len(tables.SHARPNESS) + tables.TABLES
        return own + self._external.n_features

    @property
    def nbytes(self) -> int:
        """Memory of the model, in bytes."""
        held = self._pool.nbytes if self._columns is not None else 0
        pending = self._pending.nbytes + self._held.nbytes
        return held + self._scale.nbytes + pending + self._external.nbytes

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
            self._pool = pool_growth.with_columns(self._pool, keys)
        self._columns = (*known, *names)
        self._scale.add_columns(len(names))
        self._changed()

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
            external_experts=self._external.names,
            cells=tables.most_after(self.n_events),
        )

    def _changed(self) -> None:
        """Give a new pool the scale, and drop the predictions of the one before."""
        self._shape = (len(self._columns or ()),)
        self._tell_external()
        self._pool.adapt(self._scale)
        self._pending.clear()
        self._held.clear()
        self._fresh = None
        self._loops = loops.event

    def _tell_external(self) -> None:
        """Give the external experts the columns and classes that there are by now."""
        self._external.update_columns_and_classes(self._columns or (), self.classes, self._scale)

    def _follow_woken(self) -> None:
        """Begin the mixture of all experts anew where external ones are active after a rest."""
        if self._external and self._external.have_woken():
            self._pool.begin_full_mixing()

    # What follows from a forecast

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
                x.tobytes() == self._fresh
                or bool(np.vdot(x, x) <= LARGEST**2 or not (np.abs(x) > LARGEST).any())
            )
        )

    def _check(self, X: ArrayLike) -> NDArray[np.float64]:
        return check_events(X, FLOAT64, self._columns, missing=True)

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here, but not what waits for its label."""
        parts = {"scale": self._scale.state(), "labels": self._labels.state()}
        if self._errors is not None:
            parts["errors"] = self._errors.state()
        if self._weights is not None:
            parts["weights"] = self._weights.state()
        if self._external:
            parts["external_experts"] = self._external.state()
        header: dict[str, JSON] = {
            "type": self.TYPE,
            **options.to_header(self.OPTIONS, self),
            "task": "classification" if self.is_classifier else "regression",
            "n_events": self.n_events,
            "classes": list(self.classes),
            "columns": None if self._columns is None else list(self._columns),
        }
        if self._columns is not None:
            parts["pool"] = pool_growth.state_of(self._pool, self._upkeep.arrays())
        return State.nest(parts, header)

    @property
    def placing(self) -> dict[str, Any]:
        """Threads, and the devices and threads of external experts."""
        return {"threads": self.threads, "placings": self._external.placings}

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
            model = cls(
                **options.from_header(cls.OPTIONS, header),
                task=header["task"],
                classes=listed(header, "classes", "a multi-kernel learner"),
                external_experts=(),
                threads=threads,
            )
            model.n_events = count(header, "n_events", "a multi-kernel learner")
            if model.is_classifier and model.n_events and not model.classes:
                raise ValueError("events were learned, but no class is known")
            model._scale = RunningQuantiles.from_state(state.child("scale"))
            model._labels = LabelQuantiles.from_state(state.child("labels"))
            if not model.is_classifier:
                model._errors = ErrorQuantiles.from_state(state.child("errors"))
            elif "weights" in header["parts"]:
                model._weights = ClassWeights.from_state(state.child("weights"))
            if header["columns"] is not None:
                model._upkeep.restore(state.child("pool").arrays)
            if "external_experts" in header["parts"]:
                model._external = ExternalExperts.from_state(
                    state.child("external_experts"),
                    is_classifier=model.is_classifier,
                    placings=placings,
                )
                model._external.check(tuple(header["columns"] or ()), model.classes)
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
        self._pool = pool_growth.load(
            state,
            column_keys(self._columns or ()),
            classes=max(2, len(self._classes)) if self.is_classifier else None,
            seed=self.seed,
            loss=self.loss,
            external_experts=self._external.names,
            n_events=self.n_events,
        )

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        Coefficients and weights become the means of both, by the events that each learned apart;
        the scale and the window are those of the one that learned more. Labels and linear experts
        of the other are converted into that scale, exactly as far as values are not bounded in
        either. Random features and tables have no such map: where the scales differ by more than
        estimates of one stream may (a scale or distance by 30%, a center by 0.3 scales, a rank by
        0.06), they stay as the one that learned more has them, since a mean would be right in
        neither scale. So do external experts, which else merge as they do by themselves.

        Raises
        ------
        InvalidInput
            If the learners differ in task, loss, seed, class weights or external experts, naming
            it, or `common_events` cannot be.
        """
        self._merge(other, common_events, None)

    def merge_replica(self, other: Self, common: Self) -> None:
        """Take in what another learner learned since both were `common`, which stays as it is.

        It does what `merge` does, but for the cells of random binning. A cell has the mean of what
        both learned by their sums of squared slopes since then: one that a single learner has met
        is what that one made of it, where the mean by events would take back half.

        Raises
        ------
        InvalidInput
            As `merge`.
        """
        self._merge(other, common.n_events, common)

    def _merge(self, other: Self, common_events: int, common: Self | None) -> None:
        names = "is_classifier", "class_weight", "external_experts", *options.shared(self.OPTIONS)
        check_mergeable(self, other, names)
        apart = events_apart(self, other, common_events)
        if other._columns is None:
            return
        known = self._columns or ()
        new = tuple(name for name in other._columns if name not in known)
        if new or self._columns is None:
            self.add_columns(new)
        self._classes.add(other.classes)
        share = apart[1] / max(1, sum(apart))
        if self._weights is not None and other._weights is not None:
            order = self._classes.add(other.classes).tolist()
            self._weights.merge(other._weights, share, order, apart[1])
        there = {name: place for place, name in enumerate(other._columns)}
        places = [there.get(name) for name in self._columns or ()]
        both = np.array([name in there and name in known for name in self._columns or ()])
        began = None if common is None or common._columns is None else self._aligned(common)
        one = Scaled(self._aligned(self), self._scale, self._labels)
        two = Scaled(self._aligned(other), other._scale.select(places), other._labels)
        if self._external:
            self._merge_external(other, common_events, both, ahead=share > 0.5)
        if share > 0.5:
            one, two, share = two, one, 1.0 - share
            self._errors = copy.deepcopy(other._errors)
        before = max(self.n_events, other.n_events)
        self.n_events += apart[1]
        pools = [one.pool, two.pool, *([] if began is None else [began])]
        most = max(tables.most_after(self.n_events), *(pool.most_cells for pool in pools))
        for pool in pools:
            pool.add_cells(most)
        rescale(two, one, both)
        one.pool.join(two.pool, share, began)
        one.scale.join(two.scale, share, self.n_events)
        self._pool, self._scale, self._labels = one.pool, one.scale, copy.deepcopy(one.labels)
        self._upkeep.join(other._upkeep, apart[1] / max(1, sum(apart)))
        self._changed()
        self._follow_woken()
        if self.n_events // PERIOD > before // PERIOD:
            self._upkeep.review_joined(self._pool, self.n_events)

    def _merge_external(
        self, other: Self, common_events: int, both: NDArray[np.bool_], ahead: bool
    ) -> None:
        """Merge another's external experts; labels take on its scale if that learner is ahead."""
        self._external.update_columns_and_classes(self._columns or (), self.classes, self._scale)
        mine, theirs = self._labels, other._labels
        unit = (1.0, 0.0)
        if not self.is_classifier:
            unit = unit_change(theirs.center[0], theirs.inverse[0], mine)
        self._external.merge(other._external, common_events, both, unit, ahead=ahead)

    def _aligned(self, other: Pooled) -> ExpertPool:
        """Return a learner's pool with the columns and classes of this one.

        It is a new one even where the shapes are alike, so that it does not depend on the room that
        a pool has in memory, which is no part of its state.
        """
        pool, classes = other._pool, max(2, len(self._classes))
        task = pool.task if pool.task == NUMBERS else (CLASSES if classes > 2 else BINARY)
        order = [self._classes.number(label) or 0 for label in other.classes]
        order += [n for n in range(classes) if n not in order][: pool.classes - len(order)]
        keys, capacity = self._pool.keys, self._pool.capacity
        new = pool_growth.successor(pool, keys, task, classes, capacity, order=order)
        new.arrays["BANK_COSTS"][...] = pool.arrays["BANK_COSTS"]
        return new
