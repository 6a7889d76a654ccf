"""A learner whose predictions come from a compiled copy of it, which is kept up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamk.declared import Domain, count, number
from streamk.errors import InvalidInput, NotLearned
from streamk.features.columns import Column
from streamk.features.random_features import check_events, check_seed
from streamk.learners.base import Learner
from streamk.learners.common.class_weights import ClassWeights
from streamk.learners.common.merging import check_mergeable
from streamk.learners.common.predictor import Wrapper, aside, innermost, one_row
from streamk.learners.common.prequential import Prequential, Recorder, labels_or_none, with_gaps
from streamk.learners.live_compiled.copies import Copies
from streamk.learners.live_compiled.mixture import Mixture
from streamk.options import Real
from streamk.prediction import CompiledModel
from streamk.state import JSON, State

__all__ = ["LiveCompiled"]

Numbers = NDArray[Any]

_FLOAT64 = np.dtype(np.float64)
_OWNER = "a compiled learner"

BUDGET = 10.0
"""Default of the multiply-adds of the copy for an event, over those of a linear model."""
LEAST_BUDGET = 5.0
"""That allows for a copy whatever the columns and classes are."""
TOLERANCE = 0.005
"""Default of the loss of a copy beyond the learner's."""
_LEAST = 1e-9
"""Least probability of the learner whose logarithm counts."""


