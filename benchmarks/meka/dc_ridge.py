"""DC-KRR: kernel ridge regression in random parts of the points, a rival of block kernels."""

from __future__ import annotations

from streamk.adapters.options import estimator
from streamk.adapters.sklearn.clusters import BaseRidge
from streamk.adapters.sklearn.estimators import (
    N_JOBS,
    RANDOM_STATE,
    count_of_parts,
    drawn_seed,
    of_points,
    threads_of,
)
from streamk.factorization.block import random_parts, solve_blocks
from streamk.factorization.checks import check_number
from streamk.landmarks.matrices import Numbers
from streamk.landmarks.selection import check_count
from streamk.options import Real, Whole


@estimator(
    of_points("ntk")
    | {
        "alpha": Real(
            default=1.0,
            doc="What is added to the diagonal of each part. Zhang et al. take what all points "
            "together would need, divided by the number of parts.",
        ),
        "n_parts": Whole(
            default=None, doc="By default one for each 1,000 points, rounded down, and 1 for fewer."
        ),
        "n_jobs": N_JOBS,
        "random_state": RANDOM_STATE,
    },
    by_place=("kernel",),
)
class DCRidge(BaseRidge):
    """Kernel ridge regression in parts drawn at random, whose predictions are averaged.

    DC-KRR (Zhang, Duchi and Wainwright, 2013), a rival of `BlockRidge`. All points take part in a
    prediction, which therefore takes as many kernels as that of
    `sklearn.kernel_ridge.KernelRidge`.

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
