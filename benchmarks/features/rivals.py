"""The same prediction by the libraries that a user has at hand, and products alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from sklearn.kernel_approximation import RBFSampler

from benchmarks.hot import Case, Numbers, Work

NUMPY, TORCH, SKLEARN = "NumPy", "PyTorch", "scikit-learn"


def present() -> list[str]:
    """Rivals that are installed."""
    return [NUMPY, *([TORCH] if importlib.util.find_spec("torch") else []), SKLEARN]


def predictions(case: Case, some: Numbers, names: Sequence[str]) -> dict[str, Work]:
    """Calls that predict the events of a case."""
    makers: dict[str, Callable[[Case, Numbers], Work]] = {
        NUMPY: _numpy,
        TORCH: _torch,
        SKLEARN: _sklearn,
    }
    return {name: makers[name](case, some) for name in names}


def _numpy(case: Case, some: Numbers) -> Work:
    X, _, W, b, a = some
    if case.events == 1:
        x = X[0]
        return lambda: a @ np.cos(x @ W + b)
    return lambda: np.cos(X @ W + b) @ a


def _torch(case: Case, some: Numbers) -> Work:
    import torch

    X, W, b, a = (torch.from_numpy(array) for array in (some.X, some.W, some.b, some.a))
    rows = X[0] if case.events == 1 else X

    def work() -> None:
        with torch.inference_mode():
            torch.cos(rows @ W + b) @ a

    return work


def _sklearn(case: Case, some: Numbers) -> Work:
    X, a = some.X, some.a
    sampler = RBFSampler(gamma=0.5 / case.columns, n_components=case.features, random_state=1).fit(
        X
    )
    return lambda: sampler.transform(X) @ a


def products(some: Numbers) -> dict[str, Work]:
    """The projection alone in the ways to write it: sgemv for one event, sgemm for more."""
    X, W = some.X, some.W
    Xt, Wt = np.ascontiguousarray(X.T), np.ascontiguousarray(W.T)
    if len(X) == 1:
        x, out = X[0], np.empty(W.shape[1], np.float32)
        return {
            "x @ W": partial(np.matmul, x, W, out=out),
            "W.T @ x": partial(np.matmul, Wt, x, out=out),
        }
    out = np.empty((len(X), W.shape[1]), np.float32)
    turned = np.empty((W.shape[1], len(X)), np.float32)
    return {
        "X @ W": partial(np.matmul, X, W, out=out),
        "X @ V.T": partial(np.matmul, X, Wt.T, out=out),
        "V @ X.T": partial(np.matmul, Wt, X.T, out=turned),
        "V @ Y": partial(np.matmul, Wt, Xt, out=turned),
    }
