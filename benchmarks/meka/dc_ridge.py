"""DC-KRR: kernel ridge regression in random parts of the points, a rival of block kernels."""

from __future__ import annotations

import numpy as np

from streamk.adapters.sklearn.options import count_of_parts, drawn_seed, threads_of
from streamk.adapters.sklearn.ridge import BaseRidge
from streamk.factorization.block import random_parts, solve_blocks
from streamk.factorization.checks import check_number
from streamk.kernels import Kernel
from streamk.landmarks.matrices import Numbers
from streamk.landmarks.selection import check_count


class DCRidge(BaseRidge):
    """Kernel ridge regression in parts drawn at random, whose predictions are averaged.

    DC-KRR (Zhang, Duchi and Wainwright, 2013), a rival of `BlockRidge`. All points take part in a
    prediction, which therefore takes as many kernels as that of
    `sklearn.kernel_ridge.KernelRidge`.

    Parameters
    ----------
    kernel : str or Kernel, default "gaussian"
        "gaussian", "laplacian", "power_exponential", "matern", "rational_quadratic", "cauchy",
        "linear", or one of `streamk.kernels`.
    bandwidth : float, optional
    gamma : float, optional
        These are described in `BlockRidge`.
    alpha : float, default 1
        What is added to the diagonal of each part. Zhang et al. take what all points together
        would need, divided by the number of parts.
    n_parts : int, optional
        By default one for each 1,000 points, rounded down, and 1 for fewer.
    n_jobs : int, optional
        Threads; 1 by default, -1 for all cores. Results do not depend on it.
    random_state : int, RandomState or None, default None
        Of the parts.

    Attributes
    ----------
    dual_coef_ : float64 array of shape (n,) or (n, targets)
        Those of the parts, divided by the number of parts: a prediction is their product with the
        kernels of all points.
    X_fit_ : float64 array of shape (n, d)
    kernel_ : Kernel
    n_features_in_ : int
    """

    X_fit_: Numbers
    dual_coef_: Numbers

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        *,
        bandwidth: float | None = None,
        gamma: float | None = None,
        alpha: float = 1.0,
        n_parts: int | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.gamma = gamma
        self.alpha = alpha
        self.n_parts = n_parts
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, points: Numbers, y: Numbers) -> None:
        check_number("alpha", self.alpha)
        count = count_of_parts(self.n_parts, len(points))
        check_count("n_parts", count)
        parts = random_parts(len(points), count, drawn_seed(self.random_state))
        alpha = solve_blocks(points, self.kernel_, parts, self.alpha, y)
        self.X_fit_, self.dual_coef_ = points, alpha / len(parts)

    def _predict(self, points: Numbers) -> Numbers:
        threads = threads_of(self.n_jobs)
        return self.kernel_.product(points, self.X_fit_, self.dual_coef_, threads=threads)
