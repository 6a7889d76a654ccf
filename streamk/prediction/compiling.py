"""Compiles a trained model into one that predicts in microseconds."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from streamk.prediction.compiled import CompiledModel
from streamk.prediction.dc_pred import TreeOptions, fit
from streamk.prediction.scale import as_events
from streamk.prediction.teachers import predicted

__all__ = ["compile"]


def compile(  # noqa: A001 (the name that users look for)
    model: Any,
    X_sample: ArrayLike,
    *,
    budget: float = TreeOptions.budget,
    seed: int = TreeOptions.seed,
) -> CompiledModel:
    """Compile a trained model into a tree of small kernel models, see `dc_pred`.

    The tree learns what the model predicts of a sample of events: probabilities where the model
    has some, else classes or numbers. No labels are needed. Where the model does not decide by
    probability alone, as with `class_weight` or a threshold, the classes have weights by which the
    copy decides the same.

    Parameters
    ----------
    model
        Any learner of streamk; a fitted classifier or regressor with scikit-learn's methods, such
        as `SVC`, `KernelRidge` or gradient boosting; or a model of River.
    X_sample : array or data frame of shape (n, d)
        Events such as those to be predicted, the more the better. NaN is missing; where the model
        takes none, neither may there be any here. Of River's models a data frame, which has names.
    budget : float, default 10
        Multiply-adds for an event over those of a linear model of the same columns and classes.
    seed : int, default 0

    Returns
    -------
    CompiledModel

    Raises
    ------
    InvalidInput
        If an argument cannot be used, or the model predicts what cannot be compiled: several labels
        or numbers, or classes that do not follow from its probabilities by weights.
    BackendUnavailable
        If scikit-learn, whose k-means finds the landmarks, is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from streamk.prediction import compile
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> svc = SVC().fit(X, X[:, 0] * X[:, 1] > 0)
    >>> fast = compile(svc, X)
    >>> bool((fast.predict_many(X) == svc.predict(X)).mean() > 0.98)
    True
    """
    rows = as_events(X_sample, least=2)
    frame = X_sample if hasattr(X_sample, "columns") else None
    columns = getattr(model, "columns", None)
    for names in (getattr(model, "feature_names_in_", None), getattr(frame, "columns", None)):
        if columns is None and names is not None:
            columns = [name if isinstance(name, int) else str(name) for name in names]
    options = TreeOptions(budget=budget, seed=seed)
    return fit(rows, predicted(model, rows, frame), options, columns=columns)
