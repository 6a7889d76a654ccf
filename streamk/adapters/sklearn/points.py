"""Estimators of points that are there all at once: EigenPro 2.0 and DC-Pred++."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from streamk import kernels
from streamk.adapters.options import Shared, estimator
from streamk.adapters.rows import Numbers
from streamk.adapters.sklearn.streams import EVENTS, RANDOM_STATE, drawn_seed, labels_of
from streamk.errors import InvalidInput
from streamk.factorization.checks import weights_of
from streamk.kernels import Kernel, Linear
from streamk.landmarks.matrices import PRECOMPUTED
from streamk.landmarks.selection import check_count
from streamk.learners.eigenpro.projection import interpolated, preconditioned
from streamk.options import Option, Real, Whole, of_parameters
from streamk.prediction.compiled import CompiledModel
from streamk.prediction.dc_pred import OPTIONS, dc_pred

__all__ = [
    "DCPredClassifier",
    "DCPredRegressor",
    "KernelRegression",
]


def of_points(*but: str, default: str = "gaussian", doc: str = "") -> dict[str, Option]:
    """Return the options of a kernel between points in the unit of their columns, but of those."""
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


def made_kernel(estimator: Any, columns: int) -> str | Kernel:
    """Return the kernel of an estimator of points of so many columns, or "precomputed".

    Raises `InvalidInput` if there is none of the name, or one that is not a name is given a scale.
    """
    kernel: str | Kernel = estimator.kernel
    scales = {"bandwidth": estimator.bandwidth, "gamma": estimator.gamma}
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


class AtOnce(Shared, BaseEstimator):  # type: ignore[misc]
    """An estimator of points that are there all at once.

    Attributes
    ----------
    n_features_in_ : int
    """

    _GIVEN: ClassVar[dict[str, Option]] = {
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

    def _predict(self, points: Numbers) -> Numbers:
        """Return the outputs of points, of a regressor the numbers: (n,) or (n, outputs)."""
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
        made = made_kernel(self, columns)
        if not isinstance(made, Kernel):
            raise InvalidInput(f"kernel={made!r} must be the name of a kernel or a streamk Kernel")
        return made

    def _points(self, X: ArrayLike) -> Numbers:
        """Return points to predict."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, **self._ROWS))


class Weighted(AtOnce):
    """An estimator of points with weights."""

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
    """A classifier that decides by its largest output; two classes share one output.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    """

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
        F = self._predict(self._points(X))
        return F[:, 0] if F.shape[1] == 1 else F

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels of points X (n, d), shape (n,)."""
        F = self._predict(self._points(X))
        numbers = F.argmax(axis=1) if F.shape[1] > 1 else (F[:, 0] > 0).astype(np.intp)
        return np.asarray(self.classes_[numbers])


class ByNumbers(RegressorMixin, AtOnce):  # type: ignore[misc]
    """A regressor of points that are there all at once."""

    _EXAMPLE = """\
