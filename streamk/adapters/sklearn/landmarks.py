"""Landmarks as scikit-learn transformers: Nyström features, for any estimator after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamk import landmarks
from streamk.adapters.options import Kind, Shared, estimator
from streamk.adapters.sklearn.points import made_kernel, of_points
from streamk.adapters.sklearn.streams import RANDOM_STATE, drawn_seed
from streamk.errors import InvalidInput
from streamk.landmarks import Diffusion, Landmarks
from streamk.landmarks.matrices import PRECOMPUTED
from streamk.landmarks.methods import OPTIONS
from streamk.landmarks.selection import check_count
from streamk.options import Option, Whole, of_parameters

__all__ = [
    "KMeansNystroem",
    "LeverageNystroem",
    "OasisNystroem",
    "RPCholeskyNystroem",
    "UniformNystroem",
]


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

    _GIVEN: ClassVar[dict[str, Option]] = {
        "X": Option(type="array of shape (n, d)"),
        "y": Option(type="ignored"),
    }
    _RAISES = """\
InvalidInput
    If an option is out of its domain.
ValueError
    If `X` does not fit, as scikit-learn says it."""
    _EXAMPLE = """\
>>> from sklearn.datasets import load_digits
>>> from streamk.adapters.sklearn import {name}
>>> X, _ = load_digits(return_X_y=True)
>>> {name}(gamma=1e-3, n_components=50, random_state=0).fit_transform(X).shape
(1797, 50)"""

    _method: ClassVar[Callable[..., Landmarks]]
    """Chooses the landmarks."""
    _own: ClassVar[Sequence[str]]
    """Its options beside those of all."""

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
        """Return X as it has to be; a given matrix may be sparse. Features are of its type."""
        sparse = "csr" if self._given else False
        types = [np.float64, np.float32]
        return validate_data(self, X, reset=reset, dtype=types, accept_sparse=sparse)

    @property
    def _n_features_out(self) -> int:
        return self._landmarks.rank

    def _fit(self, X: ArrayLike) -> tuple[Landmarks, NDArray[Any]]:
        rows = self._rows(X, reset=True)
        if self._given and rows.shape[0] != rows.shape[1]:
            raise InvalidInput(
                f"a precomputed kernel matrix must be square; X has shape {rows.shape}"
            )
        check_count("n_components", self.n_components)
        if isinstance(self.kernel, Diffusion):
            raise InvalidInput(
                "a diffusion kernel needs all rows, but a transformer keeps only landmarks; use "
                "streamk.landmarks.oasis, whose result transforms new rows"
            )
        self.kernel_ = made_kernel(self, rows.shape[1])
        # A kernel matrix in single precision is positive semidefinite up to its own rounding only.
        precision = str(rows.dtype) if self._given else "float64"
        found = self._method(
            rows,
            self.kernel_,
            **{name: getattr(self, name) for name in self._own},
            max_landmarks=self.n_components,
            dtype=precision,
            seed=drawn_seed(self.random_state),
        )
        self.component_indices_ = None if found.indices is None else found.indices[found.used]
        self._landmarks: Landmarks = found.compact()
        self.components_ = self._landmarks.points
        return found, rows

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Choose landmarks among the rows."""
        self._fit(X)
        return self

    def fit_transform(self, X: ArrayLike, y: object = None) -> NDArray[Any]:
        """Do `fit` and return the features of the same rows, with less work than both apart.

        Returns
        -------
        array of shape (n, n_features), float32 where `X` is, else float64
        """
        found, rows = self._fit(X)
        return found.factor.astype(rows.dtype, copy=False)

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Return the features of rows; their inner products approximate the kernel.

        A row's features have the same bits in whatever batch it comes.

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


def _by(method: Callable[..., Landmarks], *but: str) -> Callable[[Kind], Kind]:
    """Return the decorator of a transformer by a method, without these kernels."""
    given = (
        'Or "precomputed": `X` is then the kernel matrix of the rows to fit, later that between '
        "new rows and those, dense or sparse."
    )
    n_components = Whole(
        default=100, doc="Most landmarks. Rows that landmarks span already bring no feature."
    )
    own = of_parameters(method, OPTIONS)
    options = {"n_components": n_components, **own, "random_state": RANDOM_STATE}

    def decorate(kind: Kind) -> Kind:
        """Return the class, which knows its method."""
        made: Any = kind
        made._method, made._own = staticmethod(method), tuple(own)
        kernels = of_points(*but, doc="" if but else given)
        return estimator(kernels | options, by_place=("kernel",))(kind)

    return decorate


@_by(landmarks.oasis)
class OasisNystroem(BaseNystroem):
    """Nyström features of landmarks that oASIS chooses.

    `streamk.landmarks.oasis`: each landmark is the row farthest from the span of those before, so
    that few reproduce the kernel closely, for outliers too.
    """


@_by(landmarks.uniform)
class UniformNystroem(BaseNystroem):
    """Nyström features of landmarks that are drawn uniformly.

    `streamk.landmarks.uniform`, which is what `sklearn.kernel_approximation.Nystroem` does, less
    the features of landmarks that others span.
    """


@_by(landmarks.k_means, "ntk")
class KMeansNystroem(BaseNystroem):
    """Nyström features of landmarks that are centres of clusters.

    `streamk.landmarks.k_means`.

    Attributes
    ----------
    components_ : float64 array of shape (n_features, d)
        The landmarks, one for each feature.
    component_indices_ : None
        They are not rows of the fitted `X`.
    """


@_by(landmarks.leverage_scores)
class LeverageNystroem(BaseNystroem):
    """Nyström features of landmarks drawn in proportion to their leverage scores.

    `streamk.landmarks.leverage_scores`: O(n^3) in time, and at most 23,170 rows. For comparisons.
    """


@_by(landmarks.block_rpcholesky)
class RPCholeskyNystroem(BaseNystroem):
    """Nyström features of landmarks drawn by randomly pivoted Cholesky.

    `streamk.landmarks.block_rpcholesky`: each landmark is drawn in proportion to the squared
    distances of the rows from the span of those before. The fastest of those that adapt.
    """
