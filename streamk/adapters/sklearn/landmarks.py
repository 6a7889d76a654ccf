"""Landmarks as scikit-learn transformers: Nyström features, for any estimator after them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamk import landmarks
from streamk.adapters.options import Shared, estimator
from streamk.adapters.sklearn.estimators import RANDOM_STATE, drawn_seed, made_kernel, of_points
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks import Diffusion, Landmarks
from streamk.landmarks.matrices import PRECOMPUTED
from streamk.landmarks.selection import check_count
from streamk.options import Option, Real, Whole

__all__ = [
    "KMeansNystroem",
    "LeverageNystroem",
    "OasisNystroem",
    "RPCholeskyNystroem",
    "UniformNystroem",
]

_ROWS: dict[str, Any] = {"dtype": [np.float64, np.float32]}
"""Requirements of rows; features are of their type."""


class BaseNystroem(
    Shared,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """The common part of all: only the choice of landmarks differs.

    Attributes
    ----------
    components_ : float64 array of shape (n_features, d), or None
        The landmarks, one for each feature.
    component_indices_ : int64 array of shape (n_features,)
        Their rows in the fitted `X`.
    kernel_ : Kernel or "precomputed"
    n_features_in_ : int
    """

    _EXAMPLE = """\
>>> from sklearn.datasets import load_digits
>>> from streamk.adapters.sklearn import {name}
>>> X, _ = load_digits(return_X_y=True)
>>> {name}(gamma=1e-3, n_components=50, random_state=0).fit_transform(X).shape
(1797, 50)"""

    @abstractmethod
    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        """Choose the landmarks."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = self._given
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _given(self) -> bool:
        """True if the kernel matrix is given instead of points."""
        return bool(self.kernel == PRECOMPUTED)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """Return X as it has to be; a given matrix may be sparse."""
        options = {**_ROWS, "accept_sparse": "csr" if self._given else False}
        return validate_data(self, X, reset=reset, **options)

    @property
    def _n_features_out(self) -> int:
        return self._landmarks.rank

    def _made_kernel(self, columns: int) -> str | Kernel:
        """Return the kernel that the parameters say, or "precomputed"."""
        if isinstance(self.kernel, Diffusion):
            raise InvalidInput(
                "a diffusion kernel needs all rows, and a transformer keeps only landmarks; take "
                "streamk.landmarks.oasis, whose result transforms new rows"
            )
        return made_kernel(self.kernel, columns, bandwidth=self.bandwidth, gamma=self.gamma)

    def _fit(self, X: ArrayLike) -> tuple[Landmarks, NDArray[Any]]:
        rows = self._rows(X, reset=True)
        if self._given and rows.shape[0] != rows.shape[1]:
            raise InvalidInput(
                f"a precomputed kernel matrix has as many rows as columns; X is of shape "
                f"{rows.shape}"
            )
        check_count("n_components", self.n_components)
        self.kernel_ = self._made_kernel(rows.shape[1])
        # A kernel matrix in single precision is positive semidefinite up to its own rounding only.
        precision = str(rows.dtype) if self._given else "float64"
        found = self._select(
            rows,
            self.kernel_,
            max_landmarks=self.n_components,
            dtype=precision,
            seed=drawn_seed(self.random_state),
        )
        self.component_indices_ = None if found.indices is None else found.indices[found.used]
        self._landmarks: Landmarks = found.compact()
        self.components_ = self._landmarks.points
        return found, rows

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Choose landmarks among the rows.

        Parameters
        ----------
        X : array of shape (n, d)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain.
        ValueError
            If `X` does not fit, as scikit-learn says it.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: ArrayLike, y: object = None) -> NDArray[Any]:
        """Do `fit` and return the features of the same rows, with less work than both apart.

        Parameters
        ----------
        X : array of shape (n, d)
        y : ignored

        Returns
        -------
        array of shape (n, n_features), float32 where `X` is, else float64
        """
        found, rows = self._fit(X)
        return found.factor.astype(rows.dtype, copy=False)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the features of rows, whose products approximate the kernel.

        A row's features have the same bits in whatever batch it comes.

        Parameters
        ----------
        X : array of shape (n, d)

        Returns
        -------
        array of shape (n, n_features), float32 where `X` is, else float64
        """
        check_is_fitted(self, "_landmarks")
        rows = self._rows(X, reset=False)
        known = rows[:, self.component_indices_] if self.kernel_ == PRECOMPUTED else rows
        if scipy.sparse.issparse(known):
            known = known.toarray()
        return self._landmarks.transform(known).astype(rows.dtype, copy=False)


def _options(*but: str, **more: Option) -> dict[str, Option]:
    """Return the options of all, without kernels, and more."""
    doc = (
        'Or "precomputed": `X` is then the kernel matrix of the rows to fit, later that between '
        "new rows and those, dense or sparse."
    )
    n_components = Whole(
        default=100, doc="Most landmarks. Rows that landmarks span already bring no feature."
    )
    own = {"n_components": n_components, **more, "random_state": RANDOM_STATE}
    return of_points(*but, doc="" if but else doc) | own


@estimator(
    _options(
        tol=Real(
            default=0.0,
            doc="Choose no more where all rows are so near to the span, in the squared distance of "
            "their kernel functions.",
        ),
        n_init=Whole(default=1, doc="Landmarks drawn at random to start with."),
    ),
    by_place=("kernel",),
)
class OasisNystroem(BaseNystroem):
    """Nyström features of landmarks that oASIS chooses.

    `streamk.landmarks.oasis`: each landmark is the row farthest from the span of those before, so
    that few reproduce the kernel closely, for outliers too.
    """

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.oasis(X, kernel, **options, tol=self.tol, n_init=self.n_init)


@estimator(_options(), by_place=("kernel",))
class UniformNystroem(BaseNystroem):
    """Nyström features of landmarks that are drawn uniformly.

    `streamk.landmarks.baselines`, which is what `sklearn.kernel_approximation.Nystroem` does, less
    the features of landmarks that others span.
    """

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.uniform(X, kernel, **options)


@estimator(_options("ntk"), by_place=("kernel",))
class KMeansNystroem(BaseNystroem):
    """Nyström features of landmarks that are centres of clusters.

    `streamk.landmarks.baselines`.

    Attributes
    ----------
    components_ : float64 array of shape (n_features, d)
        The landmarks, one for each feature.
    component_indices_ : None
        They are no rows of the fitted `X`.
    kernel_ : Kernel
    n_features_in_ : int
    """

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.k_means(X, kernel, **options)


@estimator(
    _options(
        rank=Whole(
            default=None,
            doc="Eigenvectors that the scores are computed from; `n_components` by default.",
        ),
    ),
    by_place=("kernel",),
)
class LeverageNystroem(BaseNystroem):
    """Nyström features of landmarks drawn in proportion to their leverage scores.

    `streamk.landmarks.leverage_scores`: O(n^3) in time, and at most 23,170 rows. For comparisons.
    """

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.leverage_scores(X, kernel, **options, rank=self.rank)


@estimator(
    _options(
        block_size=Whole(
            default=None,
            doc="Proposals that are drawn at a time, of which some are rejected; chosen by "
            "default. It changes the time and not the distribution of the landmarks. 1 is the "
            "plain algorithm.",
        ),
    ),
    by_place=("kernel",),
)
class RPCholeskyNystroem(BaseNystroem):
    """Nyström features of landmarks drawn by randomly pivoted Cholesky.

    `streamk.landmarks.block_rpcholesky`: each landmark is drawn in proportion to the squared
    distances of the rows from the span of those before. The fastest of those that adapt.
    """

    def _select(self, X: NDArray[Any], kernel: str | Kernel, **options: Any) -> Landmarks:
        return landmarks.block_rpcholesky(X, kernel, **options, block_size=self.block_size)