>>> from sklearn.datasets import make_friedman1
>>> from streamk.adapters.sklearn import {name}
>>> X, y = make_friedman1(3_000, random_state=0)
>>> model = {name}({options}random_state=0)
>>> bool(model.fit(X[:2_000], y[:2_000]).score(X[2_000:], y[2_000:]) > 0.9)
True"""

    def predict(self, X: ArrayLike) -> Numbers:
        """Numbers predicted for points X (n, d), float64 of shape (n,) or (n, targets)."""
        return self._predict(self._points(X))


class BaseRidge(MultiOutputMixin, ByNumbers):  # type: ignore[misc]
    """The common part of all: only the computation of coefficients differs.

    Attributes
    ----------
    kernel_ : Kernel
    """

    kernel_: Kernel

    def _fit(self, points: Numbers, y: Numbers, weights: Numbers | None) -> None:
        """Solve for the coefficients; there are weights of what is `Weighted` alone."""
        raise NotImplementedError

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        points, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True
        )
        self.kernel_ = self._made_kernel(points.shape[1])
        self._fit(*counting(points, np.asarray(targets, np.float64), sample_weight))


@estimator(
    of_points(
        "linear", default="laplacian", doc="The papers' Laplace kernel is ``Matern(nu=0.5)``."
    )
    | {
        "n_epochs": Whole(default=10, doc="Passes over the points."),
        "batch_size": Whole(default=256, doc="Points a step."),
        "random_state": RANDOM_STATE,
    },
    by_place=("kernel",),
)
class KernelRegression(BaseRidge):
    """Kernel regression by EigenPro 2.0, with all points of the data as centers.

    Gradient steps on batches with a Nyström preconditioner go toward the function that interpolates
    the targets, and stop after some epochs, which is its regularization (Ma and Belkin 2019;
    Abedsoltan, Belkin and Pandit 2023, Algorithm 3). Step sizes and the level of the preconditioner
    follow from the spectrum of the kernel on a sample. No matrix of points by points is stored: an
    epoch takes the time of n^2 (d + targets) multiplications and memory in proportion to n.

    Targets are centered. For classes, give a column of +1 and -1 for each.

    Attributes
    ----------
    dual_coef_ : float64 array of shape (n,) or (n, targets)
    intercept_ : float64 array of shape () or (targets,)
    X_fit_ : float32 array of shape (n, d)
    """

    def _fit(self, points: Numbers, y: Numbers, weights: Numbers | None) -> None:
        for name in ("n_epochs", "batch_size"):
            check_count(name, getattr(self, name))
        if isinstance(self.kernel_, Linear):
            raise InvalidInput(
                "kernel='linear' has too few functions to interpolate; choose another kernel"
            )
        X, targets = points.astype(np.float32), y.reshape(len(y), -1)
        seed = drawn_seed(self.random_state)
        m = self.batch_size
        some = preconditioned(self.kernel_, X, batch_size=m, seed=seed)
        random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
        orders = (random.permutation(len(X)) for _ in range(self.n_epochs))
        mean = targets.mean(axis=0)
        start = np.zeros_like(targets)
        theta = interpolated(self.kernel_, X, *some, start, targets - mean, orders, batch_size=m)
        self.X_fit_, self.dual_coef_ = X, theta.reshape(y.shape)
        self.intercept_ = mean.reshape(y.shape[1:])

    def _predict(self, points: Numbers) -> Numbers:
        coefficients = self.dual_coef_.reshape(len(self.X_fit_), -1)
        found = self.kernel_.product(points.astype(np.float32), self.X_fit_, coefficients)
        shape = (len(points), *self.dual_coef_.shape[1:])
        return np.asarray(found.reshape(shape) + self.intercept_)


_OF_TREES = of_parameters(dc_pred, OPTIONS) | {"random_state": RANDOM_STATE}


class _DCPred(AtOnce):
    """The common part of the classifier and the regressor.

    Attributes
    ----------
    model_ : CompiledModel
        Of a classifier, its classes are the positions in `classes_`.
    """

    _ROWS = EVENTS

    def _fit(self, X: Numbers, y: NDArray[Any], task: str) -> None:
        options = self.get_params(deep=False)
        seed = drawn_seed(options.pop("random_state"))
        self.model_: CompiledModel = dc_pred(X, y, task=task, seed=seed, **options)


@estimator(_OF_TREES)
class DCPredClassifier(ByOutputs, _DCPred):
    """Trees of small kernel models, which predict in the time of some linear models (DC-Pred++).

    `streamk.prediction.dc_pred` has the method. Columns are scaled by the model itself, and NaN is
    missing.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from streamk.adapters.sklearn import DCPredClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DCPredClassifier(budget=5, random_state=0).fit(X[:1200], y[:1200])
    >>> model.score(X[1200:], y[1200:]) > 0.9, model.model_.cost < 5
    (True, True)
    """

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        events, labels = self._labelled(X, y)
        self._fit(events, self._numbered(labels), "classification")

    def _predict(self, points: Numbers) -> Numbers:
        return self.model_.decision_many(points)

    def predict_proba(self, X: ArrayLike) -> Numbers:
        """Return probabilities (n, n_classes) of events X (n, d)."""
        points = self._points(X)  # which finds what is not fitted
        return self.model_.predict_proba_many(points)


@estimator(_OF_TREES, example="budget=20, ")
class DCPredRegressor(ByNumbers, _DCPred):
    """As `DCPredClassifier`, for numbers to be predicted, in any unit."""

    def _learn(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        events, numbers = validate_data(self, X, y, ensure_min_samples=2, y_numeric=True, **EVENTS)
        self._fit(events, numbers, "regression")

    def _predict(self, points: Numbers) -> Numbers:
        return self.model_.predict_many(points)
