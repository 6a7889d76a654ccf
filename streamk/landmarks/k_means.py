"""Landmarks that are the centres of clusters: Zhang and Kwok, ICML 2008.

"Improved Nyström low-rank approximation and error analysis": k-means from random points, five
iterations of it, as the authors' own program runs it.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from streamk.errors import BackendUnavailable, InvalidInput
from streamk.kernels import Kernel
from streamk.landmarks.checks import check_count
from streamk.landmarks.matrices import Diffusion, Numbers, as_matrix
from streamk.landmarks.nystrom import Landmarks, checked_dtype, of_points

ITERATIONS = 5


def k_means(
    X: Any,
    kernel: Kernel | Diffusion | str,
    *,
    max_landmarks: int,
    seed: int = 0,
    dtype: DTypeLike = "float64",
    threads: int | None = None,
) -> Landmarks:
    """Take the centres of clusters as landmarks.

    They are no rows of `X`: `Landmarks.indices` is None. It needs scikit-learn.

    Parameters
    ----------
    X : array of shape (n, d)
    kernel : Kernel or Diffusion
    max_landmarks : int
        Clusters; at most n, and no more than there are different points.
    seed : int, default 0
    dtype : {float64, float32}, default float64
        Of the factor.
    threads : int, optional
        All cores by default. The clusters themselves are found by one.

    Returns
    -------
    Landmarks

    Raises
    ------
    InvalidInput
        If an argument cannot be used, a precomputed matrix among them.
    BackendUnavailable
        If scikit-learn is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.kernels import Gaussian
    >>> from streamk.landmarks import k_means
    >>> landmarks = k_means([[0.0], [1.0], [8.0], [9.0]], Gaussian(), max_landmarks=2)
    >>> np.sort(landmarks.points, axis=0).tolist()
    [[0.5], [8.5]]
    """
    check_count("max_landmarks", max_landmarks)
    check_count("seed", seed, least=0)
    matrix, real = as_matrix(X, kernel), checked_dtype(dtype)
    if matrix.points is None:
        raise InvalidInput(
            "k_means needs points, and a precomputed matrix has none: pass X of shape (n, d) and a "
            "Kernel, or take another method"
        )
    random = np.random.Generator(np.random.Philox(seed))
    centers = centers_of(matrix.points, max_landmarks, random, init="random", iterations=ITERATIONS)
    stopped = "count" if len(centers) == max_landmarks else "all"
    return of_points(matrix, centers, real, threads, stopped)


@cache
def _thread_pools() -> Any:
    """Return the thread pools there are: to look for them takes longer than to find clusters."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def check_available() -> None:
    """Raise BackendUnavailable if scikit-learn is not installed."""
    try:
        import sklearn.cluster  # noqa: F401
    except ImportError as error:
        raise BackendUnavailable(
            f"clusters need scikit-learn ({error}): pip install 'streamk[sklearn]'"
        ) from None


def centers_of(
    points: Numbers,
    count: int,
    random: np.random.Generator,
    *,
    init: str,
    iterations: int,
    weights: Numbers | None = None,
) -> Numbers:
    """Return the centres of clusters that k-means finds, in ascending order and all different.

    Parameters
    ----------
    points : float64 array of shape (n, d)
    count : int
        Most centres; no more are found than there are different points.
    random : Generator
    init : {"random", "k-means++"}
    iterations : int
        At most so many of Lloyd's.
    weights : float64 array of shape (n,), optional
        Of the points, at least one above 0. By default all have the same.

    Raises
    ------
    BackendUnavailable
        If scikit-learn is not installed.
    """
    check_available()
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    model = KMeans(
        min(count, len(points)),
        init=init,
        n_init=1,
        max_iter=iterations,
        algorithm="lloyd",
        random_state=int(random.integers(2**31)),
    )
    # Threads add up their parts of a cluster in the order in which they finish.
    with _thread_pools().limit(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different points than clusters
        model.fit(points, sample_weight=weights)
    centers: Numbers = np.unique(model.cluster_centers_, axis=0)
    return centers
