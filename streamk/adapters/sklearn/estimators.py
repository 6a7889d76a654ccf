"""The common part of scikit-learn estimators: arrays and frames in, labels and numbers out."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from joblib import effective_n_jobs
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

from streamk import kernels, learners
from streamk.adapters.batches import Array, EventBatch, as_frame
from streamk.adapters.options import Shared, chosen
from streamk.adapters.rows import Model, Numbers, checked, relative, repeats
from streamk.errors import InvalidInput, shown
from streamk.factorization.checks import weights_of
from streamk.kernels import Kernel
from streamk.landmarks.matrices import PRECOMPUTED
from streamk.landmarks.selection import check_count
from streamk.learners import Learner
from streamk.learners.registry import LEARNERS
from streamk.options import Option, Real, Whole

RANDOM_STATE = Option(
    type="int, RandomState or None", default=None, doc="Of all that is drawn at random."
)
N_JOBS = Whole(
    default=None, doc="Threads; 1 by default, -1 for all cores. Results do not depend on it."
)
N_CLUSTERS = Whole(
    default=None,
    doc="Most clusters; more of them are faster and mostly less accurate. By default one for each "
    "1,000 points, rounded down, and 1 for fewer.",
)
ALPHA = Real(
    default=1.0, doc="What is added to the diagonal, as of `sklearn.kernel_ridge.KernelRidge`."
)


def of_points(*but: str, default: str = "gaussian", doc: str = "") -> dict[str, Option]:
    """Return the options of a kernel between points in the unit of their columns.

    Parameters
    ----------
    *but : str
        Names of the kernels that there are not.
    default : str
    doc : str
        More sentences about it.
    """
    names = ", ".join(f'"{name}"' for name in kernels.KERNELS if name not in {*_NEVER, *but})
    return {
        "kernel": Option(
            type="str or Kernel",
            default=default,
            doc=f"{names}, or one of `streamk.kernels` of these. {doc}".rstrip(),
        ),
        "bandwidth": Real(
            default=None,
            doc="Of a kernel given by name, in the unit of the columns. By default ``sqrt(d / 2)`` "
            'for d columns, for "laplacian" d, scikit-learn\'s ``gamma=1/d``, and for '
            '"power_exponential" d^2.',
        ),
        "gamma": Real(
            default=None,
            doc='Instead of it, for "gaussian" ``exp(-gamma |x-y|^2)`` and "laplacian" '
            "``exp(-gamma |x-y|_1)``.",
        ),
    }


_NEVER = ("polynomial", "arc_cosine", "zonal")
"""Kernels of random features alone."""

POINTS = 1_000
"""Points of a part, on average, where the number of parts is not given."""


def drawn_seed(random_state: int | np.random.RandomState | None) -> int:
    """Return a seed from scikit-learn's random state."""
    return int(check_random_state(random_state).randint(2**31))


