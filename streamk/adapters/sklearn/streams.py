"""The learners of `streamk.learners`, with their options, as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from streamk import learners
from streamk.adapters.batches import Array, EventBatch, as_frame
from streamk.adapters.options import ENTITIES, LEFT_OUT, MANY, Shared, chosen, of_learner
from streamk.adapters.rows import Model, Numbers, checked, in_order, relative, repeats
from streamk.errors import InvalidInput, shown
from streamk.landmarks.selection import check_count
from streamk.learners import Learner
from streamk.learners.registry import LEARNERS
from streamk.options import Option, Real, Whole

__all__ = [
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "EigenProClassifier",
    "EigenProRegressor",
    "FeatureMachineClassifier",
    "FeatureMachineRegressor",
    "KernelClassifier",
    "KernelRegressor",
    "KernelRidgeClassifier",
    "KernelRidgeRegressor",
    "NystromClassifier",
    "NystromRegressor",
]

RANDOM_STATE = Option(
    type="int, RandomState or None", default=None, doc="Of all that is drawn at random."
)


def drawn_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return a seed from scikit-learn's random state."""
    return int(check_random_state(random_state).randint(2**31))


def labels_of(y: Any) -> Any:
    """Return labels as a NumPy array, from a series of any library or anything like an array.

    scikit-learn takes pandas' nullable whole numbers and booleans as numbers with fractions, of
    which two large ones may be the same. Raises `InvalidInput` if one is missing, naming its row,
    or some are texts and others are not.

    Examples
    --------
    >>> labels_of(["a", None])
    Traceback (most recent call last):
    ...
    streamk.errors.InvalidInput: the label of row 1 is missing (None); leave the event out
    """
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        listed: list[Any] = series.to_list()
        y = series.to_numpy()
    elif isinstance(y, list | tuple) or (isinstance(y, np.ndarray) and y.dtype == object):
        listed = list(y)
    else:
        return y
    for row, label in enumerate(listed):
        if _is_missing(label):
            raise InvalidInput(f"the label of row {row} is missing ({label}); leave the event out")
    if len({isinstance(label, str) for label in listed}) > 1:
        raise InvalidInput("some labels are texts and others are not; make all of them texts")
    return y


def _is_missing(label: Any) -> bool:
    try:
        return label is None or not bool(label == label)
    except (TypeError, ValueError):  # pandas.NA is neither; an array is not a label at all
        return not hasattr(label, "__len__")


EVENTS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""Requirements of events, of which some values are missing."""


def _weights(sample_weight: ArrayLike, n: int) -> Numbers:
    """Return the weights of n events. Raises ValueError as scikit-learn says it."""
    found: Numbers = _check_sample_weight(
        sample_weight, np.zeros((n, 1)), dtype=np.float64, ensure_non_negative=True
    )
    return found


class Estimator(Shared, BaseEstimator):  # type: ignore[misc]
    """A learner of arrays or data frames, by passes over them or on a stream.

    Attributes
    ----------
    learner_ : Learner
        Of a classifier, its labels are the positions in `classes_`.
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        If events are rows of a data frame whose columns are named by texts.
    """

    _ABOUT: ClassVar[str] = (
        "The learner, `streamk.learners.{learner}`, is behind an online scaling of the columns\n"
        "(`streamk.learners.Scaled`): no scaler is needed before it. NaN is missing and counts as\n"
        "the column's median. `fit` goes through its events in a random order, and `partial_fit`\n"
        "once, in the order given."
    )
    _GIVEN: ClassVar[dict[str, Option]] = {
        "X": Option(type="array, CSR matrix or data frame of shape (n, d)"),
        "y": Option(
            type="array of shape (n,)", doc="Labels of any kind that can be sorted, or numbers."
        ),
        "classes": Option(
            type="array of shape (n_classes,)",
            doc="All labels there will be; needed in the first call.",
        ),
        "sample_weight": Option(
            type="array of shape (n,)",
            doc="To `fit`, what each event counts beside the others: 0 is as if it were not there, "
            "2 beside 1 as if it were there twice. All of them times a number are the same: they "
            "are taken in the smallest whole numbers of their ratio, 4 on average at most, or "
            "divided by their mean. An event is learned a whole number of times in a pass; over "
            "the passes fractions even out.\n\n"
            "To `partial_fit`, how often each event counts, 0 to a million. It is learned a whole "
            "number of times; what is left of a fraction comes in with the next event, of the same "
            "label if there are classes, in a later call too.",
        ),
        "levels": Option(type="array of shape (m,)", doc="Between 0 and 1."),
        "level": Real(doc="Between 0 and 0.99."),
    }
    _RAISES = """\
