"""The explanation of a prediction in words: its experts and its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamk.learners.base import Learner
from streamk.learners.common.predictor import aside
from streamk.learners.multi_kernel.learner import MultiKernel

_MOST = 10
"""Columns that are listed."""
_NUMBERS = 1 << 20
"""Of the events that are predicted at once: bounds the memory where columns are many."""


def attributions(
    learner: Learner, x: NDArray[np.float64], groups: Sequence[Sequence[int]] | None = None
) -> NDArray[np.float64]:
    """Return what each column of an event adds to its prediction, float64 (d,).

    Of a column this is the prediction less what it would be if the column were missing: of the
    predicted class, or of the number.

    Parameters
    ----------
    learner : Learner
        One that takes NaN as missing.
    x : float64 array of shape (d,)
    groups : sequence of m sequences of int, optional
        Places of columns that are missing together; the result is of shape (m,) then.

    Examples
    --------
    >>> import numpy as np
    >>> from streamk.learners import MultiKernel
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = MultiKernel(seed=1)
    >>> model.learn_many(X, X[:, 0] > 0)
    >>> first, second = attributions(model, np.array([2.0, 2.0]))
    >>> bool(first > 0.2 > abs(second))
    True
    """
    parts = [[place] for place in range(len(x))] if groups is None else groups
    answers = np.empty(1 + len(parts))
    at_once = max(1, _NUMBERS // max(1, len(x)))
    number: int | None = None
    for first in range(0, len(answers), at_once):
        rows = np.tile(x, (min(at_once, len(answers) - first), 1))
        for row in range(len(rows)):
            if first + row:
                rows[row, parts[first + row - 1]] = np.nan
        with aside(learner):
            if not learner.is_classifier:
                found = np.asarray(learner.predict_many(rows), dtype=np.float64)
            else:
                if number is None:
                    number = list(learner.classes).index(learner.predict_one(x))
                found = learner.predict_proba_many(rows)[:, number]
        answers[first : first + len(rows)] = found
    return np.asarray(answers[0] - answers[1:])


def report(learner: Learner, x: NDArray[np.float64]) -> str:
    """Return what there is to say of an event, in lines.

    Parameters
    ----------
    learner : Learner
    x : float64 array of shape (d,)
    """
    if not learner.n_events:
        return "nothing is learned yet"
    lines = [_prediction(learner, x)]
    if isinstance(learner, MultiKernel):
        lines += ["", "share of what the experts say:"]
        lines += [f"  {share:6.1%}  {name}" for name, share in learner.shares(x).items()]
    effects = attributions(learner, x)
    on = f"the probability of {learner.predict_one(x)!r}" if learner.is_classifier else "the number"
    lines += ["", f"effect of each column on {on}, against its absence:"]
    order = np.argsort(-np.abs(effects), kind="stable")[:_MOST]
    names: Any = learner.columns
    lines += [f"  {effects[n]:+10.4g}  {names[n]} {_value(x[n])}" for n in order]
    if len(effects) > _MOST:
        lines.append(f"  and {len(effects) - _MOST} columns with less")
    return "\n".join(lines)


def _value(number: float) -> str:
    return "is missing" if np.isnan(number) else f"= {number:g}"


def _prediction(learner: Learner, x: NDArray[np.float64]) -> str:
    if not learner.is_classifier:
        return f"predicted: {learner.predict_one(x):g}"
    probabilities = learner.predict_proba_one(x)
    best = sorted(probabilities, key=lambda label: -probabilities[label])[:_MOST]
    shown = ", ".join(f"{label!r} {probabilities[label]:.1%}" for label in best)
    predicted = learner.predict_one(x)
    if probabilities[predicted] == probabilities[best[0]]:
        return f"predicted: {shown}"
    return f"predicted: {predicted!r} by the class weights; probabilities: {shown}"