class LiveCompiled(Wrapper):
    """A learner that learns each label, and is served by a compiled copy where that is as good.

    Predictions come from `streamk.prediction.compile`'s copy of the learner, mixed with what moves
    too fast for a copy: linear models and running means of the labels, which learn each label as it
    comes, and weights that say what to rely on (`streamk.backends.live_mixture`). That takes a
    fraction of the learner's time where there are more events than labels; a label takes the
    learner's time as before.

    On each label both are compared. The learner itself predicts until a copy has proved as good on
    1,000 labels, and again when the copy falls behind by more than the tolerance, as where the
    learner has learned much since.

    The first copy is begun after 20,000 events, the next ones after 40,000, 80,000 and so on, after
    200,000 more at most, unless the copy that is there is as good as the learner. A process beside
    this one compiles it, of the last 100,000 events (64 MiB), with labels or without, and what the
    learner predicts of them. It comes at a fixed event, a quarter more events later, 70,000 at
    most, so predictions do not depend on how long that took: if it is not ready then, the learner
    waits for it, and so do threads that predict by it. With ``wait=False`` it comes with a
    checkpoint instead, the first after it is ready (`checkpointed`), and nothing waits.

    Parameters
    ----------
    learner : Learner
        It has not learned yet. Of numbers it predicts the mean or the median.
    budget : float, default 10
        Multiply-adds of the copy for an event, over those of a linear model of the same columns and
        classes; 5 at least.
    tolerance : float, default 0.005
        How much more the copy may lose than the learner. Of classes that is accuracy, and log loss;
        of numbers the mean squared error over the variance of the labels.
    wait : bool, default True
        Whether a copy comes at a fixed event, and is waited for.
    seed : int, default 0
        Of the copies.

    Raises
    ------
    InvalidInput
        If it is no learner, has learned, predicts a quantile, or an option is out of its domain.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import LiveCompiled, MultiKernel
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (500, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = LiveCompiled(MultiKernel(seed=1))
    >>> model.learn_many(X, y)
    >>> model.comparison  # no copy yet: the learner itself is served
    {}
    """

    learner: Learner
    TYPE = "live-compiled"

    def __init__(
        self,
        learner: Learner,
        *,
        budget: float = BUDGET,
        tolerance: float = TOLERANCE,
        wait: bool = True,
        seed: int = 0,
    ) -> None:
        if isinstance(learner, LiveCompiled) or not hasattr(learner, "predict_then_learn_many"):
            raise InvalidInput(
                f"{learner!r} cannot be served by a compiled copy: give a learner of streamk, such "
                "as MultiKernel(); streamk.prediction.compile takes estimators of scikit-learn"
            )
        if learner.n_events:
            raise InvalidInput(
                f"the learner has learned {learner.n_events} events already; give a new one"
            )
        Real(least=LEAST_BUDGET).check("budget", budget)
        Real(least=0.0).check("tolerance", tolerance)
        loss = getattr(innermost(learner), "loss", None)
        if getattr(loss, "name", loss) == "quantile":
            raise InvalidInput(
                "a learner of a quantile cannot be served by a compiled copy, whose mixture "
                "predicts the middle; leave out loss='quantile', or serve the learner itself"
            )
        self.learner = learner
        self.budget, self.tolerance = float(budget), float(tolerance)
        self.wait, self.seed = bool(wait), check_seed(seed)
        self._begin()
        self._mixture = Mixture(is_classifier=learner.is_classifier, seed=seed)
        self._follow_columns()
        self._follow_classes()

    def _begin(self) -> None:
        self._leaves_a_trace = True
        self._copies = Copies(
            self.learner,
            budget=self.budget,
            tolerance=self.tolerance,
            wait=self.wait,
            seed=self.seed,
        )

    # What it is

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        """True if a value may be missing (NaN)."""
        return self.learner.takes_missing

    @property
    def nbytes(self) -> int:
        """Memory of the learner, its copy and the events that the next copy learns, in bytes."""
        return self.learner.nbytes + self._mixture.nbytes + self._copies.nbytes

    @property
    def drifts(self) -> tuple[int, ...]:
        """After how many events the learner's experts began anew because of drift."""
        return tuple(getattr(self.learner, "drifts", ()))

    @property
    def copy(self) -> CompiledModel | None:
        """The copy that predicts, or is compared with the learner; None before the first."""
        return self._copies.model

    @property
    def comparison(self) -> dict[str, Any]:
        """Figures of the learner and of its copy, over the labels since the copy came.

        Of classes ``events``, ``agreement``, ``learner_accuracy``, ``copy_accuracy``,
        ``learner_log_loss`` and ``copy_log_loss``; of numbers ``events``, ``mean_difference``,
        ``learner_mae``, ``copy_mae``, ``learner_rmse`` and ``copy_rmse``. Those of the copy are of
        its mixture with what follows the labels. ``predicted_by_copy`` is the share of all events
        since, and ``copy_predicts`` tells whether it predicts now.
        """
        return self._copies.figures

    def add_columns(self, names: Sequence[Column]) -> None:
        """Append columns; in all events so far they were zero."""
        self.learner.add_columns(names)
        self._follow_columns()

    def _follow_columns(self) -> None:
        new = len(self.columns or ()) - self._copies.recent.events.shape[1]
        if new:
            self._mixture.add_columns(new)
            self._copies.recent.add_columns(new)

    def _follow_classes(self) -> None:
        if self.classes:
            self._mixture.add_classes(len(self.classes))

    # Learning

    def learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> None:
        """Learn from events X (n, d) with labels y (n,), one by one.

        Raises
        ------
        InvalidInput
            As the learner's own; nothing is learned.
        """
        events = self._check(X)
        labels = self.learner.check_labels(y, len(events))
        self._follow(events, labels, np.ones(len(events), bool), None)

    def predict_then_learn_many(self, X: ArrayLike, y: Sequence[Any] | NDArray[Any]) -> Prequential:
        """Predict each event of X (n, d) in turn, then learn it if its label in y is not None.

        Raises
        ------
        InvalidInput
            As of `learn_many`.
        """
        events = self._check(X)
        labels, known = labels_or_none(self, y, len(events))
        recorder = Recorder(self, len(events))
        self._follow(events, labels, known, recorder)
        return recorder.result()

    def learn_one(self, x: ArrayLike, y: Any) -> None:
        """Learn from one event x (d,) with label y."""
        self.learn_many(one_row(x), [y])

    def _follow(
        self, X: Numbers, labels: Numbers, known: NDArray[np.bool_], recorder: Recorder | None
    ) -> None:
        """Predict events (n, d) where they are recorded, and learn those whose label is known."""
        first = 0
        while first < len(X):
            if self.columns is None and known[first]:
                self.add_columns(range(X.shape[1]))
            stop = first + self._run(labels[first:], known[first:])
            part = slice(first, stop)
            weights = self._balanced_weights() if recorder is not None else None
            out = self._follow_run(X[part], labels[part], known[part])
            if recorder is not None:
                chosen = None
                if weights is not None and out.shape[1]:
                    chosen = self._chosen(out, labels[part], known[part], weights)
                recorder.add(out, chosen)
            if known[first] and self.is_classifier and labels[first] not in self.classes:
                self._learn_new_class(X[part], labels[part])
            if self._leaves_a_trace and self.columns is not None:
                self._copies.see(X[part])
            first = stop

    def _run(self, labels: Numbers, known: NDArray[np.bool_]) -> int:
        """Return of how many events all are taken alike: nothing is decided, no class is new."""
        (rows,) = np.nonzero(known)
        if self.columns is None and len(rows):
            return int(rows[0])  # columns come with the first label
        stop = min(len(known), self._copies.due)
        rows = rows[rows < stop]
        if self.is_classifier:
            there = set(self.classes)
            for row in rows.tolist():
                if labels[row] not in there:
                    return max(1, row)
        return stop

    def _follow_run(self, X: Numbers, labels: Numbers, known: NDArray[np.bool_]) -> Numbers:
        """Predict events, learn those whose labels are known classes or numbers."""
        if self.is_classifier and len(X) == 1 and known[0] and labels[0] not in self.classes:
            return self._predicted(X)
        if self._copies.serving:
            return self._follow_copy(X, labels, known)
        return self._follow_learner(X, labels, known)

    def _follow_copy(self, X: Numbers, labels: Numbers, known: NDArray[np.bool_]) -> Numbers:
        """Predict by the copy; the learner learns."""
        numbers = self._numbers(labels, known)
        mixed = self._mixture.follow(X, self._copies.scores(X), numbers)
        if known.any():
            mine = _outputs(self.learner.predict_then_learn_many(X[known], labels[known]))
            self._copies.compare(mine, mixed[known], numbers[known])
        return mixed

    def _follow_learner(self, X: Numbers, labels: Numbers, known: NDArray[np.bool_]) -> Numbers:
        """Predict by the learner; a copy is compared with it."""
        y = labels if known.all() else with_gaps(labels, known)
        mine = _outputs(self.learner.predict_then_learn_many(X, y))
        if not (mine.shape[1] and self.columns is not None and known.any()):
            return mine
        numbers = self._numbers(labels, known)[known]
        if self.copy is not None:
            mixed = self._mixture.follow(X[known], self._copies.scores(X[known]), numbers)
            self._copies.compare(mine[known], mixed, numbers)
        else:
            # The copy will take the place of the learner in a mixture that relies on it already.
            given = np.log(np.maximum(mine, _LEAST)) if self.is_classifier else mine
            self._mixture.follow(X[known], given[known], numbers)
        return mine

    def _learn_new_class(self, X: Numbers, labels: Numbers) -> None:
        """Learn an event (1, d) of a class that was not there when it was predicted."""
        try:
            self.learner.learn_many(X, labels)
        finally:  # a learner that refuses the event may know the class
            self._follow_classes()
        given = np.zeros((1, len(self.classes)))
        self._mixture.follow(X, given, self._numbers(labels, np.ones(1, bool)))

    def _balanced_weights(self) -> ClassWeights | None:
        """Return the learner's weights of classes as they are now, if they move with the labels."""
        weights: ClassWeights | None = getattr(self.learner, "class_weights", None)
        return deepcopy(weights) if weights is not None and weights.balanced else None

    def _chosen(
        self, P: Numbers, labels: Numbers, known: NDArray[np.bool_], weights: ClassWeights
    ) -> Numbers:
        """Return the labels predicted, each by the weights of its time, which are brought on."""
        found, classes = np.empty(len(P), object), self.classes
        # A run of one event may have a class that is not there yet.
        places = self._numbers(labels, known).tolist() if len(P) > 1 else [-1]
        for row, place in enumerate(places):
            found[row] = classes[int(weights.scores(P[row], classes).argmax())]
            if place >= 0:
                weights.learn([place])
        return found

    def _numbers(self, labels: Numbers, known: NDArray[np.bool_]) -> Numbers:
        """Return the labels as the mixture takes them."""
        if not self.is_classifier:
            return np.where(known, labels, np.nan).astype(np.float64)
        places = {label: place for place, label in enumerate(self.classes)}
        there = zip(labels.tolist(), known.tolist(), strict=True)
        return np.array([places[label] if yes else -1 for label, yes in there], np.int64)

    def renew_copy(self) -> None:
        """Have a copy compiled now, wait for it, and predict by it.

        Raises
        ------
        InvalidInput
            If there is nothing to compile: fewer than two events, or of classes fewer than two.
        """
        with self.lock:
            self._copies.renew()

    def checkpointed(self, *, saved: bool = True) -> None:
        """Take over the copy that came with the last `state`, if one was ready by then.

        Call it with ``wait=False``, when that state is safe: a learner that is restored from it
        takes the copy over too, so both predict alike from here on.

        Parameters
        ----------
        saved : bool, default True
            Whether there is such a state. Without one any copy that is ready is taken.
        """
        with self.lock:
            self._copies.checkpointed(saved=saved)

    # Predicting

    def decision_many(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of all classes, float64 (n, classes), or numbers (n, 1), of events (n, d).

        Raises
        ------
        InvalidInput
            If the columns do not fit or a value is infinite.
        """
        return self._predicted(self._check(X))

    def _predicted(self, X: Numbers) -> Numbers:
        if self._copies.serving:
            return self._mixture.predict(X, self._copies.scores(X))
        if not self.is_classifier:
            return np.asarray(self.learner.predict_many(X))[:, None]
        if not self.classes:
            return np.empty((len(X), 0))
        return np.asarray(self.learner.predict_proba_many(X))

    def decision_one(self, x: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of all classes (classes,), or the number (1,), of one event x (d,)."""
        found: Numbers = self.decision_many(one_row(x))[0]
        return found

    def choices(self, P: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the numbers of the classes predicted where `predict_proba_many` gave P."""
        return self.learner.choices(P)

    def predictions(self, F: NDArray[np.float64]) -> NDArray[Any]:
        """Predicted labels or numbers, shape (n,), where `decision_many` gave F."""
        if not self.is_classifier:
            return F[:, 0]
        self._need_classes()
        table = np.empty(len(self.classes), object)
        table[:] = self.classes
        return np.asarray(table[self.choices(F)])

    def prediction(self, F: NDArray[np.float64]) -> Any:
        """Predicted label or number, where `decision_one` gave F."""
        return self.predictions(F[None])[0]

    def probabilities(self, F: NDArray[np.float64]) -> NDArray[np.float64]:
        """Class probabilities, shape (n, classes), where `decision_many` gave F."""
        if not self.is_classifier:
            raise InvalidInput("a regression has no class probabilities; use predict_many")
        self._need_classes()
        return F

    def _need_classes(self) -> None:
        if not self.classes:
            raise NotLearned("no class is known yet; learn from an event first")

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Predict without a trace, here and in the learner, see `MultiKernel.aside`."""
        with self.lock, aside(self.learner):
            self._leaves_a_trace = False
            try:
                yield
            finally:
                self._leaves_a_trace = True

    def _check(self, X: ArrayLike) -> Numbers:
        return check_events(X, _FLOAT64, self.columns, missing=self.takes_missing)

    def __repr__(self) -> str:
        return f"LiveCompiled({self.learner!r})"

    # State

    def state(self) -> State:
        """Everything needed to go on exactly from here, a copy that is being compiled too."""
        header: dict[str, JSON] = {
            "type": self.TYPE,
            "budget": self.budget,
            "wait": self.wait,
            "seed": self.seed,
        }
        parts = {"learner": self.learner.state(), "mixture": self._mixture.state()}
        return self._copies.state(parts, header)

    @property
    def placing(self) -> dict[str, Any]:
        """That of the learner, and the tolerance, which a job may change."""
        return {"learner": self.learner.placing, "tolerance": self.tolerance}

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self).from_state, tolerance=self.tolerance), (self.state(),)

    @classmethod
    def from_state(
        cls, state: State, *, learner: dict[str, Any] | None = None, tolerance: float = TOLERANCE
    ) -> Self:
        """Return the learner whose state this is; a compilation goes on, from its beginning.

        Parameters
        ----------
        state : State
        learner : dict, optional
            `Learner.placing` of the learner.
        tolerance : float, default 0.005
            See above.

        Raises
        ------
        StateError
            If the state is another learner's or its arrays do not fit.
        """
        header: Any = state.expect(cls.TYPE).header
        inner: Learner = cls._inside(state, learner, _OWNER)
        model = cls.__new__(cls)
        model.learner = inner
        model.budget = number(header, "budget", _OWNER, Domain(least=LEAST_BUDGET))
        model.tolerance = tolerance
        model.wait = header.get("wait") is not False
        model.seed = count(header, "seed", _OWNER)
        model._mixture = Mixture.from_state(
            state.child("mixture"),
            is_classifier=inner.is_classifier,
            columns=len(inner.columns or ()),
            outputs=len(inner.classes) if inner.is_classifier else 1,
        )
        model._begin()
        model._copies.recent.add_columns(len(inner.columns or ()))
        model._copies.restore(state)
        return model

    def merge(self, other: Self, *, common_events: int = 0) -> None:
        """Take in what another learner learned since the two were one.

        The learners merge; the copy and what is mixed with it stay as they are.

        Raises
        ------
        InvalidInput
            If the learners differ in an option, naming it.
        """
        check_mergeable(self, other, ("budget", "wait", "seed"))
        self.learner.merge(other.learner, common_events=common_events)
        self._follow_columns()
        self._follow_classes()


def _outputs(found: Prequential) -> Numbers:
    """Return predictions as probabilities (n, classes), or as numbers (n, 1)."""
    if found.probabilities is None:
        return np.asarray(found.predictions, np.float64)[:, None]
    return np.nan_to_num(found.probabilities)