InvalidInput
    If an option is out of its domain, a label is none of `classes`, or these are missing in the
    first call of `partial_fit` or differ later.
ValueError
    If events or labels do not fit, as scikit-learn says it."""
    _task: ClassVar[str]
    _model_name: ClassVar[str]
    _model: Model
    _names: list[Hashable] | None
    """Of the columns, if data frames are learned and not arrays."""

    _SEED: ClassVar[dict[str, Option]] = {"random_state": RANDOM_STATE}

    @property
    def learner_(self) -> Learner:
        """The fitted learner; missing before the first fit."""
        return self._model.learner

    def _chosen(self) -> dict[str, Any]:
        """Return the options of the learner."""
        return chosen(self)

    def _make(self, random: np.random.RandomState, **options: Any) -> Learner:
        """Return a learner by the options of the estimator and these."""
        if "seed" in LEARNERS[self._model_name].OPTIONS:
            options["seed"] = int(random.randint(2**31))
        return learners.create(self._model_name, task=self._task, **self._chosen(), **options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from events, and forget all earlier ones."""
        events, labels = self._check(X, y, reset=True)
        weights = None
        if sample_weight is not None:
            weights = relative(_weights(sample_weight, len(events)))
            some = np.flatnonzero(weights)
            events, labels, weights = events.take(some), labels[some], weights[some]
        self._fit(events, labels, weights)
        return self

    def _fit(self, X: EventBatch, y: NDArray[Any], weights: Numbers | None, **options: Any) -> None:
        """Pass over the events, each time in another order, and learn the last ones in any case."""
        passes, random = getattr(self, "n_epochs", 1), check_random_state(self.random_state)
        check_count("n_epochs", passes)
        self._model = Model.of(self, self._make(random, **options))
        stays = in_order(self)
        order = np.arange(len(X)) if stays else X.order(y, weights)
        for turn in range(passes):
            often = 1 if weights is None else repeats(weights[order], turn, passes)
            places = np.repeat(order, often)
            places = places if stays else random.permutation(places)
            X.take(places).learn(self._model, y[places].tolist())
        self._model.learner.finish()

    def _learn(self, X: EventBatch, y: NDArray[Any], sample_weight: Any, **options: Any) -> None:
        """Learn events of a stream in their order, by a learner with options if it is new."""
        if not hasattr(self, "_model"):
            learner = self._make(check_random_state(self.random_state), **options)
            self._model = Model.of(self, learner)
        weights = None
        if sample_weight is not None:
            weights = checked(_weights(sample_weight, len(X)), len(X), "sample_weight")
        X.learn(self._model, y.tolist(), weights)

    def _check(self, X: Any, y: Any, *, reset: bool) -> tuple[EventBatch, NDArray[Any]]:
        """Return the events and labels; a NaN or null in an event is missing."""
        numeric = self._task == "regression"
        y = y if numeric else labels_of(y)
        frame = as_frame(X) if reset or self._names is not None else None
        if frame is None:
            if in_order(self) and reset:
                name = "entities" if getattr(self, "entities", None) else "time"
                raise InvalidInput(
                    f"{name}={shown(getattr(self, name))} names columns, but X is not a data "
                    "frame; pass pandas.DataFrame(X, columns=[...])"
                )
            array, labels = validate_data(
                self, X, y, reset=reset, y_numeric=numeric, accept_sparse="csr", **EVENTS
            )
            if reset:
                self._names = None
            return Array(array, self._names), labels
        validate_data(self, X, y, reset=reset, skip_check_array=True)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_consistent_length(X, labels)
        if reset:
            self._names = frame.names
        return frame, np.asarray(labels, np.float64 if numeric else None)

    def _parts(self, X: Any) -> Iterator[Numbers]:
        """Yield arrays of events to predict."""
        check_is_fitted(self, "learner_")
        frame = None if self._names is None else as_frame(X)
        if frame is None:
            X = validate_data(self, X, reset=False, accept_sparse="csr", **EVENTS)
            return Array(X, self._names).rows(self._model)
        validate_data(self, X, reset=False, skip_check_array=True)
        return frame.rows(self._model)

    def _joined(self, X: Any, method: str, *arguments: Any) -> NDArray[Any]:
        """Return what a method of the learner says of all events."""
        parts, model = self._parts(X), self._model
        say = getattr(model.learner, method)
        with model.lock, model.learner.aside():  # predictions change nothing
            return np.concatenate([say(rows, *arguments) for rows in parts])


