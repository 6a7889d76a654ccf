"""The explanation of a prediction in words: its experts and its fields."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamk.learners.base import Learner
from streamk.learners.explaining import Event, Fields, reasons_of
from streamk.learners.multi_kernel.learner import MultiKernel

_MOST = 10
"""Classes, and fields, that are listed."""


def report(learner: Learner, fields: Fields, x: NDArray[np.float64], event: Event) -> str:
    """Return what there is to say of an event, in lines.

    Parameters
    ----------
    learner : Learner
    fields : Fields
    x : float64 array of shape (d,)
    event : mapping or None
        The values of its fields.
    """
    if not learner.n_events:
        return "nothing is learned yet"
    lines = [_prediction(learner, x)]
    if isinstance(learner, MultiKernel):
        lines += ["", "share of what the experts say:"]
        lines += [f"  {share:6.1%}  {name}" for name, share in learner.shares(x).items()]
    if not learner.takes_missing:
        return "\n".join(lines)
    (reasons,) = reasons_of(learner, fields, x[None], [event])
    on = f"the probability of {learner.predict_one(x)!r}" if learner.is_classifier else "the number"
    lines += ["", f"effect of each field on {on}, against its absence:"]
    for field, value, effect in reasons[:_MOST]:
        is_there = event is None or field in map(str, event)
        said = f"= {value!r}" if value is not None else "is missing" if is_there else "is absent"
        lines.append(f"  {effect:+10.4g}  {field} {said}")
    if len(reasons) > _MOST:
        lines.append(f"  and {len(reasons) - _MOST} fields with less")
    return "\n".join(lines)


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
