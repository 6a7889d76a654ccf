"""The common part of kernel ridge regressions as scikit-learn regressors."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamk.adapters.sklearn.options import kernel_of_points
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers


class BaseRidge(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The common part of all: only the computation of coefficients differs."""

    kernel_: Kernel

    def _fit(self, points: Numbers, y: Numbers) -> None:
        """Solve for the coefficients."""
        raise NotImplementedError

    def _predict(self, points: Numbers) -> Numbers:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Solve for the coefficients.

        Parameters
        ----------
        X : array of shape (n, d)
        y : array of shape (n,) or (n, targets)

        Returns
        -------
        self

        Raises
        ------
        InvalidInput
            If an option is out of its domain, a kernel matrix is too large to be formed, or it is
            singular for so small an `alpha`.
        ValueError
            If points or targets do not fit, as scikit-learn says it.
        """
        self._fit(*self._checked(X, y))
        return self

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Numbers, Numbers]:
        """Return points and targets, whose kernel there is now."""
        points, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True
        )
        self.kernel_ = kernel_of_points(
            self.kernel, points.shape[1], bandwidth=self.bandwidth, gamma=self.gamma
        )
        return points, np.asarray(targets, np.float64)

    def predict(self, X: ArrayLike) -> Numbers:
        """Numbers predicted for points X (n, d), float64 of shape (n,) or (n, targets)."""
        check_is_fitted(self, "kernel_")
        return self._predict(validate_data(self, X, reset=False, dtype=np.float64))