def count_of_parts(given: int | None, n: int) -> int:
    """Return into how many parts n points are divided, one for each `POINTS` by default."""
    return max(1, n // POINTS) if given is None else given


def threads_of(n_jobs: int | None) -> int:
    """Return the number of threads: 1 by default, -1 for all cores."""
    return int(effective_n_jobs(n_jobs))


def labels_of(y: Any) -> Any:
    """Return labels as NumPy has them, from a series of any library or what it has as an array.

    scikit-learn takes pandas' nullable whole numbers and booleans as numbers with fractions, of
    which two large ones may be the same.

    Raises
    ------
    InvalidInput
        If one is missing, naming its row, or some are texts and others are not.

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
    except (TypeError, ValueError):  # pandas.NA is neither; an array is no label at all
        return not hasattr(label, "__len__")


def made_kernel(
    kernel: str | Kernel, columns: int, *, bandwidth: float | None, gamma: float | None
) -> str | Kernel:
    """Return the kernel that the options say for points of so many columns, or "precomputed".

    Raises
    ------
    InvalidInput
        If there is no such kernel, or one that is not given by name is given a scale.
    """
    scales = {"bandwidth": bandwidth, "gamma": gamma}
    given = {name: scale for name, scale in scales.items() if scale is not None}
    if isinstance(kernel, str) and kernel != PRECOMPUTED:
        if not given and kernel != "linear":
            # As scikit-learn's gamma=None does: exp(-|x-y|^2 / d), exp(-|x-y|_1 / d). The sum of
            # square roots is of the order of 1 as well.
            far = {"laplacian": columns, "power_exponential": columns**2}
            given = {"bandwidth": float(far.get(kernel, math.sqrt(columns / 2)))}
        return kernels.by_name(kernel, **given)
    kernels.check_scales(kernel, **given)
    return kernel


EVENTS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
"""Requirements of events, of which some values are missing."""


def _weights(sample_weight: ArrayLike, n: int) -> Numbers:
    """Return the weights of n events. Raises ValueError as scikit-learn says it."""
    found: Numbers = _check_sample_weight(
        sample_weight, np.zeros((n, 1)), dtype=np.float64, ensure_non_negative=True
    )
    return found


class Estimator(Shared, BaseEstimator):  # type: ignore[misc]
    """A learner of arrays or data frames, by passes over them or on a stream."""

    _ABOUT: ClassVar[str] = (
        "The learner, `streamk.learners.{learner}`, is behind an online scaling of the columns\n"
        "(`streamk.learners.Scaled`): no scaler is needed before it. NaN is missing and counts as\n"
        "the column's median. `fit` goes through its events in a random order, and `partial_fit`\n"
        "once, in the order given."
    )
    _GIVEN = {
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
        """Return the fitted learner; there is none before the first fit."""
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
        """Learn from events, forgetting what was learned before."""
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
        self._model = Model(self._make(random, **options))
        order = X.order(y, weights)
        for turn in range(passes):
            often = 1 if weights is None else repeats(weights[order], turn, passes)
            places = random.permutation(np.repeat(order, often))
            X.take(places).learn(self._model, y[places].tolist())
        self._model.learner.finish()

    def _learn(self, X: EventBatch, y: NDArray[Any], sample_weight: Any, **options: Any) -> None:
        """Learn events of a stream in their order, by a learner with options if it is new."""
        if not hasattr(self, "_model"):
            self._model = Model(self._make(check_random_state(self.random_state), **options))
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
        frame.check_size()
        if reset:
            self._names = frame.names
        return frame, np.asarray(labels, np.float64 if numeric else None)

    def _parts(self, X: Any) -> Iterator[Numbers]:
        """Yield arrays of events that are to be predicted."""
        check_is_fitted(self, "learner_")
        frame = None if self._names is None else as_frame(X)
        if frame is None:
            X = validate_data(self, X, reset=False, accept_sparse="csr", **EVENTS)
            return Array(X, self._names).rows(self._model)
        validate_data(self, X, reset=False, skip_check_array=True)
        frame.check_size()
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
    learner_ : Learner
        Its labels are the positions in `classes_`.
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        If events are rows of a data frame whose columns are named by texts.
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
            raise InvalidInput(f"classes={shown(classes)} differ from those of before, {before}")
        strange = np.setdiff1d(labels, known)
        if len(strange):
            raise InvalidInput(
                f"label {shown(strange[0])} is not one of the classes {shown(known)}; the first "
                "call of partial_fit needs all labels there will be, as classes="
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
    """Of numbers, in any unit.

    Attributes
    ----------
    learner_ : Learner
    n_features_in_ : int
    feature_names_in_ : array of shape (d,)
        If events are rows of a data frame whose columns are named by texts.
    """

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


class AtOnce(Shared, BaseEstimator):  # type: ignore[misc]
    """An estimator of points that are there all at once."""

    _GIVEN = {
        "X": Option(type="array of shape (n, d)"),
        "y": Option(
            type="array of shape (n,), or (n, targets) for several numbers",
            doc="Labels of any kind that can be sorted, or numbers.",
        ),
        "sample_weight": Option(
            type="array of shape (n,)",
            doc="What each point counts: 0 is as if it were not there, 2 as if it were there "
            "twice.",
        ),
    }
    _RAISES = """\
InvalidInput
    If an option is out of its domain, all labels are of one class, a weight is negative, too few
    are above 0, or a kernel matrix is too large to be formed, or singular.
ValueError
    If points, labels or weights do not fit, as scikit-learn says it."""
    _ROWS: ClassVar[dict[str, Any]] = {"dtype": np.float64}
    """Requirements of points."""
    classes_: NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._ROWS is EVENTS
        return tags

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Learn; there are weights of what is `Weighted` alone."""
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from points."""
        self._learn(X, y, None)
        return self

    def _labelled(self, X: ArrayLike, y: ArrayLike) -> tuple[Numbers, NDArray[Any]]:
        """Return points with labels of any kind."""
        points, labels = validate_data(self, X, labels_of(y), **self._ROWS)
        check_classification_targets(labels)
        return points, labels

    def _numbered(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Return the places of labels among `classes_`, which are known from here on."""
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInput(
                f"all labels are of one class, {self.classes_.tolist()[0]!r}; a classifier needs "
                "at least two"
            )
        return numbers

    def _made_kernel(self, columns: int) -> Kernel:
        """Return the kernel that the options say for points of so many columns."""
        made = made_kernel(self.kernel, columns, bandwidth=self.bandwidth, gamma=self.gamma)
        if not isinstance(made, Kernel):
            raise InvalidInput(f"kernel={made!r} must be the name of a kernel or a streamk Kernel")
        return made

    def _points(self, X: ArrayLike) -> Numbers:
        """Return points that are to be predicted."""
        check_is_fitted(self)
        points: Numbers = validate_data(self, X, reset=False, **self._ROWS)
        return points


class Weighted(AtOnce):
    """One of points of which some weigh more than others."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from points."""
        self._learn(X, y, sample_weight)
        return self


def counting(
    points: Numbers, y: NDArray[Any], sample_weight: ArrayLike | None
) -> tuple[Numbers, NDArray[Any], Numbers | None]:
    """Return the points whose weight is not 0, with their labels and weights."""
    if sample_weight is None:
        return points, y, None
    weights = weights_of(
        _check_sample_weight(sample_weight, points, dtype=np.float64), len(points), "sample_weight"
    )
    some = weights > 0.0
    return points[some], y[some], weights[some]


class ByOutputs(ClassifierMixin, AtOnce):  # type: ignore[misc]
    """A classifier by the largest of its outputs, of which there is one for two classes."""

    _outputs: Callable[[Numbers], Numbers]
    """Returns the outputs of points, (n, outputs)."""

    def _targets(self, numbers: NDArray[np.intp]) -> Numbers:
        """Return outputs of classes by their numbers: 1 for the class and -1 for the others."""
        found = np.where(numbers[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        return found[:, 1:] if len(self.classes_) == 2 else found

    def decision_function(self, X: ArrayLike) -> Numbers:
        """Outputs before any decision.

        Returns
        -------
        float64 array of shape (n,) for two classes, positive for the second, or (n, n_classes)
        """
        F = self._outputs(self._points(X))
        return F[:, 0] if F.shape[1] == 1 else F

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels of points X (n, d), shape (n,)."""
        F = self._outputs(self._points(X))
        numbers = F.argmax(axis=1) if F.shape[1] > 1 else (F[:, 0] > 0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[numbers]
        return labels


class ByNumbers(RegressorMixin, AtOnce):  # type: ignore[misc]
    """A regressor of points that are there all at once."""

    def _predict(self, points: Numbers) -> Numbers:
        """Return the numbers predicted for points, (n,) or (n, targets)."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> Numbers:
        """Numbers predicted for points X (n, d), float64 of shape (n,) or (n, targets)."""
        return self._predict(self._points(X))
