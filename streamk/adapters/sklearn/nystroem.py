"""The common part of scikit-learn transformers of landmarks."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamk.adapters.options import estimator
from streamk.adapters.sharing import Shared
from streamk.adapters.sklearn.options import drawn_seed, made_kernel
from streamk.errors import InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks import Diffusion, Landmarks
from streamk.landmarks.matrices import PRECOMPUTED
from streamk.landmarks.selection import check_count

_ROWS: dict[str, Any] = {"dtype": [np.float64, np.float32]}
"""Requirements of rows; features are of their type."""


@estimator()
class BaseNystroem(
    Shared,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """The common part of all: only the choice of landmarks differs."""

    kernel: str | Kernel = field(default="gaussian", kw_only=False)
    bandwidth: float | None = None
    gamma: float | None = None
    n_components: int = 100

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
        return self.kernel == PRECOMPUTED

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
        found = self._select(rows, self.kernel_, max_landmarks=self.n_components, dtype=precision)
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


@estimator()
class DrawnNystroem(BaseNystroem):
    """Those that draw at random."""

    random_state: int | np.random.RandomState | None = None

    def _seed(self) -> int:
        return drawn_seed(self.random_state)