class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Of any number of classes.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    """

    _task = "classification"
    _EXAMPLE = """\
>>> from sklearn.datasets import load_digits
>>> from sklearn.model_selection import cross_val_score
>>> from streamk.adapters.sklearn import {name}
>>> X, y = load_digits(return_X_y=True)
>>> bool(cross_val_score({name}(random_state=0), X, y, cv=3).mean() > 0.9)
True"""
    classes_: NDArray[Any]

    def _check(self, X: Any, y: Any, *, reset: bool) -> tuple[EventBatch, NDArray[Any]]:
        events, labels = super()._check(X, y, reset=reset)
        check_classification_targets(labels)
        return events, labels

    def _fit(self, X: EventBatch, y: NDArray[Any], weights: Numbers | None, **options: Any) -> None:
        self.classes_, numbers = np.unique(y, return_inverse=True)
        super()._fit(X, numbers, weights, classes=range(len(self.classes_)), **options)

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from more events, once and in their order."""
        first = not hasattr(self, "_model")
        events, labels = self._check(X, y, reset=first)
        if first and classes is None:
            raise InvalidInput("classes= is needed in the first call of partial_fit")
        known = self.classes_ if classes is None else np.unique(labels_of(classes))
        if not first and not np.array_equal(known, self.classes_):
            before = shown(self.classes_)
            raise InvalidInput(
                f"classes={shown(classes)} differ from those of the first call, {before}"
            )
        strange = np.setdiff1d(labels, known)
        if len(strange):
            raise InvalidInput(
                f"label {shown(strange[0])} is not one of the classes {shown(known)}; pass all "
                "labels as classes= in the first call of partial_fit"
            )
        if first:
            self.classes_ = known
        numbers = np.searchsorted(known, labels)
        self._learn(events, numbers, sample_weight, classes=range(len(known)))
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Outputs of the kernel function, before any decision.

        Returns
        -------
        float64 array of shape (n,) or (n, n_classes)
            With two classes, positive where the second one is predicted; else the largest one of
            the row is.
        """
        F = self._joined(X, "decision_many")
        if len(self.classes_) > 2:
            return F
        return F[:, 0] if F.shape[1] == 1 else F[:, 1] - F[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels of events X (n, d), shape (n,)."""
        numbers = self._joined(X, "predict_many")
        return self.classes_[numbers.astype(np.intp)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of `classes_` for events X (n, d), float64 of shape (n, n_classes)."""
        return self._joined(X, "predict_proba_many")


class Regressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Of numbers, in any unit."""

    _task = "regression"
    _EXAMPLE = """\
>>> import numpy as np
>>> from streamk.adapters.sklearn import {name}
>>> X = np.linspace(0, 6, 500)[:, None]
>>> model = {name}(random_state=0).fit(X, np.sin(X[:, 0]))
>>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
True"""

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from more events, once and in their order."""
        events, numbers = self._check(X, y, reset=not hasattr(self, "_model"))
        self._learn(events, numbers, sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Numbers predicted for events X (n, d), float64 of shape (n,)."""
        return self._joined(X, "predict_many")


_N_EPOCHS = Whole(
    default=1,
    doc="Passes of `fit` over its events, each in a new random order. `partial_fit` makes one, in "
    "the order given.",
)


@of_learner("multi-kernel", leave_out=LEFT_OUT | {"loss"}, advice=MANY, **ENTITIES)
class KernelClassifier(Classifier):
    """Kernel classification, for any number of classes, by a pass over the data or on a stream.

    Many kernels, bandwidths and step sizes learn side by side and are mixed as the data ask for
    (`streamk.learners.MultiKernel`), as in River's `streamk.adapters.river.KernelClassifier`: there
    is nothing to tune and no scaler is needed before it. `fit` goes through the events once, in a
    random order; `partial_fit` in the order given. A second pass would weigh the experts by what
    they remember. A single kernel, with options, is `DoublyStochasticClassifier`.

    Events are rows of an array, dense or CSR, or of a data frame of pandas, Polars, Arrow or
    another library that narwhals knows. Columns of a data frame may hold texts, categories, dates,
    lists and missing values, which become numbers as in River's estimators and on the command line
    (`streamk.encoding.columns`). NaN and null are missing. Where `entities` are named, events are
    rows of a data frame, and `fit` takes them in their order, too. An event that is only predicted
    sees its entities as they are then.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import cross_val_score
    >>> from streamk.adapters.sklearn import KernelClassifier
    >>> model = KernelClassifier(random_state=0)
    >>> model
    KernelClassifier(random_state=0)
    >>> X, y = load_wine(return_X_y=True)
    >>> bool(cross_val_score(model, X, y, cv=3).mean() > 0.9)
    True
    """

    def _chosen(self) -> dict[str, Any]:
        found = super()._chosen()
        weights = found["class_weight"]
        if isinstance(weights, Mapping):
            numbers = {label: n for n, label in enumerate(self.classes_.tolist())}
            strange = [label for label in weights if label not in numbers]
            if strange:
                raise InvalidInput(
                    f"class_weight has a weight for {shown(strange[0])}, which is not one of the "
                    f"classes {shown(self.classes_)}"
                )
            found["class_weight"] = {numbers[label]: weights[label] for label in weights}
        return found

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return logarithms of probabilities, plus those of the weights of classes if given.

        Returns
        -------
        float64 array of shape (n,) or (n, n_classes)
            With two classes their difference, positive where the second one is predicted; else the
            largest one of the row is.
        """
        P = self.predict_proba(X)
        learner: Any = self.learner_.innermost
        with np.errstate(divide="ignore"):
            scores = np.log(learner.weighted(P))
        if len(self.classes_) > 2:
            return np.asarray(scores)
        return np.asarray(scores[:, -1] - scores[:, 0])


@of_learner("multi-kernel", leave_out=LEFT_OUT | {"class_weight"}, advice=MANY, **ENTITIES)
class KernelRegressor(Regressor):
    """Kernel regression, by a pass over the data or on a stream.

    As `KernelClassifier`, for numbers to be predicted, in any unit. A single kernel is
    `DoublyStochasticRegressor`.
    """

    def predict_quantile(self, X: Any, levels: ArrayLike) -> NDArray[np.float64]:
        """Quantiles of the numbers to come, as past errors say.

        Returns
        -------
        float64 array of shape (n, m)
        """
        return self._joined(X, "predict_quantile_many", levels)

    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]:
        """Intervals that hold so large a part of the numbers to come, float64 (n, 2)."""
        return self._joined(X, "predict_interval_many", level)


class _OneKernel(Estimator):
    def _chosen(self) -> dict[str, Any]:
        found = super()._chosen()
        if self.preconditioner is None and self.batch_size is None:
            found["batch_size"] = 8  # of several passes an event a step gets no more
        return found


@of_learner("doubly-stochastic", bandwidth=0.7, n_epochs=replace(_N_EPOCHS, default=10))
class DoublyStochasticClassifier(Classifier, _OneKernel):
    """Classification by one kernel and random features, of any number of classes.

    Without a preconditioner a step is of 8 events by default. The default bandwidth is about that
    of `sklearn.svm.SVC`, whose ``gamma="scale"`` is ``bandwidth = sqrt(1/2)`` here.
    """


@of_learner("doubly-stochastic", bandwidth=0.7, n_epochs=replace(_N_EPOCHS, default=10))
class DoublyStochasticRegressor(Regressor, _OneKernel):
    """Regression by one kernel and random features, by passes over the data or on a stream.

    As `DoublyStochasticClassifier`, for numbers to be predicted. They are standardised as they
    come, so the step size and the parameter of a loss do not depend on their unit.
    """


class _Nystrom(Estimator):
    def _chosen(self) -> dict[str, Any]:
        found = super()._chosen()
        if self.regularization is None and self.optimizer == "newton":
            found["regularization"] = 1.0
        return found


@of_learner(
    "online-nystrom", bandwidth=0.7, optimizer="newton", n_epochs=replace(_N_EPOCHS, default=2)
)
class NystromClassifier(Classifier, _Nystrom):
    """Kernel classification on landmarks, by passes over the data or on a stream.

    A prediction takes as many kernels as there are landmarks, which the first pass finds. Of
    "newton" the regularization is 1 by default.
    """


@of_learner(
    "online-nystrom", bandwidth=0.7, optimizer="newton", n_epochs=replace(_N_EPOCHS, default=2)
)
class NystromRegressor(Regressor, _Nystrom):
    """Kernel regression on landmarks, by passes over the data or on a stream.

    As `NystromClassifier`, for numbers to be predicted. They are standardised as they come, so
    the parameter of a loss and a step size do not depend on their unit.
    """


@of_learner("kernel-ridge")
class KernelRidgeClassifier(Classifier):
    """Kernel ridge regression on classes, +1 and -1 for each, all at once or on a stream.

    Its coefficients go toward those of `sklearn.kernel_ridge.KernelRidge` and its regularization is
    chosen by itself; of more events than `max_centers` the last ones count.
    """


@of_learner("kernel-ridge")
class KernelRidgeRegressor(Regressor):
    """As `KernelRidgeClassifier`, for numbers to be predicted, in any unit."""


@of_learner("eigenpro", n_epochs=_N_EPOCHS)
class EigenProClassifier(Classifier):
    """Kernel classification on centers chosen among the events, by passes or on a stream.

    The solver "eigenpro" is better after some passes; "direct" counts each event as often.
    """


@of_learner("eigenpro", n_epochs=_N_EPOCHS)
class EigenProRegressor(Regressor):
    """As `EigenProClassifier`, for numbers to be predicted, in any unit."""


class _FeatureMachine(Estimator):
    @property
    def feature_importances_(self) -> Numbers:
        """The shares of the columns in the metric's diagonal, float64 (n_features_in_,)."""
        check_is_fitted(self, "learner_")
        learner: Any = self._model.learner
        with self._model.lock:
            shares: Numbers = learner.learner.column_shares
            if self._names is None:
                return shares
            owners = self._model.owners(self._names)
        return np.asarray(np.bincount(owners, shares, len(self._names)), np.float64)


@of_learner("feature-machine")
class FeatureMachineClassifier(Classifier, _FeatureMachine):
    """Kernel classification in a metric of the columns that is learned, on a stream.

    It is kernel ridge regression on classes, +1 and -1 for each, and learns anew from time to time
    which columns and directions matter: `feature_importances_` has the shares of the columns.
    """


@of_learner("feature-machine")
class FeatureMachineRegressor(Regressor, _FeatureMachine):
    """As `FeatureMachineClassifier`, for numbers to be predicted, in any unit.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from streamk.adapters.sklearn import FeatureMachineRegressor
    >>> X, y = make_friedman1(1200, random_state=0)
    >>> model = FeatureMachineRegressor(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.95)
    True
    >>> sorted(model.feature_importances_.argsort()[-5:].tolist())
    [0, 1, 2, 3, 4]
    """
