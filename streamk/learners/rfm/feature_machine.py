"""A recursive feature machine on a stream: its metric is learned anew in the background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamk import options
from streamk.backends import LATE, OF_LAGS
from streamk.declared import Domain, count, flag, listed, number, reading
from streamk.errors import StateError
from streamk.features.columns import Column, column_keys
from streamk.kernels import Kernel, Laplacian
from streamk.learners.common.classes import MOST_CLASSES, Classes, Label, classifies
from streamk.learners.common.error_watch import WINDOW
from streamk.learners.common.merging import merge_by_events
from streamk.learners.common.options import (
    GIVEN,
    MAX_CLASSES,
    SEED,
    check_classification,
    of_kernel,
)
from streamk.learners.common.supervised import Asked, Supervised
from streamk.learners.renewal import EventBuffer, Replacement
from streamk.learners.rfm.metric_tree import MetricTree
from streamk.learners.rfm.schedule import (
    MOST_COMPARED,
    Budget,
    RenewalSchedule,
    search_cost,
)
from streamk.learners.rfm.search import METRICS
from streamk.learners.rfm.solving import MetricRecipe, TrainingEvents
from streamk.losses import loss as loss_by_name
from streamk.options import Choice, Option, Real, Whole, documented
from streamk.state import State

Numbers = NDArray[Any]

_AT_FIRST = Laplacian(bandwidth=1.0)
"""The kernel until the first metric takes over, where none was given."""
_TOLERANCE = 1.02
"""Ratio of errors up to which a new function takes over: over few events the errors of two metrics
differ by chance, and that of more events is better in the long run."""
_AS_LARGE = 0.97
"""That of a function that takes no more events: its second part begins with none, and what chance
makes look better is not."""
_COMPARED, _LEAST = 2, 1_024
"""Ratio of the events that metrics are compared by and those of the solution in use, which are
taken for so many, at least: where more of them did not pay, few are compared."""
_GROWTH = 3
"""Ratio of the events of two solutions, at most, where each is made at once."""


@documented(GIVEN)
class FeatureMachine(Supervised):
    """A recursive feature machine on a stream: kernel ridge regression in a learned metric.

    A recursive feature machine (Radhakrishnan, Beaglehole, Pandit and Belkin 2024) fits kernel
    ridge regression, takes the average gradient outer product (AGOP) of the fit as the metric by
    which events are compared, and repeats that. (In batch it is in its authors' package, xRFM.)

    Here the last events are kept, and a uniform sample of older ones. From time to time a new
    function is made of these, in a background thread. Scale of the columns, kernel, bandwidth, kind
    of metric, round and regularization have the least error on held-back events: in
    cross-validation of up to 128 events; of more, the last fifth is held back, 1,000 at most.
    Families are compared on 512 events. The best of each of three kinds that is at most 3% worse
    than the best one, and the metric in use, are compared on up to 4,096, in leaves. The best one
    goes on from round to round by up to 8,192, and so do rounds that begin anew with the identity,
    which are taken unless their error is larger by 2%. Families are compared before event 9,216;
    later functions are of that of the one in use. Of a function in use that is made of few events,
    twice as many are compared by, at most. Gradients are taken at some hundred events; of five
    outputs and more they are those of the outputs' sum with random signs, of the same mean.

    Then the coefficients of the events that are kept are solved for, and those of each block of 64
    to 256 later events, until there are ``buffer_size + reservoir_size``: in the background, too,
    from some hundred events on, while the first 16 or 32 of the next block are learned. There is
    one function for all of them up to 3,584, and from then on one for each leaf of a tree
    (`streamk.learners.rfm.metric_tree`), so that an event takes the time of a leaf however
    many there are. Where more events than 512 have lowered the error by less than 3%, or up to
    8,192 have raised that of the last 1,024, as older ones mislead where a stream changes, more do
    not pay: the function is then made of 1,024, and takes no more.

    What that takes has a bound (`effort`), counted in operations, so that what is learned depends
    on the events alone: so many times what a pool of experts takes, and an opening allowance, of
    which streams of 10,000 events have all they can use with an effort of 1. When nothing is left,
    the function takes no more events, and the next one is begun when it can be paid for.

    The new function learns the events since, as the one in use does, and some events after it was
    begun, see ``swap_delay``, the two are compared by how they have predicted these before they
    learned them: by squared errors of margins, or absolute errors of numbers. The new one goes on
    if its error is at most 2% above the other's; one that takes no more events must be 3% below it.
    If it is late, learning waits, so what is learned depends on the events and their order alone.

    Where its errors rise (`streamk.learners.common.error_watch`), a function is begun anew of the
    1,536 events since then, and all families are compared for it. If it predicts the next ones
    better than the one in use, it goes on with the events since then alone.

    Where labels come 8 events late or more (`lags`), the events held back are as far from the
    others. If errors of neighbours go together there, a function does not follow the last labels:
    the solution is asked alone, each new function takes over, and where more do not pay it is made
    of 4,096 events that are spread over all.

    Between solutions, and from then on when there are no more, an event is learned at once: what
    labels differ from the function is learned as `streamk.learners.OnlineKernelRidge` does, by
    exact solutions of blocks of its equations, in the same metric with a tenth of the bandwidth, by
    some hundred centers, as far as that has lowered the error. Until the first takeover there is
    this part alone, on columns as they come. A missing value is the column's median. A column that
    comes later has no scale and no weight of its own until the next takeover.

    A new function of leaves of n events takes ``n^2 / 6`` multiplications in single precision for
    each event, and later ones take ``1024^2 / 3``. The events that are kept are ``8 d`` bytes each
    for d columns, and up to twice as much once more in the function, and in one that is made;
    factors take up to 9 MiB in each, and up to 25 while a leaf is begun.

    Attributes
    ----------
    n_takeovers : int
        New functions that went on.
    n_waits : int
        How often learning, or `state`, had to wait for one. It depends on timing, and is not part
        of the state; and so is `seconds_waited`.

    Raises
    ------
    InvalidInput
        If an option is out of its domain, or kernel and metric do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import FeatureMachine
    >>> X = np.random.default_rng(0).normal(size=(1000, 6))
    >>> y = np.where(X[:, 1] * X[:, 4] > 0, "same", "other")
    >>> model = FeatureMachine(first=256, swap_delay=128)
    >>> model.learn_many(X[:800], y[:800])
    >>> model.n_takeovers > 0, bool((model.predict_many(X[800:]) == y[800:]).mean() > 0.9)
    (True, True)
    >>> sorted(model.column_shares.argsort()[-2:].tolist())
    [1, 4]
    """

    TYPE = "feature-machine"
    dtype: np.dtype[Any] = np.dtype(np.float64)
    """Of events."""
    can_diverge = False
    can_rest = watches = True
    OPTIONS: ClassVar[dict[str, Option]] = {
        "kernel": of_kernel(
            "linear",
            "ntk",
            optional=True,
            default="compared",
            doc="By default the best one of ``Matern(nu=0.5)``, the Laplace kernel of the L2 "
            "distance, with the bandwidths 1.5 and 6, and of two products over the columns' ranks: "
            "the Laplacian, and the PowerExponential, whose functions follow steps in single "
            "columns as trees do.",
        ),
        "metric": Choice(
            choices=METRICS,
            about="diagonal, full, or the better one (auto)",
            doc="A factor for each column, or a matrix. Products over the columns have diagonal "
            'ones only. "auto" compares both up to 128 columns.',
        ),
        "rounds": Whole(
            least=0,
            about="metrics, one learned by the other, at most",
            doc="Metrics that are learned one after the other, at most; one without a smaller "
            "error is the last one. 0 is kernel ridge regression.",
        ),
        "buffer_size": Whole(
            least=64,
            about="last events that a metric is learned of",
            doc="Last events that are kept, at least 64.",
        ),
        "reservoir_size": Whole(
            about="sample of older events, for the same",
            doc="Sample of all events, of which those count that the buffer no longer has.",
        ),
        "first": Whole(
            least=64,
            about="events before the first metric is begun",
            doc="Events after which the first metric is begun, at least 64. Others are begun after "
            "twice as many events as the one before, or three times between 512 and 4,096, while "
            "that is less than what is kept.",
        ),
        "every": Whole(
            about="events between two of them",
            doc="Events between two beginnings, at most, while there are fewer than twice as many; "
            "then each begins when the stream has grown by half.",
        ),
        "swap_delay": Whole(
            about="events after which it may take over",
            doc="Events by which a new function and the one in use are compared, but at most a "
            "quarter as many as the new one is made of, and at least an eighth: a search takes "
            "longer with more events, too.",
        ),
        "max_width": Whole(
            optional=True,
            about="columns and classes above which it switches itself off (none)",
            doc="Columns and classes, together, above which it switches off: it gives up the "
            "events that it has kept and its function, keeps no more of either, and predicts even "
            "odds, or 0. So the memory of one among other experts has a bound where columns grow "
            "with the stream. None, the default, means no bound.",
        ),
        "effort": Real(
            most=1e6,
            optional=True,
            about="operations, relative to a pool of experts (no bound)",
            doc="Operations that it may spend for each event, relative to those of a pool of "
            "experts and to an opening of some two seconds of one core. Where that is "
            "spent, new functions are begun later, and the one in use takes no more events into "
            "its solution. None, the default, means no bound.",
        ),
        "seed": SEED,
        "max_classes": MAX_CLASSES,
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        task: str = "classification",
        metric: str = "auto",
        rounds: int = 4,
        buffer_size: int = 4096,
        reservoir_size: int = 28_672,
        first: int = 128,
        every: int = 16_384,
        swap_delay: int = 256,
        max_width: int | None = None,
        effort: float | None = None,
        seed: int = 0,
        columns: Sequence[Column] | None = None,
        classes: Sequence[Label] = (),
        max_classes: int = MOST_CLASSES,
    ) -> None:
        self.loss = loss_by_name("squared")
        self.is_classifier = classifies(self.loss, task)
        if not self.is_classifier:
            check_classification(classes=classes)
        self._classes = Classes(classes, max_classes)
        self.kernel, self.metric, self.rounds = kernel, metric, rounds
        self.buffer_size, self.reservoir_size = buffer_size, reservoir_size
        self.first, self.every, self.swap_delay, self.seed = first, every, swap_delay, seed
        self.max_width, self.effort = max_width, effort
        options.check(self.OPTIONS, self)
        room = buffer_size + reservoir_size
        self._recipe = MetricRecipe(kernel, metric, rounds, room, max_classes)
        self._recipe.families(2)  # raises where kernel and metric do not fit
        self._columns: tuple[Column, ...] | None = None
        self._schedule = RenewalSchedule(first, every, swap_delay, room)
        self._budget = Budget(effort)
        self.rests = False
        """It keeps events, and learns nothing of them."""
        self.is_too_wide = False
        """True if it is switched off: there are more columns and classes than `max_width`."""
        self.lags: NDArray[np.int64] | None = None
        """Lags of the next events: of how many others were learned between its prediction and its
        learning. None where each is predicted right before, and -1 where that is not known."""
        self.lag = -1.0
        """Their mean of late, -1 before the first."""
        self._until = 0
        """Event after which more may be to do than to learn, if it is still to come."""
        self._begin_empty()
        self.n_events = self.n_takeovers = self.n_waits = 0
        self.seconds_waited = 0.0
        if columns is not None:
            self.add_columns(columns)

    def _begin_empty(self) -> None:
        """Have no events, and the function of none."""
        self._recent, self._sample = self._new_buffers()
        self._function = MetricTree(
            self.kernel or _AT_FIRST,
            task=self._task,
            capacity=self._recipe.capacity,
            seed=self.seed,
            classes=self.classes,
            max_classes=self.max_classes,
        )
        self._next: Replacement[MetricTree] | None = None

    def _new_buffers(self) -> tuple[EventBuffer, EventBuffer]:
        """Return the last events and the sample, without an event."""
        sample = EventBuffer("reservoir", self.reservoir_size, self.seed)
        return EventBuffer("recent", self.buffer_size), sample

    @property
    def _task(self) -> str:
        return "classification" if self.is_classifier else "regression"

    # What it is

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of a batch, None before the first."""
        return self._columns

    @property
    def n_features(self) -> int:
        """Centers: events that others are compared with."""
        return self._function.n_centers

    @property
    def column_shares(self) -> Numbers:
        """Shares of the columns in the metric's diagonal, float64 (d,); equal ones at first."""
        return self._function.map.metric.shares

    @property
    def is_solving(self) -> bool:
        """True while a new function is being made, or waits for its event."""
        return self._next is not None

    @property
    def last_beginning(self) -> int:
        """Events after which the last new function was begun, 0 before the first."""
        return self._schedule.began

    @property
    def nbytes(self) -> int:
        """Memory of the events that are kept and of the function, in bytes."""
        return self._recent.nbytes + self._sample.nbytes + self._function.nbytes

    # Learning

    def learn_encoded(self, events: Numbers, numbers: Numbers, asked: Asked | None = None) -> None:
        """Predict and learn events that all have labels, see `Supervised.learn_encoded`."""
        if self.n_events + len(events) < self._until:
            self._learn_some(events, numbers, asked)
            return
        self._compare_if_due()
        at = 0
        while at < len(events):
            stop = min(len(events), at + self._next_event_to_act() - self.n_events)
            self._learn_some(events[at:stop], numbers[at:stop], asked and asked.part(at, stop))
            if self.n_events % WINDOW == 0:
                self._count()
            if self.watches and not self.rests:
                known = self._function.family is not None
                self._schedule.look(self.n_events, self._function.missed, is_known=known)
            self._act_if_due()
            at = stop
        self._until = self._next_event_to_act()

    _learn_labelled = learn_encoded

    def _learn_some(self, events: Numbers, numbers: Numbers, asked: Asked | None) -> None:
        """Predict and learn events with no other step among them."""
        if not self.rests:
            self._function.learn(events, numbers, asked)
        elif asked is not None:
            asked.add(self.decide_checked(asked.of(events)))
        if not self.is_too_wide:
            self._keep(events, numbers)
        self.n_events += len(events)
        if self.lag or self.lags is not None:
            self._follow_lags(len(events))

    def _follow_lags(self, n: int) -> None:
        """Take in how late the labels of n events came."""
        if self.lags is None:
            lags = n * [0]
        else:
            lags, self.lags = self.lags[:n].tolist(), self.lags[n:]
            self.lags = self.lags if len(self.lags) else None
        for lag in lags:
            if lag >= 0:
                self.lag += (lag - self.lag) * (OF_LAGS if self.lag >= 0.0 else 1.0)
            if 0.0 < self.lag < 1e-3:
                self.lag = 0.0

    def _count(self) -> None:
        """Count the operations of a window, and solve for no more events if there are none left."""
        function, active = self._function, not self.rests
        self._budget.learn(
            WINDOW,
            len(self._columns or ()),
            max(1, len(self.classes)),
            centers=function.n_centers_of_leaf * active,
            grows=function.grows and active,
        )
        if active and function.grows and not self._budget.pays(0):
            function.close()

    def _keep(self, events: Numbers, numbers: Numbers) -> None:
        """Keep events, and have the function that is being made learn them."""
        self._recent.add(events, numbers)
        self._sample.add(events, numbers)
        if self._next is not None:
            # Copies: whose the events are may write over them before the background reads them.
            self._next.learn(events.copy(), numbers.copy())

    def _next_event_to_act(self) -> int:
        """Return the next event with another step due."""
        then = self._schedule.due if self._next is None else self._next.at
        stop = self._schedule.window_end(self.n_events)
        return min(stop, then) if then > self.n_events else stop

    def _act_if_due(self) -> None:
        """Compare a new function, or begin one, if that is due at this event."""
        self._compare_if_due()
        ready = self._next is None and self.columns and not self.rests
        if ready and self._schedule.is_due(self.n_events) and self._budget.pays(self._cost):
            changed = self._schedule.changed
            of = self.last_events(self.n_events - changed) if changed else self._kept()
            self._begin(*of, anew=changed > 0)

    @property
    def _n_kept(self) -> int:
        """Events that are kept."""
        return min(self._recent.seen, self.buffer_size + self.reservoir_size)

    @property
    def _compared(self) -> int:
        """Events by which metrics of a new function are compared."""
        most = _COMPARED * max(_LEAST, self._function.n_solved)
        return min(self._n_kept, most, MOST_COMPARED)

    @property
    def _cost(self) -> int:
        """Operations of a new function of the events that are kept."""
        d, outputs = len(self._columns or ()), max(1, len(self.classes))
        families = 1 if self._schedule.is_family_fixed else len(self._recipe.families(d))
        return search_cost(self._n_kept, self._compared, d, outputs, families)

    def learn_again(self, events: Numbers, labels: Numbers) -> None:
        """Learn events that others predicted, as of `learn_encoded`, as the first ones.

        A function is made once, with the event after them, and taken over with the next one.
        """
        self._schedule.start, self._until = max(self.first, len(events) + 1), 0
        self.lags = np.full(len(events), -1)
        self.learn_encoded(events, labels)

    def last_events(self, most: int) -> tuple[Numbers, Numbers]:
        """Return so many of the last events that are kept (n, d), or all, and their labels."""
        return self._recent.events(self._recent.seen - most)

    # Resting

    def rest(self) -> None:
        """From now on keep events alone: the function stays, and no new one is made."""
        self.rests, self._next, self._until = True, None, 0

    def _end_if_too_wide(self) -> None:
        """Switch off where there are too many columns and classes."""
        width = len(self._columns or ()) + len(self.classes)
        if self.is_too_wide or self.max_width is None or width <= self.max_width:
            return
        self.is_too_wide = self.rests = True
        self._begin_empty()
        if self._columns:
            self._function.extend(len(self._columns))

    def wake(self) -> None:
        """Learn again, and begin a new function of the last events, as many as the buffer has.

        It does nothing if `is_too_wide`.
        """
        if self.is_too_wide:
            return
        self.rests = False
        if self.columns and self.n_events >= self.first:
            self._begin(*self._recent.events())

    def _kept(self) -> tuple[Numbers, Numbers]:
        """Return the events that are kept, the sample's first, and their labels."""
        older = self._sample.events(until=self._recent.seen - len(self._recent))
        X, y = map(np.concatenate, zip(older, self._recent.events(), strict=True))
        return X, y

    def _begin(self, X: Numbers, y: Numbers, *, anew: bool = False) -> None:
        """Begin a function of these events in the background: anew, of those since errors rose.

        The search for its metric is in `streamk.learners.rfm.solving.TrainingEvents.fit`.
        """
        self._until = 0
        self._budget.spend(self._cost)
        self._schedule.begin(self.n_events, anew=anew)
        self._function.missed = 0.0
        seed = int(np.random.SeedSequence([self.seed, self.n_events]).generate_state(1)[0])
        targets = self._function.targets(y)
        events = TrainingEvents(X, y, targets, self.classes, self._task, seed)
        known = self._function
        recipe = replace(self._recipe, errors=known.errors, known=known.solved_with)
        recipe = replace(recipe, compared=self._compared, lag=self.lag if self.lag >= LATE else 0)
        if self._schedule.is_family_fixed:
            recipe = replace(recipe, is_family_fixed=True, most=_GROWTH * known.n_solved)
        at = self.n_events + self._schedule.delay(len(y))
        self._next = Replacement(at, lambda: events.fit(recipe))

    def _compare_if_due(self) -> None:
        """Compare a new function at its event, or after it: after a merge, or an interrupt."""
        if self._next is not None and self.n_events >= self._next.at:
            self._compare(self._next)

    def _compare(self, new: Replacement[MetricTree]) -> None:
        """Go on with the new function if it has predicted the events since about as well."""
        if new.late:  # its factors need not be there beside those of the function before
            self._function.forget_factors()
        self._wait(new)
        self._next, self._until = None, 0
        changed = self._schedule.changed if self._schedule.is_anew else 0
        if changed:
            self._schedule.changed = 0
        if new.failure is not None:
            self._schedule.end(self.n_events, self._function.missed)
            return
        made = new.result()
        ratio = 1.0 if changed else _TOLERANCE if made.grows else _AS_LARGE
        # Where labels come late, the one in use has followed some that forecasts did not know.
        taken = self._schedule.is_late or not made.follows
        if taken or made.missed <= ratio * self._function.missed:
            self._function = made
            self.n_takeovers += 1
            if changed:
                self._keep_since(changed)
        elif not made.grows and not changed:
            self._function.close()
        self._schedule.end(self.n_events, self._function.missed)

    def _keep_since(self, event: int) -> None:
        """Keep the events since one alone, as if the stream had begun with it."""
        X, y = self.last_events(self.n_events - event)
        self._schedule.origin = self.n_events - len(y)
        self._recent, self._sample = self._new_buffers()
        self._recent.add(X, y)
        self._sample.add(X, y)

    def _wait(self, new: Replacement[MetricTree]) -> None:
        self.n_waits += new.late
        self.seconds_waited += new.wait()

    # Predicting

    def decide_checked(self, events: Numbers) -> Numbers:
        """Outputs as of `decision_many`, of finite events of the dtype."""
        return self._function.decide(events)

    def _probabilities(self, F: Numbers) -> Numbers:
        return self._function.probabilities(F)

    # Columns and outputs

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        columns, count = (*(self.columns or ()), *names), len(names)
        column_keys(columns)
        self._function.extend(count)
        self._recent.add_columns(count)
        self._sample.add_columns(count)
        if self._next is not None:
            self._next.then(lambda new: new.extend(count))
        self._columns = columns
        self._end_if_too_wide()

    def _fit_outputs(self) -> None:
        """Give new classes their outputs."""
        classes = self.classes
        if len(self._function.classes) == len(classes):
            return
        self._function.add_classes(classes)
        if self._next is not None:
            self._next.then(lambda new: new.add_classes(classes))
        self._end_if_too_wide()

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here: a JSON header and arrays.

        A metric that is being learned is waited for.
        """
        self._compare_if_due()
        header: dict[str, Any] = {
            "type": self.TYPE,
            **options.to_header(self.OPTIONS, self),
            "task": self._task,
            "columns": None if self.columns is None else list(self.columns),
            "classes": list(self.classes),
            "n_events": self.n_events,
            "n_takeovers": self.n_takeovers,
            "lag": self.lag,
            **self._schedule.header(),
            "spent": self._budget.spent,
            "rests": self.rests,
            "next": None,
        }
        parts = {
            "recent": self._recent.state(),
            "sample": self._sample.state(),
            "function": self._function.state(),
        }
        if self._next is not None:
            self._wait(self._next)
            header["next"] = self._next.saved(parts)
        nested = State.nest(parts, header)
        return State(nested.header, {**nested.arrays, **self._schedule.watch.arrays()})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the learner of a state."""
        header: Any = state.expect(cls.TYPE).header
        with reading(_OWNER):
            names = None if header["columns"] is None else listed(header, "columns", _OWNER)
            learner = cls(
                **options.from_header(cls.OPTIONS, header),
                task=header["task"],
                columns=names,
                classes=listed(header, "classes", _OWNER),
            )
        for name in ("n_events", "n_takeovers"):
            setattr(learner, name, count(header, name, _OWNER))
        learner.lag = number(header, "lag", _OWNER, Domain(least=-1.0))
        learner._schedule.restore(header, state.arrays, learner.n_events, _OWNER)
        learner._budget.spent = count(header, "spent", _OWNER)
        learner.rests = flag(header, "rests", _OWNER)
        if learner.is_too_wide and not learner.rests:
            raise StateError(f"{_OWNER} is wider than its 'max_width' and does not rest")
        if learner.n_events and (names is None or (learner.is_classifier and not learner.classes)):
            raise StateError(f"{_OWNER} has learned events without columns or classes")
        classes = len(learner.classes) if learner.is_classifier else None
        for part in ("recent", "sample"):
            known: EventBuffer = getattr(learner, f"_{part}")
            restored = known.restored(state.child(part), len(names or ()), classes)
            setattr(learner, f"_{part}", restored)
        learner._function = learner._restored(state.child("function"))
        if header.get("next") is not None:
            learner._next = Replacement.of(
                header["next"],
                learner.n_events,
                lambda: learner._restored(state.child("next")),
                "a state's next function",
            )
        return learner

    def _restored(self, state: State) -> MetricTree:
        """Return the function of a state, which must be of the task, columns and classes here."""
        found = MetricTree.from_state(state)
        columns = None if self.columns is None else tuple(range(len(self.columns)))
        mine = (self.is_classifier, columns, self.classes, self._recipe.capacity)
        if mine != (found.is_classifier, found.columns, found.classes, found.capacity):
            raise StateError(
                f"task, columns, classes and size of a function of {_OWNER} are not its own"
            )
        return found

    # Merging

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        If this one has learned nothing since, it becomes the other. Else it learns the last events
        of the other, as many as its buffer has.
        """

        def last_events_of(other: Self, events: int) -> tuple[Numbers, Numbers]:
            X, y = other.last_events(events)
            self.lags = np.full(len(y), -1) if len(y) else None
            return X.reshape(len(y), -1 if len(y) else len(other.columns or ())), y

        merge_by_events(self, other, common_events, last_events_of)
        if self.lag < 0.0:
            self.lag = other.lag
        self._act_if_due()


_OWNER = "this 'feature-machine' state"
